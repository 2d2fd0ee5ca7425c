// rope: pairs of elements turned by position * frequency. Angles, cosines and sines are f32; cosines and sines are rounded
// to the type of the input, and so is each product and sum.
#include <math.h>
#include <string.h>

#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/spans.h"

typedef struct rope {
  const crn_tensor *x, *y;
  const crn_tensor *positions, *offset;  ///< integers, or NULL: positions count from 0
  const crn_tensor *cos, *sin;           ///< tables given by the caller, or NULL
  int64_t dims, half, length, sequence;  ///< turned elements, pairs, elements and rows of the last two dimensions
  bool interleaved;
  int64_t cos_strides[CAIRN_MAX_RANK], sin_strides[CAIRN_MAX_RANK];
  float *frequencies;     ///< half of them
  int64_t table_batches;  ///< 1 when all elements of the batch have the same positions
  float *table;           ///< [table_batches, sequence, 2, half]: cosines and sines, rounded
  float *buffers;         ///< per worker: cos, sin (half each), two products (half each), two inputs (half each), output row
} rope;

static int64_t position_of(const rope *r, int64_t batch, int64_t row) {
  if (r->positions) {
    int64_t at = batch * r->positions->strides[0] + row * r->positions->strides[1];
    return crn_load_i64(r->positions->dtype, crn_tensor_at(r->positions, at));
  }
  if (!r->offset) return row;
  int64_t at = r->offset->rank ? batch * r->offset->strides[0] : 0;
  return row + crn_load_i64(r->offset->dtype, crn_tensor_at(r->offset, at));
}

static void fill_table(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const rope *r = user;
  for (int64_t i = begin; i < end; i++) {
    float position = (float)position_of(r, i / r->sequence, i % r->sequence), *cosines = r->table + i * 2 * r->half,
          *sines = cosines + r->half;
    for (int64_t k = 0; k < r->half; k++) {
      float angle = position * r->frequencies[k];
      cosines[k] = cosf(angle);
      sines[k] = sinf(angle);
    }
    crn_round_f32(r->x->dtype, cosines, 2 * r->half);
  }
}

// The cosines and sines of a row: computed before, or read from the tables given by the caller.
static void find_table(const rope *r, const int64_t *index, float *buffer, const float **out_cosines, const float **out_sines) {
  int last = r->x->rank - 1;
  if (!r->cos) {
    int64_t row = (r->table_batches > 1 ? index[0] : 0) * r->sequence + index[last - 1];
    *out_cosines = r->table + row * 2 * r->half;
    *out_sines = *out_cosines + r->half;
    return;
  }
  int64_t at_cos = 0, at_sin = 0;
  for (int d = 0; d < last; d++) {
    at_cos += index[d] * r->cos_strides[d];
    at_sin += index[d] * r->sin_strides[d];
  }
  *out_cosines = crn_elements_f32(r->cos, at_cos, r->cos_strides[last], r->half, buffer);
  *out_sines = crn_elements_f32(r->sin, at_sin, r->sin_strides[last], r->half, buffer + r->half);
}

// out = a * b op c * d with the rounding points of the body.
static void turn(const rope *r, const float *a, const float *b, const float *c, const float *d, bool subtract, float *products, float *out,
                 int64_t out_step) {
  float *p = products, *q = products + r->half;
  for (int64_t i = 0; i < r->half; i++) p[i] = a[i] * b[i], q[i] = c[i] * d[i];
  crn_round_f32(r->x->dtype, p, r->half);
  crn_round_f32(r->x->dtype, q, r->half);
  for (int64_t i = 0; i < r->half; i++) out[i * out_step] = subtract ? p[i] - q[i] : p[i] + q[i];
}

static void rope_row(const rope *r, const int64_t *index, int64_t out, float *buffer) {
  int64_t half = r->half, last = r->x->rank - 1, stride = r->x->strides[last], at = 0, step = r->interleaved ? 2 : 1;
  float *products = buffer + 2 * half, *even = products + 2 * half, *odd = even + half, *row = odd + half;
  const float *cosines, *sines;
  find_table(r, index, buffer, &cosines, &sines);
  for (int d = 0; d < last; d++) at += index[d] * r->x->strides[d];
  int64_t second = r->interleaved ? 1 : half;
  const float *x = crn_elements_f32(r->x, at, stride * step, half, even);
  const float *y = crn_elements_f32(r->x, at + second * stride, stride * step, half, odd);
  turn(r, cosines, x, sines, y, true, products, row, step);
  turn(r, sines, x, cosines, y, false, products, row + second, step);
  int64_t rest = r->length - r->dims;
  const float *tail = crn_elements_f32(r->x, at + r->dims * stride, stride, rest, row + r->dims);
  if (tail != row + r->dims) memcpy(row + r->dims, tail, (size_t)rest * sizeof *tail);
  crn_elements_put_f32(r->y, out, r->length, row);
}

static void rope_rows(void *user, int64_t begin, int64_t end, int worker) {
  const rope *r = user;
  float *buffer = r->buffers + worker * (6 * r->half + r->length);
  for (int64_t row = begin; row < end; row++) {
    int64_t index[CAIRN_MAX_RANK], rest = row;
    for (int d = r->x->rank - 2; d >= 0; d--) {
      index[d] = rest % r->x->dims[d];
      rest /= r->x->dims[d];
    }
    rope_row(r, index, row * r->length, buffer);
  }
}

