// Packing and unpacking complex numbers: the parts lie side by side, so both are strided copies.
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

// A complex tensor seen as its real or imaginary parts.
static void part_strides(const crn_tensor *pairs, int64_t *out_strides) {
  for (int i = 0; i < pairs->rank; i++) out_strides[i] = 2 * pairs->strides[i];
}

cairn_status crn_ref_create_complex(const crn_kernel_args *args) {
  const crn_tensor *out = &args->results[0];
  size_t bytes = cairn_dtype_bytes(out->dtype) / 2;
  int64_t strides[CAIRN_MAX_RANK];
  part_strides(out, strides);
  for (int k = 0; k < 2; k++) {
    const crn_tensor *part = &args->operands[k];
    crn_move(args->pool, bytes, out->rank, out->dims, part->data, part->strides, (char *)out->data + (size_t)k * bytes, strides);
  }
  return CAIRN_OK;
}

static cairn_status take_part(const crn_kernel_args *args, size_t which) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  size_t bytes = cairn_dtype_bytes(x->dtype) / 2;
  int64_t strides[CAIRN_MAX_RANK];
  part_strides(x, strides);
  crn_move(args->pool, bytes, x->rank, x->dims, (const char *)x->data + which * bytes, strides, out->data, out->strides);
  return CAIRN_OK;
}

cairn_status crn_ref_real_part(const crn_kernel_args *args) { return take_part(args, 0); }

cairn_status crn_ref_imaginary_part(const crn_kernel_args *args) { return take_part(args, 1); }
