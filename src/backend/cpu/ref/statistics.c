// Scales and zero points for quantising the slices of an axis:
//   symmetric:   scale = 2 * max|x| / (range[1] - range[0])
//   asymmetric:  scale = (max(x, 0) - min(x, 0)) / (range[1] - range[0]),  zero = clip(range[0] - min(x, 0) / scale) to the range,
// with the quotient rounded to even when the range is made of integers. Everything is computed in f64, so that the width of a
// narrow range never wraps.
#include <math.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

typedef struct statistics_job {
  const crn_tensor *x, *scale, *zero;
  int axis;
  double range[2];
  bool symmetric, rounds;
} statistics_job;

// NaN is kept, from either side.
static double larger(double a, double b) { return a != a || a >= b ? a : b; }
static double smaller(double a, double b) { return a != a || a <= b ? a : b; }

static void scan_slice(const statistics_job *job, int64_t index, double *out_low, double *out_high) {
  const crn_tensor *x = job->x;
  int64_t dims[CAIRN_MAX_RANK], base = index * x->strides[job->axis];
  for (int d = 0; d < x->rank; d++) dims[d] = d == job->axis ? 1 : x->dims[d];
  crn_nd_iter it;
  crn_nd_initialize(&it, x->rank, dims);
  crn_nd_operand(&it, x->strides);
  *out_low = *out_high = 0;
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    double v = crn_load_f64(x->dtype, crn_tensor_at(x, base + it.offset[0]));
    *out_low = smaller(*out_low, v);
    *out_high = larger(*out_high, v);
  }
}

static double quotient(cairn_dtype dtype, double a, double b) {
  uint64_t element = 0;
  if (!crn_dtype_is_float(dtype)) return a / b;
  crn_store_f64(dtype, &element, a / b);
  return crn_load_f64(dtype, &element);
}

static void slices(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const statistics_job *job = user;
  double width = job->range[1] - job->range[0];
  for (int64_t i = begin; i < end; i++) {
    double low, high;
    scan_slice(job, i, &low, &high);
    void *scale = crn_tensor_at(job->scale, i);
    crn_store_f64(job->scale->dtype, scale, (job->symmetric ? 2 * larger(high, -low) : high - low) / width);
    if (job->symmetric) continue;
    // The zero point goes with the scale as it is stored, and the quotient is one of that type: where it lies half way between two
    // integers, that decides.
    double zero = quotient(job->scale->dtype, low, crn_load_f64(job->scale->dtype, scale));
    zero = job->range[0] - (job->rounds ? rint(zero) : zero);
    if (job->rounds && zero != zero) zero = 0;
    if (zero < job->range[0]) zero = job->range[0];
    if (zero > job->range[1]) zero = job->range[1];
    crn_store_f64(job->zero->dtype, crn_tensor_at(job->zero, i), zero);
  }
}

static cairn_status run(const crn_kernel_args *args, bool symmetric) {
  const crn_tensor *x = &args->operands[0], *range = &args->operands[1];
  statistics_job job = {.x = x, .scale = &args->results[0], .symmetric = symmetric, .rounds = crn_dtype_is_integer(range->dtype)};
  if (!symmetric) job.zero = &args->results[1];
  CRN_TRY(crn_ref_axis(args, 2, x->rank, &job.axis));
  for (int i = 0; i < 2; i++) job.range[i] = crn_load_f64(range->dtype, crn_tensor_at(range, i * range->strides[0]));
  if (!(job.range[0] < job.range[1])) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the range from %g to %g is empty", crn_ref_name(args), job.range[0], job.range[1]);
  }
  int64_t n = x->dims[job.axis], count = crn_tensor_count(x);
  crn_pool_run(args->pool, n, n ? 4096 / (count / n + 1) + 1 : 1, slices, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_symmetric_quantization_statistics(const crn_kernel_args *args) { return run(args, true); }
cairn_status crn_ref_asymmetric_quantization_statistics(const crn_kernel_args *args) { return run(args, false); }
