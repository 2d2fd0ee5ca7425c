/// Layouts shared by the files of the family: constants and offsets only, so that files of any instruction set may include it.
///
/// A tile holds 16 outputs (lanes) and is a sequence of blocks of 64 inputs, in rising k. A block has:
/// - Q4, Q4M: for each of its two groups of 32 inputs 4 x 64 bytes. Vector j of a group has 4 bytes per lane; byte b holds input
///   8j + b in its low and 8j + 4 + b in its high half. Then f16 scales [2 groups][16], then (Q4M) f16 minimums [2][16].
/// - Q8, Q8M: for each group 8 x 64 bytes; vector j has inputs 4j .. 4j + 3 of each lane, as quant + 128, unsigned. Then scales
///   and minimums as above.
/// - P1, P2, P4: for each group vectors of 64 bytes, 32 / bits inputs of each lane in 4 bytes: input i of a vector in half i % 2, at bit
///   bits * (i / 2) of the half, so that halves shifted alike hold pairs of inputs. P6: four vectors with the low 4 bits of codes, then
///   two with the high 2. P8: vectors of 4 inputs, whose lanes 0..7
///   and 8..15 lie at bytes 32 * (i % 2) + 8 * (i / 2) and 16 behind. In front of the blocks of a tile lie its tables,
///   [groups][tables][entries] f32 (16 entries at least, repeated), then the factors [16] f32 where there are any.
/// - F16, F32: [64 inputs][16]. BF16: [32 pairs of inputs][16][2], the operand of bf16 dot products and tiles.
///
/// Prepared rows are padded with zeros to whole blocks. EXACT: f32. BF16: bf16. INT8: all quants, then an f32 scale per group, then
/// an i32 sum of the quants per group. INT16: of each block the high bytes, then the low ones, signed, that is high * 256 + low; then an
/// f32 scale per piece of LINEAR_PIECES, and where the kernel wants them the sums of the integers of each group, as f32. The size of a row
/// is an odd number of cache lines, lest rows of a power of two meet in the same sets of the cache.
#ifndef CRN_BACKEND_CPU_KERNELS_LINEAR_LAYOUT_H
#define CRN_BACKEND_CPU_KERNELS_LINEAR_LAYOUT_H

enum {
  LINEAR_LANES = 16,
  LINEAR_BLOCK = 64,  ///< inputs in a block
  LINEAR_Q4_GROUP = 256,
  LINEAR_Q4_SCALES = 512,
  LINEAR_Q4_BLOCK = 576,
  LINEAR_Q4M_BLOCK = 640,
  LINEAR_Q8_GROUP = 512,
  LINEAR_Q8_SCALES = 1024,
  LINEAR_Q8_BLOCK = 1088,
  LINEAR_Q8M_BLOCK = 1152,
  LINEAR_HALF_BLOCK = 2048,  ///< F16 and BF16
  LINEAR_F32_BLOCK = 4096,
  LINEAR_MINS = 64,      ///< minimums behind the scales
  LINEAR_Q8_BIAS = 128,  ///< added to 8-bit quants in storage
};

/// Tiles and blocks that AMX kernels widen at a time: about a quarter of a megabyte of bf16.
enum { LINEAR_WIDE_TILES = 16, LINEAR_WIDE_BLOCKS = 9 };
/// The pieces of nearly equal size that they divide so many blocks into.
#define LINEAR_PIECES(blocks) (((blocks) + LINEAR_WIDE_BLOCKS - 1) / LINEAR_WIDE_BLOCKS)

/// Bytes of a group of P formats, entries of a table as it is stored, and bytes in front of the blocks of a tile.
#define LINEAR_P_GROUP(bits) (64 * (bits))
#define LINEAR_P_ENTRIES(bits) ((bits) <= 4 ? 16 : 1 << (bits))
#define LINEAR_P_HEAD(p, bits) ((int64_t)(p)->groups * (p)->tables * LINEAR_P_ENTRIES(bits) * 4 + ((p)->has_factors ? 4 * LINEAR_LANES : 0))
/// All of a tile.
#define LINEAR_P_TILE(p, bits, blocks) (LINEAR_P_HEAD(p, bits) + (blocks)*2 * LINEAR_P_GROUP(bits))
/// Groups of 32 inputs that one set of tables serves; the last set also serves the padding.
#define LINEAR_P_REACH(p, k, blocks) ((p)->groups == 1 ? 2 * (blocks) : (k) / (p)->groups / CRN_LINEAR_GROUP)

/// Defines TILE_OF(m, name, f) for m = 1 to 12 rows, and the table of these functions.
#define LINEAR_TWELVE_ROWS(TILE_OF, name, f)                                                             \
  TILE_OF(1, name, f)                                                                                    \
  TILE_OF(2, name, f)                                                                                    \
  TILE_OF(3, name, f)                                                                                    \
  TILE_OF(4, name, f)                                                                                    \
  TILE_OF(5, name, f)                                                                                    \
  TILE_OF(6, name, f)                                                                                    \
  TILE_OF(7, name, f)                                                                                    \
  TILE_OF(8, name, f)                                                                                    \
  TILE_OF(9, name, f)                                                                                    \
  TILE_OF(10, name, f)                                                                                   \
  TILE_OF(11, name, f)                                                                                   \
  TILE_OF(12, name, f)                                                                                   \
  static const tile_fn name##_tiles[12] = {name##_1, name##_2, name##_3, name##_4,  name##_5,  name##_6, \
                                           name##_7, name##_8, name##_9, name##_10, name##_11, name##_12};

/// Whole blocks of k inputs.
#define LINEAR_BLOCKS(k) (((k) + LINEAR_BLOCK - 1) / LINEAR_BLOCK)

#endif
