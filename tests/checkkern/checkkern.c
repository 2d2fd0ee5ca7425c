// Speeds of the linear kernels on one core: `checkkern --bench [part of a kernel's name]`. A matrix that stays in the second-level
// cache and one that comes from memory, times few and many rows. Correctness is the business of linear_test.
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "base/cpu.h"
#include "peaks.h"

enum { K = 2048, NEAR_BYTES = 640 << 10, MOST_ROWS = 512 };
static const size_t far_bytes = (size_t)768 << 20;

// Huge pages where the system gives them, as the runtime has for its weights.
static void *region(size_t bytes) {
  size_t huge = (size_t)2 << 20, whole = (bytes + 2 * huge - 1) / huge * huge;
  char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(stderr, "checkkern: no memory\n");
    exit(1);
  }
  p = (char *)(((uintptr_t)p + huge - 1) / huge * huge);
  (void)madvise(p, whole - huge, MADV_HUGEPAGE);
  return p;
}

static struct {
  char *weights, *rows;
  float *inputs, *out;
  void *scratch;
  double near_roof, far_roof;
} g;

static size_t tile_bytes(crn_linear_format f) {
  size_t bytes = 0;
  crn_linear_weights_bytes(&(crn_linear_weights){.format = f, .n = 16, .k = K, .palette = {.tables = 1, .groups = 1}}, &bytes);
  return bytes;
}

// Valid weights for every format: the bytes of f16 and f32 values of moderate size, repeated.
static void fill(crn_linear_format f, size_t bytes) {
  unsigned char quants[K];
  float values[K], scales[K / 32], mins[K / 32];
  uint16_t halves[K];
  for (int i = 0; i < K; i++) {
    quants[i] = (unsigned char)(f <= CRN_LINEAR_Q4M ? i * 7 % 16 : i * 7);
    values[i] = (float)(i % 13 - 6) * 0.125f;
    halves[i] = f == CRN_LINEAR_F16 ? (uint16_t)(0x3000 + i % 13) : (uint16_t)(0x3e00 + i % 13);
    scales[i / 32] = mins[i / 32] = 0.0625f;
  }
  crn_linear_row row = {f <= CRN_LINEAR_Q8M ? (void *)quants : f == CRN_LINEAR_F32 ? (void *)values : halves, scales, mins};
  crn_linear_weights palettized = {.format = f, .n = 16, .k = K, .palette = {.tables = 1, .groups = 1}};
  int bits = crn_linear_code_bits(f);
  for (int i = 0; i < K && bits; i++) quants[i] &= (unsigned char)((1 << bits) - 1);
  for (int i = 0; i < 16 && bits; i++) crn_linear_pack_codes(&palettized, i, quants, values, 1, g.weights);
  for (int i = 0; i < 16 && !bits; i++) crn_linear_pack_row(f, 16, K, i, &row, g.weights);
  size_t tile = tile_bytes(f);
  for (size_t at = tile; at + tile <= bytes; at += tile) memcpy(g.weights + at, g.weights, tile);
}

// Seconds of one call over all tiles of `bytes` bytes of weights.
static double time_call(const crn_linear_kernel *kernel, size_t bytes, int64_t n_rows, double limit) {
  int64_t tiles = (int64_t)(bytes / tile_bytes(kernel->format));
  crn_linear_weights w = {kernel->format, 8, tiles * 16, K, g.weights, bytes, {.tables = 1, .groups = 1}};
  double best = 1e9, begin = now();
  for (int turn = 0; turn < 400 && (turn < 3 || now() - begin < limit); turn++) {
    double t = now();
    kernel->run(&w, g.rows, crn_linear_row_bytes(kernel->rows_mode, K), n_rows, 0, tiles, g.out, tiles * 16, g.scratch);
    t = now() - t;
    best = t < best ? t : best;
  }
  return best;
}

