/// A plain view of elements in memory: what kernels, shape inference and arrays share. Owns nothing.
#ifndef CRN_TENSOR_TENSOR_H
#define CRN_TENSOR_TENSOR_H

#include "base/status.h"
#include "cairn/ndarray.h"

/// What is looked at most comes first: of tensors of usual ranks a run touches few lines of memory.
typedef struct crn_tensor {
  void *data;  ///< of element 0; NULL when only the shape is known
  /// Elements lie in pages: data and strides are of the space of tensor/pages.h, which is no memory. NULL = plain.
  struct crn_pages *pages;
  cairn_dtype dtype;
  int rank;
  /// Sub-byte constants as stored: a little-endian bit stream without gaps, lowest bits first; strides mean nothing.
  bool packed;
  int64_t dims[CAIRN_MAX_RANK];
  int64_t strides[CAIRN_MAX_RANK];  ///< in elements; may be 0 (broadcast) or negative (reversed)
} crn_tensor;

typedef enum crn_dtype_class {
  CRN_CLASS_NONE,
  CRN_CLASS_BOOL,
  CRN_CLASS_FLOAT,
  CRN_CLASS_SINT,
  CRN_CLASS_UINT,
  CRN_CLASS_COMPLEX
} crn_dtype_class;

crn_dtype_class crn_dtype_class_of(cairn_dtype dtype);
/// Bits of one element in packed storage.
int crn_dtype_bits(cairn_dtype dtype);
static inline bool crn_dtype_is_float(cairn_dtype d) { return crn_dtype_class_of(d) == CRN_CLASS_FLOAT; }
static inline bool crn_dtype_is_complex(cairn_dtype d) { return crn_dtype_class_of(d) == CRN_CLASS_COMPLEX; }
bool crn_dtype_is_integer(cairn_dtype dtype);  ///< SINT or UINT

/// Product of the dims; false when it overflows or a dim is negative.
bool crn_shape_count(const int64_t *dims, int rank, int64_t *out_count);
/// Bytes of a contiguous unpacked tensor; false on overflow or a negative dim.
bool crn_shape_bytes(cairn_dtype dtype, const int64_t *dims, int rank, size_t *out_bytes);
/// Bytes of a packed bit stream of that many elements.
bool crn_packed_bytes(cairn_dtype dtype, int64_t count, size_t *out_bytes);

/// The pixels of an image value as an array of bytes: [height, width, 3] for RGB24, [height, width, 4] for ARGB32 and BGRA32, all
/// planes one after the other for planar YUV 4:2:0, else [height * width].
void crn_image_shape(uint32_t format, uint32_t height, uint32_t width, int *out_rank, int64_t *out_dims);

/// Fills in row-major strides for the dims of `t`.
void crn_tensor_set_contiguous(crn_tensor *t);
/// A contiguous tensor over `data`.
crn_tensor crn_tensor_make(cairn_dtype dtype, const int64_t *dims, int rank, void *data);
/// Element `i` of a bit stream of codes of up to 8 bits, not sign-extended. A code may lie across two bytes.
static inline unsigned crn_packed_code(const void *stream, int64_t i, int bits) {
  const uint8_t *bytes = (const uint8_t *)stream;
  int64_t bit = i * bits;
  unsigned shift = (unsigned)(bit & 7), v = bytes[bit >> 3];
  if (shift + (unsigned)bits > 8) v |= (unsigned)bytes[(bit >> 3) + 1] << 8;
  return v >> shift & ((1u << bits) - 1);
}

/// Bytes from the first to the last element in memory (dims known to be valid): of a view, gaps included.
size_t crn_tensor_stored_bytes(const crn_tensor *t);
/// Number of elements (dims known to be valid).
int64_t crn_tensor_count(const crn_tensor *t);
/// Row-major without gaps (dims of size 1 may have any stride).
bool crn_tensor_is_contiguous(const crn_tensor *t);
bool crn_tensor_same_shape(const crn_tensor *a, const crn_tensor *b);

/// Narrows the last dimension but one to its last `n` entries; nothing changes when it has no more, or `n` is 0.
void crn_tensor_keep_last_rows(crn_tensor *t, int64_t n);

/// Copies all elements (equal shape and dtype, neither packed) whatever the strides. Regions must not overlap.
void crn_tensor_copy(const crn_tensor *source, const crn_tensor *target);
/// Unpacks a packed constant into a contiguous unpacked tensor of the same dtype (sign-extends the signed types).
void crn_tensor_unpack(const crn_tensor *packed, const crn_tensor *target);
/// Converts element types of contiguous data: `n` elements from `source` to `target`. Floats round to nearest even,
/// float to integer truncates and saturates (NaN gives 0), integer to narrower integer saturates, anything to bool is
/// "not zero", complex to real drops the imaginary part. Unpacked sub-byte types are a byte each.
void crn_convert(cairn_dtype from, const void *source, cairn_dtype to, void *target, int64_t n);

/// One element as a wide number. Integers of 64 bits go through the _i64 forms without loss.
double crn_load_f64(cairn_dtype dtype, const void *element);
void crn_store_f64(cairn_dtype dtype, void *element, double value);
int64_t crn_load_i64(cairn_dtype dtype, const void *element);
void crn_store_i64(cairn_dtype dtype, void *element, int64_t value);  ///< wraps to the width

static inline void *crn_tensor_at(const crn_tensor *t, int64_t element_offset) {
  return (char *)t->data + element_offset * (int64_t)cairn_dtype_bytes(t->dtype);
}

/// Walks all index tuples of `dims` in row-major order, keeping element offsets of up to 4 tensors with given strides.
///   crn_nd_iter it; for (crn_nd_begin(&it, rank, dims); !it.done; crn_nd_next(&it)) … it.offset[k] …
/// Set strides before crn_nd_begin: crn_nd_operand(&it, k, strides).
typedef struct crn_nd_iter {
  int rank, n_operands;
  bool done;
  int64_t dims[CAIRN_MAX_RANK], index[CAIRN_MAX_RANK];
  int64_t strides[4][CAIRN_MAX_RANK];
  int64_t offset[4];
} crn_nd_iter;

void crn_nd_initialize(crn_nd_iter *it, int rank, const int64_t *dims);
void crn_nd_operand(crn_nd_iter *it, const int64_t *strides);
void crn_nd_begin(crn_nd_iter *it);
void crn_nd_next(crn_nd_iter *it);

#endif
