// Ops that look at windows or edges of the spatial dimensions.
#include "base/checked.h"
#include "program/infer/dims.h"

bool crn_window_count(int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t *out_count) {
  int64_t reach;
  if (n < 0 || size < 1 || stride < 1 || dilation < 1) return false;
  if (!crn_mul_i64(size - 1, dilation, &reach) || reach >= n) return false;
  *out_count = (n - 1 - reach) / stride + 1;
  return true;
}

bool crn_window_count_ceil(int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t *out_count) {
  int64_t reach;
  if (n < 1 || size < 1 || stride < 1 || dilation < 1) return false;
  if (!crn_mul_i64(size - 1, dilation, &reach)) return false;
  // Windows start at 0, stride, …; after the first, one is added while something is left to cover.
  int64_t left = n - 1 - reach;
  if (left <= -stride) return false;
  *out_count = left <= 0 ? 1 : (left - 1) / stride + 2;
  return true;
}

// Reads a vector with one positive entry per spatial dimension; a single entry stands for all of them.
static cairn_status positive_vector(const crn_infer_args *args, int operand, int n, int64_t *out_values, bool *out_known) {
  int64_t values[CAIRN_MAX_RANK * 2];
  int count;
  CRN_TRY(crn_infer_int_vector(args, operand, values, &count, out_known));
  if (count >= 0 && count != n && count != 1) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %d entries, it must have %d", crn_infer_name(args), operand, count, n);
  }
  for (int i = 0; *out_known && i < n; i++) {
    out_values[i] = values[count == 1 ? 0 : i];
    if (out_values[i] > 0) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d holds %lld, values above 0 are needed", crn_infer_name(args), operand,
                    (long long)out_values[i]);
  }
  return CAIRN_OK;
}

static cairn_status check_channels(const crn_infer_args *args, int64_t groups) {
  const crn_tensor *x = &args->operands[0], *w = &args->operands[1];
  int64_t in;
  if (groups < 1) return CRN_FAIL(INVALID_ARGUMENT, "%s: %lld groups, at least 1 is needed", crn_infer_name(args), (long long)groups);
  if (w->dims[0] >= 0 && w->dims[0] % groups) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: %lld output channels do not divide into %lld groups", crn_infer_name(args),
                    (long long)w->dims[0], (long long)groups);
  }
  if (w->dims[1] < 0 || x->dims[1] < 0) return CAIRN_OK;
  if (!crn_mul_i64(w->dims[1], groups, &in) || in != x->dims[1]) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 has %lld channels, the weight wants %lld in each of %lld groups", crn_infer_name(args),
                    (long long)x->dims[1], (long long)w->dims[1], (long long)groups);
  }
  return CAIRN_OK;
}

static cairn_status window_dim(const crn_infer_args *args, int i, int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t *out) {
  *out = CAIRN_DYNAMIC;
  if (n == CAIRN_DYNAMIC || size == CAIRN_DYNAMIC) return CAIRN_OK;
  if (crn_window_count(n, size, stride, dilation, out)) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: a window of %lld with dilation %lld does not fit into dimension %d of size %lld",
                  crn_infer_name(args), (long long)size, (long long)dilation, i, (long long)n);
}

cairn_status crn_infer_conv(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 5));
  int spatial = args->id == CRN_OP_conv3d ? 3 : 2, rank = spatial + 2;
  CRN_TRY(crn_infer_rank(args, 0, rank, rank));
  CRN_TRY(crn_infer_rank(args, 1, rank, rank));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  const crn_tensor *x = &args->operands[0], *w = &args->operands[1];
  int64_t stride[3], dilation[3], groups, dims[5];
  bool stride_known, dilation_known, groups_known;
  CRN_TRY(positive_vector(args, 2, spatial, stride, &stride_known));
  CRN_TRY(positive_vector(args, 3, spatial, dilation, &dilation_known));
  CRN_TRY(crn_infer_int_scalar(args, 4, &groups, &groups_known));
  if (groups_known) CRN_TRY(check_channels(args, groups));
  dims[0] = x->dims[0];
  dims[1] = w->dims[0];
  for (int i = 0; i < spatial; i++) {
    dims[i + 2] = CAIRN_DYNAMIC;
    if (!stride_known || !dilation_known) continue;
    CRN_TRY(window_dim(args, i + 2, x->dims[i + 2], w->dims[i + 2], stride[i], dilation[i], &dims[i + 2]));
  }
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

