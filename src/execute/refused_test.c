// Assets with hostile attributes (scripts/make_refused_cases.py): each is refused while it is loaded, for its reason, and before
// anything much larger than the file is allocated.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cairn/model.h"

static size_t g_largest;

static void *watch_alloc(void *self, size_t bytes, size_t align) {
  (void)self;
  void *p = NULL;
  if (bytes > g_largest) g_largest = bytes;
  // What would be too much to ask for is not given, so that a failure of the test does no harm.
  if (bytes > (size_t)1 << 28 || posix_memalign(&p, align < 16 ? 16 : align, bytes ? bytes : 1)) return NULL;
  return p;
}

static void watch_free(void *self, void *pointer, size_t bytes) {
  (void)self;
  (void)bytes;
  free(pointer);
}

// Parts of the message each asset gets.
static const struct {
  const char *name, *text;
} cases[] = {
    {"huge_constant", "too many elements"},
    {"long_constant", "has 8 bytes"},
    {"overflowing_splat", "too many elements"},
    {"negative_constant", "dimension 0 is -5"},
    {"short_bits", "17 elements"},
    {"overflowing_tile", "too large"},
    {"overflowing_pad", "too large"},
    {"overflowing_reshape", "number of elements differs"},
    {"negative_reshape", "holds -2"},
    {"overflowing_broadcast", "not possible in memory"},
    {"negative_split", "piece of size -1"},
    {"overflowing_split", "not possible in memory"},
    {"split_of_nothing", "piece of size 0"},
    {"axis_outside", "axis 2 is outside of [-2, 2)"},
    {"step_of_zero", "stride 0 in dimension 1"},
    {"wrong_result_size", "declared with shape [2, 4]"},
    {"wrong_result_type", "declared float16"},
    {"combining_scatter", "bare yield of the update"},
    {"scatter_of_the_old", "bare yield of the update"},
    {"unknown_padding", "known modes"},
    {"huge_window", "does not fit"},
    {"huge_input", "no possible type"},
    {"huge_image", "no possible type"},
};

static void are_refused(void **state) {
  (void)state;
  // Arenas and tables start with blocks of a fixed size, which is all a small file may add to four times itself.
  enum { FIXED = 128 << 10 };
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  options.allocator = &(cairn_allocator){.alloc = watch_alloc, .free = watch_free};
  cairn_context *context;
  assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[1024], file[1100], text[512];
    struct stat info;
    cairn_model *model = NULL;
    snprintf(path, sizeof path, CAIRN_TEST_DATA "/refused/attributes/%s.aimodel", cases[i].name);
    snprintf(file, sizeof file, "%s/main.mlirb", path);
    assert_int_equal(stat(file, &info), 0);
    g_largest = 0;
    cairn_status status = cairn_model_load(context, path, NULL, &model);
    if (status == CAIRN_OK) fail_msg("%s is accepted", cases[i].name);
    assert_true(status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED);
    cairn_last_error_text(text, sizeof text);
    if (!strstr(text, cases[i].text)) fail_msg("%s: '%s' does not say '%s'", cases[i].name, text, cases[i].text);
    if (g_largest > 4 * (size_t)info.st_size + FIXED) fail_msg("%s: %zu bytes were allocated at once", cases[i].name, g_largest);
  }
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
