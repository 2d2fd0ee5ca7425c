// Which kernels this processor gets: printed, and the best of those it has. With CAIRN_TEST_CPU, a comma list of features, the
// processor must have exactly those: runs that are meant to test the kernels of a feature cannot go by without it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/convert/convert.h"
#include "backend/cpu/kernels/dot/dot.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/kernels/tiles/tiles.h"
#include "base/cpu.h"

static void the_processor_is_the_one_asked_for(void **state) {
  (void)state;
  char found[256] = "";
#define FEATURE(name, bit, text) \
  if (crn_cpu_bits() & CRN_CPU_##name) strcat(strcat(found, *found ? "," : ""), text);
  CRN_CPU_LIST(FEATURE)
#undef FEATURE
  print_message("features: %s\n", *found ? found : "none");
  const char *wanted = getenv("CAIRN_TEST_CPU");
  if (wanted) assert_string_equal(found, wanted);
}

// A family with one set of kernels for an instruction set: the first that the processor has, and no other.
#define BEST_SET(type, family)                                                         \
  static void best_##family(void **state) {                                            \
    (void)state;                                                                       \
    int n;                                                                             \
    const type *list = crn_##family##_list(&n), *chosen = crn_##family##_select();     \
    print_message("%s: %s\n", #family, chosen->name);                                  \
    assert_true(chosen >= list && chosen < list + n);                                  \
    assert_int_equal(chosen->isa & ~crn_cpu_bits(), 0);                                \
    for (const type *better = list; better < chosen; better++) {                       \
      if ((better->isa & ~crn_cpu_bits()) == 0) fail_msg("%s was left", better->name); \
    }                                                                                  \
  }

BEST_SET(crn_convert_kernels, convert)
BEST_SET(crn_dot_kernels, dot)
BEST_SET(crn_rows_kernels, rows)
BEST_SET(crn_tile_kernels, tiles)

// Where there are vectors at all, nothing is left to the scalar kernels.
static bool has_vectors(void) { return (crn_cpu_bits() & (CRN_CPU_AVX2 | CRN_CPU_AVX512 | CRN_CPU_NEON)) != 0; }

static void vectors_serve_every_linear_layer(void **state) {
  (void)state;
  for (int f = 0; f < CRN_LINEAR_FORMATS; f++) {
    for (int mode = 0; mode < CRN_LINEAR_MODES; mode++) {
      const crn_linear_kernel *before = NULL;
      for (int64_t rows = 1; rows < 70; rows++) {
        const crn_linear_kernel *kernel = crn_linear_select((crn_linear_format)f, (crn_linear_mode)mode, rows);
        if (kernel != before) print_message("linear: mode %d from %d rows: %s\n", mode, (int)rows, kernel->name);
        before = kernel;
        if (has_vectors() && kernel->cpu_bits == 0) fail_msg("%s serves %d rows", kernel->name, (int)rows);
      }
    }
  }
}

static void vectors_serve_all_attention(void **state) {
  (void)state;
  for (int mode = CRN_ATTENTION_EXACT; mode <= CRN_ATTENTION_BF16; mode++) {
    const crn_attention_kernel *before = NULL;
    for (int64_t rows = 1; rows < 70; rows++) {
      const crn_cache_view cache = {.type = CRN_CACHE_F16};
      const crn_attention a = {
          .rows = rows, .positions = 128, .heads = 1, .kv_heads = 1, .key_size = 64, .value_size = 64, .k = cache, .v = cache};
      const crn_attention_kernel *kernel = crn_attention_select(mode, &a);
      assert_non_null(kernel);
      if (kernel != before) print_message("attention: mode %d from %d rows: %s\n", mode, (int)rows, kernel->name);
      before = kernel;
      if (has_vectors() && kernel->isa == 0) fail_msg("%s serves %d rows", kernel->name, (int)rows);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_processor_is_the_one_asked_for),
      cmocka_unit_test(best_convert),
      cmocka_unit_test(best_dot),
      cmocka_unit_test(best_rows),
      cmocka_unit_test(best_tiles),
      cmocka_unit_test(vectors_serve_every_linear_layer),
      cmocka_unit_test(vectors_serve_all_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
