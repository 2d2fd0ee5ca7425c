/// Truth, length, order, equality and membership, as Python defines them for each type.
#include <math.h>
#include <string.h>

#include "text/template/render.h"

enum { MAX_COMPARE_DEPTH = 900 };

bool crn_tmpl_truth(tmpl_value v) {
  switch (v.type) {
    case TMPL_MISSING:
    case TMPL_UNDEFINED:
    case TMPL_NONE:
      return false;
    case TMPL_BOOL:
      return v.b;
    case TMPL_INT:
      return v.i != 0;
    case TMPL_FLOAT:
      return v.d != 0;
    case TMPL_STRING:
      return v.s->size != 0;
    case TMPL_LIST:
    case TMPL_TUPLE:
      return v.list->size != 0;
    case TMPL_DICT:
      return v.dict->size != 0;
    case TMPL_RANGE:
      return v.range->size != 0;
    case TMPL_VIEW:
      return v.view->dict->size != 0;
    default:
      return true;
  }
}

bool crn_tmpl_is_sized(tmpl_value v) {
  switch (v.type) {
    case TMPL_UNDEFINED:
    case TMPL_STRING:
    case TMPL_LIST:
    case TMPL_TUPLE:
    case TMPL_DICT:
    case TMPL_RANGE:
    case TMPL_VIEW:
    case TMPL_LOOP:
      return true;
    default:
      return false;
  }
}

cairn_status crn_tmpl_length(tmpl_render *r, tmpl_value v, size_t *out_length) {
  *out_length = 0;
  switch (v.type) {
    case TMPL_UNDEFINED:
      return CAIRN_OK;
    case TMPL_STRING:
      CRN_TRY(crn_tmpl_work(r, v.s->size));
      *out_length = crn_tmpl_str_chars(v.s);
      return CAIRN_OK;
    case TMPL_LIST:
    case TMPL_TUPLE:
      *out_length = v.list->size;
      return CAIRN_OK;
    case TMPL_DICT:
      *out_length = v.dict->size;
      return CAIRN_OK;
    case TMPL_RANGE:
      *out_length = v.range->size;
      return CAIRN_OK;
    case TMPL_VIEW:
      *out_length = v.view->dict->size;
      return CAIRN_OK;
    case TMPL_LOOP:
      return crn_tmpl_loop_length(r, v.loop, out_length);
    default:
      return crn_tmpl_fail(r, "object of type '%s' has no len()", crn_tmpl_type_name(v));
  }
}

bool crn_tmpl_same(tmpl_value a, tmpl_value b) {
  if (a.type != b.type) return false;
  switch (a.type) {
    case TMPL_MISSING:
    case TMPL_NONE:
      return true;
    case TMPL_BOOL:
      return a.b == b.b;
    case TMPL_INT:
      return a.i == b.i;
    case TMPL_FLOAT:
      return a.d == b.d;
    case TMPL_STRING:
      return crn_tmpl_str_equal(a.s, b.s) && a.s->markup == b.s->markup;
    default:
      return a.block == b.block;
  }
}

// --- equality ---------------------------------------------------------------------------------------------------------------

static cairn_status equal(tmpl_render *r, tmpl_value a, tmpl_value b, int depth, bool *out);

static cairn_status equal_lists(tmpl_render *r, const tmpl_list *a, const tmpl_list *b, int depth, bool *out) {
  *out = a->size == b->size;
  for (size_t i = 0; *out && i < a->size; i++) CRN_TRY(equal(r, a->items[i], b->items[i], depth, out));
  return CAIRN_OK;
}

static cairn_status equal_dicts(tmpl_render *r, const tmpl_dict *a, const tmpl_dict *b, int depth, bool *out) {
  *out = a->size == b->size;
  for (size_t i = 0; *out && i < a->size; i++) {
    const tmpl_pair *other = crn_tmpl_dict_find(b, a->items[i].key);
    *out = other != NULL;
    if (other) CRN_TRY(equal(r, a->items[i].value, other->value, depth, out));
  }
  return CAIRN_OK;
}

static cairn_status equal_views(tmpl_render *r, const tmpl_view *a, const tmpl_view *b, int depth, bool *out) {
  *out = a == b;
  // Keys and items compare as sets; values only with themselves.
  if (*out || a->kind != b->kind || a->kind == TMPL_VIEW_VALUES) return CAIRN_OK;
  if (a->kind == TMPL_VIEW_ITEMS) return equal_dicts(r, a->dict, b->dict, depth, out);
  *out = a->dict->size == b->dict->size;
  for (size_t i = 0; *out && i < a->dict->size; i++) *out = crn_tmpl_dict_find(b->dict, a->dict->items[i].key) != NULL;
  return CAIRN_OK;
}

