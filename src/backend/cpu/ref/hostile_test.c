// Every op with random operands of random types, shapes and values: inference and kernels may refuse them, but must not
// read or write outside of anything (the sanitizers notice) and must give what inference announced.
#include "backend/cpu/ref/ref_testing.h"

enum { MAX_OPERANDS = 7, MAX_RESULTS = 3, BYTES = 1 << 14 };

static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_SI32, CAIRN_UI32, CAIRN_BOOL, CAIRN_SI8,
                                    CAIRN_UI4, CAIRN_F64, CAIRN_BF16, CAIRN_C64,  CAIRN_SI64, CAIRN_UI1};
static const int64_t extremes[] = {-1, 0, 1, 2, 3, INT32_MAX, INT32_MIN, 1, 2, 0, 3, 4};

#define PICK(seed, list) ((list)[test_random(seed) % (sizeof(list) / sizeof *(list))])

// What the operands of an op look like when they are right: x = data of the common type and rank, i = indices of that rank,
// v = a vector with an entry for each dimension, V = with two, w = for each spatial one, s = a number, b = a flag,
// f = floats for each dimension, p = 16 palettes, u = uint4 data, m = a mask, n = values for it, q = one of the common type.
static const struct {
  crn_op_id id;
  const char *operands;
  int rank;  // 0 = any
} forms[] = {
    {CRN_OP_argsort, "xsbb", 0},
    {CRN_OP_sort, "xsbb", 0},
    {CRN_OP_scan, "xsb", 0},
    {CRN_OP_conv2d, "xxwws", 4},
    {CRN_OP_conv3d, "xxwws", 5},
    {CRN_OP_conv_transpose2d, "xxwwwws", 4},
    {CRN_OP_conv_transpose3d, "xxwwwws", 5},
    {CRN_OP_max_pool_2d, "xwwwb", 4},
    {CRN_OP_max_pool_3d, "xwwwb", 5},
    {CRN_OP_sum_pool_2d, "xwww", 4},
    {CRN_OP_sum_pool_3d, "xwww", 5},
    {CRN_OP_slice, "xvvv", 0},
    {CRN_OP_slice_update, "xvvvx", 0},
    {CRN_OP_pad, "xVq", 0},
    {CRN_OP_interpolate, "xvff", 0},
    {CRN_OP_lut_to_dense, "ups", 2},
    {CRN_OP_gather_along_axis, "xis", 0},
    {CRN_OP_gather_nd, "xi", 0},
    {CRN_OP_scatter_nd, "xix", 0},
    {CRN_OP_scatter_along_axis, "xixs", 0},
    {CRN_OP_reshape, "xv", 0},
    {CRN_OP_broadcast_to, "xv", 0},
    {CRN_OP_broadcast_in_dims, "xvv", 0},
    {CRN_OP_transpose, "xv", 0},
    {CRN_OP_tile, "xv", 0},
    {CRN_OP_concat, "sxx", 0},
    {CRN_OP_quantize, "xffqs", 0},
    {CRN_OP_dequantize, "xffqs", 0},
    {CRN_OP_build_sparse_with_bitmask, "nm", 0},
    {CRN_OP_split, "xvs", 0},
    {CRN_OP_range, "qqq", 0},
    {CRN_OP_interpolate_coordinates, "xf", 1},
    {CRN_OP_blockwise_shift_scale, "xxxx", 0},
};

static crn_tensor shape_of_kind(uint32_t *seed, char kind, cairn_dtype common, int rank) {
  crn_tensor t = {.dtype = common};
  bool data = strchr("xium", kind) != NULL;
  t.rank = data ? rank : strchr("vVwfn", kind) ? 1 : 0;
  for (int i = 0; data && i < rank; i++) t.dims[i] = 1 + test_random(seed) % 3;
  if (kind == 'v' || kind == 'f') t.dims[0] = rank;
  if (kind == 'V') t.dims[0] = 2 * rank;
  if (kind == 'w') t.dims[0] = rank - 2;
  if (kind == 'n') t.dims[0] = test_random(seed) % 4;
  if (strchr("vVwsi", kind)) t.dtype = test_random(seed) % 2 ? CAIRN_SI32 : CAIRN_UI32;
  if (kind == 'b') t.dtype = CAIRN_BOOL;
  if (kind == 'f') t.dtype = CAIRN_F32;
  if (kind == 'u') t.dtype = CAIRN_UI4;
  if (kind == 'm') t.dtype = CAIRN_UI1;
  if (kind == 'p') t = crn_tensor_make(CAIRN_F32, DIMS(1, 1, 16, 1 + test_random(seed) % 2), NULL);
  return t;
}

static crn_tensor shape_of_any(uint32_t *seed, cairn_dtype common, int common_rank) {
  crn_tensor t = {.dtype = test_random(seed) % 6 ? common : PICK(seed, types)};
  bool small = test_random(seed) % 2;
  if (small) {
    t.dtype = test_random(seed) % 2 ? CAIRN_SI32 : CAIRN_UI32;
    t.rank = (int)(test_random(seed) % 2);
  } else {
    t.rank = test_random(seed) % 4 ? common_rank : (int)(test_random(seed) % 6);
  }
  for (int i = 0; i < t.rank; i++) t.dims[i] = 1 + test_random(seed) % 3;
  if (small && t.rank > 0) t.dims[0] = test_random(seed) % 3 ? (int64_t)common_rank : (int64_t)(test_random(seed) % 6);
  return t;
}