// operands: input, kernel size, strides, dilation and for the maximum whether partial windows count.
cairn_status crn_infer_pool(const crn_infer_args *args) {
  bool three = args->id == CRN_OP_max_pool_3d || args->id == CRN_OP_sum_pool_3d;
  bool has_ceil = args->id == CRN_OP_max_pool_2d || args->id == CRN_OP_max_pool_3d;
  int spatial = three ? 3 : 2, rank = spatial + 2;
  CRN_TRY(crn_infer_arity(args, has_ceil ? 5 : 4));
  CRN_TRY(crn_infer_rank(args, 0, rank, rank));
  const crn_tensor *x = &args->operands[0];
  int64_t window[3][3], dims[5];
  bool known = true, ceil = false;
  for (int k = 0; k < 3; k++) {
    bool vector_known;
    CRN_TRY(positive_vector(args, k + 1, spatial, window[k], &vector_known));
    known = known && vector_known;
  }
  if (has_ceil) {
    bool ceil_known;
    CRN_TRY(crn_infer_flag(args, 4, &ceil, &ceil_known));
    known = known && ceil_known;
  }
  dims[0] = x->dims[0];
  dims[1] = x->dims[1];
  for (int i = 2; i < rank; i++) {
    dims[i] = CAIRN_DYNAMIC;
    if (!known || x->dims[i] == CAIRN_DYNAMIC) continue;
    int64_t n = x->dims[i], size = window[0][i - 2], stride = window[1][i - 2], dilation = window[2][i - 2];
    if (ceil && crn_window_count_ceil(n, size, stride, dilation, &dims[i])) {
      // With a large stride the last window may begin outside and hold nothing. torch does not count it, and what was
      // declared by its rule is right as well.
      bool begins_outside = dims[i] > 1 && dims[i] - 1 > (n - 1) / stride;
      if (begins_outside && args->results[0].rank == rank && args->results[0].dims[i] == dims[i] - 1) dims[i]--;
      continue;
    }
    CRN_TRY(window_dim(args, i, n, size, stride, dilation, &dims[i]));
  }
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

// (n - 1) * stride - 2 * padding + dilation * (size - 1) + output padding + 1.
static cairn_status transposed_dim(const crn_infer_args *args, int i, int64_t n, int64_t size, const int64_t *p, int64_t *out) {
  *out = CAIRN_DYNAMIC;
  if (n == CAIRN_DYNAMIC || size == CAIRN_DYNAMIC) return CAIRN_OK;
  int64_t stride = p[0], padding = p[1], dilation = p[2], extra = p[3], spread, reach, edges, total;
  bool fits = n > 0 && size > 0 && crn_mul_i64(n - 1, stride, &spread) && crn_mul_i64(size - 1, dilation, &reach) &&
              crn_mul_i64(padding, 2, &edges) && crn_add_i64(spread, reach, &total) && crn_add_i64(total, extra, &total) &&
              crn_add_i64(total, 1, &total) && crn_sub_i64(total, edges, &total) && total > 0;
  if (!fits) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d of size %lld with a kernel of %lld and padding %lld gives no result",
                    crn_infer_name(args), i, (long long)n, (long long)size, (long long)padding);
  }
  *out = total;
  return CAIRN_OK;
}

