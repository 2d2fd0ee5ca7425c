// What is written to a state is often the whole of its old value with a part changed, spelled out with masks:
//
//   where(mask, new, old)       old * keep + new * take       scatter_nd(old, ..)       scatter_along_axis(old, ..)
//   slice(concat(old, new))     concat(slice(old), new)       gather_along_axis(concat(old, new), ..)
//
// Such a value becomes an update, which crn_plan_find_updates then lets happen in place. So do the values it was made of in several steps,
// as of a cache that one layer after the other writes to. Masks and positions may come from anywhere: the step looks at them when it runs
// and touches what they name.
#include "backend/cpu/fused/state.h"

#include "specialize/match.h"
#include "specialize/passes.h"

typedef struct writes_pass {
  crn_plan *plan;
  crn_plan_index index;
  int32_t *goes_to;  ///< by slot: 1 + the state that it may become a part of, 0 = none
  bool is_written;   ///< what the present step makes is what is written
} writes_pass;

// The value of the state that was read, or what updates made of it.
static bool is_old_value(const writes_pass *w, uint32_t slot, int32_t state) {
  const crn_step *s = crn_maker_of(w->plan, &w->index, slot);
  while (s && s->kind == CRN_STEP_UPDATE) s = crn_maker_of(w->plan, &w->index, s->in[0]);
  return s && s->kind == CRN_STEP_READ && s->state == state;
}

static bool is_alike(const writes_pass *w, uint32_t a, uint32_t b) {
  const crn_type *s = w->plan->slot_types[a], *t = w->plan->slot_types[b];
  return s->dtype == t->dtype && s->rank == t->rank;
}

// An update is as large as the old value. What is written has the size of the state, or it is refused; on the way sizes must be known.
static bool same_type(const writes_pass *w, uint32_t a, uint32_t b) {
  const crn_type *s = w->plan->slot_types[a], *t = w->plan->slot_types[b];
  if (!is_alike(w, a, b)) return false;
  for (int d = 0; d < s->rank; d++) {
    const bool is_known = s->dims[d] >= 0 && t->dims[d] >= 0;
    if (is_known ? s->dims[d] != t->dims[d] : !w->is_written) return false;
  }
  return true;
}

static cairn_status make_update(writes_pass *w, crn_step *s, const char *name, const uint32_t *in, uint32_t n, const void *parameters,
                                crn_kernel_fn kernel, crn_update_fn update) {
  uint32_t *list;
  CRN_TRY(crn_arena_array(&w->plan->arena, n, sizeof *list, &list));
  for (uint32_t i = 0; i < n; i++) list[i] = in[i];
  s->kind = CRN_STEP_UPDATE;
  s->name = name;
  s->in = list;
  s->n_in = n;
  s->fused = parameters;
  s->infer = crn_infer_fused_state;
  s->kernel = kernel;
  s->update = update;
  s->view = NULL;
  return CAIRN_OK;
}

static cairn_status join_choose(writes_pass *w, crn_step *s, int32_t state) {
  for (int side = 1; side <= 2; side++) {
    uint32_t old = s->in[side], new = s->in[3 - side];
    if (!is_old_value(w, old, state) || is_old_value(w, new, state) || !same_type(w, old, s->out[0])) continue;
    if (w->plan->slot_types[s->in[0]]->dtype != CAIRN_BOOL || w->plan->slot_types[new]->dtype != w->plan->slot_types[old]->dtype) continue;
    crn_fused_choose *f;
    CRN_TRY(crn_arena_alloc(&w->plan->arena, sizeof *f, &f));
    f->is_inverted = side == 1;
    return make_update(w, s, "choose_update", (uint32_t[]){old, new, s->in[0]}, 3, f, crn_fused_choose_run, crn_fused_choose_update);
  }
  return CAIRN_OK;
}

