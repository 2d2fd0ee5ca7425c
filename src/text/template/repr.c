/// Values as text: str() and repr().
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "text/template/casing.h"
#include "text/template/number.h"
#include "text/template/render.h"

enum { MAX_REPR_DEPTH = 900 };

static cairn_status put_escape(tmpl_render *r, tmpl_buffer *b, uint32_t code) {
  char text[16];
  const char *fmt = code < 0x100 ? "\\x%02" PRIx32 : code < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  int n = snprintf(text, sizeof text, fmt, code);
#pragma GCC diagnostic pop
  return crn_tmpl_put(r, b, text, (size_t)n);
}

cairn_status crn_tmpl_put_quoted(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, bool ascii) {
  bool single = n && memchr(text, '\'', n), twice = n && memchr(text, '"', n);
  char quote = single && !twice ? '"' : '\'';
  CRN_TRY(crn_tmpl_putc(r, b, quote));
  for (const char *p = text, *end = text + n; p < end;) {
    uint32_t code;
    bool valid;
    int used = crn_utf8_decode(p, end, &code, &valid);
    if (code == (uint32_t)quote || code == '\\') {
      CRN_TRY(crn_tmpl_putc(r, b, '\\'));
      CRN_TRY(crn_tmpl_putc(r, b, (char)code));
    } else if (code == '\n' || code == '\t' || code == '\r') {
      CRN_TRY(crn_tmpl_puts(r, b, code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r"));
    } else if (code < 0x20 || code == 0x7f || (code >= 0x80 && (ascii || !crn_code_is_printable(code)))) {
      CRN_TRY(put_escape(r, b, code));
    } else {
      CRN_TRY(crn_tmpl_put(r, b, p, (size_t)used));
    }
    p += used;
  }
  return crn_tmpl_putc(r, b, quote);
}

// The containers around a value that is being printed. One that contains itself, which only namespaces make possible, is
// printed as "...".
typedef struct enclosing {
  const void *object;
  const struct enclosing *outer;
  int depth;
} enclosing;

static cairn_status put_repr(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const enclosing *around);

static bool is_around(const enclosing *around, const void *object) {
  for (; around; around = around->outer) {
    if (around->object == object) return true;
  }
  return false;
}

static cairn_status put_sequence(tmpl_render *r, tmpl_buffer *b, const tmpl_list *list, bool tuple, const enclosing *around) {
  CRN_TRY(crn_tmpl_putc(r, b, tuple ? '(' : '['));
  for (size_t i = 0; i < list->size; i++) {
    if (i) CRN_TRY(crn_tmpl_puts(r, b, ", "));
    CRN_TRY(put_repr(r, b, list->items[i], around));
  }
  if (tuple && list->size == 1) CRN_TRY(crn_tmpl_putc(r, b, ','));
  return crn_tmpl_putc(r, b, tuple ? ')' : ']');
}

static cairn_status put_dict(tmpl_render *r, tmpl_buffer *b, const tmpl_dict *d, const enclosing *around) {
  CRN_TRY(crn_tmpl_putc(r, b, '{'));
  for (size_t i = 0; i < d->size; i++) {
    if (i) CRN_TRY(crn_tmpl_puts(r, b, ", "));
    CRN_TRY(put_repr(r, b, d->items[i].key, around));
    CRN_TRY(crn_tmpl_puts(r, b, ": "));
    CRN_TRY(put_repr(r, b, d->items[i].value, around));
  }
  return crn_tmpl_putc(r, b, '}');
}

static cairn_status put_view(tmpl_render *r, tmpl_buffer *b, const tmpl_view *view, const enclosing *around) {
  static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
  CRN_TRY(crn_tmpl_puts(r, b, names[view->kind]));
  for (size_t i = 0; i < view->dict->size; i++) {
    const tmpl_pair *pair = &view->dict->items[i];
    if (i) CRN_TRY(crn_tmpl_puts(r, b, ", "));
    if (view->kind == TMPL_VIEW_ITEMS) CRN_TRY(crn_tmpl_putc(r, b, '('));
    if (view->kind != TMPL_VIEW_VALUES) CRN_TRY(put_repr(r, b, pair->key, around));
    if (view->kind == TMPL_VIEW_ITEMS) CRN_TRY(crn_tmpl_puts(r, b, ", "));
    if (view->kind != TMPL_VIEW_KEYS) CRN_TRY(put_repr(r, b, pair->value, around));
    if (view->kind == TMPL_VIEW_ITEMS) CRN_TRY(crn_tmpl_putc(r, b, ')'));
  }
  return crn_tmpl_puts(r, b, "])");
}

static cairn_status put_range(tmpl_render *r, tmpl_buffer *b, const tmpl_range *range) {
  char text[96];
  int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, range->start, range->stop);
  if (range->step != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, range->step);
  CRN_TRY(crn_tmpl_put(r, b, text, (size_t)n));
  return crn_tmpl_putc(r, b, ')');
}

// Python prints the address of such objects; a template must not learn one, so it is always the same.
static cairn_status put_object(tmpl_render *r, tmpl_buffer *b, const char *name) {
  CRN_TRY(crn_tmpl_putc(r, b, '<'));
  CRN_TRY(crn_tmpl_puts(r, b, name));
  return crn_tmpl_puts(r, b, " object at 0x7f0000000000>");
}

static cairn_status put_iterator(tmpl_render *r, tmpl_buffer *b, const tmpl_iter *it) {
  if (!it->name) return put_object(r, b, it->type_name);
  CRN_TRY(crn_tmpl_puts(r, b, "<generator object "));
  CRN_TRY(crn_tmpl_puts(r, b, it->name));
  return crn_tmpl_puts(r, b, " at 0x7f0000000000>");
}

static cairn_status put_macro(tmpl_render *r, tmpl_buffer *b, const tmpl_macro *macro) {
  const tmpl_str *name = macro->function->name;
  if (!name) return crn_tmpl_puts(r, b, "<Macro anonymous>");
  CRN_TRY(crn_tmpl_puts(r, b, "<Macro "));
  CRN_TRY(crn_tmpl_put_quoted(r, b, name->data, name->size, false));
  return crn_tmpl_putc(r, b, '>');
}

static cairn_status put_loop(tmpl_render *r, tmpl_buffer *b, tmpl_loop *loop) {
  char text[96];
  size_t length;
  CRN_TRY(crn_tmpl_loop_length(r, loop, &length));
  snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%zu>", loop->index0 + 1, length);
  return crn_tmpl_puts(r, b, text);
}

static cairn_status put_method(tmpl_render *r, tmpl_buffer *b, const tmpl_method *method) {
  CRN_TRY(crn_tmpl_puts(r, b, "<built-in method "));
  CRN_TRY(crn_tmpl_puts(r, b, method->def->name));
  CRN_TRY(crn_tmpl_puts(r, b, " of "));
  CRN_TRY(crn_tmpl_puts(r, b, crn_tmpl_type_name(method->self)));
  return crn_tmpl_puts(r, b, " object at 0x7f0000000000>");
}

static cairn_status put_number(tmpl_render *r, tmpl_buffer *b, tmpl_value v) {
  char text[CRN_REPR_BYTES];
  if (v.type == TMPL_FLOAT) return crn_tmpl_put(r, b, text, crn_tmpl_float_repr(v.d, text));
  return crn_tmpl_put(r, b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, v.i));
}

