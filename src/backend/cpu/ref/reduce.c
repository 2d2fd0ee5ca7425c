#include <math.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/region.h"

enum { CHUNK = 256, LANES = 8 };

// One reduction in progress. Element i of the reduced index space (in row-major order) goes to lane i mod LANES, so that
// the order of additions depends on nothing but the shape; zeros at the end change nothing.
typedef struct accumulator {
  double lane[LANES];
  uint64_t bits;  ///< integers: sum, product, or the best value so far
  int64_t at;
} accumulator;

typedef struct reduce_run {
  crn_reduction kind;
  const crn_tensor *x, *y;
  bool is_unsigned;
  int kept_rank, rank;  ///< of the dimensions kept and of those reduced
  int64_t kept_dims[CAIRN_MAX_RANK], kept_strides[CAIRN_MAX_RANK];
  int64_t dims[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];
  int64_t count;           ///< elements of the reduced space
  const crn_tensor *init;  ///< one element that takes part in every reduction, or NULL
} reduce_run;

static void start(const reduce_run *r, accumulator *a) {
  double first = r->kind == CRN_REDUCE_PRODUCT ? 1 : r->kind == CRN_REDUCE_MAX ? -INFINITY : r->kind == CRN_REDUCE_MIN ? INFINITY : 0;
  for (int l = 0; l < LANES; l++) a->lane[l] = first;
  a->at = 0;
  switch (r->kind) {
    case CRN_REDUCE_PRODUCT:
    case CRN_REDUCE_ALL:
      a->bits = 1;
      break;
    case CRN_REDUCE_MAX:
      a->bits = r->is_unsigned ? 0 : (uint64_t)INT64_MIN;
      break;
    case CRN_REDUCE_MIN:
      a->bits = r->is_unsigned ? UINT64_MAX : (uint64_t)INT64_MAX;
      break;
    default:
      a->bits = 0;
      break;
  }
}

static void combine(crn_reduction kind, double *into, double v) {
  switch (kind) {
    case CRN_REDUCE_PRODUCT:
      *into *= v;
      break;
    case CRN_REDUCE_MAX:
      *into = v > *into || v != v ? v : *into;
      break;  // NaN is never replaced, for it compares false
    case CRN_REDUCE_MIN:
      *into = v < *into || v != v ? v : *into;
      break;
    default:
      *into += v;
      break;
  }
}

#define ADD_FLOATS(name, type)                                                                  \
  static void name(crn_reduction kind, accumulator *a, const type *v, int64_t n) {              \
    int64_t i = 0;                                                                              \
    for (; i < n && a->at % LANES; i++) combine(kind, &a->lane[a->at++ % LANES], (double)v[i]); \
    if (kind == CRN_REDUCE_SUM || kind == CRN_REDUCE_MEAN) {                                    \
      for (; i + LANES <= n; i += LANES, a->at += LANES) {                                      \
        for (int l = 0; l < LANES; l++) a->lane[l] += (double)v[i + l];                         \
      }                                                                                         \
    }                                                                                           \
    for (; i < n; i++) combine(kind, &a->lane[a->at++ % LANES], (double)v[i]);                  \
  }

ADD_FLOATS(add_f32, float)
ADD_FLOATS(add_f64, double)

static void add_i64(const reduce_run *r, accumulator *a, const int64_t *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t u = (uint64_t)v[i];
    bool above = r->is_unsigned ? u > a->bits : v[i] > (int64_t)a->bits;
    switch (r->kind) {
      case CRN_REDUCE_PRODUCT:
        a->bits *= u;
        break;
      case CRN_REDUCE_MAX:
        a->bits = above ? u : a->bits;
        break;
      case CRN_REDUCE_MIN:
        a->bits = above ? a->bits : u;
        break;
      case CRN_REDUCE_ALL:
        a->bits &= u;
        break;
      case CRN_REDUCE_ANY:
        a->bits |= u;
        break;
      default:
        a->bits += u;
        break;
    }
  }
}

static void add_run(const reduce_run *r, accumulator *a, int64_t offset, int64_t stride, int64_t n) {
  union {
    float f32[CHUNK];
    double f64[CHUNK];
    int64_t i64[CHUNK];
  } buffer;
  for (int64_t done = 0; done < n; done += CHUNK) {
    int64_t m = n - done < CHUNK ? n - done : CHUNK, at = offset + done * stride;
    if (r->x->dtype == CAIRN_F64) {
      add_f64(r->kind, a, crn_elements_f64(r->x, at, stride, m, buffer.f64), m);
    } else if (crn_computes_f32(r->x->dtype)) {
      add_f32(r->kind, a, crn_elements_f32(r->x, at, stride, m, buffer.f32), m);
    } else {
      add_i64(r, a, crn_elements_i64(r->x, at, stride, m, buffer.i64), m);
    }
  }
}

