/// Filters that order, group or add up items.
#include <string.h>

#include "text/template/filter_helpers.h"

// --- attribute paths -----------------------------------------------------------------------------------------------------

static bool all_digits(const char *p, size_t n) {
  if (!n) return false;
  for (size_t i = 0; i < n; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
  }
  return true;
}

static cairn_status add_part(tmpl_render *r, const char *p, size_t n, tmpl_items *parts) {
  tmpl_value part;
  CRN_TRY(crn_tmpl_str_borrow(r, p, n, &part));
  if (all_digits(p, n)) {
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
      if (__builtin_mul_overflow(at, (int64_t)10, &at) || __builtin_add_overflow(at, (int64_t)(p[i] - '0'), &at)) {
        return crn_tmpl_fail(r, "an index does not fit in 64 bits");
      }
    }
    part = tmpl_int(at);
  }
  return crn_tmpl_items_push(r, parts, part);
}

static cairn_status split_path(tmpl_render *r, const char *p, size_t n, tmpl_items *parts) {
  for (size_t start = 0;;) {
    const char *dot = memchr(p + start, '.', n - start);
    size_t end = dot ? (size_t)(dot - p) : n;
    CRN_TRY(add_part(r, p + start, end - start, parts));
    if (!dot) return CAIRN_OK;
    start = end + 1;
  }
}

cairn_status crn_tmpl_getter_make(tmpl_render *r, tmpl_value attribute, bool fold_case, tmpl_getter *out) {
  *out = (tmpl_getter){.fold_case = fold_case, .otherwise = tmpl_missing()};
  if (attribute.type == TMPL_MISSING || attribute.type == TMPL_NONE) return CAIRN_OK;
  if (attribute.type != TMPL_STRING) return crn_tmpl_items_push(r, &out->parts, attribute);
  return split_path(r, attribute.s->data, attribute.s->size, &out->parts);
}

static cairn_status fold(tmpl_render *r, tmpl_value *in_out) {
  return in_out->type == TMPL_STRING ? crn_tmpl_text_case(r, in_out->s, TMPL_CASE_LOWER, in_out) : CAIRN_OK;
}

cairn_status crn_tmpl_getter_get(tmpl_render *r, const tmpl_getter *g, tmpl_value item, tmpl_value *out) {
  for (size_t i = 0; i < g->parts.used; i++) {
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_item(r, item, g->parts.base[i], &item));
    if (item.type == TMPL_UNDEFINED && tmpl_given(g->otherwise)) item = g->otherwise;
  }
  *out = item;
  return g->fold_case ? fold(r, out) : CAIRN_OK;
}

// --- sorting -----------------------------------------------------------------------------------------------------------------

typedef struct sorter {
  tmpl_render *r;
  tmpl_value *keys;
  bool reverse;
  size_t *order, *spare;
} sorter;

// Merges two sorted runs. Equal keys keep their order, in reverse sorts too.
static cairn_status merge(const sorter *s, size_t start, size_t middle, size_t end) {
  size_t i = start, k = middle, at = start;
  while (i < middle && k < end) {
    tmpl_value left = s->keys[s->order[i]], right = s->keys[s->order[k]];
    bool take_right;
    CRN_TRY(s->reverse ? crn_tmpl_less(s->r, left, right, "<", &take_right) : crn_tmpl_less(s->r, right, left, "<", &take_right));
    s->spare[at++] = take_right ? s->order[k++] : s->order[i++];
  }
  while (i < middle) s->spare[at++] = s->order[i++];
  while (k < end) s->spare[at++] = s->order[k++];
  memcpy(s->order + start, s->spare + start, (end - start) * sizeof *s->order);
  return CAIRN_OK;
}

static cairn_status permute(tmpl_render *r, const size_t *order, size_t n, tmpl_value *values) {
  tmpl_value *copy;
  CRN_TRY(crn_tmpl_alloc(r, n, sizeof *copy, &copy));
  memcpy(copy, values, n * sizeof *copy);
  for (size_t i = 0; i < n; i++) values[i] = copy[order[i]];
  return CAIRN_OK;
}

cairn_status crn_tmpl_sort(tmpl_render *r, tmpl_value *items, tmpl_value *keys, size_t n, bool reverse) {
  sorter s = {.r = r, .keys = keys, .reverse = reverse};
  if (n < 2) return CAIRN_OK;
  CRN_TRY(crn_tmpl_alloc(r, n, sizeof *s.order, &s.order));
  CRN_TRY(crn_tmpl_alloc(r, n, sizeof *s.spare, &s.spare));
  for (size_t i = 0; i < n; i++) s.order[i] = i;
  for (size_t run = 1; run < n; run *= 2) {
    for (size_t start = 0; start + run < n; start += 2 * run) {
      size_t end = start + 2 * run < n ? start + 2 * run : n;
      CRN_TRY(merge(&s, start, start + run, end));
    }
  }
  CRN_TRY(permute(r, s.order, n, items));
  return items == keys ? CAIRN_OK : permute(r, s.order, n, keys);
}

