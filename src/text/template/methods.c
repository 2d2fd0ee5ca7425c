/// Finding methods and properties, and the methods of everything that is no string.
#include "text/template/methods.h"

#include <math.h>
#include <string.h>

#define ROW(type, name, params, n_required) {#name, crn_tmpl_##type##_##name, params, n_required},

static const tmpl_method_def g_str_methods[] = {
#define STR(name, params, n_required) ROW(str, name, params, n_required)
#include "text/template/methods.def"
    {0}};

static const tmpl_method_def g_dict_methods[] = {
#define DICT(name, params, n_required) ROW(dict, name, params, n_required)
#include "text/template/methods.def"
    {0}};

static const tmpl_method_def g_sequence_methods[] = {
#define SEQUENCE(name, params, n_required) ROW(sequence, name, params, n_required)
#include "text/template/methods.def"
    {0}};

static const tmpl_method_def g_number_methods[] = {
#define NUMBER(name, params, n_required) ROW(number, name, params, n_required)
#include "text/template/methods.def"
    {0}};

static const tmpl_method_def g_cycler_methods[] = {
#define CYCLER(name, params, n_required) ROW(cycler, name, params, n_required)
#include "text/template/methods.def"
    {0}};

static bool fits(const tmpl_method_def *def, tmpl_value object) {
  // Tables are shared by similar types; a few methods belong to one of them only.
  if (object.type == TMPL_TUPLE || object.type == TMPL_RANGE) return strcmp(def->name, "copy") != 0;
  if (object.type == TMPL_FLOAT) return strncmp(def->name, "bit_", 4) != 0;
  if (tmpl_is_integral(object)) return strcmp(def->name, "is_integer") != 0;
  return true;
}

static const tmpl_method_def *find_def(tmpl_value object, const tmpl_str *name) {
  const tmpl_method_def *table;
  switch (object.type) {
    case TMPL_STRING:
      table = g_str_methods;
      break;
    case TMPL_DICT:
      table = g_dict_methods;
      break;
    case TMPL_LIST:
    case TMPL_TUPLE:
    case TMPL_RANGE:
      table = g_sequence_methods;
      break;
    case TMPL_BOOL:
    case TMPL_INT:
    case TMPL_FLOAT:
      table = g_number_methods;
      break;
    case TMPL_CYCLER:
      table = g_cycler_methods;
      break;
    default:
      return NULL;
  }
  for (; table->name; table++) {
    if (crn_tmpl_str_is(name, table->name)) return fits(table, object) ? table : NULL;
  }
  return NULL;
}

// --- properties ------------------------------------------------------------------------------------------------------------

static bool number_property(tmpl_value v, const tmpl_str *name, tmpl_value *out) {
  bool integral = tmpl_is_integral(v);
  tmpl_value self = integral ? tmpl_int(tmpl_as_int(v)) : v;
  if (crn_tmpl_str_is(name, "real") || (integral && crn_tmpl_str_is(name, "numerator")))
    *out = self;
  else if (crn_tmpl_str_is(name, "imag"))
    *out = integral ? tmpl_int(0) : tmpl_float(0);
  else if (integral && crn_tmpl_str_is(name, "denominator"))
    *out = tmpl_int(1);
  else
    return false;
  return true;
}

static bool range_property(const tmpl_range *range, const tmpl_str *name, tmpl_value *out) {
  if (crn_tmpl_str_is(name, "start"))
    *out = tmpl_int(range->start);
  else if (crn_tmpl_str_is(name, "stop"))
    *out = tmpl_int(range->stop);
  else if (crn_tmpl_str_is(name, "step"))
    *out = tmpl_int(range->step);
  else
    return false;
  return true;
}

static cairn_status macro_property(tmpl_render *r, const tmpl_function *fn, const tmpl_str *name, tmpl_value *out, bool *out_found) {
  if (crn_tmpl_str_is(name, "name")) {
    *out = fn->name ? tmpl_string(fn->name) : tmpl_none();
  } else if (crn_tmpl_str_is(name, "arguments")) {
    tmpl_items items = {0};
    for (int i = 0; i < fn->params.size; i++) CRN_TRY(crn_tmpl_items_push(r, &items, tmpl_string(fn->params.items[i]->name.name)));
    return crn_tmpl_list_finish(r, &items, TMPL_TUPLE, out);
  } else if (crn_tmpl_str_is(name, "catch_kwargs")) {
    *out = tmpl_bool(fn->kwargs_slot >= 0);
  } else if (crn_tmpl_str_is(name, "catch_varargs")) {
    *out = tmpl_bool(fn->varargs_slot >= 0);
  } else if (crn_tmpl_str_is(name, "caller")) {
    *out = tmpl_bool(fn->caller_slot >= 0 || fn->explicit_caller);
  } else if (crn_tmpl_str_is(name, "explicit_caller")) {
    *out = tmpl_bool(fn->explicit_caller);
  } else {
    *out_found = false;
  }
  return CAIRN_OK;
}

