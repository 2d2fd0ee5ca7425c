/// Filters that apply a filter or a test to each item. They are lazy: nothing happens before somebody asks for an item.
#include "text/template/filter_helpers.h"
#include "text/template/tests.h"

typedef struct each_state {
  bool started, empty;
  tmpl_value source;
  tmpl_iter iter;
  tmpl_args args;  // of the whole filter
  // How it selects.
  bool by_attribute, keep;
  tmpl_getter getter;
  const tmpl_filter *filter;
  const tmpl_test *test;
  tmpl_args rest;  // of the filter or test that is applied
} each_state;

static tmpl_args without_first(const tmpl_args *args, size_t n) {
  tmpl_args rest = *args;
  rest.positional += n;
  rest.n_positional -= n;
  return rest;
}

// An undefined or empty value gives nothing, and its arguments are not even looked at.
static cairn_status start(tmpl_render *r, each_state *st, cairn_status (*prepare)(tmpl_render *, each_state *)) {
  st->started = true;
  st->empty = !crn_tmpl_truth(st->source);
  if (st->empty) return CAIRN_OK;
  CRN_TRY(prepare(r, st));
  return crn_tmpl_iter_start(r, st->source, &st->iter);
}

static cairn_status next_mapped(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done);

static cairn_status make(tmpl_render *r, tmpl_value v, const tmpl_args *all, tmpl_next_fn next, bool by_attribute, bool keep,
                         tmpl_value *out) {
  each_state *st;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *st, &st));
  *st = (each_state){.source = v, .args = *all, .by_attribute = by_attribute, .keep = keep};
  return crn_tmpl_generator_make(r, next, next == next_mapped ? "sync_do_map" : "select_or_reject", v, st, out);
}

// --- map ----------------------------------------------------------------------------------------------------------------

static cairn_status prepare_attribute_map(tmpl_render *r, each_state *st) {
  const tmpl_value *attribute = crn_tmpl_keyword(&st->args, "attribute"), *otherwise = crn_tmpl_keyword(&st->args, "default");
  size_t known = 1 + (otherwise != NULL);
  if (st->args.n_keywords > known) return crn_tmpl_fail(r, "map got an unexpected keyword argument");
  st->by_attribute = true;
  CRN_TRY(crn_tmpl_getter_make(r, *attribute, false, &st->getter));
  if (otherwise && otherwise->type != TMPL_NONE) st->getter.otherwise = *otherwise;
  return CAIRN_OK;
}

static cairn_status prepare_map(tmpl_render *r, each_state *st) {
  if (!st->args.n_positional) {
    if (crn_tmpl_keyword(&st->args, "attribute")) return prepare_attribute_map(r, st);
    return crn_tmpl_fail(r, "map requires a filter argument");
  }
  tmpl_value name = st->args.positional[0];
  st->filter = name.type == TMPL_STRING ? crn_tmpl_filter_find(name.s) : NULL;
  if (!st->filter && name.type == TMPL_STRING) return crn_tmpl_fail(r, "no filter named '%.*s'", (int)name.s->size, name.s->data);
  if (!st->filter) return crn_tmpl_fail(r, "the name of a filter must be a string");
  st->rest = without_first(&st->args, 1);
  return CAIRN_OK;
}

static cairn_status next_mapped(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  each_state *st = it->state;
  tmpl_value item;
  if (!st->started) CRN_TRY(start(r, st, prepare_map));
  *out_done = st->empty;
  if (st->empty) return CAIRN_OK;
  CRN_TRY(crn_tmpl_iter_next(r, &st->iter, &item, out_done));
  if (*out_done) return CAIRN_OK;
  if (st->by_attribute) return crn_tmpl_getter_get(r, &st->getter, item, out);
  return crn_tmpl_filter_apply(r, st->filter, item, &st->rest, out);
}

FILTER_FN(map) {
  UNUSED_ARGS;
  return make(r, v, all, next_mapped, false, true, out);
}

// --- select and reject ------------------------------------------------------------------------------------------------------

static cairn_status prepare_select(tmpl_render *r, each_state *st) {
  size_t used = 0;
  if (st->by_attribute) {
    if (!st->args.n_positional) return crn_tmpl_fail(r, "missing parameter for attribute name");
    CRN_TRY(crn_tmpl_getter_make(r, st->args.positional[used++], false, &st->getter));
  }
  if (st->args.n_positional <= used) return CAIRN_OK;
  tmpl_value name = st->args.positional[used++];
  st->test = name.type == TMPL_STRING ? crn_tmpl_test_find(name.s) : NULL;
  if (!st->test && name.type == TMPL_STRING) return crn_tmpl_fail(r, "no test named '%.*s'", (int)name.s->size, name.s->data);
  if (!st->test) return crn_tmpl_fail(r, "the name of a test must be a string");
  st->rest = without_first(&st->args, used);
  return CAIRN_OK;
}

static cairn_status next_selected(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  each_state *st = it->state;
  if (!st->started) CRN_TRY(start(r, st, prepare_select));
  *out_done = st->empty;
  while (!*out_done) {
    tmpl_value tested;
    CRN_TRY(crn_tmpl_iter_next(r, &st->iter, out, out_done));
    if (*out_done) break;
    tested = *out;
    if (st->by_attribute) CRN_TRY(crn_tmpl_getter_get(r, &st->getter, *out, &tested));
    bool holds = crn_tmpl_truth(tested);
    if (st->test) CRN_TRY(crn_tmpl_test_apply(r, st->test, tested, &st->rest, &holds));
    if (holds == st->keep) break;
  }
  return CAIRN_OK;
}

FILTER_FN(select) {
  UNUSED_ARGS;
  return make(r, v, all, next_selected, false, true, out);
}

FILTER_FN(reject) {
  UNUSED_ARGS;
  return make(r, v, all, next_selected, false, false, out);
}

FILTER_FN(selectattr) {
  UNUSED_ARGS;
  return make(r, v, all, next_selected, true, true, out);
}

FILTER_FN(rejectattr) {
  UNUSED_ARGS;
  return make(r, v, all, next_selected, true, false, out);
}
