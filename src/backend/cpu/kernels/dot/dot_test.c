// Every set of dot kernels this processor can run, against an f64 reference and against the contract on the order of sums.
#define _DEFAULT_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/kernels/dot/dot.h"
#include "base/cpu.h"
#include "tensor/half.h"

enum { MOST = 67, LONG = 1536 };

static uint32_t g_seed = 1;
static uint32_t next_random(void) { return g_seed = g_seed * 1664525u + 1013904223u; }
static float uniform(void) { return (float)(int32_t)next_random() * 0x1p-31f; }

// Memory whose last byte is followed by a page nobody may touch.
typedef struct guarded {
  char *map, *end;
  size_t bytes;
} guarded;

static guarded guarded_make(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  guarded g = {.bytes = whole + page};
  g.map = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  assert_int_equal(mprotect(g.map + whole, page, PROT_NONE), 0);
  g.end = g.map + whole;
  return g;
}

static void guarded_free(guarded *g) { munmap(g->map, g->bytes); }

static size_t width(int type) { return type == CRN_DOT_F32 ? 4 : 2; }

static void store(void *data, int64_t i, float v, int type) {
  if (type == CRN_DOT_F32) {
    ((float *)data)[i] = v;
  } else {
    ((uint16_t *)data)[i] = type == CRN_DOT_F16 ? crn_f16_from_f32(v) : crn_bf16_from_f32(v);
  }
}

static float fetch(const void *data, int64_t i, int type) {
  if (type == CRN_DOT_F32) return ((const float *)data)[i];
  uint16_t h = ((const uint16_t *)data)[i];
  return type == CRN_DOT_F16 ? crn_f16_to_f32(h) : crn_bf16_to_f32(h);
}

static bool same_bits(float a, float b) { return crn_f32_bits(a) == crn_f32_bits(b) || (a != a && b != b); }

#define FOR_EACH_SET(set)                                             \
  int n_sets;                                                         \
  const crn_dot_kernels *set = crn_dot_list(&n_sets);                 \
  for (const crn_dot_kernels *last = set + n_sets; set < last; set++) \
    if ((set->isa & ~crn_cpu_bits()) == 0)

static void check_near(double got, double want, double magnitude, int64_t k) {
  double tolerance = (double)(k + 4) * 0x1p-24 * magnitude + 0x1p-149;
  if (fabs(got - want) > tolerance) fail_msg("got %.9g, want %.9g within %.3g (k = %d)", got, want, tolerance, (int)k);
}

// --- dot ------------------------------------------------------------------------------------------------------------------

// Operands of one case: rows of both sides end right before a guard page, each row of b directly behind the last.
typedef struct dot_case {
  guarded a_memory[CRN_DOT_ROWS], b_memory;
  const float *a[CRN_DOT_ROWS];
  void *b;
  int64_t ldb, k;
} dot_case;

static dot_case dot_case_make(int64_t k, int64_t gap, int type, int shift) {
  dot_case c = {.k = k, .ldb = k + gap};
  for (int r = 0; r < CRN_DOT_ROWS; r++) {
    c.a_memory[r] = guarded_make((size_t)k * 4 + 64);
    // A shift makes the row end, and so begin, at another alignment; the guard is then a few bytes away.
    float *row = (float *)(c.a_memory[r].end - (size_t)k * 4 - (size_t)shift * 4);
    for (int64_t i = 0; i < k; i++) row[i] = uniform();
    c.a[r] = row;
  }
  int64_t elements = (CRN_DOT_COLS - 1) * c.ldb + k;
  c.b_memory = guarded_make((size_t)elements * width(type) + 64);
  c.b = c.b_memory.end - (size_t)(elements + shift) * width(type);
  for (int64_t i = 0; i < elements; i++) store(c.b, i, NAN, type);  // gaps between rows must not be read
  for (int col = 0; col < CRN_DOT_COLS; col++) {
    for (int64_t i = 0; i < k; i++) store(c.b, col * c.ldb + i, uniform(), type);
  }
  return c;
}

static void dot_case_free(dot_case *c) {
  for (int r = 0; r < CRN_DOT_ROWS; r++) guarded_free(&c->a_memory[r]);
  guarded_free(&c->b_memory);
}

static const void *column(const dot_case *c, int col, int type) { return (const char *)c->b + (size_t)(col * c->ldb) * width(type); }

