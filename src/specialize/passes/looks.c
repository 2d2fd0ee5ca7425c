// Which part of a cache a step is about is different in every run: the rows that are written, and a layer of it, cut to the rows there are,
// that attention sees. Programs compute bounds and views by steps of their own. Here the steps that use them take them over:
//
//   slice_update(cache, concat(.., start, ..), concat(.., end, ..), 1, new)  ->  slice_update(cache, new, start, end)
//   attention(q, view(keys, .., end), view(values, .., end))                 ->  attention(q, keys, values, end)
//
// so that nothing has to be prepared again for them. Views go into the body of the composite, where they are computed if its kernel
// declines.
#include "backend/cpu/fused/looks.h"

#include <string.h>

#include "backend/cpu/fused/chain.h"
#include "backend/cpu/fused/state.h"
#include "backend/cpu/ref/ref.h"
#include "specialize/match.h"
#include "specialize/passes.h"

enum { MOST_ENDS = 4, WHOLE = INT32_MAX };

typedef struct looks_pass {
  crn_plan *plan;
  crn_plan_index index;
} looks_pass;

// --- bounds -------------------------------------------------------------------------------------------------------------------

/// A number of a vector: a constant, or the only element of a slot.
typedef struct number {
  bool is_constant;
  int32_t value;
  uint32_t slot;
} number;

static bool add_part(const looks_pass *l, uint32_t slot, number *out, int most, int *n) {
  const crn_type *t = l->plan->slot_types[slot];
  int64_t values[CAIRN_MAX_RANK];
  int count;
  if (crn_match_integers(l->plan, slot, CAIRN_MAX_RANK, values, &count)) {
    for (int i = 0; i < count; i++, ++*n) {
      if (*n == most || values[i] < INT32_MIN) return false;
      out[*n] = (number){.is_constant = true, .value = values[i] > WHOLE ? WHOLE : (int32_t)values[i]};
    }
    return true;
  }
  if (*n == most || t->dtype != CAIRN_SI32 || t->rank > 1 || (t->rank == 1 && t->dims[0] != 1)) return false;
  out[(*n)++] = (number){.slot = slot};
  return true;
}

// The elements of a vector of `n` integers that is a constant or is put together of constants and single numbers.
static bool read_vector(const looks_pass *l, uint32_t slot, int n, number *out) {
  const crn_step *s = crn_match_made(l->plan, &l->index, slot, CRN_OP_concat, CRN_OP_concat);
  int at = 0;
  if (!s) return add_part(l, slot, out, n, &at) && at == n && out[0].is_constant;
  for (uint32_t k = 1; k < s->n_in; k++) {
    if (!add_part(l, s->in[k], out, n, &at)) return false;
  }
  return at == n;
}

/// The operands that hold bounds, behind the `first` others of a step.
typedef struct ends {
  uint32_t slots[MOST_ENDS];
  int n, first;
} ends;

// The number of the operand for a bound; 0 for a constant, -1 when there are too many.
static int8_t end_of(ends *e, const number *x) {
  if (x->is_constant) return 0;
  for (int i = 0; i < e->n; i++) {
    if (e->slots[i] == x->slot) return (int8_t)(e->first + i);
  }
  if (e->n == MOST_ENDS) return -1;
  e->slots[e->n] = x->slot;
  return (int8_t)(e->first + e->n++);
}

static cairn_status set_operands(looks_pass *l, crn_step *s, const uint32_t *in, uint32_t n, const ends *e) {
  uint32_t *list;
  CRN_TRY(crn_arena_array(&l->plan->arena, n + (uint32_t)e->n, sizeof *list, &list));
  for (uint32_t k = 0; k < n; k++) list[k] = in[k];
  for (int k = 0; k < e->n; k++) list[n + (uint32_t)k] = e->slots[k];
  s->in = list;
  s->n_in = n + (uint32_t)e->n;
  return CAIRN_OK;
}

// --- writes -------------------------------------------------------------------------------------------------------------------

// The state whose value the slot holds, else CRN_NO_STATE.
static int32_t state_of(const looks_pass *l, uint32_t slot) {
  const crn_step *s = crn_maker_of(l->plan, &l->index, slot);
  return s && s->kind == CRN_STEP_READ ? s->state : CRN_NO_STATE;
}