// As positive_vector for amounts, which may be 0.
static cairn_status amount_vector(const crn_infer_args *args, int operand, int n, int64_t *out_values, bool *out_known) {
  int64_t values[CAIRN_MAX_RANK * 2];
  int count;
  CRN_TRY(crn_infer_int_vector(args, operand, values, &count, out_known));
  if (count >= 0 && count != n && count != 1) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %d entries, it must have %d", crn_infer_name(args), operand, count, n);
  }
  for (int i = 0; *out_known && i < n; i++) {
    out_values[i] = values[count == 1 ? 0 : i];
    if (out_values[i] >= 0) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d holds %lld, amounts are 0 or more", crn_infer_name(args), operand,
                    (long long)out_values[i]);
  }
  return CAIRN_OK;
}

static cairn_status check_transposed_channels(const crn_infer_args *args, int64_t groups, int64_t *out_channels) {
  const crn_tensor *x = &args->operands[0], *w = &args->operands[1];
  *out_channels = CAIRN_DYNAMIC;
  int64_t joined;
  if (groups < 1) return CRN_FAIL(INVALID_ARGUMENT, "%s: %lld groups, at least 1 is needed", crn_infer_name(args), (long long)groups);
  if (!crn_dim_unify(x->dims[1], w->dims[0], &joined) || (joined >= 0 && joined % groups)) {
    return CRN_FAIL(INVALID_ARGUMENT,
                    "%s: operand 0 has %lld channels, the weight has %lld; they must be equal and divide into %lld groups",
                    crn_infer_name(args), (long long)x->dims[1], (long long)w->dims[0], (long long)groups);
  }
  if (w->dims[1] >= 0 && !crn_mul_i64(w->dims[1], groups, out_channels)) {
    return CRN_FAIL(OUT_OF_RANGE, "%s: %lld groups are too many", crn_infer_name(args), (long long)groups);
  }
  return CAIRN_OK;
}

// operands: input, weight [Cin, Cout / groups, k..], stride, padding, dilation, output padding, groups.
cairn_status crn_infer_conv_transpose(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 7));
  int spatial = args->id == CRN_OP_conv_transpose3d ? 3 : 2, rank = spatial + 2;
  CRN_TRY(crn_infer_rank(args, 0, rank, rank));
  CRN_TRY(crn_infer_rank(args, 1, rank, rank));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  const crn_tensor *x = &args->operands[0], *w = &args->operands[1];
  int64_t p[4][3], groups, dims[5];
  bool known[4], all, groups_known;
  CRN_TRY(positive_vector(args, 2, spatial, p[0], &known[0]));
  CRN_TRY(amount_vector(args, 3, spatial, p[1], &known[1]));
  CRN_TRY(positive_vector(args, 4, spatial, p[2], &known[2]));
  CRN_TRY(amount_vector(args, 5, spatial, p[3], &known[3]));
  CRN_TRY(crn_infer_int_scalar(args, 6, &groups, &groups_known));
  all = known[0] && known[1] && known[2] && known[3];
  dims[0] = x->dims[0];
  dims[1] = CAIRN_DYNAMIC;
  if (groups_known) CRN_TRY(check_transposed_channels(args, groups, &dims[1]));
  for (int i = 0; i < spatial; i++) {
    dims[i + 2] = CAIRN_DYNAMIC;
    if (!all) continue;
    int64_t of_dim[4] = {p[0][i], p[1][i], p[2][i], p[3][i]};
    CRN_TRY(transposed_dim(args, i + 2, x->dims[i + 2], w->dims[i + 2], of_dim, &dims[i + 2]));
  }
  return crn_infer_finish(args, 0, x->dtype, rank, dims);
}

static cairn_status check_interpolation_mode(const crn_infer_args *args) {
  if (args->mode == CRN_INTERPOLATE_LINEAR || args->mode == CRN_INTERPOLATE_NEAREST) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: interpolation mode %d is not known, 0 and 1 are", crn_infer_name(args), args->mode);
}

static cairn_status check_float_vector(const crn_infer_args *args, int operand, int n) {
  CRN_TRY(crn_infer_rank(args, operand, 1, 1));
  const crn_tensor *t = &args->operands[operand];
  if (crn_dtype_is_float(t->dtype) && (t->dims[0] == CAIRN_DYNAMIC || t->dims[0] == n)) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is a %s vector of %lld, %d floats are needed", crn_infer_name(args), operand,
                  cairn_dtype_name(t->dtype), (long long)t->dims[0], n);
}

