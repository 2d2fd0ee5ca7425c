// Element type changes. The conversion rules are those of crn_convert; the common float pairs have vector code.
#include "backend/cpu/kernels/convert/convert.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

enum { SHORT_RUN = 16 };

typedef struct cast_job {
  const crn_tensor *x, *out;
  const crn_convert_kernels *fast;
  int n_outer;  // leading dims, in whose order the runs come
  int64_t run;  // elements of the operand without gaps
} cast_job;

static void convert_run(const cast_job *job, const void *source, void *target, int64_t n) {
  cairn_dtype from = job->x->dtype, to = job->out->dtype;
  if (from == CAIRN_F16 && to == CAIRN_F32) {
    job->fast->f16_f32(source, target, n);
  } else if (from == CAIRN_F32 && to == CAIRN_F16) {
    job->fast->f32_f16(source, target, n);
  } else if (from == CAIRN_BF16 && to == CAIRN_F32) {
    job->fast->bf16_f32(source, target, n);
  } else if (from == CAIRN_F32 && to == CAIRN_BF16) {
    job->fast->f32_bf16(source, target, n);
  } else {
    crn_convert(from, source, to, target, n);
  }
}

// Elements [begin, end) of the result, run by run.
static void cast_elements(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const cast_job *job = user;
  const crn_tensor *x = job->x;
  for (int64_t at = begin; at < end;) {
    int64_t inside = at % job->run, n = job->run - inside;
    if (n > end - at) n = end - at;
    int64_t offset = crn_move_unravel(job->n_outer, x->dims, x->strides, at / job->run, NULL) + inside;
    convert_run(job, crn_tensor_at(x, offset), crn_tensor_at(job->out, at), n);
    at += n;
  }
}

// The innermost dims over which the operand has no gaps make up a run.
static void find_runs(cast_job *job) {
  const crn_tensor *x = job->x;
  job->n_outer = x->rank;
  job->run = 1;
  while (job->n_outer > 0 && (x->dims[job->n_outer - 1] == 1 || x->strides[job->n_outer - 1] == job->run))
    job->run *= x->dims[--job->n_outer];
}

cairn_status crn_ref_cast(const crn_kernel_args *args) {
  const crn_tensor *out = &args->results[0];
  crn_tensor x;
  CRN_TRY(crn_ref_unpacked(args, 0, &x));
  if (x.dtype == out->dtype) {
    crn_move_tensor(args->pool, &x, out);
    return CAIRN_OK;
  }
  int64_t n = crn_tensor_count(out);
  if (n == 0) return CAIRN_OK;
  cast_job job = {.x = &x, .out = out, .fast = crn_convert_select()};
  find_runs(&job);
  if (job.run < SHORT_RUN && job.run < n) {
    // Too short to be worth a conversion each: put in order first.
    void *ordered;
    CRN_TRY(args->scratch->take(args->scratch, (size_t)n * cairn_dtype_bytes(x.dtype), &ordered));
    crn_move_contiguous(args->pool, &x, ordered);
    x = crn_tensor_make(x.dtype, x.dims, x.rank, ordered);
    find_runs(&job);
  }
  crn_pool_run(args->pool, n, CRN_MOVE_GRAIN, cast_elements, &job);
  return CAIRN_OK;
}
