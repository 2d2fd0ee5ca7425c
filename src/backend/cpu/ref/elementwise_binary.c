#include <complex.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"
#include "backend/cpu/ref/spans.h"

// An elementwise function of two operands. Integer functions say with false that a divisor is zero. Comparisons and
// logical functions give 0 or 1 in `out` of the same type they read.
typedef struct binary {
  void (*f32)(const float *x, const float *y, float *out, int64_t n);
  void (*f64)(const double *x, const double *y, double *out, int64_t n);
  bool (*sint)(const int64_t *x, const int64_t *y, int64_t *out, int64_t n);
  bool (*uint)(const uint64_t *x, const uint64_t *y, uint64_t *out, int64_t n);
  bool (*boolean)(const int64_t *x, const int64_t *y, int64_t *out, int64_t n);
  bool (*c64)(const float *x, const float *y, float *out, int64_t n);
  bool compares;  ///< the result is bool
} binary;

#define LOOP_FLOAT(name, type, expr)                                     \
  static void name(const type *x, const type *y, type *out, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                                    \
      type a = x[i], b = y[i];                                           \
      out[i] = expr;                                                     \
    }                                                                    \
  }
#define LOOP_INT(name, type, expr)                                       \
  static bool name(const type *x, const type *y, type *out, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                                    \
      type a = x[i], b = y[i];                                           \
      out[i] = (type)(expr);                                             \
    }                                                                    \
    return true;                                                         \
  }
#define LOOP_DIVIDE(name, type, expr)                                    \
  static bool name(const type *x, const type *y, type *out, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                                    \
      type a = x[i], b = y[i];                                           \
      if (b == 0) return false;                                          \
      out[i] = expr;                                                     \
    }                                                                    \
    return true;                                                         \
  }