// Memory of the exact size with values around the possible ones, mostly from `least` on.
static void fill(uint32_t *seed, crn_tensor *t, int64_t least) {
  if (t->rank > 0 && test_random(seed) % 30 == 0) t->dims[0] = 0;
  crn_tensor_set_contiguous(t);
  size_t bytes;
  assert_true(crn_shape_bytes(t->dtype, t->dims, t->rank, &bytes) && bytes <= BYTES);
  t->data = malloc(bytes ? bytes : 1);
  assert_non_null(t->data);
  unsigned wild = test_random(seed) % 3 ? 40 : 4;
  for (int64_t i = 0; i < crn_tensor_count(t); i++) {
    int64_t v = test_random(seed) % wild ? least + (int64_t)(test_random(seed) % 4) : PICK(seed, extremes);
    if (crn_dtype_is_float(t->dtype) || crn_dtype_is_complex(t->dtype)) {
      crn_store_f64(t->dtype, crn_tensor_at(t, i), (double)v);
    } else {
      crn_store_i64(t->dtype, crn_tensor_at(t, i), t->dtype == CAIRN_BOOL ? v != 0 : v);
    }
  }
}

static const char *form_of(crn_op_id id, int *out_rank) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (forms[i].id != id) continue;
    if (forms[i].rank) *out_rank = forms[i].rank;
    return forms[i].operands;
  }
  return NULL;
}

static void random_operands(uint32_t *seed, crn_op_id id, crn_tensor *operands, int n, cairn_dtype common) {
  int rank = (int)(test_random(seed) % 5);
  const char *form = form_of(id, &rank);
  for (int i = 0; i < n; i++) {
    bool right = form && i < (int)strlen(form) && test_random(seed) % 16;
    operands[i] = right ? shape_of_kind(seed, form[i], common, rank) : shape_of_any(seed, common, rank);
    fill(seed, &operands[i], right && form[i] == 'w');
  }
}

static bool affordable(const crn_tensor *results, int n) {
  for (int i = 0; i < n; i++) {
    size_t bytes;
    if (!crn_shape_bytes(results[i].dtype, results[i].dims, results[i].rank, &bytes) || bytes > BYTES) return false;
  }
  return true;
}

static void try_view(const crn_kernel_args *args) {
  if (!crn_ref_view_of(args->id)) return;
  crn_tensor views[MAX_RESULTS];
  crn_kernel_args look = *args;
  look.results = views;
  for (int i = 0; i < args->n_results; i++) views[i] = args->results[i];
  bool done = false;
  if (crn_ref_view_of(args->id)(&look, &done) != CAIRN_OK || !done) return;
  for (int i = 0; i < args->n_results; i++) {
    char *copy = malloc(BYTES);
    assert_non_null(copy);
    crn_tensor flat = crn_tensor_make(views[i].dtype, views[i].dims, views[i].rank, copy);
    crn_tensor_copy(&views[i], &flat);
    free(copy);
  }
}

// True when the kernel accepted.
static bool try_once(uint32_t *seed, crn_op_id id) {
  const crn_op_info *info = crn_op_info_of(id);
  int n = info->n_operands < 0 ? -info->n_operands - 1 + (int)(test_random(seed) % 2) : info->n_operands;
  int n_results = info->n_results < 0 ? 1 + (int)(test_random(seed) % MAX_RESULTS) : info->n_results;
  if (n > MAX_OPERANDS) n = MAX_OPERANDS;
  int rank;
  cairn_dtype common = PICK(seed, types),
              declared = test_random(seed) % (form_of(id, &rank) ? 4 : 2) ? CAIRN_DTYPE_NONE : PICK(seed, types);
  crn_tensor operands[MAX_OPERANDS], results[MAX_RESULTS];
  random_operands(seed, id, operands, n, common);
  for (int i = 0; i < n_results; i++) results[i] = (crn_tensor){.dtype = declared, .rank = -1};
  int mode = (int)(test_random(seed) % 8) - 1;
  crn_infer_args infer = {.id = id, .mode = mode, .n_operands = n, .operands = operands, .n_results = n_results, .results = results};
  bool accepted = crn_infer_of(id)(&infer) == CAIRN_OK && affordable(results, n_results);
  if (accepted) {
    for (int i = 0; i < n_results; i++) {
      size_t bytes = 0;
      assert_true(crn_shape_bytes(results[i].dtype, results[i].dims, results[i].rank, &bytes));
      results[i].packed = false;
      results[i].data = malloc(bytes ? bytes : 1);
      assert_non_null(results[i].data);
      crn_tensor_set_contiguous(&results[i]);
    }
    crn_kernel_args args = {.id = id, .mode = mode, .n_operands = n, .operands = operands, .n_results = n_results, .results = results};
    try_view(&args);
    accepted = test_compute(&(test_call){.id = id}, &args) == CAIRN_OK;
    test_release(results, n_results);
  }
  test_release(operands, n);
  return accepted;
}

static void random_calls(void **state) {
  (void)state;
  uint32_t seed = 42;
  int n_accepted = 0, n_ops = 0, n_exercised = 0;
  for (int id = CRN_OP_NONE + 1; id < CRN_OP_COUNT; id++) {
    if (!crn_ref_kernel_of((crn_op_id)id) || (crn_op_info_of((crn_op_id)id)->traits & CRN_COMPOSITE)) continue;
    int accepted = 0;
    for (int i = 0; i < 3000; i++) accepted += try_once(&seed, (crn_op_id)id);
    n_ops++;
    n_exercised += accepted > 0;
    n_accepted += accepted;
  }
  // Most ops must get past inference now and then, or the test shows nothing.
  assert_true(n_exercised > n_ops * 2 / 3);
  assert_true(n_accepted > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
