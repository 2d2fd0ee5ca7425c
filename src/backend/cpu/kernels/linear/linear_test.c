// Every kernel this processor has, through the preparation it names, against an f64 reference made from the quants, and in EXACT
// mode against the chain of the contract, bit for bit. Memory is poisoned and ends at guard pages.
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

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "base/cpu.h"
#include "tensor/half.h"

static uint32_t g_seed = 1;
static uint32_t next_random(void) { return (g_seed = g_seed * 1664525u + 1013904223u) >> 8; }
static float uniform(void) { return (float)((int32_t)next_random() - (1 << 23)) * 0x1p-23f; }

static bool is_quant(crn_linear_format f) { return f <= CRN_LINEAR_Q8M; }
static bool is_4bit(crn_linear_format f) { return f <= CRN_LINEAR_Q4M; }
static bool has_mins(crn_linear_format f) { return f == CRN_LINEAR_Q4M || f == CRN_LINEAR_Q8M; }

// --- memory ---------------------------------------------------------------------------------------------------------------

// Memory whose last byte is followed by a page nobody may touch.
typedef struct guarded {
  char *map, *data;
  size_t map_bytes, bytes;
} guarded;

static guarded guarded_make(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  guarded g = {.map_bytes = whole + page, .bytes = bytes};
  g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  assert_int_equal(mprotect(g.map + whole, page, PROT_NONE), 0);
  memset(g.map, 0xff, whole);
  g.data = g.map + whole - bytes;
  return g;
}

static void guarded_free(guarded *g) { munmap(g->map, g->map_bytes); }

// --- matrices -------------------------------------------------------------------------------------------------------------

typedef struct matrix {
  crn_linear_weights w;
  guarded packed;
  float *values;      // n x k, what the kernels should multiply with
  float *magnitudes;  // n x k, of the parts a value is the sum of
  float *tops;        // n x k, of quants: the largest magnitude that the scale and the minimum of a value allow
} matrix;

// How scales and activations are drawn.
typedef enum flavour { ORDINARY, EXTREME } flavour;

static float draw_scale(flavour how) {
  static const float edges[] = {0, 65504, -65504, 0x1p-24f, 0x1p-14f, 1};
  if (how == EXTREME && next_random() % 2) return edges[next_random() % 6];
  return crn_f16_to_f32(crn_f16_from_f32(uniform() * 0.25f));
}

static float draw_input(flavour how) {
  static const float edges[] = {0, 1e30f, -1e25f, 1e-40f, -0x1p-149f, 1e-36f, 3e-20f};
  if (how == EXTREME && next_random() % 4 == 0) return edges[next_random() % 7];
  return uniform();
}

static float largest_weight(crn_linear_format f, int zero, double scale, double low) {
  const double least = ((is_4bit(f) ? 0 : -128) - zero) * scale + low, most = ((is_4bit(f) ? 15 : 127) - zero) * scale + low;
  return (float)fmax(fabs(least), fabs(most));
}

static void fill_quants(matrix *m, int64_t row, flavour how) {
  int64_t k = m->w.k, groups = (k + 31) / 32;
  bool four = is_4bit(m->w.format);
  unsigned char *bytes = malloc((size_t)k + 1);
  float *scales = malloc((size_t)groups * 2 * sizeof(float) + 4), *mins = scales + groups;
  for (int64_t i = 0; i < k; i++) bytes[i] = (unsigned char)(four ? next_random() % 16 : next_random());
  for (int64_t g = 0; g < groups; g++) {
    scales[g] = draw_scale(how);
    mins[g] = draw_scale(how);
  }
  crn_linear_row source = {bytes, scales, mins};
  assert_true(crn_linear_pack_row(m->w.format, m->w.n, k, row, &source, m->packed.data));
  for (int64_t i = 0; i < k; i++) {
    double scale = scales[i / 32], low = has_mins(m->w.format) ? mins[i / 32] : 0;
    int quant = (four ? bytes[i] : (int8_t)bytes[i]) - m->w.zero;
    m->values[row * k + i] = (float)(quant * scale + low);
    m->magnitudes[row * k + i] = (float)((abs(quant) + 256) * fabs(scale) + fabs(low));
    m->tops[row * k + i] = largest_weight(m->w.format, m->w.zero, scale, low);
  }
  free(bytes);
  free(scales);
}

