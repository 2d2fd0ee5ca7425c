// Products with constant matrices become steps on packed weights, and lookups of rows in such matrices too. What is done to a
// product right away is done in the same step:
//
//   a · W + bias                        the bias is a constant vector of one value an output
//   h + a · W                           residual
//   (a · W1) * silu(a · W2)             gate (gelu too); W2 and W1, or the halves of a split product, are packed tile by tile in turn
//   a · W1, a · W2 ..                   the matrices are packed as one, each product keeps a result of its own
//   transpose or reshape of a · W       where the product is a convolution over single elements, whose rows lie along another dimension
//
// Matrices are packed last, when it is known what goes together.
#include "backend/cpu/fused/linear.h"

#include "specialize/match.h"
#include "specialize/passes.h"

/// A product with a constant matrix, by the index of its step.
typedef struct candidate {
  bool is_product;
  bool is_taken;  ///< another step does its work
  int axis;       ///< of the operand and of the result, along which inputs and outputs lie
  int in_axis;    ///< the same of the operand, where the result was brought into another shape
  int row_axis;   ///< of such a result; -1 = the result has the operand's shape
  crn_weight_source source;
  crn_fused_linear *fused;                      ///< of steps that became linear
  const crn_weight_source *up;                  ///< of a gated step: the matrix beside its own (the gate)
  uint32_t joined[CRN_LINEAR_MOST_JOINED - 1];  ///< steps whose products this one does as well
  int n_joined;
} candidate;

typedef struct linear_pass {
  crn_plan *plan;
  const crn_specialization *options;
  crn_plan_index index;
  candidate *candidates;  ///< one a step
  bool *is_dropped;
  uint32_t *read_by;  ///< by slot: its only reader
} linear_pass;

crn_linear_mode crn_linear_mode_of(cairn_precision precision) {
  return precision == CAIRN_PRECISION_INT8   ? CRN_LINEAR_MODE_INT8
         : precision == CAIRN_PRECISION_BF16 ? CRN_LINEAR_MODE_BF16
                                             : CRN_LINEAR_EXACT;
}

// --- which products -----------------------------------------------------------------------------------------------------------

// The product must run over the whole left operand: nothing of the matrix but its two dimensions.
static bool has_plain_shape(const crn_plan *p, const crn_step *s) {
  const crn_type *x = p->slot_types[s->in[0]], *w = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]];
  if (x->rank < 2 || w->rank < 2 || out->rank != x->rank) return false;
  for (int d = 0; d < w->rank - 2; d++) {
    if (w->dims[d] != 1) return false;
  }
  return x->dtype == w->dtype && out->dtype == x->dtype && crn_is_small_float(x->dtype);
}

bool crn_weight_is_precise_enough(const crn_specialization *options, const crn_weight_source *source) {
  return options->precision != CAIRN_PRECISION_EXACT || !source->is_quantized || crn_weight_source_is_exact(source);
}

// A convolution over single elements is a product whose rows lie along any dimension but the second. Only lists of rows are
// taken (one dimension besides), not images: what comes next to those wants their layout.
static bool is_pointwise(const crn_plan *p, const crn_step *s) {
  if (!crn_step_is(s, CRN_OP_conv2d) && !crn_step_is(s, CRN_OP_conv3d)) return false;
  const crn_type *x = p->slot_types[s->in[0]], *w = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]];
  const crn_tensor *strides = crn_constant_of(p, s->in[2]), *groups = crn_constant_of(p, s->in[4]);
  int n_long = 0;
  if (x->rank < 3 || w->rank != x->rank || out->rank != x->rank || x->dtype != w->dtype || out->dtype != x->dtype) return false;
  if (!strides || strides->packed || strides->rank != 1 || !groups || groups->packed || crn_tensor_count(groups) != 1) return false;
  if (crn_load_i64(groups->dtype, groups->data) != 1) return false;
  for (int64_t i = 0; i < strides->dims[0]; i++) {
    if (crn_load_i64(strides->dtype, crn_tensor_at(strides, i * strides->strides[0])) != 1) return false;
  }
  for (int d = 0; d < x->rank; d++) {
    if (d >= 2 && w->dims[d] != 1) return false;
    n_long += d != 1 && x->dims[d] != 1;
  }
  return n_long <= 1 && crn_is_small_float(x->dtype);
}