static double scalar_speed(crn_linear_format f, crn_linear_mode mode, int64_t n_rows) {
  int n;
  const crn_linear_kernel *list = crn_linear_list(&n), *scalar = list;
  while (scalar->format != f || scalar->mode != mode || scalar->cpu_bits) scalar++;
  for (int64_t r = 0; r < n_rows; r++) scalar->prepare(g.inputs, K, g.rows + (size_t)r * crn_linear_row_bytes(scalar->rows_mode, K));
  size_t bytes = tile_bytes(f) * 4;
  return 64.0 * K * (double)n_rows / time_call(scalar, bytes, n_rows, 0.01);
}

static void bench(const crn_linear_kernel *kernel) {
  static const int64_t rows[] = {1, 2, 4, 8, 12, 16, 32, 64, 128, MOST_ROWS};
  double peak = peak_of(kernel);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t n = rows[i];
    bool one_row = strstr(kernel->name, "_1x") != NULL;
    if (n < kernel->min_rows || (one_row && n > 2)) continue;
    double scalar = scalar_speed(kernel->format, kernel->mode, n < 8 ? n : 8);
    for (int64_t r = 0; r < n; r++)
      kernel->prepare(g.inputs, K, g.rows + crn_linear_row_offset(kernel, crn_linear_row_bytes(kernel->rows_mode, K), r));
    size_t tile = tile_bytes(kernel->format), near = NEAR_BYTES / tile * tile, far = far_bytes / tile * tile;
    if (near < 4 * tile) near = 4 * tile;
    double products = (double)(near / tile) * 16 * K * (double)n, t = time_call(kernel, near, n, 0.15);
    printf("%-46s %4d %-5s %7.1f GMAC/s %6.1fx scalar", kernel->name, (int)n, kernel->mode == kernel->rows_mode ? "" : "serves",
           products / t * 1e-9, products / t / scalar);
    if (peak > 0) printf(" %4.0f%% of peak", products / t / peak * 100);
    printf("  cache %6.1f GB/s", (double)near / t * 1e-9);
    if (n == 1 && kernel->cpu_bits) {
      double far_time = time_call(kernel, far, n, 0.3);
      printf("  memory %5.1f GB/s = %3.0f%% of roof", (double)far / far_time * 1e-9, (double)far / far_time / g.far_roof * 100);
    }
    printf("\n");
    fflush(stdout);
  }
}

static bool same_function_as_before(const crn_linear_kernel *list, const crn_linear_kernel *kernel) {
  for (; list < kernel; list++) {
    if (list->run == kernel->run) return true;
  }
  return false;
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--bench") != 0) {
    fprintf(stderr, "usage: checkkern --bench [part of a kernel's name]\n");
    return 2;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(sched_getcpu(), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
  g.weights = region(far_bytes);
  g.rows = region((size_t)(MOST_ROWS + CRN_LINEAR_ROW_BLOCK) * (K * 4 + 64));
  g.inputs = region(K * sizeof(float));
  g.out = region((far_bytes / tile_bytes(CRN_LINEAR_Q4) + 1) * 16 * sizeof(float));
  g.scratch = region((size_t)16 << 20);
  for (int i = 0; i < K; i++) g.inputs[i] = (float)(i % 29 - 14) * 0.07f;
  memset(g.weights, 1, far_bytes);
  g.near_roof = read_speed(g.weights, NEAR_BYTES);
  g.far_roof = read_speed(g.weights, far_bytes);
  printf("one core reads %.1f GB/s from the cache (%d KiB), %.1f GB/s from memory (%d MiB)\n", g.near_roof * 1e-9, NEAR_BYTES >> 10,
         g.far_roof * 1e-9, (int)(far_bytes >> 20));
  int n;
  const crn_linear_kernel *list = crn_linear_list(&n);
  int filled = -1;
  for (const crn_linear_kernel *kernel = list; kernel < list + n; kernel++) {
    if (kernel->cpu_bits & ~crn_cpu_bits()) continue;
    if (argc > 2 && !strstr(kernel->name, argv[2])) continue;
    if (same_function_as_before(list, kernel)) continue;
    if (filled != (int)kernel->format) fill(kernel->format, far_bytes);
    filled = (int)kernel->format;
    if (kernel->name && peak_of(kernel) > 0) printf("# peak of %s: %.0f GMAC/s\n", kernel->isa, peak_of(kernel) * 1e-9);
    bench(kernel);
  }
  return 0;
}
