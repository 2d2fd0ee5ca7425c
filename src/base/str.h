/// A growing byte string, always NUL-terminated, and small text helpers.
#ifndef CRN_BASE_STR_H
#define CRN_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct crn_str {
  const cairn_allocator *allocator;
  char *data;  ///< never NULL after crn_str_initialize; "" when empty
  size_t size, capacity;
} crn_str;

void crn_str_initialize(crn_str *s, const cairn_allocator *allocator);
void crn_str_deinitialize(crn_str *s);
void crn_str_clear(crn_str *s);
cairn_status crn_str_reserve(crn_str *s, size_t extra);
cairn_status crn_str_append(crn_str *s, const char *text, size_t n);
cairn_status crn_str_puts(crn_str *s, const char *text);
cairn_status crn_str_putc(crn_str *s, char c);
cairn_status crn_str_printf(crn_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
cairn_status crn_str_vprintf(crn_str *s, const char *fmt, va_list args);
/// Appends `text` as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD, and nothing in it ends a line for
/// any reader (controls and the separators U+2028 and U+2029 are escaped).
cairn_status crn_str_json(crn_str *s, const char *text, size_t n);

bool crn_starts_with(const char *text, const char *prefix);
bool crn_ends_with(const char *text, const char *suffix);

/// Decodes one UTF-8 code point of [p, end). Returns the bytes used (1..4) and the code point; a malformed sequence
/// uses the bytes of its maximal valid prefix (at least 1) and gives U+FFFD with `*out_valid` false.
int crn_utf8_decode(const char *p, const char *end, uint32_t *out_code, bool *out_valid);
/// Writes `code` as UTF-8 into `out` (room for 4) and returns the byte count.
int crn_utf8_encode(uint32_t code, char *out);
/// Bytes at the end of the text that start a code point which is not complete yet (0..3).
size_t crn_utf8_incomplete_tail(const char *text, size_t n);

#endif