static cairn_status take_bounds(looks_pass *l, crn_step *s) {
  crn_plan *p = l->plan;
  const int rank = p->slot_types[s->out[0]]->rank;
  number start[CRN_LOOK_DIMS], end[CRN_LOOK_DIMS], stride[CRN_LOOK_DIMS];
  crn_fused_place f = {.rank = (int8_t)rank}, *kept;
  ends e = {.first = 2};
  if (rank > CRN_LOOK_DIMS || s->n_in != 5 || state_of(l, s->in[0]) == CRN_NO_STATE) return CAIRN_OK;
  if (!read_vector(l, s->in[1], rank, start) || !read_vector(l, s->in[2], rank, end) || !read_vector(l, s->in[3], rank, stride))
    return CAIRN_OK;
  for (int d = 0; d < rank; d++) {
    if (!stride[d].is_constant || stride[d].value != 1) return CAIRN_OK;
    f.start_at[d] = end_of(&e, &start[d]);
    f.end_at[d] = end_of(&e, &end[d]);
    f.start[d] = start[d].value;
    f.end[d] = end[d].value;
    if (f.start_at[d] < 0 || f.end_at[d] < 0) return CAIRN_OK;
  }
  // With constant bounds there is nothing to prepare.
  if (e.n == 0) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *kept, &kept));
  CRN_TRY(set_operands(l, s, (uint32_t[]){s->in[0], s->in[4]}, 2, &e));
  *kept = f;
  s->name = "slice_update";
  s->fused = kept;
  s->infer = crn_infer_fused_state;
  s->kernel = crn_fused_place_run;
  s->update = crn_fused_place_update;
  return CAIRN_OK;
}

// --- views --------------------------------------------------------------------------------------------------------------------

/// What a chain of views leaves of its operand, by dims of the operand.
typedef struct sight {
  int rank, from[CAIRN_MAX_RANK];  ///< of the view: the dims it has
  number end[CAIRN_MAX_RANK];      ///< WHOLE = not cut
  bool is_picked[CAIRN_MAX_RANK];  ///< one index is left
  int32_t pick[CAIRN_MAX_RANK];
} sight;

static bool is_number(const number *x, int32_t value) { return x->is_constant && x->value == value; }

static bool see_bounds(sight *v, int dim, int64_t size, const number *start, const number *end) {
  if (!start->is_constant || start->value < 0) return false;
  const bool is_from_start = start->value == 0;
  if (is_from_start && end->is_constant && (end->value == WHOLE || end->value == size)) return true;
  // Of one index it is all that there is to see.
  if (v->is_picked[dim]) return is_from_start && end->is_constant && end->value >= 1;
  if (!is_number(&v->end[dim], WHOLE)) return false;
  v->is_picked[dim] = end->is_constant && end->value == start->value + 1;
  v->pick[dim] = start->value;
  if (!v->is_picked[dim]) v->end[dim] = *end;
  return v->is_picked[dim] || is_from_start;
}

static bool see_slice(const looks_pass *l, const uint32_t *more, const crn_type *type, sight *v) {
  number start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK];
  if (!read_vector(l, more[0], v->rank, start) || !read_vector(l, more[1], v->rank, end) || !read_vector(l, more[2], v->rank, stride))
    return false;
  for (int d = 0; d < v->rank; d++) {
    if (!is_number(&stride[d], 1) || !see_bounds(v, v->from[d], type->dims[d], &start[d], &end[d])) return false;
  }
  return true;
}

static bool see_shrink(const looks_pass *l, uint32_t axes, sight *v) {
  int64_t values[CAIRN_MAX_RANK];
  bool is_dropped[CAIRN_MAX_RANK] = {false};
  int n, kept = 0;
  if (!crn_match_integers(l->plan, axes, CAIRN_MAX_RANK, values, &n)) return false;
  for (int i = 0; i < n; i++) {
    const int64_t axis = values[i] < 0 ? values[i] + v->rank : values[i];
    if (axis < 0 || axis >= v->rank || !v->is_picked[v->from[axis]]) return false;
    is_dropped[axis] = true;
  }
  for (int d = 0; d < v->rank; d++) {
    if (!is_dropped[d]) v->from[kept++] = v->from[d];
  }
  v->rank = kept;
  return true;
}

