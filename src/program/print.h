/// A program as text, for messages, tests of passes and people.
#ifndef CRN_PROGRAM_PRINT_H
#define CRN_PROGRAM_PRINT_H

#include "base/str.h"
#include "program/ir.h"

/// "f16[1,?,64]", "handle<f16[2,1,2,?,32]>", "token".
cairn_status crn_type_print(const crn_type *type, crn_str *out);
/// One line per op: "%5 = coreai.add %3, %4 : float16[1,?,64]".
cairn_status crn_graph_print(const crn_graph *graph, crn_str *out);
cairn_status crn_program_print(const crn_program *program, crn_str *out);

#endif
