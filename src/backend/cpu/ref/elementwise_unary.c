#include <complex.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"
#include "backend/cpu/ref/spans.h"

// An elementwise function in the types things are computed in; NULL where the op has no such form.
typedef struct unary {
  void (*f32)(const float *x, float *y, int64_t n);
  void (*f64)(const double *x, double *y, int64_t n);
  void (*i64)(const int64_t *x, int64_t *y, int64_t n);
  float complex (*c64)(float complex x);
} unary;

#define LOOP(name, type, expr)                          \
  static void name(const type *x, type *y, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                   \
      type v = x[i];                                    \
      y[i] = expr;                                      \
    }                                                   \
  }

// The float functions of libm, with f for float.
#define MATH(name, fn)              \
  LOOP(name##_f32, float, fn##f(v)) \
  LOOP(name##_f64, double, fn(v))

MATH(abs, fabs)
MATH(acos, acos)
MATH(acosh, acosh)
MATH(asin, asin)
MATH(asinh, asinh)
MATH(atan, atan)
MATH(atanh, atanh)
MATH(cos, cos)
MATH(cosh, cosh)
MATH(erf, erf)
MATH(exp, exp)
MATH(log, log)
MATH(round, rint)
MATH(sin, sin)
MATH(sinh, sinh)
MATH(sqrt, sqrt)
MATH(tan, tan)
MATH(tanh, tanh)

LOOP(rsqrt_f32, float, 1.0f / sqrtf(v))
LOOP(rsqrt_f64, double, 1.0 / sqrt(v))
LOOP(sigmoid_f32, float, 1.0f / (1.0f + expf(-v)))
LOOP(sigmoid_f64, double, 1.0 / (1.0 + exp(-v)))
LOOP(silu_f32, float, v *(1.0f / (1.0f + expf(-v))))
LOOP(silu_f64, double, v *(1.0 / (1.0 + exp(-v))))
// The comparison is false for NaN, which must come through, and for -0, which becomes +0.
LOOP(relu_f32, float, v > 0 ? v : v != v ? v : 0.0f)
LOOP(relu_f64, double, v > 0 ? v : v != v ? v : 0.0)
LOOP(relu_i64, int64_t, v > 0 ? v : 0)
LOOP(abs_i64, int64_t, v < 0 ? (int64_t)(0 - (uint64_t)v) : v)
LOOP(copy_i64, int64_t, v)
LOOP(not_i64, int64_t, !v)

static void gelu_none_f32(const float *x, float *y, int64_t n) { crn_rows_select()->activate(CRN_GATE_GELU, x, y, n); }
LOOP(gelu_none_f64, double, 0.5 * v * (1.0 + erf(v * 0.70710678118654752)))
static void gelu_tanh_f32(const float *x, float *y, int64_t n) { crn_rows_select()->activate(CRN_GATE_GELU_TANH, x, y, n); }
LOOP(gelu_tanh_f64, double, 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v))))
LOOP(gelu_sigmoid_f32, float, v *(1.0f / (1.0f + expf(-1.702f * v))))
LOOP(gelu_sigmoid_f64, double, v *(1.0 / (1.0 + exp(-1.702 * v))))

static float complex sigmoid_c64(float complex x) { return 1.0f / (1.0f + cexpf(-x)); }
static float complex silu_c64(float complex x) { return x * sigmoid_c64(x); }

typedef struct unary_run {
  const unary *fn;
  const crn_tensor *x, *y;
} unary_run;

