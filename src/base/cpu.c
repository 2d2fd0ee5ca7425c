#include "base/cpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows this one.
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static uint64_t detect(void) {
  uint64_t bits = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) bits |= CRN_CPU_AVX2;
  if ((bits & CRN_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    bits |= CRN_CPU_AVX512;
    if (__builtin_cpu_supports("avx512vnni")) bits |= CRN_CPU_AVX512VNNI;
    if (__builtin_cpu_supports("avx512bf16")) bits |= CRN_CPU_AVX512BF16;
  }
#elif defined(__aarch64__)
  bits |= CRN_CPU_NEON;
#if defined(__linux__)
  if (getauxval(AT_HWCAP) & (1ul << 20)) bits |= CRN_CPU_DOTPROD;  // HWCAP_ASIMDDP
  if (getauxval(AT_HWCAP2) & (1ul << 13)) bits |= CRN_CPU_I8MM;    // HWCAP2_I8MM
#endif
#endif
  return bits;
}

static uint64_t mask_from_environment(void) {
  const char *text = getenv("CAIRN_CPU_MASK");
  if (!text || !*text) return ~(uint64_t)0;
  static const struct {
    const char *name;
    uint64_t bit;
  } features[] = {
#define FEATURE(name, bit, text) {text, CRN_CPU_##name},
      CRN_CPU_LIST(FEATURE)
#undef FEATURE
  };
  uint64_t mask = 0;
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, ",");
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
      if (strlen(features[i].name) == n && !memcmp(p, features[i].name, n)) mask |= features[i].bit;
    }
    p += n + (p[n] == ',');
  }
  return mask;
}

static uint64_t g_bits;
static void initialize(void) { g_bits = detect() & mask_from_environment(); }

uint64_t crn_cpu_bits(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  return g_bits;
}
