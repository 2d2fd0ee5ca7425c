/// GGUF files (versions 2 and 3): typed metadata and tensor places, as stored. Nothing is decoded here.
///
/// The file is mapped; strings, arrays and tensors are views of the map. Opening checks every length, offset and nesting,
/// so that views can be walked afterwards without a failure.
#ifndef CRN_IMPORT_GGUF_GGUF_H
#define CRN_IMPORT_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/// Types of metadata values; the numbers are those of the format.
typedef enum crn_gguf_kind {
  CRN_GGUF_UINT8 = 0,
  CRN_GGUF_INT8 = 1,
  CRN_GGUF_UINT16 = 2,
  CRN_GGUF_INT16 = 3,
  CRN_GGUF_UINT32 = 4,
  CRN_GGUF_INT32 = 5,
  CRN_GGUF_FLOAT32 = 6,
  CRN_GGUF_BOOL = 7,
  CRN_GGUF_STRING = 8,
  CRN_GGUF_ARRAY = 9,
  CRN_GGUF_UINT64 = 10,
  CRN_GGUF_INT64 = 11,
  CRN_GGUF_FLOAT64 = 12,
} crn_gguf_kind;

/// A counted string of the file (no NUL behind it).
typedef struct crn_gguf_string {
  const char *data;
  size_t bytes;
} crn_gguf_string;

typedef struct crn_gguf_value {
  crn_gguf_kind kind;
  union {
    int64_t i;          ///< signed kinds
    uint64_t u;         ///< unsigned kinds and BOOL
    double f;           ///< FLOAT32 and FLOAT64
    crn_gguf_string s;  ///< STRING
    struct {
      crn_gguf_kind kind;  ///< of the items
      size_t n;
      const unsigned char *data;  ///< the items as stored
    } array;                      ///< ARRAY
  };
} crn_gguf_value;

typedef struct crn_gguf_pair {
  crn_gguf_string key;
  crn_gguf_value value;
} crn_gguf_pair;

enum { CRN_GGUF_MAX_DIMS = 4 };

/// Element types of tensors that importers look at; the numbers are those of the format. crn_gguf_type_of knows all.
enum {
  CRN_GGUF_F32 = 0,
  CRN_GGUF_F16 = 1,
  CRN_GGUF_Q4_0 = 2,
  CRN_GGUF_Q4_1 = 3,
  CRN_GGUF_Q8_0 = 8,
  CRN_GGUF_BF16 = 30,
};

/// How a tensor type stores its elements: blocks of `block` consecutive elements of the first dim take `bytes` bytes.
typedef struct crn_gguf_type {
  uint32_t id;
  const char *name;
  uint32_t block, bytes;
} crn_gguf_type;

/// NULL for a number the format does not define.
const crn_gguf_type *crn_gguf_type_of(uint32_t id);

typedef struct crn_gguf_tensor {
  crn_gguf_string name;
  const crn_gguf_type *type;
  int n_dims;
  int64_t dims[CRN_GGUF_MAX_DIMS];  ///< fastest first, as the format lists them; unused ones are 1
  const unsigned char *data;
  size_t bytes;
} crn_gguf_tensor;

/// An open file. Owner: unique. Thread: safe after opening (immutable).
typedef struct crn_gguf crn_gguf;

/// Opens a file. `allocator` NULL = default.
/// Errors: NOT_FOUND, IO, CORRUPT (naming the key or tensor), UNSUPPORTED (version 1, big-endian, an unknown tensor type),
/// OUT_OF_MEMORY.
cairn_status crn_gguf_open(const cairn_allocator *allocator, const char *path, crn_gguf **out_file);
/// As crn_gguf_open for a file in memory, which must outlive the result. `what` names it in messages.
cairn_status crn_gguf_open_memory(const cairn_allocator *allocator, const void *data, size_t bytes, const char *what, crn_gguf **out_file);
/// One more user of an open file, who closes it, too: the last one ends it. Thread: safe.
void crn_gguf_retain(crn_gguf *file);
/// NULL is allowed.
void crn_gguf_close(crn_gguf *file);

/// The path or name the file was opened with.
const char *crn_gguf_what(const crn_gguf *file);
uint32_t crn_gguf_version(const crn_gguf *file);

size_t crn_gguf_pair_count(const crn_gguf *file);
const crn_gguf_pair *crn_gguf_pair_at(const crn_gguf *file, size_t i);
/// The value of a key, NULL when absent.
const crn_gguf_value *crn_gguf_find(const crn_gguf *file, const char *key);

size_t crn_gguf_tensor_count(const crn_gguf *file);
const crn_gguf_tensor *crn_gguf_tensor_at(const crn_gguf *file, size_t i);
/// NULL when there is none of that name.
const crn_gguf_tensor *crn_gguf_find_tensor(const crn_gguf *file, const char *name);

// --- typed metadata -----------------------------------------------------------------------------------------------------

/// Absent: `*out` keeps its value and the result is OK unless `required`. Integers of every width are taken where an
/// integer is wanted. Errors: CORRUPT (missing, or another kind), OUT_OF_RANGE (an unsigned value above INT64_MAX).
cairn_status crn_gguf_get_int(const crn_gguf *file, const char *key, bool required, int64_t *out);
cairn_status crn_gguf_get_float(const crn_gguf *file, const char *key, bool required, double *out);
cairn_status crn_gguf_get_bool(const crn_gguf *file, const char *key, bool required, bool *out);
cairn_status crn_gguf_get_string(const crn_gguf *file, const char *key, bool required, crn_gguf_string *out);
/// An array whose items have the given kind; NULL in `*out` when absent.
cairn_status crn_gguf_get_array(const crn_gguf *file, const char *key, bool required, crn_gguf_kind item_kind, const crn_gguf_value **out);

/// Walks the items of an array in order, nested arrays included:
///   const unsigned char *at = v->array.data; for (size_t i = 0; i < v->array.n; i++) at = crn_gguf_item(v->array.kind, at, &item);
/// Returns the place behind the item.
const unsigned char *crn_gguf_item(crn_gguf_kind kind, const unsigned char *at, crn_gguf_value *out_item);

#endif