// operands: input, output shape, scale and offset of each dimension.
cairn_status crn_infer_interpolate(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 4));
  CRN_TRY(check_interpolation_mode(args));
  const crn_tensor *x = &args->operands[0];
  int64_t dims[CAIRN_MAX_RANK];
  bool known;
  CRN_TRY(crn_infer_vector_of(args, 1, x->rank, dims, &known));
  CRN_TRY(check_float_vector(args, 2, x->rank));
  CRN_TRY(check_float_vector(args, 3, x->rank));
  for (int i = 0; i < x->rank; i++) {
    if (!known) {
      dims[i] = CAIRN_DYNAMIC;
    } else if (dims[i] < 0 || (x->dims[i] == 0 && dims[i] > 0)) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d of size %lld cannot become %lld", crn_infer_name(args), i, (long long)x->dims[i],
                      (long long)dims[i]);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

// operands: input, coordinates [.., rank]: one sample for each.
cairn_status crn_infer_interpolate_coordinates(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(check_interpolation_mode(args));
  CRN_TRY(crn_infer_rank(args, 1, 1, CAIRN_MAX_RANK));
  const crn_tensor *x = &args->operands[0], *at = &args->operands[1];
  int64_t n = at->dims[at->rank - 1];
  if (!crn_dtype_is_float(at->dtype) || (n != CAIRN_DYNAMIC && n != x->rank)) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 holds %s coordinates of %lld numbers, floats and %d are needed", crn_infer_name(args),
                    cairn_dtype_name(at->dtype), (long long)n, x->rank);
  }
  return crn_infer_finish(args, 0, x->dtype, at->rank - 1, at->dims);
}

static cairn_status check_pad_amount(const crn_infer_args *args, int i, int64_t n, int64_t amount) {
  if (amount < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 holds %lld, amounts are 0 or more", crn_infer_name(args), (long long)amount);
  if (n == CAIRN_DYNAMIC || amount == 0 || args->mode == CRN_PAD_CONSTANT) return CAIRN_OK;
  // What each mode can take from a dimension of size n.
  int64_t most = args->mode == CRN_PAD_REFLECT ? n - 1 : n;
  if (args->mode == CRN_PAD_REPLICATE) most = n > 0 ? INT64_MAX : 0;
  if (amount <= most) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d of size %lld can be padded by at most %lld in this mode, not %lld",
                  crn_infer_name(args), i, (long long)n, (long long)(most < 0 ? 0 : most), (long long)amount);
}

cairn_status crn_infer_pad(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_same_dtype(args, 0, 2));
  CRN_TRY(crn_infer_single(args, 2));
  if (args->mode < CRN_PAD_CIRCULAR || args->mode > CRN_PAD_SYMMETRIC) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: padding mode %d is not known, 0 to 4 are", crn_infer_name(args), args->mode);
  }
  const crn_tensor *x = &args->operands[0];
  int64_t amounts[CAIRN_MAX_RANK * 2], dims[CAIRN_MAX_RANK];
  bool known;
  CRN_TRY(crn_infer_vector_of(args, 1, 2 * x->rank, amounts, &known));
  for (int i = 0; i < x->rank; i++) {
    dims[i] = CAIRN_DYNAMIC;
    if (!known) continue;
    CRN_TRY(check_pad_amount(args, i, x->dims[i], amounts[2 * i]));
    CRN_TRY(check_pad_amount(args, i, x->dims[i], amounts[2 * i + 1]));
    if (x->dims[i] == CAIRN_DYNAMIC) continue;
    if (!crn_add_i64(x->dims[i], amounts[2 * i], &dims[i]) || !crn_add_i64(dims[i], amounts[2 * i + 1], &dims[i])) {
      return CRN_FAIL(OUT_OF_RANGE, "%s: the padded size of dimension %d is too large", crn_infer_name(args), i);
    }
  }
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}
