/// Views of views as one step: slices, reshapes, transpositions and changes of rank, one after the other.
#ifndef CRN_BACKEND_CPU_FUSED_CHAIN_H
#define CRN_BACKEND_CPU_FUSED_CHAIN_H

#include "backend/backend.h"
#include "program/infer/infer.h"

enum { CRN_CHAIN_LINKS = 6, CRN_CHAIN_OPERANDS = 4 };

typedef struct crn_chain_link {
  crn_op_id id;
  crn_infer_fn infer;
  crn_view_fn view;
  crn_kernel_fn kernel;
  int n_more;            ///< operands besides what the link looks at
  const crn_type *type;  ///< of its result
} crn_chain_link;

/// Operand 0 is what the first link looks at; the others' operands follow in order.
typedef struct crn_fused_chain {
  int n;
  crn_chain_link links[CRN_CHAIN_LINKS];
} crn_fused_chain;

/// Infers the shape, and finds the view on the way: where there is one it is in result 0 already (data, strides), else its data are NULL.
cairn_status crn_infer_fused_chain(const crn_infer_args *args);
cairn_status crn_fused_chain_view(const crn_kernel_args *args, bool *out_done);
/// For when a link is no view: reshapes of what does not lie together.
cairn_status crn_fused_chain_run(const crn_kernel_args *args);

#endif
