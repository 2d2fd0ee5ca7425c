/// Layouts shared by the files of the family: constants and offsets only, so that files of any instruction set may include it.
///
/// A tile holds 16 outputs (lanes) and is a sequence of blocks of 64 inputs, in rising k. A block has:
/// - Q4, Q4M: for each of its two groups of 32 inputs 4 x 64 bytes. Vector j of a group has 4 bytes per lane; byte b holds input
///   8j + b in its low and 8j + 4 + b in its high half. Then f16 scales [2 groups][16], then (Q4M) f16 minimums [2][16].
/// - Q8, Q8M: for each group 8 x 64 bytes; vector j has inputs 4j .. 4j + 3 of each lane, as quant + 128, unsigned. Then scales
///   and minimums as above.
/// - F16, F32: [64 inputs][16]. BF16: [32 pairs of inputs][16][2], the operand of bf16 dot products and tiles.
///
/// Prepared rows are padded with zeros to whole blocks. EXACT: f32. BF16: bf16. INT8: all quants, then an f32 scale per group, then
/// an i32 sum of the quants per group. The size of a row is an odd number of cache lines, lest rows of a power of two meet in
/// the same sets of the cache.
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

/// Pairs of tiles that kernels for many rows widen at a time: about a megabyte of bf16.
#define LINEAR_PANELS(k) ((k) <= 2048 ? 8 : (k) <= 4096 ? 4 : (k) <= 8192 ? 2 : 1)

/// Whole blocks of k inputs.
#define LINEAR_BLOCKS(k) (((k) + LINEAR_BLOCK - 1) / LINEAR_BLOCK)

#endif
