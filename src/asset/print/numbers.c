#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asset/print/printer.h"
#include "tensor/half.h"

enum { WORD_DIGITS = 19, MAX_WORDS = 128 };  // 10^19 is the largest power of ten in a word; 8192 bits are read at most

void crn_print_unsigned(crn_printer *p, uint64_t v) {
  char text[24];
  size_t at = sizeof text;
  do {
    text[--at] = (char)('0' + v % 10);
    v /= 10;
  } while (v);
  crn_print_bytes(p, text + at, sizeof text - at);
}

void crn_print_signed(crn_printer *p, int64_t v) {
  if (v < 0) crn_print_text(p, "-");
  crn_print_unsigned(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

// Two's complement negation within `width` bits.
static void negate(uint64_t *words, uint32_t n, uint64_t width) {
  bool carry = true;
  for (uint32_t i = 0; i < n; i++) {
    words[i] = ~words[i] + carry;
    carry = carry && words[i] == 0;
  }
  if (width % 64) words[n - 1] &= (1ull << width % 64) - 1;
}

// Divides the words by 10^19 in place and returns the remainder.
static uint64_t divide(uint64_t *words, uint32_t n) {
  unsigned __int128 rest = 0;
  for (uint32_t i = n; i-- > 0;) {
    rest = rest << 64 | words[i];
    words[i] = (uint64_t)(rest / 10000000000000000000u);
    rest %= 10000000000000000000u;
  }
  return (uint64_t)rest;
}

void crn_print_wide(crn_printer *p, const uint64_t *given, uint32_t n, uint64_t width, bool is_unsigned) {
  uint64_t words[MAX_WORDS], digits[MAX_WORDS * 64 / 63 + 2];
  if (n > MAX_WORDS) n = MAX_WORDS;
  memcpy(words, given, n * sizeof *words);
  if (!is_unsigned && width && words[(width - 1) / 64] >> (width - 1) % 64 & 1) {
    crn_print_text(p, "-");
    negate(words, n, width);
  }
  uint32_t n_digits = 0;
  do {
    while (n && !words[n - 1]) n--;
    digits[n_digits++] = divide(words, n);
    while (n && !words[n - 1]) n--;
  } while (n);
  crn_print_unsigned(p, digits[--n_digits]);
  while (n_digits) {
    char text[WORD_DIGITS + 1];
    uint64_t v = digits[--n_digits];
    for (int i = WORD_DIGITS; i-- > 0; v /= 10) text[i] = (char)('0' + v % 10);
    crn_print_bytes(p, text, WORD_DIGITS);
  }
}

static double float_of_bits(uint64_t bits, uint64_t width) {
  if (width == 64) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
  }
  if (width == 16) return crn_f16_to_f32((uint16_t)bits);
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof f);
  return f;
}

// `v` as a number of that width would hold it.
static double round_to(double v, uint64_t width) {
  if (width == 64) return v;
  return width == 32 ? (double)(float)v : crn_f16_to_f32(crn_f16_from_f32((float)v));
}

// Whatever stands between the digits is the decimal point of the locale; the text always has '.'.
static void print_point_form(crn_printer *p, const char *text) {
  bool was_point = false;
  for (; *text; text++) {
    bool is_point = !strchr("0123456789+-e", *text);
    if (!is_point) crn_print_bytes(p, text, 1);
    if (is_point && !was_point) crn_print_text(p, ".");
    was_point = is_point;
  }
}

void crn_print_float(crn_printer *p, uint64_t bits, uint64_t width) {
  double v = float_of_bits(bits, width);
  char text[64];
  if (isfinite(v)) {
    snprintf(text, sizeof text, "%.6e", v);
    if (round_to(strtod(text, NULL), width) == v) {
      print_point_form(p, text);
      return;
    }
    snprintf(text, sizeof text, "%.*g", width == 16 ? 5 : width == 32 ? 9 : 17, v);
    if (strspn(text, "0123456789+-e") != strlen(text)) {
      print_point_form(p, text);
      return;
    }
  }
  snprintf(text, sizeof text, "0x%0*llX", (int)(width / 4), (unsigned long long)bits);
  crn_print_text(p, text);
}

void crn_print_base64(crn_printer *p, const unsigned char *data, size_t bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes && p->status == CAIRN_OK; i += 3) {
    size_t n = bytes - i < 3 ? bytes - i : 3;
    uint32_t v = (uint32_t)data[i] << 16 | (n > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (n > 2 ? data[i + 2] : 0);
    char quad[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '='};
    crn_print_bytes(p, quad, sizeof quad);
  }
}