static void find_pointwise(linear_pass *l, uint32_t i) {
  const crn_step *s = &l->plan->steps[i];
  candidate *c = &l->candidates[i];
  if (l->index.is_inner[i] || !is_pointwise(l->plan, s)) return;
  c->axis = c->in_axis = 1;
  c->is_product = crn_weight_source_find(l->plan, &l->index, s->in[1], (crn_matrix_axes){0, 1, CRN_NO_AXIS}, &c->source) &&
                  crn_weight_is_precise_enough(l->options, &c->source);
}

// A matrix on the left, of outputs by inputs: W · a is (a' · W')'. Its outputs lie along dimension `*out_axis` of the matrix: the last but
// one, or, where every output is an entry of a batch (as heads that use a table of embeddings have it), the first one.
static bool has_matrix_left(const crn_plan *p, const crn_step *s, int *out_axis) {
  const crn_type *w = p->slot_types[s->in[0]], *x = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]];
  int n_long = 0;
  if (w->rank < 2 || x->rank < w->rank || out->rank != x->rank || x->dtype != w->dtype || out->dtype != x->dtype) return false;
  *out_axis = w->rank - 2;
  for (int d = 0; d < w->rank - 2; d++) {
    if (w->dims[d] == 1) continue;
    *out_axis = d;
    n_long++;
  }
  if (n_long == 0) return crn_is_small_float(x->dtype);
  // Each output is multiplied with one and the same value then.
  for (int d = 0; d < x->rank - 2; d++) {
    if (x->dims[d] != 1) return false;
  }
  return n_long == 1 && w->dims[w->rank - 2] == 1 && crn_is_small_float(x->dtype);
}

// The step of a product that has its matrix on the left takes the value for its first operand, as all others do. A batch of outputs has
// them elsewhere than the value has its inputs: the reshape that moves them there is taken in, and without one nothing is done.
static void turn_product(linear_pass *l, uint32_t i, const candidate *found, int axis) {
  crn_plan *p = l->plan;
  crn_step *s = &p->steps[i];
  candidate *c = &l->candidates[i];
  const crn_type *x = p->slot_types[s->in[1]];
  const int w_rank = p->slot_types[s->in[0]]->rank;
  if (axis != w_rank - 2) {
    const uint32_t at = l->read_by[s->out[0]];
    const crn_step *reshape = at == CRN_NO_STEP ? NULL : &p->steps[at];
    const crn_type *to = crn_step_is(reshape, CRN_OP_reshape) ? p->slot_types[reshape->out[0]] : NULL;
    if (!to || to->rank != x->rank) return;
    for (int d = 0; d < to->rank; d++) {
      if (to->dims[d] < 0 || to->dims[d] != (d == x->rank - 2 ? found->source.n : x->dims[d])) return;
    }
    l->is_dropped[at] = true;
    l->index.made_by[s->out[0]] = CRN_NO_STEP;
    s->out[0] = reshape->out[0];
    l->index.made_by[s->out[0]] = i;
  }
  const uint32_t value = s->in[1];
  s->in[1] = s->in[0];
  s->in[0] = value;
  *c = *found;
  c->is_product = true;
  c->axis = c->in_axis = x->rank - 2;
}

static void find_left_product(linear_pass *l, uint32_t i) {
  const crn_step *s = &l->plan->steps[i];
  candidate found = {.row_axis = -1};
  int axis;
  if (!has_matrix_left(l->plan, s, &axis)) return;
  const int rank = l->plan->slot_types[s->in[0]]->rank;
  if (crn_weight_source_find(l->plan, &l->index, s->in[0], (crn_matrix_axes){axis, rank - 1, CRN_NO_AXIS}, &found.source) &&
      crn_weight_is_precise_enough(l->options, &found.source))
    turn_product(l, i, &found, axis);
}