#define FLOATS(name, expr)            \
  LOOP_FLOAT(name##_f32, float, expr) \
  LOOP_FLOAT(name##_f64, double, expr)
#define INTS(name, expr)               \
  LOOP_INT(name##_sint, int64_t, expr) \
  LOOP_INT(name##_uint, uint64_t, expr)

FLOATS(add, a + b)
FLOATS(sub, a - b)
FLOATS(mul, a *b)
FLOATS(divide, a / b)
// The largest whole number not above the quotient, found by way of the remainder, which is exact: the rounded quotient may already
// be the next whole number (1 / 0.1f is). That is what torch does too.
#define FLOOR_QUOTIENT(name, type, f)                        \
  static type name(type a, type b) {                         \
    if (b == 0) return a / b;                                \
    type rest = fmod##f(a, b), quotient = (a - rest) / b;    \
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;   \
    if (quotient == 0) return copysign##f(0, a / b);         \
    type whole = floor##f(quotient);                         \
    return quotient - whole > (type)0.5 ? whole + 1 : whole; \
  }
FLOOR_QUOTIENT(floor_quotient_f32, float, f)
FLOOR_QUOTIENT(floor_quotient_f64, double, )
LOOP_FLOAT(floor_divide_f32, float, floor_quotient_f32(a, b))
LOOP_FLOAT(floor_divide_f64, double, floor_quotient_f64(a, b))
LOOP_FLOAT(modulo_f32, float, fmodf(a, b))
LOOP_FLOAT(modulo_f64, double, fmod(a, b))
LOOP_FLOAT(pow_f32, float, powf(a, b))
LOOP_FLOAT(pow_f64, double, pow(a, b))
// NaN of either side comes through; equal values (also -0 and +0) give the first.
FLOATS(maximum, a != a ? a : b > a || b != b ? b : a)
FLOATS(minimum, a != a ? a : b < a || b != b ? b : a)
FLOATS(equal, a == b)
FLOATS(not_equal, a != b)
FLOATS(greater, a > b)

// Unsigned arithmetic wraps without undefined behaviour; the low bits are those of the signed result.
INTS(add, (uint64_t)a + (uint64_t)b)
INTS(sub, (uint64_t)a - (uint64_t)b)
INTS(mul, (uint64_t)a *(uint64_t)b)
INTS(maximum, b > a ? b : a)
INTS(minimum, b < a ? b : a)
INTS(equal, a == b)
INTS(not_equal, a != b)
INTS(greater, a > b)
INTS(bitwise_and, a &b)
INTS(bitwise_or, a | b)
INTS(bitwise_xor, a ^ b)

static int64_t negate(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return negate(a);
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

LOOP_DIVIDE(divide_sint, int64_t, b == -1 ? negate(a) : a / b)
LOOP_DIVIDE(divide_uint, uint64_t, a / b)
LOOP_DIVIDE(floor_divide_sint, int64_t, floor_quotient(a, b))
LOOP_DIVIDE(floor_divide_uint, uint64_t, a / b)
LOOP_DIVIDE(modulo_sint, int64_t, b == -1 ? 0 : a % b)
LOOP_DIVIDE(modulo_uint, uint64_t, a % b)

static uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

// A negative exponent gives the truncated reciprocal: 0 except for the bases 1 and -1.
static int64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return (int64_t)power((uint64_t)base, (uint64_t)exponent);
  return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
}

LOOP_INT(pow_sint, int64_t, signed_power(a, b))
LOOP_INT(pow_uint, uint64_t, power(a, b))

LOOP_INT(or_bool, int64_t, a | b)
LOOP_INT(and_bool, int64_t, a &b)
LOOP_INT(xor_bool, int64_t, a ^ b)
LOOP_INT(equal_bool, int64_t, a == b)
LOOP_INT(greater_bool, int64_t, a > b)

#define LOOP_COMPLEX(name, real, imaginary)                                 \
  static bool name(const float *x, const float *y, float *out, int64_t n) { \
    for (int64_t i = 0; i < 2 * n; i += 2) {                                \
      float a = x[i], b = x[i + 1], c = y[i], d = y[i + 1];                 \
      out[i] = real;                                                        \
      out[i + 1] = imaginary;                                               \
    }                                                                       \
    return true;                                                            \
  }

LOOP_COMPLEX(add_c64, a + c, b + d)
LOOP_COMPLEX(sub_c64, a - c, b - d)
LOOP_COMPLEX(mul_c64, a *c - b * d, a *d + b * c)
LOOP_COMPLEX(divide_c64, (float)(((double)a * c + (double)b * d) / ((double)c * c + (double)d * d)),
             (float)(((double)b * c - (double)a * d) / ((double)c * c + (double)d * d)))
LOOP_COMPLEX(equal_c64, a == c && b == d, 0)
LOOP_COMPLEX(not_equal_c64, a != c || b != d, 0)

static bool pow_c64(const float *x, const float *y, float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float complex a, b;
    memcpy(&a, x + 2 * i, sizeof a);
    memcpy(&b, y + 2 * i, sizeof b);
    a = cpowf(a, b);
    memcpy(out + 2 * i, &a, sizeof a);
  }
  return true;
}

typedef struct binary_run {
  const binary *fn;
  const crn_tensor *x, *y, *out;
  _Atomic bool failed;
} binary_run;

static void run_f32(void *user, const crn_span *s) {
  const binary_run *r = user;
  float a[CRN_SPAN_CHUNK], b[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  const float *x = crn_elements_f32(r->x, s->offset[0], s->stride[0], s->n, a);
  const float *y = crn_elements_f32(r->y, s->offset[1], s->stride[1], s->n, b);
  r->fn->f32(x, y, out, s->n);
  if (r->fn->compares) {
    for (int64_t i = 0; i < s->n; i++) ((uint8_t *)r->out->data)[s->out + i] = out[i] != 0;
  } else {
    crn_elements_put_f32(r->out, s->out, s->n, out);
  }
}

static void run_f64(void *user, const crn_span *s) {
  const binary_run *r = user;
  double a[CRN_SPAN_CHUNK], b[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  const double *x = crn_elements_f64(r->x, s->offset[0], s->stride[0], s->n, a);
  const double *y = crn_elements_f64(r->y, s->offset[1], s->stride[1], s->n, b);
  r->fn->f64(x, y, out, s->n);
  crn_elements_put_f64(r->out, s->out, s->n, out);
}

static void run_integers(void *user, const crn_span *s) {
  binary_run *r = user;
  int64_t a[CRN_SPAN_CHUNK], b[CRN_SPAN_CHUNK], out[CRN_SPAN_CHUNK];
  const int64_t *x = crn_elements_i64(r->x, s->offset[0], s->stride[0], s->n, a);
  const int64_t *y = crn_elements_i64(r->y, s->offset[1], s->stride[1], s->n, b);
  crn_dtype_class class = crn_dtype_class_of(r->x->dtype);
  bool ok;
  if (class == CRN_CLASS_BOOL) {
    ok = r->fn->boolean(x, y, out, s->n);
  } else if (class == CRN_CLASS_UINT) {
    ok = r->fn->uint((const uint64_t *)x, (const uint64_t *)y, (uint64_t *)out, s->n);
  } else {
    ok = r->fn->sint(x, y, out, s->n);
  }
  if (ok) {
    crn_elements_put_i64(r->out, s->out, s->n, out);
  } else {
    atomic_store_explicit(&r->failed, true, memory_order_relaxed);
  }
}

static void run_c64(void *user, const crn_span *s) {
  const binary_run *r = user;
  float x[2 * CRN_SPAN_CHUNK], y[2 * CRN_SPAN_CHUNK], out[2 * CRN_SPAN_CHUNK];
  for (int64_t i = 0; i < s->n; i++) {
    const float *p = crn_tensor_at(r->x, s->offset[0] + i * s->stride[0]), *q = crn_tensor_at(r->y, s->offset[1] + i * s->stride[1]);
    x[2 * i] = p[0], x[2 * i + 1] = p[1];
    y[2 * i] = q[0], y[2 * i + 1] = q[1];
  }
  r->fn->c64(x, y, out, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    if (r->fn->compares) {
      ((uint8_t *)r->out->data)[s->out + i] = out[2 * i] != 0;
    } else {
      float *p = crn_tensor_at(r->out, s->out + i);
      p[0] = out[2 * i], p[1] = out[2 * i + 1];
    }
  }
}

static crn_span_fn choose(const binary *fn, cairn_dtype dtype) {
  switch (crn_dtype_class_of(dtype)) {
    case CRN_CLASS_FLOAT:
      return dtype == CAIRN_F64 ? (fn->f64 ? run_f64 : NULL) : (fn->f32 ? run_f32 : NULL);
    case CRN_CLASS_SINT:
      return fn->sint ? run_integers : NULL;
    case CRN_CLASS_UINT:
      return fn->uint ? run_integers : NULL;
    case CRN_CLASS_BOOL:
      return fn->boolean ? run_integers : NULL;
    case CRN_CLASS_COMPLEX:
      return dtype == CAIRN_C64 && fn->c64 ? run_c64 : NULL;
    default:
      return NULL;
  }
}

enum { GRAIN = 8192 };

static cairn_status binary_apply(const crn_kernel_args *args, const binary *fn) {
  binary_run run = {.fn = fn, .x = &args->operands[0], .y = &args->operands[1], .out = &args->results[0]};
  const char *name = crn_op_info_of(args->id)->name;
  cairn_dtype dtype = run.x->dtype, wanted = fn->compares ? CAIRN_BOOL : dtype;
  if (run.y->dtype != dtype) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s of %s and %s: the types must be equal", name, cairn_dtype_name(dtype),
                    cairn_dtype_name(run.y->dtype));
  }
  crn_span_fn span_fn = choose(fn, dtype);
  if (!span_fn || run.out->dtype != wanted) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s to %s has no kernel", name, cairn_dtype_name(dtype), cairn_dtype_name(run.out->dtype));
  }
  crn_spans spans;
  CRN_TRY_NOTE(crn_spans_make(&spans, run.out, 2, args->operands), "in %s", name);
  crn_spans_run(&spans, args->pool, GRAIN, span_fn, &run);
  if (atomic_load_explicit(&run.failed, memory_order_relaxed)) return CRN_FAIL(INVALID_ARGUMENT, "%s: an integer divisor is 0", name);
  return CAIRN_OK;
}

// Defines the plain and the broadcasting form.
#define OP(id, ...)                                                                              \
  static const binary g_##id = {__VA_ARGS__};                                                    \
  cairn_status crn_ref_##id(const crn_kernel_args *args) { return binary_apply(args, &g_##id); } \
  cairn_status crn_ref_broadcasting_##id(const crn_kernel_args *args) { return binary_apply(args, &g_##id); }
#define NUMBERS(id) .f32 = id##_f32, .f64 = id##_f64, .sint = id##_sint, .uint = id##_uint

OP(add, NUMBERS(add), .boolean = or_bool, .c64 = add_c64)
OP(sub, NUMBERS(sub), .c64 = sub_c64)
OP(mul, NUMBERS(mul), .boolean = and_bool, .c64 = mul_c64)
OP(divide, NUMBERS(divide), .c64 = divide_c64)
OP(floor_divide, NUMBERS(floor_divide))
OP(modulo, NUMBERS(modulo))
OP(pow, NUMBERS(pow), .c64 = pow_c64)
OP(maximum, NUMBERS(maximum))
OP(minimum, NUMBERS(minimum))
OP(and, .boolean = and_bool)
OP(or, .boolean = or_bool)
OP(xor, .boolean = xor_bool)
OP(bitwise_and, .sint = bitwise_and_sint, .uint = bitwise_and_uint, .boolean = and_bool)
OP(bitwise_or, .sint = bitwise_or_sint, .uint = bitwise_or_uint, .boolean = or_bool)
OP(bitwise_xor, .sint = bitwise_xor_sint, .uint = bitwise_xor_uint, .boolean = xor_bool)
OP(equal, NUMBERS(equal), .boolean = equal_bool, .c64 = equal_c64, .compares = true)
OP(not_equal, NUMBERS(not_equal), .boolean = xor_bool, .c64 = not_equal_c64, .compares = true)
OP(greater, NUMBERS(greater), .boolean = greater_bool, .compares = true)