static bool cycler_property(const tmpl_cycler *cycler, const tmpl_str *name, tmpl_value *out) {
  if (crn_tmpl_str_is(name, "current"))
    *out = cycler->items->items[cycler->at];
  else if (crn_tmpl_str_is(name, "pos"))
    *out = tmpl_int((int64_t)cycler->at);
  else if (crn_tmpl_str_is(name, "items"))
    *out = (tmpl_value){.type = TMPL_TUPLE, .list = cycler->items};
  else
    return false;
  return true;
}

static bool joiner_property(const tmpl_joiner *joiner, const tmpl_str *name, tmpl_value *out) {
  if (crn_tmpl_str_is(name, "sep"))
    *out = joiner->separator;
  else if (crn_tmpl_str_is(name, "used"))
    *out = tmpl_bool(joiner->used);
  else
    return false;
  return true;
}

// Tuples made by groupby name their parts.
static bool group_property(const tmpl_list *list, const tmpl_str *name, tmpl_value *out) {
  if (!list->group) return false;
  if (crn_tmpl_str_is(name, "grouper"))
    *out = list->items[0];
  else if (crn_tmpl_str_is(name, "list"))
    *out = list->items[1];
  else
    return false;
  return true;
}

static cairn_status find_property(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out, bool *out_found) {
  *out_found = true;
  switch (object.type) {
    case TMPL_BOOL:
    case TMPL_INT:
    case TMPL_FLOAT:
      *out_found = number_property(object, name, out);
      break;
    case TMPL_TUPLE:
      *out_found = group_property(object.list, name, out);
      break;
    case TMPL_RANGE:
      *out_found = range_property(object.range, name, out);
      break;
    case TMPL_CYCLER:
      *out_found = cycler_property(object.cycler, name, out);
      break;
    case TMPL_JOINER:
      *out_found = joiner_property(object.joiner, name, out);
      break;
    case TMPL_MACRO:
      return macro_property(r, object.macro->function, name, out, out_found);
    default:
      *out_found = false;
      break;
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_method_find(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out, bool *out_found) {
  const tmpl_method_def *def = find_def(object, name);
  if (!def) return find_property(r, object, name, out, out_found);
  tmpl_method *m;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *m, &m));
  *m = (tmpl_method){.self = object, .def = def};
  *out = (tmpl_value){.type = TMPL_METHOD, .method = m};
  *out_found = true;
  return CAIRN_OK;
}

// --- arguments ---------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_arg_int(tmpl_render *r, tmpl_value v, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (v.type == TMPL_MISSING) return CAIRN_OK;
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (!tmpl_is_integral(v)) return crn_tmpl_fail(r, "'%s' object cannot be interpreted as an integer", crn_tmpl_type_name(v));
  *out = tmpl_as_int(v);
  return CAIRN_OK;
}

cairn_status crn_tmpl_need_str(tmpl_render *r, tmpl_value v, const tmpl_str **out) {
  if (v.type != TMPL_STRING) return crn_tmpl_fail(r, "must be str, not %s", crn_tmpl_type_name(v));
  *out = v.s;
  return CAIRN_OK;
}

cairn_status crn_tmpl_arg_str(tmpl_render *r, tmpl_value v, const tmpl_str **out) {
  *out = NULL;
  return v.type == TMPL_MISSING || v.type == TMPL_NONE ? CAIRN_OK : crn_tmpl_need_str(r, v, out);
}

// --- dict ----------------------------------------------------------------------------------------------------------------------

#define METHOD(type, name) \
  cairn_status crn_tmpl_##type##_##name(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out)
#define UNUSED_ARGS (void)r, (void)self, (void)argv, (void)all

static cairn_status make_view(tmpl_render *r, tmpl_value dict, tmpl_view_kind kind, tmpl_value *out) {
  tmpl_view *view;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *view, &view));
  *view = (tmpl_view){.dict = dict.dict, .kind = kind};
  *out = (tmpl_value){.type = TMPL_VIEW, .view = view};
  return CAIRN_OK;
}

METHOD(dict, keys) {
  UNUSED_ARGS;
  return make_view(r, self, TMPL_VIEW_KEYS, out);
}

METHOD(dict, values) {
  UNUSED_ARGS;
  return make_view(r, self, TMPL_VIEW_VALUES, out);
}

METHOD(dict, items) {
  UNUSED_ARGS;
  return make_view(r, self, TMPL_VIEW_ITEMS, out);
}

