/// The variable `loop` of a for loop.
#include "text/template/render.h"

cairn_status crn_tmpl_loop_next(tmpl_render *r, tmpl_loop *loop, tmpl_value *out, bool *out_done) {
  *out_done = false;
  if (loop->has_after) {
    *out = loop->after;
    loop->has_after = false;
  } else {
    CRN_TRY(crn_tmpl_iter_next(r, &loop->iter, out, out_done));
    if (*out_done) return CAIRN_OK;
  }
  loop->index0++;
  loop->before = loop->current;
  loop->current = *out;
  return CAIRN_OK;
}

// The item that comes next, fetched ahead of its turn.
static cairn_status peek(tmpl_render *r, tmpl_loop *loop, bool *out_any) {
  if (!loop->has_after) {
    bool done;
    CRN_TRY(crn_tmpl_iter_next(r, &loop->iter, &loop->after, &done));
    loop->has_after = !done;
  }
  *out_any = loop->has_after;
  return CAIRN_OK;
}

cairn_status crn_tmpl_loop_length(tmpl_render *r, tmpl_loop *loop, size_t *out) {
  if (!loop->has_length) {
    if (crn_tmpl_is_sized(loop->source)) {
      CRN_TRY(crn_tmpl_length(r, loop->source, &loop->length));
    } else {
      // A generator is read to its end, and the loop goes on with what it gave.
      tmpl_items rest = {0};
      tmpl_value list;
      for (;;) {
        tmpl_value v;
        bool done;
        CRN_TRY(crn_tmpl_iter_next(r, &loop->iter, &v, &done));
        if (done) break;
        CRN_TRY(crn_tmpl_items_push(r, &rest, v));
      }
      CRN_TRY(crn_tmpl_list_finish(r, &rest, TMPL_LIST, &list));
      CRN_TRY(crn_tmpl_iter_start(r, list, &loop->iter));
      loop->length = rest.used + (size_t)(loop->index0 + 1) + loop->has_after;
    }
    loop->has_length = true;
  }
  *out = loop->length;
  return CAIRN_OK;
}

static cairn_status cycle(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out) {
  (void)argv;
  if (all->n_keywords) return crn_tmpl_fail(r, "loop.cycle() takes no keyword arguments");
  if (!all->n_positional) return crn_tmpl_fail(r, "no items for cycling given");
  *out = all->positional[(size_t)self.loop->index0 % all->n_positional];
  return CAIRN_OK;
}

static cairn_status changed(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out) {
  (void)argv;
  tmpl_value now;
  bool same = false;
  if (all->n_keywords) return crn_tmpl_fail(r, "loop.changed() takes no keyword arguments");
  CRN_TRY(crn_tmpl_list_copy(r, all->positional, all->n_positional, TMPL_TUPLE, &now));
  if (self.loop->has_changed) CRN_TRY(crn_tmpl_equal(r, self.loop->changed, now, &same));
  self.loop->has_changed = true;
  self.loop->changed = now;
  *out = tmpl_bool(!same);
  return CAIRN_OK;
}

static cairn_status make_method(tmpl_render *r, tmpl_loop *loop, const tmpl_method_def *def, tmpl_value *out) {
  tmpl_method *m;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *m, &m));
  *m = (tmpl_method){.self = {.type = TMPL_LOOP, .loop = loop}, .def = def};
  *out = (tmpl_value){.type = TMPL_METHOD, .method = m};
  return CAIRN_OK;
}

// Attributes that need to know how many items there are.
static cairn_status counted(tmpl_render *r, tmpl_loop *loop, int64_t passed, tmpl_value *out) {
  size_t length;
  CRN_TRY(crn_tmpl_loop_length(r, loop, &length));
  *out = tmpl_int((int64_t)length - passed);
  return CAIRN_OK;
}

static cairn_status is_last(tmpl_render *r, tmpl_loop *loop, tmpl_value *out) {
  bool any;
  CRN_TRY(peek(r, loop, &any));
  *out = tmpl_bool(!any);
  return CAIRN_OK;
}

static cairn_status previous_item(tmpl_render *r, tmpl_loop *loop, tmpl_value *out) {
  *out = loop->before;
  return loop->index0 == 0 ? crn_tmpl_undefined(r, "there is no previous item", out) : CAIRN_OK;
}

static cairn_status next_item(tmpl_render *r, tmpl_loop *loop, tmpl_value *out) {
  bool any;
  CRN_TRY(peek(r, loop, &any));
  *out = loop->after;
  return any ? CAIRN_OK : crn_tmpl_undefined(r, "there is no next item", out);
}

cairn_status crn_tmpl_loop_attribute(tmpl_render *r, tmpl_loop *loop, const tmpl_str *name, tmpl_value *out, bool *out_found) {
  static const tmpl_method_def cycle_def = {"cycle", cycle, NULL, 0}, changed_def = {"changed", changed, NULL, 0};
  static const char *const names[] = {"index0",   "index",     "depth0",   "depth",    "first", "last",   "length",
                                      "revindex", "revindex0", "previtem", "nextitem", "cycle", "changed"};
  size_t which = 0, n = sizeof names / sizeof *names;
  while (which < n && !crn_tmpl_str_is(name, names[which])) which++;
  *out_found = which < n;
  switch (which) {
    case 0:
      *out = tmpl_int(loop->index0);
      break;
    case 1:
      *out = tmpl_int(loop->index0 + 1);
      break;
    case 2:
      *out = tmpl_int(loop->depth0);
      break;
    case 3:
      *out = tmpl_int(loop->depth0 + 1);
      break;
    case 4:
      *out = tmpl_bool(loop->index0 == 0);
      break;
    case 5:
      return is_last(r, loop, out);
    case 6:
      return counted(r, loop, 0, out);
    case 7:
      return counted(r, loop, loop->index0, out);
    case 8:
      return counted(r, loop, loop->index0 + 1, out);
    case 9:
      return previous_item(r, loop, out);
    case 10:
      return next_item(r, loop, out);
    case 11:
      return make_method(r, loop, &cycle_def, out);
    case 12:
      return make_method(r, loop, &changed_def, out);
    default:
      break;
  }
  return CAIRN_OK;
}
