/// Element types, descriptors of a function's values, and n-dimensional arrays.
///
/// Shapes are in elements, outermost dimension first; strides are in elements too. A dynamic dimension is -1.
#ifndef CAIRN_NDARRAY_H
#define CAIRN_NDARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CAIRN_MAX_RANK = 12, CAIRN_DYNAMIC = -1 };

/// Element types. Values are ABI. Sub-byte types take one byte per element in arrays, the value in the low bits
/// (sign-extended for the signed ones); complex values are (real, imaginary) pairs.
typedef enum cairn_dtype {
  CAIRN_DTYPE_NONE = 0,
  CAIRN_BOOL = 1,
  CAIRN_F64 = 2,
  CAIRN_F32 = 3,
  CAIRN_F16 = 4,
  CAIRN_BF16 = 5,
  CAIRN_F8E5M2 = 6,
  CAIRN_F8E4M3FN = 7,
  CAIRN_F8E8M0FNU = 8,
  CAIRN_F4E2M1FN = 9,
  CAIRN_SI64 = 10,
  CAIRN_SI32 = 11,
  CAIRN_SI16 = 12,
  CAIRN_SI8 = 13,
  CAIRN_SI4 = 14,
  CAIRN_SI2 = 15,
  CAIRN_UI64 = 16,
  CAIRN_UI32 = 17,
  CAIRN_UI16 = 18,
  CAIRN_UI8 = 19,
  CAIRN_UI6 = 20,
  CAIRN_UI4 = 21,
  CAIRN_UI3 = 22,
  CAIRN_UI2 = 23,
  CAIRN_UI1 = 24,
  CAIRN_C128 = 25,
  CAIRN_C64 = 26,
  CAIRN_C32 = 27,
  CAIRN_CBF16 = 28,
  CAIRN_CF8E5M2 = 29,
  CAIRN_CF8E4M3FN = 30,
  CAIRN_TF32 = 31,
  CAIRN_DTYPE_COUNT = 32
} cairn_dtype;

/// "float16", "int32", "bfloat16", …; "none" for a value that is no type.
CAIRN_API const char *cairn_dtype_name(cairn_dtype dtype);
/// The type of a name, or CAIRN_DTYPE_NONE.
CAIRN_API cairn_dtype cairn_dtype_from_name(const char *name);
/// Bytes one element takes in an array (1 for sub-byte types).
CAIRN_API size_t cairn_dtype_bytes(cairn_dtype dtype);

// --- descriptors --------------------------------------------------------------------------------------------------

/// Describes one input, output or state. Owner: borrowed from the asset, model or function it came from.
typedef struct cairn_descriptor {
  const char *name;
  cairn_dtype dtype;  ///< of an image value: uint8, and `shape` is that of its pixels ([height, width, 3] for RGB24, …)
  int rank;
  int64_t shape[CAIRN_MAX_RANK];          ///< -1 = dynamic
  int64_t interleave[CAIRN_MAX_RANK];     ///< block of consecutive elements per dimension, 1 = none
  int64_t alignment[CAIRN_MAX_RANK + 1];  ///< of the strides wanted by the producer; informative, 1 = none
  bool is_image;
  uint32_t image_format, image_height, image_width;  ///< fourcc and size of an image value
} cairn_descriptor;

/// Whether a dimension is still dynamic.
CAIRN_API bool cairn_descriptor_is_dynamic(const cairn_descriptor *descriptor);

/// Checks that `shape` fits (equal rank, equal static dims, no negative dim) and gives the preferred layout: strides in
/// elements and the bytes it needs. `shape` NULL is allowed for a static descriptor. Out pointers may be NULL.
/// Errors: FAILED_PRECONDITION (dynamic dims left unresolved), INVALID_ARGUMENT (naming the dim), OUT_OF_RANGE (size).
CAIRN_API cairn_status cairn_descriptor_resolve(const cairn_descriptor *descriptor, const int64_t *shape, int rank, int64_t *out_strides,
                                                size_t *out_bytes);

// --- arrays -------------------------------------------------------------------------------------------------------

/// Storage + shape + strides + dtype (+ interleave). Views share storage.
/// Owner: shared and counted. Thread: the object is immutable; its elements follow the usual rules of memory (one
/// writer, or many readers). A run that is given an array as a state refuses a second run on it with BUSY.
typedef struct cairn_ndarray cairn_ndarray;

/// A zeroed, contiguous row-major array. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_ndarray_create(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank,
                                            cairn_ndarray **out_array);

