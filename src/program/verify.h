/// Checks that a program is well formed: what the executor may rely on.
#ifndef CRN_PROGRAM_VERIFY_H
#define CRN_PROGRAM_VERIFY_H

#include "program/ir.h"

/// Operand and result counts against ops.def, definition before use, terminators, kinds of values (tensor, handle, token,
/// image), possible types, what shape inference finds from types and constants, the form of regions, calls against the
/// signature of the called graph, no recursion, one token per state of a function.
/// Errors: CORRUPT naming graph and op.
cairn_status crn_program_verify(const crn_program *program);

/// Whether every op a function reaches can run. Errors: UNSUPPORTED naming the op.
cairn_status crn_program_check_ready(const crn_program *program, const crn_graph *function);

#endif
