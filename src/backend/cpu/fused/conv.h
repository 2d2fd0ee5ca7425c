/// Convolutions as products of windows with packed weights: padding, bias, residual and activation in one step, results with the channels
/// next to each other.
#ifndef CRN_BACKEND_CPU_FUSED_CONV_H
#define CRN_BACKEND_CPU_FUSED_CONV_H

#include "backend/backend.h"
#include "backend/cpu/fused/activation.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "program/infer/infer.h"

enum { CRN_CONV_SPATIAL = 3 };

/// What windows see of one spatial dimension. Outside there are zeros (maxima: nothing).
typedef struct crn_window {
  int64_t size, stride, dilation, before, after;
} crn_window;

/// Operand 0 [images, channels, ..] of f32 or f16; operand 1, with `has_added`, has the result's shape (or one image for all of them). The
/// result [images, outputs, ..] has the channels innermost in memory (crn_step.minor_axis = 1).
typedef struct crn_fused_conv {
  crn_linear_weights weights;  ///< F32 [outputs][taps][channels]; of depthwise ones data is NULL
  const float *depthwise;      ///< [taps][channels], one output a channel; NULL = every output sees all channels
  int spatial;                 ///< dimensions behind the channels, 2 or 3
  int64_t channels, outputs;
  crn_window window[CRN_CONV_SPATIAL];  ///< the last `spatial` of them; the others are neutral
  const float *bias;                    ///< one an output; NULL = none
  bool has_added;
  crn_activation activation;
} crn_fused_conv;

cairn_status crn_infer_fused_conv(const crn_infer_args *args);
cairn_status crn_fused_conv_run(const crn_kernel_args *args);

/// Maxima over windows of operand 0, whose channels lie next to each other, as those of the result do. The other operands are those of
/// max_pool_2d or max_pool_3d, and are not looked at.
typedef struct crn_fused_pool {
  int spatial;
  bool ceil;  ///< windows that begin inside and reach over the end count
  crn_window window[CRN_CONV_SPATIAL];
} crn_fused_pool;

cairn_status crn_infer_fused_pool(const crn_infer_args *args);
cairn_status crn_fused_pool_run(const crn_kernel_args *args);

/// An elementwise op on operands whose channels lie next to each other: computed in the order of memory.
typedef struct crn_fused_minor {
  crn_infer_fn infer;
  crn_kernel_fn kernel;
  int axis;  ///< of the result, innermost in memory
} crn_fused_minor;

cairn_status crn_infer_fused_minor(const crn_infer_args *args);
cairn_status crn_fused_minor_run(const crn_kernel_args *args);

#endif
