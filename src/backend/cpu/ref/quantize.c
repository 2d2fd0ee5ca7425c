// Quantisation of activations. Every step is rounded to the float type the op works in, as its decomposition does.
#include <math.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

typedef struct quantize_job {
  const crn_tensor *x, *out;
  const crn_tensor *scale, *offset1, *offset2;
  int axis;            // of the vectors, -1 = single values
  int64_t steps[3];    // of scale and offsets along the axis
  double least, most;  // of the quantised type
  bool rounds;         // to an integer type
  cairn_dtype work;
} quantize_job;

static double rounded(cairn_dtype dtype, double v) {
  if (dtype == CAIRN_F64) return v;
  if (dtype == CAIRN_F32) return (float)v;
  uint64_t element;
  crn_store_f64(dtype, &element, v);
  return crn_load_f64(dtype, &element);
}

static double parameter(const crn_tensor *t, int64_t step, int64_t at) { return crn_load_f64(t->dtype, crn_tensor_at(t, at * step)); }

static double clamp(const quantize_job *job, double v) { return v < job->least ? job->least : v > job->most ? job->most : v; }

static void quantize_elements(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const quantize_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t at[CAIRN_MAX_RANK], offset = crn_move_unravel(job->x->rank, job->x->dims, job->x->strides, i, at);
    int64_t k = job->axis < 0 ? 0 : at[job->axis];
    double v = crn_load_f64(job->x->dtype, crn_tensor_at(job->x, offset));
    v = rounded(job->work, v - rounded(job->work, parameter(job->offset2, job->steps[2], k)));
    v = rounded(job->work, v / parameter(job->scale, job->steps[0], k));
    if (job->rounds) v = rint(v);
    v = rounded(job->work, v + rounded(job->work, parameter(job->offset1, job->steps[1], k)));
    // NaN passes the clamp: as an integer it becomes 0, as a float it stays.
    if (job->rounds && v != v) v = 0;
    crn_store_f64(job->out->dtype, crn_tensor_at(job->out, i), clamp(job, v));
  }
}

static void dequantize_elements(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const quantize_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t at[CAIRN_MAX_RANK], offset = crn_move_unravel(job->x->rank, job->x->dims, job->x->strides, i, at);
    int64_t k = job->axis < 0 ? 0 : at[job->axis];
    double v = rounded(job->work, crn_load_f64(job->x->dtype, crn_tensor_at(job->x, offset)));
    v = rounded(job->work, v - rounded(job->work, parameter(job->offset1, job->steps[1], k)));
    v = rounded(job->work, v * rounded(job->work, parameter(job->scale, job->steps[0], k)));
    v = rounded(job->work, v + rounded(job->work, parameter(job->offset2, job->steps[2], k)));
    crn_store_f64(job->out->dtype, crn_tensor_at(job->out, i), v);
  }
}

// The values an element of the quantised type can have: integers by their width, floats by their largest finite number.
static bool set_limits(quantize_job *job) {
  cairn_dtype dtype = job->out->dtype;
  int bits = crn_dtype_bits(dtype);
  switch (crn_dtype_class_of(dtype)) {
    case CRN_CLASS_SINT:
      job->least = -ldexp(1, bits - 1);
      job->most = ldexp(1, bits - 1) - 1;
      break;
    case CRN_CLASS_UINT:
      job->most = ldexp(1, bits) - 1;
      break;
    case CRN_CLASS_FLOAT:
      job->most = dtype == CAIRN_F8E4M3FN ? 448 : dtype == CAIRN_F8E5M2 ? 57344 : dtype == CAIRN_F4E2M1FN ? 6 : INFINITY;
      job->least = -job->most;
      return true;
    default:
      return false;
  }
  job->rounds = true;
  return true;
}

static cairn_status run(const crn_kernel_args *args, bool dequantize) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  quantize_job job = {
      .x = x, .out = out, .scale = &args->operands[1], .offset1 = &args->operands[2], .offset2 = &args->operands[3], .axis = -1};
  for (int k = 0; k < 3; k++) {
    const crn_tensor *p = &args->operands[k + 1];
    if (p->rank == 1 && p->dims[0] > 1) {
      CRN_TRY(crn_ref_axis(args, 4, x->rank, &job.axis));
      job.steps[k] = p->strides[0];
    }
    if (crn_tensor_count(p) == 0 && crn_tensor_count(x) > 0)
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is empty", crn_ref_name(args), k + 1);
  }
  job.work = dequantize ? out->dtype : x->dtype;
  // Between integers the scale says how exact the arithmetic is.
  if (crn_dtype_is_integer(job.work)) job.work = crn_dtype_is_float(job.scale->dtype) ? job.scale->dtype : CAIRN_F32;
  if (!crn_dtype_is_float(job.work) || (!dequantize && !set_limits(&job))) {
    return CRN_FAIL(UNSUPPORTED, "%s from %s to %s", crn_ref_name(args), cairn_dtype_name(x->dtype), cairn_dtype_name(out->dtype));
  }
  crn_pool_run(args->pool, crn_tensor_count(x), CRN_MOVE_GRAIN / 8, dequantize ? dequantize_elements : quantize_elements, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_quantize(const crn_kernel_args *args) { return run(args, false); }

cairn_status crn_ref_dequantize(const crn_kernel_args *args) { return run(args, true); }
