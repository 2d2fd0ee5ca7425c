#include "base/bandwidth.h"

#include <string.h>
#include <time.h>

#include "base/cpu.h"

typedef struct reading {
  char *memory;
  size_t bytes;  // of each slice
} reading;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void crn_memory_read(const void *memory, size_t bytes) {
  const char *p = memory, *end = p + bytes / 512 * 512;
#if defined(__x86_64__)
  if (crn_cpu_bits() & CRN_CPU_AVX512) {
    for (; p < end; p += 512) {
      __asm__ volatile(
          "vmovdqu64 (%0),%%zmm0\nvmovdqu64 64(%0),%%zmm1\nvmovdqu64 128(%0),%%zmm2\nvmovdqu64 192(%0),%%zmm3\n"
          "vmovdqu64 256(%0),%%zmm4\nvmovdqu64 320(%0),%%zmm5\nvmovdqu64 384(%0),%%zmm6\nvmovdqu64 448(%0),%%zmm7\n"
          :
          : "r"(p)
          : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "memory");
    }
    __asm__ volatile("vzeroupper" ::: "memory");
    return;
  }
#endif
  uint64_t sums[8] = {0};
  for (; p < end; p += 64) {
    for (int i = 0; i < 8; i++) {
      uint64_t word;
      memcpy(&word, p + 8 * i, sizeof word);
      sums[i] += word;
    }
  }
  __asm__ volatile("" : : "r"(sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7]));
}

static void read_some(void *user, int64_t begin, int64_t end, int worker) {
  const reading *r = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) crn_memory_read(r->memory + (size_t)i * r->bytes, r->bytes);
}

static void touch_some(void *user, int64_t begin, int64_t end, int worker) {
  const reading *r = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) memset(r->memory + (size_t)i * r->bytes, 1, r->bytes);
}

double crn_memory_read_speed(crn_pool *pool, char *memory, size_t bytes, int tries) {
  int n = crn_pool_threads(pool);
  reading r = {.memory = memory, .bytes = bytes / (size_t)n / 4096 * 4096};
  double best = 0;
  crn_pool_run(pool, n, 1, touch_some, &r);
  for (int t = 0; t < tries; t++) {
    double begin = now();
    crn_pool_run(pool, n, 1, read_some, &r);
    double seconds = now() - begin, speed = seconds > 0 ? (double)r.bytes * n / seconds : 0;
    best = speed > best ? speed : best;
  }
  return best;
}