static void check_dot(const crn_dot_kernels *set, const dot_case *c, int type) {
  float single[CRN_DOT_ROWS][CRN_DOT_COLS];
  for (int r = 0; r < CRN_DOT_ROWS; r++) {
    for (int col = 0; col < CRN_DOT_COLS; col++) {
      float out[CRN_DOT_ROWS * CRN_DOT_COLS];
      set->dot[type](c->a + r, 1, column(c, col, type), c->ldb, 1, c->k, out);
      single[r][col] = out[0];
      double want = 0, magnitude = 0;
      for (int64_t i = 0; i < c->k; i++) {
        double p = (double)c->a[r][i] * (double)fetch(column(c, col, type), i, type);
        want += p;
        magnitude += fabs(p);
      }
      check_near((double)out[0], want, magnitude, c->k);
    }
  }
  for (int rows = 1; rows <= CRN_DOT_ROWS; rows++) {
    for (int cols = 1; cols <= CRN_DOT_COLS; cols++) {
      float out[CRN_DOT_ROWS * CRN_DOT_COLS + 1];
      for (int i = 0; i < CRN_DOT_ROWS * CRN_DOT_COLS + 1; i++) out[i] = 777;
      set->dot[type](c->a, rows, c->b, c->ldb, cols, c->k, out);
      for (int r = 0; r < CRN_DOT_ROWS; r++) {
        for (int col = 0; col < CRN_DOT_COLS; col++) {
          float want = r < rows && col < cols ? single[r][col] : 777;
          if (!same_bits(out[r * CRN_DOT_COLS + col], want))
            fail_msg("%s: row %d, column %d of a %d x %d tile differs", set->name, r, col, rows, cols);
        }
      }
      assert_true(out[CRN_DOT_ROWS * CRN_DOT_COLS] == 777);
    }
  }
}

static void dot_matches_reference(void **state) {
  (void)state;
  FOR_EACH_SET(set) {
    for (int type = 0; type < CRN_DOT_TYPES; type++) {
      for (int64_t k = 0; k <= MOST; k++) {
        dot_case c = dot_case_make(k, k % 5, type, (int)(k % 4));
        check_dot(set, &c, type);
        dot_case_free(&c);
      }
      dot_case c = dot_case_make(LONG, 0, type, 0);
      check_dot(set, &c, type);
      dot_case_free(&c);
    }
  }
}

// Lane, fold and rounding written out: what every set with (or without) FMA must give bit for bit.
static float contract_dot(const float *a, const void *b, int64_t k, int type, bool fused) {
  float lane[CRN_DOT_LANES] = {0};
  for (int64_t i = 0; i < k; i++) {
    float w = fetch(b, i, type), *l = &lane[i % CRN_DOT_LANES];
    float p = a[i] * w;
    *l = fused ? fmaf(a[i], w, *l) : *l + p;
  }
  for (int half = CRN_DOT_LANES / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  }
  return lane[0];
}

static void dot_keeps_the_order_of_sums(void **state) {
  (void)state;
  FOR_EACH_SET(set) {
    for (int type = 0; type < CRN_DOT_TYPES; type++) {
      for (int64_t k = 0; k <= 300; k += k < MOST ? 1 : 29) {
        dot_case c = dot_case_make(k, 0, type, 0);
        float out[CRN_DOT_ROWS * CRN_DOT_COLS];
        set->dot[type](c.a, CRN_DOT_ROWS, c.b, c.ldb, CRN_DOT_COLS, k, out);
        for (int r = 0; r < CRN_DOT_ROWS; r++) {
          for (int col = 0; col < CRN_DOT_COLS; col++) {
            float want = contract_dot(c.a[r], column(&c, col, type), k, type, set->has_fma);
            if (!same_bits(out[r * CRN_DOT_COLS + col], want)) fail_msg("%s: k = %d is not summed in order", set->name, (int)k);
          }
        }
        dot_case_free(&c);
      }
    }
  }
}

static void zeros_behind_change_nothing(void **state) {
  (void)state;
  static float a[300], b32[300];
  static uint16_t b16[300];
  FOR_EACH_SET(set) {
    for (int type = 0; type < CRN_DOT_TYPES; type++) {
      void *b = type == CRN_DOT_F32 ? (void *)b32 : (void *)b16;
      for (int64_t k = 1; k <= 130; k += 3) {
        for (int64_t i = 0; i < 300; i++) {
          a[i] = i < k ? uniform() : 0;
          store(b, i, uniform(), type);
        }
        const float *rows[1] = {a};
        float exact[CRN_DOT_ROWS * CRN_DOT_COLS], padded[CRN_DOT_ROWS * CRN_DOT_COLS];
        set->dot[type](rows, 1, b, 300, 1, k, exact);
        for (int64_t more = 1; more < 40; more += 7) {
          set->dot[type](rows, 1, b, 300, 1, k + more, padded);
          assert_true(same_bits(exact[0], padded[0]));
        }
      }
    }
  }
}

