#include "text/template/html.h"

#include <string.h>

#include "base/str.h"
#include "text/template/html_entities.h"
#include "text/template/render.h"

cairn_status crn_tmpl_put_escaped(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n) {
  size_t plain = 0;
  for (size_t i = 0; i < n; i++) {
    const char *to;
    switch (text[i]) {
      case '&':
        to = "&amp;";
        break;
      case '<':
        to = "&lt;";
        break;
      case '>':
        to = "&gt;";
        break;
      case '\'':
        to = "&#39;";
        break;
      case '"':
        to = "&#34;";
        break;
      default:
        continue;
    }
    CRN_TRY(crn_tmpl_put(r, b, text + plain, i - plain));
    CRN_TRY(crn_tmpl_puts(r, b, to));
    plain = i + 1;
  }
  CRN_TRY(crn_tmpl_work(r, n));
  return crn_tmpl_put(r, b, text + plain, n - plain);
}

cairn_status crn_tmpl_escape(tmpl_render *r, tmpl_value v, tmpl_value *out) {
  tmpl_value text;
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_soft_str(r, v, &text));
  *out = text;
  if (text.s->markup) return CAIRN_OK;
  CRN_TRY(crn_tmpl_put_escaped(r, &b, text.s->data, text.s->size));
  CRN_TRY(crn_tmpl_str_finish(r, &b, out));
  return crn_tmpl_str_mark(r, out->s, true, out);
}

// --- character references -------------------------------------------------------------------------------------------------

// Browsers read the C1 control numbers as Windows-1252.
static uint32_t of_windows(uint32_t code) {
  static const uint16_t table[32] = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
                                     0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
                                     0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
  return table[code - 0x80];
}

static bool is_no_character(uint32_t code) {
  if ((code >= 1 && code <= 8) || code == 0xb || (code >= 0xe && code <= 0x1f) || code == 0x7f) return true;
  return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

static cairn_status put_numbered(tmpl_render *r, tmpl_buffer *b, uint32_t code) {
  if (code == 0 || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return crn_tmpl_put_code(r, b, 0xfffd);
  if (code == 0xd) return crn_tmpl_putc(r, b, '\r');
  if (code >= 0x80 && code <= 0x9f) return crn_tmpl_put_code(r, b, of_windows(code));
  return is_no_character(code) ? CAIRN_OK : crn_tmpl_put_code(r, b, code);
}

// A number behind "&#"; returns its length, 0 when there is none.
static size_t scan_number(const char *p, const char *end, uint32_t *out_code) {
  const char *start = p;
  bool hex = p < end && (*p | 32) == 'x';
  if (hex) p++;
  const char *digits = p;
  *out_code = 0;
  for (; p < end; p++) {
    int digit = *p >= '0' && *p <= '9' ? *p - '0' : hex && (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10 : -1;
    if (digit < 0) break;
    if (*out_code <= 0x10ffff) *out_code = *out_code * (hex ? 16 : 10) + (uint32_t)digit;
  }
  if (p == digits) return 0;
  if (p < end && *p == ';') p++;
  return (size_t)(p - start);
}

static int find_entity(const char *name, size_t n) {
  int low = 0, high = (int)(sizeof g_entities / sizeof *g_entities);
  while (low < high) {
    int middle = (low + high) / 2;
    int order = strncmp(g_entities[middle].name, name, n);
    if (!order && g_entities[middle].name[n]) order = 1;
    if (!order) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

// The longest name that starts at `p`: with its semicolon, or one of the old names that need none.
static size_t scan_name(const char *p, const char *end, uint32_t *out_code) {
  size_t n = 0;
  while (p + n < end && n < 32 && !strchr("\t\n\f <&#;", p[n]) && p[n]) n++;
  if (n && p + n < end && p[n] == ';') {
    int at = find_entity(p, n);
    if (at >= 0) {
      *out_code = g_entities[at].code;
      return n + 1;
    }
  }
  for (; n > 1; n--) {
    int at = find_entity(p, n);
    if (at < 0 || !g_entities[at].bare) continue;
    *out_code = g_entities[at].code;
    return n;
  }
  return 0;
}

cairn_status crn_tmpl_put_unescaped(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n) {
  if (!n) return CAIRN_OK;
  const char *end = text + n;
  for (const char *p = text; p < end;) {
    const char *amp = memchr(p, '&', (size_t)(end - p));
    CRN_TRY(crn_tmpl_put(r, b, p, (size_t)((amp ? amp : end) - p)));
    if (!amp) break;
    uint32_t code;
    CRN_TRY(crn_tmpl_steps(r, 1));
    bool numbered = amp + 1 < end && amp[1] == '#';
    size_t used = numbered ? scan_number(amp + 2, end, &code) : scan_name(amp + 1, end, &code);
    p = amp + 1 + numbered + used;
    if (!used)
      CRN_TRY(crn_tmpl_put(r, b, amp, (size_t)(p - amp)));
    else
      CRN_TRY(numbered ? put_numbered(r, b, code) : crn_tmpl_put_code(r, b, code));
  }
  return CAIRN_OK;
}
