/// Linear layers on packed weights: out[r][n] = sum over k of x[r][k] * w[n][k], in f32.
///
/// One packed layout per format serves every mode and every number of rows: tiles of 16 outputs, each a sequence of blocks
/// of 64 inputs (see linear_layout.h). Storage is padded to whole tiles and blocks with zeros. Quantised weights have an f16
/// scale, and formats with M an f16 minimum, per output and group of 32 inputs:
///
///   w = quant * scale + (minimum - zero * scale)
///
/// evaluated in f32, where `zero` is one number for the whole matrix (crn_linear_weights.zero) and the minimum is 0 in
/// formats without one. Quants are 4 bits, 0..15, or 8 bits, -128..127 (for these both quant and zero are taken 128 higher).
/// The products are exact in f32, so w is rounded at most twice, and not at all when there is no minimum.
///
/// P formats have codes that palettes turn into weights, in every mode the same ones (on Arm rounded to bf16 in BF16 and INT8).
///
/// Modes say how products are made. EXACT: f32; every output is one chain acc = fma(x[k], w[k], acc) in rising k that starts
/// at 0, so its bits do not depend on the number of rows, on tiles or on the kernel (the scalar kernels round the product and
/// the sum separately, as they have no FMA). BF16: activations rounded to bf16, sums in f32. INT8: activations as signed
/// bytes with a scale per group of 32, integer sums within a group, f32 across groups. A kernel may be more exact than its
/// mode (rows as 16-bit integers, with quants as they are or with weights that are such integers too); AMX kernels of BF16 round the
/// weights to bf16 too. In BF16 and INT8 bits may depend on the kernel and so on the number of rows, never on which other rows a call has
/// or on how tiles are split.
///
/// Infinities and NaN in x reach only the outputs of their row (in INT8 all of them become NaN).
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRN_LINEAR_TILE = 16, CRN_LINEAR_GROUP = 32 };

typedef enum crn_linear_format {
  CRN_LINEAR_Q4,   ///< 4-bit quants 0..15, scales
  CRN_LINEAR_Q4M,  ///< and minimums
  CRN_LINEAR_Q8,   ///< 8-bit quants -128..127, scales
  CRN_LINEAR_Q8M,  ///< and minimums
  CRN_LINEAR_F16,
  CRN_LINEAR_BF16,
  CRN_LINEAR_F32,
  CRN_LINEAR_P1,  ///< codes of 1, 2, 4, 6 or 8 bits, and palettes they are looked up in (crn_linear_palette)
  CRN_LINEAR_P2,
  CRN_LINEAR_P4,
  CRN_LINEAR_P6,
  CRN_LINEAR_P8,
  CRN_LINEAR_FORMATS
} crn_linear_format;

typedef enum crn_linear_mode {
  CRN_LINEAR_EXACT,
  CRN_LINEAR_MODE_BF16,
  CRN_LINEAR_MODE_INT8,
  CRN_LINEAR_MODES,
  CRN_LINEAR_ROWS_INT16 = CRN_LINEAR_MODES  ///< of rows only: how some kernels of INT8 want them prepared
} crn_linear_mode;

/// What an entry times the factor of its output is rounded to.
typedef enum crn_linear_rounding { CRN_LINEAR_TO_F32, CRN_LINEAR_TO_F16, CRN_LINEAR_TO_BF16 } crn_linear_rounding;

/// Palettes of the P formats: w = entry[code], or entry[code] * factor rounded. Entries are finite f32 numbers.
typedef struct crn_linear_palette {
  int32_t tables;                ///< of a tile, each for 16 / tables of its outputs: 1, 2, 4, 8 or 16
  int32_t groups;                ///< equal ranges of inputs (whole groups of 32 when there are several) with tables of their own
  bool has_factors;              ///< one for each output
  crn_linear_rounding rounding;  ///< counts with factors
} crn_linear_palette;

typedef struct crn_linear_weights {
  crn_linear_format format;
  int32_t zero;      ///< quantised formats: a quant q stands for q - zero, |zero| <= 128. 8 for si4 data stored as q + 8, else mostly 0
  int64_t n, k;      ///< outputs and inputs as the program has them
  const void *data;  ///< 64-byte aligned
  size_t bytes;
  crn_linear_palette palette;  ///< of P formats
} crn_linear_weights;

/// Tiles of n outputs.
static inline int64_t crn_linear_tiles(int64_t n) { return n / CRN_LINEAR_TILE + (n % CRN_LINEAR_TILE != 0); }
/// Bytes of the packed form; false when the product overflows or n or k is negative. Tiles have equal sizes: a part of the
/// tiles is itself a packed matrix, and matrices with equal format, k and zero can be packed behind one another when all but
/// the last have whole tiles.
bool crn_linear_packed_bytes(crn_linear_format format, int64_t n, int64_t k, size_t *out_bytes);

/// linear_palette.c: the same for any format, with the palettes of P formats.
bool crn_linear_weights_bytes(const crn_linear_weights *w, size_t *out_bytes);
/// Bits of a code of a P format, 0 of other formats. A table has as many entries as codes can tell apart.
int crn_linear_code_bits(crn_linear_format format);
/// Packs one row of a P format: k codes, a byte each, the tables of the row's groups one behind the other, and its factor. Rows of one
/// tile must be packed by one thread.
void crn_linear_pack_codes(const crn_linear_weights *w, int64_t row, const uint8_t *codes, const float *tables, float factor, void *packed);
/// As crn_linear_unpack_row, which calls it.
void crn_linear_unpack_codes(const crn_linear_weights *w, int64_t row, float *out);

