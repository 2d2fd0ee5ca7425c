// Palettized matrices: which of them can be packed as codes and tables, and how they are read. A code that stands for several weights in
// a row along an axis is told apart by its place among them: the place becomes the low part of a longer code, and all of it is a
// palette of single weights again.
#include <math.h>

#include "specialize/match.h"
#include "specialize/weights.h"
#include "tensor/half.h"

enum { TILE = CRN_LINEAR_TILE, GROUP = CRN_LINEAR_GROUP };

// --- finding ------------------------------------------------------------------------------------------------------------------

static bool all_zero(const crn_tensor *t) {
  bool is_zero = !t->packed;
  crn_nd_iter it;
  crn_nd_initialize(&it, t->rank, t->dims);
  crn_nd_operand(&it, t->strides);
  for (crn_nd_begin(&it); !it.done && is_zero; crn_nd_next(&it)) is_zero = crn_load_f64(t->dtype, crn_tensor_at(t, it.offset[0])) == 0;
  return is_zero;
}

// What is looked up must be finite: padding is multiplied with zeros.
static bool all_finite(const crn_tensor *t) {
  bool is_finite = !t->packed;
  crn_nd_iter it;
  crn_nd_initialize(&it, t->rank, t->dims);
  crn_nd_operand(&it, t->strides);
  for (crn_nd_begin(&it); !it.done && is_finite; crn_nd_next(&it))
    is_finite = isfinite((float)crn_load_f64(t->dtype, crn_tensor_at(t, it.offset[0])));
  return is_finite;
}

static crn_step *maker(const crn_plan *p, const crn_plan_index *x, uint32_t slot) {
  crn_step *s = p->is_constant[slot] ? NULL : crn_maker_of(p, x, slot);
  return s && s->kind == CRN_STEP_KERNEL && !s->fused ? s : NULL;
}

// A lookup, scaled or not. Converters put casts in front of the scaling and behind it.
bool crn_weight_palette_steps(const crn_plan *p, const crn_plan_index *x, crn_step *s, crn_palette_steps *out) {
  *out = (crn_palette_steps){.dtype = p->slot_types[s->out[0]]->dtype};
  if (s->id == CRN_OP_cast) s = maker(p, x, s->in[0]);
  if (s && s->id == CRN_OP_blockwise_shift_scale) {
    out->scaling = s;
    s = maker(p, x, s->in[0]);
    if (s && s->id == CRN_OP_cast) s = maker(p, x, s->in[0]);
  }
  out->lut = s;
  return s && s->id == CRN_OP_lut_to_dense;
}

// A factor for each output, which is all that scaling does.
static bool find_factors(const crn_plan *p, const crn_step *s, crn_weight_source *w) {
  cairn_dtype scaled = p->slot_types[s->out[0]]->dtype;
  const crn_tensor *scale = crn_constant_of(p, s->in[1]), *offset1 = crn_constant_of(p, s->in[2]), *offset2 = crn_constant_of(p, s->in[3]);
  if (!scale || !offset1 || !offset2 || scale->packed || scale->rank != w->data.rank || !crn_dtype_is_float(scale->dtype)) return false;
  if (!all_zero(offset1) || !all_zero(offset2) || !all_finite(scale)) return false;
  if (crn_is_small_float(scale->dtype) && scale->dtype != scaled) return false;
  // One rounding is left to the kernels: they multiply in f32.
  if (scaled != w->dtype && scaled != CAIRN_F32) return false;
  for (int d = 0; d < scale->rank; d++) {
    int64_t size = w->data.dims[d] * (d == w->vector_axis ? w->vector : 1);
    if (scale->dims[d] < 1 || size % scale->dims[d] || (d == w->k_axis && scale->dims[d] != 1)) return false;
  }
  w->scale = *scale;
  w->palette.has_factors = true;
  w->palette.rounding = w->dtype == CAIRN_F16 ? CRN_LINEAR_TO_F16 : w->dtype == CAIRN_BF16 ? CRN_LINEAR_TO_BF16 : CRN_LINEAR_TO_F32;
  return true;
}

static bool find_vector(const crn_plan *p, const crn_step *s, crn_weight_source *w) {
  int rank = w->data.rank;
  const crn_tensor *axis = crn_constant_of(p, s->in[2]);
  w->vector_axis = CRN_NO_AXIS;
  w->vector = w->lut.dims[rank + 1];
  if (w->vector == 1) return true;
  if (w->vector < 1 || w->vector > 256 || !axis || axis->packed || crn_tensor_count(axis) != 1 || !crn_dtype_is_integer(axis->dtype))
    return false;
  int64_t at = crn_load_i64(axis->dtype, axis->data);
  w->vector_axis = (int)(at < 0 ? at + rank : at);
  return w->vector_axis >= 0 && w->vector_axis < rank;
}

// How many tables the outputs of a tile take, and how many ranges of inputs there are.
static bool find_tables(crn_weight_source *w, int64_t rows) {
  int rank = w->data.rank;
  for (int d = 0; d < rank; d++) {
    if (w->lut.dims[d] < 1 || w->data.dims[d] % w->lut.dims[d]) return false;
  }
  int64_t groups = w->lut.dims[w->k_axis], together = rows / w->lut.dims[w->n_axis];
  if (groups > INT32_MAX || (groups > 1 && w->k / groups % GROUP)) return false;
  w->palette.groups = (int32_t)groups;
  w->palette.tables = (int32_t)(w->lut.dims[w->n_axis] == 1 || together % TILE == 0 ? 1 : TILE % together == 0 ? TILE / together : TILE);
  return true;
}

