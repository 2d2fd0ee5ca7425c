// Sampling between elements: linear, or the nearest one with ties to even. Positions outside are moved to the edge.
#include <math.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

// Where one coordinate falls: between two elements with a weight for the second.
typedef struct place {
  int64_t first, second;  // element offsets
  double weight;
} place;

typedef struct sample_job {
  const crn_tensor *x, *out;
  const crn_tensor *coordinates;        // of interpolate_coordinates, else NULL
  const place *places[CAIRN_MAX_RANK];  // of interpolate: one for each position of a dimension of the result
  int mode;
} sample_job;

static place place_of(const crn_tensor *x, int dimension, int mode, double at) {
  double most = (double)(x->dims[dimension] - 1);
  // The comparison with 0 also catches NaN.
  if (!(at > 0)) at = 0;
  if (at > most) at = most;
  int64_t step = x->strides[dimension];
  if (mode == CRN_INTERPOLATE_NEAREST) {
    int64_t nearest = (int64_t)rint(at);
    return (place){nearest * step, nearest * step, 0};
  }
  int64_t below = (int64_t)floor(at), above = below < x->dims[dimension] - 1 ? below + 1 : below;
  return (place){below * step, above * step, at - (double)below};
}

// Combines the corners of the cell, one dimension at a time. Dimensions without a weight have one corner only.
static double blend(const crn_tensor *x, const place *places, int dimension, int64_t offset) {
  while (dimension < x->rank && places[dimension].weight == 0) offset += places[dimension++].first;
  if (dimension == x->rank) return crn_load_f64(x->dtype, crn_tensor_at(x, offset));
  const place *p = &places[dimension];
  double low = blend(x, places, dimension + 1, offset + p->first), high = blend(x, places, dimension + 1, offset + p->second);
  return low * (1 - p->weight) + high * p->weight;
}

static void sample(const sample_job *job, const place *places, int64_t position) {
  const crn_tensor *x = job->x;
  void *target = crn_tensor_at(job->out, position);
  int64_t offset = 0;
  bool between = false;
  for (int i = 0; i < x->rank; i++) {
    offset += places[i].first;
    between = between || places[i].weight != 0;
  }
  if (!between) {
    crn_move_element(cairn_dtype_bytes(x->dtype), crn_tensor_at(x, offset), target);
  } else {
    crn_store_f64(x->dtype, target, blend(x, places, 0, 0));
  }
}

static void sample_grid(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const sample_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    place places[CAIRN_MAX_RANK];
    int64_t rest = i;
    for (int d = job->out->rank - 1; d >= 0; d--) {
      places[d] = job->places[d][rest % job->out->dims[d]];
      rest /= job->out->dims[d];
    }
    sample(job, places, i);
  }
}

static void sample_points(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const sample_job *job = user;
  const crn_tensor *at = job->coordinates;
  int rank = at->rank - 1;
  for (int64_t i = begin; i < end; i++) {
    place places[CAIRN_MAX_RANK];
    int64_t offset = crn_move_unravel(rank, at->dims, at->strides, i, NULL);
    for (int d = 0; d < job->x->rank; d++) {
      places[d] = place_of(job->x, d, job->mode, crn_load_f64(at->dtype, crn_tensor_at(at, offset + d * at->strides[rank])));
    }
    sample(job, places, i);
  }
}

static cairn_status check(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0];
  if (crn_dtype_is_complex(x->dtype)) return CRN_FAIL(UNSUPPORTED, "%s of %s", crn_ref_name(args), cairn_dtype_name(x->dtype));
  if (crn_tensor_count(x) > 0 || crn_tensor_count(&args->results[0]) == 0) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 has no elements to sample", crn_ref_name(args));
}

cairn_status crn_ref_interpolate(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0], *scales = &args->operands[2], *offsets = &args->operands[3];
  sample_job job = {.x = x, .out = out, .mode = args->mode};
  CRN_TRY(check(args));
  if (crn_tensor_count(out) == 0) return CAIRN_OK;
  for (int d = 0; d < x->rank; d++) {
    double scale = crn_load_f64(scales->dtype, crn_tensor_at(scales, d * scales->strides[0]));
    double offset = crn_load_f64(offsets->dtype, crn_tensor_at(offsets, d * offsets->strides[0]));
    if (!(fabs(scale) > 0) || !isfinite(scale) || !isfinite(offset)) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: scale %g and offset %g of dimension %d: a finite scale other than 0 is needed",
                      crn_ref_name(args), scale, offset, d);
    }
    place *places;
    CRN_TRY(args->scratch->take(args->scratch, (size_t)out->dims[d] * sizeof *places, &places));
    for (int64_t o = 0; o < out->dims[d]; o++) places[o] = place_of(x, d, args->mode, ((double)o + 0.5 - offset) / scale - 0.5);
    job.places[d] = places;
  }
  crn_pool_run(args->pool, crn_tensor_count(out), CRN_MOVE_GRAIN / 8, sample_grid, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_interpolate_coordinates(const crn_kernel_args *args) {
  sample_job job = {.x = &args->operands[0], .out = &args->results[0], .coordinates = &args->operands[1], .mode = args->mode};
  CRN_TRY(check(args));
  crn_pool_run(args->pool, crn_tensor_count(job.out), CRN_MOVE_GRAIN / 8, sample_points, &job);
  return CAIRN_OK;
}
