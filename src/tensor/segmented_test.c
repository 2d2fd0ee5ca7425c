// Segmented arrays: elements in every layout against plain ones, growth, shared pages, pages used again, failing allocations.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/region.h"
#include "tensor/ndarray.h"
#include "tensor/pages.h"

static cairn_context *g_context;

// An allocator that fails from the n-th block on, and counts what is out.
typedef struct counter {
  pthread_mutex_t lock;
  int64_t left, out;
  int64_t n_blocks, n_torn;  ///< blocks that begin with a huge page; those of them that end within one
} counter;

static void *count_alloc(void *self, size_t bytes, size_t align) {
  counter *c = self;
  const cairn_allocator *a = crn_default_allocator();
  pthread_mutex_lock(&c->lock);
  void *block = c->left-- > 0 ? a->alloc(a->self, bytes, align) : NULL;
  c->out += block != NULL;
  c->n_blocks += align >= CRN_HUGE_PAGE;
  c->n_torn += align >= CRN_HUGE_PAGE && bytes % CRN_HUGE_PAGE != 0;
  pthread_mutex_unlock(&c->lock);
  return block;
}

static void count_free(void *self, void *pointer, size_t bytes) {
  counter *c = self;
  const cairn_allocator *a = crn_default_allocator();
  pthread_mutex_lock(&c->lock);
  c->out -= pointer != NULL;
  pthread_mutex_unlock(&c->lock);
  a->free(a->self, pointer, bytes);
}

static int open_context(void **state) {
  (void)state;
  return cairn_context_create(&(cairn_context_options){.n_threads = 1}, &g_context);
}

