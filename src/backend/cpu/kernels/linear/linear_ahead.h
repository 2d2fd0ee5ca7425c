/// Weights on their way before they are needed. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H

#include <stdint.h>

/// Asks for `bytes` of weights some lines ahead of p. With few rows products wait for memory, and the first level of the cache alone has
/// too few reads on their way to keep it busy; the second level is told what comes. A decode step of 0.6 B with 4-bit weights gives 17 %
/// more tokens a second for it, 32 % in f32. Reading past the end is harmless: nothing is loaded that is not there.
enum { LINEAR_AHEAD = 4096 };
static inline __attribute__((always_inline)) void linear_ask_ahead(const unsigned char *p, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)((uintptr_t)p + LINEAR_AHEAD + (uintptr_t)i), 0, 2);
}

#endif
