/// Products of f32 rows with packed f32 tiles, for operands that need no preparation: rows lie anywhere at equal distances, and each is a
/// list of runs of values. Matrices and convolutions are the same to these kernels: the row of a matrix is one run, the row of a
/// convolution (what a window sees) has a run for each row of the window.
///
/// Weights are the F32 format of the linear family: tiles of 16 outputs, [inputs][16]. Every output is one chain acc = fma(x, w, acc) in
/// the order of the weights, beginning at 0, as in the EXACT mode there: its bits depend neither on the rows beside it nor on the kernel
/// (the scalar one rounds the product and the sum separately).
#ifndef CRN_BACKEND_CPU_KERNELS_TILES_H
#define CRN_BACKEND_CPU_KERNELS_TILES_H

#include <stdint.h>

typedef struct crn_tile_rows {
  const float *x;  ///< the first row
  int64_t step;    ///< elements from a row to the next
  int64_t width;   ///< rows that lie so, behind which the next ones begin `line` elements behind the first; 0 = all
  int64_t line;
  int64_t length;         ///< values of a run
  int n_runs;             ///< of a row
  const int64_t *run_at;  ///< where each begins, in elements behind the row's begin
  const float *ahead;     ///< two tiles that are needed next: they are asked for meanwhile; NULL = none
} crn_tile_rows;

typedef struct crn_tile_kernels {
  const char *name;
  uint64_t isa;  ///< feature bits it needs
  /// out[r * ld + 0..15] = row r times the tile w0, and 16..31 times w1; with w1 == w0 there is one tile only. w0 and w1 are aligned to 64
  /// bytes.
  void (*pair)(const float *w0, const float *w1, const crn_tile_rows *rows, int64_t n_rows, float *out, int64_t ld);
  /// The same for every channel by itself (depthwise): out[c] = sum over taps of x[at[t] + c] * w[t * n + c], in the order of taps.
  void (*taps)(const float *x, const int64_t *at, int n_taps, const float *w, int64_t n, float *out);
  /// out[r][i] = sums[r][i] + bias[i] + added[r][i] for i < n, each sum rounded, and 0 for what is negative when `relu` is set (NaN stays).
  /// Rows lie ld, added_step and out_step elements apart. bias and added may be NULL, and out may
  /// be sums.
  void (*finish)(const float *sums, int64_t ld, int64_t n_rows, int64_t n, const float *bias, const float *added, int64_t added_step,
                 int relu, float *out, int64_t out_step);
  /// out = the greater of both; NaN stays.
  void (*maximum)(const float *a, const float *b, float *out, int64_t n);
} crn_tile_kernels;

#define TILES(isa, bit)                                                                                                            \
  void crn_tiles_pair__##isa(const float *w0, const float *w1, const crn_tile_rows *rows, int64_t n_rows, float *out, int64_t ld); \
  void crn_tiles_taps__##isa(const float *x, const int64_t *at, int n_taps, const float *w, int64_t n, float *out);                \
  void crn_tiles_finish__##isa(const float *sums, int64_t ld, int64_t n_rows, int64_t n, const float *bias, const float *added,    \
                               int64_t added_step, int relu, float *out, int64_t out_step);                                        \
  void crn_tiles_maximum__##isa(const float *a, const float *b, float *out, int64_t n);
#include "backend/cpu/kernels/tiles/tiles.def"
#undef TILES

/// The best set the processor has. Thread: safe.
const crn_tile_kernels *crn_tiles_select(void);
/// All sets of this build, for tests; `*out_n` of them, best first.
const crn_tile_kernels *crn_tiles_list(int *out_n);

#endif
