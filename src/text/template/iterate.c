/// Iteration over values, and the generators that filters give.
#include <string.h>

#include "base/str.h"
#include "text/template/render.h"

static cairn_status next_nothing(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  (void)r;
  (void)it;
  (void)out;
  *out_done = true;
  return CAIRN_OK;
}

static cairn_status next_item(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  (void)r;
  const tmpl_list *list = it->source.list;
  *out_done = it->at >= list->size;
  if (!*out_done) *out = list->items[it->at++];
  return CAIRN_OK;
}

static cairn_status next_char(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  const tmpl_str *s = it->source.s;
  *out_done = it->at >= s->size;
  if (*out_done) return CAIRN_OK;
  size_t start = it->at++;
  while (it->at < s->size && ((unsigned char)s->data[it->at] & 0xc0) == 0x80) it->at++;
  return crn_tmpl_str_borrow(r, s->data + start, it->at - start, out);
}

static cairn_status next_key(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  (void)r;
  const tmpl_dict *d = it->source.dict;
  *out_done = it->at >= d->size;
  if (!*out_done) *out = d->items[it->at++].key;
  return CAIRN_OK;
}

static cairn_status next_of_view(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  const tmpl_view *view = it->source.view;
  *out_done = it->at >= view->dict->size;
  if (*out_done) return CAIRN_OK;
  const tmpl_pair *pair = &view->dict->items[it->at++];
  *out = view->kind == TMPL_VIEW_KEYS ? pair->key : pair->value;
  return view->kind == TMPL_VIEW_ITEMS ? crn_tmpl_pair_tuple(r, pair->key, pair->value, out) : CAIRN_OK;
}

static cairn_status next_number(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  (void)r;
  const tmpl_range *range = it->source.range;
  *out_done = it->at >= range->size;
  if (!*out_done) *out = tmpl_int(range->start + (int64_t)it->at++ * range->step);
  return CAIRN_OK;
}

static cairn_status next_of_generator(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  return crn_tmpl_iter_next(r, it->source.iter, out, out_done);
}

// Iterating over `loop` itself goes on with the loop and gives pairs of item and loop.
static cairn_status next_of_loop(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  tmpl_value item;
  CRN_TRY(crn_tmpl_loop_next(r, it->source.loop, &item, out_done));
  return *out_done ? CAIRN_OK : crn_tmpl_pair_tuple(r, item, it->source, out);
}

static tmpl_next_fn next_function(tmpl_value v) {
  switch (v.type) {
    case TMPL_UNDEFINED:
      return next_nothing;
    case TMPL_STRING:
      return next_char;
    case TMPL_LIST:
    case TMPL_TUPLE:
      return next_item;
    case TMPL_DICT:
      return next_key;
    case TMPL_VIEW:
      return next_of_view;
    case TMPL_RANGE:
      return next_number;
    case TMPL_ITERATOR:
      return next_of_generator;
    case TMPL_LOOP:
      return next_of_loop;
    default:
      return NULL;
  }
}

bool crn_tmpl_is_iterable(tmpl_value v) { return next_function(v) != NULL; }

cairn_status crn_tmpl_iter_start(tmpl_render *r, tmpl_value v, tmpl_iter *out) {
  *out = (tmpl_iter){.next = next_function(v), .source = v, .type_name = "iterator"};
  if (out->next) return CAIRN_OK;
  return crn_tmpl_fail(r, "'%s' object is not iterable", crn_tmpl_type_name(v));
}

cairn_status crn_tmpl_iter_next(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  CRN_TRY(crn_tmpl_steps(r, 1));
  *out_done = it->done;
  if (it->done) return CAIRN_OK;
  // Generators can be stacked on each other without end, so their depth counts.
  if (++r->stack > r->max_stack) return crn_tmpl_limit(r, "iterators nested too deeply");
  cairn_status status = it->next(r, it, out, out_done);
  r->stack--;
  it->done = *out_done || status != CAIRN_OK;
  return status;
}

