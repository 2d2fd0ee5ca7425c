/// What the executor needs from a backend: for each op a kernel, and for view-like ops a way to do without one.
#ifndef CRN_BACKEND_BACKEND_H
#define CRN_BACKEND_BACKEND_H

#include "base/pool.h"
#include "program/ir.h"

/// Scratch memory of one kernel call: taken from the invocation, given back when the kernel returns.
typedef struct crn_scratch crn_scratch;
struct crn_scratch {
  cairn_status (*take)(crn_scratch *self, size_t bytes, void *out_pointer);  ///< 64-byte aligned, not cleared
};

/// Tables that a kernel would make again in every layer and every run, kept by what they are made from.
typedef struct crn_keeper crn_keeper;
struct crn_keeper {
  /// Memory of `bytes` bytes under a key that says everything its content depends on. `*out_is_there` tells whether it was filled before;
  /// if not the caller fills it before it does anything else. NULL when it is too large to be kept.
  cairn_status (*keep)(crn_keeper *self, const void *key, size_t key_bytes, size_t bytes, void *out_pointer, bool *out_is_there);
};

typedef struct crn_kernel_args {
  crn_op_id id;
  int mode;                        ///< the enum attribute of ops that have one
  const crn_attr *attrs;           ///< a composite's op_attrs, else NULL
  const char *const *input_names;  ///< a composite's operand names, else NULL
  const crn_region *region;        ///< of reduce and reduce_index, else NULL
  const void *fused;               ///< the parameters of a step that specialization made, else NULL
  bool is_rounded;                 ///< the precision allows arithmetic with less than f32
  bool rows_as_one;                ///< each row gets the bits it has alone, whatever kernel would be faster for all
  bool blind_rows_unused;          ///< rows that a mask hides everything from may come out as anything
  int n_operands;
  const crn_tensor *operands;  ///< any strides; `packed` only where the kernel asks for it (see crn_kernel_takes_packed)
  int n_results;
  crn_tensor *results;  ///< shapes from inference, memory given and contiguous; not cleared
  crn_pool *pool;       ///< may be NULL
  crn_scratch *scratch;
  crn_keeper *keeper;  ///< may be NULL
} crn_kernel_args;

/// Computes the results. Errors: INVALID_ARGUMENT (an index outside of its range, …), UNSUPPORTED (a dtype), OUT_OF_MEMORY.
typedef cairn_status (*crn_kernel_fn)(const crn_kernel_args *args);

/// Changes `target`, which lies where operand 0 does, into the result. `*out_bytes` is what was written; -1 = it cannot be done in place,
/// and nothing has changed.
typedef cairn_status (*crn_update_fn)(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// Makes the results views of operand 0 (dims, strides, data, dtype, packed) when that is possible without a copy and
/// says so in `*out_done`; the results come in with the inferred shapes.
typedef cairn_status (*crn_view_fn)(const crn_kernel_args *args, bool *out_done);

/// The reference kernel of an op, NULL for rows without one.
crn_kernel_fn crn_ref_kernel_of(crn_op_id id);
/// The kernel that computes an op: a library's where one is there and switched on, which leaves what it cannot do to the reference.
crn_kernel_fn crn_kernel_of(crn_op_id id);
/// The view function of an op, NULL for ops that are never views.
crn_view_fn crn_ref_view_of(crn_op_id id);
/// gather_nd with one index vector as a view. Not one of the op's own: with several vectors it is none.
cairn_status crn_view_picked(const crn_kernel_args *args, bool *out_done);
/// Whether the kernel reads packed sub-byte operands itself; otherwise the executor unpacks them first.
bool crn_kernel_takes_packed(crn_op_id id);

/// The window of `base` that the bounds of a slice_update (operands 1 to 3) describe, checked against the shape and type of
/// the update (operand 4). `args` may have another operand 0: the executor updates states in place.
cairn_status crn_ref_slice_window(const crn_kernel_args *args, crn_tensor *base, crn_tensor *out_window);

#endif
