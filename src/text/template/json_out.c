/// json.dumps and the filters that print values.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "text/template/filter_helpers.h"
#include "text/template/number.h"

enum { MAX_JSON_DEPTH = 900 };

typedef struct writer {
  tmpl_render *r;
  tmpl_buffer *b;
  const tmpl_json_options *options;
  int depth;
} writer;

static cairn_status put_value(writer *w, tmpl_value v);

static cairn_status put_unit(writer *w, unsigned unit) {
  char text[16];
  snprintf(text, sizeof text, "\\u%04x", unit);
  return crn_tmpl_puts(w->r, w->b, text);
}

static cairn_status put_escaped_code(writer *w, uint32_t code) {
  if (code < 0x10000) return put_unit(w, code);
  CRN_TRY(put_unit(w, 0xd800 + ((code - 0x10000) >> 10)));
  return put_unit(w, 0xdc00 + ((code - 0x10000) & 0x3ff));
}

static const char *short_escape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return NULL;
  }
}

static cairn_status put_text(writer *w, const char *text, size_t n) {
  CRN_TRY(crn_tmpl_putc(w->r, w->b, '"'));
  const char *plain = text;
  for (const char *p = text, *end = text + n; p < end;) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    const char *escape = short_escape(code);
    if (escape || code < 0x20 || (w->options->ascii && code >= 0x7f)) {
      CRN_TRY(crn_tmpl_put(w->r, w->b, plain, (size_t)(p - plain)));
      CRN_TRY(escape ? crn_tmpl_puts(w->r, w->b, escape) : put_escaped_code(w, code));
      plain = next;
    }
    p = next;
  }
  CRN_TRY(crn_tmpl_put(w->r, w->b, plain, (size_t)(text + n - plain)));
  return crn_tmpl_putc(w->r, w->b, '"');
}

static cairn_status put_float(writer *w, double d) {
  char text[CRN_REPR_BYTES];
  if (isnan(d)) return crn_tmpl_puts(w->r, w->b, "NaN");
  if (isinf(d)) return crn_tmpl_puts(w->r, w->b, d < 0 ? "-Infinity" : "Infinity");
  return crn_tmpl_put(w->r, w->b, text, crn_tmpl_float_repr(d, text));
}

static cairn_status put_newline(writer *w) {
  const tmpl_str *indent = w->options->indent;
  if (!indent) return CAIRN_OK;
  CRN_TRY(crn_tmpl_putc(w->r, w->b, '\n'));
  return crn_tmpl_put_repeated(w->r, w->b, indent->data, indent->size, (size_t)w->depth);
}

static cairn_status put_separator(writer *w, size_t at) {
  if (at) CRN_TRY(crn_tmpl_put(w->r, w->b, w->options->item_separator, w->options->item_separator_size));
  return put_newline(w);
}

static cairn_status put_list(writer *w, const tmpl_list *list) {
  if (!list->size) return crn_tmpl_puts(w->r, w->b, "[]");
  CRN_TRY(crn_tmpl_putc(w->r, w->b, '['));
  w->depth++;
  for (size_t i = 0; i < list->size; i++) {
    CRN_TRY(put_separator(w, i));
    CRN_TRY(put_value(w, list->items[i]));
  }
  w->depth--;
  CRN_TRY(put_newline(w));
  return crn_tmpl_putc(w->r, w->b, ']');
}

static cairn_status put_key(writer *w, tmpl_value key) {
  if (key.type == TMPL_STRING) return put_text(w, key.s->data, key.s->size);
  if (!tmpl_is_number(key) && key.type != TMPL_NONE) {
    return crn_tmpl_fail(w->r, "keys must be str, int, float, bool or None, not %s", crn_tmpl_type_name(key));
  }
  CRN_TRY(crn_tmpl_putc(w->r, w->b, '"'));
  CRN_TRY(put_value(w, key));
  return crn_tmpl_putc(w->r, w->b, '"');
}

static cairn_status sorted_pairs(writer *w, const tmpl_dict *d, tmpl_value **out_keys) {
  CRN_TRY(crn_tmpl_alloc(w->r, d->size, sizeof **out_keys, out_keys));
  for (size_t i = 0; i < d->size; i++) (*out_keys)[i] = d->items[i].key;
  return crn_tmpl_sort(w->r, *out_keys, *out_keys, d->size, false);
}