static int close_context(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static void ok(cairn_status status) {
  if (status != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
}

static cairn_ndarray *make(cairn_dtype dtype, const int64_t *shape, int rank, int axis, int64_t page_rows) {
  cairn_ndarray *a;
  ok(cairn_ndarray_create_segmented(g_context, dtype, shape, rank, &(cairn_segments){.axis = axis, .page_rows = page_rows}, &a));
  return a;
}

static uint32_t g_seed = 1;
static uint16_t next16(void) { return (uint16_t)((g_seed = g_seed * 1664525u + 1013904223u) >> 16); }

static cairn_segment_counts count(const cairn_ndarray *a) {
  cairn_segment_counts c;
  cairn_ndarray_count_segments(a, &c);
  return c;
}

// Equal elements, whatever way they are looked at.
static void expect_equal(const cairn_ndarray *a, const cairn_ndarray *b) {
  size_t bytes = (size_t)cairn_ndarray_count(a) * cairn_dtype_bytes(cairn_ndarray_dtype(a));
  char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  assert_non_null(x);
  assert_non_null(y);
  ok(cairn_ndarray_read(a, x, bytes));
  ok(cairn_ndarray_read(b, y, bytes));
  assert_memory_equal(x, y, bytes);
  free(x);
  free(y);
}

// --- elements ---------------------------------------------------------------------------------------------------------

// Writes random boxes into a plain array and a segmented one, and compares random boxes and the whole.
static void check_boxes(const int64_t *shape, int rank, int axis, int64_t page_rows) {
  cairn_ndarray *paged = make(CAIRN_F16, shape, rank, axis, page_rows), *plain;
  ok(cairn_ndarray_create(g_context, CAIRN_F16, shape, rank, &plain));
  expect_equal(paged, plain);
  assert_int_equal(count(paged).n_held, 0);
  for (int round = 0; round < 24; round++) {
    int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], box[CAIRN_MAX_RANK];
    for (int d = 0; d < rank; d++) {
      start[d] = next16() % shape[d];
      end[d] = start[d] + 1 + next16() % (shape[d] - start[d]);
      box[d] = end[d] - start[d];
    }
    cairn_ndarray *values, *a, *b;
    ok(cairn_ndarray_create(g_context, CAIRN_F16, box, rank, &values));
    for (int64_t i = 0; i < cairn_ndarray_count(values); i++) ((uint16_t *)cairn_ndarray_mutable_data(values))[i] = next16();
    ok(cairn_ndarray_slice(paged, start, end, &a));
    ok(cairn_ndarray_slice(plain, start, end, &b));
    assert_null(cairn_ndarray_data(a));
    if (round % 2) {
      ok(cairn_ndarray_copy(values, a));
      ok(cairn_ndarray_copy(values, b));
    } else {
      expect_equal(a, b);
    }
    cairn_ndarray_release(a);
    cairn_ndarray_release(b);
    cairn_ndarray_release(values);
  }
  expect_equal(paged, plain);
  // From pages to other pages.
  cairn_ndarray *other = make(CAIRN_F16, shape, rank, rank - 1 - axis, 64);
  ok(cairn_ndarray_copy(paged, other));
  expect_equal(other, plain);
  ok(cairn_ndarray_zero(other));
  assert_int_equal(count(other).n_held, 0);
  cairn_ndarray_release(other);
  cairn_ndarray_release(paged);
  cairn_ndarray_release(plain);
}

static void test_elements(void **state) {
  (void)state;
  check_boxes((const int64_t[]){2, 1, 3, 300, 8}, 5, 3, 64);
  check_boxes((const int64_t[]){2, 1, 3, 300, 8}, 5, 3, 256);
  check_boxes((const int64_t[]){1, 3, 200, 8}, 4, 2, 128);
  check_boxes((const int64_t[]){2, 1, 12, 1, 200}, 5, 4, 64);
  check_boxes((const int64_t[]){130, 6}, 2, 0, 64);
  check_boxes((const int64_t[]){1, 70, 3, 5}, 4, 1, 64);
  check_boxes((const int64_t[]){200}, 1, 0, 64);
}

// Looks that are made of strides alone: they must be right, or be given element by element.
static void test_looks(void **state) {
  (void)state;
  const int64_t shape[] = {3, 150, 4};
  cairn_ndarray *a = make(CAIRN_F32, shape, 3, 1, 64), *plain;
  ok(cairn_ndarray_create(g_context, CAIRN_F32, shape, 3, &plain));
  for (int64_t i = 0; i < cairn_ndarray_count(plain); i++) ((float *)cairn_ndarray_mutable_data(plain))[i] = (float)i;
  ok(cairn_ndarray_copy(plain, a));
  // [rows in twos, 3, 4] backwards in the last axis: two axes run along rows.
  crn_tensor look = a->view, want = plain->view, *both[] = {&look, &want};
  for (int k = 0; k < 2; k++) {
    crn_tensor *t = both[k];
    int64_t row = t->strides[1], outer = t->strides[0];
    t->rank = 4;
    t->dims[0] = 75, t->dims[1] = 2, t->dims[2] = 3, t->dims[3] = 4;
    t->data = crn_tensor_at(t, 3 * t->strides[2]);
    t->strides[3] = -t->strides[2];
    t->strides[0] = 2 * row, t->strides[1] = row, t->strides[2] = outer;
  }
  float got[75 * 2 * 3 * 4], expected[75 * 2 * 3 * 4];
  crn_tensor x = crn_tensor_make(CAIRN_F32, look.dims, 4, got), y = crn_tensor_make(CAIRN_F32, look.dims, 4, expected);
  crn_tensor_copy(&look, &x);
  crn_tensor_copy(&want, &y);
  assert_memory_equal(got, expected, sizeof got);
  // One row is plain memory.
  crn_tensor row = a->view;
  row.dims[1] = 1;
  row.data = crn_tensor_at(&row, 100 * row.strides[1]);
  crn_tensor resolved = crn_tensor_resolve(&row);
  assert_null(resolved.pages);
  assert_true(crn_load_f64(CAIRN_F32, resolved.data) == 400);
  assert_false(cairn_ndarray_is_contiguous(a));
  cairn_ndarray_release(a);
  cairn_ndarray_release(plain);
}

// --- growth -----------------------------------------------------------------------------------------------------------

static void set_row(cairn_ndarray *a, int64_t row, uint16_t value) {
  const int64_t start[] = {0, row, 0}, end[] = {2, row + 1, 4};
  uint16_t values[8];
  cairn_ndarray *view;
  for (int i = 0; i < 8; i++) values[i] = (uint16_t)(value + i);
  ok(cairn_ndarray_slice(a, start, end, &view));
  ok(cairn_ndarray_write(view, values, sizeof values));
  cairn_ndarray_release(view);
}

static uint16_t get_row(cairn_ndarray *a, int64_t row) {
  const int64_t start[] = {0, row, 0}, end[] = {2, row + 1, 4};
  uint16_t values[8];
  cairn_ndarray *view;
  ok(cairn_ndarray_slice(a, start, end, &view));
  ok(cairn_ndarray_read(view, values, sizeof values));
  cairn_ndarray_release(view);
  for (int i = 1; i < 8; i++) assert_int_equal(values[i], values[0] ? values[0] + i : 0);
  return values[0];
}

static void test_growth_moves_nothing(void **state) {
  (void)state;
  const int64_t shape[] = {2, 64, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64);
  const void *addresses[64];
  for (int64_t row = 0; row < 64 * 64; row++) {
    if (row % 64 == 0) ok(cairn_ndarray_grow(a, row + 64));
    set_row(a, row, (uint16_t)(row + 1));
    if (row % 64 == 0) addresses[row / 64] = cairn_ndarray_page(a, row / 64);
    assert_non_null(addresses[row / 64]);
  }
  for (int i = 0; i < 64; i++) assert_ptr_equal(cairn_ndarray_page(a, i), addresses[i]);
  for (int64_t row = 0; row < 64 * 64; row += 37) assert_int_equal(get_row(a, row), row + 1);
  assert_int_equal(cairn_ndarray_shape(a)[1], 4096);
  assert_int_equal(count(a).n_copied, 0);
  assert_int_equal(cairn_ndarray_grow(a, 100), CAIRN_INVALID_ARGUMENT);
  // A number that is no multiple of a page.
  ok(cairn_ndarray_grow(a, 4097));
  set_row(a, 4096, 9);
  assert_int_equal(count(a).n_pages, 65);
  cairn_ndarray_release(a);
}

static void test_refusals(void **state) {
  (void)state;
  const int64_t shape[] = {2, 64, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64), *plain, *view, *none;
  ok(cairn_ndarray_create(g_context, CAIRN_F16, shape, 3, &plain));
  ok(cairn_ndarray_slice(a, (const int64_t[]){0, 0, 0}, (const int64_t[]){1, 64, 4}, &view));
  assert_int_equal(cairn_ndarray_grow(plain, 128), CAIRN_FAILED_PRECONDITION);
  assert_int_equal(cairn_ndarray_grow(view, 128), CAIRN_FAILED_PRECONDITION);
  assert_int_equal(cairn_ndarray_share_rows(a, 64, plain), CAIRN_FAILED_PRECONDITION);
  assert_int_equal(cairn_ndarray_share_rows(a, 64, a), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(cairn_ndarray_reserve_rows(a, 0, 65), CAIRN_INVALID_ARGUMENT);
  bool taken;
  ok(crn_ndarray_acquire(a, &taken, "a", &taken));
  assert_int_equal(cairn_ndarray_grow(a, 128), CAIRN_BUSY);
  assert_int_equal(cairn_ndarray_reserve_rows(a, 0, 64), CAIRN_BUSY);
  crn_ndarray_unlock(a, &taken);
  static const cairn_segments kWrong[] = {{.axis = 3, .page_rows = 64},
                                          {.axis = 1, .page_rows = 63},
                                          {.axis = 1, .page_rows = 512},
                                          {.axis = 1, .page_rows = 64, .stored = CAIRN_F32}};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++)
    assert_int_equal(cairn_ndarray_create_segmented(g_context, CAIRN_F16, shape, 3, &kWrong[i], &none), CAIRN_INVALID_ARGUMENT);
  const int64_t huge[] = {1 << 20, 64, 1 << 20};
  assert_int_equal(cairn_ndarray_create_segmented(g_context, CAIRN_F16, huge, 3, &(cairn_segments){.axis = 1, .page_rows = 64}, &none),
                   CAIRN_OUT_OF_RANGE);
  assert_int_equal(cairn_ndarray_grow(a, INT64_MAX), CAIRN_OUT_OF_RANGE);
  assert_int_equal(count(plain).page_rows, 0);
  cairn_ndarray_release(view);
  cairn_ndarray_release(plain);
  cairn_ndarray_release(a);
}

// --- pages in common --------------------------------------------------------------------------------------------------

static void test_shared_pages(void **state) {
  (void)state;
  const int64_t shape[] = {2, 256, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64), *b = make(CAIRN_F16, shape, 3, 1, 64), *c = make(CAIRN_F16, shape, 3, 1, 64);
  for (int64_t row = 0; row < 200; row++) set_row(a, row, (uint16_t)(row + 1));
  ok(cairn_ndarray_share_rows(a, 100, b));
  ok(cairn_ndarray_share_rows(b, 100, c));
  assert_int_equal(count(b).n_held, 2);
  assert_int_equal(count(b).n_shared, 2);
  for (int i = 0; i < 2; i++) assert_ptr_equal(cairn_ndarray_page(a, i), cairn_ndarray_page(c, i));
  // Whoever writes gets a page of its own, once; the others see nothing of it.
  set_row(b, 100, 7000);
  set_row(b, 101, 7100);
  assert_int_equal(count(b).n_copied, 1);
  assert_int_equal(get_row(a, 100), 101);
  assert_int_equal(get_row(c, 100), 101);
  assert_int_equal(get_row(b, 100), 7000);
  assert_int_equal(get_row(b, 99), 100);
  assert_ptr_equal(cairn_ndarray_page(b, 0), cairn_ndarray_page(a, 0));
  assert_ptr_not_equal(cairn_ndarray_page(b, 1), cairn_ndarray_page(a, 1));
  set_row(a, 100, 8000);
  assert_int_equal(count(a).n_copied, 1);
  set_row(c, 100, 9000);  // nobody else has it any more
  assert_int_equal(count(c).n_copied, 0);
  assert_int_equal(get_row(a, 100), 8000);
  assert_int_equal(get_row(c, 100), 9000);
  // They live on without the one they came from.
  cairn_ndarray_release(a);
  for (int64_t row = 0; row < 100; row++) assert_int_equal(get_row(b, row), row + 1);
  cairn_ndarray_release(b);
  assert_int_equal(count(c).n_shared, 0);
  cairn_ndarray_release(c);
}

static void test_pages_are_used_again(void **state) {
  (void)state;
  const int64_t shape[] = {2, 640, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64), *b = make(CAIRN_F16, shape, 3, 1, 64);
  const crn_page_store *store = a->view.pages->store;
  assert_ptr_equal(store, b->view.pages->store);
  ok(cairn_ndarray_reserve_rows(a, 0, 640));
  for (int64_t row = 0; row < 640; row++) set_row(a, row, (uint16_t)(row + 1));
  int64_t made = crn_page_store_count(a->view.pages->store).made;
  assert_int_equal(made, 10);
  ok(cairn_ndarray_drop_rows(a, 70, 320));  // pages 2, 3 and 4
  assert_int_equal(count(a).n_held, 7);
  assert_int_equal(get_row(a, 127), 128);
  assert_int_equal(get_row(a, 128), 0);
  assert_int_equal(get_row(a, 320), 321);
  ok(cairn_ndarray_reserve_rows(b, 0, 3 * 64));
  assert_int_equal(crn_page_store_count(a->view.pages->store).made, made);
  for (int64_t row = 0; row < 640; row++) assert_int_equal(get_row(b, row), 0);  // nothing of their old life shows
  ok(cairn_ndarray_zero(a));
  assert_int_equal(count(a).n_held, 0);
  assert_int_equal(count(a).n_idle, 7);
  cairn_ndarray_release(a);
  cairn_ndarray_release(b);
}

// Large pages are cut out of blocks: they come and go like small ones, and all memory is given back.
static void test_large_pages(void **state) {
  (void)state;
  counter c = {.left = INT64_MAX};
  pthread_mutex_init(&c.lock, NULL);
  const cairn_allocator allocator = {&c, count_alloc, count_free};
  cairn_context *context;
  ok(cairn_context_create(&(cairn_context_options){.n_threads = 1, .allocator = &allocator}, &context));
  const int64_t shape[] = {2, 64 * 12, 4096};
  cairn_ndarray *a;
  ok(cairn_ndarray_create_segmented(context, CAIRN_F16, shape, 3, &(cairn_segments){.axis = 1, .page_rows = 64}, &a));
  ok(cairn_ndarray_keep_ready(a, 2));
  for (int round = 0; round < 3; round++) {
    for (int64_t row = 0; row < shape[1]; row += 64) {
      ok(cairn_ndarray_reserve_rows(a, row, row + 64));
      char *page = (char *)cairn_ndarray_page(a, row / 64);
      assert_int_equal((uintptr_t)page % 64, 0);
      for (size_t i = 0; i < count(a).page_bytes; i += 4093) assert_int_equal(page[i], 0);
      memset(page, 0x55, count(a).page_bytes);
    }
    assert_int_equal(count(a).n_held, 12);
    ok(cairn_ndarray_zero(a));
  }
  int64_t made = crn_page_store_count(a->view.pages->store).made;
  assert_true(made >= 12 && made <= 24);
  // The rest of a block that ended within a huge page would lie in small ones, a sixth of a cache, and be read a fifth more slowly.
  assert_true(c.n_blocks > 0 && c.n_blocks < 4);
  assert_int_equal(c.n_torn, 0);
  cairn_ndarray_release(a);
  cairn_context_release(context);
  assert_int_equal(c.out, 0);
  pthread_mutex_destroy(&c.lock);
}

static void test_pages_made_ready(void **state) {
  (void)state;
  const int64_t shape[] = {2, 64, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64);
  ok(cairn_ndarray_keep_ready(a, 2));
  int64_t waited = 0;
  for (int i = 0; i < 20; i++) {
    for (int tries = 0; crn_page_store_count(a->view.pages->store).ready < 2 && tries < 2000; tries++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(crn_page_store_count(a->view.pages->store).ready, 2);
    waited = crn_page_store_count(a->view.pages->store).waited;
    ok(cairn_ndarray_grow(a, 64 * (i + 1)));
    ok(cairn_ndarray_reserve_rows(a, 64 * i, 64 * (i + 1)));
    assert_int_equal(crn_page_store_count(a->view.pages->store).waited, waited);
    for (int64_t row = 64 * i; row < 64 * (i + 1); row++) assert_int_equal(get_row(a, row), 0);
    set_row(a, 64 * i, 5);
  }
  assert_int_equal(waited, 0);
  cairn_ndarray_release(a);
}

// --- a window ---------------------------------------------------------------------------------------------------------

static void test_window_gives_pages_back(void **state) {
  (void)state;
  const int64_t shape[] = {2, 6400, 4};
  cairn_ndarray *a = make(CAIRN_F16, shape, 3, 1, 64);
  ok(cairn_ndarray_set_window(a, &(cairn_ndarray_window){.sinks = 4, .kept = 100}));
  for (int64_t row = 0; row < 3000; row++) {
    set_row(a, row, (uint16_t)(row + 1));
    crn_pages_advance(a->view.pages, row, row + 1);
    assert_true(count(a).n_held <= 1 + 3 + 1);  // of the sinks, of the window, of the rows that may be gone back to
    assert_int_equal(get_row(a, 3), row >= 3 ? 4 : 0);
    if (row >= 99) assert_int_equal(get_row(a, row - 99), row - 98);
  }
  assert_int_equal(count(a).dropped_first, 64);
  assert_true(count(a).dropped_end <= 3000 - 100 && count(a).dropped_end > 3000 - 100 - 16 - 64);
  assert_int_equal(get_row(a, 64), 0);
  // Rows that are written again are there again.
  crn_pages_advance(a->view.pages, 10, 2000);
  assert_int_equal(count(a).dropped_end, 0);
  cairn_ndarray_release(a);
}

// --- int8 -------------------------------------------------------------------------------------------------------------

static void test_int8(void **state) {
  (void)state;
  const int64_t shape[] = {2, 3, 200, 32};
  cairn_ndarray *a, *other;
  const cairn_segments segments = {.axis = 2, .page_rows = 64, .stored = CAIRN_SI8};
  ok(cairn_ndarray_create_segmented(g_context, CAIRN_F32, shape, 4, &segments, &a));
  static float values[2 * 3 * 200 * 32], got[2 * 3 * 200 * 32];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    values[i] = (float)((int)next16() - 32768) / 32768 * (i / 32 % 7 == 0 ? 100 : 1);
  ok(cairn_ndarray_write(a, values, sizeof values));
  ok(cairn_ndarray_read(a, got, sizeof got));
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    float top = 0;
    for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; k++) top = fmaxf(top, fabsf(values[k]));
    assert_true(fabsf(got[i] - values[i]) <= top / 254 * 1.0001f);
  }
  assert_true(count(a).page_bytes < 64 * 6 * 32 * 4 / 2);
  // Rounded numbers are hardly rounded again.
  static float again[2 * 3 * 200 * 32];
  ok(cairn_ndarray_create_segmented(g_context, CAIRN_F32, shape, 4, &segments, &other));
  ok(cairn_ndarray_copy(a, other));
  ok(cairn_ndarray_read(other, again, sizeof again));
  for (size_t i = 0; i < sizeof again / sizeof *again; i++) assert_true(fabsf(again[i] - got[i]) <= 1e-6f * fabsf(got[i]));
  // Half of a group: the other half stays within its rounding.
  cairn_ndarray *half;
  ok(cairn_ndarray_slice(a, (const int64_t[]){0, 0, 70, 0}, (const int64_t[]){1, 1, 71, 16}, &half));
  float ones[16];
  for (int i = 0; i < 16; i++) ones[i] = 1;
  ok(cairn_ndarray_write(half, ones, sizeof ones));
  float *row = &values[(size_t)70 * 32];
  ok(cairn_ndarray_read(a, got, sizeof got));
  for (int i = 0; i < 16; i++) assert_true(fabsf(got[70 * 32 + i] - 1) < 0.5f);
  for (int i = 16; i < 32; i++) assert_true(fabsf(got[70 * 32 + i] - row[i]) < 1);
  // No number is no number for the whole group, and for no other.
  ones[3] = NAN;
  ok(cairn_ndarray_write(half, ones, sizeof ones));
  ok(cairn_ndarray_read(a, got, sizeof got));
  for (int i = 0; i < 32; i++) assert_true(isnan(got[70 * 32 + i]));
  assert_false(isnan(got[71 * 32]));
  cairn_ndarray_release(half);
  cairn_ndarray_release(other);
  cairn_ndarray_release(a);
}

