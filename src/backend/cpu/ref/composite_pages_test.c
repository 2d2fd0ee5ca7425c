// Attention over keys and values in pages: the bits of plain ones, of an explicit mask where a window hides positions, and of the
// numbers that int8 codes stand for.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/ref/kernel_testing.h"
#include "tensor/ndarray.h"
#include "tensor/pages.h"

static cairn_context *g_context;

static int open_context(void **state) {
  (void)state;
  return cairn_context_create(&(cairn_context_options){.n_threads = 2}, &g_context);
}

static int close_context(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static void ok(cairn_status status) {
  if (status != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
}

// The layouts caches come in: [1, heads, positions, size], the same with positions innermost, and [1, positions, heads, size].
typedef enum layout { HEADS_FIRST, POSITIONS_LAST, POSITIONS_FIRST, LAYOUTS } layout;

static const int kOrder[LAYOUTS][4] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}};

// `plain`, [1, heads, positions, size], in pages of that layout, seen as [1, heads, positions, size].
static crn_tensor in_pages(const crn_tensor *plain, layout l, int64_t page_rows, cairn_dtype stored, cairn_ndarray **out_array) {
  int64_t shape[4];
  int axis = 0;
  for (int d = 0; d < 4; d++) {
    shape[d] = plain->dims[kOrder[l][d]];
    if (kOrder[l][d] == 2) axis = d;
  }
  ok(cairn_ndarray_create_segmented(g_context, plain->dtype, shape, 4, &(cairn_segments){axis, page_rows, stored}, out_array));
  crn_tensor look = (*out_array)->view;
  for (int d = 0; d < 4; d++) {
    look.dims[kOrder[l][d]] = (*out_array)->view.dims[d];
    look.strides[kOrder[l][d]] = (*out_array)->view.strides[d];
  }
  ok(crn_tensor_own(&look));
  crn_tensor_copy(plain, &look);
  return look;
}

static crn_tensor attend(const crn_tensor *q, const crn_tensor *k, const crn_tensor *v, const crn_tensor *mask, bool causal, bool rounded) {
  crn_attr items[2] = {kt_int("is_causal", causal ? -1 : 0), kt_int("window_size", 0)};
  crn_attr attrs = kt_dict(items, 2);
  crn_tensor operands[4] = {*q, *k, *v}, out = kt_tensor(q->dtype, 4, (const int64_t[]){1, q->dims[1], q->dims[2], v->dims[3]});
  static const char *const kNames[] = {"query", "key", "value", "attn_mask"};
  crn_scratch scratch = {kt_take};
  if (mask) operands[3] = *mask;
  crn_kernel_args args = {.id = CRN_OP_scaled_dot_product_attention,
                          .attrs = &attrs,
                          .input_names = kNames,
                          .is_rounded = rounded,
                          .n_operands = mask ? 4 : 3,
                          .operands = operands,
                          .n_results = 1,
                          .results = &out,
                          .pool = g_context->pool,
                          .scratch = &scratch};
  ok(crn_ref_scaled_dot_product_attention(&args));
  return out;
}

static void expect_bits(const char *what, const crn_tensor *a, const crn_tensor *b) {
  size_t bytes = (size_t)crn_tensor_count(a) * cairn_dtype_bytes(a->dtype);
  if (memcmp(a->data, b->data, bytes) != 0) fail_msg("%s: other bits", what);
}

