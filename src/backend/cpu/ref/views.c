// Results that are other looks at operand 0. Inference has already checked the shapes; what depends on data is read again
// here, because a view may be asked for without it.
#include "backend/cpu/ref/ref.h"

static bool is_empty(const crn_tensor *t) { return crn_tensor_count(t) == 0; }

// Moves the start of a view; an empty one stays where it is, so that no address outside of the operand is formed.
static void set_start(const crn_tensor *base, int64_t offset, crn_tensor *view) {
  view->data = is_empty(view) ? base->data : crn_tensor_at(base, offset);
  view->packed = false;
}

static cairn_status view_same(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  args->results[0] = *x;
  *out_done = true;
  return CAIRN_OK;
}

cairn_status crn_view_coreaix_copy_discarding_constraints(const crn_kernel_args *args, bool *out_done) { return view_same(args, out_done); }

cairn_status crn_view_coreaix_copy_with_constraints(const crn_kernel_args *args, bool *out_done) { return view_same(args, out_done); }

cairn_status crn_view_cast(const crn_kernel_args *args, bool *out_done) {
  *out_done = args->operands[0].dtype == args->results[0].dtype;
  return *out_done ? view_same(args, out_done) : CAIRN_OK;
}

cairn_status crn_view_transpose(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  int64_t order[CAIRN_MAX_RANK];
  *out_done = !x->packed;
  if (x->packed) return CAIRN_OK;
  CRN_TRY(crn_ref_vector_of(args, 1, x->rank, order));
  for (int i = 0; i < x->rank; i++) {
    int64_t from = order[i] < 0 ? order[i] + x->rank : order[i];
    view->strides[i] = x->strides[from];
  }
  set_start(x, 0, view);
  return CAIRN_OK;
}

cairn_status crn_view_slice(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK], offset = 0;
  *out_done = !x->packed;
  if (x->packed) return CAIRN_OK;
  CRN_TRY(crn_ref_vector_of(args, 1, x->rank, start));
  CRN_TRY(crn_ref_vector_of(args, 2, x->rank, end));
  CRN_TRY(crn_ref_vector_of(args, 3, x->rank, stride));
  for (int i = 0; i < x->rank; i++) {
    int64_t first, count;
    crn_slice_bounds(x->dims[i], start[i], end[i], stride[i], &first, &count);
    offset += first * x->strides[i];
    // With one element the step is never taken and may be any number: only a step that is taken is multiplied.
    view->strides[i] = count > 1 ? stride[i] * x->strides[i] : x->strides[i];
  }
  set_start(x, offset, view);
  return CAIRN_OK;
}

// A packed stream has no strides: whatever shape it is given, its elements come in the same order.
static cairn_status view_stream(const crn_kernel_args *args, bool *out_done) {
  crn_tensor *view = &args->results[0];
  crn_tensor_set_contiguous(view);
  view->data = args->operands[0].data;
  view->packed = true;
  *out_done = true;
  return CAIRN_OK;
}

cairn_status crn_view_expand_dims(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  bool mask[CAIRN_MAX_RANK];
  if (x->packed) return view_stream(args, out_done);
  CRN_TRY(crn_ref_axes(args, 1, view->rank, mask));
  // A new dimension steps over everything inside of it, as in a contiguous tensor.
  int64_t step = 1;
  for (int i = view->rank - 1, from = x->rank - 1; i >= 0; i--) {
    if (!mask[i]) {
      step = x->strides[from] * x->dims[from];
      view->strides[i] = x->strides[from--];
    } else {
      view->strides[i] = step;
    }
  }
  view->data = x->data;
  view->packed = false;
  *out_done = true;
  return CAIRN_OK;
}

cairn_status crn_view_shrink_dims(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  bool mask[CAIRN_MAX_RANK];
  if (x->packed) return view_stream(args, out_done);
  CRN_TRY(crn_ref_axes(args, 1, x->rank, mask));
  for (int i = 0, to = 0; i < x->rank; i++) {
    if (!mask[i]) view->strides[to++] = x->strides[i];
  }
  view->data = x->data;
  view->packed = false;
  *out_done = true;
  return CAIRN_OK;
}

