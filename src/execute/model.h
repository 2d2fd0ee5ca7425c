/// Making models from programs that importers built in memory.
#ifndef CRN_EXECUTE_MODEL_H
#define CRN_EXECUTE_MODEL_H

#include "cairn/model.h"
#include "program/ir.h"

/// Makes a model of a program. Takes the program over, also on failure.
cairn_status crn_model_create_from_program(cairn_context *context, crn_program *program, const cairn_model_options *options,
                                           cairn_model **out_model);

#endif
