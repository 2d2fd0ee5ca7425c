// blockwise_shift_scale: dense weights from quantised ones. With r() the rounding to the result type,
//   bias = r(offset2 - r(offset1 * scale)),  out = r(r(data * scale) + bias)
// for f32, f16 and f64 results; other float results are computed in f32 and rounded once, integers in f64 and cut off.
#include <inttypes.h>
#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"

enum { CHUNK = 256, TABLE = 16 };

// An operand at a place of the result: `at` counts elements of a packed stream, or is the element offset of a view.
typedef struct cursor {
  const crn_tensor *t;
  int64_t at, step;
} cursor;

typedef struct shift_scale {
  const crn_tensor *data, *scale, *offset1, *offset2, *out;
  int64_t block[CAIRN_MAX_RANK];  ///< elements of one block in each dimension
  int64_t length;                 ///< of the last dimension, 1 for a scalar
} shift_scale;

// --- reading ------------------------------------------------------------------------------------------------------------

static bool is_stream(const crn_tensor *t) { return t->packed && crn_dtype_bits(t->dtype) < 8; }

static float code_value(cairn_dtype dtype, unsigned code) {
  if (crn_dtype_is_float(dtype)) {
    uint8_t element = (uint8_t)code;
    return (float)crn_load_f64(dtype, &element);
  }
  int bits = crn_dtype_bits(dtype);
  bool negative = crn_dtype_class_of(dtype) == CRN_CLASS_SINT && code >> (bits - 1);
  return (float)((int)code - (negative ? 1 << bits : 0));
}

static void read_stream(const crn_tensor *t, int64_t i, int64_t n, float *out) {
  int bits = crn_dtype_bits(t->dtype);
  float values[64];
  for (unsigned code = 0; code < 1u << bits; code++) values[code] = code_value(t->dtype, code);
  for (int64_t k = 0; k < n; k++) out[k] = values[crn_packed_code(t->data, i + k, bits)];
}

static void read_integers(const crn_tensor *t, int64_t at, int64_t step, int64_t n, float *out) {
  if (t->dtype == CAIRN_SI8 || t->dtype == CAIRN_SI4 || t->dtype == CAIRN_SI2) {
    const int8_t *p = (const int8_t *)t->data + at;
    for (int64_t k = 0; k < n; k++) out[k] = p[k * step];
  } else {
    for (int64_t k = 0; k < n; k++) out[k] = (float)crn_load_i64(t->dtype, crn_tensor_at(t, at + k * step));
  }
}

static void read_values(const cursor *c, int64_t first, int64_t n, float *out) {
  if (is_stream(c->t)) {
    read_stream(c->t, c->at + first, n, out);
  } else if (crn_dtype_is_integer(c->t->dtype)) {
    read_integers(c->t, c->at + first * c->step, c->step, n, out);
  } else {
    const float *run = crn_elements_f32(c->t, c->at + first * c->step, c->step, n, out);
    if (run != out) memcpy(out, run, (size_t)n * sizeof *run);
  }
}

// --- the arithmetic -------------------------------------------------------------------------------------------------------

static float bias_of(cairn_dtype result, float scale, float offset1, float offset2) {
  float shift = offset1 * scale;
  if (result == CAIRN_F16) crn_round_f32(CAIRN_F16, &shift, 1);
  float bias = offset2 - shift;
  if (result == CAIRN_F16) crn_round_f32(CAIRN_F16, &bias, 1);
  return bias;
}

static void scale_values(cairn_dtype result, float *v, int64_t n, float scale, float bias) {
  for (int64_t i = 0; i < n; i++) v[i] *= scale;
  if (result == CAIRN_F16) crn_round_f32(CAIRN_F16, v, n);
  for (int64_t i = 0; i < n; i++) v[i] += bias;
}

