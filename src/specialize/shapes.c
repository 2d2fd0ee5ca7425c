// Symbolic sizes: one walk over the steps. Whatever is not understood gets a symbol of its own, which equals nothing else.
#include "specialize/shapes.h"

#include <string.h>

#include "program/infer/dims.h"

enum { OP_FRESH, OP_ADD, OP_SUB, OP_MUL, OP_SLICE, OP_PAIR, OP_STATE };

typedef struct shape_walk {
  const crn_plan *plan;
  crn_shapes *shapes;
  cairn_status status;  ///< the first failure
} shape_walk;

// --- symbols ----------------------------------------------------------------------------------------------------------------

static crn_sym add_symbol(shape_walk *w, int op, crn_sym a, crn_sym b) {
  crn_shapes *x = w->shapes;
  uint32_t bucket = (uint32_t)(((uint64_t)a * 31 + (uint64_t)b * 17 + (uint64_t)op) % CRN_SYM_BUCKETS);
  for (uint32_t k = op == OP_FRESH ? 0 : x->buckets[bucket]; k; k = x->expressions.items[k - 1].next) {
    const crn_sym_expression *e = &x->expressions.items[k - 1];
    if (e->op == op && e->a == a && e->b == b) return CRN_SYMBOL + k - 1;
  }
  crn_sym_expression e = {op, a, b, op == OP_FRESH ? 0 : x->buckets[bucket]};
  cairn_status status = crn_vec_push(x->allocator, &x->expressions, e);
  if (status != CAIRN_OK) {
    if (w->status == CAIRN_OK) w->status = status;
    return CRN_SYMBOL;
  }
  if (op != OP_FRESH) x->buckets[bucket] = (uint32_t)x->expressions.size;
  return CRN_SYMBOL + (crn_sym)x->expressions.size - 1;
}

static crn_sym fresh(shape_walk *w) { return add_symbol(w, OP_FRESH, 0, 0); }

static crn_sym combine(shape_walk *w, int op, crn_sym a, crn_sym b) {
  static const int64_t most = (int64_t)1 << 31;
  bool constant = crn_sym_is_constant(a) && crn_sym_is_constant(b) && a < most && a > -most && b < most && b > -most;
  int64_t value = op == OP_ADD ? a + b : op == OP_SUB ? a - b : constant ? a * b : 0;
  if (constant && value < most && value > -most) return value;
  if (op != OP_MUL && b == 0) return a;
  if (op == OP_ADD && a == 0) return b;
  if (op == OP_MUL && (a == 1 || b == 1)) return a == 1 ? b : a;
  if (op == OP_SUB && a == b) return 0;
  return op != OP_SUB && a > b ? add_symbol(w, op, b, a) : add_symbol(w, op, a, b);
}

// --- where the walk begins --------------------------------------------------------------------------------------------------

static void load_values(const crn_tensor *t, crn_slot_shape *s) {
  if (t->packed || t->rank > 1 || !t->data || !crn_dtype_is_integer(t->dtype) || crn_tensor_count(t) > CAIRN_MAX_RANK) return;
  s->n_values = (int)crn_tensor_count(t);
  for (int i = 0; i < s->n_values; i++) {
    s->values[i] = crn_load_i64(t->dtype, crn_tensor_at(t, t->rank ? i * t->strides[0] : 0));
    if (s->values[i] >= CRN_SYMBOL) s->n_values = -1;
  }
}

static void begin_slot(shape_walk *w, uint32_t slot) {
  const crn_plan *p = w->plan;
  crn_slot_shape *s = &w->shapes->slots[slot];
  s->n_values = -1;
  if (p->is_constant[slot]) {
    const crn_tensor *t = &p->constants[slot].tensor;
    s->rank = t->rank;
    memcpy(s->dims, t->dims, sizeof s->dims);
    load_values(t, s);
    return;
  }
  const crn_type *type = p->slot_types[slot];
  int64_t count = 1;
  s->rank = type->kind == CRN_TYPE_TENSOR ? type->rank : 0;
  for (int d = 0; d < s->rank; d++) {
    s->dims[d] = type->dims[d] >= 0 ? type->dims[d] : fresh(w);
    count = type->dims[d] == 1 ? count : 0;
  }
  if (count == 1 && type->kind == CRN_TYPE_TENSOR && crn_dtype_is_integer(type->dtype)) {
    s->n_values = 1;
    s->values[0] = fresh(w);
  }
}

