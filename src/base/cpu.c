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

static const struct {
  const char *name;
  uint64_t bit;
} g_features[] = {
#define FEATURE(name, bit, text) {text, CRN_CPU_##name},
    CRN_CPU_LIST(FEATURE)
#undef FEATURE
        {"scalar", 0},
};

enum { N_FEATURES = sizeof g_features / sizeof *g_features };

// The features a comma list names. `out_unknown` receives the first word that is none, with its length.
static uint64_t parse_mask(const char *text, const char **out_unknown, size_t *out_bytes) {
  uint64_t mask = 0;
  *out_unknown = NULL;
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, ","), i = 0;
    while (i < N_FEATURES && (strlen(g_features[i].name) != n || memcmp(p, g_features[i].name, n) != 0)) i++;
    if (i < N_FEATURES) {
      mask |= g_features[i].bit;
    } else if (!*out_unknown) {
      *out_unknown = p;
      *out_bytes = n;
    }
    p += n + (p[n] == ',');
  }
  return mask;
}

static uint64_t mask_from_environment(void) {
  const char *text = getenv("CAIRN_CPU_MASK"), *unknown;
  size_t n;
  return text && *text ? parse_mask(text, &unknown, &n) : ~(uint64_t)0;
}

cairn_status crn_cpu_check_mask(void) {
  const char *text = getenv("CAIRN_CPU_MASK"), *unknown = NULL;
  size_t n = 0;
  if (text && *text) parse_mask(text, &unknown, &n);
  if (!unknown) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT,
                  "CAIRN_CPU_MASK names '%.*s'; scalar, avx2, avx512, avx512vnni, avx512bf16, neon, dotprod, i8mm are known", (int)n,
                  unknown);
}

static uint64_t g_bits;
static void initialize(void) { g_bits = detect() & mask_from_environment(); }

uint64_t crn_cpu_bits(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  return g_bits;
}
