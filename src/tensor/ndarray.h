/// Inside of cairn_ndarray: shared storage and a view of it.
#ifndef CRN_TENSOR_NDARRAY_H
#define CRN_TENSOR_NDARRAY_H

#include <stdatomic.h>

#include "base/context.h"
#include "tensor/tensor.h"

typedef struct crn_storage {
  atomic_int references;
  cairn_context *context;
  void *data;
  size_t bytes;
  void (*release)(void *user);  ///< of wrapped memory
  void *user;
  bool is_wrapped;
  struct crn_pages *pages;  ///< of segmented arrays, which have no `data`; else NULL
  /// The run that uses the storage as a state; NULL when none does.
  _Atomic(const void *) busy_owner;
} crn_storage;

struct cairn_ndarray {
  atomic_int references;
  crn_storage *storage;
  /// Shape and strides; for an interleaved dimension the stride is the distance between blocks.
  crn_tensor view;
  int64_t interleave[CAIRN_MAX_RANK];
  bool is_interleaved, is_read_only;
};

/// Whether the array is a segmented one and not a cut out of one.
bool crn_ndarray_is_whole_segmented(const cairn_ndarray *array);

/// Copies between an interleaved (or plain) array and a plain tensor of its logical shape.
void crn_ndarray_copy_out(const cairn_ndarray *array, const crn_tensor *target);
/// Errors: OUT_OF_MEMORY where pages have to be had first; nothing is copied then.
cairn_status crn_ndarray_copy_in(cairn_ndarray *array, const crn_tensor *source);

/// Marks the storage as a state of `owner`. `*out_taken` tells whether this call did it (false: `owner` had it already).
/// Errors: BUSY naming `name`.
cairn_status crn_ndarray_acquire(cairn_ndarray *array, const void *owner, const char *name, bool *out_taken);
void crn_ndarray_unlock(cairn_ndarray *array, const void *owner);

/// Preferred strides of a shape with interleave, and the elements of storage they span. False on overflow.
bool crn_layout_strides(const int64_t *dims, const int64_t *interleave, int rank, int64_t *out_strides, int64_t *out_span);

/// An array over storage, whose reference the caller gives away (also on failure). `interleave` may be NULL.
cairn_status crn_ndarray_create_over(crn_storage *storage, const crn_tensor *view, const int64_t *interleave, bool read_only,
                                     cairn_ndarray **out_array);
/// An ndarray over a plain tensor in fresh zeroed storage, or sharing nothing: used by the executor for outputs.
cairn_status crn_ndarray_create_uninitialized(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank,
                                              cairn_ndarray **out_array);

#endif
