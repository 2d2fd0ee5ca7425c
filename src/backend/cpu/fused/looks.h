/// Steps that know themselves which part of a cache they are about. What a run writes to and sees of a cache is another part in every run;
/// bounds and views made by steps of their own would have to be prepared anew each time, and the steps behind them, too.
#ifndef CRN_BACKEND_CPU_FUSED_LOOKS_H
#define CRN_BACKEND_CPU_FUSED_LOOKS_H

#include "backend/cpu/ref/composite.h"
#include "program/infer/infer.h"

enum { CRN_LOOK_DIMS = 5, CRN_LOOK_PICKS = 2, CRN_LOOKS = 2, CRN_LOOK_INNER = 8 };

/// A view: of some dims one index is picked, the others are cut behind an end, and may change places. Small, because memory that steps
/// touch between products is not in the caches.
typedef struct crn_look {
  int8_t rank;  ///< of what is seen; 0 = the operand as it is
  int8_t n_picks;
  int8_t pick_dim[CRN_LOOK_PICKS];
  int8_t from[CRN_LOOK_DIMS];    ///< the dim it comes from
  int8_t end_at[CRN_LOOK_DIMS];  ///< the operand with its end as slice takes it; 0 = `end`
  int32_t pick[CRN_LOOK_PICKS];
  int32_t end[CRN_LOOK_DIMS];
} crn_look;

/// scaled_dot_product_attention. Operands: its own, where keys (1) and values (2) are what is looked at, then the ends.
typedef struct crn_fused_looks {
  crn_look looks[CRN_LOOKS];
  crn_attention_terms terms;
  int n_inner;  ///< operands of attention
} crn_fused_looks;

cairn_status crn_infer_fused_looks(const crn_infer_args *args);
cairn_status crn_fused_looks_run(const crn_kernel_args *args);

/// slice_update with strides of 1. Operands: old, new, then the bounds that are no constants.
typedef struct crn_fused_place {
  int8_t rank;
  int8_t start_at[CRN_LOOK_DIMS], end_at[CRN_LOOK_DIMS];  ///< the operand with the bound; 0 = it is a constant
  int32_t start[CRN_LOOK_DIMS], end[CRN_LOOK_DIMS];
} crn_fused_place;

cairn_status crn_fused_place_run(const crn_kernel_args *args);
cairn_status crn_fused_place_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes);

#endif
