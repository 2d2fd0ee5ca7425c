// Speeds of the attention kernels on one core: `checkattention --bench [part of a kernel's name]`. Kernels for few rows stream caches
// that come from memory, those for many rows compute a causal prefill. Correctness is the business of attention_test.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attention.h"
#include "base/cpu.h"
#include "peaks.h"

enum { MOST_ROWS = 2048, MOST_SIZE = 256 };
static const size_t cache_bytes = (size_t)512 << 20;

static struct {
  uint16_t *caches;
  float *q, *out;
  char *scratch, *shared;
  double roof;
} g;

static void *region(size_t bytes) {
  void *p = aligned_alloc((size_t)2 << 20, (bytes + ((size_t)2 << 20) - 1) >> 21 << 21);
  if (!p) {
    fprintf(stderr, "checkattention: no memory\n");
    exit(1);
  }
  memset(p, 0x31, bytes);
  return p;
}

static void run_once(const crn_attention_kernel *kernel, crn_attention *a, size_t at) {
  size_t layer = (size_t)(a->kv_heads * a->positions * a->key_size);
  const void *keys[1] = {g.caches + at}, *values[1] = {g.caches + at + layer};
  a->k = (crn_cache_view){.type = CRN_CACHE_F16,
                          .pages = keys,
                          .page_shift = CRN_CACHE_ONE_PAGE,
                          .head_stride = a->positions * a->key_size,
                          .position_stride = a->key_size};
  a->v = (crn_cache_view){.type = CRN_CACHE_F16,
                          .pages = values,
                          .page_shift = CRN_CACHE_ONE_PAGE,
                          .head_stride = a->positions * a->key_size,
                          .position_stride = a->key_size};
  crn_attention_plan plan;
  kernel->plan(kernel, a, 1, &plan);
  for (int64_t j = 0; j < plan.jobs; j++) kernel->run(kernel, a, &plan, j, g.scratch, g.shared);
  for (int64_t j = 0; j < plan.merge_jobs; j++) kernel->merge(kernel, a, &plan, j, g.scratch, g.shared);
}

static void bench(const crn_attention_kernel *kernel, int64_t size, int64_t kv_heads, int64_t group, int64_t positions, bool few) {
  crn_attention a = {.heads = kv_heads * group, .kv_heads = kv_heads, .rows = few ? 1 : positions, .key_size = size, .value_size = size};
  a.positions = positions, a.causal = true, a.scale = 0.1f, a.q = g.q, a.out = g.out;
  a.q_head_stride = a.out_head_stride = size, a.q_row_stride = a.out_row_stride = a.heads * size;
  size_t elements = (size_t)(2 * kv_heads * positions * size), at = 0;
  double best = 1e9, begin = now();
  for (int turn = 0; turn < 400 && (turn < 3 || now() - begin < 0.3); turn++) {
    if (at + elements > cache_bytes / 2) at = 0;
    double t = now();
    run_once(kernel, &a, at);
    t = now() - t;
    best = t < best ? t : best;
    if (few) at += elements;
  }
  printf("%-42s %3d x%d heads, size %3d, context %4d:", kernel->name, (int)kv_heads, (int)group, (int)size, (int)positions);
  double products = (double)a.heads * (double)a.rows * (double)(few ? positions : (positions + 1) / 2) * 2 * (double)size;
  if (few) {
    printf(" %6.1f GB/s = %3.0f%% of roof\n", (double)elements * 2 / best * 1e-9, (double)elements * 2 / best / g.roof * 100);
  } else {
    printf(" %6.1f GMAC/s\n", products / best * 1e-9);
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--bench") != 0) {
    fprintf(stderr, "usage: checkattention --bench [part of a kernel's name]\n");
    return 2;
  }
  g.caches = region(cache_bytes);
  g.q = region((size_t)8 * MOST_ROWS * MOST_SIZE * 4);
  g.out = region((size_t)8 * MOST_ROWS * MOST_SIZE * 4);
  g.scratch = region((size_t)8 << 20), g.shared = region((size_t)64 << 20);
  g.roof = read_speed(g.caches, cache_bytes);
  printf("one core reads %.1f GB/s from memory\n", g.roof * 1e-9);
  static const int64_t sizes[] = {64, 96, 128, 256};
  int n;
  const crn_attention_kernel *list = crn_attention_list(&n);
  for (const crn_attention_kernel *kernel = list; kernel < list + n; kernel++) {
    bool few = kernel->min_items == 1;
    if ((kernel->isa & ~crn_cpu_bits()) || (argc > 2 && !strstr(kernel->name, argv[2]))) continue;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      for (int64_t group = 1; group <= 8; group *= 2) {
        bench(kernel, sizes[s], few ? 8 : 8 / group, group, 512, few);
        bench(kernel, sizes[s], few ? 8 : 8 / group, group, few ? 4096 : MOST_ROWS, few);
        if (few) bench(kernel, sizes[s], 8, group, 8192, few);
      }
    }
  }
  return 0;
}
