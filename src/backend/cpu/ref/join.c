// Joining and writing into windows: concat, slice_update, pad.
#include <string.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

// Indices and sizes are put together from a few numbers in every layer: those are copied without more ado.
static void join_numbers(const crn_kernel_args *args) {
  size_t bytes = cairn_dtype_bytes(args->results[0].dtype);
  char *to = args->results[0].data;
  for (int k = 1; k < args->n_operands; k++) {
    const crn_tensor *part = &args->operands[k];
    int64_t n = part->rank ? part->dims[0] : 1;
    for (int64_t i = 0; i < n; i++, to += bytes) memcpy(to, (const char *)part->data + i * part->strides[0] * (int64_t)bytes, bytes);
  }
}

cairn_status crn_ref_concat(const crn_kernel_args *args) {
  crn_tensor *out = &args->results[0];
  int axis;
  CRN_TRY(crn_ref_axis(args, 0, out->rank, &axis));
  if (out->rank == 1 && out->dims[0] <= 2 * CAIRN_MAX_RANK) {
    join_numbers(args);
    return CAIRN_OK;
  }
  int64_t at = 0;
  for (int k = 1; k < args->n_operands; k++) {
    crn_tensor part = args->operands[k], window = *out;
    // Among vectors a scalar counts as a vector of one element.
    if (part.rank == 0) part.dims[part.rank++] = 1;
    if (part.dims[axis] == 0) continue;
    window.dims[axis] = part.dims[axis];
    window.data = crn_tensor_at(out, at * out->strides[axis]);
    at += window.dims[axis];
    crn_move_tensor(args->pool, &part, &window);
  }
  return CAIRN_OK;
}

cairn_status crn_ref_slice_window(const crn_kernel_args *args, crn_tensor *base, crn_tensor *out_window) {
  const crn_tensor *update = &args->operands[4];
  int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK], offset = 0;
  CRN_TRY(crn_ref_vector_of(args, 1, base->rank, start));
  CRN_TRY(crn_ref_vector_of(args, 2, base->rank, end));
  CRN_TRY(crn_ref_vector_of(args, 3, base->rank, stride));
  if (update->dtype != base->dtype || update->rank != base->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the update is %s of rank %d, the target is %s of rank %d", crn_ref_name(args),
                    cairn_dtype_name(update->dtype), update->rank, cairn_dtype_name(base->dtype), base->rank);
  }
  crn_tensor window = *base;
  bool empty = false;
  for (int i = 0; i < base->rank; i++) {
    int64_t first;
    if (stride[i] == 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 3 has stride 0 in dimension %d", crn_ref_name(args), i);
    crn_slice_bounds(base->dims[i], start[i], end[i], stride[i], &first, &window.dims[i]);
    if (window.dims[i] != update->dims[i]) {
      return CRN_FAIL(INVALID_ARGUMENT,
                      "%s: the update has size %lld in dimension %d, the slice [%lld, %lld) by %lld of %lld takes %lld elements",
                      crn_ref_name(args), (long long)update->dims[i], i, (long long)start[i], (long long)end[i], (long long)stride[i],
                      (long long)base->dims[i], (long long)window.dims[i]);
    }
    empty = empty || window.dims[i] == 0;
    offset += first * base->strides[i];
    if (window.dims[i] > 1) window.strides[i] = stride[i] * base->strides[i];
  }
  if (!empty) window.data = crn_tensor_at(base, offset);
  *out_window = window;
  return CAIRN_OK;
}

cairn_status crn_ref_slice_update(const crn_kernel_args *args) {
  crn_tensor window;
  CRN_TRY(crn_ref_slice_window(args, &args->results[0], &window));
  crn_move_tensor(args->pool, &args->operands[0], &args->results[0]);
  crn_move_tensor(args->pool, &args->operands[4], &window);
  return CAIRN_OK;
}

// --- pad ---------------------------------------------------------------------------------------------------------------

// The element of a dimension of size n that position `at` shows; at is negative before the first one.
static int64_t padded_source(crn_padding mode, int64_t at, int64_t n) {
  switch (mode) {
    case CRN_PAD_CIRCULAR:
      return at < 0 ? at + n : at >= n ? at - n : at;
    case CRN_PAD_REFLECT:
      return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    case CRN_PAD_SYMMETRIC:
      return at < 0 ? -at - 1 : at >= n ? 2 * n - 1 - at : at;
    default:
      return at < 0 ? 0 : at >= n ? n - 1 : at;
  }
}

typedef struct pad_job {
  const crn_tensor *x, *out;
  const int64_t *maps[CAIRN_MAX_RANK];  // element offset in x of each position of a dimension of the result
  int64_t before;                       // of the last dimension
  size_t bytes;
} pad_job;

// Item = one row of the result.
static void pad_rows(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const pad_job *job = user;
  const crn_tensor *x = job->x, *out = job->out;
  int last = out->rank - 1;
  int64_t n = out->dims[last], inner = x->dims[last];
  const int64_t *map = job->maps[last];
  for (int64_t row = begin; row < end; row++) {
    int64_t offset = 0, rest = row;
    for (int i = last - 1; i >= 0; i--) {
      offset += job->maps[i][rest % out->dims[i]];
      rest /= out->dims[i];
    }
    char *target = (char *)out->data + row * n * (int64_t)job->bytes;
    const char *source = (const char *)x->data + offset * (int64_t)job->bytes;
    int64_t i = 0;
    while (i < n) {
      if (i == job->before && inner > 0 && x->strides[last] == 1) {
        memcpy(target + i * (int64_t)job->bytes, source, (size_t)inner * job->bytes);
        i += inner;
        continue;
      }
      crn_move_element(job->bytes, source + map[i] * (int64_t)job->bytes, target + i * (int64_t)job->bytes);
      i++;
    }
  }
}

static cairn_status pad_mapped(const crn_kernel_args *args, const int64_t *amounts) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  pad_job job = {.x = x, .out = out, .bytes = cairn_dtype_bytes(x->dtype), .before = amounts[2 * (x->rank - 1)]};
  int64_t rows = 1;
  for (int i = 0; i < x->rank; i++) {
    int64_t *map;
    CRN_TRY(args->scratch->take(args->scratch, (size_t)out->dims[i] * sizeof *map, &map));
    for (int64_t at = 0; at < out->dims[i]; at++) {
      map[at] = padded_source((crn_padding)args->mode, at - amounts[2 * i], x->dims[i]) * x->strides[i];
    }
    job.maps[i] = map;
    if (i < x->rank - 1) rows *= out->dims[i];
  }
  crn_pool_run(args->pool, rows, crn_move_grain(out->dims[x->rank - 1]), pad_rows, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_pad(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  int64_t amounts[CAIRN_MAX_RANK * 2], offset = 0, n = crn_tensor_count(out);
  CRN_TRY(crn_ref_vector_of(args, 1, 2 * x->rank, amounts));
  if (n == 0) return CAIRN_OK;
  if (args->mode != CRN_PAD_CONSTANT && x->rank > 0) return pad_mapped(args, amounts);
  crn_tensor window = *out;
  for (int i = 0; i < x->rank; i++) {
    window.dims[i] = x->dims[i];
    offset += amounts[2 * i] * out->strides[i];
  }
  if (crn_tensor_count(x) != n) crn_move_fill(args->pool, cairn_dtype_bytes(x->dtype), args->operands[2].data, out->data, n);
  if (crn_tensor_count(x) == 0) return CAIRN_OK;
  window.data = crn_tensor_at(out, offset);
  crn_move_tensor(args->pool, x, &window);
  return CAIRN_OK;
}