static void finish(const reduce_run *r, accumulator *a, int64_t out) {
  if (crn_computes_i64(r->x->dtype)) {
    if (r->init) {
      int64_t first = crn_load_i64(r->init->dtype, r->init->data);
      add_i64(r, a, &first, 1);
    }
    int64_t value = (int64_t)a->bits;
    crn_elements_put_i64(r->y, out, 1, &value);
    return;
  }
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) combine(r->kind, &a->lane[l], a->lane[l + half]);
  }
  if (r->init) combine(r->kind, &a->lane[0], crn_load_f64(r->init->dtype, r->init->data));
  double value = r->kind == CRN_REDUCE_MEAN ? a->lane[0] / (double)r->count : a->lane[0];
  crn_elements_put_f64(r->y, out, 1, &value);
}

static void reduce_one(const reduce_run *r, int64_t base, int64_t out) {
  accumulator a;
  start(r, &a);
  int inner = r->rank - 1;
  int64_t index[CAIRN_MAX_RANK] = {0};
  for (int64_t left = r->count; left > 0; left -= r->dims[inner]) {
    int64_t offset = base;
    for (int d = 0; d < inner; d++) offset += index[d] * r->strides[d];
    add_run(r, &a, offset, r->strides[inner], r->dims[inner]);
    for (int d = inner - 1; d >= 0 && ++index[d] == r->dims[d]; d--) index[d] = 0;
  }
  finish(r, &a, out);
}

static void reduce_range(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const reduce_run *r = user;
  for (int64_t out = begin; out < end; out++) {
    int64_t base = 0, rest = out;
    for (int d = r->kept_rank - 1; d >= 0; d--) {
      base += rest % r->kept_dims[d] * r->kept_strides[d];
      rest /= r->kept_dims[d];
    }
    reduce_one(r, base, out);
  }
}

static void split_dims(reduce_run *r, const bool *mask) {
  for (int d = 0; d < r->x->rank; d++) {
    int64_t dim = r->x->dims[d], stride = r->x->strides[d];
    if (!mask[d]) {
      r->kept_dims[r->kept_rank] = dim;
      r->kept_strides[r->kept_rank++] = stride;
      continue;
    }
    r->count *= dim;
    int last = r->rank - 1;
    if (last >= 0 && r->strides[last] == stride * dim) {
      r->dims[last] *= dim;
    } else {
      last = r->rank++;
      r->dims[last] = dim;
    }
    r->strides[last] = stride;
  }
  if (r->rank == 0) r->rank = 1, r->dims[0] = 1, r->strides[0] = 0;
}

cairn_status crn_reduce_from(const crn_kernel_args *args, crn_reduction kind, const crn_tensor *init) {
  const crn_tensor *x = &args->operands[0], *y = &args->results[0];
  crn_dtype_class class = crn_dtype_class_of(x->dtype);
  bool logical = kind == CRN_REDUCE_ALL || kind == CRN_REDUCE_ANY;
  bool fits = logical ? class == CRN_CLASS_BOOL
                      : class == CRN_CLASS_FLOAT || (kind != CRN_REDUCE_MEAN && (class == CRN_CLASS_SINT || class == CRN_CLASS_UINT));
  if (!fits || y->dtype != x->dtype) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s to %s has no kernel", crn_ref_name(args), cairn_dtype_name(x->dtype),
                    cairn_dtype_name(y->dtype));
  }
  bool mask[CAIRN_MAX_RANK];
  CRN_TRY(crn_ref_axes(args, 1, x->rank, mask));
  reduce_run run = {.kind = kind, .x = x, .y = y, .is_unsigned = class == CRN_CLASS_UINT, .count = 1, .init = init};
  split_dims(&run, mask);
  int64_t grain = 8192 / (run.count + 1) + 1;
  crn_pool_run(args->pool, crn_tensor_count(y), grain, reduce_range, &run);
  return CAIRN_OK;
}

static cairn_status reduce(const crn_kernel_args *args, crn_reduction kind) { return crn_reduce_from(args, kind, NULL); }

cairn_status crn_ref_reduce_sum(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_SUM); }
cairn_status crn_ref_reduce_mean(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_MEAN); }
cairn_status crn_ref_reduce_product(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_PRODUCT); }
cairn_status crn_ref_reduce_max(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_MAX); }
cairn_status crn_ref_reduce_min(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_MIN); }
cairn_status crn_ref_all(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_ALL); }
cairn_status crn_ref_any(const crn_kernel_args *args) { return reduce(args, CRN_REDUCE_ANY); }