static void find_products(linear_pass *l) {
  const crn_plan *p = l->plan;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    candidate *c = &l->candidates[i];
    c->row_axis = -1;
    find_pointwise(l, i);
    if (l->index.is_inner[i] || !(crn_step_is(s, CRN_OP_broadcasting_batch_matmul) || crn_step_is(s, CRN_OP_batch_matmul))) continue;
    int rank = p->slot_types[s->in[1]]->rank;
    c->axis = c->in_axis = p->slot_types[s->in[0]]->rank - 1;
    c->is_product = has_plain_shape(p, s) &&
                    crn_weight_source_find(p, &l->index, s->in[1], (crn_matrix_axes){rank - 1, rank - 2, CRN_NO_AXIS}, &c->source) &&
                    crn_weight_is_precise_enough(l->options, &c->source);
    if (!c->is_product) find_left_product(l, i);
  }
}

// The product that makes a slot nobody else reads; CRN_NO_STEP when it is none.
static uint32_t own_product(const linear_pass *l, uint32_t slot) {
  uint32_t i = l->index.made_by[slot];
  if (i == CRN_NO_STEP || l->index.n_uses[slot] != 1) return CRN_NO_STEP;
  return l->candidates[i].is_product && !l->candidates[i].is_taken ? i : CRN_NO_STEP;
}

// --- making steps -------------------------------------------------------------------------------------------------------------

// How the result lies: the outputs next to each other, and in the shape that the step's type has.
static void set_layout(linear_pass *l, uint32_t at) {
  candidate *c = &l->candidates[at];
  crn_step *s = &l->plan->steps[at];
  int rank = l->plan->slot_types[s->out[0]]->rank;
  s->minor_axis = c->row_axis < 0 && c->axis != rank - 1 ? c->axis : 0;
  if (c->row_axis < 0) return;
  c->fused->out_rank = rank;
  c->fused->out_row_axis = c->row_axis;
}

// Makes step `at` the linear step that does the work of product `from` (which may be itself).
static cairn_status make_linear(linear_pass *l, uint32_t at, uint32_t from, crn_linear_epilogue epilogue, const char *name) {
  crn_step *s = &l->plan->steps[at];
  candidate *c = &l->candidates[at];
  uint32_t x = l->plan->steps[from].in[0];
  int rank = l->plan->slot_types[x]->rank;
  CRN_TRY(crn_arena_alloc(&l->plan->arena, sizeof *c->fused, &c->fused));
  const candidate *made = &l->candidates[from];
  c->source = made->source;
  c->axis = made->axis, c->in_axis = made->in_axis, c->row_axis = made->row_axis;
  *c->fused = (crn_fused_linear){
      .mode = crn_linear_mode_of(l->options->precision), .epilogue = epilogue, .n = c->source.n, .axis = rank - 1 - c->in_axis};
  if (at != from) {
    // What the product had already taken in comes along.
    if (l->candidates[from].fused) c->fused->bias = l->candidates[from].fused->bias;
    l->candidates[from].fused = NULL;
    l->candidates[from].is_taken = l->is_dropped[from] = true;
  }
  s->kind = CRN_STEP_KERNEL;
  s->name = name;
  s->fused = c->fused;
  s->in[0] = x;
  s->n_in = 1;
  s->infer = crn_infer_fused_linear;
  s->kernel = crn_fused_linear_run;
  s->view = NULL;
  set_layout(l, at);
  return CAIRN_OK;
}

// --- bias ---------------------------------------------------------------------------------------------------------------------

// The dimension of a constant that meets dimension `axis` of a value of rank `out_rank`.
static int aligned_axis(const crn_tensor *t, int axis, int out_rank) { return axis - (out_rank - t->rank); }