static void test_bits_of_plain_caches(void **state) {
  (void)state;
  static const cairn_dtype types[] = {CAIRN_F32, CAIRN_F16, CAIRN_BF16};
  static const int64_t rows[] = {1, 3, 40};
  for (int t = 0; t < 3; t++) {
    for (int l = 0; l < LAYOUTS; l++) {
      for (int r = 0; r < 3; r++) {
        for (int64_t page = 64; page <= 256; page *= 2) {
          crn_tensor q = KT_RANDOM(types[t], 2, 1, 6, rows[r], 24), k = KT_RANDOM(types[t], 2, 1, 2, 333, 24),
                     v = KT_RANDOM(types[t], 2, 1, 2, 333, 16);
          cairn_ndarray *pages_k, *pages_v;
          crn_tensor paged_k = in_pages(&k, (layout)l, page, CAIRN_DTYPE_NONE, &pages_k);
          crn_tensor paged_v = in_pages(&v, (layout)l, page, CAIRN_DTYPE_NONE, &pages_v);
          for (int rounded = 0; rounded < 2; rounded++) {
            crn_tensor want = attend(&q, &k, &v, NULL, true, rounded), got = attend(&q, &paged_k, &paged_v, NULL, true, rounded);
            expect_bits("causal", &got, &want);
            // Keys of which only the first hundred are there.
            crn_tensor less_k = k, less_v = v, less_pk = paged_k, less_pv = paged_v, *all[] = {&less_k, &less_v, &less_pk, &less_pv};
            for (int i = 0; i < 4; i++) all[i]->dims[2] = 100;
            want = attend(&q, &less_k, &less_v, NULL, true, rounded), got = attend(&q, &less_pk, &less_pv, NULL, true, rounded);
            expect_bits("cut", &got, &want);
          }
          // Nothing was copied out of the pages.
          assert_int_equal(atomic_load(&paged_k.pages->bytes_read), 0);
          assert_int_equal(atomic_load(&paged_v.pages->bytes_read), 0);
          cairn_ndarray_release(pages_k);
          cairn_ndarray_release(pages_v);
          kt_free_all(NULL);
        }
      }
    }
  }
}

// What a window leaves to row r of n, the last of which stands at end - 1.
static bool sees(int64_t position, int64_t r, int64_t n, int64_t end, int64_t sinks, int64_t kept) {
  int64_t own = end - n + r;
  return position <= own && (position < sinks || position > own - kept);
}

static void check_window(int64_t rows, int64_t end, int64_t capacity, int64_t sinks, int64_t kept, int64_t page, bool rounded) {
  crn_tensor q = KT_RANDOM(CAIRN_F16, 2, 1, 4, rows, 32), k = KT_RANDOM(CAIRN_F16, 2, 1, 2, capacity, 32),
             v = KT_RANDOM(CAIRN_F16, 2, 1, 2, capacity, 32);
  crn_tensor causal = KT(CAIRN_F16, 1, 1, rows, capacity), both = KT(CAIRN_F16, 1, 1, rows, capacity);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t p = 0; p < capacity; p++) {
      crn_store_f64(CAIRN_F16, crn_tensor_at(&causal, r * capacity + p), p <= end - rows + r ? 0 : -40000);
      crn_store_f64(CAIRN_F16, crn_tensor_at(&both, r * capacity + p), sees(p, r, rows, end, sinks, kept) ? 0 : -40000);
    }
  }
  cairn_ndarray *pages_k, *pages_v;
  crn_tensor paged_k = in_pages(&k, HEADS_FIRST, page, CAIRN_DTYPE_NONE, &pages_k);
  crn_tensor paged_v = in_pages(&v, HEADS_FIRST, page, CAIRN_DTYPE_NONE, &pages_v);
  cairn_ndarray *arrays[] = {pages_k, pages_v};
  for (int i = 0; i < 2; i++) {
    ok(cairn_ndarray_set_window(arrays[i], &(cairn_ndarray_window){sinks, kept}));
    crn_pages_advance(arrays[i]->view.pages, end - rows, end);
  }
  crn_tensor want = attend(&q, &k, &v, &both, false, rounded), got = attend(&q, &paged_k, &paged_v, &causal, false, rounded);
  expect_bits("a window with a mask", &got, &want);
  // And where the range of a row is causal by itself, the cache being as long as the sequence.
  if (end == capacity) {
    got = attend(&q, &paged_k, &paged_v, NULL, true, rounded);
    expect_bits("a window with a causal range", &got, &want);
  }
  cairn_ndarray_release(pages_k);
  cairn_ndarray_release(pages_v);
  kt_free_all(NULL);
}

