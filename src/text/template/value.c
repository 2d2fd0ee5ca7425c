#include "text/template/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/str.h"
#include "text/template/render.h"

const char *crn_tmpl_type_name(tmpl_value v) {
  switch (v.type) {
    case TMPL_MISSING:
      return "missing";
    case TMPL_UNDEFINED:
      return "Undefined";
    case TMPL_NONE:
      return "NoneType";
    case TMPL_BOOL:
      return "bool";
    case TMPL_INT:
      return "int";
    case TMPL_FLOAT:
      return "float";
    case TMPL_STRING:
      return v.s->markup ? "Markup" : "str";
    case TMPL_LIST:
      return "list";
    case TMPL_TUPLE:
      return "tuple";
    case TMPL_DICT:
      return "dict";
    case TMPL_RANGE:
      return "range";
    case TMPL_VIEW:
      return v.view->kind == TMPL_VIEW_KEYS ? "dict_keys" : v.view->kind == TMPL_VIEW_VALUES ? "dict_values" : "dict_items";
    case TMPL_ITERATOR:
      return v.iter->type_name;
    case TMPL_NAMESPACE:
      return "Namespace";
    case TMPL_MACRO:
      return "Macro";
    case TMPL_LOOP:
      return "LoopContext";
    case TMPL_CYCLER:
      return "Cycler";
    case TMPL_JOINER:
      return "Joiner";
    case TMPL_METHOD:
      return "builtin_function_or_method";
    case TMPL_FUNCTION:
      return "function";
    case TMPL_BLOCK:
      return "BlockReference";
  }
  return "object";
}

// --- memory and budget -----------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_fail(tmpl_render *r, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return CRN_FAIL(FAILED_PRECONDITION, "%s: line %d: %s", r->tree->what, r->line, text);
}

cairn_status crn_tmpl_limit(tmpl_render *r, const char *fmt, ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return CRN_FAIL(OUT_OF_RANGE, "%s: line %d: %s", r->tree->what, r->line, text);
}

cairn_status crn_tmpl_steps(tmpl_render *r, uint64_t n) {
  if (n <= r->steps_left) {
    r->steps_left -= n;
    return CAIRN_OK;
  }
  r->steps_left = 0;
  return crn_tmpl_limit(r, "the template takes more steps than allowed");
}

// A step is worth about this many bytes of copying or comparing.
cairn_status crn_tmpl_work(tmpl_render *r, size_t bytes) { return crn_tmpl_steps(r, bytes / 128); }

cairn_status crn_tmpl_alloc(tmpl_render *r, size_t count, size_t size, void *out_pointer) {
  size_t bytes;
  *(void **)out_pointer = NULL;
  if (!crn_mul_size(count, size, &bytes) || bytes > r->max_memory || r->arena.total_bytes > r->max_memory - bytes) {
    return crn_tmpl_limit(r, "the template needs more than %zu bytes of memory", r->max_memory);
  }
  CRN_TRY(crn_tmpl_work(r, bytes));
  return crn_arena_alloc(&r->arena, bytes, out_pointer);
}

// --- text ------------------------------------------------------------------------------------------------------------------

static cairn_status reserve(tmpl_render *r, tmpl_buffer *b, size_t extra) {
  size_t need;
  if (!crn_add_size(b->used, extra, &need)) return crn_tmpl_limit(r, "a text is too long");
  if (need <= b->capacity) return CAIRN_OK;
  size_t capacity = b->capacity + b->capacity / 2 + 48;
  if (capacity < need) capacity = need;
  char *base;
  CRN_TRY(crn_tmpl_alloc(r, capacity, 1, &base));
  if (b->used) memcpy(base, b->base, b->used);
  b->base = base;
  b->capacity = capacity;
  return CAIRN_OK;
}

cairn_status crn_tmpl_put(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n) {
  if (!n) return CAIRN_OK;
  CRN_TRY(crn_tmpl_work(r, n));
  CRN_TRY(reserve(r, b, n));
  memcpy(b->base + b->used, text, n);
  b->used += n;
  return CAIRN_OK;
}

cairn_status crn_tmpl_puts(tmpl_render *r, tmpl_buffer *b, const char *text) { return crn_tmpl_put(r, b, text, strlen(text)); }

cairn_status crn_tmpl_putc(tmpl_render *r, tmpl_buffer *b, char c) { return crn_tmpl_put(r, b, &c, 1); }

cairn_status crn_tmpl_put_code(tmpl_render *r, tmpl_buffer *b, uint32_t code) {
  char text[4];
  int n = crn_utf8_encode(code, text);
  return crn_tmpl_put(r, b, text, (size_t)n);
}

cairn_status crn_tmpl_put_repeated(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, size_t count) {
  size_t bytes;
  if (!n || !count) return CAIRN_OK;
  if (!crn_mul_size(n, count, &bytes)) return crn_tmpl_limit(r, "a text is too long");
  CRN_TRY(reserve(r, b, bytes));
  CRN_TRY(crn_tmpl_work(r, bytes));
  for (size_t i = 0; i < count; i++) memcpy(b->base + b->used + i * n, text, n);
  b->used += bytes;
  return CAIRN_OK;
}

cairn_status crn_tmpl_str_borrow(tmpl_render *r, const char *text, size_t n, tmpl_value *out) {
  tmpl_str *s;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *s, &s));
  *s = (tmpl_str){.data = n ? text : "", .size = n, .chars = TMPL_CHARS_UNKNOWN};
  *out = tmpl_string(s);
  return CAIRN_OK;
}

cairn_status crn_tmpl_str_finish(tmpl_render *r, tmpl_buffer *b, tmpl_value *out) { return crn_tmpl_str_borrow(r, b->base, b->used, out); }

