/// Taking quantized blocks apart: value = scale * element + shift, one scale and shift for each block.
#ifndef CRN_IMPORT_GGUF_UNPACK_H
#define CRN_IMPORT_GGUF_UNPACK_H

#include <stdbool.h>

#include "import/gguf/gguf.h"
#include "tensor/tensor.h"

/// What becomes of a quantized tensor type.
typedef struct crn_gguf_unpacking {
  uint32_t type;      ///< CRN_GGUF_Q8_0 …
  cairn_dtype dtype;  ///< of the elements; 4-bit types are packed
  bool has_shift;
  /// Takes one block apart: `elements` gets block * bits / 8 bytes.
  void (*unpack)(const unsigned char *block, unsigned char *elements, float *scale, float *shift);
} crn_gguf_unpacking;

/// NULL when the type is not quantized or not supported.
const crn_gguf_unpacking *crn_gguf_unpacking_of(uint32_t type);

#endif