static cairn_status put_dict(writer *w, const tmpl_dict *d) {
  tmpl_value *sorted = NULL;
  if (!d->size) return crn_tmpl_puts(w->r, w->b, "{}");
  if (w->options->sort_keys) CRN_TRY(sorted_pairs(w, d, &sorted));
  CRN_TRY(crn_tmpl_putc(w->r, w->b, '{'));
  w->depth++;
  for (size_t i = 0; i < d->size; i++) {
    const tmpl_pair *pair = sorted ? crn_tmpl_dict_find(d, sorted[i]) : &d->items[i];
    CRN_TRY(put_separator(w, i));
    CRN_TRY(put_key(w, pair->key));
    CRN_TRY(crn_tmpl_put(w->r, w->b, w->options->key_separator, w->options->key_separator_size));
    CRN_TRY(put_value(w, pair->value));
  }
  w->depth--;
  CRN_TRY(put_newline(w));
  return crn_tmpl_putc(w->r, w->b, '}');
}

static cairn_status put_value(writer *w, tmpl_value v) {
  CRN_TRY(crn_tmpl_steps(w->r, 1));
  if (w->depth > MAX_JSON_DEPTH) return crn_tmpl_limit(w->r, "a value is nested too deeply to be written as JSON");
  switch (v.type) {
    case TMPL_NONE:
      return crn_tmpl_puts(w->r, w->b, "null");
    case TMPL_BOOL:
      return crn_tmpl_puts(w->r, w->b, v.b ? "true" : "false");
    case TMPL_INT:
      return crn_tmpl_put_repr(w->r, w->b, v);
    case TMPL_FLOAT:
      return put_float(w, v.d);
    case TMPL_STRING:
      return put_text(w, v.s->data, v.s->size);
    case TMPL_LIST:
    case TMPL_TUPLE:
      return put_list(w, v.list);
    case TMPL_DICT:
      return put_dict(w, v.dict);
    default:
      return crn_tmpl_fail(w->r, "Object of type %s is not JSON serializable", crn_tmpl_type_name(v));
  }
}

cairn_status crn_tmpl_put_json(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const tmpl_json_options *options) {
  writer w = {.r = r, .b = b, .options = options};
  return put_value(&w, v);
}

// --- the filter ---------------------------------------------------------------------------------------------------------------

static cairn_status read_indent(tmpl_render *r, tmpl_value v, const tmpl_str **out) {
  tmpl_value margin;
  tmpl_buffer b = {0};
  *out = NULL;
  if (!tmpl_given(v) || v.type == TMPL_NONE) return CAIRN_OK;
  if (v.type == TMPL_STRING) {
    *out = v.s;
    return CAIRN_OK;
  }
  int64_t n;
  CRN_TRY(crn_tmpl_arg_int(r, v, 0, &n));
  CRN_TRY(crn_tmpl_put_repeated(r, &b, " ", 1, n > 0 ? (size_t)n : 0));
  CRN_TRY(crn_tmpl_str_finish(r, &b, &margin));
  *out = margin.s;
  return CAIRN_OK;
}

static cairn_status read_separators(tmpl_render *r, tmpl_value v, tmpl_json_options *options) {
  tmpl_items parts = {0};
  const tmpl_str *item, *key;
  if (!tmpl_given(v) || v.type == TMPL_NONE) return CAIRN_OK;
  CRN_TRY(crn_tmpl_collect(r, v, &parts));
  if (parts.used != 2) return crn_tmpl_fail(r, "separators must be a pair of texts");
  CRN_TRY(crn_tmpl_need_str(r, parts.base[0], &item));
  CRN_TRY(crn_tmpl_need_str(r, parts.base[1], &key));
  options->item_separator = item->data;
  options->item_separator_size = item->size;
  options->key_separator = key->data;
  options->key_separator_size = key->size;
  return CAIRN_OK;
}

FILTER_FN(tojson) {
  UNUSED_ARGS;
  tmpl_buffer b = {0};
  tmpl_json_options options = {.ascii = tmpl_flag(argv[0], false), .sort_keys = tmpl_flag(argv[3], false)};
  // A text alone is never indented, so its indentation may be anything.
  if (v.type != TMPL_STRING) CRN_TRY(read_indent(r, argv[1], &options.indent));
  options.item_separator = options.indent ? "," : ", ";
  options.item_separator_size = strlen(options.item_separator);
  options.key_separator = ": ";
  options.key_separator_size = 2;
  CRN_TRY(read_separators(r, argv[2], &options));
  CRN_TRY(crn_tmpl_put_json(r, &b, v, &options));
  return crn_tmpl_str_finish(r, &b, out);
}