static cairn_status join_blend(writes_pass *w, crn_step *s, int32_t state) {
  static const bool parameters = true;
  const crn_plan *p = w->plan;
  for (int side = 0; side < 2; side++) {
    const crn_step *kept = crn_match_own(p, &w->index, s->in[side], CRN_OP_broadcasting_mul, CRN_OP_mul);
    const crn_step *taken = crn_match_own(p, &w->index, s->in[1 - side], CRN_OP_broadcasting_mul, CRN_OP_mul);
    if (!kept || !taken || !crn_is_small_float(p->slot_types[s->out[0]]->dtype)) continue;
    for (int k = 0; k < 2; k++) {
      if (!is_old_value(w, kept->in[k], state) || !same_type(w, kept->in[k], s->out[0])) continue;
      // Which factor of the other product is the mask makes no difference to the values, only to what can be left out.
      bool second = p->slot_types[taken->in[0]]->rank <= p->slot_types[kept->in[1 - k]]->rank && taken->in[0] != kept->in[1 - k] &&
                    p->slot_types[taken->in[1]]->rank > p->slot_types[taken->in[0]]->rank;
      uint32_t new = taken->in[second ? 1 : 0], take = taken->in[second ? 0 : 1];
      if (is_old_value(w, new, state) || is_old_value(w, take, state)) continue;
      return make_update(w, s, "blend_update", (uint32_t[]){kept->in[k], new, kept->in[1 - k], take}, 4, &parameters, crn_fused_blend_run,
                         crn_fused_blend_update);
    }
  }
  return CAIRN_OK;
}

static bool find_axis(const writes_pass *w, const crn_step *concat, int rank, int *out_axis) {
  int64_t axis;
  int n;
  if (concat->n_in != 3 || !crn_match_integers(w->plan, concat->in[0], 1, &axis, &n) || n != 1) return false;
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  return *out_axis >= 0 && *out_axis < rank;
}

static cairn_status make_shift(writes_pass *w, crn_step *s, uint32_t old, uint32_t new, const crn_step *slice, int axis, bool cuts_old) {
  crn_fused_shift *f;
  CRN_TRY(crn_arena_alloc(&w->plan->arena, sizeof *f, &f));
  *f = (crn_fused_shift){axis, cuts_old};
  return make_update(w, s, "shift_update", (uint32_t[]){old, new, slice->in[1], slice->in[2], slice->in[3]}, 5, f, crn_fused_shift_run,
                     crn_fused_shift_update);
}

static cairn_status join_slice(writes_pass *w, crn_step *s, int32_t state) {
  const crn_step *concat = crn_match_own(w->plan, &w->index, s->in[0], CRN_OP_concat, CRN_OP_concat);
  int axis, rank = w->plan->slot_types[s->out[0]]->rank;
  if (!concat || !find_axis(w, concat, rank, &axis) || !is_old_value(w, concat->in[1], state) || !same_type(w, concat->in[1], s->out[0]))
    return CAIRN_OK;
  return make_shift(w, s, concat->in[1], concat->in[2], s, axis, false);
}

static cairn_status join_concat(writes_pass *w, crn_step *s, int32_t state) {
  int axis, rank = w->plan->slot_types[s->out[0]]->rank;
  if (!find_axis(w, s, rank, &axis)) return CAIRN_OK;
  const crn_step *slice = crn_match_own(w->plan, &w->index, s->in[1], CRN_OP_slice, CRN_OP_slice);
  if (!slice || !is_old_value(w, slice->in[0], state) || !same_type(w, slice->in[0], s->out[0])) return CAIRN_OK;
  return make_shift(w, s, slice->in[0], s->in[2], slice, axis, true);
}

static cairn_status join_gather(writes_pass *w, crn_step *s, int32_t state) {
  const crn_step *concat = crn_match_own(w->plan, &w->index, s->in[0], CRN_OP_concat, CRN_OP_concat);
  int64_t along;
  int axis, n, rank = w->plan->slot_types[s->out[0]]->rank;
  if (!concat || !find_axis(w, concat, rank, &axis) || !is_old_value(w, concat->in[1], state) || !same_type(w, concat->in[1], s->out[0]))
    return CAIRN_OK;
  if (!crn_match_integers(w->plan, s->in[2], 1, &along, &n) || n != 1 || (along < 0 ? along + rank : along) != axis) return CAIRN_OK;
  crn_fused_shift *f;
  CRN_TRY(crn_arena_alloc(&w->plan->arena, sizeof *f, &f));
  f->axis = axis;
  return make_update(w, s, "roll_update", (uint32_t[]){concat->in[1], concat->in[2], s->in[1]}, 3, f, crn_fused_roll_run,
                     crn_fused_roll_update);
}

