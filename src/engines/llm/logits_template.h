// Loops over a row of logits, written for compilers to make vectors of. Each file that includes this names them (LOGITS_NAME), and is
// compiled for an instruction set of its own.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engines/llm/logits.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LANES = 32, PIECE = 2048 };

// The largest of n values in lanes of their own. NaN is larger than nothing.
static float largest(const float *row, int64_t n) {
  float lane[LANES], best = -INFINITY;
  for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int l = 0; l < LANES; l++) lane[l] = row[i + l] > lane[l] ? row[i + l] : lane[l];
  }
  for (; i < n; i++) best = row[i] > best ? row[i] : best;
  for (int l = 0; l < LANES; l++) best = lane[l] > best ? lane[l] : best;
  return best;
}

// Only the piece of the row that has the largest value is searched for its place.
int64_t LOGITS_NAME(argmax)(const float *row, int64_t n, float *out_best) {
  float best = -INFINITY;
  int64_t at = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    float top = largest(row + i, n - i < PIECE ? n - i : PIECE);
    if (top > best) best = top, at = i;
  }
  *out_best = best;
  if (best == -INFINITY) return 0;
  while (row[at] != best) at++;
  return at;
}
