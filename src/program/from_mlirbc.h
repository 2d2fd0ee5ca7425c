/// From the stored form to a program: names become op ids, attributes become fields, old forms become today's.
#ifndef CRN_PROGRAM_FROM_MLIRBC_H
#define CRN_PROGRAM_FROM_MLIRBC_H

#include "asset/mlirbc/module.h"
#include "program/ir.h"

/// Reads all graphs of a module, bodies included. The module's bytes must stay valid while the program lives (see
/// crn_program_keep). Thread: one reader of a module at a time.
/// Errors: CORRUPT, UNSUPPORTED (an op that is not known, a rank above CAIRN_MAX_RANK), OUT_OF_MEMORY.
cairn_status crn_program_from_mlirbc(const cairn_allocator *allocator, crn_bc_module *module, crn_program **out_program);

#endif
