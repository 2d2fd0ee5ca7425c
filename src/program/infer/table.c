#include "program/infer/infer.h"

static const crn_infer_fn functions[CRN_OP_COUNT] = {
#define OP_READY(id, name, n_in, n_out, traits, infer) [CRN_OP_##id] = crn_infer_##infer,
#define OP_EXEC(id, name, n_in, n_out, traits)
#define OP_APPLE(id, name, n_in, n_out, traits)
#include "program/ops.def"
#undef OP_READY
#undef OP_EXEC
#undef OP_APPLE
};

crn_infer_fn crn_infer_of(crn_op_id id) { return (unsigned)id < CRN_OP_COUNT ? functions[id] : NULL; }