METHOD(dict, get) {
  UNUSED_ARGS;
  uint64_t hash;
  if (!crn_tmpl_hash(argv[0], &hash)) return crn_tmpl_fail(r, "unhashable type: '%s'", crn_tmpl_type_name(argv[0]));
  const tmpl_pair *pair = crn_tmpl_dict_find(self.dict, argv[0]);
  *out = pair ? pair->value : argv[1].type == TMPL_MISSING ? tmpl_none() : argv[1];
  return CAIRN_OK;
}

METHOD(dict, copy) {
  UNUSED_ARGS;
  tmpl_dict *d;
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  for (size_t i = 0; i < self.dict->size; i++) CRN_TRY(crn_tmpl_dict_set(r, d, self.dict->items[i].key, self.dict->items[i].value));
  *out = (tmpl_value){.type = TMPL_DICT, .dict = d};
  return CAIRN_OK;
}

METHOD(dict, fromkeys) {
  UNUSED_ARGS;
  tmpl_dict *d;
  tmpl_items keys = {0};
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  CRN_TRY(crn_tmpl_collect(r, argv[0], &keys));
  tmpl_value v = argv[1].type == TMPL_MISSING ? tmpl_none() : argv[1];
  for (size_t i = 0; i < keys.used; i++) CRN_TRY(crn_tmpl_dict_set(r, d, keys.base[i], v));
  *out = (tmpl_value){.type = TMPL_DICT, .dict = d};
  return CAIRN_OK;
}

// --- list, tuple, range ------------------------------------------------------------------------------------------------------------

METHOD(sequence, copy) {
  UNUSED_ARGS;
  return crn_tmpl_list_copy(r, self.list->items, self.list->size, self.type, out);
}

METHOD(sequence, count) {
  UNUSED_ARGS;
  tmpl_iter it;
  int64_t n = 0;
  CRN_TRY(crn_tmpl_iter_start(r, self, &it));
  for (;;) {
    tmpl_value v;
    bool done, same;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &v, &done));
    if (done) break;
    CRN_TRY(crn_tmpl_equal(r, v, argv[0], &same));
    n += same;
  }
  *out = tmpl_int(n);
  return CAIRN_OK;
}

METHOD(sequence, index) {
  UNUSED_ARGS;
  size_t length;
  int64_t start, stop;
  CRN_TRY(crn_tmpl_length(r, self, &length));
  CRN_TRY(crn_tmpl_arg_int(r, argv[1], 0, &start));
  CRN_TRY(crn_tmpl_arg_int(r, argv[2], INT64_MAX, &stop));
  if (start < 0) start = start < -(int64_t)length ? 0 : start + (int64_t)length;
  if (stop < 0) stop += (int64_t)length;
  for (int64_t i = start; i < stop && i < (int64_t)length; i++) {
    tmpl_value v;
    bool same;
    CRN_TRY(crn_tmpl_item_at(r, self, (size_t)i, &v));
    CRN_TRY(crn_tmpl_equal(r, v, argv[0], &same));
    if (!same) continue;
    *out = tmpl_int(i);
    return CAIRN_OK;
  }
  return crn_tmpl_fail(r, "the value is not in the %s", crn_tmpl_type_name(self));
}

// --- numbers --------------------------------------------------------------------------------------------------------------------

static uint64_t magnitude(tmpl_value v) {
  int64_t i = tmpl_as_int(v);
  return i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
}

METHOD(number, bit_length) {
  UNUSED_ARGS;
  uint64_t m = magnitude(self);
  *out = tmpl_int(m ? 64 - __builtin_clzll(m) : 0);
  return CAIRN_OK;
}

METHOD(number, bit_count) {
  UNUSED_ARGS;
  *out = tmpl_int(__builtin_popcountll(magnitude(self)));
  return CAIRN_OK;
}

METHOD(number, conjugate) {
  UNUSED_ARGS;
  *out = tmpl_is_integral(self) ? tmpl_int(tmpl_as_int(self)) : self;
  return CAIRN_OK;
}

METHOD(number, is_integer) {
  UNUSED_ARGS;
  *out = tmpl_bool(isfinite(self.d) && self.d == floor(self.d));
  return CAIRN_OK;
}

// --- cycler ---------------------------------------------------------------------------------------------------------------------

METHOD(cycler, next) {
  UNUSED_ARGS;
  tmpl_cycler *cycler = self.cycler;
  *out = cycler->items->items[cycler->at];
  cycler->at = (cycler->at + 1) % cycler->items->size;
  return CAIRN_OK;
}

METHOD(cycler, reset) {
  UNUSED_ARGS;
  self.cycler->at = 0;
  *out = tmpl_none();
  return CAIRN_OK;
}