static bool see_transpose(const looks_pass *l, uint32_t order, sight *v) {
  int64_t values[CAIRN_MAX_RANK];
  int n, from[CAIRN_MAX_RANK];
  if (!crn_match_integers(l->plan, order, CAIRN_MAX_RANK, values, &n) || n != v->rank) return false;
  for (int d = 0; d < n; d++) {
    if (values[d] < -n || values[d] >= n) return false;
    from[d] = v->from[values[d] < 0 ? values[d] + n : values[d]];
  }
  memcpy(v->from, from, sizeof from);
  return true;
}

static bool see_link(const looks_pass *l, crn_op_id id, const uint32_t *more, int n_more, const crn_type *type, sight *v) {
  if (id == CRN_OP_slice) return n_more == 3 && see_slice(l, more, type, v);
  if (id == CRN_OP_shrink_dims) return n_more == 1 && see_shrink(l, more[0], v);
  return id == CRN_OP_transpose && n_more == 1 && see_transpose(l, more[0], v);
}

// What the step sees of its operand 0, when that are whole dims, dims cut behind an end, and single indices.
static bool find_sight(const looks_pass *l, const crn_step *s, sight *v) {
  const crn_type *type = l->plan->slot_types[s->in[0]];
  if (s->kind != CRN_STEP_KERNEL || s->n_out != 1 || !s->view) return false;
  *v = (sight){.rank = type->rank};
  for (int d = 0; d < v->rank; d++) {
    v->from[d] = d;
    v->end[d] = (number){.is_constant = true, .value = WHOLE};
  }
  if (!s->fused) return see_link(l, s->id, s->in + 1, (int)s->n_in - 1, type, v);
  if (s->infer != crn_infer_fused_chain) return false;
  const crn_fused_chain *chain = s->fused;
  const uint32_t *more = s->in + 1;
  for (int i = 0; i < chain->n; i++) {
    const crn_chain_link *link = &chain->links[i];
    if (!see_link(l, link->id, more, link->n_more, type, v)) return false;
    more += link->n_more;
    type = link->type;
  }
  return true;
}

static bool make_look(const sight *v, int base_rank, ends *e, crn_look *out) {
  *out = (crn_look){.rank = (int8_t)v->rank};
  bool is_seen[CAIRN_MAX_RANK] = {false};
  if (v->rank < 1 || v->rank > CRN_LOOK_DIMS) return false;
  for (int d = 0; d < v->rank; d++) {
    const int from = v->from[d];
    if (v->is_picked[from]) return false;
    is_seen[from] = true;
    out->from[d] = (int8_t)from;
    out->end[d] = v->end[from].value;
    out->end_at[d] = end_of(e, &v->end[from]);
    if (out->end_at[d] < 0) return false;
  }
  for (int d = 0; d < base_rank; d++) {
    if (is_seen[d]) continue;
    if (!v->is_picked[d] || out->n_picks == CRN_LOOK_PICKS) return false;
    out->pick_dim[out->n_picks] = (int8_t)d;
    out->pick[out->n_picks++] = v->pick[d];
  }
  return true;
}

// --- attention ----------------------------------------------------------------------------------------------------------------

static bool touches(const crn_step *s, int32_t state) {
  return (s->kind == CRN_STEP_READ || s->kind == CRN_STEP_WRITE || s->kind == CRN_STEP_UPDATE) && s->state == state;
}

// Whether the step at `view` may as well be computed behind `attention`, for it and its body only.
static bool may_move(const looks_pass *l, uint32_t view, uint32_t attention, int32_t state) {
  const crn_plan *p = l->plan;
  const uint32_t slot = p->steps[view].out[0], last = p->steps[attention].body_end ? p->steps[attention].body_end : attention;
  uint32_t n = 0;
  for (uint32_t i = view + 1; i <= last; i++) {
    const crn_step *s = &p->steps[i];
    if (i < attention && (touches(s, state) || s->kind == CRN_STEP_IF || s->kind == CRN_STEP_LOOP)) return false;
    for (uint32_t k = 0; k < s->n_in && i >= attention; k++) n += s->in[k] == slot;
  }
  return n == l->index.n_uses[slot];
}

// Moves a step behind the attention that follows it, to be the first one of its body. Ends and targets between the two move up by one.
static void move_step(crn_plan *p, uint32_t from, uint32_t attention) {
  crn_step moved;
  memcpy((void *)&moved, (const void *)&p->steps[from], sizeof moved);
  memmove((void *)&p->steps[from], (const void *)&p->steps[from + 1], (attention - from) * sizeof *p->steps);
  memcpy((void *)&p->steps[attention], (const void *)&moved, sizeof moved);
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (s->body_end > from && s->body_end < attention) s->body_end--;
    if (s->target > from && s->target <= attention) s->target--;
  }
}

