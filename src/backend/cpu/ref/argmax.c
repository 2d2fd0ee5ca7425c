// The place of the largest element: first of ties, and NaN never wins.
#include <math.h>

#include "backend/cpu/ref/lines.h"
#include "backend/cpu/ref/ref.h"
#include "tensor/half.h"

typedef struct argmax_job {
  const crn_tensor *x, *out;
  crn_lines lines;
} argmax_job;

// A comparison with NaN is false, so a NaN is only taken while nothing was found; starting from none (-1) keeps it out.
#define LARGEST(type, value, load)         \
  {                                        \
    const type *p = source;                \
    value most = 0;                        \
    for (int64_t i = 0; i < n; i++) {      \
      value v = load(p[i * step]);         \
      if (best >= 0 ? v > most : v == v) { \
        best = i;                          \
        most = v;                          \
      }                                    \
    }                                      \
    break;                                 \
  }
#define PLAIN(v) (v)

static int64_t largest(cairn_dtype dtype, const void *source, int64_t step, int64_t n) {
  int64_t best = -1;
  switch (dtype) {
    case CAIRN_F64:
      LARGEST(double, double, PLAIN)
    case CAIRN_F32:
      LARGEST(float, float, PLAIN)
    case CAIRN_F16:
      LARGEST(uint16_t, float, crn_f16_to_f32)
    case CAIRN_BF16:
      LARGEST(uint16_t, float, crn_bf16_to_f32)
    case CAIRN_SI64:
      LARGEST(int64_t, int64_t, PLAIN)
    case CAIRN_SI32:
      LARGEST(int32_t, int32_t, PLAIN)
    case CAIRN_UI64:
      LARGEST(uint64_t, uint64_t, PLAIN)
    case CAIRN_UI32:
      LARGEST(uint32_t, uint32_t, PLAIN)
    default: {
      // What is left has at most 16 bits or is a narrow float: f64 holds all of its values.
      int64_t bytes = (int64_t)cairn_dtype_bytes(dtype);
      double most = -INFINITY;
      for (int64_t i = 0; i < n; i++) {
        double v = crn_load_f64(dtype, (const char *)source + i * step * bytes);
        if (best >= 0 ? v > most : v == v) {
          best = i;
          most = v;
        }
      }
    }
  }
  return best < 0 ? 0 : best;
}

static void argmax_lines(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const argmax_job *job = user;
  const crn_lines *lines = &job->lines;
  for (int64_t line = begin; line < end; line++) {
    const void *source = crn_tensor_at(job->x, crn_move_unravel(lines->rank, lines->dims, lines->from, line, NULL));
    void *target = crn_tensor_at(job->out, crn_move_unravel(lines->rank, lines->dims, lines->to, line, NULL));
    crn_store_i64(job->out->dtype, target, largest(job->x->dtype, source, lines->from_step, lines->length));
  }
}

cairn_status crn_ref_argmax(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  argmax_job job = {.x = x, .out = out};
  int axis;
  CRN_TRY(crn_ref_axis(args, 1, x->rank, &axis));
  if (crn_dtype_is_complex(x->dtype)) {
    return CRN_FAIL(UNSUPPORTED, "%s: operand 0 is %s, real numbers are needed", crn_ref_name(args), cairn_dtype_name(x->dtype));
  }
  job.lines = crn_lines_along(x, out, axis);
  if (job.lines.count > 0 && job.lines.length == 0) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: dimension %d is empty and has no largest element", crn_ref_name(args), axis);
  }
  crn_pool_run(args->pool, job.lines.count, crn_move_grain(job.lines.length), argmax_lines, &job);
  return CAIRN_OK;
}