// --- steps ------------------------------------------------------------------------------------------------------------------

static crn_slot_shape *shape_of(const shape_walk *w, uint32_t slot) { return &w->shapes->slots[slot]; }

// What the program declares is known already.
static void set_dim(crn_slot_shape *s, int d, crn_sym size) {
  if (d < s->rank && !crn_sym_is_constant(s->dims[d]) && size >= 0) s->dims[d] = size;
}

static void copy_dims(crn_slot_shape *to, const crn_slot_shape *from) {
  for (int d = 0; to->rank == from->rank && d < to->rank; d++) set_dim(to, d, from->dims[d]);
}

static void copy_values(crn_slot_shape *to, const crn_slot_shape *from) {
  to->n_values = from->n_values;
  memcpy(to->values, from->values, sizeof to->values);
}

// The size that broadcasting gives dimension d (counted from the right) of the first `n` operands; -1 when it is not clear.
static crn_sym broadcast_dim(const shape_walk *w, const uint32_t *in, uint32_t n, int d) {
  crn_sym found = 1;
  for (uint32_t k = 0; k < n; k++) {
    const crn_slot_shape *s = shape_of(w, in[k]);
    crn_sym size = d < s->rank ? s->dims[s->rank - 1 - d] : 1;
    if (size == 1 || size == found) continue;
    // Beside a constant above 1 a symbol can only be 1 or the same.
    if (crn_sym_is_constant(found) && found != 1) continue;
    if (found != 1 && !crn_sym_is_constant(size)) return -1;
    found = size;
  }
  return found;
}

static void walk_elementwise(shape_walk *w, const crn_step *s) {
  crn_slot_shape *out = shape_of(w, s->out[0]);
  for (int d = 0; d < out->rank; d++) set_dim(out, out->rank - 1 - d, broadcast_dim(w, s->in, s->n_in, d));
  const crn_slot_shape *a = shape_of(w, s->in[0]);
  cairn_dtype to = w->plan->slot_types[s->out[0]]->dtype;
  if (!crn_dtype_is_integer(to) || crn_dtype_bits(to) < 32 || a->n_values < 1) return;
  if (s->id == CRN_OP_cast) {
    if (crn_dtype_is_integer(w->plan->slot_types[s->in[0]]->dtype)) copy_values(out, a);
    return;
  }
  int op = s->id == CRN_OP_broadcasting_add || s->id == CRN_OP_add   ? OP_ADD
           : s->id == CRN_OP_broadcasting_sub || s->id == CRN_OP_sub ? OP_SUB
           : s->id == CRN_OP_broadcasting_mul || s->id == CRN_OP_mul ? OP_MUL
                                                                     : OP_FRESH;
  const crn_slot_shape *b = s->n_in == 2 ? shape_of(w, s->in[1]) : a;
  if (op == OP_FRESH || b->n_values < 1 || (a->n_values != b->n_values && a->n_values != 1 && b->n_values != 1)) return;
  out->n_values = a->n_values > b->n_values ? a->n_values : b->n_values;
  for (int i = 0; i < out->n_values; i++)
    out->values[i] = combine(w, op, a->values[a->n_values == 1 ? 0 : i], b->values[b->n_values == 1 ? 0 : i]);
}

