/// Quantised blocks as other formats store them: a few elements in a row with their scale in front of their codes.
///
///   value = (code - zero) * scale + shift
///
/// The op unpack_blocks makes dense values of them; specialization packs them as they are.
#ifndef CRN_TENSOR_BLOCKS_H
#define CRN_TENSOR_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/// The `mode` of unpack_blocks.
typedef enum crn_block_kind { CRN_BLOCKS_Q8_0, CRN_BLOCKS_Q4_0, CRN_BLOCKS_Q4_1, CRN_BLOCK_KINDS } crn_block_kind;

enum { CRN_MAX_BLOCK = 32 };

typedef struct crn_block_format {
  const char *name;
  int bits;  ///< of a code: 4-bit codes count from 0, 8-bit ones are signed
  int zero;
  bool has_shift;       ///< else the shift is 0
  int elements, bytes;  ///< of a block
  /// Takes one block apart: a code for each byte of `codes`. The scale and the shift are f16 numbers.
  void (*unpack)(const unsigned char *block, uint8_t *codes, float *scale, float *shift);
} crn_block_format;

/// NULL when `kind` is none of crn_block_kind.
const crn_block_format *crn_block_format_of(int kind);

#endif
