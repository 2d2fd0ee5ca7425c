/// safetensors files: a JSON header with names, types and places, followed by the elements.
///
/// Reading maps the file; tensors are views of the map. A file is accepted only when its tensors fill the data part
/// without gaps or overlaps, as the format demands, so that no byte of it has two meanings or none.
#ifndef CRN_IMPORT_SAFETENSORS_H
#define CRN_IMPORT_SAFETENSORS_H

#include <stddef.h>

#include "base/alloc.h"
#include "tensor/tensor.h"

/// An open file. Owner: unique. Thread: safe after opening (immutable).
typedef struct crn_safetensors crn_safetensors;

/// One tensor. When read: name and data are borrowed from the open file and must not be written; the data is contiguous
/// (F4 is a packed bit stream) and aligned to its element.
typedef struct crn_safetensors_entry {
  const char *name;
  crn_tensor tensor;
} crn_safetensors_entry;

/// A pair of the free-form metadata of a file.
typedef struct crn_safetensors_pair {
  const char *key, *value;
} crn_safetensors_pair;

/// Opens a file. `allocator` NULL = default.
/// Errors: NOT_FOUND, IO, CORRUPT (naming the tensor and what is wrong), UNSUPPORTED (an element type cairn does not
/// have, more than CAIRN_MAX_RANK dims), OUT_OF_MEMORY.
cairn_status crn_safetensors_open(const cairn_allocator *allocator, const char *path, crn_safetensors **out_file);
/// As crn_safetensors_open for a file in memory, which must outlive the result. `what` names it in messages.
cairn_status crn_safetensors_open_memory(const cairn_allocator *allocator, const void *data, size_t bytes, const char *what,
                                         crn_safetensors **out_file);
/// NULL is allowed.
void crn_safetensors_close(crn_safetensors *file);

size_t crn_safetensors_count(const crn_safetensors *file);
/// The i-th tensor in the order of the file.
const crn_safetensors_entry *crn_safetensors_at(const crn_safetensors *file, size_t i);
/// NULL when there is none of that name.
const crn_safetensors_entry *crn_safetensors_find(const crn_safetensors *file, const char *name);
/// The value of a metadata key, NULL when absent.
const char *crn_safetensors_metadata(const crn_safetensors *file, const char *key);

/// Writes a file under a temporary name and renames it, so that `path` is either the old or the complete new file.
/// Tensors may have any strides; sub-byte types other than packed F4 have no safetensors form. Elements are ordered by
/// alignment and then by name, so that equal contents give equal files. `metadata` may be NULL.
/// Errors: INVALID_ARGUMENT (a name given twice or not UTF-8), UNSUPPORTED (an element type), IO, OUT_OF_MEMORY.
cairn_status crn_safetensors_write(const cairn_allocator *allocator, const char *path, const crn_safetensors_entry *entries,
                                   size_t n_entries, const crn_safetensors_pair *metadata, size_t n_metadata);

/// The safetensors name of an element type ("F32", "BF16", …); NULL when it has none.
const char *crn_safetensors_dtype_name(cairn_dtype dtype);

#endif
