// Ops that compute shapes and number sequences.
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

cairn_status crn_ref_get_shape(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  for (int i = 0; i < x->rank; i++) {
    void *to = crn_tensor_at(out, i);
    crn_store_i64(out->dtype, to, x->dims[i]);
    if (crn_load_i64(out->dtype, to) == x->dims[i]) continue;
    return CRN_FAIL(OUT_OF_RANGE, "%s: size %lld of dimension %d does not fit %s", crn_ref_name(args), (long long)x->dims[i], i,
                    cairn_dtype_name(out->dtype));
  }
  return CAIRN_OK;
}

cairn_status crn_ref_broadcast_shapes(const crn_kernel_args *args) {
  const crn_tensor *out = &args->results[0];
  crn_infer_args operands = crn_ref_operands(args);
  crn_tensor shapes[2], joined;
  for (int k = 0; k < 2; k++) {
    int64_t dims[CAIRN_MAX_RANK * 2];
    CRN_TRY(crn_ref_int_vector(args, k, dims, &shapes[k].rank));
    if (shapes[k].rank > CAIRN_MAX_RANK) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %d sizes, at most %d are possible", crn_ref_name(args), k, shapes[k].rank,
                      CAIRN_MAX_RANK);
    }
    for (int i = 0; i < shapes[k].rank; i++) {
      if (dims[i] < 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d holds the size %lld", crn_ref_name(args), k, (long long)dims[i]);
      shapes[k].dims[i] = dims[i];
    }
  }
  CRN_TRY(crn_infer_broadcast_dims(&operands, &shapes[0], &shapes[1], &joined));
  for (int i = 0; i < joined.rank; i++) crn_store_i64(out->dtype, crn_tensor_at(out, i), joined.dims[i]);
  return CAIRN_OK;
}

// --- range ---------------------------------------------------------------------------------------------------------------

typedef struct range_job {
  const crn_tensor *out;
  double start, step;
  uint64_t integer_start, integer_step;
} range_job;

// Unsigned arithmetic, because the numbers wrap in their own type and the last step may leave it.
static void range_integers(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const range_job *job = user;
  if (job->out->dtype == CAIRN_SI32 && job->out->strides[0] == 1) {
    uint32_t *out = job->out->data, value = (uint32_t)(job->integer_start + (uint64_t)begin * job->integer_step);
    for (int64_t i = begin; i < end; i++, value += (uint32_t)job->integer_step) out[i] = value;
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    crn_store_i64(job->out->dtype, crn_tensor_at(job->out, i), (int64_t)(job->integer_start + (uint64_t)i * job->integer_step));
  }
}

static void range_floats(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const range_job *job = user;
  for (int64_t i = begin; i < end; i++) crn_store_f64(job->out->dtype, crn_tensor_at(job->out, i), job->start + (double)i * job->step);
}

cairn_status crn_ref_range(const crn_kernel_args *args) {
  const crn_tensor *out = &args->results[0], *start = &args->operands[0], *step = &args->operands[2];
  range_job job = {.out = out};
  bool floats = crn_dtype_is_float(out->dtype);
  if (floats) {
    job.start = crn_load_f64(start->dtype, start->data);
    job.step = crn_load_f64(step->dtype, step->data);
  } else {
    job.integer_start = (uint64_t)crn_load_i64(start->dtype, start->data);
    job.integer_step = (uint64_t)crn_load_i64(step->dtype, step->data);
  }
  crn_pool_run(args->pool, out->dims[0], CRN_MOVE_GRAIN, floats ? range_floats : range_integers, &job);
  return CAIRN_OK;
}
