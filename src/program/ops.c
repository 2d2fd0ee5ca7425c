#include "program/ops.h"

#include <string.h>

static const crn_op_info rows[CRN_OP_COUNT] = {
    [CRN_OP_NONE] = {"(no op)", 0, 0, 0, false},
#define OP_READY(id, name, n_in, n_out, traits, infer) [CRN_OP_##id] = {name, n_in, n_out, traits, true},
#define OP_EXEC(id, name, n_in, n_out, traits) [CRN_OP_##id] = {name, n_in, n_out, traits, true},
#define OP_APPLE(id, name, n_in, n_out, traits) [CRN_OP_##id] = {name, n_in, n_out, traits, false},
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
};

const crn_op_info *crn_op_info_of(crn_op_id id) {
  // Negative values of the enum become huge here, so that one comparison covers both ends.
  return &rows[(unsigned)id < CRN_OP_COUNT ? (unsigned)id : CRN_OP_NONE];
}

// A loader asks once per distinct op name of a file, an importer once per line of its own tables: a walk over fewer than
// two hundred rows is not worth an index.
static crn_op_id find(const char *name, bool composite) {
  for (unsigned id = CRN_OP_NONE + 1; id < CRN_OP_COUNT; id++) {
    bool is_composite = (rows[id].traits & CRN_COMPOSITE) != 0;
    if (is_composite == composite && !strcmp(rows[id].name, name)) return (crn_op_id)id;
  }
  return CRN_OP_NONE;
}

crn_op_id crn_op_find(const char *name) { return find(name, false); }

crn_op_id crn_composite_find(const char *name) { return find(name, true); }