static void test_windows_are_masks(void **state) {
  (void)state;
  static const int64_t kKept[] = {1, 60, 64, 65, 130, 1000}, kSinks[] = {0, 1, 4, 70};
  for (int rounded = 0; rounded < 2; rounded++) {
    for (size_t i = 0; i < 6; i++) {
      for (size_t s = 0; s < 4; s++) {
        for (int64_t page = 64; page <= 256; page *= 2) {
          check_window(1, 700, 700, kSinks[s], kKept[i], page, rounded);
          check_window(1, 515, 768, kSinks[s], kKept[i], page, rounded);
          check_window(33, 700, 700, kSinks[s], kKept[i], page, rounded);
          check_window(90, 515, 768, kSinks[s], kKept[i], page, rounded);
        }
      }
    }
  }
}

static void test_int8_codes(void **state) {
  (void)state;
  static const int64_t kSizes[] = {16, 24, 64, 512};
  for (int l = 0; l < LAYOUTS; l++) {
    for (int s = 0; s < 4; s++) {
      for (int64_t rows = 1; rows <= 40; rows += 39) {
        crn_tensor q = KT_RANDOM(CAIRN_F32, 2, 1, 4, rows, kSizes[s]), k = KT_RANDOM(CAIRN_F32, 2, 1, 2, 200, kSizes[s]),
                   v = KT_RANDOM(CAIRN_F32, 2, 1, 2, 200, kSizes[s]);
        cairn_ndarray *pages_k, *pages_v;
        crn_tensor paged_k = in_pages(&k, (layout)l, 64, CAIRN_SI8, &pages_k), paged_v = in_pages(&v, (layout)l, 64, CAIRN_SI8, &pages_v);
        // The numbers the codes stand for, as f32, give the same bits.
        crn_tensor read_k = kt_tensor(CAIRN_F32, 4, k.dims), read_v = kt_tensor(CAIRN_F32, 4, v.dims);
        crn_tensor_copy(&paged_k, &read_k);
        crn_tensor_copy(&paged_v, &read_v);
        int64_t before = atomic_load(&paged_k.pages->bytes_read);
        crn_tensor want = attend(&q, &read_k, &read_v, NULL, true, false), got = attend(&q, &paged_k, &paged_v, NULL, true, false);
        expect_bits("int8", &got, &want);
        assert_int_equal(atomic_load(&paged_k.pages->bytes_read), before);
        crn_tensor rounded = attend(&q, &paged_k, &paged_v, NULL, true, true);
        for (int64_t i = 0; i < crn_tensor_count(&got); i++) assert_true(fabs(kt_at(&rounded, i) - kt_at(&got, i)) < 0.05);
        cairn_ndarray_release(pages_k);
        cairn_ndarray_release(pages_v);
        kt_free_all(NULL);
      }
    }
  }
}

// Rows that were never written are zeros, and pages that nobody looks at need not exist.
static void test_missing_pages(void **state) {
  (void)state;
  crn_tensor q = KT_RANDOM(CAIRN_F16, 2, 1, 4, 1, 32), zeros = KT(CAIRN_F16, 1, 2, 300, 32);
  memset(zeros.data, 0, (size_t)crn_tensor_count(&zeros) * 2);
  cairn_ndarray *k, *v;
  ok(cairn_ndarray_create_segmented(g_context, CAIRN_F16, zeros.dims, 4, &(cairn_segments){2, 64, CAIRN_DTYPE_NONE}, &k));
  ok(cairn_ndarray_create_segmented(g_context, CAIRN_F16, zeros.dims, 4, &(cairn_segments){2, 64, CAIRN_DTYPE_NONE}, &v));
  crn_tensor want = attend(&q, &zeros, &zeros, NULL, true, false), got = attend(&q, &k->view, &v->view, NULL, true, false);
  expect_bits("nothing written", &got, &want);
  cairn_ndarray_release(k);
  cairn_ndarray_release(v);
  kt_free_all(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits_of_plain_caches),
      cmocka_unit_test(test_windows_are_masks),
      cmocka_unit_test(test_int8_codes),
      cmocka_unit_test(test_missing_pages),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
