/// Attributes, items and slices.
#include <string.h>

#include "text/template/render.h"

// Names that would lead from a value to Python's machinery. Jinja's sandbox answers them with an undefined value that
// must not be used.
static bool is_private(const tmpl_str *name) { return name->size > 0 && name->data[0] == '_'; }

static cairn_status unsafe(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out) {
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_puts(r, &b, "access to attribute '"));
  CRN_TRY(crn_tmpl_put(r, &b, name->data, name->size < 100 ? name->size : 100));
  CRN_TRY(crn_tmpl_puts(r, &b, "' of '"));
  CRN_TRY(crn_tmpl_puts(r, &b, crn_tmpl_type_name(object)));
  CRN_TRY(crn_tmpl_puts(r, &b, "' object is unsafe"));
  CRN_TRY(crn_tmpl_put(r, &b, "", 1));
  return crn_tmpl_undefined(r, b.base, out);
}

// Attributes that every Python object has.
static bool is_object_attribute(const tmpl_str *name) {
  static const char *const names[] = {"__class__", "__delattr__",      "__dir__",    "__doc__",  "__eq__",          "__format__",
                                      "__ge__",    "__getattribute__", "__gt__",     "__hash__", "__init__",        "__init_subclass__",
                                      "__le__",    "__lt__",           "__ne__",     "__new__",  "__reduce__",      "__reduce_ex__",
                                      "__repr__",  "__setattr__",      "__sizeof__", "__str__",  "__subclasshook__"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (crn_tmpl_str_is(name, names[i])) return true;
  }
  return false;
}

