// Images are kept as their pixels, in the very shape image_to_tensor gives them: going to and fro costs nothing.
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

static cairn_status view_pixels(const crn_kernel_args *args, bool *out_done) {
  args->results[0] = args->operands[0];
  *out_done = true;
  return CAIRN_OK;
}

static cairn_status copy_pixels(const crn_kernel_args *args) {
  crn_move_tensor(args->pool, &args->operands[0], &args->results[0]);
  return CAIRN_OK;
}

cairn_status crn_view_image_to_tensor(const crn_kernel_args *args, bool *out_done) { return view_pixels(args, out_done); }
cairn_status crn_view_tensor_to_image(const crn_kernel_args *args, bool *out_done) { return view_pixels(args, out_done); }
cairn_status crn_ref_image_to_tensor(const crn_kernel_args *args) { return copy_pixels(args); }
cairn_status crn_ref_tensor_to_image(const crn_kernel_args *args) { return copy_pixels(args); }
