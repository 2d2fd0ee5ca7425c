// Finding nonzero elements, and sparse values, which are kept dense in memory.
#include <string.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

cairn_status crn_ref_non_zero(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  crn_nd_iter it;
  int64_t n = 0;
  crn_nd_initialize(&it, x->rank, x->dims);
  crn_nd_operand(&it, x->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    if (!crn_is_nonzero(x->dtype, crn_tensor_at(x, it.offset[0]))) continue;
    if (n == out->dims[0]) break;
    for (int i = 0; i < x->rank; i++) {
      void *to = crn_tensor_at(out, n * out->strides[0] + i * out->strides[1]);
      crn_store_i64(out->dtype, to, it.index[i]);
      if (crn_load_i64(out->dtype, to) == it.index[i]) continue;
      return CRN_FAIL(OUT_OF_RANGE, "%s: index %lld does not fit %s", crn_ref_name(args), (long long)it.index[i],
                      cairn_dtype_name(out->dtype));
    }
    n++;
  }
  if (n == out->dims[0] && it.done) return CAIRN_OK;
  return CRN_FAIL(INTERNAL, "%s: the result has room for %lld elements, which is not their number", crn_ref_name(args),
                  (long long)out->dims[0]);
}

cairn_status crn_ref_build_sparse_with_bitmask(const crn_kernel_args *args) {
  const crn_tensor *values = &args->operands[0], *mask = &args->operands[1], *out = &args->results[0];
  int64_t set = crn_count_nonzero(mask);
  if (set != values->dims[0]) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the mask has %lld bits set, operand 0 has %lld values", crn_ref_name(args), (long long)set,
                    (long long)values->dims[0]);
  }
  size_t bytes = cairn_dtype_bytes(out->dtype);
  int64_t count = crn_tensor_count(out), next = 0;
  // All-zero bytes are the value zero in every element type.
  if (count > 0) memset(out->data, 0, (size_t)count * bytes);
  crn_nd_iter it;
  crn_nd_initialize(&it, mask->rank, mask->dims);
  crn_nd_operand(&it, mask->strides);
  crn_nd_operand(&it, out->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    if (!crn_is_nonzero(mask->dtype, crn_tensor_at(mask, it.offset[0]))) continue;
    crn_move_element(bytes, crn_tensor_at(values, next++ * values->strides[0]), crn_tensor_at(out, it.offset[1]));
  }
  return CAIRN_OK;
}

cairn_status crn_view_sparse_with_bitmask_to_dense(const crn_kernel_args *args, bool *out_done) {
  args->results[0] = args->operands[0];
  *out_done = true;
  return CAIRN_OK;
}

cairn_status crn_ref_sparse_with_bitmask_to_dense(const crn_kernel_args *args) {
  crn_tensor x;
  CRN_TRY(crn_ref_unpacked(args, 0, &x));
  crn_move_tensor(args->pool, &x, &args->results[0]);
  return CAIRN_OK;
}

// An older form: values of a sparse tensor are expanded where they are, the rest stays zero.
cairn_status crn_ref_sparse_with_bitmask_blockwise_shift_scale(const crn_kernel_args *args) {
  static const char zero[16] = {0};
  if (args->n_operands < 4) return CRN_FAIL(UNSUPPORTED, "%s without the mask of its values", crn_ref_name(args));
  const crn_tensor *mask = &args->operands[3], *out = &args->results[0];
  crn_infer_args operands = crn_ref_operands(args);
  crn_tensor joined, in[4] = {args->operands[0], args->operands[1], args->operands[2]};
  CRN_TRY(crn_infer_same_dims(&operands, 0, 3, &joined));
  in[3] = in[1];
  in[3].dtype = out->dtype;
  in[3].data = (void *)zero;
  for (int i = 0; i < in[3].rank; i++) in[3].strides[i] = 0;
  crn_kernel_args dense = *args;
  dense.operands = in;
  CRN_TRY(crn_ref_blockwise_shift_scale(&dense));
  crn_nd_iter it;
  crn_nd_initialize(&it, mask->rank, mask->dims);
  crn_nd_operand(&it, mask->strides);
  crn_nd_operand(&it, out->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    if (!crn_is_nonzero(mask->dtype, crn_tensor_at(mask, it.offset[0])))
      memset(crn_tensor_at(out, it.offset[1]), 0, cairn_dtype_bytes(out->dtype));
  }
  return CAIRN_OK;
}
