// scatter_along_axis and scatter_nd: copies of the input with updates at indexed places.
#include <string.h>

#include "backend/cpu/ref/gather.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

// --- scatter_along_axis ------------------------------------------------------------------------------------------------

typedef struct along_job {
  const crn_tensor *index, *update, *out;
  int axis, mode;
  int64_t lines;
  crn_first_bad bad;  // place of an integer division by zero
} along_job;

static double combine_floats(int mode, double a, double b) {
  switch (mode) {
    case CRN_SCATTER_ADD:
      return a + b;
    case CRN_SCATTER_SUB:
      return a - b;
    case CRN_SCATTER_MUL:
      return a * b;
    case CRN_SCATTER_DIV:
      return a / b;
    // NaN stays, from either side.
    case CRN_SCATTER_MAX:
      return a != a || a >= b ? a : b;
    default:
      return a != a || a <= b ? a : b;
  }
}

// False for a division by zero. Unsigned arithmetic, because integers wrap.
static bool combine_integers(int mode, bool is_signed, int64_t a, int64_t b, int64_t *out) {
  bool less = is_signed ? a < b : (uint64_t)a < (uint64_t)b;
  switch (mode) {
    case CRN_SCATTER_ADD:
      *out = (int64_t)((uint64_t)a + (uint64_t)b);
      return true;
    case CRN_SCATTER_SUB:
      *out = (int64_t)((uint64_t)a - (uint64_t)b);
      return true;
    case CRN_SCATTER_MUL:
      *out = (int64_t)((uint64_t)a * (uint64_t)b);
      return true;
    case CRN_SCATTER_DIV:
      if (b == 0) return false;
      if (!is_signed) {
        *out = (int64_t)((uint64_t)a / (uint64_t)b);
      } else {
        // The smallest number divided by -1 wraps to itself.
        *out = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
      }
      return true;
    case CRN_SCATTER_MAX:
      *out = less ? b : a;
      return true;
    default:
      *out = less ? a : b;
      return true;
  }
}

static bool combine(int mode, cairn_dtype dtype, void *target, const void *update) {
  if (mode == CRN_SCATTER_UPDATE) {
    crn_move_element(cairn_dtype_bytes(dtype), update, target);
  } else if (crn_dtype_is_float(dtype)) {
    crn_store_f64(dtype, target, combine_floats(mode, crn_load_f64(dtype, target), crn_load_f64(dtype, update)));
  } else {
    int64_t result;
    bool is_signed = crn_dtype_class_of(dtype) == CRN_CLASS_SINT;
    if (!combine_integers(mode, is_signed, crn_load_i64(dtype, target), crn_load_i64(dtype, update), &result)) return false;
    crn_store_i64(dtype, target, result);
  }
  return true;
}

// Item = one line along the axis. Only elements of the same line can meet, so lines are independent and within a line the
// updates are applied in the order of the indices. Indices out of range are left out, as the op is defined.
static void scatter_lines(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  along_job *job = user;
  const crn_tensor *index = job->index, *update = job->update, *out = job->out;
  int64_t n = out->dims[job->axis];
  for (int64_t line = begin; line < end; line++) {
    int64_t rest = line, from = 0, what = 0, to = 0;
    for (int i = index->rank - 1; i >= 0; i--) {
      if (i == job->axis) continue;
      int64_t at = rest % index->dims[i];
      rest /= index->dims[i];
      from += at * index->strides[i];
      what += at * update->strides[i];
      to += at * out->strides[i];
    }
    for (int64_t k = 0; k < index->dims[job->axis]; k++) {
      int64_t pick;
      if (!crn_gather_index(crn_gather_load(index->dtype, index->data, from + k * index->strides[job->axis]), n, &pick)) continue;
      void *target = crn_tensor_at(out, to + pick * out->strides[job->axis]);
      if (!combine(job->mode, out->dtype, target, crn_tensor_at(update, what + k * update->strides[job->axis]))) {
        crn_first_bad_note(&job->bad, line);
      }
    }
  }
}

cairn_status crn_ref_scatter_along_axis(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *index = &args->operands[1];
  along_job job = {.index = index, .update = &args->operands[2], .out = &args->results[0], .mode = args->mode};
  atomic_init(&job.bad.position, INT64_MAX);
  if (crn_dtype_is_complex(x->dtype) && args->mode != CRN_SCATTER_UPDATE) {
    return CRN_FAIL(UNSUPPORTED, "%s: operand 0 is %s, only updates are possible with it", crn_ref_name(args), cairn_dtype_name(x->dtype));
  }
  CRN_TRY(crn_ref_axis(args, 3, x->rank, &job.axis));
  if (x->data != job.out->data) crn_move_tensor(args->pool, x, job.out);  // else the old value is changed in place
  if (crn_tensor_count(index) == 0) return CAIRN_OK;
  int64_t length = index->dims[job.axis];
  crn_pool_run(args->pool, crn_tensor_count(index) / length, crn_move_grain(length), scatter_lines, &job);
  if (atomic_load(&job.bad.position) == INT64_MAX) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: an update divides an integer by zero", crn_ref_name(args));
}

// --- scatter_nd -----------------------------------------------------------------------------------------------------------

// Strides of the updates over the `rank` dims they are broadcast to: 0 in those they do not have and in those of size 1.
static void update_strides(const crn_tensor *update, int rank, int64_t *out_strides) {
  for (int i = 0; i < rank; i++) {
    int u = i - (rank - update->rank);
    out_strides[i] = u < 0 || update->dims[u] == 1 ? 0 : update->strides[u];
  }
}

cairn_status crn_ref_scatter_nd(const crn_kernel_args *args) {
  const crn_tensor *index = &args->operands[1], *update = &args->operands[2], *out = &args->results[0];
  int64_t strides[2 * CAIRN_MAX_RANK];
  int length = (int)index->dims[index->rank - 1], batch = index->rank - 1, inner = out->rank - length;
  if (args->operands[0].data != out->data) crn_move_tensor(args->pool, &args->operands[0], out);  // as above
  int64_t vectors = 1;
  for (int i = 0; i < batch; i++) vectors *= index->dims[i];
  if (crn_tensor_count(update) == 0) return CAIRN_OK;
  update_strides(update, batch + inner, strides);
  // One after the other, because two vectors may name the same place and then the later one stays.
  for (int64_t v = 0; v < vectors; v++) {
    int64_t where = crn_move_unravel(batch, index->dims, index->strides, v, NULL), offset;
    int wrong;
    if (!crn_gather_nd_offset(out, index, length, where, &offset, &wrong)) {
      int64_t step = wrong * index->strides[index->rank - 1];
      return crn_gather_fail(args, crn_gather_load(index->dtype, index->data, where + step), wrong, out->dims[wrong]);
    }
    int64_t from = crn_move_unravel(batch, index->dims, strides, v, NULL);
    crn_move(args->pool, cairn_dtype_bytes(out->dtype), inner, out->dims + length, crn_tensor_at(update, from), strides + batch,
             crn_tensor_at(out, offset), out->strides + length);
  }
  return CAIRN_OK;
}