// The view that operand `k` of the attention is, if attention can look for itself.
static const crn_step *find_view(const looks_pass *l, uint32_t at, uint32_t k, ends *e, crn_look *out) {
  const crn_plan *p = l->plan;
  const crn_step *view = crn_maker_of(p, &l->index, p->steps[at].in[k]);
  const int32_t state = view && view->n_in ? state_of(l, view->in[0]) : CRN_NO_STATE;
  sight v;
  ends more = *e;
  *out = (crn_look){0};
  if (state == CRN_NO_STATE || !find_sight(l, view, &v) || !may_move(l, (uint32_t)(view - p->steps), at, state)) return NULL;
  if (!make_look(&v, p->slot_types[view->in[0]]->rank, &more, out)) {
    *out = (crn_look){0};
    return NULL;
  }
  *e = more;
  return view;
}

static bool read_terms(const crn_step *s, crn_attention_terms *out) {
  crn_tensor none[CRN_LOOK_INNER];
  const crn_kernel_args args = {
      .id = s->id, .attrs = s->composite->attrs, .input_names = s->composite->input_names, .n_operands = (int)s->n_in, .operands = none};
  if (crn_attention_read_terms(&args, out) == CAIRN_OK) return true;
  crn_error_clear();
  return false;
}

static cairn_status take_views(looks_pass *l, uint32_t at) {
  crn_plan *p = l->plan;
  crn_step *s = &p->steps[at];
  crn_fused_looks f = {.n_inner = (int)s->n_in}, *kept;
  uint32_t in[CRN_LOOK_INNER], moved[CRN_LOOKS], n_moved = 0;
  ends e = {.first = (int)s->n_in};
  if (s->n_in < 3 || s->n_in > CRN_LOOK_INNER || s->composite->n_inputs != s->n_in || s->in[1] == s->in[2]) return CAIRN_OK;
  if (!read_terms(s, &f.terms)) return CAIRN_OK;
  for (uint32_t k = 0; k < s->n_in; k++) in[k] = s->in[k];
  for (uint32_t k = 1; k <= CRN_LOOKS; k++) {
    const crn_step *view = find_view(l, at, k, &e, &f.looks[k - 1]);
    if (!view) continue;
    in[k] = view->in[0];
    moved[n_moved++] = (uint32_t)(view - p->steps);
  }
  if (!n_moved) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *kept, &kept));
  *kept = f;
  CRN_TRY(set_operands(l, s, in, s->n_in, &e));
  s->name = "view+scaled_dot_product_attention";
  s->fused = kept;
  s->infer = crn_infer_fused_looks;
  s->kernel = crn_fused_looks_run;
  // Without a body nobody reads the views any more. The later one first, so that the place of the other stays what it is.
  if (n_moved == 2 && moved[0] > moved[1]) {
    const uint32_t first = moved[1];
    moved[1] = moved[0], moved[0] = first;
  }
  const bool has_body = s->body_end != 0;  // the step itself moves, too
  for (uint32_t k = 0; k < n_moved && has_body; k++) move_step(p, moved[n_moved - 1 - k], at - k);
  return CAIRN_OK;
}

static bool is_plain_attention(const crn_step *s) {
  return s->kind == CRN_STEP_COMPOSITE && !s->fused && s->kernel == crn_ref_scaled_dot_product_attention;
}

cairn_status crn_pass_looks(crn_plan *p) {
  looks_pass l = {.plan = p};
  CRN_TRY(crn_plan_index_create(p, &l.index));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    const crn_step *s = &p->steps[i];
    if (!l.index.is_inner[i] && s->kind == CRN_STEP_UPDATE && s->id == CRN_OP_slice_update && !s->fused)
      status = take_bounds(&l, &p->steps[i]);
  }
  crn_plan_index_destroy(&l.index);
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    if (!is_plain_attention(&p->steps[i])) continue;
    CRN_TRY(crn_plan_index_create(p, &l.index));
    if (!l.index.is_inner[i]) status = take_views(&l, i);
    crn_plan_index_destroy(&l.index);
  }
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