static bool is_bias(const linear_pass *l, uint32_t slot, int64_t n, int axis, int out_rank) {
  const crn_tensor *t = crn_constant_of(l->plan, slot);
  if (!t || t->packed || t->rank > out_rank || aligned_axis(t, axis, out_rank) < 0) return false;
  if (t->dims[aligned_axis(t, axis, out_rank)] != n || crn_tensor_count(t) != n) return false;
  return crn_is_small_float(t->dtype);
}

static cairn_status copy_bias(linear_pass *l, uint32_t slot, int axis, int out_rank, const float **out) {
  const crn_tensor *t = crn_constant_of(l->plan, slot);
  int at = aligned_axis(t, axis, out_rank);
  int64_t n = t->dims[at];
  float *values;
  CRN_TRY(crn_arena_array(&l->plan->arena, (size_t)n, sizeof *values, &values));
  for (int64_t i = 0; i < n; i++) values[i] = (float)crn_load_f64(t->dtype, crn_tensor_at(t, i * t->strides[at]));
  *out = values;
  return CAIRN_OK;
}

static cairn_status fuse_bias(linear_pass *l, uint32_t at) {
  const crn_step *s = &l->plan->steps[at];
  for (int side = 0; side < 2; side++) {
    uint32_t from = own_product(l, s->in[side]), other = s->in[1 - side];
    if (from == CRN_NO_STEP || l->candidates[from].fused) continue;
    int axis = l->candidates[from].axis, rank = l->plan->slot_types[s->out[0]]->rank;
    if (rank != l->plan->slot_types[s->in[side]]->rank || !is_bias(l, other, l->candidates[from].source.n, axis, rank)) continue;
    const float *bias;
    CRN_TRY(copy_bias(l, other, axis, rank, &bias));
    CRN_TRY(make_linear(l, at, from, CRN_LINEAR_PLAIN, "linear+bias"));
    l->candidates[at].fused->bias = bias;
    l->candidates[at].is_product = true;  // a residual may follow
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

// --- gate ---------------------------------------------------------------------------------------------------------------------

static bool may_pair(const linear_pass *l, uint32_t gate, uint32_t up) {
  const crn_weight_source *a = &l->candidates[gate].source, *b = &l->candidates[up].source;
  if (l->plan->steps[gate].in[0] != l->plan->steps[up].in[0] || l->candidates[gate].fused || l->candidates[up].fused) return false;
  return l->candidates[gate].axis == l->candidates[up].axis && a->n == b->n && a->k == b->k && crn_weight_sources_match(a, b);
}

static cairn_status make_gate(linear_pass *l, uint32_t at, uint32_t from, uint32_t activation, const crn_weight_source *up) {
  crn_gate gate = CRN_GATE_SILU;
  crn_match_gate(&l->plan->steps[activation], &gate);
  l->is_dropped[activation] = true;
  CRN_TRY(make_linear(l, at, from, CRN_LINEAR_GATED, "linear+gate"));
  l->candidates[at].up = up;
  l->candidates[at].fused->gate = gate;
  return CAIRN_OK;
}

static cairn_status fuse_gate(linear_pass *l, uint32_t at) {
  const crn_step *s = &l->plan->steps[at];
  crn_gate kind;
  for (int side = 0; side < 2; side++) {
    uint32_t activation = l->index.made_by[s->in[side]], up = own_product(l, s->in[1 - side]);
    if (activation == CRN_NO_STEP || up == CRN_NO_STEP || l->index.n_uses[s->in[side]] != 1) continue;
    if (!crn_match_gate(&l->plan->steps[activation], &kind)) continue;
    uint32_t gate = own_product(l, l->plan->steps[activation].in[0]);
    if (gate == CRN_NO_STEP || gate == up || !may_pair(l, gate, up)) continue;
    l->candidates[up].is_taken = l->is_dropped[up] = true;
    return make_gate(l, at, gate, activation, &l->candidates[up].source);
  }
  return CAIRN_OK;
}

// A split of a product's outputs into two halves that are gate and partner: the step of the product, CRN_NO_STEP when it is no such thing.
static uint32_t split_product(const linear_pass *l, const crn_step *split) {
  int64_t sizes[2];
  int n;
  if (!crn_step_is(split, CRN_OP_split) || split->n_out != 2 || !crn_match_integers(l->plan, split->in[1], 2, sizes, &n) || n != 2)
    return CRN_NO_STEP;
  uint32_t from = own_product(l, split->in[0]);
  int rank = l->plan->slot_types[split->in[0]]->rank;
  if (from == CRN_NO_STEP || l->candidates[from].fused || l->candidates[from].axis != rank - 1) return CRN_NO_STEP;
  if (sizes[0] != sizes[1] || sizes[0] * 2 != l->candidates[from].source.n || l->candidates[from].source.stack > 1) return CRN_NO_STEP;
  return crn_match_last_axis(l->plan, split->in[2], rank) ? from : CRN_NO_STEP;
}

static cairn_status fuse_split_gate(linear_pass *l, uint32_t at) {
  const crn_step *s = &l->plan->steps[at];
  crn_gate kind;
  for (int side = 0; side < 2; side++) {
    uint32_t activation = l->index.made_by[s->in[side]], split = l->index.made_by[s->in[1 - side]];
    if (activation == CRN_NO_STEP || split == CRN_NO_STEP || l->index.n_uses[s->in[side]] != 1 || l->index.n_uses[s->in[1 - side]] != 1)
      continue;
    const crn_step *gate = &l->plan->steps[activation], *halves = &l->plan->steps[split];
    if (!crn_match_gate(gate, &kind) || l->index.made_by[gate->in[0]] != split || l->index.n_uses[gate->in[0]] != 1) continue;
    uint32_t from = split_product(l, halves);
    if (from == CRN_NO_STEP || gate->in[0] == s->in[1 - side]) continue;
    bool is_first = gate->in[0] == halves->out[0];
    crn_weight_source *up;
    CRN_TRY(crn_arena_alloc(&l->plan->arena, sizeof *up, &up));
    l->candidates[from].source.whole = l->candidates[from].source.n;
    *up = l->candidates[from].source;
    up->n /= 2;
    l->candidates[from].source.n = up->n;
    *(is_first ? &up->first : &l->candidates[from].source.first) = up->n;
    l->is_dropped[split] = true;
    return make_gate(l, at, from, activation, up);
  }
  return CAIRN_OK;
}

// --- another shape ------------------------------------------------------------------------------------------------------------

// The dimension that has the rows when all but it and the last are 1; -1 when several have.
static int find_row_axis(const crn_type *t) {
  int found = 0, n = 0;
  for (int d = 0; d < t->rank - 1; d++) {
    if (t->dims[d] == 1) continue;
    found = d;
    n++;
  }
  return t->rank >= 2 && n <= 1 ? found : -1;
}

// Whether the step brings the outputs of a product over a list of rows to the end, row by row.
static bool is_row_layout(const linear_pass *l, const crn_step *s, const candidate *c) {
  const crn_type *from = l->plan->slot_types[s->in[0]], *to = l->plan->slot_types[s->out[0]];
  if (to->rank < 2 || to->dims[to->rank - 1] != c->source.n || find_row_axis(to) < 0 || c->row_axis >= 0) return false;
  if (s->id == CRN_OP_transpose) {
    const crn_tensor *order = crn_constant_of(l->plan, s->in[1]);
    return order && !order->packed && order->rank == 1 && order->dims[0] == to->rank &&
           crn_load_i64(order->dtype, crn_tensor_at(order, (to->rank - 1) * order->strides[0])) == c->axis;
  }
  for (int d = c->axis + 1; d < from->rank; d++) {
    if (from->dims[d] != 1) return false;
  }
  return true;
}

// Where rows come out one after the other, they are as well read from in front of a transposition that only moved their values.
static void look_through_transpose(linear_pass *l, uint32_t at) {
  const crn_plan *p = l->plan;
  crn_step *s = &p->steps[at];
  candidate *c = &l->candidates[at];
  const crn_step *turn = crn_match_made(p, &l->index, s->in[0], CRN_OP_transpose, CRN_OP_transpose);
  int64_t order[CAIRN_MAX_RANK];
  int n, last = -1;
  if (!turn || !crn_match_integers(p, turn->in[1], CAIRN_MAX_RANK, order, &n)) return;
  const crn_type *from = p->slot_types[turn->in[0]];
  if (n != from->rank || c->in_axis >= n || order[c->in_axis] != n - 1) return;
  for (int d = 0; d < n; d++) {
    if (d == c->in_axis || from->dims[order[d]] == 1) continue;
    if (order[d] < last) return;
    last = (int)order[d];
  }
  s->in[0] = turn->in[0];
  c->in_axis = n - 1;
  c->fused->axis = 0;
}

static cairn_status fuse_layout(linear_pass *l, uint32_t at) {
  const crn_step *s = &l->plan->steps[at];
  uint32_t from = own_product(l, s->in[0]);
  // Products along the last dimension keep their shape: what follows is a view.
  if (from == CRN_NO_STEP || l->candidates[from].axis == l->plan->slot_types[s->in[0]]->rank - 1 ||
      !is_row_layout(l, s, &l->candidates[from]))
    return CAIRN_OK;
  const crn_type *to = l->plan->slot_types[s->out[0]];
  candidate *c = &l->candidates[from];
  c->axis = to->rank - 1;
  c->row_axis = find_row_axis(to);
  CRN_TRY(make_linear(l, at, from, CRN_LINEAR_PLAIN, c->fused ? "linear+bias" : "linear"));
  look_through_transpose(l, at);
  l->candidates[at].is_product = true;
  return CAIRN_OK;
}

// --- residual -----------------------------------------------------------------------------------------------------------------

static cairn_status fuse_residual(linear_pass *l, uint32_t at) {
  const crn_step *s = &l->plan->steps[at];
  for (int side = 0; side < 2; side++) {
    uint32_t from = own_product(l, s->in[side]), other = s->in[1 - side];
    if (from == CRN_NO_STEP || s->in[0] == s->in[1]) continue;
    if (l->candidates[from].axis != l->plan->slot_types[s->in[side]]->rank - 1) continue;
    const crn_type *sum = l->plan->slot_types[s->out[0]], *more = l->plan->slot_types[other];
    if (more->rank < 1 || sum->dtype != more->dtype || more->dims[more->rank - 1] != l->candidates[from].source.n) continue;
    bool has_bias = l->candidates[from].fused && l->candidates[from].fused->bias;
    CRN_TRY(make_linear(l, at, from, CRN_LINEAR_ADD, has_bias ? "linear+bias+add" : "linear+add"));
    l->plan->steps[at].in[1] = other;
    l->plan->steps[at].n_in = 2;
    // The sum has its own rank, and its outputs lie last whatever the product's rank is.
    l->candidates[at].axis = sum->rank - 1;
    l->plan->steps[at].minor_axis = 0;
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

// --- lookups ------------------------------------------------------------------------------------------------------------------

// Rows of a quantised matrix, picked by a list of single indices. A dense one is as well read where it lies.
static cairn_status fuse_lookup(linear_pass *l, uint32_t at) {
  crn_plan *p = l->plan;
  crn_step *s = &p->steps[at];
  crn_weight_source source;
  const crn_type *table = p->slot_types[s->in[0]], *index = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]];
  if (table->rank != 2 || index->rank < 1 || index->dims[index->rank - 1] != 1 || out->rank != index->rank) return CAIRN_OK;
  if (!crn_weight_source_find(p, &l->index, s->in[0], (crn_matrix_axes){0, 1, CRN_NO_AXIS}, &source) || !source.is_quantized ||
      !crn_weight_is_precise_enough(l->options, &source))
    return CAIRN_OK;
  crn_fused_lookup *f;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_weight_store_pack(l->options->store, p->context->pool, &source, 1, false, &f->weights));
  s->name = "lookup";
  s->fused = f;
  s->in[0] = s->in[1];
  s->n_in = 1;
  s->infer = crn_infer_fused_lookup;
  s->kernel = crn_fused_lookup_run;
  s->view = NULL;
  return CAIRN_OK;
}

// --- the pass -----------------------------------------------------------------------------------------------------------------

typedef cairn_status (*fuse_fn)(linear_pass *l, uint32_t at);

static cairn_status for_each(linear_pass *l, crn_op_id id, fuse_fn fuse) {
  for (uint32_t i = 0; i < l->plan->n_steps; i++) {
    if (!l->index.is_inner[i] && crn_step_is(&l->plan->steps[i], id)) CRN_TRY(fuse(l, i));
  }
  return CAIRN_OK;
}

static cairn_status fuse_alone(linear_pass *l) {
  for (uint32_t i = 0; i < l->plan->n_steps; i++) {
    const candidate *c = &l->candidates[i];
    if (c->is_product && !c->is_taken && !c->fused) CRN_TRY(make_linear(l, i, i, CRN_LINEAR_PLAIN, "linear"));
  }
  return CAIRN_OK;
}

// --- products of one operand ------------------------------------------------------------------------------------------------

// Matrices that are joined lie below one another in one packed matrix, whole tiles of each. A large one gains nothing, and the head may
// have to compute fewer rows than others.
static bool may_join(const linear_pass *l, uint32_t i) {
  enum { MOST_OUTPUTS = 16384 };
  const candidate *c = &l->candidates[i];
  const crn_step *s = &l->plan->steps[i];
  if (l->is_dropped[i] || !c->fused || c->fused->epilogue != CRN_LINEAR_PLAIN || c->row_axis >= 0 || c->up || c->n_joined) return false;
  if (c->axis != l->plan->slot_types[s->in[0]]->rank - 1 || c->axis != l->plan->slot_types[s->out[0]]->rank - 1) return false;
  if (c->source.n % CRN_LINEAR_TILE || c->source.n > MOST_OUTPUTS || c->source.stack > 1) return false;
  for (uint32_t k = 0; k < l->plan->n_outputs; k++) {
    if (l->plan->output_slots[k] == s->out[0]) return false;
  }
  return true;
}

static bool belong_together(const linear_pass *l, uint32_t a, uint32_t b) {
  const crn_step *s = &l->plan->steps[a], *t = &l->plan->steps[b];
  return s->in[0] == t->in[0] && l->plan->slot_types[s->out[0]]->dtype == l->plan->slot_types[t->out[0]]->dtype &&
         crn_weight_sources_match(&l->candidates[a].source, &l->candidates[b].source);
}

// A bias for all of them where one has a bias: adding zeros changes nothing.
static cairn_status join_bias(linear_pass *l, candidate *c) {
  const float *parts[CRN_LINEAR_MOST_JOINED] = {c->fused->bias};
  int64_t total = c->source.n, at = 0;
  bool has_any = parts[0];
  for (int i = 0; i < c->n_joined; i++) {
    parts[i + 1] = l->candidates[c->joined[i]].fused->bias;
    has_any |= parts[i + 1] != NULL;
    total += c->fused->joined[i + 1];
  }
  float *bias;
  if (!has_any) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&l->plan->arena, (size_t)total, sizeof *bias, &bias));
  for (int i = 0; i <= c->n_joined; i++) {
    for (int64_t k = 0; k < c->fused->joined[i]; k++) bias[at++] = parts[i] ? parts[i][k] : 0;
  }
  c->fused->bias = bias;
  return CAIRN_OK;
}

