#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include "text/tokenizer/unicode_tables.h"

static bool inside(const crn_code_range *ranges, size_t n, uint32_t code) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (ranges[mid].last < code) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low < n && ranges[low].first <= code;
}

bool crn_is_whitespace(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

bool crn_is_numeric(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return inside(crn_numeric_ranges, crn_n_numeric_ranges, c);
}

bool crn_is_punctuation(uint32_t c) {
  if (c < 0x80) return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return inside(crn_punctuation_ranges, crn_n_punctuation_ranges, c);
}

bool crn_is_word(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return inside(crn_word_ranges, crn_n_word_ranges, c);
}

bool crn_is_other(uint32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7f;
  return inside(crn_other_ranges, crn_n_other_ranges, c);
}

bool crn_is_nonspacing_mark(uint32_t c) { return c >= 0x80 && inside(crn_nonspacing_ranges, crn_n_nonspacing_ranges, c); }

bool crn_is_combining_mark(uint32_t c) { return c >= 0x80 && inside(crn_mark_ranges, crn_n_mark_ranges, c); }

// Pairs of letters that came after the Unicode 14 of older utf8proc versions.
static uint32_t newer_lowercase(uint32_t c) {
  if (c == 0xa7cb) return 0x264;
  if (c == 0xa7dc) return 0x19b;
  if (c == 0x1c89 || c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da) return c + 1;
  if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;
  return c >= 0x16ea0 && c <= 0x16eb8 ? c + 27 : c;
}

int crn_lowercase(uint32_t c, uint32_t out[2]) {
  if (c < 0x80) {
    out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
    return 1;
  }
  if (c == 0x130) {
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  if (out[0] == c) out[0] = newer_lowercase(c);
  return 1;
}

bool crn_is_newer_mark(uint32_t c) {
  static const crn_code_range marks[] = {
      {0x897, 0x897},     {0xcf3, 0xcf3},     {0xece, 0xece},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},   {0x10d69, 0x10d6d},
      {0x10efc, 0x10eff}, {0x11241, 0x11241}, {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca},
      {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2}, {0x11f00, 0x11f01}, {0x11f03, 0x11f03}, {0x11f34, 0x11f3a},
      {0x11f3e, 0x11f42}, {0x11f5a, 0x11f5a}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611e, 0x1612f}, {0x1e08f, 0x1e08f},
      {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
  };
  return c >= 0x897 && inside(marks, sizeof marks / sizeof *marks, c);
}
