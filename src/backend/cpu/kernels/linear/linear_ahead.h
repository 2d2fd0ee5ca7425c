/// Weights on their way before they are needed. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H

#include <stdint.h>

/// Asks for the `bytes` of weights that lie some lines ahead of p, in one of `n_streams` tiles that are read side by side. With few rows
/// products wait for memory, and the first level of the cache alone has too few reads on their way to keep it busy; the second level is
/// told what comes. A decode step of 0.6 B with 4-bit weights gives 17 % more tokens a second for it. Several streams share the lines that
/// may be on their way at once, some 48, so they ask for less. On one core alone 2 KB into the first level would be faster (14.5 GB/s
/// beside 12.7); with both cores at work it is slower in a whole step. Reading past the end is harmless: nothing is loaded that is not
/// there.
static inline __attribute__((always_inline)) void linear_ask_ahead(const unsigned char *p, int bytes, int n_streams) {
  const int ahead = n_streams >= 4 ? 1024 : n_streams >= 2 ? 1536 : 4096;
  for (int i = 0; i < bytes; i += 64) {
    const void *line = (const void *)((uintptr_t)p + (uintptr_t)(ahead + i));
    // Compilers want the level as a literal.
    if (n_streams > 1) {
      __builtin_prefetch(line, 0, 3);
    } else {
      __builtin_prefetch(line, 0, 2);
    }
  }
}

#endif
