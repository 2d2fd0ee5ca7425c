// rms_norm and layer_norm: each row in f32, rounded to the type of the input before the scale is applied, and after each
// further step. The parameters of layer_norm are rounded to that type too; an rms_norm with an f32 scale rounds only once.
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/spans.h"

typedef struct norm {
  const crn_tensor *x, *y, *scale, *shift;  ///< scale and shift may be NULL
  bool centered;                            ///< layer_norm: subtract the mean first
  bool round_before_scale;
  float eps;
  int outer;         ///< leading dimensions, which number the rows
  int64_t length;    ///< of a row
  int64_t x_stride;  ///< between the elements of a row
  int64_t scale_strides[CAIRN_MAX_RANK], shift_strides[CAIRN_MAX_RANK];
  crn_tensor flat_scale, flat_shift;  ///< parameters copied to f32, where they are
  float *buffers;                     ///< two blocks of rows per worker
  const crn_rows_kernels *rows;
  int64_t block;  ///< rows taken at a time; 1 = each for itself
} norm;

enum { BLOCK_VALUES = 4096 };

static float mean(const float *v, int64_t n) { return (float)(crn_sum_f32(v, n) / (double)n); }

// Multiplies or adds the parameters that belong to this row.
static void apply(const norm *r, const crn_tensor *t, const int64_t *strides, int64_t offset, float *row, float *buffer, bool add) {
  if (!t) return;
  const float *p = crn_elements_f32(t, offset, strides[r->y->rank - 1], r->length, buffer);
  (add ? r->rows->add : r->rows->multiply)(row, p, row, r->length);
}

static void norm_row(const norm *r, const int64_t *offset, int64_t out, float *row, float *buffer) {
  int64_t n = r->length;
  const float *x = crn_elements_f32(r->x, offset[0], r->x_stride, n, row);
  if (x != row) memcpy(row, x, (size_t)n * sizeof *row);
  if (r->centered) {
    float middle = mean(row, n);
    for (int64_t i = 0; i < n; i++) row[i] -= middle;
  }
  float factor = 1.0f / sqrtf((float)(r->rows->squares(row, n) / (double)n) + r->eps);
  r->rows->scale(row, factor, row, n);
  if (r->round_before_scale) crn_round_f32(r->y->dtype, row, n);
  apply(r, r->scale, r->scale_strides, offset[1], row, buffer, false);
  if (r->shift) {
    if (r->scale) crn_round_f32(r->y->dtype, row, n);
    apply(r, r->shift, r->shift_strides, offset[2], row, buffer, true);
  }
  crn_elements_put_f32(r->y, out, n, row);
}

// Where row `row` of the input, of the scale and of the shift begins.
static void find_offsets(const norm *r, int64_t row, int64_t *offset) {
  offset[0] = offset[1] = offset[2] = 0;
  for (int d = r->outer - 1; d >= 0; d--) {
    int64_t dim = r->y->dims[d], index = dim == 1 ? 0 : row % dim;
    if (dim != 1) row /= dim;
    offset[0] += index * r->x->strides[d];
    if (r->scale) offset[1] += index * r->scale_strides[d];
    if (r->shift) offset[2] += index * r->shift_strides[d];
  }
}

// The n rows from `first` on, which lie at `at`, by few calls: rows of heads are short. Not for layer_norm.
static void norm_block(const norm *r, int64_t first, int64_t n, int64_t at, float *rows, float *buffer) {
  int64_t length = r->length, scale_at = 0;
  const float *x = crn_elements_f32(r->x, at, 1, n * length, rows);
  bool is_together = true;
  for (int64_t i = 0; i < n; i++) {
    int64_t offset[3];
    find_offsets(r, first + i, offset);
    if (i == 0) scale_at = offset[1];
    is_together = is_together && offset[1] == scale_at + i * length;
    float factor = 1.0f / sqrtf((float)(r->rows->squares(x + i * length, length) / (double)length) + r->eps);
    r->rows->scale(x + i * length, factor, rows + i * length, length);
  }
  if (r->round_before_scale) crn_round_f32(r->y->dtype, rows, n * length);
  if (r->scale && is_together && r->scale_strides[r->y->rank - 1] == 1) {
    r->rows->multiply(rows, crn_elements_f32(r->scale, scale_at, 1, n * length, buffer), rows, n * length);
  } else {
    for (int64_t i = 0; i < n; i++) {
      int64_t offset[3];
      find_offsets(r, first + i, offset);
      apply(r, r->scale, r->scale_strides, offset[1], rows + i * length, buffer, false);
    }
  }
  crn_elements_put_f32(r->y, first * length, n * length, rows);
}

static void norm_rows(void *user, int64_t begin, int64_t end, int worker) {
  const norm *r = user;
  float *rows = r->buffers + 2 * r->block * r->length * worker, *buffer = rows + r->block * r->length;
  for (int64_t row = begin, n; row < end; row += n) {
    int64_t offset[3];
    n = end - row < r->block ? end - row : r->block;
    find_offsets(r, row, offset);
    if (r->block > 1) {
      norm_block(r, row, n, offset[0], rows, buffer);
    } else {
      norm_row(r, offset, row * r->length, rows, buffer);
    }
  }
}

