#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
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

// Features that only some versions of the compilers have names for: words of CPUID leaf 7.
static bool leaf7(unsigned subleaf, unsigned *out_a, unsigned *out_d) {
  unsigned b, c;
  return __get_cpuid_count(7, subleaf, out_a, &b, &c, out_d);
}

static bool has_avx_vnni(void) {
  unsigned a, d;
  return leaf7(1, &a, &d) && (a >> 4 & 1);
}

// Tiles need the permission of the kernel, which is given to the process once and for all its threads, and must then be
// among the states that the kernel saves.
static uint64_t amx_bits(void) {
  unsigned a, d, low, high;
  if (!leaf7(0, &a, &d) || !(d >> 24 & 1)) return 0;
#if defined(__linux__)
  enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  if (syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) != 0) return 0;
#endif
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low >> 17 & 3) != 3) return 0;
  return (d >> 22 & 1 ? CRN_CPU_AMXBF16 : 0) | (d >> 25 & 1 ? CRN_CPU_AMXINT8 : 0);
}
#endif

// Features outside `mask` need not be looked for.
static uint64_t detect(uint64_t mask) {
  uint64_t bits = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
    bits |= CRN_CPU_AVX2;
    if (has_avx_vnni()) bits |= CRN_CPU_AVXVNNI;
  }
  if ((bits & CRN_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    bits |= CRN_CPU_AVX512;
    if (__builtin_cpu_supports("avx512vnni")) bits |= CRN_CPU_AVX512VNNI;
    if (__builtin_cpu_supports("avx512bf16")) bits |= CRN_CPU_AVX512BF16;
    if (__builtin_cpu_supports("avx512vbmi")) bits |= CRN_CPU_AVX512VBMI;
    if (mask & (CRN_CPU_AMXBF16 | CRN_CPU_AMXINT8)) bits |= amx_bits();
  }
#elif defined(__aarch64__)
  bits |= CRN_CPU_NEON;
#if defined(__linux__)
  if (getauxval(AT_HWCAP) & (1ul << 20)) bits |= CRN_CPU_DOTPROD;  // HWCAP_ASIMDDP
  if (getauxval(AT_HWCAP2) & (1ul << 13)) bits |= CRN_CPU_I8MM;    // HWCAP2_I8MM
  if (getauxval(AT_HWCAP2) & (1ul << 14)) bits |= CRN_CPU_BF16;    // HWCAP2_BF16
#endif
#endif
  return bits & mask;
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
                  "CAIRN_CPU_MASK names '%.*s'; scalar, avx2, avx512, avx512vnni, avx512bf16, neon, dotprod, i8mm, amxbf16, amxint8, "
                  "avxvnni, avx512vbmi, bf16 "
                  "are known",
                  (int)n, unknown);
}

// Kernels are chosen for every row of a product: the bit KNOWN saves them the call that makes sure this was done.
#define KNOWN ((uint64_t)1 << 63)
static _Atomic uint64_t g_bits;

static void initialize(void) { atomic_store_explicit(&g_bits, detect(mask_from_environment()) | KNOWN, memory_order_relaxed); }

uint64_t crn_cpu_bits(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  uint64_t bits = atomic_load_explicit(&g_bits, memory_order_relaxed);
  if (!(bits & KNOWN)) {
    pthread_once(&once, initialize);
    bits = atomic_load_explicit(&g_bits, memory_order_relaxed);
  }
  return bits & ~KNOWN;
}
