/// One-dimensional lines along an axis, what sorting, argmax and scan work on.
#ifndef CRN_BACKEND_CPU_REF_LINES_H
#define CRN_BACKEND_CPU_REF_LINES_H

#include "backend/cpu/ref/move.h"

/// All lines of `x` along `axis`, and where the lines of a second tensor with the same other dims start.
typedef struct crn_lines {
  int rank;  ///< of the other dims
  int64_t dims[CAIRN_MAX_RANK], from[CAIRN_MAX_RANK], to[CAIRN_MAX_RANK];
  int64_t count, length, from_step, to_step;
} crn_lines;

static inline crn_lines crn_lines_along(const crn_tensor *x, const crn_tensor *out, int axis) {
  crn_lines lines = {.count = 1, .length = x->dims[axis], .from_step = x->strides[axis], .to_step = out->strides[axis]};
  for (int i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    lines.dims[lines.rank] = x->dims[i];
    lines.from[lines.rank] = x->strides[i];
    lines.to[lines.rank++] = out->strides[i];
    lines.count *= x->dims[i];
  }
  return lines;
}

#endif
