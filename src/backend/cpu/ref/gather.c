// gather_along_axis and gather_nd. An index below zero counts from the end once; anything else outside of the dimension is
// an error that names the first bad index in row-major order, whatever the number of threads.
#include "backend/cpu/ref/gather.h"

#include <string.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

cairn_status crn_gather_fail(const crn_kernel_args *args, int64_t index, int dimension, int64_t size) {
  return CRN_FAIL(INVALID_ARGUMENT, "%s: index %lld is outside of [%lld, %lld), the range of dimension %d", crn_ref_name(args),
                  (long long)index, (long long)-size, (long long)size, dimension);
}

// --- gather_along_axis ---------------------------------------------------------------------------------------------------

typedef struct along_job {
  const crn_tensor *x, *index, *out;
  int axis;
  int n_outer;      // leading dims walked one by one; behind them the index is the same for all elements
  int64_t block;    // elements of the dims behind
  bool block_runs;  // they are without gaps in x
  size_t bytes;
  crn_first_bad bad;
} along_job;

// Item = one index tuple of the outer dims: one index read, one block copied.
static void gather_blocks(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  along_job *job = user;
  const crn_tensor *x = job->x, *index = job->index;
  int64_t steps[CAIRN_MAX_RANK], n = x->dims[job->axis];
  for (int i = 0; i < job->n_outer; i++) steps[i] = i == job->axis ? 0 : x->strides[i];
  for (int64_t item = begin; item < end; item++) {
    int64_t at[CAIRN_MAX_RANK], where = crn_move_unravel(job->n_outer, index->dims, index->strides, item, at), pick, offset = 0;
    if (!crn_gather_index(crn_gather_load(index->dtype, index->data, where), n, &pick)) {
      crn_first_bad_note(&job->bad, item);
      return;
    }
    for (int i = 0; i < job->n_outer; i++) offset += at[i] * steps[i];
    offset += pick * x->strides[job->axis];
    const char *source = (const char *)x->data + offset * (int64_t)job->bytes;
    char *target = (char *)job->out->data + item * job->block * (int64_t)job->bytes;
    if (job->block == 1) {
      crn_move_element(job->bytes, source, target);
    } else if (job->block_runs) {
      memcpy(target, source, (size_t)job->block * job->bytes);
    } else {
      int inner = x->rank - job->n_outer;
      crn_move(NULL, job->bytes, inner, job->out->dims + job->n_outer, source, x->strides + job->n_outer, target,
               job->out->strides + job->n_outer);
    }
  }
}

cairn_status crn_ref_gather_along_axis(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1], *out = &args->results[0];
  along_job job = {
      .x = x, .index = index, .out = out, .n_outer = x->rank, .block = 1, .block_runs = true, .bytes = cairn_dtype_bytes(x->dtype)};
  atomic_init(&job.bad.position, INT64_MAX);
  CRN_TRY(crn_ref_axis(args, 2, x->rank, &job.axis));
  int64_t n = crn_tensor_count(out);
  if (n == 0) return CAIRN_OK;
  // An index that was broadcast over the innermost dims moves whole blocks.
  while (job.n_outer > job.axis + 1 && (index->strides[job.n_outer - 1] == 0 || index->dims[job.n_outer - 1] == 1)) {
    int i = --job.n_outer;
    job.block_runs = job.block_runs && (out->dims[i] == 1 || x->strides[i] == job.block);
    job.block *= out->dims[i];
  }
  crn_pool_run(args->pool, n / job.block, crn_move_grain(job.block), gather_blocks, &job);
  int64_t bad = atomic_load(&job.bad.position);
  if (bad == INT64_MAX) return CAIRN_OK;
  int64_t where = crn_move_unravel(job.n_outer, index->dims, index->strides, bad, NULL);
  return crn_gather_fail(args, crn_gather_load(index->dtype, index->data, where), job.axis, x->dims[job.axis]);
}

// --- gather_nd -------------------------------------------------------------------------------------------------------------