static void fill_floats(matrix *m, int64_t row, flavour how) {
  int64_t k = m->w.k;
  crn_linear_format f = m->w.format;
  float *wide = malloc((size_t)k * sizeof(float) + 4);
  uint16_t *half = malloc((size_t)k * 2 + 2);
  for (int64_t i = 0; i < k; i++) {
    wide[i] = how == EXTREME ? draw_scale(how) : uniform();
    half[i] = f == CRN_LINEAR_F16 ? crn_f16_from_f32(wide[i]) : crn_bf16_from_f32(wide[i]);
    if (f != CRN_LINEAR_F32) wide[i] = f == CRN_LINEAR_F16 ? crn_f16_to_f32(half[i]) : crn_bf16_to_f32(half[i]);
    m->values[row * k + i] = wide[i];
    m->magnitudes[row * k + i] = fabsf(wide[i]);
  }
  crn_linear_row source = {f == CRN_LINEAR_F32 ? (void *)wide : half, NULL, NULL};
  assert_true(crn_linear_pack_row(f, m->w.n, k, row, &source, m->packed.data));
  free(wide);
  free(half);
}

static matrix matrix_make(crn_linear_format f, int64_t n, int64_t k, int zero, flavour how) {
  matrix m = {.w = {.format = f, .zero = zero, .n = n, .k = k}};
  assert_true(crn_linear_packed_bytes(f, n, k, &m.w.bytes));
  m.packed = guarded_make(m.w.bytes);
  m.w.data = m.packed.data;
  m.values = malloc((size_t)(n * k) * sizeof(float) + 4);
  m.magnitudes = malloc((size_t)(n * k) * sizeof(float) + 4);
  m.tops = malloc((size_t)(n * k) * sizeof(float) + 4);
  for (int64_t row = 0; row < n; row++) is_quant(f) ? fill_quants(&m, row, how) : fill_floats(&m, row, how);
  return m;
}

static void matrix_free(matrix *m) {
  guarded_free(&m->packed);
  free(m->values);
  free(m->magnitudes);
  free(m->tops);
}

// --- rows -----------------------------------------------------------------------------------------------------------------

typedef struct activations {
  guarded memory;
  size_t row_bytes;
  float *values;  // n_rows x k, what the prepared rows stand for
  float *units;   // n_rows x k, of INT16: the scale of each value
} activations;

static const crn_linear_kernel *scalar_for(crn_linear_mode rows_mode) {
  int n;
  const crn_linear_kernel *list = crn_linear_list(&n);
  for (int i = 0; i < n; i++) {
    if (list[i].cpu_bits == 0 && list[i].rows_mode == rows_mode && list[i].format < CRN_LINEAR_P1) return list + i;
  }
  return NULL;
}

static void decode_row(crn_linear_mode mode, const char *row, int64_t k, float *out) {
  int64_t padded = (k + 63) / 64 * 64;
  const float *scales = (const float *)(const void *)(row + padded);
  for (int64_t i = 0; i < k; i++) {
    if (mode == CRN_LINEAR_EXACT) out[i] = ((const float *)(const void *)row)[i];
    if (mode == CRN_LINEAR_MODE_BF16) out[i] = crn_bf16_to_f32(((const uint16_t *)(const void *)row)[i]);
    if (mode == CRN_LINEAR_MODE_INT8) out[i] = (float)((int8_t)row[i]) * scales[i / 32];
  }
}

// A prepared row in one piece; where rows lie in blocks, what is behind the values comes from `plain`.
static void read_row(const crn_linear_kernel *kernel, const activations *a, int64_t row, int64_t k, const char *plain, char *out) {
  const char *from = a->memory.data + crn_linear_row_offset(kernel, a->row_bytes, row);
  if (crn_linear_row_block(kernel) == 1) {
    memcpy(out, from, a->row_bytes);
    return;
  }
  memcpy(out, plain, a->row_bytes);
  for (int64_t i = 0; i < (k + 63) / 64 * 2; i++) {
    memcpy(out + i * CRN_LINEAR_ROW_LINE, from + i * CRN_LINEAR_ROW_BLOCK * CRN_LINEAR_ROW_LINE, CRN_LINEAR_ROW_LINE);
  }
}

