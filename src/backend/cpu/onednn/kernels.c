// The kernel of an op: a library's where that is built in, else the reference.
#include "backend/cpu/onednn/library.h"

static cairn_status convolve(const crn_kernel_args *args) {
  cairn_status status = crn_onednn_conv(args);
  return status == CAIRN_UNSUPPORTED ? crn_ref_kernel_of(args->id)(args) : status;
}

crn_kernel_fn crn_kernel_of(crn_op_id id) {
  bool convolves = id == CRN_OP_conv2d || id == CRN_OP_conv3d;
  return convolves && crn_onednn_available() ? convolve : crn_ref_kernel_of(id);
}