// The kernels themselves can work on the old value.
static void join_scatter(const writes_pass *w, crn_step *s, int32_t state) {
  if (!is_old_value(w, s->in[0], state) || !same_type(w, s->in[0], s->out[0]) || s->n_in > 4) return;
  if (s->id == CRN_OP_scatter_along_axis && s->op->attr.mode != CRN_SCATTER_UPDATE) return;
  s->kind = CRN_STEP_UPDATE;
  s->update = s->id == CRN_OP_scatter_nd ? crn_scatter_nd_update : crn_scatter_along_axis_update;
}

static cairn_status join_step(writes_pass *w, crn_step *s, int32_t state) {
  switch (s->id) {
    case CRN_OP_where:
    case CRN_OP_broadcasting_where:
      return join_choose(w, s, state);
    case CRN_OP_add:
    case CRN_OP_broadcasting_add:
      return join_blend(w, s, state);
    case CRN_OP_slice:
      return join_slice(w, s, state);
    case CRN_OP_concat:
      return join_concat(w, s, state);
    case CRN_OP_gather_along_axis:
      return join_gather(w, s, state);
    case CRN_OP_scatter_nd:
    case CRN_OP_scatter_along_axis:
      join_scatter(w, s, state);
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
}

// What an update is spelled out with.
static bool may_be_part(const crn_step *s) {
  if (s->fused || s->n_out != 1) return false;
  switch (s->id) {
    case CRN_OP_where:
    case CRN_OP_broadcasting_where:
    case CRN_OP_add:
    case CRN_OP_broadcasting_add:
    case CRN_OP_mul:
    case CRN_OP_broadcasting_mul:
    case CRN_OP_slice:
    case CRN_OP_concat:
    case CRN_OP_gather_along_axis:
    case CRN_OP_scatter_nd:
    case CRN_OP_scatter_along_axis:
      return s->kind == CRN_STEP_KERNEL;
    default:
      return s->kind == CRN_STEP_UPDATE;
  }
}

// Backwards from what is written.
static void find_parts(const writes_pass *w) {
  const crn_plan *p = w->plan;
  for (uint32_t i = p->n_steps; i-- > 0;) {
    const crn_step *s = &p->steps[i];
    if (w->index.is_inner[i]) continue;
    if (s->kind == CRN_STEP_WRITE) w->goes_to[s->in[0]] = 1 + s->state;
    if (!may_be_part(s) || !w->goes_to[s->out[0]]) continue;
    for (uint32_t k = 0; k < s->n_in; k++) {
      if (is_alike(w, s->in[k], s->out[0])) w->goes_to[s->in[k]] = w->goes_to[s->out[0]];
    }
  }
}

// Whether the state is given this value itself.
static bool is_written_by(const crn_plan *p, uint32_t slot, int32_t state) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind == CRN_STEP_WRITE && p->steps[i].state == state && p->steps[i].in[0] == slot) return true;
  }
  return false;
}

static cairn_status join_all(writes_pass *w) {
  const crn_plan *p = w->plan;
  find_parts(w);
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (w->index.is_inner[i] || s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1 || !w->goes_to[s->out[0]]) continue;
    const int32_t state = w->goes_to[s->out[0]] - 1;
    w->is_written = is_written_by(p, s->out[0], state);
    CRN_TRY(join_step(w, s, state));
  }
  return CAIRN_OK;
}

cairn_status crn_pass_state_writes(crn_plan *p) {
  const cairn_allocator *a = &p->context->allocator;
  writes_pass w = {.plan = p};
  if (p->n_states == 0) return CAIRN_OK;
  CRN_TRY(crn_plan_index_create(p, &w.index));
  cairn_status status = crn_alloc_array(a, p->n_slots, sizeof *w.goes_to, &w.goes_to);
  if (status == CAIRN_OK) status = join_all(&w);
  crn_free(a, w.goes_to, p->n_slots * sizeof *w.goes_to);
  crn_plan_index_destroy(&w.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