static bool is_worthwhile(const crn_weight_source *w) {
  int32_t zero;
  crn_linear_weights packed = {.format = crn_weight_source_format(w, &zero), .n = w->n, .k = w->k, .palette = w->palette};
  size_t bytes, dense;
  crn_linear_format wide = w->dtype == CAIRN_F32 ? CRN_LINEAR_F32 : CRN_LINEAR_F16;
  return crn_linear_weights_bytes(&packed, &bytes) && crn_linear_packed_bytes(wide, w->n, w->k, &dense) && bytes < dense;
}

bool crn_weight_palette_find(const crn_plan *p, const crn_palette_steps *steps, crn_weight_source *w) {
  const crn_step *lut = steps->lut, *scaling = steps->scaling;
  const crn_tensor *codes = crn_constant_of(p, lut->in[0]), *table = crn_constant_of(p, lut->in[1]);
  if (!codes || !table || table->packed || codes->rank < 2 || table->rank != codes->rank + 2) return false;
  if (crn_dtype_class_of(codes->dtype) != CRN_CLASS_UINT || crn_dtype_bits(codes->dtype) > 8) return false;
  w->is_quantized = w->is_palette = true;
  w->is_transient = p->constants[lut->in[0]].buffer || p->constants[lut->in[1]].buffer || (scaling && p->constants[scaling->in[1]].buffer);
  w->dtype = steps->dtype;
  w->data = *codes;
  w->lut = *table;
  if (!crn_is_small_float(w->dtype) || !find_vector(p, lut, w)) return false;
  int64_t entries = w->vector << crn_dtype_bits(codes->dtype);
  while (w->code_bits < 31 && (int64_t)1 << w->code_bits < entries) w->code_bits++;
  // Bytes of bytes are better served as such.
  return w->code_bits <= 8 && (crn_is_small_float(table->dtype) || (crn_dtype_bits(table->dtype) == 8 && w->code_bits <= 4)) &&
         all_finite(table);
}

bool crn_weight_palette_finish(const crn_plan *p, const crn_step *scaling, crn_weight_source *w) {
  w->has_common_zero = true;
  return find_tables(w, crn_weight_source_rows(w)) && (!scaling || find_factors(p, scaling, w)) && is_worthwhile(w);
}

// --- reading ------------------------------------------------------------------------------------------------------------------

static int64_t code_step(const crn_tensor *t, int axis) {
  if (!t->packed) return t->strides[axis];
  int64_t step = 1;
  for (int d = t->rank - 1; d > axis; d--) step *= t->dims[d];
  return step;
}

static unsigned load_code(const crn_tensor *t, int64_t at) {
  int bits = crn_dtype_bits(t->dtype);
  return t->packed && bits < 8 ? crn_packed_code(t->data, at, bits) : ((const uint8_t *)t->data)[at] & ((1u << bits) - 1);
}

// Where a row is: its index along the outputs and along the stack.
typedef struct row_place {
  int64_t n, stack, part;  ///< `part` of a vector that lies along the outputs
} row_place;

static row_place place_of(const crn_weight_source *w, int64_t row) {
  int64_t rows = crn_weight_source_rows(w), along_n = w->vector_axis == w->n_axis ? w->vector : 1;
  return (row_place){row % rows / along_n, row / rows, row % rows % along_n};
}

static void read_tables(const crn_weight_source *w, const row_place *at, float *tables) {
  const crn_tensor *t = &w->lut;
  int rank = w->data.rank;
  int64_t from = at->n / (w->data.dims[w->n_axis] / t->dims[w->n_axis]) * t->strides[w->n_axis];
  if (w->stack_axis != CRN_NO_AXIS) from += at->stack / (w->data.dims[w->stack_axis] / t->dims[w->stack_axis]) * t->strides[w->stack_axis];
  for (int64_t g = 0; g < w->palette.groups; g++, from += t->strides[w->k_axis]) {
    for (int64_t i = 0; i < (int64_t)1 << w->code_bits; i++) {
      int64_t entry = i / w->vector, part = i % w->vector;
      bool exists = entry < t->dims[rank];
      float v = exists ? (float)crn_load_f64(t->dtype, crn_tensor_at(t, from + entry * t->strides[rank] + part * t->strides[rank + 1])) : 0;
      // What is not scaled may be cast; entries with factors are rounded after these.
      if (!w->palette.has_factors && w->dtype == CAIRN_F16) v = crn_f16_to_f32(crn_f16_from_f32(v));
      if (!w->palette.has_factors && w->dtype == CAIRN_BF16) v = crn_bf16_to_f32(crn_bf16_from_f32(v));
      *tables++ = v;
    }
  }
}

float crn_weight_palette_read(const crn_weight_source *w, int64_t row, uint8_t *codes, float *tables) {
  const crn_tensor *t = &w->data;
  row_place at = place_of(w, row);
  int64_t from = at.n * code_step(t, w->n_axis), step = code_step(t, w->k_axis), along_k = w->vector_axis == w->k_axis ? w->vector : 1;
  if (w->stack_axis != CRN_NO_AXIS) from += at.stack * code_step(t, w->stack_axis);
  for (int64_t k = 0; k < w->k; k++) {
    int64_t part = along_k > 1 ? k % along_k : at.part;
    codes[k] = (uint8_t)(load_code(t, from + k / along_k * step) * (unsigned)w->vector + (unsigned)part);
  }
  read_tables(w, &at, tables);
  if (!w->palette.has_factors) return 1;
  const crn_tensor *s = &w->scale;
  int64_t rows = crn_weight_source_rows(w), place = row % rows / (rows / s->dims[w->n_axis]) * s->strides[w->n_axis];
  if (w->stack_axis != CRN_NO_AXIS) place += at.stack / (w->stack / s->dims[w->stack_axis]) * s->strides[w->stack_axis];
  return (float)crn_load_f64(s->dtype, crn_tensor_at(s, place));
}
