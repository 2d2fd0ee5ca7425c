#include "program/infer/dims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

const char *crn_shape_text(const int64_t *dims, int rank, char *buffer) {
  int at = 0;
  buffer[at++] = '[';
  for (int i = 0; i < rank && i < CAIRN_MAX_RANK; i++) {
    const char *comma = i ? ", " : "";
    if (dims[i] == CAIRN_DYNAMIC) {
      at += snprintf(buffer + at, (size_t)(CRN_SHAPE_TEXT - at), "%s?", comma);
    } else {
      at += snprintf(buffer + at, (size_t)(CRN_SHAPE_TEXT - at), "%s%lld", comma, (long long)dims[i]);
    }
  }
  memcpy(buffer + at, "]", 2);
  return buffer;
}

bool crn_dim_unify(int64_t a, int64_t b, int64_t *out) {
  if (a != CAIRN_DYNAMIC && b != CAIRN_DYNAMIC && a != b) return false;
  *out = a == CAIRN_DYNAMIC ? b : a;
  return true;
}

bool crn_dim_broadcast(int64_t a, int64_t b, int64_t *out) {
  if (a == 1 || b == 1) {
    *out = a == 1 ? b : a;
    return true;
  }
  // An unknown size beside a known one other than 1 can only be that one or 1: the result is known.
  return crn_dim_unify(a, b, out);
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

void crn_slice_bounds(int64_t n, int64_t start, int64_t end, int64_t stride, int64_t *out_first, int64_t *out_count) {
  // n is not negative, so adding it to a negative number cannot overflow.
  if (start < 0) start += n;
  if (end < 0) end += n;
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  start = clamp(start, low, high);
  end = clamp(end, low, high);
  int64_t span = stride > 0 ? end - start : start - end;
  *out_first = start;
  if (stride == 1) {
    *out_count = span <= 0 ? 0 : span;
    return;
  }
  // Unsigned, because the magnitude of the smallest stride does not fit a signed number.
  uint64_t step = stride > 0 ? (uint64_t)stride : 0 - (uint64_t)stride;
  *out_count = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / step) + 1;
}

static __int128 load_wide(cairn_dtype dtype, const void *element) {
  int64_t v = crn_load_i64(dtype, element);
  return dtype == CAIRN_UI64 ? (__int128)(uint64_t)v : (__int128)v;
}

static bool integer_range_count(cairn_dtype dtype, const void *start, const void *stop, const void *step, int64_t *out_count) {
  __int128 from = load_wide(dtype, start), to = load_wide(dtype, stop), by = load_wide(dtype, step);
  if (by == 0) return false;
  __int128 span = by > 0 ? to - from : from - to, width = by > 0 ? by : -by;
  __int128 count = span <= 0 ? 0 : (span - 1) / width + 1;
  if (count > INT64_MAX) return false;
  *out_count = (int64_t)count;
  return true;
}

bool crn_range_count(cairn_dtype dtype, const void *start, const void *stop, const void *step, int64_t *out_count) {
  if (!crn_dtype_is_float(dtype)) return integer_range_count(dtype, start, stop, step, out_count);
  double from = crn_load_f64(dtype, start), to = crn_load_f64(dtype, stop), by = crn_load_f64(dtype, step);
  if (by == 0 || !isfinite(from) || !isfinite(to) || !isfinite(by)) return false;
  double count = ceil((to - from) / by);
  if (!(count < 0x1p62)) return false;
  *out_count = count > 0 ? (int64_t)count : 0;
  return true;
}