// Prepared 16-bit integers: the nearest of what each piece is scaled to, in two signed bytes, and zeros behind the end.
static void read_int16(const crn_linear_kernel *kernel, const activations *a, int64_t row, const float *x, int64_t k) {
  enum { STRIDE = CRN_LINEAR_ROW_BLOCK * CRN_LINEAR_ROW_LINE };
  const char *from = a->memory.data + crn_linear_row_offset(kernel, a->row_bytes, row);
  const int64_t blocks = (k + 63) / 64;
  for (int64_t i = 0, piece = 0; i < blocks * 64; i++) {
    if (i / 64 >= blocks * (piece + 1) / LINEAR_PIECES(blocks)) piece++;
    const char *line = from + i / 64 * 2 * STRIDE + i % 64, *scales = from + 2 * blocks * STRIDE;
    float scale;
    memcpy(&scale, scales + piece / 16 * STRIDE + piece % 16 * 4, sizeof scale);
    const int whole = *(const int8_t *)line * 256 + *(const int8_t *)(line + STRIDE);
    if (i >= k) {
      assert_int_equal(whole, 0);
      continue;
    }
    a->values[row * k + i] = (float)whole * scale;
    a->units[row * k + i] = scale;
    // Those that are not finite make the scale NaN, which all differences are then.
    if (fabsf(a->values[row * k + i] - x[i]) > 0.51f * scale + 0x1p-107f)
      fail_msg("%s: %.9g was prepared as %.9g", kernel->name, x[i], a->values[row * k + i]);
  }
}

// Prepares rows with the kernel's function and, beside it, with the scalar one: all sets must agree, padding included.
static activations activations_make(const crn_linear_kernel *kernel, const float *x, int64_t n_rows, int64_t k) {
  activations a = {.row_bytes = crn_linear_row_bytes(kernel->rows_mode, k)};
  const int64_t block = crn_linear_row_block(kernel);
  a.memory = guarded_make(a.row_bytes * (size_t)((n_rows + block - 1) / block * block));
  a.values = malloc((size_t)(n_rows * k) * sizeof(float) + 4);
  a.units = malloc((size_t)(n_rows * k) * sizeof(float) + 4);
  guarded input = guarded_make((size_t)k * sizeof(float)), plain = guarded_make(a.row_bytes);
  char *row = aligned_alloc(64, a.row_bytes);
  for (int64_t r = 0; r < n_rows; r++) {
    memcpy(input.data, x + r * k, (size_t)k * sizeof(float));
    kernel->prepare((const float *)(const void *)input.data, k, a.memory.data + crn_linear_row_offset(kernel, a.row_bytes, r));
    if (kernel->rows_mode == CRN_LINEAR_ROWS_INT16) {
      read_int16(kernel, &a, r, x + r * k, k);
      continue;
    }
    scalar_for(kernel->rows_mode)->prepare((const float *)(const void *)input.data, k, plain.data);
    read_row(kernel, &a, r, k, plain.data, row);
    if (memcmp(row, plain.data, a.row_bytes) != 0) fail_msg("%s: preparation differs from the scalar one (k = %d)", kernel->name, (int)k);
    decode_row(kernel->rows_mode, row, k, a.values + r * k);
  }
  free(row);
  guarded_free(&input);
  guarded_free(&plain);
  return a;
}

static void activations_free(activations *a) {
  guarded_free(&a->memory);
  free(a->values);
  free(a->units);
}

// --- one case -------------------------------------------------------------------------------------------------------------

// How far 16-bit integers may be off where weights are such, too: weights by half of their unit, the largest one being 127 * 256 of them,
// and products of low bytes, which are left out, by all they can be.
static double int16_error(const matrix *m, const float *x, const float *units, int64_t row) {
  const int64_t k = m->w.k, blocks = (k + 63) / 64, pieces = LINEAR_PIECES(blocks);
  double error = 0;
  for (int64_t piece = 0; piece < pieces; piece++) {
    const int64_t from = blocks * piece / pieces * 64, end = blocks * (piece + 1) / pieces * 64;
    double unit = 0;
    for (int64_t i = from; i < end && i < k; i++) unit = fmax(unit, m->tops[row * k + i] / (127.0 * 256));
    for (int64_t i = from; i < end && i < k; i++) error += unit * (0.51 * fabs((double)x[i]) + 128.0 * 128 * units[i]);
  }
  return error;
}

