// rope: pairs of elements turned by position * frequency. Angles, cosines and sines are f32; cosines and sines are rounded
// to the type of the input, and so is each product and sum.
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows/rows.h"
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
  const crn_tensor *given;  ///< frequencies, or NULL
  float base, scale;
  int64_t table_batches;    ///< 1 when all elements of the batch have the same positions
  int64_t *positions_read;  ///< [table_batches, sequence]
  float *frequencies;       ///< half of them
  float *table;             ///< [table_batches, sequence, 2, half]: cosines and sines, rounded
  const crn_rows_kernels *rows;
  int64_t block;     ///< rows turned at a time
  bool is_together;  ///< rows lie behind one another in the input
  float *buffers;  ///< per worker, for each row of a block: four products (half each) and the row; then cosines, sines and two inputs (half
                   ///< each)
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
    float position = (float)r->positions_read[i], *cosines = r->table + i * 2 * r->half, *sines = cosines + r->half;
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

// The two halves of the elements that are turned, in f32. `row` has room for all of them.
static void load_pairs(const rope *r, int64_t at, float *row, float *even, float *odd, const float **out_even, const float **out_odd) {
  int64_t stride = r->x->strides[r->x->rank - 1], step = r->interleaved ? 2 : 1, second = r->interleaved ? 1 : r->half;
  if (r->interleaved && stride == 1) {
    // Elements next to each other are converted many at a time.
    const float *pairs = crn_elements_f32(r->x, at, 1, r->dims, row);
    for (int64_t i = 0; i < r->half; i++) {
      even[i] = pairs[2 * i];
      odd[i] = pairs[2 * i + 1];
    }
    *out_even = even;
    *out_odd = odd;
    return;
  }
  *out_even = crn_elements_f32(r->x, at, stride * step, r->half, even);
  *out_odd = crn_elements_f32(r->x, at + second * stride, stride * step, r->half, odd);
}

// The products of a row; [4, half] at `products`. What is not turned goes to its place in `row` already. `values` are those of the row in
// f32, or NULL.
static void multiply_row(const rope *r, const int64_t *index, const float *values, float *products, float *row, float *buffer) {
  int64_t half = r->half, last = r->x->rank - 1, at = 0, rest = r->length - r->dims;
  const float *cosines, *sines, *x = values, *y = values ? values + half : NULL;
  find_table(r, index, buffer, &cosines, &sines);
  for (int d = 0; d < last; d++) at += index[d] * r->x->strides[d];
  if (!values) load_pairs(r, at, row, buffer + 2 * half, buffer + 3 * half, &x, &y);
  r->rows->turn(cosines, sines, x, y, products, half);
  if (!rest) return;
  const float *tail =
      values ? values + r->dims : crn_elements_f32(r->x, at + r->dims * r->x->strides[last], r->x->strides[last], rest, row + r->dims);
  if (tail != row + r->dims) memcpy(row + r->dims, tail, (size_t)rest * sizeof *tail);
}

// cos * x - sin * y and sin * x + cos * y of the products that were rounded. In a row of pairs they lie next to each other.
static void add_products(const rope *r, float *p, float *row) {
  int64_t half = r->half;
  float *first = r->interleaved ? p : row, *second = r->interleaved ? p + 2 * half : row + half;
  r->rows->end_turn(p, first, second, half);
  for (int64_t i = 0; i < half && r->interleaved; i++) {
    row[2 * i] = first[i];
    row[2 * i + 1] = second[i];
  }
}

// A block of rows at a time, so that rounding and storing are worth their calls.
static void rope_rows(void *user, int64_t begin, int64_t end, int worker) {
  const rope *r = user;
  int64_t row_floats = 4 * r->half, per_worker = r->block * (row_floats + r->length) + 4 * r->half;
  float *products = r->buffers + worker * per_worker, *rows = products + r->block * row_floats, *buffer = rows + r->block * r->length;
  for (int64_t first = begin; first < end; first += r->block) {
    int64_t n = end - first < r->block ? end - first : r->block;
    const float *values = NULL;
    if (r->is_together) values = crn_elements_f32(r->x, first * r->length, 1, n * r->length, rows);
    for (int64_t i = 0; i < n; i++) {
      int64_t index[CAIRN_MAX_RANK], rest = first + i;
      for (int d = r->x->rank - 2; d >= 0; d--) {
        index[d] = r->x->dims[d] == 1 ? 0 : rest % r->x->dims[d];
        if (r->x->dims[d] != 1) rest /= r->x->dims[d];
      }
      multiply_row(r, index, values ? values + i * r->length : NULL, products + i * row_floats, rows + i * r->length, buffer);
    }
    crn_round_f32(r->x->dtype, products, n * row_floats);
    for (int64_t i = 0; i < n; i++) add_products(r, products + i * row_floats, rows + i * r->length);
    crn_elements_put_f32(r->y, first * r->length, n * r->length, rows);
  }
}

