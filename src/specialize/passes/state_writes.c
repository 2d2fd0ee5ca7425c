// What is written to a state is often the whole of its old value with a part changed, spelled out with masks:
//
//   where(mask, new, old)       old * keep + new * take       scatter_nd(old, ..)       scatter_along_axis(old, ..)
//   slice(concat(old, new))     concat(slice(old), new)       gather_along_axis(concat(old, new), ..)
//
// Such a value becomes an update, which crn_plan_find_updates then lets happen in place. Masks and positions may come from anywhere:
// the step looks at them when it runs and touches what they name.
#include "backend/cpu/fused/state.h"

#include "specialize/match.h"
#include "specialize/passes.h"

typedef struct writes_pass {
  crn_plan *plan;
  crn_plan_index index;
} writes_pass;

static bool is_old_value(const writes_pass *w, uint32_t slot, int32_t state) {
  const crn_step *s = crn_maker_of(w->plan, &w->index, slot);
  return s && s->kind == CRN_STEP_READ && s->state == state;
}

static bool same_type(const writes_pass *w, uint32_t a, uint32_t b) {
  const crn_type *s = w->plan->slot_types[a], *t = w->plan->slot_types[b];
  return s->dtype == t->dtype && s->rank == t->rank;
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

static cairn_status join_write(writes_pass *w, const crn_step *write) {
  crn_step *s = w->index.n_uses[write->in[0]] == 1 ? crn_maker_of(w->plan, &w->index, write->in[0]) : NULL;
  if (!s || s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1) return CAIRN_OK;
  switch (s->id) {
    case CRN_OP_where:
    case CRN_OP_broadcasting_where:
      return join_choose(w, s, write->state);
    case CRN_OP_add:
    case CRN_OP_broadcasting_add:
      return join_blend(w, s, write->state);
    case CRN_OP_slice:
      return join_slice(w, s, write->state);
    case CRN_OP_concat:
      return join_concat(w, s, write->state);
    case CRN_OP_gather_along_axis:
      return join_gather(w, s, write->state);
    case CRN_OP_scatter_nd:
    case CRN_OP_scatter_along_axis:
      join_scatter(w, s, write->state);
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
}

cairn_status crn_pass_state_writes(crn_plan *p) {
  writes_pass w = {.plan = p};
  CRN_TRY(crn_plan_index_create(p, &w.index));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    if (!w.index.is_inner[i] && p->steps[i].kind == CRN_STEP_WRITE) status = join_write(&w, &p->steps[i]);
  }
  crn_plan_index_destroy(&w.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
