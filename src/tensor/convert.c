// Conversions between element types: a fast loop for the pairs that matter, a general one through f64 or i64 for the rest.
#include <math.h>
#include <string.h>

#include "tensor/half.h"
#include "tensor/tensor.h"

double crn_load_f64(cairn_dtype dtype, const void *p) {
  switch (dtype) {
    case CAIRN_F64:
    case CAIRN_C128:
      return *(const double *)p;
    case CAIRN_F32:
    case CAIRN_TF32:
    case CAIRN_C64:
      return *(const float *)p;
    case CAIRN_F16:
    case CAIRN_C32:
      return crn_f16_to_f32(*(const uint16_t *)p);
    case CAIRN_BF16:
    case CAIRN_CBF16:
      return crn_bf16_to_f32(*(const uint16_t *)p);
    case CAIRN_F8E5M2:
    case CAIRN_CF8E5M2:
      return crn_f8e5m2_to_f32(*(const uint8_t *)p);
    case CAIRN_F8E4M3FN:
    case CAIRN_CF8E4M3FN:
      return crn_f8e4m3fn_to_f32(*(const uint8_t *)p);
    case CAIRN_F8E8M0FNU:
      return crn_f8e8m0fnu_to_f32(*(const uint8_t *)p);
    case CAIRN_F4E2M1FN:
      return crn_f4e2m1fn_to_f32(*(const uint8_t *)p);
    case CAIRN_UI64:
      return (double)*(const uint64_t *)p;
    default:
      return (double)crn_load_i64(dtype, p);
  }
}

int64_t crn_load_i64(cairn_dtype dtype, const void *p) {
  switch (dtype) {
    case CAIRN_SI64:
    case CAIRN_UI64:
      return *(const int64_t *)p;
    case CAIRN_SI32:
      return *(const int32_t *)p;
    case CAIRN_UI32:
      return *(const uint32_t *)p;
    case CAIRN_SI16:
      return *(const int16_t *)p;
    case CAIRN_UI16:
      return *(const uint16_t *)p;
    case CAIRN_SI8:
    case CAIRN_SI4:
    case CAIRN_SI2:
      return *(const int8_t *)p;
    case CAIRN_BOOL:
      return *(const uint8_t *)p != 0;
    case CAIRN_UI8:
    case CAIRN_UI6:
    case CAIRN_UI4:
    case CAIRN_UI3:
    case CAIRN_UI2:
    case CAIRN_UI1:
      return *(const uint8_t *)p;
    default: {
      double v = crn_load_f64(dtype, p);
      return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
    }
  }
}

void crn_store_f64(cairn_dtype dtype, void *p, double v) {
  switch (dtype) {
    case CAIRN_F64:
      *(double *)p = v;
      return;
    case CAIRN_C128:
      ((double *)p)[0] = v, ((double *)p)[1] = 0;
      return;
    case CAIRN_F32:
    case CAIRN_TF32:
      *(float *)p = (float)v;
      return;
    case CAIRN_C64:
      ((float *)p)[0] = (float)v, ((float *)p)[1] = 0;
      return;
    case CAIRN_F16:
      *(uint16_t *)p = crn_f16_from_f32((float)v);
      return;
    case CAIRN_C32:
      ((uint16_t *)p)[0] = crn_f16_from_f32((float)v), ((uint16_t *)p)[1] = 0;
      return;
    case CAIRN_BF16:
      *(uint16_t *)p = crn_bf16_from_f32((float)v);
      return;
    case CAIRN_CBF16:
      ((uint16_t *)p)[0] = crn_bf16_from_f32((float)v), ((uint16_t *)p)[1] = 0;
      return;
    case CAIRN_F8E5M2:
      *(uint8_t *)p = crn_f8e5m2_from_f32((float)v);
      return;
    case CAIRN_F8E4M3FN:
      *(uint8_t *)p = crn_f8e4m3fn_from_f32((float)v);
      return;
    case CAIRN_F8E8M0FNU:
      *(uint8_t *)p = crn_f8e8m0fnu_from_f32((float)v);
      return;
    case CAIRN_F4E2M1FN:
      *(uint8_t *)p = crn_f4e2m1fn_from_f32((float)v);
      return;
    case CAIRN_CF8E5M2:
      ((uint8_t *)p)[0] = crn_f8e5m2_from_f32((float)v), ((uint8_t *)p)[1] = 0;
      return;
    case CAIRN_CF8E4M3FN:
      ((uint8_t *)p)[0] = crn_f8e4m3fn_from_f32((float)v), ((uint8_t *)p)[1] = 0;
      return;
    case CAIRN_BOOL:
      *(uint8_t *)p = v != 0;
      return;
    default:
      break;
  }
  // Integers: truncate, saturate, NaN gives 0.
  int bits = crn_dtype_bits(dtype);
  bool is_signed = crn_dtype_class_of(dtype) == CRN_CLASS_SINT;
  double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
  v = trunc(v);
  if (v != v) {
    crn_store_i64(dtype, p, 0);
  } else if (v < low) {
    crn_store_i64(dtype, p, is_signed ? (int64_t)low : 0);
  } else if (v >= high) {
    crn_store_i64(dtype, p, bits == 64 ? (is_signed ? INT64_MAX : -1) : (int64_t)(high - 1));
  } else if (v >= 0x1p63) {
    *(uint64_t *)p = (uint64_t)v;
  } else {
    crn_store_i64(dtype, p, (int64_t)v);
  }
}