static cairn_status put_string_repr(tmpl_render *r, tmpl_buffer *b, const tmpl_str *s) {
  if (s->markup) CRN_TRY(crn_tmpl_puts(r, b, "Markup("));
  CRN_TRY(crn_tmpl_put_quoted(r, b, s->data, s->size, false));
  return s->markup ? crn_tmpl_putc(r, b, ')') : CAIRN_OK;
}

static cairn_status put_container(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const enclosing *around) {
  enclosing here = {.object = v.block, .outer = around, .depth = around ? around->depth + 1 : 1};
  bool named = v.type == TMPL_NAMESPACE;
  CRN_TRY(crn_tmpl_steps(r, (uint64_t)here.depth / 16));
  if (is_around(around, here.object)) {
    return crn_tmpl_puts(r, b, named ? "<Namespace {...}>" : v.type == TMPL_LIST ? "[...]" : v.type == TMPL_TUPLE ? "(...)" : "{...}");
  }
  switch (v.type) {
    case TMPL_LIST:
    case TMPL_TUPLE:
      return put_sequence(r, b, v.list, v.type == TMPL_TUPLE, &here);
    case TMPL_DICT:
      return put_dict(r, b, v.dict, &here);
    case TMPL_VIEW:
      return put_view(r, b, v.view, &here);
    default:
      CRN_TRY(crn_tmpl_puts(r, b, "<Namespace "));
      CRN_TRY(put_dict(r, b, v.ns, &here));
      return crn_tmpl_putc(r, b, '>');
  }
}