// Gives step `at` the products of the steps behind it that read the same operand: it is read, and rows are prepared, once for all.
static cairn_status join_at(linear_pass *l, uint32_t at) {
  crn_plan *p = l->plan;
  candidate *c = &l->candidates[at];
  crn_step *s = &p->steps[at];
  uint32_t *out;
  if (!may_join(l, at)) return CAIRN_OK;
  c->fused->joined[0] = c->source.n;
  for (uint32_t i = at + 1; i < p->n_steps && c->n_joined < CRN_LINEAR_MOST_JOINED - 1; i++) {
    if (l->index.is_inner[i] || !may_join(l, i) || !belong_together(l, at, i)) continue;
    c->fused->joined[c->n_joined + 1] = l->candidates[i].source.n;
    c->joined[c->n_joined++] = i;
    l->is_dropped[i] = true;
  }
  if (!c->n_joined) return CAIRN_OK;
  CRN_TRY(join_bias(l, c));
  CRN_TRY(crn_arena_array(&p->arena, (size_t)c->n_joined + 1, sizeof *out, &out));
  out[0] = s->out[0];
  for (int i = 0; i < c->n_joined; i++) {
    out[i + 1] = p->steps[c->joined[i]].out[0];
    c->fused->n += l->candidates[c->joined[i]].source.n;
    l->candidates[c->joined[i]].fused = NULL;
  }
  c->fused->n_joined = c->n_joined + 1;
  s->out = out;
  s->n_out = (uint32_t)c->n_joined + 1;
  s->name = c->fused->bias ? "linear+joined+bias" : "linear+joined";
  return CAIRN_OK;
}

