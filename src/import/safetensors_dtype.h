/// The element types of safetensors, shared by its reader and its writer.
#ifndef CRN_IMPORT_SAFETENSORS_DTYPE_H
#define CRN_IMPORT_SAFETENSORS_DTYPE_H

#include "tensor/tensor.h"

enum { CRN_SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000 };  ///< bytes; the limit of the reference implementation

typedef enum crn_safetensors_dtype_state {
  CRN_SAFETENSORS_KNOWN,
  CRN_SAFETENSORS_UNSUPPORTED,  ///< the format has it, cairn does not
  CRN_SAFETENSORS_UNKNOWN
} crn_safetensors_dtype_state;

/// Looks up a type of the format by name.
crn_safetensors_dtype_state crn_safetensors_dtype_find(const char *name, cairn_dtype *out_dtype);

#endif
