// Which constants of a plan are matrices that can be packed.
#include "base/checked.h"
#include "specialize/weights.h"

// --- seeing through steps that only turn a matrix ---------------------------------------------------------------------------

// A constant vector of integers, as axes and permutations are given. False when the slot holds none.
static bool constant_integers(const crn_plan *p, uint32_t slot, int64_t *values, int *out_n) {
  const crn_tensor *t = crn_constant_of(p, slot);
  if (!t || t->packed || t->rank > 1 || !crn_dtype_is_integer(t->dtype)) return false;
  int64_t n = t->rank == 0 ? 1 : t->dims[0];
  if (n > CAIRN_MAX_RANK) return false;
  for (int64_t i = 0; i < n; i++) values[i] = crn_load_i64(t->dtype, crn_tensor_at(t, t->rank ? i * t->strides[0] : 0));
  *out_n = (int)n;
  return true;
}

static bool through_transpose(const crn_plan *p, const crn_step *s, int *axis) {
  int64_t order[CAIRN_MAX_RANK];
  int n;
  if (!constant_integers(p, s->in[1], order, &n) || n != p->slot_types[s->in[0]]->rank || *axis >= n) return false;
  *axis = (int)order[*axis];
  return *axis >= 0 && *axis < n;
}

// The axis before dimensions of size 1 were put in at `axes` (of the result).
static bool before_expand(const int64_t *axes, int n_axes, int rank, int *axis) {
  int before = *axis;
  for (int i = 0; i < n_axes; i++) {
    int64_t at = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (at == *axis) return false;
    before -= at < *axis;
  }
  *axis = before;
  return true;
}

static bool through_expand(const crn_plan *p, const crn_step *s, int *axis) {
  int64_t axes[CAIRN_MAX_RANK];
  int n;
  return constant_integers(p, s->in[1], axes, &n) && before_expand(axes, n, p->slot_types[s->out[0]]->rank, axis);
}

// The axis before dimensions at `axes` (of the operand) were taken out.
static bool before_shrink(const int64_t *axes, int n_axes, int rank, int *axis) {
  for (int old = 0, left = *axis; old < rank; old++) {
    bool is_gone = false;
    for (int i = 0; i < n_axes; i++) is_gone |= (axes[i] < 0 ? axes[i] + rank : axes[i]) == old;
    if (is_gone) continue;
    if (left-- == 0) {
      *axis = old;
      return true;
    }
  }
  return false;
}

static bool through_shrink(const crn_plan *p, const crn_step *s, int *axis) {
  int64_t axes[CAIRN_MAX_RANK];
  int n;
  return constant_integers(p, s->in[1], axes, &n) && before_shrink(axes, n, p->slot_types[s->in[0]]->rank, axis);
}

static bool through(const crn_plan *p, const crn_step *s, int *axis) {
  if (*axis == CRN_NO_AXIS) return true;
  return s->id == CRN_OP_transpose     ? through_transpose(p, s, axis)
         : s->id == CRN_OP_expand_dims ? through_expand(p, s, axis)
         : s->id == CRN_OP_shrink_dims ? through_shrink(p, s, axis)
                                       : false;
}

// Follows a slot to the constant or the step that its matrix comes from.
static uint32_t find_origin(const crn_plan *p, const crn_plan_index *x, uint32_t slot, crn_matrix_axes *axes) {
  for (;;) {
    const crn_step *s = crn_maker_of(p, x, slot);
    crn_matrix_axes before = *axes;
    if (!s || p->is_constant[slot] || s->kind != CRN_STEP_KERNEL || s->fused) return slot;
    if (!through(p, s, &before.n) || !through(p, s, &before.k) || !through(p, s, &before.stack)) return slot;
    *axes = before;
    slot = s->in[0];
  }
}

// --- the forms ----------------------------------------------------------------------------------------------------------------

