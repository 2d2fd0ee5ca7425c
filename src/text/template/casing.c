#include "text/template/casing.h"

#include <string.h>
#include <utf8proc.h>

#include "text/template/casing_tables.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool in_ranges(const code_range *ranges, size_t n, uint32_t code) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (code > ranges[middle].last)
      low = middle + 1;
    else if (code < ranges[middle].first)
      high = middle;
    else
      return true;
  }
  return false;
}

static utf8proc_category_t category(uint32_t code) { return utf8proc_category((utf8proc_int32_t)code); }

static bool is_letter(utf8proc_category_t c) { return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO; }

static bool is_number(utf8proc_category_t c) { return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO; }

bool crn_code_is_space(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f);
  return code == 0x85 || code == 0x2028 || code == 0x2029 || category(code) == UTF8PROC_CATEGORY_ZS;
}

bool crn_code_is_line_end(uint32_t code) {
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

bool crn_code_is_word(uint32_t code) {
  if (code < 0x80) return (code | 32) - 'a' < 26 || code - '0' < 10 || code == '_';
  return crn_code_is_alphanumeric(code);
}

bool crn_code_is_identifier(uint32_t code, bool first) {
  if (code < 0x80) return (code | 32) - 'a' < 26 || code == '_' || (!first && code - '0' < 10);
  if (code == 0x2118 || code == 0x212e) return true;
  utf8proc_category_t c = category(code);
  if (is_letter(c) || c == UTF8PROC_CATEGORY_NL) return true;
  if (first) return code == 0x1885 || code == 0x1886;
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_PC || code == 0xb7 ||
         code == 0x387 || (code >= 0x1369 && code <= 0x1371) || code == 0x19da;
}

bool crn_code_is_alpha(uint32_t code) { return is_letter(category(code)); }

bool crn_code_is_decimal(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool crn_code_is_digit(uint32_t code) { return crn_code_is_decimal(code) || in_ranges(g_other_digits, COUNT(g_other_digits), code); }

bool crn_code_is_numeric(uint32_t code) {
  return is_number(category(code)) || in_ranges(g_numeric_letters, COUNT(g_numeric_letters), code);
}

bool crn_code_is_alphanumeric(uint32_t code) {
  utf8proc_category_t c = category(code);
  return is_letter(c) || is_number(c);
}

bool crn_code_is_lower(uint32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL || in_ranges(g_other_lowercase, COUNT(g_other_lowercase), code);
}

bool crn_code_is_upper(uint32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU || in_ranges(g_other_uppercase, COUNT(g_other_uppercase), code);
}

bool crn_code_is_title(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }

bool crn_code_is_cased(uint32_t code) { return crn_code_is_lower(code) || crn_code_is_upper(code) || crn_code_is_title(code); }

bool crn_code_is_printable(uint32_t code) {
  utf8proc_category_t c = category(code);
  return code == ' ' || (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_SO);
}

bool crn_code_is_case_ignorable(uint32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static const uint32_t inside_words[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                          0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  for (size_t i = 0; i < COUNT(inside_words); i++) {
    if (inside_words[i] == code) return true;
  }
  return false;
}

// The mapping to several code points; 0 when there is none.
static int map_many(const case_mapping *table, size_t n, uint32_t code, uint32_t out[CRN_CASE_MAX]) {
  if (code < 0x80) return 0;
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].code < code)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == n || table[low].code != code) return 0;
  int count = 0;
  while (count < 3 && table[low].to[count]) {
    out[count] = table[low].to[count];
    count++;
  }
  return count;
}

int crn_code_upper(uint32_t code, uint32_t out[CRN_CASE_MAX]) {
  int n = map_many(g_upper_mappings, COUNT(g_upper_mappings), code, out);
  if (n) return n;
  out[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)code);
  return 1;
}

int crn_code_title(uint32_t code, uint32_t out[CRN_CASE_MAX]) {
  int n = map_many(g_title_mappings, COUNT(g_title_mappings), code, out);
  if (n) return n;
  out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)code);
  return 1;
}

int crn_code_lower(uint32_t code, uint32_t out[CRN_CASE_MAX]) {
  if (code == 0x130) {
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
  return 1;
}

int crn_code_fold(uint32_t code, uint32_t out[CRN_CASE_MAX]) {
  utf8proc_int32_t folded[CRN_CASE_MAX] = {0};
  int last_class = 0;
  utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, folded, CRN_CASE_MAX, UTF8PROC_CASEFOLD, &last_class);
  if (n < 1 || n > CRN_CASE_MAX) {
    out[0] = code;
    return 1;
  }
  for (int i = 0; i < (int)n; i++) out[i] = (uint32_t)folded[i];
  return (int)n;
}