cairn_status crn_tmpl_str_copy(tmpl_render *r, const char *text, size_t n, tmpl_value *out) {
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_put(r, &b, text, n));
  return crn_tmpl_str_finish(r, &b, out);
}

cairn_status crn_tmpl_str_part(tmpl_render *r, const tmpl_str *s, size_t from, size_t to, tmpl_value *out) {
  if (from == 0 && to == s->size) {
    *out = tmpl_string(s);
    return CAIRN_OK;
  }
  CRN_TRY(crn_tmpl_str_borrow(r, s->data + from, to - from, out));
  return s->markup ? crn_tmpl_str_mark(r, out->s, true, out) : CAIRN_OK;
}

cairn_status crn_tmpl_str_mark(tmpl_render *r, const tmpl_str *s, bool markup, tmpl_value *out) {
  *out = tmpl_string(s);
  if (s->markup == markup) return CAIRN_OK;
  tmpl_str *copy;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *copy, &copy));
  *copy = *s;
  copy->markup = markup;
  *out = tmpl_string(copy);
  return CAIRN_OK;
}

cairn_status crn_tmpl_str_concat(tmpl_render *r, const tmpl_str *a, const tmpl_str *b, tmpl_value *out) {
  tmpl_str *s;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *s, &s));
  *out = tmpl_string(s);
  tmpl_buffer *buffer = a->buffer;
  // Extending in place is safe: strings that share the buffer end before the bytes that are added.
  if (!buffer || a->data + a->size != buffer->base + buffer->used) {
    CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *buffer, &buffer));
    CRN_TRY(reserve(r, buffer, a->size + b->size));
    CRN_TRY(crn_tmpl_put(r, buffer, a->data, a->size));
  }
  size_t start = buffer->used - a->size;
  CRN_TRY(crn_tmpl_put(r, buffer, b->data, b->size));
  *s = (tmpl_str){.data = buffer->base + start, .size = a->size + b->size, .chars = TMPL_CHARS_UNKNOWN, .buffer = buffer};
  if (a->chars != TMPL_CHARS_UNKNOWN && b->chars != TMPL_CHARS_UNKNOWN) s->chars = a->chars + b->chars;
  if (!s->size) s->data = "";
  return CAIRN_OK;
}

size_t crn_tmpl_str_chars(const tmpl_str *s) {
  if (s->chars != TMPL_CHARS_UNKNOWN) return s->chars;
  size_t n = 0;
  for (size_t i = 0; i < s->size; i++) n += ((unsigned char)s->data[i] & 0xc0) != 0x80;
  // Strings of a template know their length already, so this only ever writes to memory of the rendering.
  ((tmpl_str *)s)->chars = n;
  return n;
}

size_t crn_tmpl_str_offset(const tmpl_str *s, size_t at) {
  size_t chars = crn_tmpl_str_chars(s);
  if (chars == s->size) return at;
  if (at >= chars) return s->size;
  size_t offset = 0;
  for (; at; at--) {
    do offset++;
    while (offset < s->size && ((unsigned char)s->data[offset] & 0xc0) == 0x80);
  }
  return offset;
}

bool crn_tmpl_str_is(const tmpl_str *s, const char *text) { return s->size == strlen(text) && !memcmp(s->data, text, s->size); }

bool crn_tmpl_str_equal(const tmpl_str *a, const tmpl_str *b) {
  return a == b || (a->size == b->size && !memcmp(a->data, b->data, a->size));
}

size_t crn_tmpl_find(const char *text, size_t size, size_t from, const char *needle, size_t n) {
  if (from > size || n > size - from) return SIZE_MAX;
  if (!n) return from;
  const char *found = memmem(text + from, size - from, needle, n);
  return found ? (size_t)(found - text) : SIZE_MAX;
}

// --- undefined ---------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_undefined(tmpl_render *r, const char *hint, tmpl_value *out) {
  tmpl_undef *u;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *u, &u));
  u->hint = hint;
  *out = (tmpl_value){.type = TMPL_UNDEFINED, .undef = u};
  return CAIRN_OK;
}

cairn_status crn_tmpl_undefined_name(tmpl_render *r, const tmpl_str *name, tmpl_value *out) {
  tmpl_undef *u;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *u, &u));
  u->name = tmpl_string(name);
  *out = (tmpl_value){.type = TMPL_UNDEFINED, .undef = u};
  return CAIRN_OK;
}

cairn_status crn_tmpl_undefined_member(tmpl_render *r, tmpl_value object, tmpl_value name, tmpl_value *out) {
  tmpl_undef *u;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *u, &u));
  *u = (tmpl_undef){.object = object, .name = name, .has_object = true};
  *out = (tmpl_value){.type = TMPL_UNDEFINED, .undef = u};
  return CAIRN_OK;
}

cairn_status crn_tmpl_undefined_fail(tmpl_render *r, tmpl_value v) {
  const tmpl_undef *u = v.undef;
  if (u->hint) return crn_tmpl_fail(r, "%s", u->hint);
  bool named = u->name.type == TMPL_STRING;
  int n = named ? (int)(u->name.s->size < 200 ? u->name.s->size : 200) : 0;
  if (!u->has_object) return crn_tmpl_fail(r, "'%.*s' is undefined", n, named ? u->name.s->data : "");
  if (named) return crn_tmpl_fail(r, "'%s object' has no attribute '%.*s'", crn_tmpl_type_name(u->object), n, u->name.s->data);
  if (u->name.type == TMPL_INT)
    return crn_tmpl_fail(r, "%s object has no element %lld", crn_tmpl_type_name(u->object), (long long)u->name.i);
  return crn_tmpl_fail(r, "%s object has no such element", crn_tmpl_type_name(u->object));
}