// Frequencies: given, or 1 / base^(2i / dims); times the scale.
static cairn_status fill_frequencies(const crn_kernel_args *args, rope *r, const crn_tensor *given) {
  double base, scale;
  CRN_TRY(crn_attr_get_float(args->attrs, "base", 10000, &base));
  CRN_TRY(crn_attr_get_float(args->attrs, "scale", 1, &scale));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)r->half * sizeof(float), &r->frequencies));
  if (given) {
    if (given->dtype != CAIRN_F32 || given->rank != 1 || given->dims[0] != r->half) {
      return CRN_FAIL(UNSUPPORTED, "rope: 'freqs' must be %lld values of f32", (long long)r->half);
    }
    for (int64_t i = 0; i < r->half; i++) r->frequencies[i] = *(const float *)crn_tensor_at(given, i * given->strides[0]) * (float)scale;
    return CAIRN_OK;
  }
  for (int64_t i = 0; i < r->half; i++) r->frequencies[i] = 1.0f / powf((float)base, (float)(2 * i) / (float)r->dims) * (float)scale;
  return CAIRN_OK;
}

static cairn_status prepare_table(const crn_kernel_args *args, rope *r, const crn_tensor *freqs) {
  CRN_TRY(fill_frequencies(args, r, freqs));
  r->table_batches = r->positions ? r->positions->dims[0] : r->offset && r->offset->rank ? r->offset->dims[0] : 1;
  int64_t rows = r->table_batches * r->sequence;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)(rows * 2 * r->half) * sizeof(float), &r->table));
  crn_pool_run(args->pool, rows, 512 / r->half + 1, fill_table, r);
  return CAIRN_OK;
}

static cairn_status check_inputs(const rope *r, const crn_tensor *freqs) {
  const crn_tensor *x = r->x;
  if (x->rank < 2 || !crn_computes_f32(x->dtype) || r->y->dtype != x->dtype || !crn_tensor_same_shape(x, r->y)) {
    return CRN_FAIL(UNSUPPORTED, "rope of %s of rank %d has no kernel", cairn_dtype_name(x->dtype), x->rank);
  }
  bool tables = r->cos || r->sin;
  if (tables && (!r->cos || !r->sin || freqs || r->positions || r->offset))
    return CRN_FAIL(UNSUPPORTED, "rope: 'cos' and 'sin' come together and alone");
  if (tables && (r->cos->dtype != x->dtype || r->sin->dtype != x->dtype))
    return CRN_FAIL(UNSUPPORTED, "rope: 'cos' and 'sin' must have the type of 'input'");
  if (r->positions && (r->offset || x->rank != 4 || r->positions->rank != 2 || !crn_dtype_is_integer(r->positions->dtype) ||
                       (r->positions->dims[0] != x->dims[0] && r->positions->dims[0] != 1) || r->positions->dims[1] != r->sequence)) {
    return CRN_FAIL(UNSUPPORTED, "rope: 'position_ids' must be integers [batch, sequence] of an input of rank 4");
  }
  if (r->offset && (x->rank != 4 || r->offset->rank > 1 || !crn_dtype_is_integer(r->offset->dtype) ||
                    (r->offset->rank == 1 && r->offset->dims[0] != x->dims[0] && r->offset->dims[0] != 1))) {
    return CRN_FAIL(UNSUPPORTED, "rope: 'offset' must be one integer, or one for each element of the batch");
  }
  if (r->dims < 2 || r->dims > r->length || r->dims % 2)
    return CRN_FAIL(UNSUPPORTED, "rope: %lld dims of %lld", (long long)r->dims, (long long)r->length);
  return CAIRN_OK;
}

// Strides of a table that broadcasts to [.., sequence, half].
static cairn_status table_strides(const rope *r, const crn_tensor *table, int64_t *strides) {
  int64_t dims[CAIRN_MAX_RANK];
  memcpy(dims, r->x->dims, sizeof dims);
  dims[r->x->rank - 1] = r->half;
  return crn_broadcast_strides(table, dims, r->x->rank, strides);
}

cairn_status crn_ref_rope(const crn_kernel_args *args) {
  static const char *const names[] = {"position_ids", "offset", "freqs", "cos", "sin", NULL};
  rope r = {.x = &args->operands[0], .y = &args->results[0]};
  CRN_TRY(crn_composite_names(args, 1, names));
  const crn_tensor *freqs = crn_composite_operand(args, "freqs");
  r.positions = crn_composite_operand(args, "position_ids");
  r.offset = crn_composite_operand(args, "offset");
  r.cos = crn_composite_operand(args, "cos");
  r.sin = crn_composite_operand(args, "sin");
  int64_t interleaved;
  CRN_TRY(crn_attr_get_int(args->attrs, "interleaved", 0, &interleaved));
  r.interleaved = interleaved != 0;
  r.length = r.x->rank ? r.x->dims[r.x->rank - 1] : 0;
  r.sequence = r.x->rank > 1 ? r.x->dims[r.x->rank - 2] : 0;
  CRN_TRY(crn_attr_get_int(args->attrs, "dims", r.length, &r.dims));
  CRN_TRY(check_inputs(&r, freqs));
  r.half = r.dims / 2;
  if (r.cos) {
    CRN_TRY_NOTE(table_strides(&r, r.cos, r.cos_strides), "in rope");
    CRN_TRY_NOTE(table_strides(&r, r.sin, r.sin_strides), "in rope");
  }
  int64_t count = crn_tensor_count(r.y);
  if (count == 0) return CAIRN_OK;
  if (!r.cos) CRN_TRY(prepare_table(args, &r, freqs));
  size_t bytes = (size_t)(6 * r.half + r.length) * sizeof(float) * (size_t)crn_pool_threads(args->pool);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &r.buffers));
  crn_pool_run(args->pool, count / r.length, 2048 / r.length + 1, rope_rows, &r);
  return CAIRN_OK;
}
