// Ops that rearrange, repeat or cut: the result's shape follows from shape vectors among the operands.
#include "base/checked.h"
#include "program/infer/dims.h"

// Sizes of a result come from a vector: none may be negative.
static cairn_status check_sizes(const crn_infer_args *args, int operand, const int64_t *values, int n) {
  for (int i = 0; i < n; i++) {
    if (values[i] < 0) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d holds the size %lld, sizes are 0 or more", crn_infer_name(args), operand,
                      (long long)values[i]);
    }
  }
  return CAIRN_OK;
}

static void set_unknown(int64_t *dims, int n) {
  for (int i = 0; i < n; i++) dims[i] = CAIRN_DYNAMIC;
}

cairn_status crn_infer_broadcast_in_dims(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  const crn_tensor *x = &args->operands[0];
  int64_t sizes[CAIRN_MAX_RANK * 2], axes[CAIRN_MAX_RANK * 2], dims[CAIRN_MAX_RANK];
  int n_sizes, n_axes;
  bool sizes_known, axes_known;
  CRN_TRY(crn_infer_int_vector(args, 1, sizes, &n_sizes, &sizes_known));
  CRN_TRY(crn_infer_int_vector(args, 2, axes, &n_axes, &axes_known));
  if (n_sizes >= 0 && n_axes >= 0 && n_sizes != n_axes) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %d sizes for the %d axes of operand 2", crn_infer_name(args), n_sizes, n_axes);
  }
  if (sizes_known) CRN_TRY(check_sizes(args, 1, sizes, n_sizes));
  // Only dims of size 1 may change; with unknown axes any of them may.
  for (int i = 0; i < x->rank; i++) dims[i] = !axes_known && x->dims[i] == 1 ? CAIRN_DYNAMIC : x->dims[i];
  if (axes_known) {
    bool mask[CAIRN_MAX_RANK];
    CRN_TRY(crn_infer_axes(args, 2, x->rank, mask, &n_axes, &axes_known));
  }
  for (int i = 0; axes_known && i < n_axes; i++) {
    int axis;
    CRN_TRY(crn_infer_axis(args, axes[i], x->rank, &axis));
    int64_t to = sizes_known ? sizes[i] : CAIRN_DYNAMIC;
    if (x->dims[axis] == 1) {
      dims[axis] = to;
    } else if (!crn_dim_unify(x->dims[axis], to, &dims[axis])) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d of operand 0 has size %lld and cannot become %lld, only 1 can",
                      crn_infer_name(args), axis, (long long)x->dims[axis], (long long)to);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

cairn_status crn_infer_broadcast_shapes(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  int64_t values[CAIRN_MAX_RANK * 2];
  int n[2];
  bool known;
  for (int i = 0; i < 2; i++) CRN_TRY(crn_infer_int_vector(args, i, values, &n[i], &known));
  int64_t length = n[0] < 0 || n[1] < 0 ? CAIRN_DYNAMIC : n[0] > n[1] ? n[0] : n[1];
  return crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, args->operands[0].dtype), 1, &length);
}

// Apple's converter has no bfloat16 arrays to write constants with: torch.zeros and torch.full of a dynamic bfloat16 shape come as a
// float32 constant whose broadcast_to is declared bfloat16. Such a broadcast also rounds to the declared floating type.
static cairn_dtype broadcast_dtype(const crn_infer_args *args) {
  cairn_dtype from = args->operands[0].dtype, declared = crn_infer_declared_dtype(args, 0, from);
  return crn_dtype_is_float(from) && crn_dtype_is_float(declared) ? declared : from;
}

cairn_status crn_infer_broadcast_to(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  cairn_dtype dtype = broadcast_dtype(args);
  int64_t sizes[CAIRN_MAX_RANK * 2];
  int n;
  bool known;
  CRN_TRY(crn_infer_int_vector(args, 1, sizes, &n, &known));
  if (n < 0) return crn_infer_finish_declared(args, 0, dtype, "the length of operand 1");
  if (n < x->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %d sizes for the %d dimensions of operand 0", crn_infer_name(args), n, x->rank);
  }
  if (known) CRN_TRY(check_sizes(args, 1, sizes, n));
  if (!known) set_unknown(sizes, n);
  for (int i = 0; i < x->rank; i++) {
    int64_t from = x->dims[i], *to = &sizes[n - x->rank + i];
    // A size above 1 stays; 1 and unknown sizes take what the vector says.
    if (from != 1 && !crn_dim_unify(from, *to, to)) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d of operand 0 has size %lld and cannot become %lld, only 1 can",
                      crn_infer_name(args), i, (long long)from, (long long)*to);
    }
  }
  return crn_infer_finish(args, 0, dtype, n, sizes);
}

