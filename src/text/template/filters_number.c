/// Filters on numbers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/filter_helpers.h"
#include "text/template/number.h"

static cairn_status too_large(tmpl_render *r) { return crn_tmpl_fail(r, "an integer does not fit in 64 bits"); }

FILTER_FN(abs) {
  UNUSED_ARGS;
  if (!tmpl_is_number(v)) return crn_tmpl_fail(r, "bad operand type for abs(): '%s'", crn_tmpl_type_name(v));
  if (v.type == TMPL_FLOAT) {
    *out = tmpl_float(fabs(v.d));
    return CAIRN_OK;
  }
  int64_t i = tmpl_as_int(v);
  if (i == INT64_MIN) return too_large(r);
  *out = tmpl_int(i < 0 ? -i : i);
  return CAIRN_OK;
}

static bool fits_int(double d) { return d >= -9223372036854775808.0 && d < 9223372036854775808.0; }

// int(d), which cuts off the fraction. `*out_ok` is false for what is no number.
static cairn_status int_of_float(tmpl_render *r, double d, bool from_text, tmpl_value *out, bool *out_ok) {
  *out_ok = !isnan(d) && !(from_text && isinf(d));
  if (!*out_ok) return CAIRN_OK;
  if (isinf(d)) return crn_tmpl_fail(r, "cannot convert float infinity to integer");
  if (!fits_int(trunc(d))) return too_large(r);
  *out = tmpl_int((int64_t)d);
  return CAIRN_OK;
}

FILTER_FN(int) {
  UNUSED_ARGS;
  int64_t base;
  bool ok = false;
  double d;
  // A base that is none makes the text no integer, which is no error.
  base = !tmpl_given(argv[1]) ? 10 : tmpl_is_integral(argv[1]) ? tmpl_as_int(argv[1]) : -1;
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (v.type == TMPL_STRING) {
    if (base != 0 && (base < 2 || base > 36)) base = -1;
    tmpl_int_result result = base < 0 ? TMPL_INT_INVALID : crn_tmpl_int_of_text(v.s->data, v.s->size, (int)base, &out->i);
    if (result == TMPL_INT_TOO_LARGE) return too_large(r);
    if (result == TMPL_INT_OK) {
      out->type = TMPL_INT;
      return CAIRN_OK;
    }
    if (crn_tmpl_float_of_text(v.s->data, v.s->size, &d)) CRN_TRY(int_of_float(r, d, true, out, &ok));
  } else if (v.type == TMPL_FLOAT) {
    CRN_TRY(int_of_float(r, v.d, false, out, &ok));
  } else if (tmpl_is_integral(v)) {
    *out = tmpl_int(tmpl_as_int(v));
    ok = true;
  }
  if (!ok) *out = tmpl_given(argv[0]) ? argv[0] : tmpl_int(0);
  return CAIRN_OK;
}

FILTER_FN(float) {
  UNUSED_ARGS;
  double d;
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (tmpl_is_number(v))
    *out = tmpl_float(tmpl_as_double(v));
  else if (v.type == TMPL_STRING && crn_tmpl_float_of_text(v.s->data, v.s->size, &d))
    *out = tmpl_float(d);
  else
    *out = tmpl_given(argv[0]) ? argv[0] : tmpl_float(0);
  return CAIRN_OK;
}

// round() of an integer: only negative digits change it, with ties to even.
static cairn_status round_int(tmpl_render *r, int64_t i, int64_t digits, tmpl_value *out) {
  *out = tmpl_int(i);
  if (digits >= 0) return CAIRN_OK;
  if (digits < -18) {
    *out = tmpl_int(0);
    return CAIRN_OK;
  }
  int64_t unit = 1;
  for (int64_t k = digits; k < 0; k++) unit *= 10;
  int64_t rest = i % unit, down = i - rest, twice = (rest < 0 ? -rest : rest);
  bool up = twice > unit - twice || (twice == unit - twice && (down / unit) % 2 != 0);
  if (up && __builtin_add_overflow(down, i < 0 ? -unit : unit, &down)) return too_large(r);
  *out = tmpl_int(down);
  return CAIRN_OK;
}

