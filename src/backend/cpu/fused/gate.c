#include "backend/cpu/fused/gate.h"

#include <string.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/ref/elements.h"

enum { TILE = CRN_LINEAR_TILE, PAIRS_AT_ONCE = 8 };

// Op by op, with what each rounds. The results lie in front of what is still to be read.
static void gate_exactly(crn_gate gate, cairn_dtype dtype, const float *values, int64_t n_pairs, float *out) {
  const crn_rows_kernels *rows = crn_rows_select();
  float first[PAIRS_AT_ONCE * TILE], second[PAIRS_AT_ONCE * TILE];
  int64_t n = n_pairs * TILE;
  for (int64_t i = 0; i < n_pairs; i++) {
    memcpy(first + i * TILE, values + 2 * i * TILE, TILE * sizeof *first);
    memcpy(second + i * TILE, values + (2 * i + 1) * TILE, TILE * sizeof *second);
  }
  crn_round_f32(dtype, first, n);
  crn_round_f32(dtype, second, n);
  rows->activate(gate, first, first, n);
  crn_round_f32(dtype, first, n);
  rows->multiply(first, second, out, n);
}

void crn_gate_pairs(crn_gate gate, bool is_exact, cairn_dtype dtype, float *values, int64_t n_pairs) {
  if (!is_exact) {
    crn_rows_select()->gate_pairs(gate, values, values, n_pairs);
    return;
  }
  for (int64_t i = 0; i < n_pairs; i += PAIRS_AT_ONCE) {
    int64_t n = n_pairs - i < PAIRS_AT_ONCE ? n_pairs - i : PAIRS_AT_ONCE;
    gate_exactly(gate, dtype, values + 2 * i * TILE, n, values + i * TILE);
  }
}
