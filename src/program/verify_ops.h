/// What the verifier checks of a single op. Shared inside of src/program.
#ifndef CRN_PROGRAM_VERIFY_OPS_H
#define CRN_PROGRAM_VERIFY_OPS_H

#include "program/ir.h"

/// Whether one value can stand for the other: same kind, element type and rank, and no two known sizes that differ.
bool crn_types_agree(const crn_type *a, const crn_type *b);

/// Regions have the form the executor and the kernels rely on. Errors: CORRUPT, UNSUPPORTED (naming the op).
cairn_status crn_verify_regions(const crn_graph *graph, const crn_op *op);

/// Kinds of operands and results, and what shape inference finds already now: types that contradict each other, constant
/// axes, sizes and modes that are impossible. Errors: CORRUPT naming graph and op.
cairn_status crn_verify_types(const crn_graph *graph, const crn_op *op);

#endif