/// One row (output) to pack: k quants, one per byte (0..15, or int8 -128..127), with ceil(k / 32) scales and minimums
/// (`mins` is read in formats with M only); or k f16, bf16 or f32 values.
typedef struct crn_linear_row {
  const void *values;
  const float *scales, *mins;
} crn_linear_row;

/// Packs one row. Different rows may be packed by different threads at once. Padding is written as well, that of missing
/// outputs together with row n - 1. Returns whether all scales and minimums were f16 values; else they were rounded.
bool crn_linear_pack_row(crn_linear_format format, int64_t n, int64_t k, int64_t row, const crn_linear_row *source, void *packed);
/// Row `row` as k f32 values, bit for bit the weights of EXACT mode (embedding gather from the packed form; tests).
void crn_linear_unpack_row(const crn_linear_weights *w, int64_t row, float *out);

/// Activations prepared for a mode: bytes of one row (a multiple of 64), and the preparation of one row of k values.
size_t crn_linear_row_bytes(crn_linear_mode mode, int64_t k);
typedef void (*crn_linear_prepare_fn)(const float *x, int64_t k, void *out_row);

/// Some kernels want their rows in blocks of CRN_LINEAR_ROW_BLOCK, a line of CRN_LINEAR_ROW_LINE bytes of each row in turn; others one row
/// after the other.
enum { CRN_LINEAR_ROW_BLOCK = 32, CRN_LINEAR_ROW_LINE = 64, CRN_LINEAR_ROWS_ALIGN = CRN_LINEAR_ROW_BLOCK * CRN_LINEAR_ROW_LINE };

/// Computes the outputs of tiles [tile_begin, tile_end) for n_rows rows that start row_bytes apart (64-byte aligned):
/// out[r * ld + (tile - tile_begin) * 16 + lane]. Outputs of padding are written too (0 unless the row has infinities or NaN;
/// of P formats anything), so ld >= 16 * (tile_end - tile_begin). `out` needs no alignment. `scratch`: memory of one worker,
/// scratch_bytes(k) bytes, 64-byte aligned, contents free.
typedef void (*crn_linear_fn)(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                              int64_t tile_end, float *out, int64_t ld, void *scratch);

/// Is given the sums of some rows and tiles as soon as they are complete, while they are in the cache; it may change them. `row` counts
/// from the first row of the call, `tile` is one of the matrix. It may hear beforehand, a little at a time, of which rows and tiles it will
/// be given the sums soon (`expect`, or NULL).
typedef struct crn_linear_sink {
  void (*take)(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles, float *sums, int64_t ld);
  void *user;
  void (*expect)(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles);
} crn_linear_sink;

/// As crn_linear_fn, with `sums` as memory of the same size whose contents are nobody's afterwards: the sink gets every row and tile once.
typedef void (*crn_linear_parts_fn)(const crn_linear_weights *w, const void *rows, size_t row_bytes, int64_t n_rows, int64_t tile_begin,
                                    int64_t tile_end, float *sums, int64_t ld, void *scratch, const crn_linear_sink *sink);

/// Tiles a sink is given at most, the first one an even one of the call's. Whatever the number of tiles of a call, `sums` has room for as
/// many a row, and `ld` >= 16 * as many.
enum { CRN_LINEAR_PART_TILES = 16 };

typedef struct crn_linear_kernel {
  const char *name;  ///< crn_linear_<activations>_<weights>_f32_<rows>x<outputs>__<isa>
  const char *isa;
  crn_linear_format format;
  crn_linear_mode mode;       ///< the mode it serves
  crn_linear_mode rows_mode;  ///< how its activations must be prepared; differs from `mode` where a kernel is more exact
  uint64_t cpu_bits;          ///< features it needs
  int64_t min_rows;           ///< serves calls of at least that many rows
  bool has_fma;               ///< in EXACT: gives the bits all kernels with FMA give
  crn_linear_prepare_fn prepare;
  crn_linear_fn run;
  size_t (*scratch_bytes)(int64_t k);
} crn_linear_kernel;

/// The best kernel of this processor (CAIRN_CPU_MASK obeyed) for a format, mode and number of rows. Never NULL: scalar
/// kernels exist for all. Thread: safe.
const crn_linear_kernel *crn_linear_select(crn_linear_format format, crn_linear_mode mode, int64_t n_rows);
/// Rows in a block, CRN_LINEAR_ROW_BLOCK or 1. Memory of prepared rows holds whole blocks of `row_bytes` a row and begins at a multiple of
/// CRN_LINEAR_ROWS_ALIGN (64 will do where blocks have one row).
int64_t crn_linear_row_block(const crn_linear_kernel *kernel);
/// Where row `row` begins in that memory: what `prepare` is given for it, and calls whose first row it is.
size_t crn_linear_row_offset(const crn_linear_kernel *kernel, size_t row_bytes, int64_t row);
/// All kernels of this build, best first within a format and mode; `*out_n` of them.
const crn_linear_kernel *crn_linear_list(int *out_n);
/// The form of the kernel that hands out its sums part by part, NULL when there is none.
crn_linear_parts_fn crn_linear_parts_of(const crn_linear_kernel *kernel);

#endif
