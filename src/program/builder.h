/// Building a program op by op: used by the bytecode loader's tests and by importers. Result types come from shape
/// inference, so a built program is typed like a loaded one.
///
/// The first failure is kept: later calls do nothing and return NULL, and crn_builder_finish reports it. Importers can
/// therefore be written without a check after every line.
#ifndef CRN_PROGRAM_BUILDER_H
#define CRN_PROGRAM_BUILDER_H

#include "program/ir.h"

enum { CRN_BUILDER_REGIONS = 16 };

typedef struct crn_builder {
  crn_program *program;
  crn_graph *graph;                      ///< being built
  crn_block *open[CRN_BUILDER_REGIONS];  ///< regions begun and not ended, the innermost last
  int n_open;
  crn_value *token;  ///< newest token, NULL before the first access to a state
  uint32_t n_states;
  cairn_status status;  ///< first failure
  char message[512];    ///< its text
} crn_builder;

/// Starts a function `name` in `program`. `crn_builder_finish` must be called.
void crn_builder_begin(crn_builder *b, crn_program *program, const char *name);

/// Graph arguments. `dims` may hold -1.
crn_value *crn_build_input(crn_builder *b, const char *name, cairn_dtype dtype, const int64_t *dims, int rank);
crn_value *crn_build_state(crn_builder *b, const char *name, cairn_dtype dtype, const int64_t *dims, int rank);

/// Constants. The data is not copied and must live as long as the program (see crn_program_keep); small vectors are copied.
crn_value *crn_build_constant(crn_builder *b, const char *name, const crn_tensor *tensor, size_t stored_bytes);
crn_value *crn_build_i32(crn_builder *b, const int32_t *values, int n);   ///< a vector si32[n]
crn_value *crn_build_u32(crn_builder *b, const uint32_t *values, int n);  ///< a vector ui32[n]
crn_value *crn_build_scalar_i32(crn_builder *b, int32_t value);
crn_value *crn_build_scalar_f32(crn_builder *b, float value);

/// Any op with one result. `dtype` is the result's element type for ops that do not derive it (cast,
/// blockwise_shift_scale, argsort …), else CAIRN_DTYPE_NONE. `mode` as in crn_op.attr.mode.
crn_value *crn_build_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, cairn_dtype dtype, int mode);
/// Shorthands of crn_build_op.
crn_value *crn_build_unary(crn_builder *b, crn_op_id id, crn_value *x);
crn_value *crn_build_binary(crn_builder *b, crn_op_id id, crn_value *x, crn_value *y);
crn_value *crn_build_cast(crn_builder *b, crn_value *x, cairn_dtype dtype);
crn_value *crn_build_transpose(crn_builder *b, crn_value *x, const uint32_t *permutation, int rank);
/// slice with run-time bounds: start, end and strides are si32 vectors.
crn_value *crn_build_slice(crn_builder *b, crn_value *x, crn_value *start, crn_value *end, crn_value *strides);
crn_value *crn_build_concat(crn_builder *b, int32_t axis, crn_value *const *parts, int n);

/// A composite: an invoke of a private graph that carries the declaration. The direct kernel computes it; a built
/// composite has no body of its own, so CAIRN_COMPOSITES=body does not apply to it.
crn_value *crn_build_composite(crn_builder *b, crn_op_id id, const char *const *input_names, crn_value *const *operands, int n,
                               const crn_attr *attrs);
/// Attributes of a composite, allocated in the program.
crn_attr *crn_build_attrs(crn_builder *b, int n);

/// Regions of if, while, reduce and reduce_index. What is built between begin and end goes into the region; `types` are those of
/// its arguments (block->arguments, NULL after a failure). States cannot be used in a region.
crn_block *crn_build_region_begin(crn_builder *b, const crn_type *const *types, int n);
/// Ends the innermost region with CRN_OP_yield or CRN_OP_condition.
void crn_build_region_end(crn_builder *b, crn_op_id terminator, crn_value *const *values, int n);
const crn_type *crn_build_tensor_type(crn_builder *b, cairn_dtype dtype, const int64_t *dims, int rank);
/// An op with ended regions. `result_types` are those of its results; for ops with shape inference (reduce …) they may be NULL.
/// Returns the first of its results, which lie in a row.
crn_value *crn_build_region_op(crn_builder *b, crn_op_id id, crn_value *const *operands, int n, crn_block *const *blocks, int n_blocks,
                               const crn_type *const *result_types, int n_results);

/// State access in program order; the builder threads the token.
crn_value *crn_build_read_state(crn_builder *b, crn_value *state);
void crn_build_write_state(crn_builder *b, crn_value *state, crn_value *value);

/// Ends the function with named outputs (state tokens are added by the builder). Reports the first failure.
cairn_status crn_builder_finish(crn_builder *b, crn_value *const *outputs, const char *const *names, int n);

#endif
