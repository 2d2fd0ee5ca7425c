/// Products of f32 rows with rows of f32, f16 or bf16 weights, accumulated in f32 in an order that is part of the contract:
///
/// - dot: element k goes to lane k mod 16; a lane adds its products in rising k; lanes are folded 16 → 8 → 4 → 2 → 1,
///   each step adding lane i and lane i + half. The order does not depend on how many rows or columns one call handles,
///   so that results of one (row, column) pair are equal bit for bit in every tile. Trailing zeros change nothing.
/// - axpy: y[j] takes the products a[k] * x[k][j] one after the other in rising k, whatever the tile.
///
/// Sets with FMA round each multiply-add once, the scalar set twice; all FMA sets give the same bits.
#ifndef CRN_BACKEND_CPU_KERNELS_DOT_H
#define CRN_BACKEND_CPU_KERNELS_DOT_H

#include <stdint.h>

enum { CRN_DOT_LANES = 16, CRN_DOT_ROWS = 6, CRN_DOT_COLS = 4, CRN_AXPY_ROWS = 4 };

/// Weight types, the index into the function tables.
enum { CRN_DOT_F32, CRN_DOT_F16, CRN_DOT_BF16, CRN_DOT_TYPES };

/// out[r * CRN_DOT_COLS + c] = a[r] · b[c] for r < n_rows <= CRN_DOT_ROWS and c < n_cols <= CRN_DOT_COLS. Row c of b
/// starts `ldb` elements after row c - 1. Reads exactly k elements of each row; no alignment is needed.
typedef void (*crn_dot_fn)(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, float *out);

/// y[r][j] += a[r][i] * x[i * ldx + j] for i < k in order, j < n, r < n_rows <= CRN_AXPY_ROWS.
typedef void (*crn_axpy_fn)(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, float *const *y);

typedef struct crn_dot_kernels {
  const char *name;
  uint64_t isa;  ///< feature bits it needs
  int has_fma;
  crn_dot_fn dot[CRN_DOT_TYPES];
  crn_axpy_fn axpy[CRN_DOT_TYPES];
} crn_dot_kernels;

#define CRN_DOT_PROTOTYPES(isa, type)                                                                                            \
  void crn_dot_f32_##type##_f32_6x4__##isa(const float *const *a, int n_rows, const void *b, int64_t ldb, int n_cols, int64_t k, \
                                           float *out);                                                                          \
  void crn_axpy_f32_##type##_f32_4xn__##isa(const float *const *a, int n_rows, const void *x, int64_t ldx, int64_t k, int64_t n, \
                                            float *const *y);
#define DOT(isa, bit, fma)     \
  CRN_DOT_PROTOTYPES(isa, f32) \
  CRN_DOT_PROTOTYPES(isa, f16) \
  CRN_DOT_PROTOTYPES(isa, bf16)
#include "backend/cpu/kernels/dot/dot.def"
#undef DOT
#undef CRN_DOT_PROTOTYPES

/// The best set the processor has. Thread: safe.
const crn_dot_kernels *crn_dot_select(void);
/// All sets of this build, for tests; `*out_n` of them, best first.
const crn_dot_kernels *crn_dot_list(int *out_n);

#endif