static cairn_status collect_keys(tmpl_render *r, const tmpl_getter *g, const tmpl_items *items, tmpl_items *keys) {
  for (size_t i = 0; i < items->used; i++) {
    tmpl_value key;
    CRN_TRY(crn_tmpl_getter_get(r, g, items->base[i], &key));
    CRN_TRY(crn_tmpl_items_push(r, keys, key));
  }
  return CAIRN_OK;
}

// The key of `sort` is a list: of several attributes ("name,age") or of one.
static cairn_status sort_key(tmpl_render *r, const tmpl_getter *getters, size_t n, tmpl_value item, tmpl_value *out) {
  tmpl_items parts = {0};
  for (size_t i = 0; i < n; i++) {
    tmpl_value part;
    CRN_TRY(crn_tmpl_getter_get(r, &getters[i], item, &part));
    CRN_TRY(crn_tmpl_items_push(r, &parts, part));
  }
  return crn_tmpl_list_finish(r, &parts, TMPL_LIST, out);
}

static cairn_status make_getters(tmpl_render *r, tmpl_value attribute, bool fold_case, tmpl_getter **out, size_t *out_n) {
  tmpl_items names = {0};
  tmpl_str comma = {.data = ",", .size = 1, .chars = 1};
  if (attribute.type == TMPL_STRING)
    CRN_TRY(crn_tmpl_text_split(r, attribute.s, &comma, -1, false, &names));
  else
    CRN_TRY(crn_tmpl_items_push(r, &names, attribute));
  CRN_TRY(crn_tmpl_alloc(r, names.used, sizeof **out, out));
  for (size_t i = 0; i < names.used; i++) CRN_TRY(crn_tmpl_getter_make(r, names.base[i], fold_case, &(*out)[i]));
  *out_n = names.used;
  return CAIRN_OK;
}

// Unlike other switches, the direction must be a number.
static cairn_status read_direction(tmpl_render *r, tmpl_value v, bool *out_reverse) {
  int64_t i;
  CRN_TRY(crn_tmpl_arg_int(r, v, 0, &i));
  *out_reverse = i != 0;
  return CAIRN_OK;
}

FILTER_FN(sort) {
  UNUSED_ARGS;
  bool reverse;
  tmpl_items items = {0}, keys = {0};
  tmpl_getter *getters;
  size_t n_getters;
  CRN_TRY(make_getters(r, argv[2], !tmpl_flag(argv[1], false), &getters, &n_getters));
  CRN_TRY(crn_tmpl_collect(r, v, &items));
  for (size_t i = 0; i < items.used; i++) {
    tmpl_value key;
    CRN_TRY(sort_key(r, getters, n_getters, items.base[i], &key));
    CRN_TRY(crn_tmpl_items_push(r, &keys, key));
  }
  CRN_TRY(read_direction(r, argv[0], &reverse));
  CRN_TRY(crn_tmpl_sort(r, items.base, keys.base, items.used, reverse));
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

FILTER_FN(dictsort) {
  UNUSED_ARGS;
  bool by_value = false, reverse;
  if (tmpl_given(argv[1])) {
    bool by_key = argv[1].type == TMPL_STRING && crn_tmpl_str_is(argv[1].s, "key");
    by_value = argv[1].type == TMPL_STRING && crn_tmpl_str_is(argv[1].s, "value");
    if (!by_key && !by_value) return crn_tmpl_fail(r, "you can only sort by either \"key\" or \"value\"");
  }
  if (v.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, v);
  if (v.type != TMPL_DICT) return crn_tmpl_fail(r, "'%s' object has no attribute 'items'", crn_tmpl_type_name(v));
  tmpl_items items = {0}, keys = {0};
  for (size_t i = 0; i < v.dict->size; i++) {
    tmpl_value pair, key = by_value ? v.dict->items[i].value : v.dict->items[i].key;
    CRN_TRY(crn_tmpl_pair_tuple(r, v.dict->items[i].key, v.dict->items[i].value, &pair));
    if (!tmpl_flag(argv[0], false)) CRN_TRY(fold(r, &key));
    CRN_TRY(crn_tmpl_items_push(r, &items, pair));
    CRN_TRY(crn_tmpl_items_push(r, &keys, key));
  }
  CRN_TRY(read_direction(r, argv[2], &reverse));
  CRN_TRY(crn_tmpl_sort(r, items.base, keys.base, items.used, reverse));
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

// --- groups ------------------------------------------------------------------------------------------------------------------

static cairn_status make_group(tmpl_render *r, const tmpl_getter *names, const tmpl_value *items, size_t n, tmpl_value key,
                               tmpl_value *out) {
  tmpl_value parts[2];
  tmpl_list *group;
  // Without regard to case, a group is called as its first item spells the name.
  if (names) CRN_TRY(crn_tmpl_getter_get(r, names, items[0], &key));
  parts[0] = key;
  CRN_TRY(crn_tmpl_list_copy(r, items, n, TMPL_LIST, &parts[1]));
  CRN_TRY(crn_tmpl_list_copy(r, parts, 2, TMPL_TUPLE, out));
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *group, &group));
  *group = *out->list;
  group->group = true;
  out->list = group;
  return CAIRN_OK;
}