// Gives `view` strides that walk the elements of `x` in the same order; false when no strides can. Dimensions are matched
// in the smallest groups with equal counts, and the operand must run without gaps inside of each group.
static bool reshape_strides(const crn_tensor *x, crn_tensor *view) {
  int64_t dims[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++) {
    if (x->dims[i] == 1) continue;
    dims[rank] = x->dims[i];
    strides[rank++] = x->strides[i];
  }
  int from = 0, to = 0;
  while (from < rank && to < view->rank) {
    int from_end = from + 1, to_end = to + 1;
    int64_t have = dims[from], want = view->dims[to];
    while (have != want) {
      if (have < want) {
        have *= dims[from_end++];
      } else {
        want *= view->dims[to_end++];
      }
    }
    for (int i = from; i + 1 < from_end; i++) {
      if (strides[i] != strides[i + 1] * dims[i + 1]) return false;
    }
    int64_t step = strides[from_end - 1];
    for (int i = to_end - 1; i >= to; i--) {
      view->strides[i] = step;
      step *= view->dims[i];
    }
    from = from_end;
    to = to_end;
  }
  for (; to < view->rank; to++) view->strides[to] = 1;  // of size 1
  return true;
}

cairn_status crn_view_reshape(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  if (x->packed) return view_stream(args, out_done);
  *out_done = true;
  if (is_empty(x)) {
    crn_tensor_set_contiguous(view);
  } else {
    *out_done = reshape_strides(x, view);
  }
  if (!*out_done) return CAIRN_OK;
  view->data = x->data;
  view->packed = false;
  return CAIRN_OK;
}

// Stride 0 wherever the result is larger than the operand, whose dimensions are aligned to the innermost ones.
static cairn_status view_broadcast(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  *out_done = !x->packed;
  if (x->packed) return CAIRN_OK;
  for (int i = 0; i < view->rank; i++) {
    int from = i - (view->rank - x->rank);
    view->strides[i] = from < 0 || (x->dims[from] == 1 && view->dims[i] != 1) ? 0 : x->strides[from];
  }
  set_start(x, 0, view);
  return CAIRN_OK;
}

// Not a view when the declared type differs (see crn_infer_broadcast_to): the elements must be converted.
cairn_status crn_view_broadcast_to(const crn_kernel_args *args, bool *out_done) {
  *out_done = false;
  if (args->operands[0].dtype != args->results[0].dtype) return CAIRN_OK;
  return view_broadcast(args, out_done);
}

cairn_status crn_view_broadcast_in_dims(const crn_kernel_args *args, bool *out_done) { return view_broadcast(args, out_done); }

cairn_status crn_view_reverse(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  crn_tensor *view = &args->results[0];
  bool mask[CAIRN_MAX_RANK];
  int64_t offset = 0;
  *out_done = !x->packed;
  if (x->packed) return CAIRN_OK;
  CRN_TRY(crn_ref_axes(args, 1, x->rank, mask));
  for (int i = 0; i < x->rank; i++) {
    view->strides[i] = mask[i] ? -x->strides[i] : x->strides[i];
    if (mask[i]) offset += (x->dims[i] - 1) * x->strides[i];
  }
  set_start(x, offset, view);
  return CAIRN_OK;
}

cairn_status crn_view_split(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0];
  int axis;
  int64_t at = 0;
  *out_done = !x->packed;
  if (x->packed) return CAIRN_OK;
  CRN_TRY(crn_ref_axis(args, 2, x->rank, &axis));
  for (int k = 0; k < args->n_results; k++) {
    crn_tensor *view = &args->results[k];
    for (int i = 0; i < x->rank; i++) view->strides[i] = x->strides[i];
    set_start(x, at * x->strides[axis], view);
    at += view->dims[axis];
  }
  return CAIRN_OK;
}
