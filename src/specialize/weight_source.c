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

// A single number is one of the rank that is wanted.
static crn_tensor spread_number(const crn_tensor *t, int rank) {
  crn_tensor out = *t;
  if (t->rank || t->packed) return out;
  out.rank = rank;
  for (int d = 0; d < rank; d++) {
    out.dims[d] = 1;
    out.strides[d] = 1;
  }
  return out;
}

static bool find_quantized(const crn_plan *p, const crn_step *s, crn_matrix_axes axes, crn_weight_source *w) {
  const crn_tensor *parts[4];
  for (int i = 0; i < 4; i++) {
    parts[i] = crn_constant_of(p, s->in[i]);
    w->is_transient |= p->constants[s->in[i]].buffer != NULL;
    if (!parts[i] ||
        (i > 0 && ((parts[i]->rank && parts[i]->rank != parts[0]->rank) || (parts[i]->packed && crn_dtype_bits(parts[i]->dtype) > 8))))
      return false;
  }
  w->is_quantized = true;
  w->data = *parts[0];
  w->scale = spread_number(parts[1], parts[0]->rank);
  w->offset1 = spread_number(parts[2], parts[0]->rank);
  w->offset2 = spread_number(parts[3], parts[0]->rank);
  w->dtype = p->slot_types[s->out[0]]->dtype;
  if (!crn_dtype_is_integer(w->data.dtype) || crn_dtype_bits(w->data.dtype) > 8 || !is_matrix(&w->data, axes) || !set_sizes(w, axes))
    return false;
  if (w->scale.packed || w->offset2.packed || !crn_dtype_is_float(w->scale.dtype)) return false;
  if (!blocks_fit(w)) return false;
  crn_weight_source_find_zero(w);
  return true;
}

// Rows of blocks that lie in order; those of several operands follow one another.
static bool find_blocks(const crn_plan *p, const crn_step *s, crn_matrix_axes axes, crn_weight_source *w) {
  w->blocks = crn_block_format_of(s->op->attr.mode);
  w->dtype = p->slot_types[s->out[0]]->dtype;
  w->is_quantized = true;
  if (!w->blocks || s->n_in > CRN_WEIGHT_PARTS) return false;
  for (uint32_t i = 0; i < s->n_in; i++) {
    const crn_tensor *t = crn_constant_of(p, s->in[i]);
    if (!t || t->packed || t->dtype != CAIRN_UI8 || !crn_tensor_is_contiguous(t)) return false;
    w->is_transient |= p->constants[s->in[i]].buffer != NULL;
    w->pieces[w->n_pieces++] = *t;
  }
  w->data = w->pieces[0];
  if (!is_matrix(&w->data, axes) || axes.k != w->data.rank - 1 || axes.n > axes.k || axes.stack > axes.n || !set_sizes(w, axes))
    return false;
  if (w->n_pieces > 1 && (w->stack > 1 || axes.n != 0)) return false;
  for (int i = 1; i < w->n_pieces; i++) w->n += w->pieces[i].dims[axes.n];
  w->k = w->data.dims[axes.k] / w->blocks->bytes * w->blocks->elements;
  w->zero = (float)w->blocks->zero;
  w->has_common_zero = !w->blocks->has_shift;
  return w->k > 0 && w->k % CRN_LINEAR_GROUP == 0;
}

static bool find_palette(const crn_plan *p, const crn_palette_steps *steps, crn_matrix_axes axes, crn_weight_source *w) {
  if (!crn_weight_palette_find(p, steps, w)) return false;
  crn_tensor dense = w->data;
  if (w->vector > 1 && !crn_mul_i64(dense.dims[w->vector_axis], w->vector, &dense.dims[w->vector_axis])) return false;
  if (!is_matrix(&dense, axes)) return false;
  crn_tensor codes = w->data;
  w->data = dense;
  bool has_sizes = set_sizes(w, axes);
  w->data = codes;
  return has_sizes && (axes.stack == CRN_NO_AXIS || axes.stack != w->vector_axis) && crn_weight_palette_finish(p, steps->scaling, w);
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
  crn_step *s = crn_maker_of(p, x, origin);
  crn_palette_steps palette;
  if (!s || s->kind != CRN_STEP_KERNEL || s->fused) return false;
  if (s->id == CRN_OP_unpack_blocks) return find_blocks(p, s, axes, out);
  if (crn_weight_palette_steps(p, x, s, &palette)) return find_palette(p, &palette, axes, out);
  return s->id == CRN_OP_blockwise_shift_scale && find_quantized(p, s, axes, out);
}

// --- palettes that are kept ---------------------------------------------------------------------------------------------------

static void keep_palette(crn_plan *p, const crn_plan_index *x, uint32_t slot, crn_matrix_axes axes) {
  crn_weight_source w;
  if (!crn_weight_source_find(p, x, slot, axes, &w) || !w.is_palette) return;
  crn_palette_steps steps;
  crn_step *last = crn_maker_of(p, x, find_origin(p, x, slot, &axes));
  if (last && crn_weight_palette_steps(p, x, last, &steps)) steps.lut->is_kept = true;
}

cairn_status crn_plan_keep_palettes(crn_plan *p) {
  crn_plan_index x;
  CRN_TRY(crn_plan_index_create(p, &x));
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    bool is_product = s->id == CRN_OP_broadcasting_batch_matmul || s->id == CRN_OP_batch_matmul;
    if (s->n_in < 2 || s->fused || (s->kind != CRN_STEP_KERNEL && s->kind != CRN_STEP_COMPOSITE)) continue;
    int rank = p->slot_types[s->in[1]]->rank;
    if (is_product && rank >= 2) keep_palette(p, &x, s->in[1], (crn_matrix_axes){rank - 1, rank - 2, CRN_NO_AXIS});
    int left = p->slot_types[s->in[0]]->rank;
    if (is_product && left >= 2) keep_palette(p, &x, s->in[0], (crn_matrix_axes){left - 2, left - 1, CRN_NO_AXIS});
    if (is_product && left >= 3) keep_palette(p, &x, s->in[0], (crn_matrix_axes){left - 3, left - 1, CRN_NO_AXIS});
    if (s->id == CRN_OP_conv2d || s->id == CRN_OP_conv3d) keep_palette(p, &x, s->in[1], (crn_matrix_axes){0, 1, CRN_NO_AXIS});
    if (s->id == CRN_OP_gather_nd) keep_palette(p, &x, s->in[0], (crn_matrix_axes){0, 1, CRN_NO_AXIS});
    if (s->id == CRN_OP_gather_mm && rank >= 3) keep_palette(p, &x, s->in[1], (crn_matrix_axes){rank - 1, rank - 2, rank - 3});
  }
  crn_plan_index_destroy(&x);
  return CAIRN_OK;
}