static bool equal_ranges(const tmpl_range *a, const tmpl_range *b) {
  return a->size == b->size && (!a->size || (a->start == b->start && (a->size == 1 || a->step == b->step)));
}

static bool equal_numbers(tmpl_value a, tmpl_value b) {
  if (tmpl_is_integral(a) && tmpl_is_integral(b)) return tmpl_as_int(a) == tmpl_as_int(b);
  if (a.type == TMPL_FLOAT && b.type == TMPL_FLOAT) return a.d == b.d;
  // An integer and a float are equal only when the float is that very integer.
  double d = a.type == TMPL_FLOAT ? a.d : b.d;
  int64_t i = tmpl_as_int(a.type == TMPL_FLOAT ? b : a);
  return d >= -9223372036854775808.0 && d < 9223372036854775808.0 && d == floor(d) && (int64_t)d == i;
}

static cairn_status equal(tmpl_render *r, tmpl_value a, tmpl_value b, int depth, bool *out) {
  CRN_TRY(crn_tmpl_steps(r, 1));
  if (depth > MAX_COMPARE_DEPTH) return crn_tmpl_limit(r, "values nested too deeply to be compared");
  *out = false;
  if (tmpl_is_number(a) && tmpl_is_number(b)) {
    *out = equal_numbers(a, b);
    return CAIRN_OK;
  }
  if (a.type != b.type) return CAIRN_OK;
  switch (a.type) {
    case TMPL_UNDEFINED:
    case TMPL_NONE:
      *out = true;
      return CAIRN_OK;
    case TMPL_STRING:
      if (a.s->size == b.s->size) CRN_TRY(crn_tmpl_work(r, a.s->size));
      *out = crn_tmpl_str_equal(a.s, b.s);
      return CAIRN_OK;
    case TMPL_LIST:
    case TMPL_TUPLE:
      return equal_lists(r, a.list, b.list, depth + 1, out);
    case TMPL_DICT:
      return equal_dicts(r, a.dict, b.dict, depth + 1, out);
    case TMPL_RANGE:
      *out = equal_ranges(a.range, b.range);
      return CAIRN_OK;
    case TMPL_VIEW:
      return equal_views(r, a.view, b.view, depth + 1, out);
    case TMPL_METHOD:
      *out = a.method->def == b.method->def && crn_tmpl_same(a.method->self, b.method->self);
      return CAIRN_OK;
    default:
      *out = a.block == b.block;
      return CAIRN_OK;
  }
}

cairn_status crn_tmpl_equal(tmpl_render *r, tmpl_value a, tmpl_value b, bool *out_equal) { return equal(r, a, b, 0, out_equal); }

// --- order --------------------------------------------------------------------------------------------------------------------

static cairn_status less(tmpl_render *r, tmpl_value a, tmpl_value b, const char *op, int depth, bool *out);

static cairn_status less_lists(tmpl_render *r, const tmpl_list *a, const tmpl_list *b, const char *op, int depth, bool *out) {
  for (size_t i = 0; i < a->size && i < b->size; i++) {
    bool same;
    CRN_TRY(equal(r, a->items[i], b->items[i], depth, &same));
    if (!same) return less(r, a->items[i], b->items[i], op, depth, out);
  }
  *out = a->size < b->size;
  return CAIRN_OK;
}

static bool less_numbers(tmpl_value a, tmpl_value b) {
  if (tmpl_is_integral(a) && tmpl_is_integral(b)) return tmpl_as_int(a) < tmpl_as_int(b);
  return tmpl_as_double(a) < tmpl_as_double(b);
}

static cairn_status less(tmpl_render *r, tmpl_value a, tmpl_value b, const char *op, int depth, bool *out) {
  CRN_TRY(crn_tmpl_steps(r, 1));
  if (depth > MAX_COMPARE_DEPTH) return crn_tmpl_limit(r, "values nested too deeply to be compared");
  if (tmpl_is_number(a) && tmpl_is_number(b)) {
    *out = less_numbers(a, b);
    return CAIRN_OK;
  }
  if (a.type == TMPL_STRING && b.type == TMPL_STRING) {
    size_t n = a.s->size < b.s->size ? a.s->size : b.s->size;
    CRN_TRY(crn_tmpl_work(r, n));
    // The order of UTF-8 bytes is the order of code points.
    int order = memcmp(a.s->data, b.s->data, n);
    *out = order ? order < 0 : a.s->size < b.s->size;
    return CAIRN_OK;
  }
  if (tmpl_is_sequence(a) && a.type == b.type) return less_lists(r, a.list, b.list, op, depth + 1, out);
  if (a.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, a);
  if (b.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, b);
  return crn_tmpl_fail(r, "'%s' not supported between instances of '%s' and '%s'", op, crn_tmpl_type_name(a), crn_tmpl_type_name(b));
}

