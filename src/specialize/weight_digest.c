// The sum that files of packed weights are checked with.
#include <string.h>

#include "specialize/weights.h"

// Eight lanes of multiply and shift over 8-byte words, each one to one in its word, so that a changed byte changes the sum. What comes is
// asked for ahead: a thread reads memory twice as fast so.
uint64_t crn_weight_digest(const void *data, size_t bytes) {
  enum { LANES = 8, BLOCK = 8 * LANES, AHEAD = 8192 };
  const uint64_t factor = 0xD6E8FEB86659FD93u;
  const unsigned char *p = data;
  uint64_t lanes[LANES], sum = bytes;
  for (int k = 0; k < LANES; k++) lanes[k] = (uint64_t)(k + 1) * 0x9E3779B97F4A7C15u;
  size_t i = 0;
  for (; i + BLOCK <= bytes; i += BLOCK) {
    __builtin_prefetch(p + i + AHEAD);
    for (int k = 0; k < LANES; k++) {
      uint64_t word;
      memcpy(&word, p + i + 8 * k, sizeof word);
      lanes[k] = (lanes[k] ^ word) * factor;
      lanes[k] ^= lanes[k] >> 32;
    }
  }
  for (; i < bytes; i++) {
    lanes[i % LANES] = (lanes[i % LANES] ^ p[i]) * factor;
    lanes[i % LANES] ^= lanes[i % LANES] >> 32;
  }
  for (int k = 0; k < LANES; k++) {
    sum = (sum ^ lanes[k]) * factor;
    sum ^= sum >> 29;
  }
  return sum;
}