FILTER_FN(groupby) {
  UNUSED_ARGS;
  bool fold_case = !tmpl_flag(argv[2], false);
  tmpl_getter getter, names;
  tmpl_items items = {0}, keys = {0}, groups = {0};
  CRN_TRY(crn_tmpl_getter_make(r, argv[0], fold_case, &getter));
  if (tmpl_given(argv[1]) && argv[1].type != TMPL_NONE) getter.otherwise = argv[1];
  names = getter;
  names.fold_case = false;
  CRN_TRY(crn_tmpl_collect(r, v, &items));
  CRN_TRY(collect_keys(r, &getter, &items, &keys));
  CRN_TRY(crn_tmpl_sort(r, items.base, keys.base, items.used, false));
  for (size_t start = 0, end; start < items.used; start = end) {
    bool same = true;
    for (end = start + 1; end < items.used; end++) {
      CRN_TRY(crn_tmpl_equal(r, keys.base[start], keys.base[end], &same));
      if (!same) break;
    }
    tmpl_value group;
    CRN_TRY(make_group(r, fold_case ? &names : NULL, items.base + start, end - start, keys.base[start], &group));
    CRN_TRY(crn_tmpl_items_push(r, &groups, group));
  }
  return crn_tmpl_list_finish(r, &groups, TMPL_LIST, out);
}

// --- extremes, sums, sets ---------------------------------------------------------------------------------------------------------

static cairn_status extreme(tmpl_render *r, tmpl_value v, const tmpl_value *argv, bool largest, tmpl_value *out) {
  tmpl_getter getter;
  tmpl_iter it;
  tmpl_value best_key = tmpl_missing();
  CRN_TRY(crn_tmpl_getter_make(r, argv[1], !tmpl_flag(argv[0], false), &getter));
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  for (;;) {
    tmpl_value item, key;
    bool done, better = true;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &item, &done));
    if (done) break;
    CRN_TRY(crn_tmpl_getter_get(r, &getter, item, &key));
    if (tmpl_given(best_key)) {
      CRN_TRY(largest ? crn_tmpl_less(r, best_key, key, ">", &better) : crn_tmpl_less(r, key, best_key, "<", &better));
    }
    if (!better) continue;
    best_key = key;
    *out = item;
  }
  return tmpl_given(best_key) ? CAIRN_OK : crn_tmpl_undefined(r, "No aggregated item, sequence was empty.", out);
}

FILTER_FN(min) {
  UNUSED_ARGS;
  return extreme(r, v, argv, false, out);
}

FILTER_FN(max) {
  UNUSED_ARGS;
  return extreme(r, v, argv, true, out);
}

FILTER_FN(sum) {
  UNUSED_ARGS;
  tmpl_getter getter;
  tmpl_iter it;
  tmpl_value total = tmpl_given(argv[1]) ? argv[1] : tmpl_int(0);
  if (total.type == TMPL_STRING) return crn_tmpl_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
  CRN_TRY(crn_tmpl_getter_make(r, argv[0], false, &getter));
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  for (;;) {
    tmpl_value item, sum;
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &item, &done));
    if (done) break;
    CRN_TRY(crn_tmpl_getter_get(r, &getter, item, &item));
    CRN_TRY(crn_tmpl_binary(r, TMPL_OP_ADD, total, item, &sum));
    total = sum;
  }
  *out = total;
  return CAIRN_OK;
}

typedef struct unique_state {
  tmpl_iter source;
  tmpl_getter getter;
  tmpl_dict *seen;
} unique_state;

static cairn_status next_unique(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  unique_state *u = it->state;
  for (;;) {
    tmpl_value key;
    CRN_TRY(crn_tmpl_iter_next(r, &u->source, out, out_done));
    if (*out_done) return CAIRN_OK;
    CRN_TRY(crn_tmpl_getter_get(r, &u->getter, *out, &key));
    size_t before = u->seen->size;
    CRN_TRY(crn_tmpl_dict_set(r, u->seen, key, tmpl_none()));
    if (u->seen->size > before) return CAIRN_OK;
  }
}

FILTER_FN(unique) {
  UNUSED_ARGS;
  unique_state *u;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *u, &u));
  CRN_TRY(crn_tmpl_getter_make(r, argv[1], !tmpl_flag(argv[0], false), &u->getter));
  CRN_TRY(crn_tmpl_dict_make(r, &u->seen));
  CRN_TRY(crn_tmpl_iter_start(r, v, &u->source));
  return crn_tmpl_generator_make(r, next_unique, "sync_do_unique", v, u, out);
}