// Methods that change their object exist, but the sandbox does not hand them out.
static bool changes_object(tmpl_value object, const tmpl_str *name) {
  static const char *const of_lists[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove", NULL};
  static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
  const char *const *names = object.type == TMPL_LIST ? of_lists : object.type == TMPL_DICT ? of_dicts : NULL;
  for (; names && *names; names++) {
    if (crn_tmpl_str_is(name, *names)) return true;
  }
  return false;
}

cairn_status crn_tmpl_attribute_only(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out, bool *out_found) {
  *out_found = true;
  if (is_private(name) && is_object_attribute(name) && object.type != TMPL_NAMESPACE) return unsafe(r, object, name, out);
  if (object.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, object);
  if (object.type == TMPL_NAMESPACE) {
    const tmpl_pair *pair = crn_tmpl_dict_find_str(object.ns, name);
    *out_found = pair != NULL;
    if (pair && is_private(name)) return unsafe(r, object, name, out);
    if (pair) *out = pair->value;
    return CAIRN_OK;
  }
  if (changes_object(object, name)) return unsafe(r, object, name, out);
  if (object.type == TMPL_LOOP) return crn_tmpl_loop_attribute(r, object.loop, name, out, out_found);
  return crn_tmpl_method_find(r, object, name, out, out_found);
}

static bool find_block(const tmpl_render *r, const tmpl_str *name, tmpl_value *out) {
  for (int i = 0; i < r->tree->n_blocks; i++) {
    if (!crn_tmpl_str_equal(r->tree->blocks[i]->name, name)) continue;
    *out = (tmpl_value){.type = TMPL_BLOCK, .block = r->tree->blocks[i]};
    return true;
  }
  return false;
}

// Python's object[key]; `*out_found` false when it has no such item or no items at all.
static cairn_status item_only(tmpl_render *r, tmpl_value object, tmpl_value key, tmpl_value *out, bool *out_found) {
  *out_found = false;
  switch (object.type) {
    case TMPL_UNDEFINED:
      return crn_tmpl_undefined_fail(r, object);
    case TMPL_DICT: {
      const tmpl_pair *pair = crn_tmpl_dict_find(object.dict, key);
      *out_found = pair != NULL;
      if (pair) *out = pair->value;
      return CAIRN_OK;
    }
    case TMPL_LIST:
    case TMPL_TUPLE:
    case TMPL_STRING:
    case TMPL_RANGE:
      break;
    case TMPL_BLOCK:
      // `self` (no block) has the blocks as its items.
      if (!object.block && key.type == TMPL_STRING) *out_found = find_block(r, key.s, out);
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
  if (!tmpl_is_integral(key)) return CAIRN_OK;
  size_t length;
  CRN_TRY(crn_tmpl_length(r, object, &length));
  int64_t at = tmpl_as_int(key);
  if (at < 0) at += (int64_t)length;
  if (at < 0 || (uint64_t)at >= length) return CAIRN_OK;
  *out_found = true;
  return crn_tmpl_item_at(r, object, (size_t)at, out);
}

cairn_status crn_tmpl_attribute(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out) {
  bool found;
  CRN_TRY(crn_tmpl_attribute_only(r, object, name, out, &found));
  if (!found) CRN_TRY(item_only(r, object, tmpl_string(name), out, &found));
  return found ? CAIRN_OK : crn_tmpl_undefined_member(r, object, tmpl_string(name), out);
}

cairn_status crn_tmpl_item(tmpl_render *r, tmpl_value object, tmpl_value key, tmpl_value *out) {
  bool found;
  CRN_TRY(item_only(r, object, key, out, &found));
  if (!found && key.type == TMPL_STRING) CRN_TRY(crn_tmpl_attribute_only(r, object, key.s, out, &found));
  return found ? CAIRN_OK : crn_tmpl_undefined_member(r, object, key, out);
}

// --- slices ------------------------------------------------------------------------------------------------------------------

typedef struct bounds {
  int64_t start, stop, step;
  size_t count;
} bounds;

static cairn_status slice_part(tmpl_render *r, tmpl_value v, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (v.type == TMPL_NONE) return CAIRN_OK;
  if (!tmpl_is_integral(v)) return crn_tmpl_fail(r, "slice indices must be integers or None, not %s", crn_tmpl_type_name(v));
  *out = tmpl_as_int(v);
  return CAIRN_OK;
}

// One end of a slice, counted from the end when negative and kept within [low, high].
static int64_t clamp(int64_t at, int64_t length, int64_t low, int64_t high) {
  if (at < 0) at = at < -length ? low : at + length;
  return at < low ? low : at > high ? high : at;
}

static cairn_status slice_bounds(tmpl_render *r, size_t size, tmpl_value start, tmpl_value stop, tmpl_value step, bounds *out) {
  int64_t length = (int64_t)size;
  CRN_TRY(slice_part(r, step, 1, &out->step));
  if (out->step == 0) return crn_tmpl_fail(r, "slice step cannot be zero");
  if (out->step == INT64_MIN) out->step++;
  bool forward = out->step > 0;
  int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  CRN_TRY(slice_part(r, start, 0, &out->start));
  CRN_TRY(slice_part(r, stop, 0, &out->stop));
  out->start = start.type == TMPL_NONE ? (forward ? low : high) : clamp(out->start, length, low, high);
  out->stop = stop.type == TMPL_NONE ? (forward ? high : low) : clamp(out->stop, length, low, high);
  int64_t span = forward ? out->stop - out->start : out->start - out->stop;
  int64_t stride = forward ? out->step : -out->step;
  out->count = span > 0 ? (size_t)((span - 1) / stride + 1) : 0;
  return CAIRN_OK;
}

static cairn_status slice_text(tmpl_render *r, const tmpl_str *s, bounds b, tmpl_value *out) {
  CRN_TRY(crn_tmpl_work(r, s->size));
  if (b.step == 1 || b.count <= 1) {
    size_t from = crn_tmpl_str_offset(s, (size_t)(b.count ? b.start : 0));
    size_t to = b.count ? crn_tmpl_str_offset(s, (size_t)b.start + b.count) : from;
    return crn_tmpl_str_part(r, s, from, to, out);
  }
  // A table of offsets makes any step linear.
  size_t chars = crn_tmpl_str_chars(s), *offsets;
  CRN_TRY(crn_tmpl_alloc(r, chars + 1, sizeof *offsets, &offsets));
  for (size_t i = 0, at = 0; i < s->size; i++) {
    if (((unsigned char)s->data[i] & 0xc0) != 0x80) offsets[at++] = i;
  }
  offsets[chars] = s->size;
  tmpl_buffer text = {0};
  CRN_TRY(crn_tmpl_steps(r, b.count));
  for (size_t i = 0; i < b.count; i++) {
    size_t at = (size_t)(b.start + (int64_t)i * b.step);
    CRN_TRY(crn_tmpl_put(r, &text, s->data + offsets[at], offsets[at + 1] - offsets[at]));
  }
  CRN_TRY(crn_tmpl_str_finish(r, &text, out));
  return crn_tmpl_str_mark(r, out->s, s->markup, out);
}

static cairn_status slice_list(tmpl_render *r, tmpl_value v, bounds b, tmpl_value *out) {
  if (b.step == 1) return crn_tmpl_list_copy(r, b.count ? v.list->items + b.start : NULL, b.count, v.type, out);
  tmpl_items items = {0};
  for (size_t i = 0; i < b.count; i++) CRN_TRY(crn_tmpl_items_push(r, &items, v.list->items[b.start + (int64_t)i * b.step]));
  return crn_tmpl_list_finish(r, &items, v.type, out);
}

static cairn_status slice_range(tmpl_render *r, const tmpl_range *from, bounds b, tmpl_value *out) {
  tmpl_range *range;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *range, &range));
  *range = (tmpl_range){.start = from->start + b.start * from->step, .stop = from->start + b.stop * from->step, .size = b.count};
  if (__builtin_mul_overflow(from->step, b.step, &range->step)) return crn_tmpl_fail(r, "an integer does not fit in 64 bits");
  *out = (tmpl_value){.type = TMPL_RANGE, .range = range};
  return CAIRN_OK;
}

cairn_status crn_tmpl_slice(tmpl_render *r, tmpl_value object, tmpl_value start, tmpl_value stop, tmpl_value step, tmpl_value *out) {
  bounds b = {0};
  size_t length;
  switch (object.type) {
    case TMPL_STRING:
    case TMPL_LIST:
    case TMPL_TUPLE:
    case TMPL_RANGE:
      break;
    case TMPL_UNDEFINED:
      return crn_tmpl_undefined_fail(r, object);
    case TMPL_DICT:
      return crn_tmpl_fail(r, "unhashable type: 'slice'");
    default:
      return crn_tmpl_fail(r, "'%s' object is not subscriptable", crn_tmpl_type_name(object));
  }
  CRN_TRY(crn_tmpl_length(r, object, &length));
  CRN_TRY(slice_bounds(r, length, start, stop, step, &b));
  if (object.type == TMPL_STRING) return slice_text(r, object.s, b, out);
  return object.type == TMPL_RANGE ? slice_range(r, object.range, b, out) : slice_list(r, object, b, out);
}