static bool is_matrix(const crn_tensor *t, crn_matrix_axes axes) {
  if (axes.n == axes.k || axes.n >= t->rank || axes.k >= t->rank || axes.stack >= t->rank || axes.stack == axes.n || axes.stack == axes.k)
    return false;
  for (int d = 0; d < t->rank; d++) {
    if (d != axes.n && d != axes.k && d != axes.stack && t->dims[d] != 1) return false;
  }
  return t->dims[axes.n] > 0 && t->dims[axes.k] > 0 && (axes.stack == CRN_NO_AXIS || t->dims[axes.stack] > 0);
}

// Matrices of a stack are packed behind one another, which needs whole tiles.
static bool set_sizes(crn_weight_source *w, crn_matrix_axes axes) {
  w->n_axis = axes.n;
  w->k_axis = axes.k;
  w->stack_axis = axes.stack;
  w->stack = axes.stack == CRN_NO_AXIS ? 1 : w->data.dims[axes.stack];
  w->k = w->data.dims[axes.k];
  return (w->stack == 1 || w->data.dims[axes.n] % CRN_LINEAR_TILE == 0) && crn_mul_i64(w->data.dims[axes.n], w->stack, &w->n);
}

// Whether each group of inputs that the kernels scale together lies in one block.
static bool blocks_fit(const crn_weight_source *w) {
  if (w->scale.rank != w->data.rank) return false;
  int64_t blocks = w->scale.dims[w->k_axis];
  if (blocks <= 0 || w->k % blocks) return false;
  for (int d = 0; d < w->data.rank; d++) {
    if (w->scale.dims[d] <= 0 || w->data.dims[d] % w->scale.dims[d]) return false;
  }
  return blocks == 1 || w->k / blocks % CRN_LINEAR_GROUP == 0;
}

static bool find_quantized(const crn_plan *p, const crn_step *s, crn_matrix_axes axes, crn_weight_source *w) {
  const crn_tensor *parts[4];
  for (int i = 0; i < 4; i++) {
    parts[i] = crn_constant_of(p, s->in[i]);
    w->is_transient |= p->constants[s->in[i]].buffer != NULL;
    if (!parts[i] || (i > 0 && (parts[i]->rank != parts[0]->rank || (parts[i]->packed && crn_dtype_bits(parts[i]->dtype) > 8))))
      return false;
  }
  w->is_quantized = true;
  w->data = *parts[0];
  w->scale = *parts[1];
  w->offset1 = *parts[2];
  w->offset2 = *parts[3];
  w->dtype = p->slot_types[s->out[0]]->dtype;
  if (!crn_dtype_is_integer(w->data.dtype) || crn_dtype_bits(w->data.dtype) > 8 || !is_matrix(&w->data, axes) || !set_sizes(w, axes))
    return false;
  if (w->scale.packed || w->offset2.packed || !crn_dtype_is_float(w->scale.dtype)) return false;
  if (!blocks_fit(w)) return false;
  crn_weight_source_find_zero(w);
  return true;
}

static bool find_dense(const crn_tensor *t, crn_matrix_axes axes, crn_weight_source *w) {
  if (t->packed || (t->dtype != CAIRN_F16 && t->dtype != CAIRN_BF16 && t->dtype != CAIRN_F32) || !is_matrix(t, axes)) return false;
  w->data = *t;
  w->dtype = t->dtype;
  return set_sizes(w, axes);
}

bool crn_weight_source_find(const crn_plan *p, const crn_plan_index *x, uint32_t slot, crn_matrix_axes axes, crn_weight_source *out) {
  *out = (crn_weight_source){0};
  uint32_t origin = find_origin(p, x, slot, &axes);
  const crn_tensor *constant = crn_constant_of(p, origin);
  if (constant) {
    out->is_transient = p->constants[origin].buffer != NULL;
    return find_dense(constant, axes, out);
  }
  const crn_step *s = crn_maker_of(p, x, origin);
  return s && s->kind == CRN_STEP_KERNEL && s->id == CRN_OP_blockwise_shift_scale && find_quantized(p, s, axes, out);
}
