// `cache[layer, :, :, a:b] = rows` is exported as a choice between a layer that was changed, spread over all layers, and what was there
// before:
//
//   layer = shrink_dims(slice(old))        changed = slice_update(layer, .., rows)
//   new = where(only this layer, broadcast_in_dims(expand_dims(changed)), old)
//
// and the next layer starts from `new`, so that one value goes through all layers and is written at the end. Every such choice copies the
// whole state. It becomes what other exporters write: an update of the state, its write, and the state read again; the steps that spread
// the layer lend their places. Nobody can tell that the state changes earlier, for only states are taken that are written once, at the end
// of such a chain, and read once before that, at its start.
#include "backend/cpu/fused/state.h"

#include "specialize/match.h"
#include "specialize/passes.h"

typedef struct layers_pass {
  crn_plan *plan;
  crn_plan_index index;
  bool *is_dropped;
} layers_pass;

/// What makes up one choice.
typedef struct layer_write {
  int axis;
  int64_t index;
  uint32_t old;
  crn_step *choice;
  crn_step *expand, *spread;  ///< in front of the choice, in this order; nobody else needs them
  const crn_step *update;
} layer_write;

// The only index of the only dimension the mask varies over where it is `wanted`.
static bool find_layer(const crn_tensor *mask, bool wanted, int rank, layer_write *w) {
  int axis = -1;
  int64_t index = -1;
  if (mask->dtype != CAIRN_BOOL || mask->rank != rank) return false;
  for (int d = 0; d < rank; d++) {
    if (mask->dims[d] != 1 && axis >= 0) return false;
    if (mask->dims[d] != 1) axis = d;
  }
  for (int64_t i = 0; axis >= 0 && i < mask->dims[axis]; i++) {
    bool is_set = *(const uint8_t *)crn_tensor_at(mask, i * mask->strides[axis]) != 0;
    if (is_set != wanted) continue;
    if (index >= 0) return false;
    index = i;
  }
  w->axis = axis;
  w->index = index;
  return index >= 0;
}

static bool holds(const crn_plan *p, uint32_t slot, int64_t wanted) {
  int64_t value;
  int n;
  return crn_match_integers(p, slot, 1, &value, &n) && n == 1 && value == wanted;
}

// Whether the slot holds layer `index` of the old value, without that dimension.
static bool is_old_layer(const layers_pass *l, uint32_t slot, const layer_write *w, int rank) {
  const crn_plan *p = l->plan;
  const crn_step *shrink = crn_match_made(p, &l->index, slot, CRN_OP_shrink_dims, CRN_OP_shrink_dims);
  const crn_step *slice = shrink ? crn_match_made(p, &l->index, shrink->in[0], CRN_OP_slice, CRN_OP_slice) : NULL;
  int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK];
  int n[3];
  if (!slice || slice->in[0] != w->old || !holds(p, shrink->in[1], w->axis)) return false;
  if (!crn_match_integers(p, slice->in[1], CAIRN_MAX_RANK, start, &n[0]) ||
      !crn_match_integers(p, slice->in[2], CAIRN_MAX_RANK, end, &n[1]) ||
      !crn_match_integers(p, slice->in[3], CAIRN_MAX_RANK, stride, &n[2]) || n[0] != rank || n[1] != rank || n[2] != rank)
    return false;
  for (int d = 0; d < rank; d++) {
    bool is_axis = d == w->axis;
    if (stride[d] != 1 || start[d] != (is_axis ? w->index : 0) || (is_axis ? end[d] != w->index + 1 : end[d] < INT32_MAX)) return false;
  }
  return true;
}

static bool match_side(const layers_pass *l, crn_step *s, int side, layer_write *w) {
  const crn_plan *p = l->plan;
  const crn_type *type = p->slot_types[s->out[0]], *old = p->slot_types[s->in[side]];
  const crn_tensor *mask = crn_constant_of(p, s->in[0]);
  *w = (layer_write){.old = s->in[side], .choice = s};
  if (!mask || old->rank != type->rank || old->dtype != type->dtype) return false;
  // The choice may not make the state larger.
  if (!find_layer(mask, side == 2, type->rank, w) || old->dims[w->axis] != mask->dims[w->axis]) return false;
  w->spread = crn_match_own(p, &l->index, s->in[3 - side], CRN_OP_broadcast_in_dims, CRN_OP_broadcast_to);
  w->expand = w->spread ? crn_match_own(p, &l->index, w->spread->in[0], CRN_OP_expand_dims, CRN_OP_expand_dims) : NULL;
  if (!w->expand || !holds(p, w->expand->in[1], w->axis) || p->slot_types[w->expand->in[0]]->rank != type->rank - 1) return false;
  if (p->slot_types[w->spread->out[0]]->dtype != type->dtype) return false;
  const crn_step *update = l->index.n_uses[w->expand->in[0]] == 1 ? crn_maker_of(p, &l->index, w->expand->in[0]) : NULL;
  bool is_update = update && update->kind == CRN_STEP_UPDATE && update->id == CRN_OP_slice_update && !update->fused && update->n_in == 5;
  if (is_update && is_old_layer(l, update->in[0], w, type->rank)) w->update = update;
  return w->update != NULL;
}