void crn_store_i64(cairn_dtype dtype, void *p, int64_t v) {
  switch (dtype) {
    case CAIRN_SI64:
    case CAIRN_UI64:
      *(int64_t *)p = v;
      return;
    case CAIRN_SI32:
    case CAIRN_UI32:
      *(uint32_t *)p = (uint32_t)v;
      return;
    case CAIRN_SI16:
    case CAIRN_UI16:
      *(uint16_t *)p = (uint16_t)v;
      return;
    case CAIRN_SI8:
    case CAIRN_UI8:
      *(uint8_t *)p = (uint8_t)v;
      return;
    case CAIRN_SI4:
      *(int8_t *)p = (int8_t)((int8_t)((uint8_t)v << 4) >> 4);
      return;
    case CAIRN_SI2:
      *(int8_t *)p = (int8_t)((int8_t)((uint8_t)v << 6) >> 6);
      return;
    case CAIRN_UI6:
      *(uint8_t *)p = v & 63;
      return;
    case CAIRN_UI4:
      *(uint8_t *)p = v & 15;
      return;
    case CAIRN_UI3:
      *(uint8_t *)p = v & 7;
      return;
    case CAIRN_UI2:
      *(uint8_t *)p = v & 3;
      return;
    case CAIRN_UI1:
      *(uint8_t *)p = v & 1;
      return;
    case CAIRN_BOOL:
      *(uint8_t *)p = v != 0;
      return;
    default:
      crn_store_f64(dtype, p, (double)v);
      return;
  }
}

// Clamps an integer into the range of an integer type. `u` says that the value is an unsigned 64-bit one.
static int64_t saturate(cairn_dtype to, int64_t v, bool u) {
  int bits = crn_dtype_bits(to);
  bool is_signed = crn_dtype_class_of(to) == CRN_CLASS_SINT;
  if (u && v < 0) return is_signed ? (bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1) : bits == 64 ? v : (1ll << bits) - 1;
  if (is_signed) {
    if (bits == 64) return v;
    int64_t high = (1ll << (bits - 1)) - 1;
    return v > high ? high : v < -high - 1 ? -high - 1 : v;
  }
  if (v < 0) return 0;
  return bits < 64 && v > (1ll << bits) - 1 ? (1ll << bits) - 1 : v;
}

static bool is_integral(cairn_dtype d) { return crn_dtype_is_integer(d) || d == CAIRN_BOOL; }

static void convert_general(cairn_dtype from, const char *source, cairn_dtype to, char *target, int64_t n) {
  size_t a = cairn_dtype_bytes(from), b = cairn_dtype_bytes(to);
  bool both_complex = crn_dtype_is_complex(from) && crn_dtype_is_complex(to);
  for (int64_t i = 0; i < n; i++, source += a, target += b) {
    if (to == CAIRN_BOOL) {
      *(uint8_t *)target = is_integral(from) ? crn_load_i64(from, source) != 0 : crn_load_f64(from, source) != 0;
    } else if (is_integral(from) && crn_dtype_is_integer(to)) {
      crn_store_i64(to, target, saturate(to, crn_load_i64(from, source), from == CAIRN_UI64));
    } else {
      crn_store_f64(to, target, crn_load_f64(from, source));
      // The imaginary half has the layout of the real one, right behind it.
      if (both_complex) {
        double imaginary = crn_load_f64(from, source + a / 2);
        char pair[16];
        crn_store_f64(to, pair, imaginary);
        memcpy(target + b / 2, pair, b / 2);
      }
    }
  }
}

#define LOOP(FROM, TO, expr)                           \
  {                                                    \
    const FROM *s = source;                            \
    TO *t = target;                                    \
    for (int64_t i = 0; i < n; i++) t[i] = (TO)(expr); \
    return;                                            \
  }

void crn_convert(cairn_dtype from, const void *source, cairn_dtype to, void *target, int64_t n) {
  if (from == to) {
    memcpy(target, source, (size_t)n * cairn_dtype_bytes(from));
    return;
  }
#define PAIR(a, b) ((int)(a)*CAIRN_DTYPE_COUNT + (int)(b))
  switch (PAIR(from, to)) {
    case PAIR(CAIRN_F16, CAIRN_F32):
      LOOP(uint16_t, float, crn_f16_to_f32(s[i]))
    case PAIR(CAIRN_F32, CAIRN_F16):
      LOOP(float, uint16_t, crn_f16_from_f32(s[i]))
    case PAIR(CAIRN_BF16, CAIRN_F32):
      LOOP(uint16_t, float, crn_bf16_to_f32(s[i]))
    case PAIR(CAIRN_F32, CAIRN_BF16):
      LOOP(float, uint16_t, crn_bf16_from_f32(s[i]))
    case PAIR(CAIRN_SI32, CAIRN_F32):
      LOOP(int32_t, float, s[i])
    case PAIR(CAIRN_SI32, CAIRN_UI32):
      LOOP(int32_t, uint32_t, s[i] < 0 ? 0 : s[i])
    case PAIR(CAIRN_UI32, CAIRN_SI32):
      LOOP(uint32_t, int32_t, s[i] > INT32_MAX ? INT32_MAX : s[i])
    case PAIR(CAIRN_F32, CAIRN_F64):
      LOOP(float, double, s[i])
    case PAIR(CAIRN_F64, CAIRN_F32):
      LOOP(double, float, s[i])
    default:
      convert_general(from, source, to, target, n);
  }
#undef PAIR
}
