#include "backend/cpu/ref/ref.h"

static const crn_kernel_fn kernels[CRN_OP_COUNT] = {
#define OP_READY(id, name, n_in, n_out, traits, infer) [CRN_OP_##id] = crn_ref_##id,
#define OP_EXEC(id, name, n_in, n_out, traits)
#define OP_APPLE(id, name, n_in, n_out, traits)
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
};

static const crn_view_fn views[CRN_OP_COUNT] = {
#define VIEW(id) [CRN_OP_##id] = crn_view_##id,
#include "backend/cpu/ref/views.def"
#undef VIEW
};

// clang-format off
// views.def and the trait CRN_VIEW must name the same rows: every row of views.def has the trait, and there are as many.
enum {
#define OP_READY(id, name, n_in, n_out, traits, infer) IS_VIEW_##id = ((traits)&CRN_VIEW) != 0,
#define OP_EXEC(id, name, n_in, n_out, traits) IS_VIEW_##id = 0,
#define OP_APPLE(id, name, n_in, n_out, traits) IS_VIEW_##id = 0,
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
  N_VIEW_TRAITS = 0
#define OP_READY(id, name, n_in, n_out, traits, infer) +IS_VIEW_##id
#define OP_EXEC(id, name, n_in, n_out, traits)
#define OP_APPLE(id, name, n_in, n_out, traits)
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
  ,
  N_VIEW_ROWS = 0
#define VIEW(id) +1
#include "backend/cpu/ref/views.def"
#undef VIEW
};
#define VIEW(id) _Static_assert(IS_VIEW_##id, "views.def names " #id ", which is not a READY row with CRN_VIEW");
#include "backend/cpu/ref/views.def"
#undef VIEW
// clang-format on
_Static_assert(N_VIEW_TRAITS == N_VIEW_ROWS, "a READY row of ops.def has CRN_VIEW but no row in views.def");

crn_kernel_fn crn_ref_kernel_of(crn_op_id id) { return (unsigned)id < CRN_OP_COUNT ? kernels[id] : NULL; }

crn_view_fn crn_ref_view_of(crn_op_id id) { return (unsigned)id < CRN_OP_COUNT ? views[id] : NULL; }

bool crn_kernel_takes_packed(crn_op_id id) {
  // A view must not be made of a temporary copy: rows with a view get their operand as it is and unpack it themselves when
  // they have to copy.
  return id == CRN_OP_blockwise_shift_scale || id == CRN_OP_lut_to_dense || crn_ref_view_of(id) != NULL;
}
