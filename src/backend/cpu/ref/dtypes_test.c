// Every element type the format allows for an operation has a kernel. The lists are those of the format's verifier; values are
// checked elsewhere, except that they must not depend on the type where they are exact in all of them.
#include "backend/cpu/ref/ref_testing.h"

enum { MAX_OPERANDS = 8, MAX_TYPES = 32, ELEMENTS = 512 };

// F = f64 f32 f16 bf16, 8 = the two 8-bit floats, S and U = integers of 64 to 8 bits, Q = those of 4 and 2, C = complex f32, B = bool,
// X = f4E2M1FN and f8E8M0FNU, A = all of these, 4 = f32 alone.
static int types_of(const char *groups, cairn_dtype *out) {
  static const struct {
    char name;
    int n;
    cairn_dtype types[4];
  } known[] = {{'F', 4, {CAIRN_F64, CAIRN_F32, CAIRN_F16, CAIRN_BF16}},
               {'8', 2, {CAIRN_F8E5M2, CAIRN_F8E4M3FN}},
               {'S', 4, {CAIRN_SI64, CAIRN_SI32, CAIRN_SI16, CAIRN_SI8}},
               {'U', 4, {CAIRN_UI64, CAIRN_UI32, CAIRN_UI16, CAIRN_UI8}},
               {'Q', 4, {CAIRN_SI4, CAIRN_SI2, CAIRN_UI4, CAIRN_UI2}},
               {'C', 1, {CAIRN_C64}},
               {'B', 1, {CAIRN_BOOL}},
               {'X', 2, {CAIRN_F4E2M1FN, CAIRN_F8E8M0FNU}},
               {'4', 1, {CAIRN_F32}},
               {'b', 4, {CAIRN_UI1, CAIRN_UI3, CAIRN_UI6, CAIRN_UI2}}};
  int n = 0;
  for (const char *g = *groups == 'A' ? "F8SUQCBX" : groups; *g; g++) {
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
      for (int i = 0; known[k].name == *g && i < known[k].n; i++) out[n++] = known[k].types[i];
    }
  }
  return n;
}

// Operands: x = [2, 3] of the type, y = the same again, r = one row of it, q = a scalar of it, i and u = images [1, 2, 4, 4] and
// [1, 2, 4, 4, 2], w and v = their kernels, z = [3, 2], k = 1-based places, a = axis 1, n = axis list {1}, t = flag, and numbers:
// 1 = one, s = {1, 1}, S = {1, 1, 1}, 2 = {2, 2}, 3 = {2, 2, 2}, 0 = {0, 0}, O = {0, 0, 0}, p = {1, 0, 0, 1}, d = {3, 2}, g = {2, 3},
// c = bool [2, 3], f = f32 {1, 1}, e = f32 {0, 0}, P = points [2, 2], l = places [1, 1], L = [2, 3] of places, h = halves of the range.
typedef struct op_types {
  crn_op_id id;
  const char *types, *operands;
  int mode, n_results;
} op_types;

