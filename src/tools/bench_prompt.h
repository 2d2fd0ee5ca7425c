/// The prompt of benchmarks: ids that everybody who knows the seed can make again.
#ifndef CRN_TOOLS_BENCH_PROMPT_H
#define CRN_TOOLS_BENCH_PROMPT_H

#include <stdint.h>

/// `n` ids below `vocab` (at least 1), as Apple's benchmark draws them: splitmix64, its state advanced once before the first draw.
static inline void crn_bench_prompt(uint64_t seed, int64_t vocab, int64_t n, int32_t *out_ids) {
  static const uint64_t step = 0x9E3779B97F4A7C15u;
  uint64_t state = seed + step;
  for (int64_t i = 0; i < n; i++) {
    state += step;
    uint64_t z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    out_ids[i] = (int32_t)((z ^ z >> 31) % (uint64_t)vocab);
  }
}

#endif
