// What this machine can do at most, for comparison with what programs reach: bytes read from memory per second, products of the
// instructions that matrix kernels are made of, and what it costs to hand work to all threads. One JSON object on stdout.
//
//   bench_roof [--threads N] [--mib N] [--quick]
//
// All figures are the best of several tries: other work on the machine only makes them smaller.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bandwidth.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "base/region.h"
#include "bench/measure.h"

// --- memory -----------------------------------------------------------------------------------------------------------------

// Bytes of this process that lie in huge pages.
static long long huge_bytes(void) {
  char line[256];
  long long kib = 0;
  FILE *f = fopen("/proc/self/smaps_rollup", "r");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "AnonHugePages: %lld", &kib) == 1) break;
  }
  if (f) fclose(f);
  return kib * 1024;
}

static double small_page_speed(crn_pool *pool, size_t bytes, int tries) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
#ifdef MADV_NOHUGEPAGE
  madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
  double speed = crn_memory_read_speed(pool, memory, bytes, tries);
  munmap(memory, bytes);
  return speed;
}

// --- instructions -----------------------------------------------------------------------------------------------------------

enum { TURNS = 100000 };

typedef struct instruction {
  const char *name;
  uint64_t needs;
  void (*loop)(void);
  double products;  // multiply-adds in one turn of the loop
} instruction;

#if defined(__x86_64__)

#include "bench/peak_loops.h"

LOOP(loop_bytes, CLEAR_Z, VNNI_Z)
LOOP(loop_bf16, CLEAR_Z, BF16_Z)
LOOP(loop_fma512, CLEAR_Z, FMA_Z)
LOOP(loop_fma256, CLEAR_Y, FMA_Y)

static void tiles_bf16(void) { loop_bf16_tiles(TURNS / 8); }
static void loaded_tiles_bf16(void) { loop_loaded_bf16_tiles(TURNS / 8); }
static void tiles_bytes(void) { loop_bytes_tiles(TURNS / 8); }
static void loaded_tiles_bytes(void) { loop_loaded_bytes_tiles(TURNS / 8); }

static const instruction instructions[] = {
    {"vpdpbusd", CRN_CPU_AVX512VNNI, loop_bytes, 12.0 * 64 * TURNS},
    {"vdpbf16ps", CRN_CPU_AVX512BF16, loop_bf16, 12.0 * 32 * TURNS},
    {"tdpbf16ps", CRN_CPU_AMXBF16, tiles_bf16, 4.0 * 16 * 16 * 32 * (TURNS / 8)},
    {"tdpbf16ps_loaded", CRN_CPU_AMXBF16, loaded_tiles_bf16, 4.0 * 16 * 16 * 32 * (TURNS / 8)},
    {"tdpbssd", CRN_CPU_AMXINT8, tiles_bytes, 4.0 * 16 * 16 * 64 * (TURNS / 8)},
    {"tdpbssd_loaded", CRN_CPU_AMXINT8, loaded_tiles_bytes, 4.0 * 16 * 16 * 64 * (TURNS / 8)},
    {"fma_f32_512", CRN_CPU_AVX512, loop_fma512, 12.0 * 16 * TURNS},
    {"fma_f32_256", CRN_CPU_AVX2, loop_fma256, 12.0 * 8 * TURNS},
};
enum { N_INSTRUCTIONS = sizeof instructions / sizeof *instructions };

#else

static const instruction instructions[1];
enum { N_INSTRUCTIONS = 0 };

#endif

static void run_loop(void *user, int64_t begin, int64_t end, int worker) {
  const instruction *i = user;
  (void)worker;
  for (; begin < end; begin++) i->loop();
}

// Products per second of all threads.
static double peak(crn_pool *pool, const instruction *i, int tries) {
  double best = 0;
  int n = crn_pool_threads(pool);
  for (int t = 0; t < tries; t++) {
    double begin = bench_now();
    crn_pool_run(pool, n, 1, run_loop, (void *)i);
    double speed = i->products * n / (bench_now() - begin);
    best = speed > best ? speed : best;
  }
  return best;
}

