// What a mask leaves to see, beside a walk over all of its elements: every type, rows and positions in either order, views.
#include "backend/cpu/fused/attention.h"
#include "backend/cpu/ref/ref_testing.h"

enum { POSITIONS = 300, ROWS = 8, CASES = 400 };

static uint32_t g_seed = 1;
static uint32_t next_random(void) { return (g_seed = g_seed * 1664525u + 1013904223u) >> 8; }

static const float kValues[] = {0, -1, -8999, -9000, -9001, -40000, -INFINITY, NAN, INFINITY, 40000};

static void store(const crn_tensor *t, int64_t at, float value) {
  if (t->dtype == CAIRN_BOOL) {
    ((uint8_t *)t->data)[at] = !(value <= -9000);
  } else {
    crn_store_f64(t->dtype, crn_tensor_at(t, at), (double)value);
  }
}

static bool is_seen(const crn_tensor *t, int64_t at) {
  if (t->dtype == CAIRN_BOOL) return ((const uint8_t *)t->data)[at] != 0;
  return !(crn_load_f64(t->dtype, crn_tensor_at(t, at)) <= -9000);
}

// A mask of rows and positions, of which a few are seen, or none, or ranges.
static void fill(const crn_tensor *t, int row_axis, int axis) {
  for (int64_t row = 0; row < t->dims[row_axis]; row++) {
    int64_t n = t->dims[axis], low = next_random() % n, high = low + next_random() % (n - low + 1);
    bool is_blind = next_random() % 8 == 0, is_sparse = next_random() % 4 == 0;
    for (int64_t i = 0; i < n; i++) {
      bool is_hidden = is_blind || i < low || i >= high || (is_sparse && next_random() % 16);
      store(t, row * t->strides[row_axis] + i * t->strides[axis], is_hidden ? -40000 : kValues[next_random() % 10]);
    }
  }
}

static void check(const crn_tensor *mask, int row_axis, int axis, bool blind_rows_unused) {
  int64_t extent[CRN_EXTENT_VALUES], n = mask->dims[axis], first = n, end = 0;
  bool all_see = true;
  for (int64_t row = 0; row < mask->dims[row_axis]; row++) {
    bool sees = false;
    for (int64_t i = 0; i < n; i++) {
      if (!is_seen(mask, row * mask->strides[row_axis] + i * mask->strides[axis])) continue;
      sees = true;
      if (i < first) first = i;
      if (i >= end) end = i + 1;
    }
    all_see &= sees;
  }
  const crn_fused_extent f = {.position_axis = mask->rank - 1 - axis};
  crn_tensor result = crn_tensor_make(CAIRN_SI64, (int64_t[]){CRN_EXTENT_VALUES}, 1, extent);
  const crn_kernel_args args = {
      .fused = &f, .n_operands = 1, .operands = mask, .n_results = 1, .results = &result, .blind_rows_unused = blind_rows_unused};
  assert_int_equal(crn_fused_extent_run(&args), CAIRN_OK);
  assert_int_equal(extent[0], end ? first : 0);
  assert_int_equal(extent[1], end);
  assert_int_equal(extent[2], end && (all_see || blind_rows_unused));
}

static void test_masks(void **state) {
  (void)state;
  static const cairn_dtype kTypes[] = {CAIRN_BOOL, CAIRN_F16, CAIRN_F32, CAIRN_BF16};
  static char memory[2 * POSITIONS * 2 * ROWS * 4];
  for (int k = 0; k < CASES; k++) {
    const cairn_dtype dtype = kTypes[k % 4];
    const int64_t positions = 1 + next_random() % POSITIONS, rows = 1 + next_random() % ROWS;
    const bool rows_last = next_random() % 2, is_view = next_random() % 4 == 0;
    // [1, positions, 1, rows] as for fixed shapes, or [1, 1, rows, positions].
    const int64_t dims[] = {1, rows_last ? positions : 1, rows_last ? 1 : rows, rows_last ? rows : positions};
    crn_tensor mask = crn_tensor_make(dtype, dims, 4, memory);
    for (int d = 0; d < 4 && is_view; d++) mask.strides[d] *= 2;
    const int row_axis = rows_last ? 3 : 2, axis = rows_last ? 1 : 3;
    fill(&mask, row_axis, axis);
    if (rows > 1 && next_random() % 8 == 0) mask.strides[row_axis] = 0;
    check(&mask, row_axis, axis, k % 3 == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
