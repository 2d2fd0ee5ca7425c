// gather_mm on a constant stack of matrices works on packed ones: no expert is ever expanded. What is done to the products right away is
// done in the same step:
//
//   silu(gather(x)) * gather(x)             gate (gelu too); both stacks are packed tile by tile in turn
//   sum over c of gather(x)[.., c, :] * f[.., c, :]      the weighted sum of the chosen experts, with the changes of shape and type that
//                                                        stand in front of it and behind it, and a residual
//
// Stacks are packed last, when it is known what goes together. Called in front of the pass that makes products (linear.c): sizes are
// followed through the ops of the program.
#include "backend/cpu/fused/gather.h"

#include <string.h>

#include "specialize/match.h"
#include "specialize/passes.h"
#include "specialize/shapes.h"

/// A gather_mm with a constant stack, by the index of its step.
typedef struct candidate {
  bool is_product;
  bool is_taken;  ///< another step does its work
  crn_weight_source source;
  crn_fused_gather *fused;      ///< of steps that became gather_linear
  const crn_weight_source *up;  ///< of a gated step: the stack beside its own (the gate)
} candidate;

typedef struct experts_pass {
  crn_plan *plan;
  const crn_specialization *options;
  crn_plan_index index;
  crn_shapes shapes;
  candidate *candidates;  ///< one a step
  uint32_t *read_by;      ///< one a slot
  bool *is_dropped;
} experts_pass;

static const crn_type *type_of(const experts_pass *e, uint32_t slot) { return e->plan->slot_types[slot]; }

// --- which products -----------------------------------------------------------------------------------------------------------

// What the kernel would decline at run time, for which the body would have to stay.
static bool ranks_fit(const crn_plan *p, const crn_step *s) {
  int64_t n_batch;
  int out_rank = p->slot_types[s->out[0]]->rank;
  if (crn_attr_get_int(s->composite->attrs, "num_batch_axes", 0, &n_batch) != CAIRN_OK) return false;
  for (uint32_t k = 2; k < s->n_in; k++) {
    bool is_lhs = !strcmp(s->composite->input_names[k], "lhs_indices");
    const crn_type *index = p->slot_types[s->in[k]], *side = p->slot_types[s->in[is_lhs ? 0 : 1]];
    if (!is_lhs && strcmp(s->composite->input_names[k], "rhs_indices")) return false;
    if (!crn_dtype_is_integer(index->dtype) || n_batch < 0 || side->rank != n_batch + 3 || n_batch + index->rank > out_rank - 2)
      return false;
  }
  return true;
}

static bool is_candidate(const crn_plan *p, const crn_plan_index *x, uint32_t i) {
  const crn_step *s = &p->steps[i];
  if (x->is_inner[i] || s->kind != CRN_STEP_COMPOSITE || s->fused || s->id != CRN_OP_gather_mm || s->n_in < 2 || s->n_in > 4) return false;
  const crn_type *rhs = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]], *lhs = p->slot_types[s->in[0]];
  if (s->composite->n_inputs != s->n_in || rhs->rank < 3 || lhs->dtype != out->dtype || rhs->dtype != out->dtype) return false;
  for (int d = 0; d < rhs->rank; d++) {
    if (rhs->dims[d] < 0) return false;
  }
  return ranks_fit(p, s) && crn_is_small_float(out->dtype);
}

static void find_products(experts_pass *e) {
  const crn_plan *p = e->plan;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_weight_source *source = &e->candidates[i].source;
    if (!is_candidate(p, &e->index, i)) continue;
    const uint32_t stack = p->steps[i].in[1];
    const int rank = type_of(e, stack)->rank;
    e->candidates[i].is_product = crn_weight_source_find(p, &e->index, stack, (crn_matrix_axes){rank - 1, rank - 2, rank - 3}, source) &&
                                  source->n / source->stack % CRN_LINEAR_TILE == 0 && crn_weight_is_precise_enough(e->options, source);
  }
}

// The product that makes a slot nobody else reads; CRN_NO_STEP when it is none.
static uint32_t own_product(const experts_pass *e, uint32_t slot) {
  uint32_t i = e->index.made_by[slot];
  if (i == CRN_NO_STEP || e->index.n_uses[slot] != 1) return CRN_NO_STEP;
  return e->candidates[i].is_product && !e->candidates[i].is_taken && !e->candidates[i].fused ? i : CRN_NO_STEP;
}

// --- making steps -------------------------------------------------------------------------------------------------------------

// The body reads the expanded stack; nothing may need it any more.
static void drop_product(experts_pass *e, uint32_t i, bool with_step) {
  for (uint32_t k = with_step ? i : i + 1; k <= e->plan->steps[i].body_end; k++) e->is_dropped[k] = true;
  if (with_step) e->is_dropped[i] = e->candidates[i].is_taken = true;
}

