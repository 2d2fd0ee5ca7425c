// Maxima and elementwise ops on tensors whose channels lie next to each other.
#include <math.h>
#include <string.h>

#include "backend/cpu/fused/conv.h"
#include "backend/cpu/kernels/tiles/tiles.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"

// --- maxima -----------------------------------------------------------------------------------------------------------------

cairn_status crn_infer_fused_pool(const crn_infer_args *args) {
  const crn_fused_pool *f = args->fused;
  // As the op itself infers it, from the operand with its padding.
  crn_tensor operands[5];
  memcpy(operands, args->operands, sizeof operands);
  if (operands[0].rank != f->spatial + 2)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 has rank %d, %d expected", crn_infer_name(args), operands[0].rank, f->spatial + 2);
  for (int d = 0; d < f->spatial; d++) {
    const crn_window *w = &f->window[CRN_CONV_SPATIAL - f->spatial + d];
    if (operands[0].dims[d + 2] >= 0) operands[0].dims[d + 2] += w->before + w->after;
  }
  crn_infer_args own = *args;
  own.fused = NULL;
  own.operands = operands;
  return crn_infer_pool(&own);
}

typedef struct pool_run {
  const crn_fused_pool *f;
  const crn_tensor *x, *y;
  const crn_tile_kernels *kernels;
  int64_t in[CRN_CONV_SPATIAL], in_step[CRN_CONV_SPATIAL], count[CRN_CONV_SPATIAL], channels;
  float *buffers;  ///< two times `channels` values a worker
} pool_run;

// The taps of a window that lie inside: [*out_begin, *out_end).
static void clip(const crn_window *w, int64_t start, int64_t n, int64_t *out_begin, int64_t *out_end) {
  *out_begin = start < 0 ? (-start + w->dilation - 1) / w->dilation : 0;
  *out_end = start < n ? (n - 1 - start) / w->dilation + 1 : 0;
  if (*out_end > w->size) *out_end = w->size;
}

static void pool_position(const pool_run *r, int64_t image, const int64_t *at, float *best, float *buffer) {
  int64_t begin[CRN_CONV_SPATIAL], end[CRN_CONV_SPATIAL], base = image * r->x->strides[0];
  const crn_window *w = r->f->window;
  bool is_first = true;
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) {
    int64_t start = at[d] * w[d].stride - w[d].before;
    clip(&w[d], start, r->in[d], &begin[d], &end[d]);
    base += start * r->in_step[d];
  }
  for (int64_t z = begin[0]; z < end[0]; z++) {
    for (int64_t y = begin[1]; y < end[1]; y++) {
      for (int64_t x = begin[2]; x < end[2]; x++, is_first = false) {
        int64_t offset = base + z * w[0].dilation * r->in_step[0] + y * w[1].dilation * r->in_step[1] + x * w[2].dilation * r->in_step[2];
        const float *values = crn_elements_f32(r->x, offset, r->x->strides[1], r->channels, buffer);
        if (is_first) {
          memcpy(best, values, (size_t)r->channels * sizeof *best);
        } else {
          r->kernels->maximum(best, values, best, r->channels);
        }
      }
    }
  }
  for (int64_t c = 0; is_first && c < r->channels; c++) best[c] = -INFINITY;
}

// Item = one line of results.
static void pool_lines(void *user, int64_t begin, int64_t end, int worker) {
  const pool_run *r = user;
  float *best = r->buffers + 2 * worker * r->channels;
  for (int64_t line = begin; line < end; line++) {
    int64_t at[CRN_CONV_SPATIAL] = {line / r->count[1] % r->count[0], line % r->count[1], 0}, image = line / r->count[1] / r->count[0];
    for (; at[2] < r->count[2]; at[2]++) {
      pool_position(r, image, at, best, best + r->channels);
      crn_elements_put_f32(r->y, (line * r->count[2] + at[2]) * r->channels, r->channels, best);
    }
  }
}

cairn_status crn_fused_pool_run(const crn_kernel_args *args) {
  const crn_fused_pool *f = args->fused;
  pool_run r = {.f = f, .x = &args->operands[0], .y = &args->results[0], .kernels = crn_tiles_select()};
  int skip = CRN_CONV_SPATIAL - f->spatial;
  int64_t taps = 1;
  if (crn_tensor_count(r.y) == 0) return CAIRN_OK;
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) {
    r.in[d] = d < skip ? 1 : r.x->dims[d - skip + 2];
    r.in_step[d] = d < skip ? 0 : r.x->strides[d - skip + 2];
    r.count[d] = d < skip ? 1 : r.y->dims[d - skip + 2];
    taps *= f->window[d].size;
  }
  r.channels = r.x->dims[1];
  size_t values = 2 * (size_t)r.channels * (size_t)crn_pool_threads(args->pool);
  CRN_TRY(args->scratch->take(args->scratch, values * sizeof *r.buffers, &r.buffers));
  int64_t lines = r.y->dims[0] * r.count[0] * r.count[1];
  crn_pool_run(args->pool, lines, 16384 / (r.count[2] * r.channels * taps + 1) + 1, pool_lines, &r);
  return CAIRN_OK;
}

// --- elementwise ops ----------------------------------------------------------------------------------------------------------

cairn_status crn_infer_fused_minor(const crn_infer_args *args) {
  const crn_fused_minor *f = args->fused;
  crn_infer_args own = *args;
  own.fused = NULL;
  return f->infer(&own);
}

// The tensor with the axis behind the others, and with as many dimensions as the result has.
static crn_tensor turned(const crn_tensor *t, int rank, int axis) {
  crn_tensor out = *t;
  out.rank = rank;
  for (int d = 0, at = 0; d <= rank; d++) {
    int given = d < rank ? d : axis, from = given - (rank - t->rank);
    if (d == axis) continue;
    out.dims[at] = from < 0 ? 1 : t->dims[from];
    out.strides[at++] = from < 0 ? 0 : t->strides[from];
  }
  return out;
}

cairn_status crn_fused_minor_run(const crn_kernel_args *args) {
  const crn_fused_minor *f = args->fused;
  crn_tensor operands[3], result = turned(&args->results[0], args->results[0].rank, f->axis);
  int rank = result.rank;
  for (int i = 0; i < args->n_operands; i++) operands[i] = turned(&args->operands[i], rank, f->axis);
  crn_kernel_args own = *args;
  own.fused = NULL;
  own.operands = operands;
  own.results = &result;
  return f->kernel(&own);
}