static cairn_status put_repr(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const enclosing *around) {
  CRN_TRY(crn_tmpl_steps(r, 1));
  if (around && around->depth > MAX_REPR_DEPTH) return crn_tmpl_limit(r, "a value is nested too deeply to be printed");
  switch (v.type) {
    case TMPL_MISSING:
    case TMPL_UNDEFINED:
      return crn_tmpl_puts(r, b, "Undefined");
    case TMPL_NONE:
      return crn_tmpl_puts(r, b, "None");
    case TMPL_BOOL:
      return crn_tmpl_puts(r, b, v.b ? "True" : "False");
    case TMPL_INT:
    case TMPL_FLOAT:
      return put_number(r, b, v);
    case TMPL_STRING:
      return put_string_repr(r, b, v.s);
    case TMPL_LIST:
    case TMPL_TUPLE:
    case TMPL_DICT:
    case TMPL_VIEW:
    case TMPL_NAMESPACE:
      return put_container(r, b, v, around);
    case TMPL_RANGE:
      return put_range(r, b, v.range);
    case TMPL_ITERATOR:
      return put_iterator(r, b, v.iter);
    case TMPL_MACRO:
      return put_macro(r, b, v.macro);
    case TMPL_LOOP:
      return put_loop(r, b, v.loop);
    case TMPL_CYCLER:
      return put_object(r, b, "jinja2.utils.Cycler");
    case TMPL_JOINER:
      return put_object(r, b, "jinja2.utils.Joiner");
    case TMPL_METHOD:
      return put_method(r, b, v.method);
    case TMPL_FUNCTION:
      return crn_tmpl_puts(r, b, v.function->printed);
    case TMPL_BLOCK:
      return v.block ? put_object(r, b, "jinja2.runtime.BlockReference") : crn_tmpl_puts(r, b, "<TemplateReference None>");
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_put_repr(tmpl_render *r, tmpl_buffer *b, tmpl_value v) { return put_repr(r, b, v, NULL); }

cairn_status crn_tmpl_put_str(tmpl_render *r, tmpl_buffer *b, tmpl_value v) {
  if (v.type == TMPL_STRING) return crn_tmpl_put(r, b, v.s->data, v.s->size);
  if (v.type == TMPL_UNDEFINED) return CAIRN_OK;
  return put_repr(r, b, v, NULL);
}

cairn_status crn_tmpl_soft_str(tmpl_render *r, tmpl_value v, tmpl_value *out) {
  if (v.type == TMPL_STRING) {
    *out = v;
    return CAIRN_OK;
  }
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_put_str(r, &b, v));
  return crn_tmpl_str_finish(r, &b, out);
}

cairn_status crn_tmpl_to_str(tmpl_render *r, tmpl_value v, tmpl_value *out) {
  CRN_TRY(crn_tmpl_soft_str(r, v, out));
  return crn_tmpl_str_mark(r, out->s, false, out);
}