// One block of 4-bit codes to 16-bit floats: the 16 possible results are computed once and looked up.
static void table_block(const shift_scale *s, int64_t at, int64_t n, float scale, float bias, int64_t out) {
  float values[TABLE];
  uint16_t results[TABLE], *target = (uint16_t *)s->out->data + out;
  for (unsigned code = 0; code < TABLE; code++) values[code] = code_value(s->data->dtype, code);
  scale_values(s->out->dtype, values, TABLE, scale, bias);
  crn_tensor table = {.dtype = s->out->dtype, .data = results};
  crn_elements_put_f32(&table, 0, TABLE, values);
  const uint8_t *bytes = s->data->data;
  int64_t i = 0;
  if (at & 1) target[i++] = results[bytes[at >> 1] >> 4];
  for (; i + 2 <= n; i += 2) {
    unsigned pair = bytes[(at + i) >> 1];
    target[i] = results[pair & 15];
    target[i + 1] = results[pair >> 4];
  }
  if (i < n) target[i] = results[bytes[(at + i) >> 1] & 15];
}

static void general_block(const shift_scale *s, const cursor *data, int64_t first, int64_t n, float scale, float bias, int64_t out) {
  float values[CHUNK];
  for (int64_t done = 0; done < n; done += CHUNK) {
    int64_t m = n - done < CHUNK ? n - done : CHUNK;
    read_values(data, first + done, m, values);
    scale_values(s->out->dtype, values, m, scale, bias);
    crn_elements_put_f32(s->out, out + done, m, values);
  }
}

static void wide_block(const shift_scale *s, const cursor *data, int64_t first, int64_t n, const double *parameters, int64_t out) {
  double bias = parameters[2] - parameters[1] * parameters[0];
  for (int64_t i = 0; i < n; i++) {
    float narrow;
    double value;
    if (is_stream(data->t)) {
      read_values(data, first + i, 1, &narrow);
      value = (double)narrow;
    } else {
      value = crn_load_f64(data->t->dtype, crn_tensor_at(data->t, data->at + (first + i) * data->step));
    }
    value = value * parameters[0] + bias;
    crn_elements_put_f64(s->out, out + i, 1, &value);
  }
}

// --- walking -----------------------------------------------------------------------------------------------------------------

// Places a cursor at the start of a row of the result. `block` maps dimensions of the result to those of a grid operand.
static cursor cursor_at(const crn_tensor *t, const int64_t *index, int rank, const int64_t *block) {
  cursor c = {t, 0, 0};
  for (int d = 0; d < rank; d++) {
    int64_t i = block ? index[d] / block[d] : index[d];
    c.at = is_stream(t) ? c.at * t->dims[d] + i : c.at + i * t->strides[d];
  }
  c.step = is_stream(t) || rank == 0 ? 1 : t->strides[rank - 1];
  return c;
}

static double parameter(const cursor *c, int64_t i) {
  if (!is_stream(c->t)) return crn_load_f64(c->t->dtype, crn_tensor_at(c->t, c->at + i * c->step));
  float value;
  read_stream(c->t, c->at + i, 1, &value);
  return (double)value;
}

static void shift_scale_row(const shift_scale *s, int64_t row) {
  int rank = s->out->rank;
  int64_t index[CAIRN_MAX_RANK] = {0}, rest = row;
  for (int d = rank - 2; d >= 0; d--) {
    index[d] = rest % s->out->dims[d];
    rest /= s->out->dims[d];
  }
  cursor data = cursor_at(s->data, index, rank, NULL), scale = cursor_at(s->scale, index, rank, s->block);
  cursor offset1 = cursor_at(s->offset1, index, rank, s->block), offset2 = cursor_at(s->offset2, index, rank, s->block);
  int64_t n = rank ? s->block[rank - 1] : 1;
  cairn_dtype result = s->out->dtype;
  bool by_table = is_stream(s->data) && crn_dtype_bits(s->data->dtype) == 4 && cairn_dtype_bytes(result) == 2 && n >= TABLE;
  for (int64_t first = 0, b = 0; first < s->length; first += n, b++) {
    double p[3] = {parameter(&scale, b), parameter(&offset1, b), parameter(&offset2, b)};
    int64_t out = row * s->length + first;
    if (!crn_computes_f32(result)) {
      wide_block(s, &data, first, n, p, out);
      continue;
    }
    float bias = bias_of(result, (float)p[0], (float)p[1], (float)p[2]);
    if (by_table) {
      table_block(s, data.at + first, n, (float)p[0], bias, out);
    } else {
      general_block(s, &data, first, n, (float)p[0], bias, out);
    }
  }
}