#define BOTH(id, types) \
  {CRN_OP_##id, types, "xy", 0, 1}, { CRN_OP_broadcasting_##id, types, "xr", 0, 1 }
#define UNARY(id, types) \
  { CRN_OP_##id, types, "x", 0, 1 }

static const op_types rows[] = {
    UNARY(abs, "FSU"),
    UNARY(acos, "F"),
    UNARY(acosh, "F"),
    UNARY(asin, "F"),
    UNARY(asinh, "F"),
    UNARY(atan, "F"),
    UNARY(atanh, "F"),
    UNARY(cos, "FC"),
    UNARY(cosh, "FC"),
    UNARY(erf, "F"),
    UNARY(exp, "F8C"),
    UNARY(gelu, "F"),
    UNARY(log, "FC"),
    UNARY(not, "B"),
    UNARY(relu, "F8SU"),
    UNARY(round, "FSU"),
    UNARY(rsqrt, "F"),
    UNARY(sigmoid, "F8C"),
    UNARY(silu, "F8C"),
    UNARY(sin, "FC"),
    UNARY(sinh, "F8C"),
    UNARY(sqrt, "F"),
    UNARY(tan, "FC"),
    UNARY(tanh, "F"),
    UNARY(get_shape, "F8SUQCB"),
    UNARY(non_zero, "F8SUB"),
    UNARY(real_part, "C"),
    UNARY(imaginary_part, "C"),
    UNARY(sparse_with_bitmask_to_dense, "FSUQb"),
    UNARY(coreaix_copy_with_constraints, "F8SUQCB"),
    UNARY(coreaix_copy_discarding_constraints, "F8SUQCB"),
    BOTH(add, "F8SUCB"),
    BOTH(sub, "F8SUC"),
    BOTH(mul, "F8SUCB"),
    BOTH(divide, "F8SUC"),
    BOTH(floor_divide, "FSU"),
    BOTH(modulo, "FSU"),
    BOTH(pow, "FSUC"),
    BOTH(maximum, "F8SU"),
    BOTH(minimum, "F8SU"),
    BOTH(and, "B"),
    BOTH(or, "B"),
    BOTH(xor, "B"),
    BOTH(bitwise_and, "SUB"),
    BOTH(bitwise_or, "SUB"),
    BOTH(bitwise_xor, "SUB"),
    BOTH(equal, "FSUCB"),
    BOTH(not_equal, "FSUCB"),
    BOTH(greater, "F8SUB"),
    {CRN_OP_where, "F8SUQCB", "cxy", 0, 1},
    {CRN_OP_broadcasting_where, "F8SUQCB", "cxr", 0, 1},
    {CRN_OP_create_complex, "4", "xy", 0, 1},
    {CRN_OP_all, "B", "xn", 0, 1},
    {CRN_OP_any, "B", "xn", 0, 1},
    {CRN_OP_reduce_sum, "F8SU", "xn", 0, 1},
    {CRN_OP_reduce_max, "F8SU", "xn", 0, 1},
    {CRN_OP_reduce_min, "F8SU", "xn", 0, 1},
    {CRN_OP_reduce_product, "F8SU", "xn", 0, 1},
    {CRN_OP_reduce_mean, "F8", "xn", 0, 1},
    {CRN_OP_argmax, "F8SU", "xa", 0, 1},
    {CRN_OP_argsort, "FSU", "xatt", 0, 1},
    {CRN_OP_sort, "FSU", "xatt", 0, 1},
    {CRN_OP_softmax, "F8", "xa", 0, 1},
    {CRN_OP_scan, "FSU", "xat", CRN_COMBINE_SUM, 1},
    {CRN_OP_scan, "FSU", "xat", CRN_COMBINE_PRODUCT, 1},
    {CRN_OP_scan, "FSU", "xat", CRN_COMBINE_MIN, 1},
    {CRN_OP_scan, "FSU", "xat", CRN_COMBINE_MAX, 1},
    {CRN_OP_batch_matmul, "F8SUC", "xz", 0, 1},
    {CRN_OP_broadcasting_batch_matmul, "F8SUC", "xz", 0, 1},
    {CRN_OP_range, "FSU", "qQq", 0, 1},
    {CRN_OP_concat, "F8SUQCB", "axy", 0, 1},
    {CRN_OP_expand_dims, "F8SUQCB", "xn", 0, 1},
    {CRN_OP_gather_nd, "F8SUQCB", "xl", 0, 1},
    {CRN_OP_gather_along_axis, "F8SUQB", "xLa", 0, 1},
    {CRN_OP_scatter_nd, "F8SUQCB", "xlr", 0, 1},
    {CRN_OP_scatter_along_axis, "F8SUQB", "xLya", CRN_SCATTER_UPDATE, 1},
    {CRN_OP_scatter_along_axis, "F8SUQ", "xLya", CRN_SCATTER_ADD, 1},
    {CRN_OP_scatter_along_axis, "F8SUQ", "xLya", CRN_SCATTER_SUB, 1},
    {CRN_OP_scatter_along_axis, "F8SUQ", "xLya", CRN_SCATTER_MUL, 1},
    {CRN_OP_scatter_along_axis, "F8SU", "xLya", CRN_SCATTER_DIV, 1},
    {CRN_OP_scatter_along_axis, "F8SUQ", "xLya", CRN_SCATTER_MAX, 1},
    {CRN_OP_scatter_along_axis, "F8SUQ", "xLya", CRN_SCATTER_MIN, 1},
    {CRN_OP_reverse, "F8SUQCB", "xn", 0, 1},
    {CRN_OP_slice, "F8SUQCB", "x0gs", 0, 1},
    {CRN_OP_slice_update, "F8SUQCB", "x0gsy", 0, 1},
    {CRN_OP_split, "F8SUQCB", "x1a", 0, 3},
    {CRN_OP_tile, "F8SUQCB", "xd", 0, 1},
    {CRN_OP_transpose, "F8SUQCB", "xT", 0, 1},
    {CRN_OP_broadcast_to, "F8SUQCB", "rg", 0, 1},
    {CRN_OP_reshape, "A", "xd", 0, 1},
    {CRN_OP_pad, "F8SUCB", "xpq", CRN_PAD_CONSTANT, 1},
    {CRN_OP_pad, "F8SUCB", "xpq", CRN_PAD_REFLECT, 1},
    {CRN_OP_pad, "F8SUCB", "xpq", CRN_PAD_REPLICATE, 1},
    {CRN_OP_pad, "F8SUCB", "xpq", CRN_PAD_SYMMETRIC, 1},
    {CRN_OP_pad, "F8SUCB", "xpq", CRN_PAD_CIRCULAR, 1},
    {CRN_OP_conv2d, "F8C", "iwss1", 0, 1},
    {CRN_OP_conv2d, "4", "iw111", 0, 1},
    {CRN_OP_conv_transpose2d, "4", "iw1s1s1", 0, 1},
    {CRN_OP_sum_pool_2d, "4", "i111", 0, 1},
    {CRN_OP_conv3d, "F8C", "uvSS1", 0, 1},
    {CRN_OP_conv_transpose2d, "F8C", "iws0s01", 0, 1},
    {CRN_OP_conv_transpose3d, "F8C", "uvSOSO1", 0, 1},
    {CRN_OP_max_pool_2d, "F8SU", "i2sst", 0, 1},
    {CRN_OP_max_pool_3d, "F8SU", "u3SSt", 0, 1},
    {CRN_OP_sum_pool_2d, "F8SU", "i2ss", 0, 1},
    {CRN_OP_sum_pool_3d, "F8SU", "u3SS", 0, 1},
    {CRN_OP_interpolate, "F8SU", "xgfe", CRN_INTERPOLATE_LINEAR, 1},
    {CRN_OP_interpolate, "F8SU", "xgfe", CRN_INTERPOLATE_NEAREST, 1},
    {CRN_OP_interpolate_coordinates, "F8SU", "xP", CRN_INTERPOLATE_LINEAR, 1},
    {CRN_OP_interpolate_coordinates, "F8SU", "xP", CRN_INTERPOLATE_NEAREST, 1},
    {CRN_OP_symmetric_quantization_statistics, "F8SU", "xha", 0, 1},
    {CRN_OP_asymmetric_quantization_statistics, "F8SU", "xha", 0, 2},
};

static double storage[MAX_OPERANDS][ELEMENTS];

static crn_tensor filled(cairn_dtype dtype, const int64_t *dims, int rank, double first, double step, int slot) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, storage[slot]);
  for (int64_t i = 0; i < crn_tensor_count(&t); i++) {
    double v = first + step * (double)(i % 3);
    if (crn_dtype_is_float(dtype) || crn_dtype_is_complex(dtype)) {
      crn_store_f64(dtype, crn_tensor_at(&t, i), v);
    } else {
      crn_store_i64(dtype, crn_tensor_at(&t, i), (int64_t)v);
    }
  }
  return t;
}

