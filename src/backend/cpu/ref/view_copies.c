// The ops of views.def as copies, for when the result must be memory of its own.
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

static cairn_status copy_view(const crn_kernel_args *args, crn_view_fn view) {
  crn_tensor operands[CAIRN_MAX_RANK], seen = args->results[0];
  crn_kernel_args look = *args;
  if (args->n_operands > CAIRN_MAX_RANK) return CRN_FAIL(INTERNAL, "%s was called with %d operands", crn_ref_name(args), args->n_operands);
  for (int i = 0; i < args->n_operands; i++) operands[i] = args->operands[i];
  CRN_TRY(crn_ref_unpacked(args, 0, &operands[0]));
  look.operands = operands;
  look.results = &seen;
  bool done;
  CRN_TRY(view(&look, &done));
  if (!done) return CRN_FAIL(INTERNAL, "%s: no view of an unpacked operand", crn_ref_name(args));
  crn_move_tensor(args->pool, &seen, &args->results[0]);
  return CAIRN_OK;
}

cairn_status crn_ref_broadcast_in_dims(const crn_kernel_args *args) { return copy_view(args, crn_view_broadcast_in_dims); }

// The operand seen in the result's shape, still of its own type, is what is then converted.
static cairn_status broadcast_converted(const crn_kernel_args *args) {
  crn_tensor x, seen = args->results[0];
  crn_kernel_args look = *args, cast = *args;
  CRN_TRY(crn_ref_unpacked(args, 0, &x));
  seen.dtype = x.dtype;
  look.operands = &x;
  look.results = &seen;
  bool done;
  CRN_TRY(crn_view_broadcast_to(&look, &done));
  if (!done) return CRN_FAIL(INTERNAL, "%s: no view of an unpacked operand", crn_ref_name(args));
  cast.operands = &seen;
  cast.n_operands = 1;
  return crn_ref_cast(&cast);
}

cairn_status crn_ref_broadcast_to(const crn_kernel_args *args) {
  if (args->operands[0].dtype != args->results[0].dtype) return broadcast_converted(args);
  return copy_view(args, crn_view_broadcast_to);
}

cairn_status crn_ref_coreaix_copy_discarding_constraints(const crn_kernel_args *args) {
  return copy_view(args, crn_view_coreaix_copy_discarding_constraints);
}

cairn_status crn_ref_coreaix_copy_with_constraints(const crn_kernel_args *args) {
  return copy_view(args, crn_view_coreaix_copy_with_constraints);
}

cairn_status crn_ref_expand_dims(const crn_kernel_args *args) { return copy_view(args, crn_view_expand_dims); }

cairn_status crn_ref_reverse(const crn_kernel_args *args) { return copy_view(args, crn_view_reverse); }

cairn_status crn_ref_shrink_dims(const crn_kernel_args *args) { return copy_view(args, crn_view_shrink_dims); }

cairn_status crn_ref_slice(const crn_kernel_args *args) { return copy_view(args, crn_view_slice); }

cairn_status crn_ref_transpose(const crn_kernel_args *args) { return copy_view(args, crn_view_transpose); }

cairn_status crn_ref_reshape(const crn_kernel_args *args) {
  crn_tensor x;
  CRN_TRY(crn_ref_unpacked(args, 0, &x));
  // The result is contiguous: the operand in its own order, whatever its strides.
  crn_move_contiguous(args->pool, &x, args->results[0].data);
  return CAIRN_OK;
}

cairn_status crn_ref_split(const crn_kernel_args *args) {
  crn_tensor piece;
  int axis;
  CRN_TRY(crn_ref_unpacked(args, 0, &piece));
  CRN_TRY(crn_ref_axis(args, 2, piece.rank, &axis));
  for (int k = 0; k < args->n_results; k++) {
    piece.dims[axis] = args->results[k].dims[axis];
    crn_move_tensor(args->pool, &piece, &args->results[k]);
    piece.data = crn_tensor_at(&piece, piece.dims[axis] * piece.strides[axis]);
  }
  return CAIRN_OK;
}

cairn_status crn_ref_tile(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  // Each dimension of the result is (repetition, element) with stride 0 for the repetition.
  int64_t dims[CRN_MOVE_MAX_RANK], from[CRN_MOVE_MAX_RANK], to[CRN_MOVE_MAX_RANK];
  for (int i = 0; i < out->rank; i++) {
    int at = i - (out->rank - x->rank);
    int64_t size = at < 0 ? 1 : x->dims[at];
    dims[2 * i] = size == 0 ? 0 : out->dims[i] / size;
    dims[2 * i + 1] = size;
    from[2 * i] = 0;
    from[2 * i + 1] = at < 0 ? 0 : x->strides[at];
    to[2 * i] = out->strides[i] * size;
    to[2 * i + 1] = out->strides[i];
  }
  crn_move(args->pool, cairn_dtype_bytes(x->dtype), 2 * out->rank, dims, x->data, from, out->data, to);
  return CAIRN_OK;
}