static void run_rows(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  for (int64_t row = begin; row < end; row++) shift_scale_row(user, row);
}

// Checks that the grid of an operand divides the data, and remembers the size of a block.
static cairn_status check_grid(shift_scale *s) {
  const crn_tensor *all[4] = {s->data, s->scale, s->offset1, s->offset2};
  for (int k = 0; k < 4; k++) {
    const crn_tensor *t = all[k];
    if (t->rank != s->out->rank)
      return CRN_FAIL(INVALID_ARGUMENT, "blockwise_shift_scale: operand %d has rank %d, the result %d", k, t->rank, s->out->rank);
    for (int d = 0; d < t->rank; d++) {
      int64_t n = s->out->dims[d], grid = k == 0 ? n : s->scale->dims[d];
      if (t->dims[d] != grid || grid < 0 || (n > 0 && (grid == 0 || n % grid))) {
        return CRN_FAIL(INVALID_ARGUMENT, "blockwise_shift_scale: dimension %d of operand %d is %" PRId64 ", that does not divide %" PRId64,
                        d, k, t->dims[d], n);
      }
      if (k == 1) s->block[d] = grid ? n / grid : 1;
    }
  }
  return CAIRN_OK;
}

// A scalar parameter holds for the whole tensor: it is seen as a grid of the scale's shape (of one block when the scale
// is the scalar) whose strides are 0.
static crn_tensor as_grid(const crn_tensor *t, const crn_tensor *scale, int rank) {
  crn_tensor grid = *t;
  if (t->rank == rank || t->rank != 0) return grid;
  grid.rank = rank;
  for (int d = 0; d < rank; d++) {
    grid.dims[d] = scale->rank == rank ? scale->dims[d] : 1;
    grid.strides[d] = 0;
  }
  return grid;
}

cairn_status crn_ref_blockwise_shift_scale(const crn_kernel_args *args) {
  const crn_tensor *in = args->operands;
  crn_tensor grids[3];
  for (int k = 0; k < 3; k++) grids[k] = as_grid(&in[k + 1], &in[1], args->results[0].rank);
  shift_scale s = {&in[0], &grids[0], &grids[1], &grids[2], &args->results[0], {0}, 1};
  for (int k = 1; k < 4; k++) {
    cairn_dtype dtype = args->operands[k].dtype;
    if (!crn_dtype_is_float(dtype) && !crn_dtype_is_integer(dtype)) {
      return CRN_FAIL(UNSUPPORTED, "blockwise_shift_scale: operand %d has type %s", k, cairn_dtype_name(dtype));
    }
  }
  if ((!crn_dtype_is_float(s.out->dtype) && !crn_dtype_is_integer(s.out->dtype)) ||
      (!crn_dtype_is_float(s.data->dtype) && !crn_dtype_is_integer(s.data->dtype))) {
    return CRN_FAIL(UNSUPPORTED, "blockwise_shift_scale of %s to %s has no kernel", cairn_dtype_name(s.data->dtype),
                    cairn_dtype_name(s.out->dtype));
  }
  CRN_TRY(check_grid(&s));
  int64_t count = crn_tensor_count(s.out);
  if (count == 0) return CAIRN_OK;
  if (s.out->rank) s.length = s.out->dims[s.out->rank - 1];
  crn_pool_run(args->pool, count / s.length, 16384 / s.length + 1, run_rows, &s);
  return CAIRN_OK;
}
