/// Shape arithmetic shared by inference and the reference kernels. The contract of inference itself is in infer.h.
#ifndef CRN_PROGRAM_INFER_DIMS_H
#define CRN_PROGRAM_INFER_DIMS_H

#include "program/infer/infer.h"

enum { CRN_SHAPE_TEXT = CAIRN_MAX_RANK * 22 + 4 };

/// "[2, ?, 8]" for messages. Returns `buffer`, which has room for CRN_SHAPE_TEXT bytes.
const char *crn_shape_text(const int64_t *dims, int rank, char *buffer);

/// The name of the op for messages.
static inline const char *crn_infer_name(const crn_infer_args *args) { return crn_op_info_of(args->id)->name; }

/// Checks that at least `n` operands and one result are there and that all ranks are possible.
cairn_status crn_infer_arity(const crn_infer_args *args, int n);
/// The rank of an operand must lie in [least, most].
cairn_status crn_infer_rank(const crn_infer_args *args, int operand, int least, int most);
/// Both operands must have the same element type.
cairn_status crn_infer_same_dtype(const crn_infer_args *args, int a, int b);
/// Two operands must have the same shape; `out` gets what is known from both.
cairn_status crn_infer_same_dims(const crn_infer_args *args, int a, int b, crn_tensor *out);
/// Reads a vector operand that must have exactly `n` entries (a scalar counts as one). `*out_known` as in infer.h.
cairn_status crn_infer_vector_of(const crn_infer_args *args, int operand, int n, int64_t *out_values, bool *out_known);
/// Reads a list of distinct axes of a value of that rank into a mask. `*out_known` as in infer.h.
cairn_status crn_infer_axes(const crn_infer_args *args, int operand, int rank, bool *out_mask, int *out_n, bool *out_known);

/// The operand must hold exactly one element.
cairn_status crn_infer_single(const crn_infer_args *args, int operand);
/// Reads a bool operand of one element.
cairn_status crn_infer_flag(const crn_infer_args *args, int operand, bool *out_value, bool *out_known);

/// Stores a result. Dims the group does not know (-1) are taken from the declaration; what is known must agree with it.
/// Errors: INVALID_ARGUMENT (rank above the limit, contradiction to the declaration), OUT_OF_RANGE (size overflows).
cairn_status crn_infer_finish(const crn_infer_args *args, int result, cairn_dtype dtype, int rank, const int64_t *dims);
/// Takes the shape of a result from the declaration because nothing is known; `missing` says what is not known.
cairn_status crn_infer_finish_declared(const crn_infer_args *args, int result, cairn_dtype dtype, const char *missing);
/// The declared element type of a result, or `fallback` when nothing is declared.
cairn_dtype crn_infer_declared_dtype(const crn_infer_args *args, int result, cairn_dtype fallback);

/// The dims of [.., M, K] times [.., K, N] (both of rank 2 or more) with equal or broadcast batch dims.
cairn_status crn_infer_matmul_dims(const crn_infer_args *args, const crn_tensor *a, const crn_tensor *b, bool broadcast, crn_tensor *out);

/// The dims of gather_mm with index operands (NULL = that side is not gathered).
cairn_status crn_gather_mm_dims(const crn_infer_args *args, const crn_tensor *lhs_index, const crn_tensor *rhs_index, crn_tensor *out);
/// Whether the only index operand of a gather_mm belongs to the left side. Inference does not see the names of the
/// operands, so the shapes decide, and the declared result where both readings are possible.
bool crn_gather_mm_single_is_lhs(const crn_infer_args *args);

/// Joins two sizes of one dimension: equal, or one of them unknown.
bool crn_dim_unify(int64_t a, int64_t b, int64_t *out);
/// One dimension of a NumPy broadcast.
bool crn_dim_broadcast(int64_t a, int64_t b, int64_t *out);

/// The elements a slice takes from a dimension of size `n`: negative bounds count from the end once, then both are
/// clamped. A negative stride walks down and includes element 0 when `end` is below -n. `stride` is not 0.
void crn_slice_bounds(int64_t n, int64_t start, int64_t end, int64_t stride, int64_t *out_first, int64_t *out_count);

/// Positions of a window of `size` elements, `dilation` apart, moved by `stride` over `n` elements; false when there is none
/// or a parameter is below 1.
bool crn_window_count(int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t *out_count);

/// As crn_window_count, with a last window that may reach over the end, or begin behind it when the stride is large.
bool crn_window_count_ceil(int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t *out_count);

/// Whether an element is other than zero: NaN is, -0 is not.
bool crn_is_nonzero(cairn_dtype dtype, const void *element);
int64_t crn_count_nonzero(const crn_tensor *x);

/// Number of values of start, start + step, … before stop, all of one element type; false when the step is zero or a
/// value is not finite or the count does not fit.
bool crn_range_count(cairn_dtype dtype, const void *start, const void *stop, const void *step, int64_t *out_count);

#endif