cairn_status crn_infer_expand_dims(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  int64_t values[CAIRN_MAX_RANK * 2], dims[CAIRN_MAX_RANK];
  int n;
  bool known, mask[CAIRN_MAX_RANK];
  CRN_TRY(crn_infer_int_vector(args, 1, values, &n, &known));
  if (n < 0) return crn_infer_finish_declared(args, 0, x->dtype, "the number of axes in operand 1");
  int rank = x->rank + n;
  if (rank > CAIRN_MAX_RANK) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: %d axes on rank %d give rank %d, at most %d is possible", crn_infer_name(args), n, x->rank, rank,
                    CAIRN_MAX_RANK);
  }
  if (!known) {
    set_unknown(dims, rank);
    return crn_infer_finish(args, 0, x->dtype, rank, dims);
  }
  CRN_TRY(crn_infer_axes(args, 1, rank, mask, &n, &known));
  for (int i = 0, from = 0; i < rank; i++) dims[i] = mask[i] ? 1 : x->dims[from++];
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

cairn_status crn_infer_shrink_dims(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  int64_t dims[CAIRN_MAX_RANK];
  int n;
  bool known, mask[CAIRN_MAX_RANK];
  CRN_TRY(crn_infer_axes(args, 1, x->rank, mask, &n, &known));
  if (n < 0) return crn_infer_finish_declared(args, 0, x->dtype, "the number of axes in operand 1");
  int rank = x->rank - n;
  if (rank < 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 names %d axes of rank %d", crn_infer_name(args), n, x->rank);
  if (!known) {
    set_unknown(dims, rank);
    return crn_infer_finish(args, 0, x->dtype, rank, dims);
  }
  int to = 0;
  for (int i = 0; i < x->rank; i++) {
    if (!mask[i]) {
      dims[to++] = x->dims[i];
    } else if (x->dims[i] != 1 && x->dims[i] != CAIRN_DYNAMIC) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d has size %lld, only size 1 can be removed", crn_infer_name(args), i,
                      (long long)x->dims[i]);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

// Product of the known sizes; false when it overflows. `*out_unknown` counts the sizes that are not known.
static bool known_product(const int64_t *dims, int rank, int64_t *out_product, int *out_unknown) {
  *out_product = 1;
  *out_unknown = 0;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == CAIRN_DYNAMIC) {
      ++*out_unknown;
    } else if (!crn_mul_i64(*out_product, dims[i], out_product)) {
      return false;
    }
  }
  return true;
}

static cairn_status fail_reshape(const crn_infer_args *args, const int64_t *dims, int n) {
  const crn_tensor *x = &args->operands[0];
  char p[CRN_SHAPE_TEXT], q[CRN_SHAPE_TEXT];
  return CRN_FAIL(INVALID_ARGUMENT, "%s: shape %s cannot become %s (? = to be found): the number of elements differs", crn_infer_name(args),
                  crn_shape_text(x->dims, x->rank, p), crn_shape_text(dims, n, q));
}

cairn_status crn_infer_reshape(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  int64_t dims[CAIRN_MAX_RANK * 2];
  int n;
  bool known;
  CRN_TRY(crn_infer_int_vector(args, 1, dims, &n, &known));
  if (n < 0) return crn_infer_finish_declared(args, 0, x->dtype, "the length of operand 1");
  if (n > CAIRN_MAX_RANK)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %d sizes, at most %d are possible", crn_infer_name(args), n, CAIRN_MAX_RANK);
  if (!known) {
    set_unknown(dims, n);
    return crn_infer_finish(args, 0, x->dtype, n, dims);
  }
  int wild = -1;
  for (int i = 0; i < n; i++) {
    // -1 asks for the size that makes the counts equal; it has the same value as an unknown size on purpose.
    if (dims[i] == CAIRN_DYNAMIC && wild < 0) {
      wild = i;
    } else if (dims[i] < 0) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 holds %lld in entry %d; sizes are 0 or more and one -1", crn_infer_name(args),
                      (long long)dims[i], i);
    }
  }
  int64_t have, want;
  int n_unknown, n_wild;
  if (!known_product(x->dims, x->rank, &have, &n_unknown) || !known_product(dims, n, &want, &n_wild)) return fail_reshape(args, dims, n);
  if (n_unknown == 0) {
    if (wild < 0 ? have != want : want == 0 || have % want) return fail_reshape(args, dims, n);
    if (wild >= 0) dims[wild] = have / want;
  }
  return crn_infer_finish(args, 0, x->dtype, n, dims);
}

