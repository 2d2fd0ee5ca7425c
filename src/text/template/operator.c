/// Arithmetic on values.
#include <math.h>
#include <string.h>

#include "text/template/html.h"
#include "text/template/render.h"

static const char *const g_symbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static cairn_status bad_operands(tmpl_render *r, tmpl_op op, tmpl_value a, tmpl_value b) {
  if (a.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, a);
  if (b.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, b);
  if (op == TMPL_OP_ADD && (a.type == TMPL_STRING || tmpl_is_sequence(a))) {
    const char *type = crn_tmpl_type_name(a);
    return crn_tmpl_fail(r, "can only concatenate %s (not \"%s\") to %s", type, crn_tmpl_type_name(b), type);
  }
  return crn_tmpl_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", g_symbols[op], crn_tmpl_type_name(a), crn_tmpl_type_name(b));
}

static cairn_status overflow(tmpl_render *r) { return crn_tmpl_fail(r, "an integer does not fit in 64 bits"); }

// Division that rounds down, and the remainder that belongs to it.
static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t m = a % b;
  return m && (m < 0) != (b < 0) ? m + b : m;
}

static double float_mod(double a, double b) {
  double m = fmod(a, b);
  if (m == 0) return copysign(0.0, b);
  return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floor_div(double a, double b) {
  double m = fmod(a, b), q = (a - m) / b;
  if (m != 0 && (m < 0) != (b < 0)) q -= 1;
  if (q == 0) return copysign(0.0, a / b);
  double f = floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

// The quotient of integers is rounded once, even when they are too large for a double.
static double divide(int64_t a, int64_t b) {
  const int64_t exact = (int64_t)1 << 53;
  if (a >= -exact && a <= exact && b >= -exact && b <= exact) return (double)a / (double)b;
  return (double)((long double)a / (long double)b);
}

static cairn_status power(tmpl_render *r, int64_t base, int64_t exponent, tmpl_value *out) {
  if (exponent < 0) {
    if (base == 0) return crn_tmpl_fail(r, "0.0 cannot be raised to a negative power");
    *out = tmpl_float(pow((double)base, (double)exponent));
    return CAIRN_OK;
  }
  int64_t result = 1;
  if (base == 1 || base == 0 || base == -1) {
    result = base == 0 ? exponent == 0 : base == 1 || exponent % 2 == 0 ? 1 : -1;
  } else {
    if (exponent > 63) return overflow(r);
    for (int64_t i = 0; i < exponent; i++) {
      if (__builtin_mul_overflow(result, base, &result)) return overflow(r);
    }
  }
  *out = tmpl_int(result);
  return CAIRN_OK;
}

static cairn_status int_op(tmpl_render *r, tmpl_op op, int64_t a, int64_t b, tmpl_value *out) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case TMPL_OP_ADD:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case TMPL_OP_SUB:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case TMPL_OP_MUL:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case TMPL_OP_DIV:
      if (b == 0) return crn_tmpl_fail(r, "division by zero");
      *out = tmpl_float(divide(a, b));
      return CAIRN_OK;
    case TMPL_OP_FLOORDIV:
      if (b == 0) return crn_tmpl_fail(r, "integer division or modulo by zero");
      if (a == INT64_MIN && b == -1) return overflow(r);
      result = floor_div(a, b);
      break;
    case TMPL_OP_MOD:
      if (b == 0) return crn_tmpl_fail(r, "integer modulo by zero");
      result = floor_mod(a, b);
      break;
    default:
      return power(r, a, b, out);
  }
  if (overflows) return overflow(r);
  *out = tmpl_int(result);
  return CAIRN_OK;
}

static cairn_status float_op(tmpl_render *r, tmpl_op op, double a, double b, tmpl_value *out) {
  double result = 0;
  if (b == 0 && (op == TMPL_OP_DIV || op == TMPL_OP_FLOORDIV || op == TMPL_OP_MOD)) {
    return crn_tmpl_fail(r, op == TMPL_OP_DIV   ? "float division by zero"
                            : op == TMPL_OP_MOD ? "float modulo"
                                                : "float floor division by zero");
  }
  switch (op) {
    case TMPL_OP_ADD:
      result = a + b;
      break;
    case TMPL_OP_SUB:
      result = a - b;
      break;
    case TMPL_OP_MUL:
      result = a * b;
      break;
    case TMPL_OP_DIV:
      result = a / b;
      break;
    case TMPL_OP_FLOORDIV:
      result = float_floor_div(a, b);
      break;
    case TMPL_OP_MOD:
      result = float_mod(a, b);
      break;
    default:
      if (a == 0 && b < 0) return crn_tmpl_fail(r, "0.0 cannot be raised to a negative power");
      if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b)) return crn_tmpl_fail(r, "complex numbers are not supported");
      result = pow(a, b);
      if (isinf(result) && isfinite(a) && isfinite(b)) return crn_tmpl_fail(r, "the result of a power is too large");
      break;
  }
  *out = tmpl_float(result);
  return CAIRN_OK;
}

