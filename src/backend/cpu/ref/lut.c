// lut_to_dense: every index picks an entry of the palette of its group. The sparse form does so where its mask is set.
#include <string.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

typedef struct lut_job {
  const crn_tensor *index, *table, *out;
  int axis;                       // where the elements of an entry go
  int64_t vector;                 // elements of an entry
  int64_t group[CAIRN_MAX_RANK];  // elements of a dimension that share a palette
  int64_t palette_step, vector_step;
  int64_t mask;  // of the bits an index has: a caller's bytes may hold others
  int64_t row;   // indices in a row
  size_t bytes;
} lut_job;

enum { CHUNK = 256 };

// `n` indices of a row, one byte each, from place `k` on; `row` is the row's number and `from` the offset of its first one.
static const uint8_t *load_indices(const lut_job *job, int64_t row, int64_t from, int64_t k, int64_t n, uint8_t *buffer) {
  const crn_tensor *index = job->index;
  const uint8_t *bytes = index->data;
  if (!index->packed) {
    int64_t step = index->rank == 0 ? 1 : index->strides[index->rank - 1];
    if (step == 1) return bytes + from + k;
    for (int64_t i = 0; i < n; i++) buffer[i] = bytes[from + (k + i) * step];
    return buffer;
  }
  // A bit stream without gaps between the rows.
  int bits = crn_dtype_bits(index->dtype);
  for (int64_t i = 0; i < n; i++) buffer[i] = (uint8_t)crn_packed_code(bytes, row * job->row + k + i, bits);
  return buffer;
}

// The entries of `n` indices of one row, from place `k` on.
static void look_up(const lut_job *job, const uint8_t *indices, int64_t k, int64_t n, int64_t palette, int64_t to) {
  const crn_tensor *table = job->table, *out = job->out;
  int last = job->index->rank - 1;
  int64_t out_step = last < 0 ? 0 : out->strides[last] * (last == job->axis ? job->vector : 1), bytes = (int64_t)job->bytes;
  int64_t entry_step = job->vector > 1 ? out->strides[job->axis] : 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = palette + (last < 0 ? 0 : (k + i) / job->group[last] * table->strides[last]);
    const char *entry = crn_tensor_at(table, at + (indices[i] & job->mask) * job->palette_step);
    char *target = crn_tensor_at(out, to + (k + i) * out_step);
    for (int64_t v = 0; v < job->vector; v++)
      crn_move_element(job->bytes, entry + v * job->vector_step * bytes, target + v * entry_step * bytes);
  }
}

// Item = one row of indices (all of them for rank 0).
static void look_up_rows(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const lut_job *job = user;
  const crn_tensor *index = job->index;
  uint8_t buffer[CHUNK];
  for (int64_t row = begin; row < end; row++) {
    int64_t rest = row, from = 0, to = 0, palette = 0;
    for (int i = index->rank - 2; i >= 0; i--) {
      int64_t at = rest % index->dims[i];
      rest /= index->dims[i];
      from += at * index->strides[i];
      to += at * job->out->strides[i] * (i == job->axis ? job->vector : 1);
      palette += at / job->group[i] * job->table->strides[i];
    }
    for (int64_t k = 0; k < job->row; k += CHUNK) {
      int64_t n = job->row - k < CHUNK ? job->row - k : CHUNK;
      look_up(job, load_indices(job, row, from, k, n, buffer), k, n, palette, to);
    }
  }
}

static cairn_status look_up_all(const crn_kernel_args *args) {
  const crn_tensor *index = &args->operands[0];
  crn_tensor unpacked;
  CRN_TRY(crn_ref_unpacked(args, 1, &unpacked));
  const crn_tensor *table = &unpacked;
  int rank = index->rank;
  lut_job job = {.index = index, .table = table, .out = &args->results[0], .axis = -1, .bytes = cairn_dtype_bytes(table->dtype)};
  job.vector = table->dims[rank + 1];
  job.mask = table->dims[rank] - 1;
  job.palette_step = table->strides[rank];
  job.vector_step = table->strides[rank + 1];
  if (job.vector > 1) CRN_TRY(crn_ref_axis(args, 2, rank, &job.axis));
  int64_t n = crn_tensor_count(index);
  if (n == 0) return CAIRN_OK;
  for (int i = 0; i < rank; i++) job.group[i] = index->dims[i] / table->dims[i];
  job.row = rank == 0 ? 1 : index->dims[rank - 1];
  crn_pool_run(args->pool, n / job.row, crn_move_grain(job.row * job.vector), look_up_rows, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_lut_to_dense(const crn_kernel_args *args) { return look_up_all(args); }

// Zeros the entries of absent indices: a block of `vector` elements along the axis for each.
static void clear_absent(const crn_tensor *mask, const crn_tensor *out, int axis, int64_t vector) {
  size_t bytes = cairn_dtype_bytes(out->dtype);
  int64_t steps[CAIRN_MAX_RANK];
  for (int i = 0; i < mask->rank; i++) steps[i] = out->strides[i] * (i == axis ? vector : 1);
  crn_nd_iter it;
  crn_nd_initialize(&it, mask->rank, mask->dims);
  crn_nd_operand(&it, mask->strides);
  crn_nd_operand(&it, steps);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    if (crn_is_nonzero(mask->dtype, crn_tensor_at(mask, it.offset[0]))) continue;
    for (int64_t v = 0; v < vector; v++) memset(crn_tensor_at(out, it.offset[1] + (axis < 0 ? 0 : v * out->strides[axis])), 0, bytes);
  }
}

cairn_status crn_ref_lut_to_sparse_with_bitmask(const crn_kernel_args *args) {
  const crn_tensor *index = &args->operands[0], *table = &args->operands[1];
  if (args->n_operands < 4) return CRN_FAIL(UNSUPPORTED, "%s without the mask of its indices", crn_ref_name(args));
  int axis = -1;
  int64_t vector = table->dims[index->rank + 1];
  if (vector > 1) CRN_TRY(crn_ref_axis(args, 2, index->rank, &axis));
  CRN_TRY(look_up_all(args));
  clear_absent(&args->operands[3], &args->results[0], axis, vector);
  return CAIRN_OK;
}