// --- handing out work -------------------------------------------------------------------------------------------------------

static void nothing(void *user, int64_t begin, int64_t end, int worker) {
  (void)user;
  (void)begin;
  (void)end;
  (void)worker;
}

// Seconds of a crn_pool_run that every thread takes part in: the best thousand in a row.
static double barrier(crn_pool *pool, int tries) {
  enum { ROUNDS = 1000 };
  double best = 1;
  int n = crn_pool_threads(pool);
  for (int t = 0; t < tries; t++) {
    double begin = bench_now();
    for (int i = 0; i < ROUNDS; i++) crn_pool_run(pool, n, 1, nothing, NULL);
    double seconds = (bench_now() - begin) / ROUNDS;
    best = seconds < best ? seconds : best;
  }
  return best;
}

// --- the whole --------------------------------------------------------------------------------------------------------------

typedef struct options {
  int threads, tries;
  size_t bytes;
} options;

static int parse(int argc, char **argv, options *o) {
  *o = (options){crn_usable_cores(), 30, (size_t)2 << 30};
  for (int i = 1; i < argc; i++) {
    long value = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : 0;
    if (!strcmp(argv[i], "--quick")) {
      o->tries = 8;
      o->bytes = (size_t)1 << 30;
    } else if (!strcmp(argv[i], "--threads") && value > 0 && value <= CRN_MAX_THREADS) {
      o->threads = (int)value;
      i++;
    } else if (!strcmp(argv[i], "--mib") && value >= 16 && value <= 1 << 20) {
      o->bytes = (size_t)value << 20;
      i++;
    } else {
      fprintf(stderr, "usage: bench_roof [--threads N] [--mib N] [--quick]\n");
      return 64;
    }
  }
  return 0;
}

static int measure(crn_pool *pool, const options *o) {
  crn_memory_region region = {0};
  char *memory;
  double load[1] = {0};
  if (crn_memory_region_take(&region, o->bytes, &memory) != CAIRN_OK) {
    fprintf(stderr, "bench_roof: %s\n", cairn_last_error()->message);
    return 1;
  }
  double huge = crn_memory_read_speed(pool, memory, o->bytes, o->tries);
  long long in_huge_pages = huge_bytes();
  crn_memory_region_release(&region);
  double small = small_page_speed(pool, o->bytes < (size_t)1 << 29 ? o->bytes : (size_t)1 << 29, o->tries / 3 + 1);
  if (getloadavg(load, 1) != 1) load[0] = 0;
  printf("{\"threads\": %d, \"load_average\": %.2f, \"region_bytes\": %zu, \"huge_page_bytes\": %lld,\n", o->threads, load[0], o->bytes,
         in_huge_pages);
  printf(" \"read_bytes_per_s\": {\"huge_pages\": %.4g, \"small_pages\": %.4g},\n \"products_per_s\": {", huge, small);
  const char *comma = "";
  for (int i = 0; i < N_INSTRUCTIONS; i++) {
    if ((crn_cpu_bits() & instructions[i].needs) != instructions[i].needs) continue;
    printf("%s\"%s\": %.4g", comma, instructions[i].name, peak(pool, &instructions[i], o->tries));
    comma = ", ";
  }
  printf("},\n \"barrier_s\": %.3g}\n", barrier(pool, o->tries));
  return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv) {
  options o;
  crn_pool *pool;
  int code = parse(argc, argv, &o);
  if (code) return code;
  crn_cpu_bits();  // before threads are made: it may ask for the use of tiles
  if (crn_pool_create(crn_default_allocator(), o.threads, &pool) != CAIRN_OK) return 1;
  code = measure(pool, &o);
  crn_pool_destroy(pool);
  return code;
}
