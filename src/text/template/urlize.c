/// The filter urlize: links for the URLs and mail addresses of a text.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/filter_helpers.h"
#include "text/template/html.h"

// A whole word that is a URL: with a scheme or "www." and any top level domain, without them and one of the old ones, or
// with a scheme and an IP address; then an optional port and path.
static const char g_url_pattern[] =
    "\\A(?:(?:https?://|www\\.)(?:[\\w%-]+\\.)*(?:[a-z]{2,63}|xn--[\\w%]{2,59})"
    "|(?:[\\w%-]{2,63}\\.)+(?:com|net|int|edu|gov|org|info|mil)"
    "|https?://(?:\\d{1,3}(?:\\.\\d{1,3}){3}|\\[(?:[\\da-f]{0,4}:){2}(?:[\\da-f]{0,4}:?){1,6}\\]))"
    "(?::\\d{1,5})?(?:[/?#]\\S*)?\\z";

static const char g_mail_pattern[] = "\\A\\S+@\\w[\\w.-]*\\.\\w+\\z";

typedef struct linker {
  tmpl_render *r;
  tmpl_buffer *b;
  pcre2_code *url, *mail;
  pcre2_match_data *match;
  pcre2_match_context *limits;
  const char *attributes;  // " rel=… target=…", escaped
  size_t n_attributes;
  int64_t trim;  // of shown URLs; -1: not at all
  tmpl_items schemes;
} linker;

typedef struct word {
  const char *start, *end;
} word;

static bool starts(word w, const char *text) {
  size_t n = strlen(text);
  return (size_t)(w.end - w.start) >= n && !memcmp(w.start, text, n);
}

static bool ends(word w, const char *text) {
  size_t n = strlen(text);
  return (size_t)(w.end - w.start) >= n && !memcmp(w.end - n, text, n);
}

static size_t count(word w, const char *text) {
  size_t n = 0, size = strlen(text);
  for (size_t at = 0; (at = crn_tmpl_find(w.start, (size_t)(w.end - w.start), at, text, size)) != SIZE_MAX; at += size) n++;
  return n;
}

static bool matches(linker *l, const pcre2_code *code, word w) {
  return pcre2_match(code, (PCRE2_SPTR)w.start, (size_t)(w.end - w.start), 0, 0, l->match, l->limits) >= 0;
}

static cairn_status put(linker *l, word w) { return crn_tmpl_put(l->r, l->b, w.start, (size_t)(w.end - w.start)); }

// <a href="prefix + target" attributes>shown</a>
static cairn_status put_link(linker *l, const char *prefix, word target, bool attributes, word shown, bool trimmed) {
  tmpl_str s = {.data = shown.start, .size = (size_t)(shown.end - shown.start), .chars = TMPL_CHARS_UNKNOWN};
  bool cut = trimmed && l->trim >= 0 && (int64_t)crn_tmpl_str_chars(&s) > l->trim;
  CRN_TRY(crn_tmpl_puts(l->r, l->b, "<a href=\""));
  CRN_TRY(crn_tmpl_puts(l->r, l->b, prefix));
  CRN_TRY(put(l, target));
  CRN_TRY(crn_tmpl_putc(l->r, l->b, '"'));
  if (attributes) CRN_TRY(crn_tmpl_put(l->r, l->b, l->attributes, l->n_attributes));
  CRN_TRY(crn_tmpl_putc(l->r, l->b, '>'));
  if (cut) shown.end = shown.start + crn_tmpl_str_offset(&s, (size_t)l->trim);
  CRN_TRY(put(l, shown));
  return crn_tmpl_puts(l->r, l->b, cut ? "...</a>" : "</a>");
}