// Sums in f64 with the weights as they are and, as kernels for many rows do it in BF16, with those of `unpacked` rounded to bf16.
static void check_value(const crn_linear_kernel *kernel, const matrix *m, const float *x, const float *units, int64_t row,
                        const float *unpacked, float got) {
  double exact = 0, rounded = 0, magnitude = 0, absolute = 0;
  int64_t k = m->w.k;
  for (int64_t i = 0; i < k; i++) {
    float w = m->values[row * k + i];
    exact += (double)x[i] * w;
    rounded += (double)x[i] * crn_bf16_to_f32(crn_bf16_from_f32(unpacked[i]));
    magnitude += fabs((double)x[i]) * m->magnitudes[row * k + i];
    absolute += (fabs((double)w) + fabs((double)x[i]) + 1) * 0x1p-125;
  }
  if (magnitude > 1e38) return;
  double tolerance = (double)(k + 8) * 0x1p-24 * magnitude + absolute;
  if (kernel->rows_mode == CRN_LINEAR_ROWS_INT16 && strcmp(kernel->isa, "amx") == 0) tolerance += int16_error(m, x, units, row);
  bool may_round = kernel->rows_mode == CRN_LINEAR_MODE_BF16 && kernel->cpu_bits != 0;
  if (fabs(got - exact) <= tolerance || (may_round && fabs(got - rounded) <= tolerance)) return;
  fail_msg("%s: output %d is %.9g, want %.9g or %.9g within %.3g (n = %d, k = %d)", kernel->name, (int)row, got, exact, rounded, tolerance,
           (int)m->w.n, (int)k);
}

static float chain(const float *x, const float *w, int64_t k, bool has_fma) {
  float acc = 0;
  for (int64_t i = 0; i < k; i++) acc = has_fma ? fmaf(x[i], w[i], acc) : acc + x[i] * w[i];
  return acc;
}

static bool same_bits(float a, float b) { return crn_f32_bits(a) == crn_f32_bits(b) || (a != a && b != b); }

// Outputs of all tiles in rows with `gap` floats between them. The memory begins 4 bytes off alignment.
static float *run(const crn_linear_kernel *kernel, const matrix *m, const activations *a, int64_t n_rows, int64_t gap,
                  guarded *out_memory) {
  int64_t tiles = crn_linear_tiles(m->w.n), ld = tiles * 16 + gap;
  guarded scratch = guarded_make((kernel->scratch_bytes(m->w.k) + 63) / 64 * 64);
  *out_memory = guarded_make((size_t)((n_rows - 1) * ld + tiles * 16) * sizeof(float) + 4);
  // One float before the end: the last output touches the guard page only when it is written too far.
  float *out = (float *)(void *)out_memory->data + 1;
  kernel->run(&m->w, a->memory.data, a->row_bytes, n_rows, 0, tiles, out, ld, scratch.data);
  guarded_free(&scratch);
  return out;
}

/// Sums as a kernel hands them out.
typedef struct taken {
  float *out;
  int64_t ld, n;  ///< and how many there were
} taken;

static void take(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles, float *sums, int64_t ld) {
  taken *t = user;
  for (int64_t r = 0; r < n_rows; r++) {
    memcpy(t->out + (row + r) * t->ld + tile * 16, sums + r * ld, (size_t)n_tiles * 16 * sizeof *sums);
    // What is handed out is the sink's to change.
    memset(sums + r * ld, 0xff, (size_t)n_tiles * 16 * sizeof *sums);
  }
  t->n += n_rows * n_tiles;
}

// Part by part the sums are the same, each of them once.
static void check_parts(const crn_linear_kernel *kernel, const matrix *m, const activations *a, int64_t n_rows, const float *expected,
                        int64_t expected_ld) {
  crn_linear_parts_fn parts = crn_linear_parts_of(kernel);
  if (!parts) return;
  int64_t tiles = crn_linear_tiles(m->w.n), ld = tiles * 16, part_ld = (tiles < CRN_LINEAR_PART_TILES ? tiles : CRN_LINEAR_PART_TILES) * 16;
  size_t scratch_bytes = (kernel->scratch_bytes(m->w.k) + 63) / 64 * 64;
  float *sums = malloc((size_t)(n_rows * part_ld) * sizeof *sums), *out = malloc((size_t)(n_rows * ld) * sizeof *out);
  void *scratch = aligned_alloc(64, scratch_bytes);
  taken t = {out, ld, 0};
  const crn_linear_sink sink = {.take = take, .user = &t};
  parts(&m->w, a->memory.data, a->row_bytes, n_rows, 0, tiles, sums, part_ld, scratch, &sink);
  assert_int_equal(t.n, n_rows * tiles);
  for (int64_t r = 0; r < n_rows; r++) {
    if (memcmp(out + r * ld, expected + r * expected_ld, (size_t)ld * sizeof *out))
      fail_msg("%s: row %d of %d is another one part by part", kernel->name, (int)r, (int)n_rows);
  }
  free(scratch);
  free(out);
  free(sums);
}