static void run_f32(void *user, const crn_span *s) {
  const unary_run *r = user;
  float buffer[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  r->fn->f32(crn_elements_f32(r->x, s->offset[0], s->stride[0], s->n, buffer), out, s->n);
  crn_elements_put_f32(r->y, s->out, s->n, out);
}

static void run_f64(void *user, const crn_span *s) {
  const unary_run *r = user;
  double buffer[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  r->fn->f64(crn_elements_f64(r->x, s->offset[0], s->stride[0], s->n, buffer), out, s->n);
  crn_elements_put_f64(r->y, s->out, s->n, out);
}

static void run_i64(void *user, const crn_span *s) {
  const unary_run *r = user;
  int64_t buffer[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  r->fn->i64(crn_elements_i64(r->x, s->offset[0], s->stride[0], s->n, buffer), out, s->n);
  crn_elements_put_i64(r->y, s->out, s->n, out);
}

static void run_c64(void *user, const crn_span *s) {
  const unary_run *r = user;
  for (int64_t i = 0; i < s->n; i++) {
    float complex value;
    memcpy(&value, crn_tensor_at(r->x, s->offset[0] + i * s->stride[0]), sizeof value);
    value = r->fn->c64(value);
    memcpy(crn_tensor_at(r->y, s->out + i), &value, sizeof value);
  }
}

enum { GRAIN = 4096 };

static cairn_status unary_apply(const crn_kernel_args *args, const unary *fn) {
  unary_run run = {fn, &args->operands[0], &args->results[0]};
  cairn_dtype dtype = run.x->dtype;
  crn_span_fn span_fn = NULL;
  if (dtype == CAIRN_F64 && fn->f64) span_fn = run_f64;
  if (crn_computes_f32(dtype) && fn->f32) span_fn = run_f32;
  if (crn_computes_i64(dtype) && fn->i64) span_fn = run_i64;
  if (dtype == CAIRN_C64 && fn->c64) span_fn = run_c64;
  if (!span_fn || dtype != run.y->dtype) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s to %s has no kernel", crn_op_info_of(args->id)->name, cairn_dtype_name(dtype),
                    cairn_dtype_name(run.y->dtype));
  }
  crn_spans spans;
  CRN_TRY(crn_spans_make(&spans, run.y, 1, run.x));
  crn_spans_run(&spans, args->pool, GRAIN, span_fn, &run);
  return CAIRN_OK;
}

// Unsigned values are never negative, which the signed reading of 64-bit ones would miss.
static bool is_unsigned(const crn_kernel_args *args) { return crn_dtype_class_of(args->operands[0].dtype) == CRN_CLASS_UINT; }

#define FLOAT_OP(id, complex_form)                                    \
  cairn_status crn_ref_##id(const crn_kernel_args *args) {            \
    static const unary fn = {id##_f32, id##_f64, NULL, complex_form}; \
    return unary_apply(args, &fn);                                    \
  }

FLOAT_OP(acos, NULL)
FLOAT_OP(acosh, NULL)
FLOAT_OP(asin, NULL)
FLOAT_OP(asinh, NULL)
FLOAT_OP(atan, NULL)
FLOAT_OP(atanh, NULL)
FLOAT_OP(cos, ccosf)
FLOAT_OP(cosh, ccoshf)
FLOAT_OP(erf, NULL)
FLOAT_OP(exp, cexpf)
FLOAT_OP(log, clogf)
FLOAT_OP(rsqrt, NULL)
FLOAT_OP(sigmoid, sigmoid_c64)
FLOAT_OP(silu, silu_c64)
FLOAT_OP(sin, csinf)
FLOAT_OP(sinh, csinhf)
FLOAT_OP(sqrt, NULL)
FLOAT_OP(tan, ctanf)
FLOAT_OP(tanh, NULL)

cairn_status crn_ref_abs(const crn_kernel_args *args) {
  static const unary fn = {abs_f32, abs_f64, abs_i64, NULL}, same = {NULL, NULL, copy_i64, NULL};
  return unary_apply(args, is_unsigned(args) ? &same : &fn);
}

cairn_status crn_ref_relu(const crn_kernel_args *args) {
  static const unary fn = {relu_f32, relu_f64, relu_i64, NULL}, same = {NULL, NULL, copy_i64, NULL};
  return unary_apply(args, is_unsigned(args) ? &same : &fn);
}

cairn_status crn_ref_round(const crn_kernel_args *args) {
  static const unary fn = {round_f32, round_f64, copy_i64, NULL};
  return unary_apply(args, &fn);
}

cairn_status crn_ref_not(const crn_kernel_args *args) {
  static const unary fn = {NULL, NULL, not_i64, NULL};
  if (args->operands[0].dtype != CAIRN_BOOL)
    return CRN_FAIL(UNSUPPORTED, "coreai.not takes bool, not %s", cairn_dtype_name(args->operands[0].dtype));
  return unary_apply(args, &fn);
}

cairn_status crn_ref_gelu(const crn_kernel_args *args) {
  static const unary none = {gelu_none_f32, gelu_none_f64, NULL, NULL}, tanh_form = {gelu_tanh_f32, gelu_tanh_f64, NULL, NULL},
                     sigmoid_form = {gelu_sigmoid_f32, gelu_sigmoid_f64, NULL, NULL};
  switch (args->mode) {
    case CRN_GELU_NONE:
      return unary_apply(args, &none);
    case CRN_GELU_TANH:
      return unary_apply(args, &tanh_form);
    case CRN_GELU_SIGMOID:
      return unary_apply(args, &sigmoid_form);
    default:
      return CRN_FAIL(UNSUPPORTED, "gelu has no approximation number %d", args->mode);
  }
}