static cairn_status put_middle(linker *l, word w) {
  word address = {w.start + (starts(w, "mailto:") ? 7 : 0), w.end};
  if (matches(l, l->url, w)) {
    bool scheme = starts(w, "https://") || starts(w, "http://");
    return put_link(l, scheme ? "" : "https://", w, true, w, true);
  }
  if (address.start > w.start && matches(l, l->mail, address)) return put_link(l, "", w, false, address, false);
  if (count(w, "@") && !starts(w, "www.") && !starts(w, "@") && !count(w, ":") && matches(l, l->mail, w)) {
    return put_link(l, "mailto:", w, false, w, false);
  }
  for (size_t i = 0; i < l->schemes.used; i++) {
    const tmpl_str *s = l->schemes.base[i].s;
    size_t n = (size_t)(w.end - w.start);
    if (n > s->size && !memcmp(w.start, s->data, s->size)) return put_link(l, "", w, true, w, false);
  }
  return put(l, w);
}

// The mark at the end of `w` that is no part of a URL; 0 when there is none.
static size_t closing_mark(word w) {
  if (ends(w, "&gt;")) return 4;
  return w.end > w.start && strchr(")>.,\n", w.end[-1]) && w.end[-1] ? 1 : 0;
}

static size_t opening_mark(word w) {
  if (starts(w, "&lt;")) return 4;
  return w.end > w.start && (*w.start == '(' || *w.start == '<') ? 1 : 0;
}

// Closing brackets that have their opening bracket inside of the URL belong to it.
static void balance(word *middle, word *tail, const char *open, const char *close) {
  size_t opened = count(*middle, open);
  if (opened <= count(*middle, close)) return;
  size_t moves = count(*tail, close);
  if (moves > opened) moves = opened;
  for (; moves; moves--) {
    size_t at = crn_tmpl_find(tail->start, (size_t)(tail->end - tail->start), 0, close, strlen(close));
    tail->start += at + strlen(close);
    middle->end = tail->start;
  }
}

static cairn_status put_word(linker *l, word w) {
  word head = {w.start, w.start}, middle = w, tail = {w.end, w.end};
  CRN_TRY(crn_tmpl_work(l->r, (size_t)(w.end - w.start) * 64));
  for (size_t n; (n = opening_mark(middle)) != 0;) middle.start += n;
  head.end = middle.start;
  for (size_t n; (n = closing_mark(middle)) != 0;) middle.end -= n;
  tail.start = middle.end;
  balance(&middle, &tail, "(", ")");
  balance(&middle, &tail, "<", ">");
  balance(&middle, &tail, "&lt;", "&gt;");
  CRN_TRY(put(l, head));
  CRN_TRY(put_middle(l, middle));
  return put(l, tail);
}

static cairn_status put_words(linker *l, const tmpl_str *s) {
  const char *end = s->data + s->size;
  for (const char *p = s->data; p < end;) {
    const char *stop = p;
    uint32_t code;
    crn_tmpl_text_next(p, end, &code);
    bool space = crn_code_is_space(code);
    while (stop < end) {
      const char *next = crn_tmpl_text_next(stop, end, &code);
      if (crn_code_is_space(code) != space) break;
      stop = next;
    }
    CRN_TRY(crn_tmpl_steps(l->r, 1));
    CRN_TRY(space ? put(l, (word){p, stop}) : put_word(l, (word){p, stop}));
    p = stop;
  }
  return CAIRN_OK;
}

// --- arguments ------------------------------------------------------------------------------------------------------------------

static cairn_status put_attribute(tmpl_render *r, tmpl_buffer *b, const char *name, tmpl_value v) {
  tmpl_value text;
  CRN_TRY(crn_tmpl_escape(r, v, &text));
  CRN_TRY(crn_tmpl_puts(r, b, name));
  CRN_TRY(crn_tmpl_put(r, b, text.s->data, text.s->size));
  return crn_tmpl_putc(r, b, '"');
}