static bool match_choice(const layers_pass *l, crn_step *s, layer_write *w) {
  if (!s || l->index.is_inner[s - l->plan->steps] || !(crn_step_is(s, CRN_OP_where) || crn_step_is(s, CRN_OP_broadcasting_where)))
    return false;
  return match_side(l, s, 2, w) || match_side(l, s, 1, w);
}

static cairn_status slots_of(crn_plan *p, const uint32_t *slots, uint32_t n, uint32_t **out) {
  CRN_TRY(crn_arena_array(&p->arena, n, sizeof **out, out));
  for (uint32_t i = 0; i < n; i++) (*out)[i] = slots[i];
  return CAIRN_OK;
}

// expand -> the update, spread -> its write, the choice -> the state's new value.
static cairn_status rewrite(layers_pass *l, int32_t state, const layer_write *w) {
  crn_plan *p = l->plan;
  crn_step *s = w->choice;
  const uint32_t value = w->spread->out[0], *u = w->update->in;
  crn_fused_layer *f;
  uint32_t *in, *out, *written;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(slots_of(p, (uint32_t[]){w->old, u[1], u[2], u[3], u[4]}, 5, &in));
  CRN_TRY(slots_of(p, &value, 1, &out));
  CRN_TRY(slots_of(p, &value, 1, &written));
  *f = (crn_fused_layer){w->axis, w->index};
  p->slot_types[value] = p->slot_types[s->out[0]];
  *w->expand = (crn_step){.kind = CRN_STEP_UPDATE,
                          .op = w->update->op,
                          .id = w->update->id,
                          .infer = crn_infer_fused_state,
                          .kernel = crn_fused_layer_run,
                          .update = crn_fused_layer_update,
                          .n_in = 5,
                          .n_out = 1,
                          .in = in,
                          .out = out,
                          .state = CRN_NO_STATE,
                          .name = "layer_update",
                          .fused = f};
  *w->spread = (crn_step){.kind = CRN_STEP_WRITE, .op = s->op, .id = CRN_OP_write_handle, .n_in = 1, .in = written, .state = state};
  *s = (crn_step){.kind = CRN_STEP_READ, .op = s->op, .id = CRN_OP_read_handle, .n_out = 1, .out = s->out, .state = state};
  l->index.made_by[value] = CRN_NO_STEP;
  return CAIRN_OK;
}

// The only write of a state, and the only read in front of it; NULL where there are none or several, or where one lies in a body.
static const crn_step *only_write(const layers_pass *l, int32_t state) {
  const crn_plan *p = l->plan;
  const crn_step *found = NULL;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind != CRN_STEP_WRITE || p->steps[i].state != state) continue;
    if (found || l->index.is_inner[i]) return NULL;
    found = &p->steps[i];
  }
  return found;
}

static const crn_step *only_read_before(const layers_pass *l, const crn_step *write) {
  const crn_step *found = NULL;
  for (const crn_step *s = l->plan->steps; s < write; s++) {
    if (s->kind != CRN_STEP_READ || s->state != write->state) continue;
    if (found || l->index.is_inner[s - l->plan->steps]) return NULL;
    found = s;
  }
  return found;
}

// From the written value back to the one that was read; false where not all between are choices of layers.
static bool is_chain(const layers_pass *l, const crn_step *read, const crn_step *write, uint32_t *out_n) {
  uint32_t slot = write->in[0];
  layer_write w;
  for (*out_n = 0; slot != read->out[0]; (*out_n)++) {
    if (!match_choice(l, crn_maker_of(l->plan, &l->index, slot), &w)) return false;
    slot = w.old;
  }
  return *out_n > 0;
}

static cairn_status take_state(layers_pass *l, int32_t state) {
  const crn_step *write = only_write(l, state), *read = write ? only_read_before(l, write) : NULL;
  uint32_t n, slot;
  layer_write w;
  if (!read || !is_chain(l, read, write, &n)) return CAIRN_OK;
  for (slot = write->in[0]; n > 0 && match_choice(l, crn_maker_of(l->plan, &l->index, slot), &w); slot = w.old, n--) {
    CRN_TRY(rewrite(l, state, &w));
  }
  l->is_dropped[write - l->plan->steps] = true;
  return CAIRN_OK;
}

static bool has_control(const crn_plan *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].kind == CRN_STEP_IF || p->steps[i].kind == CRN_STEP_LOOP) return true;
  }
  return false;
}

cairn_status crn_pass_layer_writes(crn_plan *p) {
  const cairn_allocator *a = &p->context->allocator;
  const uint32_t n = p->n_steps;
  layers_pass l = {.plan = p};
  // Branches may read and write states, too.
  if (p->n_states == 0 || has_control(p)) return CAIRN_OK;
  CRN_TRY(crn_plan_index_create(p, &l.index));
  cairn_status status = crn_alloc_array(a, n, sizeof *l.is_dropped, &l.is_dropped);
  for (uint32_t i = 0; i < p->n_states && status == CAIRN_OK; i++) status = take_state(&l, (int32_t)i);
  if (status == CAIRN_OK) status = crn_plan_drop(p, l.is_dropped);
  crn_free(a, l.is_dropped, n * sizeof *l.is_dropped);
  crn_plan_index_destroy(&l.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