cairn_status crn_tmpl_less(tmpl_render *r, tmpl_value a, tmpl_value b, const char *op, bool *out_less) {
  return less(r, a, b, op, 0, out_less);
}

// a <= b is not "not b < a" for floats that are not numbers, and for sequences it decides at the first difference.
static cairn_status less_or_equal(tmpl_render *r, tmpl_value a, tmpl_value b, const char *op, bool *out) {
  if (tmpl_is_number(a) && tmpl_is_number(b)) {
    *out = less_numbers(a, b) || equal_numbers(a, b);
    return CAIRN_OK;
  }
  bool greater;
  CRN_TRY(crn_tmpl_less(r, b, a, op, &greater));
  *out = !greater;
  return CAIRN_OK;
}

cairn_status crn_tmpl_compare(tmpl_render *r, tmpl_op op, tmpl_value a, tmpl_value b, bool *out) {
  switch (op) {
    case TMPL_OP_EQ:
      return crn_tmpl_equal(r, a, b, out);
    case TMPL_OP_NE:
      CRN_TRY(crn_tmpl_equal(r, a, b, out));
      break;
    case TMPL_OP_LT:
      return crn_tmpl_less(r, a, b, "<", out);
    case TMPL_OP_LE:
      return less_or_equal(r, a, b, "<=", out);
    case TMPL_OP_GT:
      return crn_tmpl_less(r, b, a, ">", out);
    case TMPL_OP_GE:
      return less_or_equal(r, b, a, ">=", out);
    case TMPL_OP_IN:
      return crn_tmpl_contains(r, b, a, out);
    default:
      CRN_TRY(crn_tmpl_contains(r, b, a, out));
      break;
  }
  *out = !*out;
  return CAIRN_OK;
}

// --- membership ------------------------------------------------------------------------------------------------------------------

static cairn_status contains_key(tmpl_render *r, const tmpl_dict *d, tmpl_value key, bool *out) {
  uint64_t hash;
  if (!crn_tmpl_hash(key, &hash)) return crn_tmpl_fail(r, "unhashable type: '%s'", crn_tmpl_type_name(key));
  *out = crn_tmpl_dict_find(d, key) != NULL;
  return CAIRN_OK;
}

static cairn_status contains_pair(tmpl_render *r, const tmpl_dict *d, tmpl_value item, bool *out) {
  *out = false;
  if (item.type != TMPL_TUPLE || item.list->size != 2) return CAIRN_OK;
  CRN_TRY(contains_key(r, d, item.list->items[0], out));
  return *out ? crn_tmpl_equal(r, crn_tmpl_dict_find(d, item.list->items[0])->value, item.list->items[1], out) : CAIRN_OK;
}

static bool range_has(const tmpl_range *range, int64_t i) {
  if (!range->size) return false;
  int64_t last = range->start + (int64_t)(range->size - 1) * range->step;
  int64_t low = range->step > 0 ? range->start : last, high = range->step > 0 ? last : range->start;
  return i >= low && i <= high && (i - low) % (range->step > 0 ? range->step : -range->step) == 0;
}

cairn_status crn_tmpl_contains(tmpl_render *r, tmpl_value container, tmpl_value item, bool *out_found) {
  *out_found = false;
  switch (container.type) {
    case TMPL_STRING:
      if (item.type != TMPL_STRING) {
        return crn_tmpl_fail(r, "'in <string>' requires string as left operand, not %s", crn_tmpl_type_name(item));
      }
      CRN_TRY(crn_tmpl_work(r, container.s->size));
      *out_found = crn_tmpl_find(container.s->data, container.s->size, 0, item.s->data, item.s->size) != SIZE_MAX;
      return CAIRN_OK;
    case TMPL_DICT:
      return contains_key(r, container.dict, item, out_found);
    case TMPL_VIEW:
      if (container.view->kind == TMPL_VIEW_KEYS) return contains_key(r, container.view->dict, item, out_found);
      if (container.view->kind == TMPL_VIEW_ITEMS) return contains_pair(r, container.view->dict, item, out_found);
      break;
    case TMPL_RANGE:
      if (!tmpl_is_integral(item)) break;
      *out_found = range_has(container.range, tmpl_as_int(item));
      return CAIRN_OK;
    default:
      break;
  }
  if (!crn_tmpl_is_iterable(container)) return crn_tmpl_fail(r, "argument of type '%s' is not iterable", crn_tmpl_type_name(container));
  tmpl_iter it;
  CRN_TRY(crn_tmpl_iter_start(r, container, &it));
  for (;;) {
    tmpl_value v;
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &v, &done));
    if (done) return CAIRN_OK;
    CRN_TRY(crn_tmpl_equal(r, v, item, out_found));
    if (*out_found) return CAIRN_OK;
  }
}