cairn_status crn_infer_transpose(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  int64_t order[CAIRN_MAX_RANK], dims[CAIRN_MAX_RANK];
  bool known, mask[CAIRN_MAX_RANK];
  int n;
  CRN_TRY(crn_infer_vector_of(args, 1, x->rank, order, &known));
  CRN_TRY(crn_infer_axes(args, 1, x->rank, mask, &n, &known));
  set_unknown(dims, x->rank);
  for (int i = 0; known && i < x->rank; i++) {
    int from;
    CRN_TRY(crn_infer_axis(args, order[i], x->rank, &from));
    dims[i] = x->dims[from];
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

cairn_status crn_infer_slice(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 4));
  const crn_tensor *x = &args->operands[0];
  int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK], dims[CAIRN_MAX_RANK];
  bool start_known, end_known, stride_known;
  CRN_TRY(crn_infer_vector_of(args, 1, x->rank, start, &start_known));
  CRN_TRY(crn_infer_vector_of(args, 2, x->rank, end, &end_known));
  CRN_TRY(crn_infer_vector_of(args, 3, x->rank, stride, &stride_known));
  set_unknown(dims, x->rank);
  for (int i = 0; stride_known && i < x->rank; i++) {
    if (stride[i] == 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 3 has stride 0 in dimension %d", crn_infer_name(args), i);
    if (!start_known || !end_known || x->dims[i] == CAIRN_DYNAMIC) continue;
    int64_t first;
    crn_slice_bounds(x->dims[i], start[i], end[i], stride[i], &first, &dims[i]);
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

cairn_status crn_infer_tile(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  const crn_tensor *x = &args->operands[0];
  int64_t times[CAIRN_MAX_RANK * 2], dims[CAIRN_MAX_RANK];
  int n;
  bool known;
  CRN_TRY(crn_infer_int_vector(args, 1, times, &n, &known));
  if (n < 0) return crn_infer_finish_declared(args, 0, x->dtype, "the length of operand 1");
  int rank = n > x->rank ? n : x->rank;
  if (rank > CAIRN_MAX_RANK)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %d entries, at most %d are possible", crn_infer_name(args), n, CAIRN_MAX_RANK);
  if (known) CRN_TRY(check_sizes(args, 1, times, n));
  for (int i = 1; i <= rank; i++) {
    int64_t size = i <= x->rank ? x->dims[x->rank - i] : 1, count = i > n ? 1 : known ? times[n - i] : CAIRN_DYNAMIC;
    int64_t *to = &dims[rank - i];
    *to = count == 1 ? size : CAIRN_DYNAMIC;
    if (count == 1 || count < 0 || size < 0) continue;
    if (!crn_mul_i64(size, count, to)) {
      return CRN_FAIL(OUT_OF_RANGE, "%s: dimension %d repeated %lld times is too large", crn_infer_name(args), rank - i, (long long)count);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

// Between an image and its pixels, which is what an image is in memory.
cairn_status crn_infer_pixels(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 1));
  const crn_tensor *x = &args->operands[0];
  if (x->dtype != CAIRN_UI8) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 is %s, pixels are uint8", crn_infer_name(args), cairn_dtype_name(x->dtype));
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, x->dims);
}

cairn_status crn_infer_get_shape(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 1));
  int64_t n = args->operands[0].rank;
  return crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, CAIRN_UI32), 1, &n);
}

cairn_status crn_infer_range(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  const crn_tensor *x = args->operands;
  bool known = true;
  for (int i = 0; i < 3; i++) {
    CRN_TRY(crn_infer_same_dtype(args, 0, i));
    CRN_TRY(crn_infer_single(args, i));
    known = known && x[i].data && !x[i].packed;
  }
  if (!crn_dtype_is_float(x[0].dtype) && !crn_dtype_is_integer(x[0].dtype)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the operands are %s, numbers are needed", crn_infer_name(args), cairn_dtype_name(x[0].dtype));
  }
  int64_t count = CAIRN_DYNAMIC;
  if (known && !crn_range_count(x[0].dtype, x[0].data, x[1].data, x[2].data, &count)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: from %g to %g by %g is no finite range (the step must not be 0)", crn_infer_name(args),
                    crn_load_f64(x[0].dtype, x[0].data), crn_load_f64(x[1].dtype, x[1].data), crn_load_f64(x[2].dtype, x[2].data));
  }
  return crn_infer_finish(args, 0, x[0].dtype, 1, &count);
}

// A scalar among the joined tensors counts as a vector of one element: shape vectors are put together that way.
static crn_tensor joined_part(const crn_infer_args *args, int operand) {
  crn_tensor part = args->operands[operand];
  if (part.rank == 0) part.dims[part.rank++] = 1;
  return part;
}

// Joins one more tensor along the axis: everywhere else the sizes must be equal.
static cairn_status join_dims(const crn_infer_args *args, int operand, int axis, int64_t *dims) {
  crn_tensor x = joined_part(args, operand);
  for (int i = 0; i < x.rank; i++) {
    if (i == axis) {
      if (dims[i] == CAIRN_DYNAMIC || x.dims[i] == CAIRN_DYNAMIC) {
        dims[i] = CAIRN_DYNAMIC;
      } else if (!crn_add_i64(dims[i], x.dims[i], &dims[i])) {
        return CRN_FAIL(OUT_OF_RANGE, "%s: the joined size of dimension %d is too large", crn_infer_name(args), i);
      }
    } else if (!crn_dim_unify(dims[i], x.dims[i], &dims[i])) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has size %lld in dimension %d, the ones before have %lld", crn_infer_name(args),
                      operand, (long long)x.dims[i], i, (long long)dims[i]);
    }
  }
  return CAIRN_OK;
}