// Frequencies: given, or 1 / base^(2i / dims); times the scale.
static float frequency_of(const rope *r, int64_t i) {
  if (r->given) return *(const float *)crn_tensor_at(r->given, i * r->given->strides[0]) * r->scale;
  return 1.0f / powf(r->base, (float)(2 * i) / (float)r->dims) * r->scale;
}

/// What a table is made from; positions and given frequencies follow.
typedef struct table_key {
  int64_t id, dtype, dims, is_given, batches, sequence;
  float base, scale;
} table_key;

// A table is the same in every layer, and often in the next run: it is made where it is not there yet.
static cairn_status find_or_make_room(const crn_kernel_args *args, rope *r, bool *out_is_there) {
  int64_t rows = r->table_batches * r->sequence;
  size_t position_bytes = (size_t)rows * sizeof(int64_t), given_bytes = r->given ? (size_t)r->half * sizeof(float) : 0;
  size_t bytes = (size_t)(rows * 2 * r->half) * sizeof(float);
  table_key *key;
  CRN_TRY(args->scratch->take(args->scratch, sizeof *key + position_bytes + given_bytes, &key));
  *key = (table_key){CRN_OP_rope, r->x->dtype, r->dims, r->given != NULL, r->table_batches, r->sequence, r->base, r->scale};
  r->positions_read = (int64_t *)(key + 1);
  for (int64_t i = 0; i < rows; i++) r->positions_read[i] = position_of(r, i / r->sequence, i % r->sequence);
  float *given = (float *)(r->positions_read + rows);
  for (int64_t i = 0; i < r->half && r->given; i++) given[i] = *(const float *)crn_tensor_at(r->given, i * r->given->strides[0]);
  *out_is_there = false;
  r->table = NULL;
  if (args->keeper)
    CRN_TRY(args->keeper->keep(args->keeper, key, sizeof *key + position_bytes + given_bytes, bytes, &r->table, out_is_there));
  return r->table ? CAIRN_OK : args->scratch->take(args->scratch, bytes, &r->table);
}

static cairn_status prepare_table(const crn_kernel_args *args, rope *r, const crn_tensor *freqs) {
  double base, scale;
  bool is_there;
  CRN_TRY(crn_attr_get_float(args->attrs, "base", 10000, &base));
  CRN_TRY(crn_attr_get_float(args->attrs, "scale", 1, &scale));
  if (freqs && (freqs->dtype != CAIRN_F32 || freqs->rank != 1 || freqs->dims[0] != r->half))
    return CRN_FAIL(UNSUPPORTED, "rope: 'freqs' must be %lld values of f32", (long long)r->half);
  r->given = freqs;
  r->base = (float)base;
  r->scale = (float)scale;
  r->table_batches = r->positions ? r->positions->dims[0] : r->offset && r->offset->rank ? r->offset->dims[0] : 1;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)r->half * sizeof(float), &r->frequencies));
  CRN_TRY(find_or_make_room(args, r, &is_there));
  if (is_there) return CAIRN_OK;
  for (int64_t i = 0; i < r->half; i++) r->frequencies[i] = frequency_of(r, i);
  crn_pool_run(args->pool, r->table_batches * r->sequence, 512 / r->half + 1, fill_table, r);
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
  r.rows = crn_rows_select();
  r.is_together = !r.interleaved && crn_tensor_is_contiguous(r.x);
  r.block = 2048 / r.length + 1;
  if (r.block > count / r.length) r.block = count / r.length;
  size_t per_worker = (size_t)(r.block * (4 * r.half + r.length) + 4 * r.half) * sizeof(float);
  size_t bytes = per_worker * (size_t)crn_pool_threads(args->pool);
  CRN_TRY(args->scratch->take(args->scratch, bytes, &r.buffers));
  crn_pool_run(args->pool, count / r.length, 2048 / r.length + 1, rope_rows, &r);
  return CAIRN_OK;
}
