// sort and argsort: stable, NaN last in both directions, -0 and +0 equal.
#include <string.h>

#include "backend/cpu/ref/lines.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

// Elements are sorted through 64-bit keys whose unsigned order is the wanted one; equal keys keep their order.
typedef struct entry {
  uint64_t key;
  int64_t index;
} entry;

typedef struct sort_job {
  const crn_tensor *x, *out;
  crn_lines lines;
  bool descending, values;  // results are the elements instead of their places
  entry *scratch;           // 2 * length entries for each worker
} sort_job;

static const uint64_t SIGN = (uint64_t)1 << 63;

static uint64_t key_of(cairn_dtype dtype, const void *element, bool descending) {
  uint64_t key;
  if (crn_dtype_is_float(dtype)) {
    // Adding zero turns -0 into +0.
    double v = crn_load_f64(dtype, element) + 0.0;
    if (v != v) return UINT64_MAX;
    memcpy(&key, &v, sizeof key);
    key = key & SIGN ? ~key : key | SIGN;
  } else {
    key = (uint64_t)crn_load_i64(dtype, element);
    if (crn_dtype_class_of(dtype) == CRN_CLASS_SINT) key ^= SIGN;
  }
  return descending ? ~key : key;
}

// Bottom-up merging; returns the buffer that holds the sorted entries.
static entry *merge_sort(entry *from, entry *to, int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t start = 0; start < n; start += 2 * width) {
      int64_t middle = start + width < n ? start + width : n, end = middle + width < n ? middle + width : n;
      int64_t a = start, b = middle, at = start;
      while (a < middle && b < end) to[at++] = from[b].key < from[a].key ? from[b++] : from[a++];
      while (a < middle) to[at++] = from[a++];
      while (b < end) to[at++] = from[b++];
    }
    entry *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

static void sort_lines(void *user, int64_t begin, int64_t end, int worker) {
  const sort_job *job = user;
  const crn_lines *lines = &job->lines;
  size_t bytes = cairn_dtype_bytes(job->x->dtype), out_bytes = cairn_dtype_bytes(job->out->dtype);
  entry *first = job->scratch + worker * 2 * lines->length, *second = first + lines->length;
  for (int64_t line = begin; line < end; line++) {
    const char *source = crn_tensor_at(job->x, crn_move_unravel(lines->rank, lines->dims, lines->from, line, NULL));
    char *target = crn_tensor_at(job->out, crn_move_unravel(lines->rank, lines->dims, lines->to, line, NULL));
    for (int64_t i = 0; i < lines->length; i++) {
      first[i] = (entry){key_of(job->x->dtype, source + i * lines->from_step * (int64_t)bytes, job->descending), i};
    }
    const entry *sorted = merge_sort(first, second, lines->length);
    for (int64_t i = 0; i < lines->length; i++) {
      char *to = target + i * lines->to_step * (int64_t)out_bytes;
      if (job->values) {
        crn_move_element(bytes, source + sorted[i].index * lines->from_step * (int64_t)bytes, to);
      } else {
        crn_store_i64(job->out->dtype, to, sorted[i].index);
      }
    }
  }
}

static cairn_status sort_along(const crn_kernel_args *args, bool values) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  sort_job job = {.x = x, .out = out, .values = values};
  int axis;
  CRN_TRY(crn_ref_axis(args, 1, x->rank, &axis));
  if (crn_dtype_is_complex(x->dtype)) {
    return CRN_FAIL(UNSUPPORTED, "%s: operand 0 is %s, real numbers are needed", crn_ref_name(args), cairn_dtype_name(x->dtype));
  }
  if (crn_tensor_count(x) == 0) return CAIRN_OK;
  CRN_TRY(crn_ref_flag(args, 2, &job.descending));
  job.lines = crn_lines_along(x, out, axis);
  // The pool numbers its workers below its thread count, and a single line is handled by worker 0.
  size_t workers = job.lines.count > 1 ? (size_t)crn_pool_threads(args->pool) : 1, bytes;
  if (!crn_mul_size((size_t)job.lines.length, workers * 2 * sizeof *job.scratch, &bytes)) {
    return CRN_FAIL(OUT_OF_RANGE, "%s: lines of %lld elements are too long", crn_ref_name(args), (long long)job.lines.length);
  }
  CRN_TRY(args->scratch->take(args->scratch, bytes, &job.scratch));
  crn_pool_run(args->pool, job.lines.count, crn_move_grain(8 * job.lines.length), sort_lines, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_sort(const crn_kernel_args *args) { return sort_along(args, true); }

cairn_status crn_ref_argsort(const crn_kernel_args *args) { return sort_along(args, false); }
