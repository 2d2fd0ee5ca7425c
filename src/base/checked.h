/// Arithmetic on sizes that come from files or callers: false means the result does not fit.
#ifndef CRN_BASE_CHECKED_H
#define CRN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool crn_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool crn_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool crn_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool crn_sub_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
static inline bool crn_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

/// Rounds up to a multiple of `align` (a power of two).
static inline bool crn_align_size(size_t n, size_t align, size_t *out) {
  size_t up;
  if (!crn_add_size(n, align - 1, &up)) return false;
  *out = up & ~(align - 1);
  return true;
}

/// True when [offset, offset + bytes) lies inside [0, total).
static inline bool crn_range_inside(size_t offset, size_t bytes, size_t total) { return offset <= total && bytes <= total - offset; }

#endif