typedef struct nd_job {
  const crn_tensor *x, *index, *out;
  int length;     // of an index vector
  int64_t block;  // elements of the slice that each vector picks
  bool block_runs;
  size_t bytes;
  crn_first_bad bad;
} nd_job;

bool crn_gather_nd_offset(const crn_tensor *x, const crn_tensor *index, int length, int64_t where, int64_t *out_offset, int *out_bad) {
  int64_t step = length > 0 ? index->strides[index->rank - 1] : 0;
  *out_offset = 0;
  for (int d = 0; d < length; d++) {
    int64_t pick;
    if (!crn_gather_index(crn_gather_load(index->dtype, index->data, where + d * step), x->dims[d], &pick)) {
      *out_bad = d;
      return false;
    }
    *out_offset += pick * x->strides[d];
  }
  return true;
}

// Item = one index vector.
static void gather_slices(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  nd_job *job = user;
  const crn_tensor *x = job->x, *index = job->index;
  for (int64_t item = begin; item < end; item++) {
    int64_t where = crn_move_unravel(index->rank - 1, index->dims, index->strides, item, NULL), offset;
    int wrong;
    if (!crn_gather_nd_offset(x, index, job->length, where, &offset, &wrong)) {
      crn_first_bad_note(&job->bad, item);
      return;
    }
    const char *source = (const char *)x->data + offset * (int64_t)job->bytes;
    char *target = (char *)job->out->data + item * job->block * (int64_t)job->bytes;
    if (job->block_runs) {
      memcpy(target, source, (size_t)job->block * job->bytes);
    } else {
      int inner = x->rank - job->length;
      crn_move(NULL, job->bytes, inner, x->dims + job->length, source, x->strides + job->length, target,
               job->out->strides + job->out->rank - inner);
    }
  }
}

cairn_status crn_ref_gather_nd(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1], *out = &args->results[0];
  nd_job job = {.x = x, .index = index, .out = out, .block = 1, .block_runs = true, .bytes = cairn_dtype_bytes(x->dtype)};
  atomic_init(&job.bad.position, INT64_MAX);
  job.length = (int)index->dims[index->rank - 1];
  int64_t n = crn_tensor_count(out);
  if (n == 0) return CAIRN_OK;
  for (int i = x->rank - 1; i >= job.length; i--) {
    job.block_runs = job.block_runs && (x->dims[i] == 1 || x->strides[i] == job.block);
    job.block *= x->dims[i];
  }
  crn_pool_run(args->pool, n / job.block, crn_move_grain(job.block), gather_slices, &job);
  int64_t bad = atomic_load(&job.bad.position), offset;
  if (bad == INT64_MAX) return CAIRN_OK;
  int64_t where = crn_move_unravel(index->rank - 1, index->dims, index->strides, bad, NULL);
  int wrong = 0;
  crn_gather_nd_offset(x, index, job.length, where, &offset, &wrong);
  return crn_gather_fail(args, crn_gather_load(index->dtype, index->data, where + wrong * index->strides[index->rank - 1]), wrong,
                         x->dims[wrong]);
}

cairn_status crn_view_picked(const crn_kernel_args *args, bool *out_done) {
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1];
  crn_tensor *view = &args->results[0];
  *out_done = false;
  if (x->packed || index->packed || index->rank < 1) return CAIRN_OK;
  int64_t offset, length = index->dims[index->rank - 1];
  int bad;
  // What is not to be seen as a view, an index out of range among it, is left to the kernel.
  if (length < 1 || crn_tensor_count(index) != length || crn_tensor_count(view) == 0) return CAIRN_OK;
  if (!crn_gather_nd_offset(x, index, (int)length, 0, &offset, &bad)) return CAIRN_OK;
  int behind = x->rank - (int)length;
  for (int d = 0; d < view->rank; d++) view->strides[d] = d < view->rank - behind ? 0 : x->strides[d - (view->rank - behind) + length];
  view->data = crn_tensor_at(x, offset);
  view->packed = false;
  *out_done = true;
  return CAIRN_OK;
}