static void check_case(const crn_linear_kernel *kernel, const matrix *m, const float *x, int64_t n_rows) {
  int64_t k = m->w.k, n = m->w.n, padded = crn_linear_tiles(n) * 16, gap = 3, ld = padded + gap;
  activations a = activations_make(kernel, x, n_rows, k);
  guarded memory;
  float *out = run(kernel, m, &a, n_rows, gap, &memory);
  bool chained = kernel->rows_mode == CRN_LINEAR_EXACT;
  check_parts(kernel, m, &a, n_rows, out, ld);
  float *unpacked = malloc((size_t)k * sizeof(float) + 4);
  for (int64_t i = 0; i < padded; i++) {
    if (i < n) crn_linear_unpack_row(&m->w, i, unpacked);
    for (int64_t r = 0; r < n_rows; r++) {
      float got = out[r * ld + i];
      if (i >= n) {
        if (got != 0) fail_msg("%s: padding is %g", kernel->name, got);
      } else if (chained) {
        float want = chain(a.values + r * k, unpacked, k, kernel->has_fma);
        if (!same_bits(got, want)) fail_msg("%s: output %d of row %d is %.9g, the chain %.9g", kernel->name, (int)i, (int)r, got, want);
      }
      if (i < n) check_value(kernel, m, a.values + r * k, a.units + r * k, i, unpacked, got);
    }
  }
  for (int64_t r = 0; r + 1 < n_rows; r++) {
    for (int64_t i = padded; i < ld; i++) assert_int_equal(crn_f32_bits(out[r * ld + i]), 0xffffffffu);
  }
  free(unpacked);
  guarded_free(&memory);
  activations_free(&a);
}

#define FOR_EACH_KERNEL(kernel)                                                     \
  int n_kernels;                                                                    \
  const crn_linear_kernel *kernel = crn_linear_list(&n_kernels);                    \
  for (const crn_linear_kernel *last = kernel + n_kernels; kernel < last; kernel++) \
    if ((kernel->cpu_bits & ~crn_cpu_bits()) == 0 && kernel->format < CRN_LINEAR_P1)

static float *draw_rows(int64_t n_rows, int64_t k, flavour how) {
  float *x = malloc((size_t)(n_rows * k) * sizeof(float) + 4);
  for (int64_t i = 0; i < n_rows * k; i++) x[i] = draw_input(how);
  return x;
}

static void check_shape(int64_t n, int64_t k, int64_t most_rows, int64_t step, flavour how) {
  static const int zeros[] = {8, 0, 3, -128, 127};
  FOR_EACH_KERNEL(kernel) {
    matrix m = matrix_make(kernel->format, n, k, zeros[next_random() % 5], how);
    float *x = draw_rows(most_rows, k, how);
    for (int64_t r = 1; r <= most_rows; r += step) check_case(kernel, &m, x, r);
    free(x);
    matrix_free(&m);
  }
}

// --- tests ----------------------------------------------------------------------------------------------------------------

static void all_numbers_of_rows(void **state) {
  (void)state;
  check_shape(33, 96, 40, 1, ORDINARY);
}

static void all_tails_of_outputs(void **state) {
  (void)state;
  for (int64_t n = 1; n <= 81; n += n < 20 ? 1 : 15) check_shape(n, 64, 19, 6, ORDINARY);
}

static void all_tails_of_inputs(void **state) {
  (void)state;
  for (int64_t k = 1; k <= 200; k += k < 70 ? 1 : 31) check_shape(17, k, 21, 10, ORDINARY);
}

static void long_sums(void **state) {
  (void)state;
  check_shape(49, 2048 + 32, 33, 16, ORDINARY);
}

