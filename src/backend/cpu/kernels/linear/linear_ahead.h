/// Weights on their way before they are needed. Always inlined, so that every file has it in its own instruction set.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_AHEAD_H

#include <stdint.h>

/// With few rows products wait for memory, and what the processor asks for by itself is not enough to keep it busy. What follows asks for
/// weights some lines before they are read. Reading past the end is harmless: nothing is loaded that is not there.

/// Asks for the `bytes` of weights that lie some lines ahead of p in tiles that are read one behind the other. They go into the second
/// level of the cache: the first one alone has too few reads on their way for a single stream.
static inline __attribute__((always_inline)) void linear_ask_ahead(const unsigned char *p, int bytes) {
  enum { AHEAD = 4096 };
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(AHEAD + i)), 0, 2);
}

/// The same for `n` tiles of `tile_bytes` that are read side by side: asks for `bytes` of the tile at `tile` that lie some lines behind the
/// byte `at` that is read now. Behind the end of a tile that is the beginning of the one n tiles further on, which is read next in its
/// place: else every tile would begin with lines that nobody asked for. Every line must be among those asked for, those of scales as well.
/// Two threads then read 4-bit weights as fast as memory gives them (30 GB/s where 26 were reached without the two). 1 KB to 3.5 KB ahead
/// make no difference, the second level of the cache is slower.
static inline __attribute__((always_inline)) void linear_ask_beside(const unsigned char *tile, int64_t at, int bytes, int64_t tile_bytes,
                                                                    int n) {
  enum { AHEAD = 1728 };
  int64_t place = at + AHEAD;
  if (place >= tile_bytes) place += (n - 1) * tile_bytes;
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)((uintptr_t)tile + (uintptr_t)(place + i)), 0, 3);
}

#endif