/// Creates a zeroed array whose dims lie in memory in the order given, the one that moves slowest first: strides are those of a contiguous
/// array of the dims in that order. Errors: INVALID_ARGUMENT (`order` does not have each dim once), as cairn_ndarray_create.
CAIRN_API cairn_status cairn_ndarray_create_ordered(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank,
                                                    const int *order, cairn_ndarray **out_array);

/// A zeroed array in the preferred layout of a descriptor (with its interleave). `shape` resolves the dynamic dims and
/// may be NULL for a static descriptor. Errors: as cairn_descriptor_resolve, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_ndarray_create_from_descriptor(cairn_context *context, const cairn_descriptor *descriptor,
                                                            const int64_t *shape, int rank, cairn_ndarray **out_array);

/// Caller memory to wrap. Zero-initialise, then fill in.
typedef struct cairn_ndarray_wrap_options {
  void *data;          ///< start of the caller's block
  size_t bytes;        ///< its size
  size_t byte_offset;  ///< of element 0
  cairn_dtype dtype;
  int rank;
  const int64_t *shape;
  const int64_t *strides;     ///< in elements, not negative; NULL = contiguous row-major
  const int64_t *interleave;  ///< NULL = none
  bool read_only;
  void (*release)(void *user);  ///< called once when the last view is gone; may be NULL
  void *user;
} cairn_ndarray_wrap_options;

/// Wraps caller memory without a copy. Every element the shape and strides reach must lie inside the block, and the
/// data must be aligned to its element. On failure `release` is not called.
CAIRN_API cairn_status cairn_ndarray_wrap(cairn_context *context, const cairn_ndarray_wrap_options *options, cairn_ndarray **out_array);

/// A view of the elements [start, end) of every dimension (NULL = whole). Keeps the parent's storage alive.
CAIRN_API cairn_status cairn_ndarray_slice(cairn_ndarray *array, const int64_t *start, const int64_t *end, cairn_ndarray **out_view);
/// The same for a view that is looked through at another place each time: `*in_out_view` (NULL at first) is moved there, without an
/// allocation when it is a view of this array's storage that nobody else holds; otherwise it is released and another takes its place.
/// On failure it is released and NULL.
CAIRN_API cairn_status cairn_ndarray_reslice(cairn_ndarray *array, const int64_t *start, const int64_t *end, cairn_ndarray **in_out_view);

/// A read-only view of the whole array.
CAIRN_API cairn_status cairn_ndarray_const_view(cairn_ndarray *array, cairn_ndarray **out_view);

CAIRN_API void cairn_ndarray_retain(cairn_ndarray *array);
CAIRN_API void cairn_ndarray_release(cairn_ndarray *array);

CAIRN_API cairn_dtype cairn_ndarray_dtype(const cairn_ndarray *array);
CAIRN_API int cairn_ndarray_rank(const cairn_ndarray *array);
CAIRN_API const int64_t *cairn_ndarray_shape(const cairn_ndarray *array);
/// Strides in elements; for an interleaved dimension the distance between blocks. They mean nothing for a segmented array.
CAIRN_API const int64_t *cairn_ndarray_strides(const cairn_ndarray *array);
CAIRN_API const int64_t *cairn_ndarray_interleave(const cairn_ndarray *array);
CAIRN_API int64_t cairn_ndarray_count(const cairn_ndarray *array);
CAIRN_API bool cairn_ndarray_is_contiguous(const cairn_ndarray *array);
CAIRN_API bool cairn_ndarray_is_read_only(const cairn_ndarray *array);

/// Address of element 0. Valid while the array lives. NULL for a segmented array.
CAIRN_API const void *cairn_ndarray_data(const cairn_ndarray *array);
/// As cairn_ndarray_data for writing; NULL when the array is read-only or segmented.
CAIRN_API void *cairn_ndarray_mutable_data(cairn_ndarray *array);

/// Copies all elements out of / into the array in row-major logical order, whatever its layout. `bytes` must be the
/// count times the element size. Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (read-only).
CAIRN_API cairn_status cairn_ndarray_read(const cairn_ndarray *array, void *out_data, size_t bytes);
CAIRN_API cairn_status cairn_ndarray_write(cairn_ndarray *array, const void *data, size_t bytes);

/// Copies every element of `source` (same shape and dtype) into `target`, whatever the layouts.
CAIRN_API cairn_status cairn_ndarray_copy(const cairn_ndarray *source, cairn_ndarray *target);

/// Sets every element to zero; of a segmented array all pages are given back. Errors: FAILED_PRECONDITION (read-only).
CAIRN_API cairn_status cairn_ndarray_zero(cairn_ndarray *array);