// Makes step `at` the step that does the work of product `from` (which may be itself). There is room for two more operands.
static cairn_status make_step(experts_pass *e, uint32_t at, uint32_t from, const char *name) {
  enum { MORE = 2 };
  crn_plan *p = e->plan;
  const crn_step product = p->steps[from];
  const crn_type *rhs = type_of(e, product.in[1]), *declared = type_of(e, product.out[0]);
  crn_step *s = &p->steps[at];
  crn_fused_gather *f;
  uint32_t *in;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_array(&p->arena, product.n_in + MORE, sizeof *in, &in));
  in[0] = product.in[0];
  for (uint32_t k = 2; k < product.n_in; k++) in[k - 1] = product.in[k];
  *f = (crn_fused_gather){.mode = crn_linear_mode_of(e->options->precision),
                          .n = rhs->dims[rhs->rank - 1],
                          .n_operands = (int)product.n_in - 1,
                          .rhs = crn_tensor_make(rhs->dtype, rhs->dims, rhs->rank, NULL),
                          .product = crn_tensor_make(declared->dtype, declared->dims, declared->rank, NULL),
                          .infer = product.infer,
                          .input_names = product.composite->input_names};
  // Offsets count matrices: one step of the stack's axis is one, all others are none.
  for (int d = 0; d < rhs->rank; d++) f->rhs.strides[d] = d == rhs->rank - 3 ? 1 : 0;
  drop_product(e, from, at != from);
  e->candidates[at].source = e->candidates[from].source;
  e->candidates[at].fused = f;
  s->kind = CRN_STEP_KERNEL;
  s->op = product.op;
  s->id = product.id;
  s->composite = product.composite;
  s->name = name;
  s->fused = f;
  s->in = in;
  s->n_in = product.n_in - 1;
  s->body_end = 0;
  s->infer = crn_infer_fused_gather;
  s->kernel = crn_fused_gather_run;
  s->view = NULL;
  return CAIRN_OK;
}

// --- gate ---------------------------------------------------------------------------------------------------------------------

