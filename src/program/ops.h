/// Ids and static facts of ops, generated from ops.def.
#ifndef CRN_PROGRAM_OPS_H
#define CRN_PROGRAM_OPS_H

#include <stdbool.h>
#include <stdint.h>

/// Traits of an op, for verification, fusion and planning. Combine with |.
enum {
  CRN_PURE = 1 << 0,         ///< result depends on operands and attributes only; no effect
  CRN_ELEMENTWISE = 1 << 1,  ///< result element depends on the operand elements at the same (broadcast) place
  CRN_VIEW = 1 << 2,         ///< may be a view of operand 0 without a copy
  CRN_REDUCTION = 1 << 3,
  CRN_SHAPE = 1 << 4,     ///< looks only at the shape of its operand
  CRN_STATEFUL = 1 << 5,  ///< reads or writes a handle, or orders such
  CRN_TERMINATOR = 1 << 6,
  CRN_REGION = 1 << 7,      ///< carries regions that are executed
  CRN_BODY = 1 << 8,        ///< the stored form carries a decomposition body
  CRN_COMPOSITE = 1 << 9,   ///< reached through invoke of a graph with a declaration
  CRN_STRUCTURE = 1 << 10,  ///< program structure, not executed (graph, namespace, target_spec)
  CRN_SPARSE = 1 << 11      ///< operand 0 is sparse and its mask matters: the executor appends the mask as one more operand
};

typedef enum crn_op_id {
  CRN_OP_NONE = 0,
#define OP_READY(id, name, n_in, n_out, traits, infer) CRN_OP_##id,
#define OP_EXEC(id, name, n_in, n_out, traits) CRN_OP_##id,
#define OP_APPLE(id, name, n_in, n_out, traits) CRN_OP_##id,
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
  CRN_OP_COUNT
} crn_op_id;

typedef struct crn_op_info {
  const char *name;  ///< "coreai.add"; a composite's own name for composites
  int n_operands;    ///< -k means at least k-1 (variadic)
  int n_results;     ///< -1 = variadic
  uint32_t traits;
  bool is_ready;
} crn_op_info;

const crn_op_info *crn_op_info_of(crn_op_id id);
/// The row of an in-memory op name, CRN_OP_NONE when there is none.
crn_op_id crn_op_find(const char *name);
/// The row of a composite name, CRN_OP_NONE when there is none.
crn_op_id crn_composite_find(const char *name);

#endif