static void many_rows(void **state) {
  (void)state;
  check_shape(20, 160, 211, 70, ORDINARY);
}

static void extreme_values(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) check_shape(18, 100, 21, 4, EXTREME);
}

// Quants at both ends of their range in all places, where integer sums are largest.
static void largest_sums(void **state) {
  (void)state;
  enum { K = 64 };
  FOR_EACH_KERNEL(kernel) {
    if (!is_quant(kernel->format)) continue;
    bool four = is_4bit(kernel->format);
    matrix m = matrix_make(kernel->format, 16, K, 0, ORDINARY);
    for (int64_t row = 0; row < 16; row++) {
      unsigned char bytes[K];
      float scales[2] = {1, 1}, mins[2] = {0, 0};
      memset(bytes, row % 2 ? (four ? 15 : 127) : (four ? 0 : 128), K);
      crn_linear_row source = {bytes, scales, mins};
      crn_linear_pack_row(kernel->format, 16, K, row, &source, m.packed.data);
      for (int i = 0; i < K; i++) m.values[row * K + i] = four ? bytes[i] : (int8_t)bytes[i], m.magnitudes[row * K + i] = 256;
      for (int i = 0; i < K; i++) m.tops[row * K + i] = four ? 15 : 128;
    }
    float *x = draw_rows(24, K, ORDINARY);
    for (int i = 0; i < 24 * K; i++) x[i] = i / K % 3 == 0 ? 127 : i / K % 3 == 1 ? -127 : i % 2 ? 127 : -127;
    for (int64_t r = 1; r <= 24; r++) check_case(kernel, &m, x, r);
    free(x);
    matrix_free(&m);
  }
}

// An infinity or NaN makes its row, and only its row, not finite.
static void odd_values_stay_in_their_row(void **state) {
  (void)state;
  enum { ROWS = 37, K = 100, N = 19, LD = 32 };
  static const float odd[] = {NAN, INFINITY, -INFINITY};
  FOR_EACH_KERNEL(kernel) {
    matrix m = matrix_make(kernel->format, N, K, 8, ORDINARY);
    float *x = draw_rows(ROWS, K, ORDINARY);
    for (int64_t n_rows = kernel->min_rows; n_rows <= ROWS; n_rows += 9) {
      guarded plain_memory, memory;
      activations plain = activations_make(kernel, x, n_rows, K);
      float *want = run(kernel, &m, &plain, n_rows, 0, &plain_memory);
      int64_t bad = next_random() % n_rows, place = bad * K + next_random() % K;
      float kept = x[place];
      x[place] = odd[next_random() % 3];
      activations a = activations_make(kernel, x, n_rows, K);
      float *got = run(kernel, &m, &a, n_rows, 0, &memory);
      for (int64_t i = 0; i < n_rows * LD; i++) {
        if (i / LD != bad && !same_bits(got[i], want[i])) fail_msg("%s: row %d changed", kernel->name, (int)(i / LD));
        if (i / LD == bad && i % LD < N && isfinite(got[i])) fail_msg("%s: output %d is %g", kernel->name, (int)(i % LD), got[i]);
      }
      x[place] = kept;
      activations_free(&plain);
      activations_free(&a);
      guarded_free(&plain_memory);
      guarded_free(&memory);
    }
    free(x);
    matrix_free(&m);
  }
}

// The same bits however tiles are split among workers.
static void splits_of_tiles_change_nothing(void **state) {
  (void)state;
  enum { ROWS = 35, K = 130, N = 150, TILES = 10 };
  FOR_EACH_KERNEL(kernel) {
    matrix m = matrix_make(kernel->format, N, K, 8, ORDINARY);
    float *x = draw_rows(ROWS, K, ORDINARY);
    for (int64_t n_rows = kernel->min_rows; n_rows <= ROWS; n_rows += 17) {
      guarded memory, scratch = guarded_make((kernel->scratch_bytes(K) + 63) / 64 * 64);
      activations a = activations_make(kernel, x, n_rows, K);
      float *whole = run(kernel, &m, &a, n_rows, 0, &memory);
      float *parts = malloc(sizeof(float) * ROWS * TILES * 16);
      for (int64_t step = 1; step < TILES; step++) {
        for (int64_t t = 0; t < TILES; t += step) {
          int64_t end = t + step < TILES ? t + step : TILES;
          kernel->run(&m.w, a.memory.data, a.row_bytes, n_rows, t, end, parts + t * 16, TILES * 16, scratch.data);
        }
        if (memcmp(whole, parts, sizeof(float) * (size_t)n_rows * TILES * 16) != 0) fail_msg("%s: steps of %d", kernel->name, (int)step);
      }
      free(parts);
      activations_free(&a);
      guarded_free(&memory);
      guarded_free(&scratch);
    }
    free(x);
    matrix_free(&m);
  }
}

