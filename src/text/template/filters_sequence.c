/// Filters on sequences and containers.
#include <time.h>

#include "text/template/filter_helpers.h"

FILTER_FN(length) {
  UNUSED_ARGS;
  size_t length;
  CRN_TRY(crn_tmpl_length(r, v, &length));
  *out = tmpl_int((int64_t)length);
  return CAIRN_OK;
}

FILTER_FN(default) {
  UNUSED_ARGS;
  bool replace = v.type == TMPL_UNDEFINED || (tmpl_flag(argv[1], false) && !crn_tmpl_truth(v));
  *out = v;
  if (!replace) return CAIRN_OK;
  *out = argv[0];
  return tmpl_given(argv[0]) ? CAIRN_OK : crn_tmpl_str_borrow(r, "", 0, out);
}

FILTER_FN(attr) {
  UNUSED_ARGS;
  bool found;
  if (argv[0].type != TMPL_STRING) return crn_tmpl_fail(r, "attribute name must be string, not '%s'", crn_tmpl_type_name(argv[0]));
  CRN_TRY(crn_tmpl_attribute_only(r, v, argv[0].s, out, &found));
  return found ? CAIRN_OK : crn_tmpl_undefined_member(r, v, argv[0], out);
}

FILTER_FN(first) {
  UNUSED_ARGS;
  tmpl_iter it;
  bool done;
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  CRN_TRY(crn_tmpl_iter_next(r, &it, out, &done));
  return done ? crn_tmpl_undefined(r, "No first item, sequence was empty.", out) : CAIRN_OK;
}

FILTER_FN(last) {
  UNUSED_ARGS;
  tmpl_value reversed;
  bool ok, done;
  CRN_TRY(crn_tmpl_reversed(r, v, &reversed, &ok));
  if (!ok) return crn_tmpl_fail(r, "'%s' object is not reversible", crn_tmpl_type_name(v));
  CRN_TRY(crn_tmpl_iter_next(r, reversed.iter, out, &done));
  return done ? crn_tmpl_undefined(r, "No last item, sequence was empty.", out) : CAIRN_OK;
}

FILTER_FN(random) {
  UNUSED_ARGS;
  size_t length;
  CRN_TRY(crn_tmpl_length(r, v, &length));
  if (!length) return crn_tmpl_undefined(r, "No random item, sequence was empty.", out);
  if (!r->random) r->random = (uint64_t)clock() * 0x9e3779b97f4a7c15u + (uint64_t)time(NULL) + 1;
  r->random ^= r->random << 13;
  r->random ^= r->random >> 7;
  r->random ^= r->random << 17;
  if (v.type != TMPL_STRING && v.type != TMPL_RANGE && !tmpl_is_sequence(v)) {
    return crn_tmpl_fail(r, "'%s' object is not subscriptable", crn_tmpl_type_name(v));
  }
  return crn_tmpl_item_at(r, v, (size_t)(r->random % length), out);
}

FILTER_FN(list) {
  UNUSED_ARGS;
  tmpl_items items = {0};
  CRN_TRY(crn_tmpl_collect(r, v, &items));
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

static cairn_status next_pair(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  const tmpl_dict *d = it->source.type == TMPL_DICT ? it->source.dict : NULL;
  if (it->source.type != TMPL_UNDEFINED && !d) return crn_tmpl_fail(r, "Can only get item pairs from a mapping.");
  *out_done = !d || it->at >= d->size;
  if (*out_done) return CAIRN_OK;
  const tmpl_pair *pair = &d->items[it->at++];
  return crn_tmpl_pair_tuple(r, pair->key, pair->value, out);
}

FILTER_FN(items) {
  UNUSED_ARGS;
  return crn_tmpl_generator_make(r, next_pair, "do_items", v, NULL, out);
}

FILTER_FN(reverse) {
  UNUSED_ARGS;
  bool ok;
  tmpl_value step = tmpl_int(-1), none = tmpl_none();
  if (v.type == TMPL_STRING) return crn_tmpl_slice(r, v, none, none, step, out);
  CRN_TRY(crn_tmpl_reversed(r, v, out, &ok));
  if (ok) return CAIRN_OK;
  if (!crn_tmpl_is_iterable(v)) return crn_tmpl_fail(r, "argument must be iterable");
  tmpl_items items = {0};
  CRN_TRY(crn_tmpl_collect(r, v, &items));
  for (size_t i = 0, k = items.used; i + 1 < k; i++) {
    tmpl_value swap = items.base[i];
    items.base[i] = items.base[--k];
    items.base[k] = swap;
  }
  return crn_tmpl_list_finish(r, &items, TMPL_LIST, out);
}

FILTER_FN(join) {
  UNUSED_ARGS;
  tmpl_getter getter;
  tmpl_buffer b = {0}, separator = {0};
  tmpl_iter it;
  CRN_TRY(crn_tmpl_getter_make(r, argv[1], false, &getter));
  if (tmpl_given(argv[0])) CRN_TRY(crn_tmpl_put_str(r, &separator, argv[0]));
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  for (bool first = true;; first = false) {
    tmpl_value item;
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &item, &done));
    if (done) break;
    CRN_TRY(crn_tmpl_getter_get(r, &getter, item, &item));
    if (!first) CRN_TRY(crn_tmpl_put(r, &b, separator.base, separator.used));
    CRN_TRY(crn_tmpl_put_str(r, &b, item));
  }
  return crn_tmpl_str_finish(r, &b, out);
}

