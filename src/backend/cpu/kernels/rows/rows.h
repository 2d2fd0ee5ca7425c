/// Elementwise passes over rows of f32, as fused steps need them between matrix products.
///
/// exp is a polynomial of degree 6 on [-ln2/2, ln2/2] (within 2 ulp of the correctly rounded value); it saturates at the ends
/// of the range of f32 instead of overflowing. NaN comes through. Every set gives the same bits: products and sums are rounded
/// one by one.
#ifndef CRN_BACKEND_CPU_KERNELS_ROWS_H
#define CRN_BACKEND_CPU_KERNELS_ROWS_H

#include <stdint.h>

/// What a gate does to one half of its input before it is multiplied with the other.
typedef enum crn_gate {
  CRN_GATE_SILU,         ///< x / (1 + exp(-x))
  CRN_GATE_GELU,         ///< x * (1 + erf(x / sqrt 2)) / 2
  CRN_GATE_GELU_TANH,    ///< x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
  CRN_GATE_GELU_SIGMOID  ///< x / (1 + exp(-1.702 x))
} crn_gate;

typedef struct crn_rows_kernels {
  const char *name;
  uint64_t isa;  ///< feature bits it needs
  /// y = gate(x). x and y may be the same.
  void (*activate)(crn_gate gate, const float *x, float *y, int64_t n);
  /// Pairs of 16 values to be activated and 16 to multiply with, one pair behind the other: out has 16 values a pair. `out` may be `x`.
  void (*gate_pairs)(crn_gate gate, const float *x, float *out, int64_t n_pairs);
  /// What groups of 32 quants leave of the values: out[i] = x[i] - quants[i] * scales[i / 32].
  void (*residual)(const float *x, const int8_t *quants, const float *scales, float *out, int64_t n);
  /// The sum of x[i] * x[i], each rounded to f32, in f64: eight lanes in turn, then their halves. All sets give the same bits.
  double (*squares)(const float *x, int64_t n);
  /// out = a * b, a + b, a - b, x * factor, each rounded once; (x * factor) * scale, rounded twice. out may be one of the operands.
  void (*multiply)(const float *a, const float *b, float *out, int64_t n);
  void (*add)(const float *a, const float *b, float *out, int64_t n);
  void (*subtract)(const float *a, const float *b, float *out, int64_t n);
  void (*scale)(const float *x, float factor, float *out, int64_t n);
  void (*scale_by)(const float *x, float factor, const float *scale, float *out, int64_t n);
  /// The products of pairs that are turned, one run of n behind the other: cosines * x, sines * y, sines * x, cosines * y.
  void (*turn)(const float *cosines, const float *sines, const float *x, const float *y, float *products, int64_t n);
  /// first = products 0 - products 1, second = products 2 + products 3, of four runs of n.
  void (*end_turn)(const float *products, float *first, float *second, int64_t n);
} crn_rows_kernels;

#define ROWS(isa, bit)                                                                                                             \
  void crn_rows_activate__##isa(crn_gate gate, const float *x, float *y, int64_t n);                                               \
  void crn_rows_gate_pairs__##isa(crn_gate gate, const float *x, float *out, int64_t n_pairs);                                     \
  void crn_rows_residual__##isa(const float *x, const int8_t *quants, const float *scales, float *out, int64_t n);                 \
  double crn_rows_squares__##isa(const float *x, int64_t n);                                                                       \
  void crn_rows_multiply__##isa(const float *a, const float *b, float *out, int64_t n);                                            \
  void crn_rows_add__##isa(const float *a, const float *b, float *out, int64_t n);                                                 \
  void crn_rows_subtract__##isa(const float *a, const float *b, float *out, int64_t n);                                            \
  void crn_rows_scale__##isa(const float *x, float factor, float *out, int64_t n);                                                 \
  void crn_rows_scale_by__##isa(const float *x, float factor, const float *scale, float *out, int64_t n);                          \
  void crn_rows_turn__##isa(const float *cosines, const float *sines, const float *x, const float *y, float *products, int64_t n); \
  void crn_rows_end_turn__##isa(const float *products, float *first, float *second, int64_t n);
#include "backend/cpu/kernels/rows/rows.def"
#undef ROWS

/// The best set the processor has. Thread: safe.
const crn_rows_kernels *crn_rows_select(void);
/// All sets of this build, for tests; `*out_n` of them, best first.
const crn_rows_kernels *crn_rows_list(int *out_n);

#endif