static void rows_unpack_to_what_was_packed(void **state) {
  (void)state;
  for (int f = 0; f < CRN_LINEAR_P1; f++) {
    matrix m = matrix_make((crn_linear_format)f, 37, 150, 8, ORDINARY);
    float *row = malloc(150 * sizeof(float));
    for (int64_t i = 0; i < 37; i++) {
      crn_linear_unpack_row(&m.w, i, row);
      for (int64_t j = 0; j < 150; j++) {
        float want = m.values[i * 150 + j], near = has_mins(m.w.format) ? m.magnitudes[i * 150 + j] * 0x1p-22f : 0;
        if (fabsf(row[j] - want) > near) fail_msg("format %d: %.9g came back as %.9g", f, want, row[j]);
      }
    }
    free(row);
    matrix_free(&m);
  }
}

static void scales_that_do_not_fit_are_told(void **state) {
  (void)state;
  size_t bytes;
  assert_true(crn_linear_packed_bytes(CRN_LINEAR_Q4M, 1, 64, &bytes));
  void *packed = malloc(bytes);
  unsigned char quants[64] = {0};
  float fits[2] = {0.5f, 65504}, fine[2] = {0.1f, 1}, large[2] = {1, 70000};
  crn_linear_row source = {quants, fits, fits};
  assert_true(crn_linear_pack_row(CRN_LINEAR_Q4M, 1, 64, 0, &source, packed));
  source.scales = fine;
  assert_false(crn_linear_pack_row(CRN_LINEAR_Q4M, 1, 64, 0, &source, packed));
  source.scales = fits;
  source.mins = large;
  assert_false(crn_linear_pack_row(CRN_LINEAR_Q4M, 1, 64, 0, &source, packed));
  free(packed);
}

static void selection_and_sizes(void **state) {
  (void)state;
  size_t bytes;
  assert_true(crn_linear_packed_bytes(CRN_LINEAR_Q4, 17, 65, &bytes));
  assert_int_equal(bytes, 2 * 2 * 576);
  assert_false(crn_linear_packed_bytes(CRN_LINEAR_F32, INT64_MAX, INT64_MAX, &bytes));
  assert_false(crn_linear_packed_bytes(CRN_LINEAR_F32, -1, 1, &bytes));
  for (int f = 0; f < CRN_LINEAR_FORMATS; f++) {
    for (int mode = 0; mode < CRN_LINEAR_MODES; mode++) {
      for (int64_t rows = 0; rows < 70; rows++) {
        const crn_linear_kernel *kernel = crn_linear_select((crn_linear_format)f, (crn_linear_mode)mode, rows);
        assert_true(kernel->format == (crn_linear_format)f && kernel->mode == (crn_linear_mode)mode);
        assert_true(kernel->min_rows <= (rows ? rows : 1) && (kernel->cpu_bits & ~crn_cpu_bits()) == 0);
        if (mode == CRN_LINEAR_EXACT) assert_int_equal(kernel->rows_mode, CRN_LINEAR_EXACT);
        assert_int_equal(crn_linear_row_bytes(kernel->rows_mode, 100) % 64, 0);
      }
    }
  }
}

// With an argument only the tests it matches, a pattern of cmocka's.
int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(selection_and_sizes),
      cmocka_unit_test(rows_unpack_to_what_was_packed),
      cmocka_unit_test(scales_that_do_not_fit_are_told),
      cmocka_unit_test(all_numbers_of_rows),
      cmocka_unit_test(all_tails_of_outputs),
      cmocka_unit_test(all_tails_of_inputs),
      cmocka_unit_test(long_sums),
      cmocka_unit_test(many_rows),
      cmocka_unit_test(extreme_values),
      cmocka_unit_test(largest_sums),
      cmocka_unit_test(odd_values_stay_in_their_row),
      cmocka_unit_test(splits_of_tiles_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