static crn_tensor ints(cairn_dtype dtype, int slot, int n, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t values[4] = {a, b, c, d};
  crn_tensor t = crn_tensor_make(dtype, (int64_t[]){n}, n < 0 ? 0 : 1, storage[slot]);
  for (int i = 0; i < (n < 0 ? 1 : n); i++) crn_store_i64(dtype, crn_tensor_at(&t, i), values[i]);
  return t;
}

static crn_tensor operand(char kind, cairn_dtype type, int slot) {
  switch (kind) {
    case 'x':
    case 'y':
      return filled(type, DIMS(2, 3), 1, kind == 'y' ? 0 : 1, slot);
    case 'r':
      return filled(type, DIMS(1, 3), 1, 1, slot);
    case 'z':
      return filled(type, DIMS(3, 2), 1, 0, slot);
    case 'q':
      return filled(type, NULL, 0, 1, 0, slot);
    case 'Q':
      return filled(type, NULL, 0, 6, 0, slot);
    case 'i':
      return filled(type, DIMS(1, 2, 4, 4), 1, 1, slot);
    case 'u':
      return filled(type, DIMS(1, 2, 4, 4, 2), 1, 1, slot);
    case 'w':
      return filled(type, DIMS(2, 2, 2, 2), 1, 0, slot);
    case 'v':
      return filled(type, DIMS(2, 2, 2, 2, 1), 1, 0, slot);
    case 'h':
      return filled(type, DIMS(2), 1, 1, slot);
    case 'c':
      return filled(CAIRN_BOOL, DIMS(2, 3), 0, 1, slot);
    case 't':
      return ints(CAIRN_BOOL, slot, -1, 0, 0, 0, 0);
    case 'f':
      return filled(CAIRN_F32, DIMS(2), 1, 0, slot);
    case 'e':
      return filled(CAIRN_F32, DIMS(2), 0, 0, slot);
    case 'P':
      return filled(CAIRN_F32, DIMS(2, 2), 0.5, 0.25, slot);
    case 'l':
      return filled(CAIRN_SI32, DIMS(1, 1), 1, 0, slot);
    case 'L':
      return filled(CAIRN_SI16, DIMS(2, 3), 0, 1, slot);
    case 'a':
      return ints(CAIRN_SI32, slot, -1, 1, 0, 0, 0);
    case 'n':
      return ints(CAIRN_SI16, slot, 1, 1, 0, 0, 0);
    case '1':
      return ints(CAIRN_UI32, slot, -1, 1, 0, 0, 0);
    case 's':
      return ints(CAIRN_SI32, slot, 2, 1, 1, 0, 0);
    case 'S':
      return ints(CAIRN_UI16, slot, 3, 1, 1, 1, 0);
    case '2':
      return ints(CAIRN_UI16, slot, 2, 2, 2, 0, 0);
    case '3':
      return ints(CAIRN_UI32, slot, 3, 2, 2, 2, 0);
    case '0':
      return ints(CAIRN_SI32, slot, 2, 0, 0, 0, 0);
    case 'O':
      return ints(CAIRN_UI32, slot, 3, 0, 0, 0, 0);
    case 'p':
      return ints(CAIRN_UI32, slot, 4, 1, 0, 0, 1);
    case 'd':
      return ints(CAIRN_UI32, slot, 2, 3, 2, 0, 0);
    case 'T':
      return ints(CAIRN_UI32, slot, 2, 1, 0, 0, 0);
    default:
      return ints(CAIRN_SI32, slot, 2, 2, 3, 0, 0);
  }
}

