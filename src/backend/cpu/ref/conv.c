#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

enum { MAX_SPATIAL = 3, SLAB_ELEMENTS = 1 << 21 };

// A convolution without padding over `spatial` dimensions. Positions of the result and of the kernel are numbered in
// row-major order.
typedef struct conv {
  const crn_tensor *x, *w, *y;
  int spatial;
  int64_t groups, channels, outputs;  ///< channels and outputs of one group
  int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
  int64_t positions, taps, k;  ///< k = channels * taps
} conv;

static cairn_status describe(const crn_kernel_args *args, int spatial, conv *c) {
  const crn_tensor *x = c->x = &args->operands[0], *w = c->w = &args->operands[1], *y = c->y = &args->results[0];
  c->spatial = spatial;
  if (x->rank != spatial + 2 || w->rank != spatial + 2 || y->rank != spatial + 2) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: input, weight and result must have rank %d", crn_ref_name(args), spatial + 2);
  }
  if (x->dtype != w->dtype || x->dtype != y->dtype || (!crn_dtype_is_float(x->dtype) && !crn_dtype_is_complex(x->dtype))) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s and %s to %s has no kernel", crn_ref_name(args), cairn_dtype_name(x->dtype),
                    cairn_dtype_name(w->dtype), cairn_dtype_name(y->dtype));
  }
  CRN_TRY(crn_ref_spatial(args, 2, spatial, c->stride));
  CRN_TRY(crn_ref_spatial(args, 3, spatial, c->dilation));
  CRN_TRY(crn_ref_int_scalar(args, 4, &c->groups));
  if (c->groups < 1 || x->dims[1] % c->groups || w->dims[0] % c->groups || w->dims[1] != x->dims[1] / c->groups) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: %lld groups do not fit the channels of input and weight", crn_ref_name(args),
                    (long long)c->groups);
  }
  c->channels = w->dims[1];
  c->outputs = w->dims[0] / c->groups;
  c->positions = c->taps = 1;
  for (int d = 0; d < spatial; d++) {
    int64_t reach = (y->dims[d + 2] - 1) * c->stride[d] + (w->dims[d + 2] - 1) * c->dilation[d] + 1;
    if (c->stride[d] < 1 || c->dilation[d] < 1 || w->dims[d + 2] < 1 || (y->dims[d + 2] > 0 && reach > x->dims[d + 2])) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: the result does not fit into dimension %d of the input", crn_ref_name(args), d + 2);
    }
    // A step that is never taken may be any number.
    if (y->dims[d + 2] <= 1) c->stride[d] = 1;
    if (w->dims[d + 2] == 1) c->dilation[d] = 1;
    c->positions *= y->dims[d + 2];
    c->taps *= w->dims[d + 2];
  }
  c->k = c->channels * c->taps;
  if (y->dims[0] != x->dims[0] || y->dims[1] != w->dims[0])
    return CRN_FAIL(INVALID_ARGUMENT, "%s: batch or channels of the result differ", crn_ref_name(args));
  return CAIRN_OK;
}

// Offset of the input element under tap 0 of a position.
static int64_t position_offset(const conv *c, int64_t position) {
  int64_t offset = 0;
  for (int d = c->spatial - 1; d >= 0; d--) {
    offset += position % c->y->dims[d + 2] * c->stride[d] * c->x->strides[d + 2];
    position /= c->y->dims[d + 2];
  }
  return offset;
}

// --- f32, f16, bf16: patches of the input as rows, then a matrix product ------------------------------------------------------

typedef struct patches {
  const conv *c;
  int64_t base, first;  ///< offset of image and group; first position of the slab
  float *rows;
} patches;

static void fill_patches(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const patches *p = user;
  const conv *c = p->c;
  int last = c->spatial - 1;
  int64_t width = c->w->dims[last + 2], step = c->dilation[last] * c->x->strides[last + 2];
  for (int64_t i = begin; i < end; i++) {
    float *row = p->rows + i * c->k;
    int64_t origin = p->base + position_offset(c, p->first + i);
    if (c->taps == 1) {  // one element a channel
      const float *run = crn_elements_f32(c->x, origin, c->x->strides[1], c->k, row);
      if (run != row) memcpy(row, run, (size_t)c->k * sizeof *run);
      continue;
    }
    for (int64_t channel = 0; channel < c->channels; channel++) {
      for (int64_t tap = 0; tap < c->taps; tap += width, row += width) {
        int64_t offset = origin + channel * c->x->strides[1], rest = tap / width;
        for (int d = last - 1; d >= 0; d--) {
          offset += rest % c->w->dims[d + 2] * c->dilation[d] * c->x->strides[d + 2];
          rest /= c->w->dims[d + 2];
        }
        const float *run = crn_elements_f32(c->x, offset, step, width, row);
        if (run != row) memcpy(row, run, (size_t)width * sizeof *run);
      }
    }
  }
}