// The words of `rel` with those that are always there, sorted, each once.
static cairn_status read_rel(tmpl_render *r, tmpl_value rel, bool nofollow, tmpl_buffer *b) {
  const tmpl_str *text;
  tmpl_items words = {0};
  tmpl_value joined, extra;
  tmpl_buffer list = {0};
  CRN_TRY(crn_tmpl_arg_str(r, rel, &text));
  if (text) CRN_TRY(crn_tmpl_text_split(r, text, NULL, -1, false, &words));
  CRN_TRY(crn_tmpl_str_borrow(r, "noopener", 8, &extra));
  CRN_TRY(crn_tmpl_items_push(r, &words, extra));
  if (nofollow) {
    CRN_TRY(crn_tmpl_str_borrow(r, "nofollow", 8, &extra));
    CRN_TRY(crn_tmpl_items_push(r, &words, extra));
  }
  CRN_TRY(crn_tmpl_sort(r, words.base, words.base, words.used, false));
  for (size_t i = 0; i < words.used; i++) {
    if (i && crn_tmpl_str_equal(words.base[i].s, words.base[i - 1].s)) continue;
    if (i) CRN_TRY(crn_tmpl_putc(r, &list, ' '));
    CRN_TRY(crn_tmpl_put(r, &list, words.base[i].s->data, words.base[i].s->size));
  }
  CRN_TRY(crn_tmpl_str_finish(r, &list, &joined));
  return put_attribute(r, b, " rel=\"", joined);
}

static bool is_scheme(const tmpl_str *s) {
  size_t n = 0;
  for (const char *p = s->data, *end = p + s->size; p < end;) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (!crn_code_is_word(code) && !(code < 0x80 && strchr(".+-", (int)code))) break;
    n = (size_t)(next - s->data);
    p = next;
  }
  size_t rest = s->size - n;
  return crn_tmpl_str_offset(s, 2) <= n && n && rest >= 1 && rest <= 3 && !memcmp(s->data + n, "://", rest);
}

static cairn_status read_schemes(tmpl_render *r, tmpl_value v, tmpl_items *out) {
  if (!tmpl_given(v) || v.type == TMPL_NONE) return CAIRN_OK;
  CRN_TRY(crn_tmpl_collect(r, v, out));
  for (size_t i = 0; i < out->used; i++) {
    const tmpl_str *s;
    CRN_TRY(crn_tmpl_need_str(r, out->base[i], &s));
    if (!is_scheme(s)) return crn_tmpl_fail(r, "'%.*s' is not a valid URI scheme prefix.", (int)s->size, s->data);
  }
  return CAIRN_OK;
}

static cairn_status link_text(linker *l, const tmpl_str *s) {
  int error;
  size_t offset;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK;
  l->url = pcre2_compile((PCRE2_SPTR)g_url_pattern, PCRE2_ZERO_TERMINATED, options | PCRE2_CASELESS, &error, &offset, NULL);
  l->mail = pcre2_compile((PCRE2_SPTR)g_mail_pattern, PCRE2_ZERO_TERMINATED, options, &error, &offset, NULL);
  l->match = pcre2_match_data_create(1, NULL);
  l->limits = pcre2_match_context_create(NULL);
  cairn_status status;
  if (!l->url || !l->mail || !l->match || !l->limits) {
    status = CRN_FAIL(OUT_OF_MEMORY, "no memory for the patterns of urlize");
  } else {
    // Words that would need more backtracking than this are no links.
    pcre2_set_match_limit(l->limits, 100000);
    pcre2_set_heap_limit(l->limits, 20000);
    status = put_words(l, s);
  }
  pcre2_code_free(l->url);
  pcre2_code_free(l->mail);
  pcre2_match_data_free(l->match);
  pcre2_match_context_free(l->limits);
  return status;
}

FILTER_FN(urlize) {
  UNUSED_ARGS;
  tmpl_buffer b = {0}, attributes = {0};
  tmpl_value text;
  linker l = {.r = r, .b = &b, .trim = -1};
  if (argv[0].type != TMPL_NONE) CRN_TRY(crn_tmpl_arg_int(r, argv[0], -1, &l.trim));
  CRN_TRY(read_rel(r, argv[3], tmpl_flag(argv[1], false), &attributes));
  if (tmpl_flag(argv[2], false)) CRN_TRY(put_attribute(r, &attributes, " target=\"", argv[2]));
  l.attributes = attributes.base;
  l.n_attributes = attributes.used;
  CRN_TRY(read_schemes(r, argv[4], &l.schemes));
  CRN_TRY(crn_tmpl_escape(r, v, &text));
  CRN_TRY(link_text(&l, text.s));
  return crn_tmpl_str_finish(r, &b, out);
}