// --- rows and columns ---------------------------------------------------------------------------------------------------------

typedef struct batch_state {
  tmpl_iter source;
  tmpl_items row;
  tmpl_value size, fill;
} batch_state;

static cairn_status fill_row(tmpl_render *r, batch_state *b) {
  int64_t size;
  bool shorter;
  if (!tmpl_given(b->fill) || b->fill.type == TMPL_NONE) return CAIRN_OK;
  CRN_TRY(crn_tmpl_less(r, tmpl_int((int64_t)b->row.used), b->size, "<", &shorter));
  if (!shorter) return CAIRN_OK;
  CRN_TRY(crn_tmpl_arg_int(r, b->size, 0, &size));
  while ((int64_t)b->row.used < size) {
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(crn_tmpl_items_push(r, &b->row, b->fill));
  }
  return CAIRN_OK;
}

// Rows of `size` items; the last one is filled up. A row is only given when the item behind it is there.
static cairn_status next_batch(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  batch_state *b = it->state;
  tmpl_value item;
  bool full = false, done = false;
  while (!full && !done) {
    CRN_TRY(crn_tmpl_iter_next(r, &b->source, &item, &done));
    if (done) break;
    CRN_TRY(crn_tmpl_equal(r, tmpl_int((int64_t)b->row.used), b->size, &full));
    if (!full) CRN_TRY(crn_tmpl_items_push(r, &b->row, item));
  }
  *out_done = done && b->row.used == 0;
  if (*out_done) return CAIRN_OK;
  if (done) CRN_TRY(fill_row(r, b));
  CRN_TRY(crn_tmpl_list_finish(r, &b->row, TMPL_LIST, out));
  b->row = (tmpl_items){0};
  return full ? crn_tmpl_items_push(r, &b->row, item) : CAIRN_OK;
}

FILTER_FN(batch) {
  UNUSED_ARGS;
  batch_state *b;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *b, &b));
  b->size = argv[0];
  b->fill = argv[1];
  CRN_TRY(crn_tmpl_iter_start(r, v, &b->source));
  return crn_tmpl_generator_make(r, next_batch, "do_batch", v, b, out);
}

typedef struct slice_state {
  tmpl_items items;
  tmpl_value count, fill;
  bool started;
  int64_t slices;
} slice_state;

static cairn_status start_slices(tmpl_render *r, slice_state *s, tmpl_value source) {
  s->started = true;
  CRN_TRY(crn_tmpl_collect(r, source, &s->items));
  if (!tmpl_is_integral(s->count)) return crn_tmpl_fail(r, "the number of slices must be an integer");
  s->slices = tmpl_as_int(s->count);
  return s->slices == 0 ? crn_tmpl_fail(r, "integer division or modulo by zero") : CAIRN_OK;
}

// Columns: as many as asked for, the first of them one item longer where it does not come out even.
static cairn_status next_slice(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  slice_state *s = it->state;
  if (!s->started) CRN_TRY(start_slices(r, s, it->source));
  *out_done = s->slices < 0 || (int64_t)it->at >= s->slices;
  if (*out_done) return CAIRN_OK;
  size_t at = it->at++, slices = (size_t)s->slices;
  size_t each = s->items.used / slices, longer = s->items.used % slices;
  size_t start = at * each + (at < longer ? at : longer), end = start + each + (at < longer);
  tmpl_items part = {0};
  for (size_t i = start; i < end; i++) CRN_TRY(crn_tmpl_items_push(r, &part, s->items.base[i]));
  if (at >= longer && tmpl_given(s->fill) && s->fill.type != TMPL_NONE) CRN_TRY(crn_tmpl_items_push(r, &part, s->fill));
  return crn_tmpl_list_finish(r, &part, TMPL_LIST, out);
}

FILTER_FN(slice) {
  UNUSED_ARGS;
  slice_state *s;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *s, &s));
  s->count = argv[0];
  s->fill = argv[1];
  return crn_tmpl_generator_make(r, next_slice, "sync_do_slice", v, s, out);
}