static int run_row(const op_types *row, cairn_dtype type) {
  crn_tensor operands[MAX_OPERANDS], results[4];
  int n = (int)strlen(row->operands);
  for (int i = 0; i < n; i++) operands[i] = operand(row->operands[i], type, i);
  test_call call = {.id = row->id, .mode = row->mode, .n_results = row->n_results};
  if (test_run(call, operands, n, results) == CAIRN_OK) {
    test_release(results, row->n_results);
    return 0;
  }
  char text[300];
  cairn_last_error_text(text, sizeof text);
  print_error("%s of %s: %s\n", crn_op_info_of(row->id)->name, cairn_dtype_name(type), text);
  return 1;
}

static void every_allowed_type_runs(void **state) {
  (void)state;
  int failed = 0, n_runs = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cairn_dtype types[MAX_TYPES];
    int n = types_of(rows[i].types, types);
    for (int k = 0; k < n; k++, n_runs++) failed += run_row(&rows[i], types[k]);
  }
  assert_true(n_runs > 900);
  assert_int_equal(failed, 0);
}

static void every_cast_runs(void **state) {
  (void)state;
  cairn_dtype types[MAX_TYPES];
  int n = types_of("A", types), failed = 0;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      crn_tensor x = operand('x', types[i], 0), out;
      failed += test_run((test_call){.id = CRN_OP_cast, .dtype = types[k]}, &x, 1, &out) != CAIRN_OK;
      test_release(&out, 1);
    }
  }
  assert_int_equal(failed, 0);
}

static void run_coded(crn_op_id id, cairn_dtype data, cairn_dtype scale, cairn_dtype out, int *in_out_failed) {
  bool grid = id == CRN_OP_blockwise_shift_scale, quantizes = id == CRN_OP_quantize;
  crn_tensor operands[5] = {operand('x', data, 0)}, result;
  for (int k = 1; k < 4; k++) {
    cairn_dtype type = k == 2 ? (quantizes ? out : data) : scale;
    operands[k] = grid ? filled(type, DIMS(1, 1), 1, 0, k) : filled(type, DIMS(3), 1, 0, k);
  }
  operands[4] = operand('a', data, 4);
  if (test_run((test_call){.id = id, .dtype = out}, operands, grid ? 4 : 5, &result) == CAIRN_OK) {
    test_release(&result, 1);
    return;
  }
  char text[300];
  cairn_last_error_text(text, sizeof text);
  print_error("%s of %s by %s to %s: %s\n", crn_op_info_of(id)->name, cairn_dtype_name(data), cairn_dtype_name(scale),
              cairn_dtype_name(out), text);
  ++*in_out_failed;
}

static void every_coded_type_runs(void **state) {
  (void)state;
  cairn_dtype coded[MAX_TYPES], scales[MAX_TYPES], results[MAX_TYPES];
  int n_coded = types_of("F8SUQX", coded), n_scales = types_of("F8SUX", scales), n_results = types_of("F8SUX", results), failed = 0;
  for (int i = 0; i < n_coded; i++) {
    for (int k = 0; k < n_scales; k++) {
      for (int r = 0; r < n_results; r++) run_coded(CRN_OP_blockwise_shift_scale, coded[i], scales[k], results[r], &failed);
    }
  }
  for (int i = 0; i < n_coded; i++) {
    for (int k = 0; k < n_scales; k++) {
      for (int r = 0; r < n_coded; r++) {
        run_coded(CRN_OP_dequantize, coded[i], scales[k], coded[r], &failed);
        run_coded(CRN_OP_quantize, coded[i], scales[k], coded[r], &failed);
      }
    }
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allowed_type_runs), cmocka_unit_test(every_cast_runs),
                                     cmocka_unit_test(every_coded_type_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
