// unpack_blocks: dense values from quantised blocks (tensor/blocks.h), each step rounded to the result type as
// blockwise_shift_scale rounds it. Operands are joined along their first dimension.
#include "tensor/blocks.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"

typedef struct blocks_job {
  const crn_block_format *format;
  const crn_tensor *out;
  const unsigned char *data;
  int64_t first;  ///< block of the result
} blocks_job;

static void unpack_range(void *user, int64_t begin, int64_t end, int worker) {
  const blocks_job *j = user;
  const crn_block_format *f = j->format;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    uint8_t codes[CRN_MAX_BLOCK];
    float values[CRN_MAX_BLOCK], scale, shift;
    f->unpack(j->data + i * f->bytes, codes, &scale, &shift);
    for (int k = 0; k < f->elements; k++) {
      int code = f->bits == 8 ? (int8_t)codes[k] : codes[k];
      values[k] = (float)(code - f->zero) * scale;
    }
    if (f->has_shift) {
      crn_round_f32(j->out->dtype, values, f->elements);
      for (int k = 0; k < f->elements; k++) values[k] += shift;
    }
    crn_elements_put_f32(j->out, (j->first + i) * f->elements, f->elements, values);
  }
}

cairn_status crn_ref_unpack_blocks(const crn_kernel_args *args) {
  enum { GRAIN = 2048 };
  const crn_tensor *out = &args->results[0];
  blocks_job j = {.format = crn_block_format_of(args->mode), .out = out};
  if (!j.format || (out->dtype != CAIRN_F16 && out->dtype != CAIRN_BF16 && out->dtype != CAIRN_F32))
    return CRN_FAIL(UNSUPPORTED, "%s to %s has no kernel", crn_ref_name(args), cairn_dtype_name(out->dtype));
  for (int i = 0; i < args->n_operands; i++) {
    const crn_tensor *x = &args->operands[i];
    if (!crn_tensor_is_contiguous(x)) return CRN_FAIL(UNSUPPORTED, "%s: operand %d does not lie in order", crn_ref_name(args), i);
    int64_t n = crn_tensor_count(x) / j.format->bytes;
    j.data = x->data;
    crn_pool_run(args->pool, n, GRAIN, unpack_range, &j);
    j.first += n;
  }
  return CAIRN_OK;
}