// How many rows are worth being taken together: short ones that lie behind one another.
static int64_t rows_together(const norm *r, int64_t n_rows) {
  int64_t n = BLOCK_VALUES / r->length;
  if (r->centered || r->shift || !crn_tensor_is_contiguous(r->x)) return 1;
  return n < 1 ? 1 : n < n_rows ? n : n_rows;
}

// Copies a parameter with the shape of a row to contiguous f32; those of layer_norm are rounded to the type of the input.
static cairn_status flatten(const crn_kernel_args *args, const norm *r, int n_axes, const crn_tensor **in_out, crn_tensor *flat,
                            int64_t *strides) {
  const crn_tensor *t = *in_out;
  bool same = t->rank == n_axes && crn_computes_f32(t->dtype);
  for (int d = 0; same && d < n_axes; d++) same = t->dims[d] == r->y->dims[r->outer + d];
  if (!same) return CRN_FAIL(UNSUPPORTED, "%s over %d axes: a parameter has another type or shape", crn_ref_name(args), n_axes);
  const float *rows;
  float *copy;
  CRN_TRY(crn_rows_f32(args, t, &rows));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)r->length * sizeof *copy, &copy));
  memcpy(copy, rows, (size_t)r->length * sizeof *copy);
  if (r->centered) crn_round_f32(r->x->dtype, copy, r->length);
  *flat = crn_tensor_make(CAIRN_F32, &r->length, 1, copy);
  *in_out = flat;
  for (int d = 0; d < r->y->rank; d++) strides[d] = 0;
  strides[r->y->rank - 1] = 1;
  return CAIRN_OK;
}

// A row is the last dimension, or several last ones when they lie together in the input; then they are seen as one.
static cairn_status shape_rows(const crn_kernel_args *args, norm *r, int n_axes) {
  int rank = r->x->rank;
  r->outer = rank - n_axes;
  r->length = 1;
  r->x_stride = n_axes > 1 ? 1 : r->x->strides[rank - 1];
  for (int d = rank - 1; d >= r->outer; d--) {
    if (n_axes > 1 && r->x->dims[d] != 1 && r->x->strides[d] != r->length) {
      return CRN_FAIL(UNSUPPORTED, "%s over %d axes needs them next to each other", crn_ref_name(args), n_axes);
    }
    r->length *= r->x->dims[d];
  }
  if (r->centered || n_axes > 1) {
    if (r->scale) CRN_TRY(flatten(args, r, n_axes, &r->scale, &r->flat_scale, r->scale_strides));
    if (r->shift) CRN_TRY(flatten(args, r, n_axes, &r->shift, &r->flat_shift, r->shift_strides));
  } else if (r->scale) {
    CRN_TRY_NOTE(crn_broadcast_strides(r->scale, r->y->dims, rank, r->scale_strides), "in %s", crn_ref_name(args));
  }
  return CAIRN_OK;
}

static cairn_status run(const crn_kernel_args *args, norm *r) {
  if (!crn_computes_f32(r->x->dtype) || r->y->dtype != r->x->dtype || !crn_tensor_same_shape(r->x, r->y) || r->x->rank < 1) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s to %s has no kernel", crn_ref_name(args), cairn_dtype_name(r->x->dtype),
                    cairn_dtype_name(r->y->dtype));
  }
  int n_axes;
  double eps;
  CRN_TRY(crn_composite_trailing_axes(args, r->x->rank, &n_axes));
  if (!crn_attr_find(args->attrs, "eps")) return CRN_FAIL(UNSUPPORTED, "%s: attribute 'eps' is missing", crn_ref_name(args));
  CRN_TRY(crn_attr_get_float(args->attrs, "eps", 0, &eps));
  r->eps = (float)eps;
  CRN_TRY(shape_rows(args, r, n_axes));
  int64_t count = crn_tensor_count(r->y);
  if (count == 0) return CAIRN_OK;
  r->rows = crn_rows_select();
  r->block = rows_together(r, count / r->length);
  size_t bytes = 2 * (size_t)(r->block * r->length) * sizeof(float) * (size_t)crn_pool_threads(args->pool);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &r->buffers));
  crn_pool_run(args->pool, count / r->length, 4096 / r->length + 1, norm_rows, r);
  return CAIRN_OK;
}

cairn_status crn_ref_rms_norm(const crn_kernel_args *args) {
  static const char *const names[] = {"scale", NULL};
  norm r = {.x = &args->operands[0], .y = &args->results[0]};
  CRN_TRY(crn_composite_names(args, 1, names));
  r.scale = crn_composite_operand(args, "scale");
  if (r.scale && r.scale->dtype != r.x->dtype && r.scale->dtype != CAIRN_F32) {
    return CRN_FAIL(UNSUPPORTED, "rms_norm of %s with a scale of %s has no kernel", cairn_dtype_name(r.x->dtype),
                    cairn_dtype_name(r.scale->dtype));
  }
  r.round_before_scale = r.scale && r.scale->dtype == r.x->dtype;
  return run(args, &r);
}

cairn_status crn_ref_layer_norm(const crn_kernel_args *args) {
  static const char *const names[] = {"gamma", "beta", NULL};
  norm r = {.x = &args->operands[0], .y = &args->results[0], .centered = true, .round_before_scale = true};
  CRN_TRY(crn_composite_names(args, 1, names));
  r.scale = crn_composite_operand(args, "gamma");
  r.shift = crn_composite_operand(args, "beta");
  return run(args, &r);
}
