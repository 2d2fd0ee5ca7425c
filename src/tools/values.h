/// Arrays on their way from and to files.
///
/// safetensors and npy lack some element types, so files hold them like this:
///   sub-byte integers   one int8 or uint8 each
///   complex             float32 with a last dim of 2 (real, imaginary)
///   float4_e2m1fn       its code in one uint8 each (safetensors), float32 (npy)
///   tfloat32            float32
///   bfloat16, float8    themselves in safetensors, float32 in npy (exact)
/// Elements are in logical row-major order whatever the layout of the array.
#ifndef CRN_TOOLS_VALUES_H
#define CRN_TOOLS_VALUES_H

#include "base/arena.h"
#include "cairn/ndarray.h"
#include "import/safetensors.h"

/// Makes an array in the layout a function wants from a tensor of a file. `what` names it ("input 'x'").
/// A rank of 0 and a single dim of 1 stand for each other. Errors: INVALID_ARGUMENT naming both types, OUT_OF_MEMORY.
cairn_status crn_array_from_file(cairn_context *context, const cairn_descriptor *d, const crn_tensor *stored, const char *what,
                                 cairn_ndarray **out_array);

/// The file form of an array, in memory of the arena. Errors: OUT_OF_MEMORY.
cairn_status crn_array_to_file(const cairn_ndarray *array, crn_arena *arena, crn_tensor *out_stored);

/// Writes `directory/name.npy` (characters that do not belong in a file name become '_').
cairn_status crn_array_write_npy(const cairn_ndarray *array, const char *directory, const char *name);

typedef struct crn_array_range {
  double minimum, maximum, mean;  ///< of the finite elements, 0 when there are none
  int64_t n_finite, n_not_finite;
} crn_array_range;
/// Statistics of the elements as f64 (complex: of all parts). Errors: OUT_OF_MEMORY.
cairn_status crn_array_get_range(const cairn_ndarray *array, crn_array_range *out_range);

#endif