cairn_status crn_tmpl_collect(tmpl_render *r, tmpl_value v, tmpl_items *items) {
  tmpl_iter it;
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  for (;;) {
    tmpl_value item;
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &it, &item, &done));
    if (done) return CAIRN_OK;
    CRN_TRY(crn_tmpl_items_push(r, items, item));
  }
}

cairn_status crn_tmpl_iter_make(tmpl_render *r, tmpl_next_fn next, const char *type_name, tmpl_value source, void *state, tmpl_value *out) {
  tmpl_iter *it;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *it, &it));
  *it = (tmpl_iter){.next = next, .type_name = type_name, .source = source, .state = state};
  *out = (tmpl_value){.type = TMPL_ITERATOR, .iter = it};
  return CAIRN_OK;
}

cairn_status crn_tmpl_generator_make(tmpl_render *r, tmpl_next_fn next, const char *name, tmpl_value source, void *state, tmpl_value *out) {
  CRN_TRY(crn_tmpl_iter_make(r, next, "generator", source, state, out));
  out->iter->name = name;
  return CAIRN_OK;
}

// --- backwards -------------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_item_at(tmpl_render *r, tmpl_value v, size_t at, tmpl_value *out) {
  switch (v.type) {
    case TMPL_LIST:
    case TMPL_TUPLE:
      *out = v.list->items[at];
      return CAIRN_OK;
    case TMPL_RANGE:
      *out = tmpl_int(v.range->start + (int64_t)at * v.range->step);
      return CAIRN_OK;
    case TMPL_STRING: {
      size_t chars = crn_tmpl_str_chars(v.s);
      if (chars != v.s->size) CRN_TRY(crn_tmpl_work(r, v.s->size));
      size_t from = crn_tmpl_str_offset(v.s, at);
      return crn_tmpl_str_part(r, v.s, from, chars == v.s->size ? from + 1 : crn_tmpl_str_offset(v.s, at + 1), out);
    }
    default:
      return crn_tmpl_fail(r, "'%s' object is not subscriptable", crn_tmpl_type_name(v));
  }
}

static cairn_status next_backwards(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  *out_done = it->at == 0;
  if (*out_done) return CAIRN_OK;
  size_t at = --it->at;
  switch (it->source.type) {
    case TMPL_DICT:
      *out = it->source.dict->items[at].key;
      return CAIRN_OK;
    case TMPL_VIEW: {
      const tmpl_pair *pair = &it->source.view->dict->items[at];
      *out = it->source.view->kind == TMPL_VIEW_KEYS ? pair->key : pair->value;
      return it->source.view->kind == TMPL_VIEW_ITEMS ? crn_tmpl_pair_tuple(r, pair->key, pair->value, out) : CAIRN_OK;
    }
    default:
      return crn_tmpl_item_at(r, it->source, at, out);
  }
}

cairn_status crn_tmpl_reversed(tmpl_render *r, tmpl_value v, tmpl_value *out, bool *out_ok) {
  static const char *const of_views[] = {"dict_reversekeyiterator", "dict_reversevalueiterator", "dict_reverseitemiterator"};
  const char *name = "reversed";
  *out_ok = true;
  switch (v.type) {
    case TMPL_UNDEFINED:
      return crn_tmpl_iter_make(r, next_nothing, name, v, NULL, out);
    case TMPL_LIST:
      name = "list_reverseiterator";
      break;
    case TMPL_RANGE:
      name = "range_iterator";
      break;
    case TMPL_DICT:
      name = "dict_reversekeyiterator";
      break;
    case TMPL_VIEW:
      name = of_views[v.view->kind];
      break;
    case TMPL_TUPLE:
    case TMPL_STRING:
      break;
    default:
      *out_ok = false;
      return CAIRN_OK;
  }
  size_t length;
  CRN_TRY(crn_tmpl_length(r, v, &length));
  CRN_TRY(crn_tmpl_iter_make(r, next_backwards, name, v, NULL, out));
  out->iter->at = length;
  return CAIRN_OK;
}