// text * count and list * count; a negative count is none.
static cairn_status repeat(tmpl_render *r, tmpl_value v, int64_t count, tmpl_value *out) {
  if (count < 0) count = 0;
  if (v.type == TMPL_STRING) {
    tmpl_buffer b = {0};
    CRN_TRY(crn_tmpl_put_repeated(r, &b, v.s->data, v.s->size, (size_t)count));
    CRN_TRY(crn_tmpl_str_finish(r, &b, out));
    return crn_tmpl_str_mark(r, out->s, v.s->markup, out);
  }
  size_t n = v.list->size, total;
  if (__builtin_mul_overflow(n, (size_t)count, &total)) return crn_tmpl_limit(r, "a list is too long");
  tmpl_items items = {.capacity = total};
  CRN_TRY(crn_tmpl_alloc(r, total, sizeof(tmpl_value), &items.base));
  CRN_TRY(crn_tmpl_steps(r, total));
  for (size_t i = 0; i < total; i++) items.base[i] = v.list->items[i % n];
  items.used = total;
  return crn_tmpl_list_finish(r, &items, v.type, out);
}

// Safe HTML stays safe: what is added to it is escaped.
static cairn_status add_text(tmpl_render *r, const tmpl_str *a, const tmpl_str *b, tmpl_value *out) {
  if (!a->markup && !b->markup) return crn_tmpl_str_concat(r, a, b, out);
  tmpl_value left, right;
  CRN_TRY(crn_tmpl_escape(r, tmpl_string(a), &left));
  CRN_TRY(crn_tmpl_escape(r, tmpl_string(b), &right));
  CRN_TRY(crn_tmpl_str_concat(r, left.s, right.s, out));
  return crn_tmpl_str_mark(r, out->s, true, out);
}

cairn_status crn_tmpl_binary(tmpl_render *r, tmpl_op op, tmpl_value a, tmpl_value b, tmpl_value *out) {
  if (tmpl_is_integral(a) && tmpl_is_integral(b)) return int_op(r, op, tmpl_as_int(a), tmpl_as_int(b), out);
  if (tmpl_is_number(a) && tmpl_is_number(b)) return float_op(r, op, tmpl_as_double(a), tmpl_as_double(b), out);
  if (op == TMPL_OP_ADD) {
    if (a.type == TMPL_STRING && b.type == TMPL_STRING) return add_text(r, a.s, b.s, out);
    if (tmpl_is_sequence(a) && a.type == b.type) return crn_tmpl_list_concat(r, a, b, out);
  }
  if (op == TMPL_OP_MUL) {
    bool a_repeats = a.type == TMPL_STRING || tmpl_is_sequence(a), b_repeats = b.type == TMPL_STRING || tmpl_is_sequence(b);
    if (a_repeats && tmpl_is_integral(b)) return repeat(r, a, tmpl_as_int(b), out);
    if (b_repeats && tmpl_is_integral(a)) return repeat(r, b, tmpl_as_int(a), out);
  }
  if (op == TMPL_OP_MOD && a.type == TMPL_STRING) return crn_tmpl_format_percent(r, a.s, b, out);
  return bad_operands(r, op, a, b);
}

cairn_status crn_tmpl_negate(tmpl_render *r, tmpl_value v, bool minus, tmpl_value *out) {
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (!tmpl_is_number(v)) return crn_tmpl_fail(r, "bad operand type for unary %s: '%s'", minus ? "-" : "+", crn_tmpl_type_name(v));
  if (v.type == TMPL_FLOAT) {
    *out = tmpl_float(minus ? -v.d : v.d);
    return CAIRN_OK;
  }
  int64_t i = tmpl_as_int(v);
  if (minus && i == INT64_MIN) return overflow(r);
  *out = tmpl_int(minus ? -i : i);
  return CAIRN_OK;
}