// --- memory that runs out ---------------------------------------------------------------------------------------------

static cairn_status use_all(cairn_context *c) {
  const int64_t shape[] = {2, 64, 4};
  const cairn_segments segments = {.axis = 1, .page_rows = 64};
  static const uint16_t values[2 * 256 * 4] = {1, 2, 3};
  cairn_ndarray *a = NULL, *b = NULL;
  cairn_status status = cairn_ndarray_create_segmented(c, CAIRN_F16, shape, 3, &segments, &a);
  if (status == CAIRN_OK) status = cairn_ndarray_grow(a, 256);
  if (status == CAIRN_OK) status = cairn_ndarray_reserve_rows(a, 0, 200);
  if (status == CAIRN_OK) status = cairn_ndarray_write(a, values, sizeof values);
  if (status == CAIRN_OK) status = cairn_ndarray_create_segmented(c, CAIRN_F16, (const int64_t[]){2, 256, 4}, 3, &segments, &b);
  if (status == CAIRN_OK) status = cairn_ndarray_share_rows(a, 256, b);
  if (status == CAIRN_OK) status = cairn_ndarray_write(b, values, sizeof values);
  if (status == CAIRN_OK) status = cairn_ndarray_zero(b);
  cairn_ndarray_release(b);
  cairn_ndarray_release(a);
  return status;
}

static void test_allocations_fail(void **state) {
  (void)state;
  for (int64_t n = 0;; n++) {
    counter c = {.left = INT64_MAX};
    pthread_mutex_init(&c.lock, NULL);
    const cairn_allocator allocator = {&c, count_alloc, count_free};
    cairn_context *context;
    ok(cairn_context_create(&(cairn_context_options){.n_threads = 1, .allocator = &allocator}, &context));
    c.left = n;
    cairn_status status = use_all(context);
    assert_true(status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY);
    cairn_context_release(context);
    assert_int_equal(c.out, 0);
    pthread_mutex_destroy(&c.lock);
    if (status != CAIRN_OK) continue;
    assert_true(n > 10);
    break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_looks),
      cmocka_unit_test(test_growth_moves_nothing),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_shared_pages),
      cmocka_unit_test(test_pages_are_used_again),
      cmocka_unit_test(test_large_pages),
      cmocka_unit_test(test_pages_made_ready),
      cmocka_unit_test(test_window_gives_pages_back),
      cmocka_unit_test(test_int8),
      cmocka_unit_test(test_allocations_fail),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
