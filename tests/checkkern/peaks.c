#include "peaks.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/bandwidth.h"
#include "base/cpu.h"

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { TURNS = 200000, TRIES = 15 };

#if defined(__x86_64__)

#include "bench/peak_loops.h"

#define MADD_Y(i) "vpmaddubsw %%ymm12,%%ymm13,%%ymm" #i "\n"
#define VNNI_Y(i) "%{vex%} vpdpbusd %%ymm12,%%ymm13,%%ymm" #i "\n"
LOOP(loop_vnni512, CLEAR_Z, VNNI_Z)
LOOP(loop_bf16, CLEAR_Z, BF16_Z)
LOOP(loop_fma512, CLEAR_Z, FMA_Z)
LOOP(loop_fma256, CLEAR_Y, FMA_Y)
LOOP(loop_madd256, CLEAR_Y, MADD_Y)
LOOP(loop_vnni256, CLEAR_Y, VNNI_Y)

static void loop_amx(void) { loop_bf16_tiles(TURNS); }
static void loop_amx_bytes(void) { loop_bytes_tiles(TURNS); }

static const struct {
  const char *isa, *lhs;
  uint64_t bits;
  void (*loop)(void);
  double products;  ///< in one turn of the loop; products of 16-bit integers are three of bytes
} g_loops[] = {
    {"avx512vnni", "int8", CRN_CPU_AVX512VNNI, loop_vnni512, 12 * 64},
    {"avx512bf16", "bf16", CRN_CPU_AVX512BF16, loop_bf16, 12 * 32},
    {"amx", "bf16", CRN_CPU_AMXBF16, loop_amx, 4 * 16 * 16 * 32},
    {"amx", "int16", CRN_CPU_AMXINT8, loop_amx_bytes, 4 * 16 * 16 * 64 / 3.0},
    {"amxvbmi", "int16", CRN_CPU_AMXINT8, loop_amx_bytes, 4 * 16 * 16 * 64 / 3.0},
    {"avx512", "f32", CRN_CPU_AVX512, loop_fma512, 12 * 16},
    {"avx2", "f32", CRN_CPU_AVX2, loop_fma256, 12 * 8},
    {"avx2", "int8", CRN_CPU_AVX2, loop_madd256, 12 * 32},
    {"avxvnni", "int8", CRN_CPU_AVXVNNI, loop_vnni256, 12 * 32},
};

double peak_of(const crn_linear_kernel *kernel) {
  static double known[sizeof g_loops / sizeof *g_loops];
  const char *lhs = kernel->name + strlen("crn_linear_");
  for (size_t i = 0; i < sizeof g_loops / sizeof *g_loops; i++) {
    if (strcmp(g_loops[i].isa, kernel->isa) != 0 || strncmp(lhs, g_loops[i].lhs, strlen(g_loops[i].lhs)) != 0) continue;
    for (int t = 0; known[i] == 0 || t < TRIES; t++) {
      if (known[i] != 0 && t == 0) return known[i];
      double begin = now();
      g_loops[i].loop();
      double speed = g_loops[i].products * TURNS / (now() - begin);
      known[i] = speed > known[i] ? speed : known[i];
    }
    return known[i];
  }
  return 0;
}

#else

double peak_of(const crn_linear_kernel *kernel) {
  (void)kernel;
  return 0;
}

#endif

double read_speed(const void *memory, size_t bytes) {
  double best = 0;
  size_t turns = bytes < (1u << 24) ? (1u << 26) / bytes : 1;
  for (int t = 0; t < TRIES; t++) {
    double begin = now();
    for (size_t i = 0; i < turns; i++) crn_memory_read(memory, bytes);
    double speed = (double)bytes * (double)turns / (now() - begin);
    best = speed > best ? speed : best;
  }
  return best;
}