static cairn_status join_products(linear_pass *l) {
  for (uint32_t i = 0; i < l->plan->n_steps; i++) {
    if (!l->index.is_inner[i]) CRN_TRY(join_at(l, i));
  }
  return CAIRN_OK;
}

static cairn_status pack_all(linear_pass *l) {
  for (uint32_t i = 0; i < l->plan->n_steps; i++) {
    const candidate *c = &l->candidates[i];
    if (!c->fused) continue;
    crn_weight_source sources[CRN_LINEAR_MOST_JOINED] = {c->source};
    int n = 1;
    if (c->up) sources[n++] = *c->up;
    for (int k = 0; k < c->n_joined; k++) sources[n++] = l->candidates[c->joined[k]].source;
    CRN_TRY(crn_weight_store_pack(l->options->store, l->plan->context->pool, sources, n, c->up != NULL, &c->fused->weights));
  }
  return CAIRN_OK;
}

static cairn_status run_pass(linear_pass *l) {
  find_products(l);
  CRN_TRY(for_each(l, CRN_OP_gather_nd, fuse_lookup));
  CRN_TRY(for_each(l, CRN_OP_broadcasting_add, fuse_bias));
  CRN_TRY(for_each(l, CRN_OP_broadcasting_mul, fuse_gate));
  CRN_TRY(for_each(l, CRN_OP_broadcasting_mul, fuse_split_gate));
  CRN_TRY(for_each(l, CRN_OP_transpose, fuse_layout));
  CRN_TRY(for_each(l, CRN_OP_reshape, fuse_layout));
  CRN_TRY(for_each(l, CRN_OP_broadcasting_add, fuse_residual));
  CRN_TRY(fuse_alone(l));
  CRN_TRY(join_products(l));
  CRN_TRY(pack_all(l));
  return crn_plan_drop(l->plan, l->is_dropped);
}

cairn_status crn_pass_linear(crn_plan *p, const crn_specialization *options) {
  const cairn_allocator *a = &p->context->allocator;
  linear_pass l = {.plan = p, .options = options};
  uint32_t n = p->n_steps;
  CRN_TRY(crn_plan_index_create(p, &l.index));
  cairn_status status = crn_alloc_array(a, n, sizeof *l.candidates, &l.candidates);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n, sizeof *l.is_dropped, &l.is_dropped);
  if (status == CAIRN_OK) status = crn_alloc_array(a, p->n_slots, sizeof *l.read_by, &l.read_by);
  if (status == CAIRN_OK) crn_plan_find_readers(p, &l.index, l.read_by);
  if (status == CAIRN_OK) status = run_pass(&l);
  crn_free(a, l.read_by, p->n_slots * sizeof *l.read_by);
  crn_free(a, l.candidates, n * sizeof *l.candidates);
  crn_free(a, l.is_dropped, n * sizeof *l.is_dropped);
  crn_plan_index_destroy(&l.index);
  return status;
}