// --- segmented arrays ---------------------------------------------------------------------------------------------
//
// An array one axis of which is a table of pages of equal size; a page holds everything else for `page_rows` positions. It can grow
// without a copy, arrays can have pages in common, and positions that were never written, or dropped, are zeros that take no memory.
// Functions take such arrays wherever they take arrays. Updates of states and attention work on pages as they are; other
// operations see a copy (cairn_function_find_page_copier, cairn_function_stats.state_bytes_gathered). Elements are reached through
// cairn_ndarray_read, write, copy and slices: there is no address and strides mean nothing.

/// How an array is cut into pages.
typedef struct cairn_segments {
  int axis;           ///< the one that is a table
  int64_t page_rows;  ///< 64, 128 or 256
  /// CAIRN_DTYPE_NONE = as the elements are. CAIRN_SI8: floats are kept as int8 with an f32 scale for each position and each run of the
  /// innermost other axis (of up to 256 elements); they are rounded when they are written.
  cairn_dtype stored;
} cairn_segments;

/// A zeroed segmented array. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY, UNSUPPORTED (processors of 32 bits).
CAIRN_API cairn_status cairn_ndarray_create_segmented(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank,
                                                      const cairn_segments *segments, cairn_ndarray **out_array);

/// Gives the segmented axis `rows` positions, not fewer than it has; the new ones are zeros, and no page moves. Views made before keep
/// their shape. Errors: FAILED_PRECONDITION (not segmented, or a view), BUSY (a run has the array), INVALID_ARGUMENT, OUT_OF_RANGE,
/// OUT_OF_MEMORY (nothing changed).
CAIRN_API cairn_status cairn_ndarray_grow(cairn_ndarray *array, int64_t rows);
/// Takes the memory of positions [first, end) now, so that writing them needs none: pages of zeros for those that have none, copies of
/// those that other arrays hold too. Errors: as cairn_ndarray_grow; OUT_OF_MEMORY (some pages may have been taken).
CAIRN_API cairn_status cairn_ndarray_reserve_rows(cairn_ndarray *array, int64_t first, int64_t end);
/// Asks for `n` pages of this size to be made ready aside, by a thread of the context, now and whenever one was taken.
CAIRN_API cairn_status cairn_ndarray_keep_ready(cairn_ndarray *array, int n);
/// Makes the pages of the first `rows` positions of `target` those of `source`, without a copy: whoever writes to one first gets a copy of
/// that page. A last page that is shared in part is shared whole. Both are segmented alike and have so many positions.
/// Errors: as cairn_ndarray_grow, INVALID_ARGUMENT.
CAIRN_API cairn_status cairn_ndarray_share_rows(cairn_ndarray *source, int64_t rows, cairn_ndarray *target);
/// Gives back the pages that lie in [first, end) whole: they read as zeros. Errors: as cairn_ndarray_grow.
CAIRN_API cairn_status cairn_ndarray_drop_rows(cairn_ndarray *array, int64_t first, int64_t end);

/// What attention sees of a segmented array that a function updates. The rows of queries stand at the positions that were updated last;
/// one at position p sees, of what the model lets it see, the positions below `sinks` and those above p - `kept`. `kept` 0 = all.
typedef struct cairn_ndarray_window {
  int64_t sinks, kept;
} cairn_ndarray_window;
/// Sets it for the runs to come. Pages that no row sees any more, nor any later one, are given back as soon as an update shows it. An
/// operation that cannot honour the window fails with UNSUPPORTED. Errors: as cairn_ndarray_grow.
CAIRN_API cairn_status cairn_ndarray_set_window(cairn_ndarray *array, const cairn_ndarray_window *window);

/// What a segmented array holds; zeros for another.
typedef struct cairn_segment_counts {
  int axis;
  int64_t page_rows;
  size_t page_bytes;
  int64_t n_pages;                     ///< of the table
  int64_t n_held;                      ///< that are memory
  int64_t n_shared;                    ///< of those: held by other arrays too
  int64_t n_copied;                    ///< copies made so far because a shared page was written
  int64_t n_idle;                      ///< pages of this size that lie ready for any array of the context
  int64_t dropped_first, dropped_end;  ///< positions that lie between these were given back by a window
  int64_t bytes_read;                  ///< copied out so far
  int64_t n_waited;                    ///< of all pages ever taken in the context: those that were not made ready aside
} cairn_segment_counts;
CAIRN_API bool cairn_ndarray_is_segmented(const cairn_ndarray *array);
CAIRN_API void cairn_ndarray_count_segments(const cairn_ndarray *array, cairn_segment_counts *out_counts);
/// Address of page `i`; NULL for one that is no memory. Valid until it is dropped or written.
CAIRN_API const void *cairn_ndarray_page(const cairn_ndarray *array, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
