#include "base/str.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

static char g_empty[1] = "";

void crn_str_initialize(crn_str *s, const cairn_allocator *allocator) {
  *s = (crn_str){.allocator = allocator ? allocator : crn_default_allocator(), .data = g_empty};
}

void crn_str_deinitialize(crn_str *s) {
  if (s->capacity) crn_free(s->allocator, s->data, s->capacity);
  s->data = g_empty;
  s->size = s->capacity = 0;
}

void crn_str_clear(crn_str *s) {
  s->size = 0;
  if (s->capacity) s->data[0] = 0;
}

cairn_status crn_str_reserve(crn_str *s, size_t extra) {
  size_t need;
  if (!crn_add_size(s->size, extra, &need) || !crn_add_size(need, 1, &need))
    return CRN_FAIL(OUT_OF_MEMORY, "text of more than %zu bytes", s->size);
  if (need <= s->capacity) return CAIRN_OK;
  size_t capacity = s->capacity < 32 ? 32 : s->capacity + s->capacity / 2;
  if (capacity < need) capacity = need;
  char *data = NULL;
  CRN_TRY(crn_alloc(s->allocator, capacity, &data));
  memcpy(data, s->data, s->size + 1);
  if (s->capacity) crn_free(s->allocator, s->data, s->capacity);
  s->data = data;
  s->capacity = capacity;
  return CAIRN_OK;
}

cairn_status crn_str_append(crn_str *s, const char *text, size_t n) {
  CRN_TRY(crn_str_reserve(s, n));
  if (n) memcpy(s->data + s->size, text, n);
  s->size += n;
  s->data[s->size] = 0;
  return CAIRN_OK;
}

cairn_status crn_str_puts(crn_str *s, const char *text) { return crn_str_append(s, text, strlen(text)); }

cairn_status crn_str_putc(crn_str *s, char c) { return crn_str_append(s, &c, 1); }

cairn_status crn_str_vprintf(crn_str *s, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  if (n < 0) return CRN_FAIL(INTERNAL, "bad format");
  CRN_TRY(crn_str_reserve(s, (size_t)n));
  vsnprintf(s->data + s->size, (size_t)n + 1, fmt, args);
  s->size += (size_t)n;
  return CAIRN_OK;
}

cairn_status crn_str_printf(crn_str *s, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  cairn_status status = crn_str_vprintf(s, fmt, args);
  va_end(args);
  return status;
}

cairn_status crn_str_json(crn_str *s, const char *text, size_t n) {
  CRN_TRY(crn_str_putc(s, '"'));
  for (const char *p = text, *end = text + n; p < end;) {
    unsigned char c = (unsigned char)*p;
    if (c == '"' || c == '\\') {
      CRN_TRY(crn_str_printf(s, "\\%c", c));
      p++;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      CRN_TRY(crn_str_printf(s, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r'));
      p++;
    } else if (c < 0x20 || c == 0x7f) {
      CRN_TRY(crn_str_printf(s, "\\u%04x", c));
      p++;
    } else {
      uint32_t code;
      bool valid;
      int used = crn_utf8_decode(p, end, &code, &valid);
      // Characters that some readers take for the end of a line: an object a line must stay on its line.
      bool ends_line = valid && ((code >= 0x80 && code < 0xa0) || code == 0x2028 || code == 0x2029);
      if (ends_line)
        CRN_TRY(crn_str_printf(s, "\\u%04x", (unsigned)code));
      else
        CRN_TRY(valid ? crn_str_append(s, p, (size_t)used) : crn_str_puts(s, "\xef\xbf\xbd"));
      p += used;
    }
  }
  return crn_str_putc(s, '"');
}

bool crn_starts_with(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

bool crn_ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && !memcmp(text + n - m, suffix, m);
}

// Table 3-7 of the Unicode standard: the ranges of well-formed second bytes depend on the first.
static int sequence_length(unsigned char c, unsigned char *low, unsigned char *high) {
  *low = 0x80;
  *high = 0xbf;
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf) return 2;
  if (c >= 0xe0 && c <= 0xef) {
    if (c == 0xe0) *low = 0xa0;
    if (c == 0xed) *high = 0x9f;
    return 3;
  }
  if (c >= 0xf0 && c <= 0xf4) {
    if (c == 0xf0) *low = 0x90;
    if (c == 0xf4) *high = 0x8f;
    return 4;
  }
  return 0;
}

int crn_utf8_decode(const char *p, const char *end, uint32_t *out_code, bool *out_valid) {
  unsigned char c = (unsigned char)*p, low, high;
  int n = sequence_length(c, &low, &high);
  *out_valid = false;
  *out_code = 0xfffd;
  if (n == 0) return 1;
  uint32_t code = n == 1 ? c : c & (0x7fu >> n);
  for (int i = 1; i < n; i++) {
    if (p + i >= end) return i;
    unsigned char d = (unsigned char)p[i];
    if (d < (i == 1 ? low : 0x80) || d > (i == 1 ? high : 0xbf)) return i;
    code = code << 6 | (d & 0x3f);
  }
  *out_code = code;
  *out_valid = true;
  return n;
}

int crn_utf8_encode(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 0x3f));
  out[2] = (char)(0x80 | (code >> 6 & 0x3f));
  out[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

size_t crn_utf8_incomplete_tail(const char *text, size_t n) {
  for (size_t back = 1; back <= 3 && back <= n; back++) {
    unsigned char c = (unsigned char)text[n - back], low, high;
    if ((c & 0xc0) == 0x80) continue;
    int need = sequence_length(c, &low, &high);
    if (need <= (int)back) return 0;
    uint32_t code;
    bool valid;
    // Only a prefix that can still become a code point is incomplete; anything else is plainly malformed.
    return crn_utf8_decode(text + n - back, text + n, &code, &valid) == (int)back ? back : 0;
  }
  return 0;
}
