/// The stored operations and the names they have in memory (op_names.def).
#ifndef CRN_ASSET_OP_NAMES_H
#define CRN_ASSET_OP_NAMES_H

#include <stdbool.h>

typedef struct crn_op_name {
  const char *stored;  ///< "primitive.add_v1"
  const char *memory;  ///< "coreai.add"
  bool has_body;       ///< carries a reference decomposition
} crn_op_name;

/// NULL when the operation is unknown. Thread: safe.
const crn_op_name *crn_find_op_name(const char *stored);
/// Number of rows, and the row at `i` in the order of the stored names.
int crn_op_name_count(void);
const crn_op_name *crn_op_name_at(int i);

#endif