static cairn_status round_towards(tmpl_render *r, tmpl_value v, int64_t precision, bool up, tmpl_value *out) {
  // As Jinja computes it: scaled, rounded to an integer, scaled back with a true division.
  double scale = pow(10, (double)precision);
  double scaled = tmpl_as_double(v) * scale;
  if (!isfinite(scaled)) return crn_tmpl_fail(r, "cannot convert float %s to integer", isnan(scaled) ? "NaN" : "infinity");
  *out = tmpl_float((up ? ceil(scaled) : floor(scaled)) / scale);
  // An integer has no negative zero to lose its sign from.
  if (out->d == 0) out->d = 0;
  return CAIRN_OK;
}

FILTER_FN(round) {
  UNUSED_ARGS;
  int64_t precision;
  bool common = true, up = false;
  if (tmpl_given(argv[1])) {
    common = argv[1].type == TMPL_STRING && crn_tmpl_str_is(argv[1].s, "common");
    up = argv[1].type == TMPL_STRING && crn_tmpl_str_is(argv[1].s, "ceil");
    bool down = argv[1].type == TMPL_STRING && crn_tmpl_str_is(argv[1].s, "floor");
    if (!common && !up && !down) return crn_tmpl_fail(r, "method must be common, ceil or floor");
  }
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (!tmpl_is_number(v)) return crn_tmpl_fail(r, "type %s doesn't define __round__ method", crn_tmpl_type_name(v));
  if (common && argv[0].type == TMPL_NONE) {
    bool ok;
    if (v.type != TMPL_FLOAT) return round_int(r, tmpl_as_int(v), 0, out);
    CRN_TRY(int_of_float(r, crn_tmpl_round_double(v.d, 0), false, out, &ok));
    return ok ? CAIRN_OK : crn_tmpl_fail(r, "cannot convert float NaN to integer");
  }
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 0, &precision));
  if (!common) return round_towards(r, v, precision, up, out);
  if (v.type != TMPL_FLOAT) return round_int(r, tmpl_as_int(v), precision, out);
  *out = tmpl_float(crn_tmpl_round_double(v.d, precision));
  return CAIRN_OK;
}

FILTER_FN(filesizeformat) {
  UNUSED_ARGS;
  bool binary = tmpl_flag(argv[0], false);
  double bytes, base = binary ? 1024 : 1000, unit = base;
  char text[400];
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (tmpl_is_number(v))
    bytes = tmpl_as_double(v);
  else if (v.type != TMPL_STRING || !crn_tmpl_float_of_text(v.s->data, v.s->size, &bytes)) {
    return crn_tmpl_fail(r, "could not convert %s to float", crn_tmpl_type_name(v));
  }
  if (bytes == 1) return crn_tmpl_str_borrow(r, "1 Byte", 6, out);
  if (bytes < base) {
    if (!fits_int(bytes)) return too_large(r);
    int n = snprintf(text, sizeof text, "%lld Bytes", (long long)bytes);
    return crn_tmpl_str_copy(r, text, (size_t)n, out);
  }
  static const char prefixes[] = "kMGTPEZY";
  size_t at = 0;
  for (; at < sizeof prefixes - 2 && !(bytes < unit * base); at++) unit *= base;
  int n = crn_tmpl_format_double(text, sizeof text - 8, "%.*f", 1, base * bytes / (unit * base));
  if (n < 0 || n > (int)sizeof text - 8) return crn_tmpl_fail(r, "a number is too large");
  char prefix = binary && prefixes[at] == 'k' ? 'K' : prefixes[at];
  n += snprintf(text + n, sizeof text - (size_t)n, " %c%sB", prefix, binary ? "i" : "");
  return crn_tmpl_str_copy(r, text, (size_t)n, out);
}
