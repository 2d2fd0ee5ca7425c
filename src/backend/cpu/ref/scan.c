// Running sums, products, minima and maxima along an axis.
#include <math.h>

#include "backend/cpu/ref/lines.h"
#include "backend/cpu/ref/ref.h"

typedef struct scan_job {
  const crn_tensor *x, *out;
  crn_lines lines;
  int combiner;
  bool reverse;
} scan_job;

static double combine_floats(int combiner, double a, double b) {
  switch (combiner) {
    case CRN_COMBINE_SUM:
      return a + b;
    case CRN_COMBINE_PRODUCT:
      return a * b;
    // NaN stays, from either side.
    case CRN_COMBINE_MIN:
      return a != a || a <= b ? a : b;
    default:
      return a != a || a >= b ? a : b;
  }
}

static int64_t combine_integers(int combiner, bool is_signed, int64_t a, int64_t b) {
  bool less = is_signed ? a < b : (uint64_t)a < (uint64_t)b;
  switch (combiner) {
    case CRN_COMBINE_SUM:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case CRN_COMBINE_PRODUCT:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case CRN_COMBINE_MIN:
      return less ? a : b;
    default:
      return less ? b : a;
  }
}

static void scan_line(const scan_job *job, const char *source, char *target) {
  const crn_lines *lines = &job->lines;
  cairn_dtype dtype = job->x->dtype;
  int64_t bytes = (int64_t)cairn_dtype_bytes(dtype), n = lines->length;
  bool floats = crn_dtype_is_float(dtype), is_signed = crn_dtype_class_of(dtype) == CRN_CLASS_SINT;
  double total = 0;
  int64_t count = 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t i = job->reverse ? n - 1 - k : k;
    const char *from = source + i * lines->from_step * bytes;
    char *to = target + i * lines->to_step * bytes;
    if (floats) {
      double v = crn_load_f64(dtype, from);
      total = k == 0 ? v : combine_floats(job->combiner, total, v);
      crn_store_f64(dtype, to, total);
    } else {
      int64_t v = crn_load_i64(dtype, from);
      count = k == 0 ? v : combine_integers(job->combiner, is_signed, count, v);
      crn_store_i64(dtype, to, count);
      // Wrapping in the element's own width, as the elements do.
      count = crn_load_i64(dtype, to);
    }
  }
}

static void scan_lines(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const scan_job *job = user;
  const crn_lines *lines = &job->lines;
  for (int64_t line = begin; line < end; line++) {
    scan_line(job, crn_tensor_at(job->x, crn_move_unravel(lines->rank, lines->dims, lines->from, line, NULL)),
              crn_tensor_at(job->out, crn_move_unravel(lines->rank, lines->dims, lines->to, line, NULL)));
  }
}

cairn_status crn_ref_scan(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0];
  scan_job job = {.x = x, .out = &args->results[0], .combiner = args->mode};
  int axis;
  CRN_TRY(crn_ref_axis(args, 1, x->rank, &axis));
  if (crn_dtype_is_complex(x->dtype)) {
    return CRN_FAIL(UNSUPPORTED, "%s: operand 0 is %s, real numbers are needed", crn_ref_name(args), cairn_dtype_name(x->dtype));
  }
  if (args->mode < CRN_COMBINE_SUM || args->mode > CRN_COMBINE_MAX) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: combiner %d is not known, 0 to 3 are", crn_ref_name(args), args->mode);
  }
  CRN_TRY(crn_ref_flag(args, 2, &job.reverse));
  job.lines = crn_lines_along(x, job.out, axis);
  crn_pool_run(args->pool, job.lines.count, crn_move_grain(job.lines.length), scan_lines, &job);
  return CAIRN_OK;
}