static void walk_slice(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *begin = shape_of(w, s->in[1]), *end = shape_of(w, s->in[2]),
                       *step = shape_of(w, s->in[3]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (begin->n_values != x->rank || end->n_values != x->rank || step->n_values != x->rank || out->rank != x->rank) return;
  for (int d = 0; d < x->rank; d++) {
    crn_sym b = begin->values[d], e = end->values[d], size = x->dims[d];
    if (step->values[d] != 1) continue;
    int64_t first, count;
    if (crn_sym_is_constant(b) && crn_sym_is_constant(e) && crn_sym_is_constant(size)) {
      crn_slice_bounds(size, b, e, 1, &first, &count);
      set_dim(out, d, count);
    } else {
      set_dim(out, d, b == 0 && (e == size || e == INT32_MAX) ? size : add_symbol(w, OP_SLICE, add_symbol(w, OP_PAIR, b, e), size));
    }
  }
  if (x->rank != 1 || x->n_values < 0 || step->values[0] != 1 || !crn_sym_is_constant(begin->values[0]) ||
      !crn_sym_is_constant(end->values[0]))
    return;
  int64_t first, count;
  crn_slice_bounds(x->n_values, begin->values[0], end->values[0], 1, &first, &count);
  out->n_values = (int)count;
  for (int64_t i = 0; i < count; i++) out->values[i] = x->values[first + i];
}

static void walk_concat(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *axis = shape_of(w, s->in[0]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (axis->n_values != 1 || !crn_sym_is_constant(axis->values[0])) return;
  int64_t at = axis->values[0] < 0 ? axis->values[0] + out->rank : axis->values[0];
  crn_sym sum = 0;
  int n = 0;
  crn_sym values[CAIRN_MAX_RANK];
  for (uint32_t k = 1; k < s->n_in; k++) {
    const crn_slot_shape *x = shape_of(w, s->in[k]);
    // Single numbers may be joined with vectors.
    const bool is_number = x->rank == 0 && x->n_values == 1 && out->rank == 1;
    if ((x->rank != out->rank && !is_number) || at < 0 || at >= out->rank) return;
    sum = combine(w, OP_ADD, sum, is_number ? 1 : x->dims[at]);
    if (n >= 0 && (x->n_values < 0 || out->rank != 1 || n + x->n_values > CAIRN_MAX_RANK)) n = -1;
    for (int i = 0; n >= 0 && i < x->n_values; i++) values[n + i] = x->values[i];
    if (n >= 0) n += x->n_values;
    for (int d = 0; d < out->rank; d++) {
      if (d != at && k == 1) set_dim(out, d, x->dims[d]);
    }
  }
  set_dim(out, (int)at, sum);
  if (n < 0) return;
  out->n_values = n;
  memcpy(out->values, values, (size_t)n * sizeof *values);
}

// What all sizes but the one at `skip` make together; false unless they are constants.
static bool product_beside(const crn_sym *sizes, int rank, int skip, int64_t *out) {
  *out = 1;
  for (int d = 0; d < rank; d++) {
    if (d == skip) continue;
    if (!crn_sym_is_constant(sizes[d]) || sizes[d] < 1 || sizes[d] > CRN_SYMBOL / *out) return false;
    *out *= sizes[d];
  }
  return true;
}

// The size that a reshape leaves open (-1) is the operand's unknown one where all others make as much on both sides.
static crn_sym open_size(const crn_slot_shape *x, const crn_slot_shape *sizes, int at) {
  int64_t before, after;
  int open = 0;
  while (open < x->rank && crn_sym_is_constant(x->dims[open])) open++;
  bool same = open < x->rank && product_beside(x->dims, x->rank, open, &before) &&
              product_beside(sizes->values, sizes->n_values, at, &after) && before == after;
  return same ? x->dims[open] : -1;
}

static void walk_sized(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *sizes = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (s->id == CRN_OP_reshape) copy_values(out, x);
  if (sizes->n_values != out->rank) return;
  for (int d = 0; d < out->rank; d++)
    set_dim(out, d, s->id == CRN_OP_reshape && sizes->values[d] == -1 ? open_size(x, sizes, d) : sizes->values[d]);
}

// The dimensions that operand 2 names get the sizes in operand 1.
static void walk_broadcast_in_dims(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *sizes = shape_of(w, s->in[1]), *axes = shape_of(w, s->in[2]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  bool is_named[CAIRN_MAX_RANK] = {false};
  if (x->rank != out->rank || axes->n_values < 0 || sizes->n_values != axes->n_values) return;
  for (int i = 0; i < axes->n_values; i++) {
    int64_t at = axes->values[i] < 0 ? axes->values[i] + out->rank : axes->values[i];
    if (at < 0 || at >= out->rank || is_named[at]) return;
    is_named[at] = true;
    set_dim(out, (int)at, sizes->values[i]);
  }
  for (int d = 0; d < out->rank; d++) {
    if (!is_named[d]) set_dim(out, d, x->dims[d]);
  }
}

// expand_dims and shrink_dims: `longer` has the dimensions that the axes name.
static void walk_ones(shape_walk *w, const crn_step *s, bool is_shrink) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *axes = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  bool is_one[CAIRN_MAX_RANK] = {false};
  int rank = is_shrink ? x->rank : out->rank;
  copy_values(out, x);
  if (axes->n_values < 0 || axes->n_values + (is_shrink ? out->rank : x->rank) != rank) return;
  for (int i = 0; i < axes->n_values; i++) {
    int64_t at = axes->values[i] < 0 ? axes->values[i] + rank : axes->values[i];
    if (at < 0 || at >= rank) return;
    is_one[at] = true;
  }
  for (int d = 0, other = 0; d < rank; d++) {
    if (is_one[d]) continue;
    if (is_shrink) set_dim(out, other, x->dims[d]);
    if (!is_shrink) set_dim(out, d, x->dims[other]);
    other++;
  }
}

static void walk_transpose(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *order = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (order->n_values != x->rank || out->rank != x->rank) return;
  for (int d = 0; d < out->rank; d++) {
    int64_t from = order->values[d] < 0 ? order->values[d] + x->rank : order->values[d];
    if (from >= 0 && from < x->rank) set_dim(out, d, x->dims[from]);
  }
}

static void walk_reduce(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *axes = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (axes->n_values < 0 || out->rank != x->rank) return;
  for (int d = 0; d < out->rank; d++) {
    bool is_reduced = false;
    for (int i = 0; i < axes->n_values; i++) is_reduced |= axes->values[i] == d || axes->values[i] + x->rank == d;
    set_dim(out, d, is_reduced ? 1 : x->dims[d]);
  }
}

static void walk_matmul(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *a = shape_of(w, s->in[0]), *b = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (a->rank < 2 || b->rank < 2 || out->rank != (a->rank > b->rank ? a->rank : b->rank)) return;
  set_dim(out, out->rank - 1, b->dims[b->rank - 1]);
  set_dim(out, out->rank - 2, a->dims[a->rank - 2]);
  for (int d = 2; d < out->rank; d++) set_dim(out, out->rank - 1 - d, broadcast_dim(w, s->in, 2, d));
}

static void walk_gather_nd(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *x = shape_of(w, s->in[0]), *index = shape_of(w, s->in[1]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (index->rank < 1 || !crn_sym_is_constant(index->dims[index->rank - 1])) return;
  int64_t length = index->dims[index->rank - 1];
  if (length > x->rank || out->rank != index->rank - 1 + x->rank - length) return;
  for (int d = 0; d < index->rank - 1; d++) set_dim(out, d, index->dims[d]);
  for (int d = (int)length; d < x->rank; d++) set_dim(out, index->rank - 1 + d - (int)length, x->dims[d]);
}

static void walk_attention(shape_walk *w, const crn_step *s) {
  const crn_slot_shape *q = shape_of(w, s->in[0]), *v = shape_of(w, s->in[2]);
  crn_slot_shape *out = shape_of(w, s->out[0]);
  if (q->rank != out->rank || v->rank != out->rank || q->rank < 1) return;
  for (int d = 0; d + 1 < q->rank; d++) set_dim(out, d, q->dims[d]);
  set_dim(out, q->rank - 1, v->dims[v->rank - 1]);
}

static void walk_kernel(shape_walk *w, const crn_step *s) {
  crn_slot_shape *out = shape_of(w, s->out[0]);
  switch (s->id) {
    case CRN_OP_get_shape: {
      const crn_slot_shape *x = shape_of(w, s->in[0]);
      out->n_values = x->rank;
      memcpy(out->values, x->dims, sizeof out->values);
      return;
    }
    case CRN_OP_slice:
      walk_slice(w, s);
      return;
    case CRN_OP_concat:
      walk_concat(w, s);
      return;
    case CRN_OP_reshape:
    case CRN_OP_broadcast_to:
      walk_sized(w, s);
      return;
    case CRN_OP_broadcast_in_dims:
      if (s->n_in == 3) walk_broadcast_in_dims(w, s);
      return;
    case CRN_OP_expand_dims:
    case CRN_OP_shrink_dims:
      walk_ones(w, s, s->id == CRN_OP_shrink_dims);
      return;
    case CRN_OP_transpose:
      walk_transpose(w, s);
      return;
    case CRN_OP_batch_matmul:
    case CRN_OP_broadcasting_batch_matmul:
      walk_matmul(w, s);
      return;
    case CRN_OP_gather_nd:
      walk_gather_nd(w, s);
      return;
    case CRN_OP_sort:
    case CRN_OP_argsort:
      copy_dims(out, shape_of(w, s->in[0]));
      return;
    case CRN_OP_scaled_dot_product_attention:
      walk_attention(w, s);
      return;
    case CRN_OP_range: {
      const crn_slot_shape *a = shape_of(w, s->in[0]), *b = shape_of(w, s->in[1]), *step = shape_of(w, s->in[2]);
      if (a->n_values == 1 && a->values[0] == 0 && step->n_values == 1 && step->values[0] == 1 && b->n_values == 1)
        set_dim(out, 0, b->values[0]);
      return;
    }
    default:
      break;
  }
  uint32_t traits = crn_op_info_of(s->id)->traits;
  if (traits & CRN_ELEMENTWISE)
    walk_elementwise(w, s);
  else if (s->infer == crn_infer_unary)
    copy_dims(out, shape_of(w, s->in[0]));
  else if (s->infer == crn_infer_reduce)
    walk_reduce(w, s);
}

static void walk_step(shape_walk *w, const crn_step *s) {
  if (s->kind == CRN_STEP_READ) {
    crn_slot_shape *out = shape_of(w, s->out[0]);
    for (int d = 0; d < out->rank; d++) set_dim(out, d, add_symbol(w, OP_STATE, s->state, d));
  } else if (s->kind == CRN_STEP_ALIAS) {
    copy_dims(shape_of(w, s->out[0]), shape_of(w, s->in[0]));
    copy_values(shape_of(w, s->out[0]), shape_of(w, s->in[0]));
  } else if (!s->fused && (s->kind == CRN_STEP_KERNEL || s->kind == CRN_STEP_UPDATE || s->kind == CRN_STEP_COMPOSITE)) {
    walk_kernel(w, s);
  }
}

cairn_status crn_shapes_create(const crn_plan *p, const crn_plan_index *x, crn_shapes *out) {
  *out = (crn_shapes){.allocator = &p->context->allocator, .n_slots = p->n_slots};
  shape_walk w = {.plan = p, .shapes = out};
  CRN_TRY(crn_alloc_array(out->allocator, p->n_slots, sizeof *out->slots, &out->slots));
  for (uint32_t i = 0; i < p->n_slots; i++) begin_slot(&w, i);
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    if (x->is_inner[i] || s->n_out != 1 || x->made_by[s->out[0]] != i) continue;
    walk_step(&w, s);
  }
  if (w.status != CAIRN_OK) crn_shapes_destroy(out);
  return w.status;
}

void crn_shapes_destroy(crn_shapes *x) {
  if (!x->allocator) return;
  crn_free(x->allocator, x->slots, x->n_slots * sizeof *x->slots);
  crn_vec_free(x->allocator, &x->expressions);
  *x = (crn_shapes){0};
}

bool crn_shapes_equal(const crn_shapes *x, uint32_t a, uint32_t b) {
  const crn_slot_shape *s = &x->slots[a], *t = &x->slots[b];
  return s->rank == t->rank && !memcmp(s->dims, t->dims, (size_t)s->rank * sizeof *s->dims);
}