cairn_status crn_infer_concat(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  crn_tensor first = joined_part(args, 1);
  int64_t value;
  bool known;
  CRN_TRY(crn_infer_int_scalar(args, 0, &value, &known));
  if (!known && first.rank == 1) {
    value = 0;
    known = true;
  }
  int axis = -1;
  if (known) CRN_TRY(crn_infer_axis(args, value, first.rank, &axis));
  for (int k = 2; k < args->n_operands; k++) {
    CRN_TRY(crn_infer_same_dtype(args, 1, k));
    if (joined_part(args, k).rank != first.rank) CRN_TRY(crn_infer_rank(args, k, first.rank, first.rank));
    if (known) CRN_TRY(join_dims(args, k, axis, first.dims));
  }
  if (!known && args->n_operands > 2) set_unknown(first.dims, first.rank);
  return crn_infer_finish(args, 0, first.dtype, first.rank, first.dims);
}

// Entry `i` of operand 1 of split, which has its own reader because it may be longer than any shape vector.
static int64_t piece_entry(const crn_tensor *t, int i) {
  return crn_load_i64(t->dtype, crn_tensor_at(t, t->rank == 0 ? 0 : i * t->strides[0]));
}

// The size of piece `k` of a dimension of size `n` (-1 = unknown) after `taken` elements went to the pieces before.
static cairn_status piece_size(const crn_infer_args *args, int k, int64_t n, int64_t taken, int64_t *out_size) {
  bool chunks = args->operands[1].rank == 0, last = k == args->n_results - 1;
  int64_t size = piece_entry(&args->operands[1], k);
  if (size < 0 || (chunks && size == 0)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 asks for a piece of size %lld", crn_infer_name(args), (long long)size);
  }
  // The last of equal chunks is what is left over, if that is less.
  if (chunks && last && n == CAIRN_DYNAMIC) size = CAIRN_DYNAMIC;
  if (chunks && last && n > taken && n - taken < size) size = n - taken;
  *out_size = size;
  return CAIRN_OK;
}

static cairn_status check_split(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_rank(args, 0, 1, CAIRN_MAX_RANK));
  CRN_TRY(crn_infer_rank(args, 1, 0, 1));
  const crn_tensor *pieces = &args->operands[1];
  if (!crn_dtype_is_integer(pieces->dtype)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 is %s, an integer type is needed", crn_infer_name(args),
                    cairn_dtype_name(pieces->dtype));
  }
  if (pieces->rank == 1 && pieces->dims[0] != CAIRN_DYNAMIC && pieces->dims[0] != args->n_results) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %lld sizes for %d results", crn_infer_name(args), (long long)pieces->dims[0],
                    args->n_results);
  }
  return CAIRN_OK;
}

cairn_status crn_infer_split(const crn_infer_args *args) {
  CRN_TRY(check_split(args));
  const crn_tensor *x = &args->operands[0], *pieces = &args->operands[1];
  int64_t value, dims[CAIRN_MAX_RANK];
  int axis = -1;
  bool axis_known, known = pieces->data && !pieces->packed && (pieces->rank == 0 || pieces->dims[0] == args->n_results);
  CRN_TRY(crn_infer_int_scalar(args, 2, &value, &axis_known));
  if (axis_known) CRN_TRY(crn_infer_axis(args, value, x->rank, &axis));
  for (int i = 0; i < x->rank; i++) dims[i] = axis_known ? x->dims[i] : CAIRN_DYNAMIC;
  int64_t n = axis_known ? x->dims[axis] : CAIRN_DYNAMIC, taken = 0;
  for (int k = 0; k < args->n_results; k++) {
    int64_t size = CAIRN_DYNAMIC;
    if (known) CRN_TRY(piece_size(args, k, n, taken, &size));
    if (size > 0 && !crn_add_i64(taken, size, &taken))
      return CRN_FAIL(OUT_OF_RANGE, "%s: the sizes of operand 1 are too large", crn_infer_name(args));
    if (axis_known) dims[axis] = size;
    CRN_TRY(crn_infer_finish(args, k, x->dtype, x->rank, dims));
  }
  if (known && n != CAIRN_DYNAMIC && taken != n) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: %d pieces of together %lld elements do not make up the size %lld", crn_infer_name(args),
                    args->n_results, (long long)taken, (long long)n);
  }
  return CAIRN_OK;
}