static cairn_status run_gemm(const crn_kernel_args *args, const conv *c) {
  crn_tensor w = *c->w;
  if (!crn_tensor_is_contiguous(&w)) {
    size_t bytes;
    if (!crn_shape_bytes(w.dtype, w.dims, w.rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "%s: the weight is too large", crn_ref_name(args));
    void *copy;
    CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
    w = crn_tensor_make(w.dtype, w.dims, w.rank, copy);
    crn_tensor_copy(c->w, &w);
  }
  int64_t slab = SLAB_ELEMENTS / (c->k + 1) + 1;
  if (slab > c->positions) slab = c->positions;
  patches p = {.c = c};
  int64_t *a_at, *out_at;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)(slab * c->k + 1) * sizeof(float), &p.rows));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)slab * sizeof *a_at, &a_at));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)slab * sizeof *out_at, &out_at));
  for (int64_t i = 0; i < slab; i++) a_at[i] = i * c->k;
  for (int64_t image = 0; image < c->x->dims[0]; image++) {
    for (int64_t group = 0; group < c->groups; group++) {
      p.base = image * c->x->strides[0] + group * c->channels * c->x->strides[1];
      for (p.first = 0; p.first < c->positions; p.first += slab) {
        int64_t rows = c->positions - p.first < slab ? c->positions - p.first : slab;
        crn_pool_run(args->pool, rows, 16384 / (c->k + 1) + 1, fill_patches, &p);
        int64_t first_row[2] = {0, rows}, b_at = group * c->outputs * c->k;
        int64_t out_base = (image * c->groups + group) * c->outputs * c->positions + p.first;
        for (int64_t i = 0; i < rows; i++) out_at[i] = out_base + i;
        crn_gemm g = {.n_groups = 1,
                      .n = c->outputs,
                      .k = c->k,
                      .first_row = first_row,
                      .b_at = &b_at,
                      .a = p.rows,
                      .a_at = a_at,
                      .b_dtype = w.dtype,
                      .b = w.data,
                      .b_stride_k = 1,
                      .b_stride_n = c->k,
                      .out_dtype = c->y->dtype,
                      .out = c->y->data,
                      .out_at = out_at,
                      .out_stride_n = c->positions};
        crn_gemm_run(&g, args->pool);
      }
    }
  }
  return CAIRN_OK;
}

// --- f64, 8-bit floats and complex numbers: one element at a time
// ---------------------------------------------------------------------------------

static void one_element(const conv *c, int64_t image, int64_t output, int64_t position, double *sum) {
  int64_t group = output / c->outputs;
  int64_t base = image * c->x->strides[0] + group * c->channels * c->x->strides[1] + position_offset(c, position);
  bool complex_numbers = crn_dtype_is_complex(c->x->dtype);
  for (int64_t channel = 0; channel < c->channels; channel++) {
    for (int64_t tap = 0; tap < c->taps; tap++) {
      int64_t x_at = base + channel * c->x->strides[1], w_at = output * c->w->strides[0] + channel * c->w->strides[1], rest = tap;
      for (int d = c->spatial - 1; d >= 0; d--) {
        int64_t index = rest % c->w->dims[d + 2];
        rest /= c->w->dims[d + 2];
        x_at += index * c->dilation[d] * c->x->strides[d + 2];
        w_at += index * c->w->strides[d + 2];
      }
      double a[2], b[2];
      crn_load_pair(c->x->dtype, crn_tensor_at(c->x, x_at), a);
      crn_load_pair(c->w->dtype, crn_tensor_at(c->w, w_at), b);
      // Real numbers are not multiplied as complex ones, for 0 times infinity is not a number.
      if (complex_numbers) {
        crn_add_product(a, b, sum);
      } else {
        sum[0] += a[0] * b[0];
      }
    }
  }
}

static void run_elements(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const conv *c = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t outputs = c->w->dims[0], plane = i / c->positions;
    double value[2] = {0, 0};
    one_element(c, plane / outputs, plane % outputs, i % c->positions, value);
    crn_store_pair(c->y->dtype, crn_tensor_at(c->y, i), value);
  }
}

static cairn_status convolve(const crn_kernel_args *args, int spatial) {
  conv c;
  CRN_TRY(describe(args, spatial, &c));
  if (crn_gemm_takes(c.x->dtype)) return c.positions > 0 ? run_gemm(args, &c) : CAIRN_OK;
  crn_pool_run(args->pool, crn_tensor_count(c.y), 4096 / (c.k + 1) + 1, run_elements, &c);
  return CAIRN_OK;
}

cairn_status crn_ref_conv2d(const crn_kernel_args *args) { return convolve(args, 2); }
cairn_status crn_ref_conv3d(const crn_kernel_args *args) { return convolve(args, 3); }
