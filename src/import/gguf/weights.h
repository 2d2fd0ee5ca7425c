/// Tensors of a GGUF file as constants of a program.
///
/// All stay where they are in the mapped file; the op unpack_blocks stands for the values of quantized ones.
#ifndef CRN_IMPORT_GGUF_WEIGHTS_H
#define CRN_IMPORT_GGUF_WEIGHTS_H

#include "base/vec.h"
#include "import/gguf/gguf.h"
#include "program/builder.h"

typedef struct crn_gguf_block {
  void *data;
  size_t bytes;
} crn_gguf_block;

/// The open file, what was made of it, and which of its tensors were used.
typedef struct crn_gguf_weights {
  const cairn_allocator *allocator;
  crn_gguf *file;
  CRN_VEC(crn_gguf_block) blocks;
  bool *is_used;  ///< per tensor of the file
} crn_gguf_weights;

/// Takes over `file`, also on failure. The result is meant to be kept by the program (crn_gguf_weights_destroy).
cairn_status crn_gguf_weights_create(const cairn_allocator *allocator, crn_gguf *file, crn_gguf_weights **out_weights);
void crn_gguf_weights_destroy(void *weights);

/// Memory that lives as long as the weights.
cairn_status crn_gguf_weights_alloc(crn_gguf_weights *w, size_t bytes, void *out_pointer);

/// Finds a tensor by a printf-like name and marks it used; NULL when absent.
const crn_gguf_tensor *crn_gguf_weights_find(crn_gguf_weights *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// Fails with UNSUPPORTED naming the first tensor nobody asked for: a model with more parts than were built would give
/// other results without a word.
cairn_status crn_gguf_weights_check_used(const crn_gguf_weights *w);

/// Whether the elements are stored as numbers of their own (F32, F16, BF16).
bool crn_gguf_is_plain(const crn_gguf_tensor *tensor);

/// The constant of a plain tensor in its stored element type, dims slowest first. Failures go into the builder.
crn_value *crn_gguf_build_plain(crn_builder *b, crn_gguf_weights *w, const crn_gguf_tensor *tensor);
enum { CRN_GGUF_MAX_JOINED = 4 };

/// Whether tensors can be one matrix, rows below rows: quantized alike, and of one row size.
bool crn_gguf_can_join(const crn_gguf_tensor *const *tensors, int n);
/// One tensor, or several that can be joined, as a value of `dtype` (F32 or F16): a constant, cast where needed, or blocks that
/// unpack_blocks reads. `name` is that of the constants. Failures go into the builder.
crn_value *crn_gguf_build_matrix(crn_builder *b, crn_gguf_weights *w, const char *name, const crn_gguf_tensor *const *tensors, int n,
                                 cairn_dtype dtype);
/// The values of plain tensors one behind the other, `repeats[i]` times each, as a constant of `dtype` and the given dims.
crn_value *crn_gguf_build_vector(crn_builder *b, crn_gguf_weights *w, const char *name, const crn_gguf_tensor *const *tensors,
                                 const int64_t *repeats, int n, const crn_tensor *shape);

/// Keeps a failure of the importer as the builder keeps its own: the first one counts. Returns NULL.
crn_value *crn_gguf_builder_fail(crn_builder *b, cairn_status status);

#endif
