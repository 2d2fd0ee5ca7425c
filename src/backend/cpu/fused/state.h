/// Updates of states that a program spells out with masks and shifts. Each step has a kernel that makes the new value elsewhere and a way
/// to change the old one in place.
#ifndef CRN_BACKEND_CPU_FUSED_STATE_H
#define CRN_BACKEND_CPU_FUSED_STATE_H

#include "backend/backend.h"
#include "program/infer/infer.h"

/// The result has the shape of operand 0.
cairn_status crn_infer_fused_state(const crn_infer_args *args);

/// where(mask, new, old), or where(mask, old, new). Operands: old (which has the result's shape), new, mask.
typedef struct crn_fused_choose {
  bool is_inverted;  ///< where the mask is false the new value counts
} crn_fused_choose;
cairn_status crn_fused_choose_run(const crn_kernel_args *args);
cairn_status crn_fused_choose_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// old * keep + new * take, each op rounded on its own. Operands: old (which has the result's shape), new, keep, take.
/// Elements with keep = 1 and take = 0 stay as they are where all of `new` is finite (a zero may keep its sign).
cairn_status crn_fused_blend_run(const crn_kernel_args *args);
cairn_status crn_fused_blend_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// The window [start, start + n) of old and new behind one another along an axis of which old has n elements. Operands: old, new,
/// and the window's bounds as slice takes them (start, end, strides).
typedef struct crn_fused_shift {
  int axis;
  bool cuts_old;  ///< the bounds are of a slice of old, behind which new is put
} crn_fused_shift;
cairn_status crn_fused_shift_run(const crn_kernel_args *args);
cairn_status crn_fused_shift_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// gather_along_axis on old and new behind one another. Operands: old, new, the indices. In place where the indices run on from one to the
/// next and are the same for all other dimensions.
cairn_status crn_fused_roll_run(const crn_kernel_args *args);
cairn_status crn_fused_roll_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// slice_update of one index of a dimension, without that dimension: a layer of a cache. Operands: old, the bounds as slice takes them
/// (start, end, strides), the new value.
typedef struct crn_fused_layer {
  int axis;
  int64_t index;
} crn_fused_layer;
cairn_status crn_fused_layer_run(const crn_kernel_args *args);
cairn_status crn_fused_layer_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// slice_update, in pages too.
cairn_status crn_slice_update_in_place(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

/// scatter_along_axis and scatter_nd, whose kernels can work in place.
cairn_status crn_scatter_along_axis_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);
cairn_status crn_scatter_nd_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

#endif
