/// Which operations the passed cases used, and with which element types.
#ifndef CRN_TESTS_GOLDEN_COVERAGE_H
#define CRN_TESTS_GOLDEN_COVERAGE_H

#include "cairn/model.h"
#include "program/ops.h"

typedef struct coverage {
  int data_operand[CRN_OP_COUNT];  ///< the operand whose element type counts
  uint32_t wanted[CRN_OP_COUNT];   ///< a bit per element type that has to be covered
  int n_cases[CRN_OP_COUNT][CAIRN_DTYPE_COUNT];
  bool is_used[CRN_OP_COUNT];
} coverage;

/// Reads the table of element types (op_types.txt): operation, data operand, types.
cairn_status coverage_load_types(coverage *c, const char *path);
/// Adds the operations of a case's asset, composites by their declarations.
cairn_status coverage_add(coverage *c, cairn_context *context, const char *folder);
/// Prints what no case covers: ready rows of ops.def, wanted element types. Returns how many there are.
int coverage_report(const coverage *c);
/// Writes a line per operation: name, number of cases by element type.
cairn_status coverage_write(const coverage *c, const char *path);

#endif
