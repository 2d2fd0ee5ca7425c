// Selection by a condition, with and without broadcasting.
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

enum { N_INPUTS = 3 };

typedef struct where_job {
  int rank;
  int64_t dims[CAIRN_MAX_RANK], strides[N_INPUTS][CAIRN_MAX_RANK];  // of the result's dims; neighbours joined
  const char *data[N_INPUTS];
  char *out;
  size_t bytes;
} where_job;

typedef struct element16 {
  uint64_t half[2];
} element16;

static void select_line(const where_job *job, const int64_t *offsets, char *out, int64_t n) {
  int last = job->rank - 1;
  int64_t c = job->strides[0][last], a = job->strides[1][last], b = job->strides[2][last];
  const uint8_t *condition = (const uint8_t *)job->data[0] + offsets[0];
#define SELECT(type)                                                                             \
  {                                                                                              \
    const type *x = (const type *)job->data[1] + offsets[1];                                     \
    const type *y = (const type *)job->data[2] + offsets[2];                                     \
    if (c == 1 && a == 1 && b == 1) {                                                            \
      for (int64_t i = 0; i < n; i++) ((type *)out)[i] = condition[i] ? x[i] : y[i];             \
    } else {                                                                                     \
      for (int64_t i = 0; i < n; i++) ((type *)out)[i] = condition[i * c] ? x[i * a] : y[i * b]; \
    }                                                                                            \
    break;                                                                                       \
  }
  switch (job->bytes) {
    case 1:
      SELECT(uint8_t)
    case 2:
      SELECT(uint16_t)
    case 4:
      SELECT(uint32_t)
    case 8:
      SELECT(uint64_t)
    default:
      SELECT(element16)
  }
#undef SELECT
}

// Elements [begin, end) of the result, line by line.
static void select_elements(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const where_job *job = user;
  int last = job->rank - 1;
  for (int64_t at = begin; at < end;) {
    int64_t offsets[N_INPUTS], column = at % job->dims[last], n = job->dims[last] - column;
    if (n > end - at) n = end - at;
    for (int k = 0; k < N_INPUTS; k++) offsets[k] = crn_move_unravel(job->rank, job->dims, job->strides[k], at, NULL);
    select_line(job, offsets, job->out + at * (int64_t)job->bytes, n);
    at += n;
  }
}

static void add_dim(where_job *job, int64_t size, const int64_t *strides) {
  if (size == 1) return;
  int k = job->rank;
  bool runs_on = k > 0;
  for (int i = 0; runs_on && i < N_INPUTS; i++) runs_on = job->strides[i][k - 1] == strides[i] * size;
  if (!runs_on) {
    job->rank++;
    job->dims[k] = 1;
  } else {
    k--;
  }
  job->dims[k] *= size;
  for (int i = 0; i < N_INPUTS; i++) job->strides[i][k] = strides[i];
}

static cairn_status select_broadcast(const crn_kernel_args *args) {
  const crn_tensor *out = &args->results[0];
  where_job job = {.out = out->data, .bytes = cairn_dtype_bytes(out->dtype)};
  int64_t n = crn_tensor_count(out);
  if (n == 0) return CAIRN_OK;
  for (int i = 0; i < N_INPUTS; i++) job.data[i] = args->operands[i].data;
  for (int d = 0; d < out->rank; d++) {
    int64_t strides[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++) {
      const crn_tensor *x = &args->operands[i];
      int at = d - (out->rank - x->rank);
      strides[i] = at < 0 || x->dims[at] == 1 ? 0 : x->strides[at];
    }
    add_dim(&job, out->dims[d], strides);
  }
  if (job.rank == 0) job.dims[job.rank++] = 1;
  crn_pool_run(args->pool, n, CRN_MOVE_GRAIN, select_elements, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_where(const crn_kernel_args *args) { return select_broadcast(args); }

cairn_status crn_ref_broadcasting_where(const crn_kernel_args *args) { return select_broadcast(args); }
