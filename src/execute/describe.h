/// The descriptors of a function, made from its graph.
#ifndef CRN_EXECUTE_DESCRIBE_H
#define CRN_EXECUTE_DESCRIBE_H

#include "cairn/asset.h"
#include "program/ir.h"

/// Values without a name get a positional one ("input0", "state1", "output2"). Memory comes from `arena`.
cairn_status crn_describe_function(crn_arena *arena, const crn_graph *graph, cairn_function_info *out_info);

#endif