static void extreme_values_come_through(void **state) {
  (void)state;
  FOR_EACH_SET(set) {
    for (int type = 0; type < CRN_DOT_TYPES; type++) {
      for (int at = 0; at < 35; at += 17) {
        float a[35], b32[35];
        uint16_t b16[35];
        void *b = type == CRN_DOT_F32 ? (void *)b32 : (void *)b16;
        const float *rows[1] = {a};
        float out[CRN_DOT_ROWS * CRN_DOT_COLS];
#define CASE(x, w, expectation)                                \
  for (int i = 0; i < 35; i++) a[i] = 1, store(b, i, 0, type); \
  a[at] = x;                                                   \
  store(b, at, w, type);                                       \
  set->dot[type](rows, 1, b, 35, 1, 35, out);                  \
  if (!(expectation)) fail_msg("%s: element %d: got %g", set->name, at, (double)out[0]);
        CASE(1, INFINITY, out[0] == INFINITY)
        CASE(-1, INFINITY, out[0] == -INFINITY)
        CASE(0, INFINITY, out[0] != out[0])
        CASE(NAN, 1, out[0] != out[0])
        CASE(1, NAN, out[0] != out[0])
        CASE(0x1p-149f, 1, out[0] == 0x1p-149f)
        CASE(1, 0x1p-20f, out[0] == 0x1p-20f)  // a subnormal of f16
        CASE(2, -65504, type == CRN_DOT_BF16 || out[0] == -131008.0f)
        CASE(3.4028235e38f, 2, out[0] == INFINITY)
        CASE(-0.0f, 1, out[0] == 0)
#undef CASE
      }
    }
  }
}

// --- axpy -----------------------------------------------------------------------------------------------------------------

static float contract_axpy(float y, const float *a, const void *x, int64_t ldx, int64_t k, int64_t j, int type, bool fused) {
  for (int64_t i = 0; i < k; i++) {
    float w = fetch(x, i * ldx + j, type), p = a[i] * w;
    y = fused ? fmaf(a[i], w, y) : y + p;
  }
  return y;
}

static void check_axpy(const crn_dot_kernels *set, int type, int64_t n, int64_t k, int64_t gap, int shift) {
  int64_t ldx = n + gap, elements = k ? (k - 1) * ldx + n : 0;
  guarded memory = guarded_make((size_t)elements * width(type) + 64), sums[CRN_AXPY_ROWS];
  void *x = memory.end - (size_t)(elements + shift) * width(type);
  for (int64_t i = 0; i < elements; i++) store(x, i, NAN, type);
  for (int64_t i = 0; i < k; i++) {
    for (int64_t j = 0; j < n; j++) store(x, i * ldx + j, uniform(), type);
  }
  float scales[CRN_AXPY_ROWS][16], want[CRN_AXPY_ROWS][600];
  const float *a[CRN_AXPY_ROWS];
  float *y[CRN_AXPY_ROWS];
  for (int r = 0; r < CRN_AXPY_ROWS; r++) {
    for (int i = 0; i < 16; i++) scales[r][i] = uniform();
    a[r] = scales[r];
    sums[r] = guarded_make((size_t)n * 4 + 64);
    y[r] = (float *)(sums[r].end - (size_t)n * 4 - (size_t)shift * 4);
  }
  for (int rows = 1; rows <= CRN_AXPY_ROWS; rows++) {
    for (int r = 0; r < rows; r++) {
      for (int64_t j = 0; j < n; j++) {
        y[r][j] = uniform();
        want[r][j] = contract_axpy(y[r][j], a[r], x, ldx, k, j, type, set->has_fma);
      }
    }
    set->axpy[type](a, rows, x, ldx, k, n, y);
    for (int r = 0; r < rows; r++) {
      for (int64_t j = 0; j < n; j++) {
        if (!same_bits(y[r][j], want[r][j])) fail_msg("%s: axpy of %d rows, column %d of %d differs", set->name, rows, (int)j, (int)n);
      }
    }
  }
  for (int r = 0; r < CRN_AXPY_ROWS; r++) guarded_free(&sums[r]);
  guarded_free(&memory);
}

static void axpy_keeps_the_order_of_sums(void **state) {
  (void)state;
  FOR_EACH_SET(set) {
    for (int type = 0; type < CRN_DOT_TYPES; type++) {
      for (int64_t n = 0; n <= MOST; n++) check_axpy(set, type, n, n % 10, n % 3, (int)(n % 4));
      check_axpy(set, type, 131, 5, 0, 0);
      check_axpy(set, type, 257, 3, 1, 1);
      check_axpy(set, type, 600, 2, 0, 0);
    }
  }
}

// --- the table ------------------------------------------------------------------------------------------------------------

static void selection_follows_the_processor(void **state) {
  (void)state;
  int n;
  const crn_dot_kernels *list = crn_dot_list(&n), *chosen = crn_dot_select();
  assert_true(n >= 1);
  assert_string_equal(list[n - 1].name, "scalar");
  assert_true(list[n - 1].isa == 0);
  assert_true((chosen->isa & ~crn_cpu_bits()) == 0);
  for (const crn_dot_kernels *better = list; better < chosen; better++) assert_true((better->isa & ~crn_cpu_bits()) != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dot_matches_reference),        cmocka_unit_test(dot_keeps_the_order_of_sums),
      cmocka_unit_test(zeros_behind_change_nothing),  cmocka_unit_test(extreme_values_come_through),
      cmocka_unit_test(axpy_keeps_the_order_of_sums), cmocka_unit_test(selection_follows_the_processor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
