#include "import/synthetic/synthetic.h"

#include "base/context.h"
#include "import/gguf/gguf.h"
#include "import/registry.h"
#include "import/test_support.h"

static const char *const names[] = {"synthetic:tiny",     "synthetic:tiny:q4",     "synthetic:tiny:q8",     "synthetic:tiny:f16",
                                    "synthetic:tiny-moe", "synthetic:tiny-moe:q8", "synthetic:tiny-moe:f16"};
enum { N_NAMES = sizeof names / sizeof *names };

static const void *make(const char *name, crn_pool *pool, crn_memory_region *region, size_t *bytes) {
  const void *data = NULL;
  *region = (crn_memory_region){0};
  assert_int_equal(crn_synthetic_make(NULL, pool, name, region, &data, bytes), CAIRN_OK);
  return data;
}

// However the work is split, the bytes are the same, and they are a valid file to the last of them.
static void test_bytes(void **state) {
  crn_pool *pool;
  (void)state;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  for (int i = 0; i < N_NAMES; i++) {
    crn_memory_region alone, together;
    size_t n, m;
    crn_gguf *file;
    const void *data = make(names[i], NULL, &alone, &n), *same = make(names[i], pool, &together, &m);
    assert_int_equal(n, m);
    assert_memory_equal(data, same, n);
    assert_int_equal(crn_gguf_open_memory(NULL, data, n, names[i], &file), CAIRN_OK);
    assert_true(crn_gguf_tensor_count(file) > 20);
    crn_gguf_close(file);
    crn_memory_region_release(&alone);
    crn_memory_region_release(&together);
  }
  crn_pool_destroy(pool);
}

// Weights have the spread of trained ones, about 0.02.
static void test_spread(void **state) {
  (void)state;
  crn_memory_region region;
  size_t bytes;
  crn_gguf *file;
  const void *data = make("synthetic:tiny:f16", NULL, &region, &bytes);
  assert_int_equal(crn_gguf_open_memory(NULL, data, bytes, "test", &file), CAIRN_OK);
  const crn_gguf_tensor *t = crn_gguf_find_tensor(file, "token_embd.weight");
  assert_non_null(t);
  assert_string_equal(t->type->name, "F16");
  double sum = 0, squares = 0;
  size_t n = t->bytes / 2;
  for (size_t i = 0; i < n; i++) {
    double v = crn_load_f64(CAIRN_F16, t->data + 2 * i);
    sum += v;
    squares += v * v;
  }
  assert_true(sum / (double)n < 1e-3 && sum / (double)n > -1e-3);
  assert_true(squares / (double)n > 0.018 * 0.018 && squares / (double)n < 0.022 * 0.022);
  crn_gguf_close(file);
  crn_memory_region_release(&region);
}

static void test_names(void **state) {
  static const char *const wrong[] = {
      "synthetic:", "synthetic:tin", "synthetic:tiny:", "synthetic:tiny:q", "synthetic:tiny:q4:q4", "synthetic::q4"};
  const crn_importer *importer;
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    crn_memory_region region = {0};
    const void *data;
    size_t bytes;
    assert_true(crn_synthetic_is(wrong[i]));
    assert_int_equal(crn_synthetic_make(NULL, NULL, wrong[i], &region, &data, &bytes), CAIRN_NOT_FOUND);
    assert_non_null(strstr(cairn_last_error()->message, CRN_SYNTHETIC_SHAPES));
    crn_memory_region_release(&region);
  }
  assert_false(crn_synthetic_is("synthetic"));
  assert_false(crn_synthetic_is("./synthetic:tiny"));
  assert_int_equal(crn_importer_find("synthetic:tiny", &importer), CAIRN_OK);
  assert_string_equal(importer->name, "synthetic");
}

// Every allocation fails once; nothing is left behind.
static void test_allocation_failures(void **state) {
  failing_allocator f;
  cairn_context_options options;
  cairn_context *context;
  (void)state;
  failing_initialize(&f);
  cairn_context_options_initialize(&options);
  options.allocator = &f.allocator;
  options.n_threads = 1;
  assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
  long before = f.live;
  cairn_status status = CAIRN_OUT_OF_MEMORY;
  for (long n = 0; status != CAIRN_OK; n++) {
    crn_imported_model m;
    f.left = n;
    status = crn_import(context, "synthetic:tiny-moe", &m);
    assert_true(status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY);
    if (status == CAIRN_OK) assert_int_equal(m.vocab_size, 320);
    crn_imported_model_destroy(&m);
    assert_int_equal(f.live, before);
  }
  cairn_context_release(context);
  assert_int_equal(f.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_spread), cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_allocation_failures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