// Two products of the same rows with matrices chosen alike.
static bool may_pair(const experts_pass *e, uint32_t gate, uint32_t up) {
  const crn_step *s = &e->plan->steps[gate], *t = &e->plan->steps[up];
  const crn_type *a = type_of(e, s->in[1]), *b = type_of(e, t->in[1]);
  int64_t n_batch_a, n_batch_b;
  if (gate == up || s->n_in != t->n_in || s->in[0] != t->in[0] || a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  for (uint32_t k = 2; k < s->n_in; k++) {
    if (s->in[k] != t->in[k] || strcmp(s->composite->input_names[k], t->composite->input_names[k])) return false;
  }
  return crn_attr_get_int(s->composite->attrs, "num_batch_axes", 0, &n_batch_a) == CAIRN_OK &&
         crn_attr_get_int(t->composite->attrs, "num_batch_axes", 0, &n_batch_b) == CAIRN_OK && n_batch_a == n_batch_b &&
         crn_weight_sources_match(&e->candidates[gate].source, &e->candidates[up].source);
}

static cairn_status fuse_gate(experts_pass *e, uint32_t at) {
  const crn_step *s = &e->plan->steps[at];
  if (!crn_step_is(s, CRN_OP_broadcasting_mul) && !crn_step_is(s, CRN_OP_mul)) return CAIRN_OK;
  for (int side = 0; side < 2; side++) {
    uint32_t activation = e->index.made_by[s->in[side]], up = own_product(e, s->in[1 - side]);
    crn_gate kind;
    if (activation == CRN_NO_STEP || up == CRN_NO_STEP || e->index.n_uses[s->in[side]] != 1) continue;
    if (!crn_match_gate(&e->plan->steps[activation], &kind)) continue;
    uint32_t gate = own_product(e, e->plan->steps[activation].in[0]);
    if (gate == CRN_NO_STEP || !may_pair(e, gate, up)) continue;
    drop_product(e, up, true);
    e->is_dropped[activation] = true;
    CRN_TRY(make_step(e, at, gate, "gather_linear+gate"));
    e->candidates[at].up = &e->candidates[up].source;
    e->candidates[at].fused->is_gated = true;
    e->candidates[at].fused->gate = kind;
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

// --- weighted sums --------------------------------------------------------------------------------------------------------------

enum { MOST_INNER = 8 };

/// A weighted sum: the steps it is made of.
typedef struct weighted_sum {
  uint32_t product, factors;
  uint32_t last;  ///< the step that becomes all of it
  uint32_t inner[MOST_INNER];
  int n_inner;  ///< steps that go besides the last one
  crn_gather_sum sum;
  uint32_t added;
} weighted_sum;

static bool add_inner(weighted_sum *w, uint32_t step) {
  if (w->n_inner == MOST_INNER) return false;
  w->inner[w->n_inner++] = step;
  return true;
}

// Whether the slots have the same dims up to `rank` of them.
static bool same_leading(const experts_pass *e, uint32_t a, uint32_t b, int rank) {
  const crn_slot_shape *s = &e->shapes.slots[a], *t = &e->shapes.slots[b];
  return s->rank >= rank && t->rank >= rank && !memcmp(s->dims, t->dims, (size_t)rank * sizeof *s->dims);
}

// Follows a slot back to a product through steps that leave its rows as they are.
static bool find_rows(const experts_pass *e, uint32_t slot, int64_t n, weighted_sum *w) {
  for (bool has_cast = false;;) {
    const crn_type *t = type_of(e, slot);
    if (t->rank < 1 || t->dims[t->rank - 1] != n) return false;
    w->product = own_product(e, slot);
    if (w->product != CRN_NO_STEP) return true;
    const uint32_t i = e->index.made_by[slot];
    if (i == CRN_NO_STEP || e->index.n_uses[slot] != 1) return false;
    const crn_step *s = &e->plan->steps[i];
    if (crn_step_is(s, CRN_OP_cast)) {
      // Nothing is rounded but the products and what they are multiplied to.
      if (has_cast || t->dtype != CAIRN_F32 || !crn_is_small_float(type_of(e, s->in[0])->dtype)) return false;
      has_cast = true;
    } else if (!crn_step_is(s, CRN_OP_reshape) && !crn_step_is(s, CRN_OP_expand_dims) && !crn_step_is(s, CRN_OP_shrink_dims)) {
      return false;
    }
    if (!add_inner(w, i)) return false;
    slot = s->in[0];
  }
}

// rows * factors, with one factor a row.
static bool match_weighting(const experts_pass *e, const crn_step *mul, weighted_sum *w) {
  const crn_type *out = type_of(e, mul->out[0]);
  const int rank = out->rank;
  for (int side = 0; side < 2; side++) {
    const uint32_t rows = mul->in[side], factors = mul->in[1 - side];
    const crn_type *r = type_of(e, rows), *f = type_of(e, factors);
    const int n_inner = w->n_inner;
    if (r->rank != rank || f->rank != rank || rank < 2 || f->dims[rank - 1] != 1 || f->dtype != out->dtype || r->dtype != out->dtype)
      continue;
    if (f->dims[rank - 2] != w->sum.n || !same_leading(e, rows, factors, rank - 1)) continue;
    w->factors = factors;
    if (find_rows(e, rows, out->dims[rank - 1], w)) return true;
    w->n_inner = n_inner;
  }
  return false;
}

static bool match_sum(const experts_pass *e, uint32_t at, weighted_sum *w) {
  const crn_step *s = &e->plan->steps[at];
  int64_t axis;
  int n;
  if (!crn_step_is(s, CRN_OP_reduce_sum) || !crn_match_integers(e->plan, s->in[1], 1, &axis, &n) || n != 1) return false;
  const crn_type *x = type_of(e, s->in[0]), *out = type_of(e, s->out[0]);
  const int rank = x->rank;
  if (rank < 3 || out->rank != rank || (axis != rank - 2 && axis != -2) || !crn_is_small_float(x->dtype) || x->dims[rank - 2] < 1)
    return false;
  const crn_step *mul = crn_match_own(e->plan, &e->index, s->in[0], CRN_OP_broadcasting_mul, CRN_OP_mul);
  *w = (weighted_sum){.last = at, .sum = {.n = x->dims[rank - 2], .dtype = x->dtype, .keeps_axis = true}};
  return mul && add_inner(w, (uint32_t)(mul - e->plan->steps)) && match_weighting(e, mul, w);
}

// The one step that reads the result, which the sum goes on to.
static const crn_step *next_of(const experts_pass *e, const weighted_sum *w) {
  const crn_step *last = &e->plan->steps[w->last];
  const uint32_t next = e->read_by[last->out[0]];
  return next == CRN_NO_STEP || e->is_dropped[next] || e->plan->steps[next].n_out != 1 ? NULL : &e->plan->steps[next];
}

static bool go_on(const experts_pass *e, const crn_step *next, weighted_sum *w) {
  if (!add_inner(w, w->last)) return false;
  w->last = (uint32_t)(next - e->plan->steps);
  return true;
}

// Without the dimension of 1, in another type, and with a residual: each when it is there.
static void take_what_follows(const experts_pass *e, weighted_sum *w) {
  const crn_step *next = next_of(e, w);
  if (crn_step_is(next, CRN_OP_shrink_dims) || crn_step_is(next, CRN_OP_reshape)) {
    const crn_type *from = type_of(e, next->in[0]), *to = type_of(e, next->out[0]);
    const bool is_without = to->rank == from->rank - 1 && to->dims[to->rank - 1] == from->dims[from->rank - 1] &&
                            same_leading(e, next->out[0], w->factors, to->rank - 1);
    if (!is_without || !go_on(e, next, w)) return;
    w->sum.keeps_axis = false;
    next = next_of(e, w);
  }
  if (crn_step_is(next, CRN_OP_cast)) {
    if (!crn_is_small_float(type_of(e, next->out[0])->dtype) || !go_on(e, next, w)) return;
    next = next_of(e, w);
  }
  if (!crn_step_is(next, CRN_OP_broadcasting_add) && !crn_step_is(next, CRN_OP_add)) return;
  const uint32_t made = e->plan->steps[w->last].out[0], other = next->in[next->in[0] == made ? 1 : 0];
  if (other == made || type_of(e, other)->dtype != type_of(e, made)->dtype || !crn_shapes_equal(&e->shapes, other, made)) return;
  if (!go_on(e, next, w)) return;
  w->sum.has_added = true;
  w->added = other;
}

static cairn_status fuse_sum(experts_pass *e, uint32_t at) {
  weighted_sum w;
  if (!match_sum(e, at, &w)) return CAIRN_OK;
  take_what_follows(e, &w);
  for (int i = 0; i < w.n_inner; i++) e->is_dropped[w.inner[i]] = true;
  CRN_TRY(make_step(e, w.last, w.product, w.sum.has_added ? "gather_linear+sum+add" : "gather_linear+sum"));
  crn_step *s = &e->plan->steps[w.last];
  e->candidates[w.last].fused->sum = w.sum;
  s->in[s->n_in++] = w.factors;
  if (w.sum.has_added) s->in[s->n_in++] = w.added;
  return CAIRN_OK;
}

// --- the pass -----------------------------------------------------------------------------------------------------------------

static cairn_status fuse_alone(experts_pass *e) {
  for (uint32_t i = 0; i < e->plan->n_steps; i++) {
    const candidate *c = &e->candidates[i];
    if (c->is_product && !c->is_taken && !c->fused) CRN_TRY(make_step(e, i, i, "gather_linear"));
  }
  return CAIRN_OK;
}

static cairn_status pack_all(experts_pass *e) {
  for (uint32_t i = 0; i < e->plan->n_steps; i++) {
    const candidate *c = &e->candidates[i];
    if (!c->fused) continue;
    crn_weight_source sources[2] = {c->source};
    if (c->up) sources[1] = *c->up;
    CRN_TRY(crn_weight_store_pack(e->options->store, e->plan->context->pool, sources, c->up ? 2 : 1, c->up != NULL, &c->fused->weights));
  }
  return CAIRN_OK;
}

static cairn_status run_pass(experts_pass *e) {
  find_products(e);
  crn_plan_find_readers(e->plan, &e->index, e->read_by);
  for (uint32_t i = 0; i < e->plan->n_steps; i++) {
    if (!e->index.is_inner[i]) CRN_TRY(fuse_gate(e, i));
  }
  for (uint32_t i = 0; i < e->plan->n_steps; i++) {
    if (!e->index.is_inner[i] && !e->is_dropped[i]) CRN_TRY(fuse_sum(e, i));
  }
  CRN_TRY(fuse_alone(e));
  CRN_TRY(pack_all(e));
  return crn_plan_drop(e->plan, e->is_dropped);
}

cairn_status crn_pass_experts(crn_plan *p, const crn_specialization *o) {
  const cairn_allocator *a = &p->context->allocator;
  experts_pass e = {.plan = p, .options = o};
  uint32_t n_steps = p->n_steps, n_slots = p->n_slots;
  CRN_TRY(crn_plan_index_create(p, &e.index));
  cairn_status status = crn_shapes_create(p, &e.index, &e.shapes);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n_steps, sizeof *e.candidates, &e.candidates);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n_slots, sizeof *e.read_by, &e.read_by);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n_steps, sizeof *e.is_dropped, &e.is_dropped);
  if (status == CAIRN_OK) status = run_pass(&e);
  crn_free(a, e.candidates, n_steps * sizeof *e.candidates);
  crn_free(a, e.read_by, n_slots * sizeof *e.read_by);
  crn_free(a, e.is_dropped, n_steps * sizeof *e.is_dropped);
  crn_shapes_destroy(&e.shapes);
  crn_plan_index_destroy(&e.index);
  return status;
}
