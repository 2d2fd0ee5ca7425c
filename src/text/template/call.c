/// Calls: arguments, macros and everything else that can be called.
#include <stdio.h>
#include <string.h>

#include "text/template/render.h"

// --- arguments ---------------------------------------------------------------------------------------------------------------

static cairn_status add_mapping(tmpl_render *r, tmpl_value mapping, const tmpl_str **names, tmpl_value *values, size_t *in_out_n) {
  if (mapping.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, mapping);
  if (mapping.type != TMPL_DICT) return crn_tmpl_fail(r, "argument after ** must be a mapping, not %s", crn_tmpl_type_name(mapping));
  for (size_t i = 0; i < mapping.dict->size; i++) {
    tmpl_value key = mapping.dict->items[i].key;
    if (key.type != TMPL_STRING) return crn_tmpl_fail(r, "keywords must be strings");
    CRN_TRY(crn_tmpl_steps(r, 1 + *in_out_n / 8));
    for (size_t k = 0; k < *in_out_n; k++) {
      if (crn_tmpl_str_equal(names[k], key.s)) {
        return crn_tmpl_fail(r, "got multiple values for keyword argument '%.*s'", (int)key.s->size, key.s->data);
      }
    }
    names[*in_out_n] = key.s;
    values[(*in_out_n)++] = mapping.dict->items[i].value;
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_eval_args(tmpl_render *r, const tmpl_call_args *args, tmpl_args *out) {
  *out = (tmpl_args){0};
  if (args->positional.size || args->star) {
    tmpl_items items = {0};
    for (int i = 0; i < args->positional.size; i++) {
      tmpl_value v;
      CRN_TRY(crn_tmpl_eval(r, args->positional.items[i], &v));
      CRN_TRY(crn_tmpl_items_push(r, &items, v));
    }
    if (args->star) {
      tmpl_value more;
      CRN_TRY(crn_tmpl_eval(r, args->star, &more));
      CRN_TRY(crn_tmpl_collect(r, more, &items));
    }
    out->positional = items.base;
    out->n_positional = items.used;
  }
  if (!args->keywords.size && !args->star_star) return CAIRN_OK;
  size_t n = (size_t)args->keywords.size, at = 0;
  tmpl_value mapping = tmpl_none(), *values;
  const tmpl_str **names;
  // Keyword arguments are evaluated before a mapping, but the mapping decides how much room they need.
  tmpl_value *first;
  CRN_TRY(crn_tmpl_alloc(r, n, sizeof *first, &first));
  for (; at < n; at++) CRN_TRY(crn_tmpl_eval(r, args->keywords.items[at], &first[at]));
  if (args->star_star) CRN_TRY(crn_tmpl_eval(r, args->star_star, &mapping));
  size_t total = n + (mapping.type == TMPL_DICT ? mapping.dict->size : 0);
  CRN_TRY(crn_tmpl_alloc(r, total, sizeof *values, &values));
  CRN_TRY(crn_tmpl_alloc(r, total, sizeof *names, &names));
  for (size_t i = 0; i < n; i++) {
    names[i] = args->names[i];
    values[i] = first[i];
  }
  if (args->star_star) CRN_TRY(add_mapping(r, mapping, names, values, &at));
  out->names = names;
  out->keywords = values;
  out->n_keywords = at;
  return CAIRN_OK;
}

const tmpl_value *crn_tmpl_keyword(const tmpl_args *args, const char *name) {
  for (size_t i = 0; i < args->n_keywords; i++) {
    if (crn_tmpl_str_is(args->names[i], name)) return &args->keywords[i];
  }
  return NULL;
}

// The position of a name in a list of names separated by spaces; -1 when it is not there.
static int find_param(const char *params, const tmpl_str *name) {
  int at = 0;
  for (const char *p = params; *p; at++) {
    size_t n = strcspn(p, " ");
    if (n == name->size && !memcmp(p, name->data, n)) return at;
    p += n;
    p += *p == ' ';
  }
  return -1;
}

static int count_params(const char *params) {
  int n = *params != 0;
  for (; *params; params++) n += *params == ' ';
  return n;
}

cairn_status crn_tmpl_bind(tmpl_render *r, const char *what, const char *params, int n_required, const tmpl_args *args, tmpl_value *argv) {
  bool positional_only = *params == '/';
  params += positional_only;
  params += *params == ' ';
  int n_params = count_params(params);
  for (int i = 0; i < TMPL_MAX_PARAMS; i++) argv[i] = tmpl_missing();
  if (args->n_positional > (size_t)n_params) {
    return crn_tmpl_fail(r, "%s takes at most %d arguments (%zu given)", what, n_params, args->n_positional);
  }
  for (size_t i = 0; i < args->n_positional; i++) argv[i] = args->positional[i];
  for (size_t i = 0; i < args->n_keywords; i++) {
    const tmpl_str *name = args->names[i];
    int at = find_param(params, name);
    if (positional_only || at < 0) return crn_tmpl_fail(r, "%s takes no keyword argument '%.*s'", what, (int)name->size, name->data);
    if (argv[at].type != TMPL_MISSING)
      return crn_tmpl_fail(r, "%s got multiple values for argument '%.*s'", what, (int)name->size, name->data);
    argv[at] = args->keywords[i];
  }
  for (int i = 0; i < n_required; i++) {
    if (argv[i].type == TMPL_MISSING) return crn_tmpl_fail(r, "%s is missing a required argument", what);
  }
  return CAIRN_OK;
}

// --- frames ------------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_frame_push(tmpl_render *r, tmpl_frame *parent, int n_slots, tmpl_frame **out_previous) {
  tmpl_frame *f = n_slots < TMPL_FREE_FRAMES ? r->free_frames[n_slots] : NULL;
  if (f) {
    r->free_frames[n_slots] = f->next_free;
    memset(f->slots, 0, (size_t)n_slots * sizeof *f->slots);
    f->captured = false;
  } else {
    CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *f + (size_t)n_slots * sizeof *f->slots, &f));
  }
  f->parent = parent;
  f->n_slots = n_slots;
  *out_previous = r->frame;
  r->frame = f;
  return CAIRN_OK;
}

void crn_tmpl_frame_pop(tmpl_render *r, tmpl_frame *previous) {
  tmpl_frame *f = r->frame;
  r->frame = previous;
  if (f->captured || f->n_slots >= TMPL_FREE_FRAMES) return;
  f->next_free = r->free_frames[f->n_slots];
  r->free_frames[f->n_slots] = f;
}

cairn_status crn_tmpl_deeper(tmpl_render *r) {
  if (++r->depth <= r->max_depth) return CAIRN_OK;
  return crn_tmpl_limit(r, "statements and calls are nested deeper than %d levels", r->max_depth);
}

// --- macros ------------------------------------------------------------------------------------------------------------------

typedef struct macro_call {
  const tmpl_function *fn;
  const tmpl_args *args;
  bool *used;  // which keyword arguments have found their parameter
} macro_call;

static const tmpl_value *take_keyword(const macro_call *c, const tmpl_str *name) {
  for (size_t i = 0; i < c->args->n_keywords; i++) {
    if (c->used[i] || !crn_tmpl_str_equal(c->args->names[i], name)) continue;
    c->used[i] = true;
    return &c->args->keywords[i];
  }
  return NULL;
}

static cairn_status bind_params(tmpl_render *r, const macro_call *c, bool *out_found_caller) {
  const tmpl_function *fn = c->fn;
  size_t n_params = (size_t)fn->params.size, given = c->args->n_positional < n_params ? c->args->n_positional : n_params;
  CRN_TRY(crn_tmpl_steps(r, n_params));
  *out_found_caller = given == n_params && fn->explicit_caller;
  for (size_t i = 0; i < n_params; i++) {
    const tmpl_str *name = fn->params.items[i]->name.name;
    tmpl_value *slot = &r->frame->slots[fn->param_slots[i]];
    if (i < given) {
      *slot = c->args->positional[i];
      continue;
    }
    const tmpl_value *v = take_keyword(c, name);
    *slot = v ? *v : tmpl_missing();
    if (crn_tmpl_str_is(name, "caller")) *out_found_caller = true;
  }
  return CAIRN_OK;
}

static cairn_status bind_caller(tmpl_render *r, const macro_call *c, bool found_caller) {
  if (c->fn->caller_slot < 0 || found_caller) return CAIRN_OK;
  tmpl_value *slot = &r->frame->slots[c->fn->caller_slot];
  tmpl_str name = {.data = "caller", .size = 6};
  const tmpl_value *caller = take_keyword(c, &name);
  if (caller && caller->type != TMPL_NONE) {
    *slot = *caller;
    return CAIRN_OK;
  }
  return crn_tmpl_undefined(r, "No caller defined", slot);
}

static cairn_status bind_kwargs(tmpl_render *r, const macro_call *c) {
  tmpl_dict *d = NULL;
  if (c->fn->kwargs_slot >= 0) {
    CRN_TRY(crn_tmpl_dict_make(r, &d));
    r->frame->slots[c->fn->kwargs_slot] = (tmpl_value){.type = TMPL_DICT, .dict = d};
  }
  for (size_t i = 0; i < c->args->n_keywords; i++) {
    if (c->used[i]) continue;
    const tmpl_str *name = c->args->names[i];
    if (!d) return crn_tmpl_fail(r, "macro takes no keyword argument '%.*s'", (int)name->size, name->data);
    CRN_TRY(crn_tmpl_dict_set(r, d, tmpl_string(name), c->args->keywords[i]));
  }
  return CAIRN_OK;
}

static cairn_status bind_varargs(tmpl_render *r, const macro_call *c) {
  size_t n_params = (size_t)c->fn->params.size, n = c->args->n_positional;
  size_t extra = n > n_params ? n - n_params : 0;
  if (c->fn->varargs_slot < 0) {
    return extra ? crn_tmpl_fail(r, "macro takes not more than %zu argument(s)", n_params) : CAIRN_OK;
  }
  const tmpl_value *from = extra ? c->args->positional + n_params : NULL;
  return crn_tmpl_list_copy(r, from, extra, TMPL_TUPLE, &r->frame->slots[c->fn->varargs_slot]);
}

static cairn_status fill_defaults(tmpl_render *r, const tmpl_function *fn) {
  int first = fn->params.size - fn->defaults.size;
  for (int i = 0; i < fn->params.size; i++) {
    if (r->frame->slots[fn->param_slots[i]].type != TMPL_MISSING) continue;
    tmpl_value v;
    if (i >= first) {
      CRN_TRY(crn_tmpl_eval(r, fn->defaults.items[i - first], &v));
    } else {
      const tmpl_str *name = fn->params.items[i]->name.name;
      tmpl_buffer b = {0};
      CRN_TRY(crn_tmpl_puts(r, &b, "parameter '"));
      CRN_TRY(crn_tmpl_put(r, &b, name->data, name->size));
      CRN_TRY(crn_tmpl_put(r, &b, "' was not provided", sizeof "' was not provided"));
      CRN_TRY(crn_tmpl_undefined(r, b.base, &v));
    }
    r->frame->slots[fn->param_slots[i]] = v;
  }
  return CAIRN_OK;
}

static cairn_status run_macro(tmpl_render *r, const tmpl_function *fn, const tmpl_args *args, tmpl_value *out) {
  macro_call c = {.fn = fn, .args = args};
  bool found_caller;
  if (args->n_keywords) CRN_TRY(crn_tmpl_alloc(r, args->n_keywords, sizeof *c.used, &c.used));
  CRN_TRY(bind_params(r, &c, &found_caller));
  CRN_TRY(bind_caller(r, &c, found_caller));
  CRN_TRY(bind_kwargs(r, &c));
  CRN_TRY(bind_varargs(r, &c));
  CRN_TRY(crn_tmpl_enter_scope(r, &fn->scope));
  CRN_TRY(fill_defaults(r, fn));
  return crn_tmpl_capture(r, &fn->body, out);
}

cairn_status crn_tmpl_call_macro(tmpl_render *r, const tmpl_macro *macro, const tmpl_args *args, tmpl_value *out) {
  tmpl_frame *previous;
  CRN_TRY(crn_tmpl_deeper(r));
  CRN_TRY(crn_tmpl_frame_push(r, macro->frame, macro->function->n_slots, &previous));
  CRN_TRY(run_macro(r, macro->function, args, out));
  crn_tmpl_frame_pop(r, previous);
  r->depth--;
  return CAIRN_OK;
}

// --- everything that can be called ----------------------------------------------------------------------------------------------

static cairn_status call_method(tmpl_render *r, const tmpl_method *method, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  const tmpl_method_def *def = method->def;
  if (def->params) {
    char what[64];
    snprintf(what, sizeof what, "%s()", def->name);
    CRN_TRY(crn_tmpl_bind(r, what, def->params, def->n_required, args, argv));
  }
  return def->fn(r, method->self, argv, args, out);
}

static cairn_status call_loop(tmpl_render *r, tmpl_loop *loop, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  CRN_TRY(crn_tmpl_bind(r, "loop()", "iterable", 1, args, argv));
  if (!loop->node) return crn_tmpl_fail(r, "the loop must have the 'recursive' marker to be called recursively");
  return crn_tmpl_run_recursive_loop(r, loop->node, loop->frame, argv[0], loop->depth0 + 1, out);
}

static cairn_status call_joiner(tmpl_render *r, tmpl_joiner *joiner, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  CRN_TRY(crn_tmpl_bind(r, "joiner()", "", 0, args, argv));
  if (joiner->used) {
    *out = joiner->separator;
    return CAIRN_OK;
  }
  joiner->used = true;
  return crn_tmpl_str_borrow(r, "", 0, out);
}

static cairn_status call_block(tmpl_render *r, tmpl_value v, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  tmpl_buffer text = {0}, *previous = r->out;
  if (!v.block) return crn_tmpl_fail(r, "'TemplateReference' object is not callable");
  CRN_TRY(crn_tmpl_bind(r, "block", "", 0, args, argv));
  r->out = &text;
  CRN_TRY(crn_tmpl_run_block(r, v.block));
  r->out = previous;
  return crn_tmpl_str_finish(r, &text, out);
}

cairn_status crn_tmpl_call(tmpl_render *r, tmpl_value callee, const tmpl_args *args, tmpl_value *out) {
  switch (callee.type) {
    case TMPL_MACRO:
      return crn_tmpl_call_macro(r, callee.macro, args, out);
    case TMPL_METHOD:
      return call_method(r, callee.method, args, out);
    case TMPL_FUNCTION:
      return callee.function->call(r, args, out);
    case TMPL_LOOP:
      return call_loop(r, callee.loop, args, out);
    case TMPL_JOINER:
      return call_joiner(r, callee.joiner, args, out);
    case TMPL_BLOCK:
      return call_block(r, callee, args, out);
    case TMPL_UNDEFINED:
      return crn_tmpl_undefined_fail(r, callee);
    default:
      return crn_tmpl_fail(r, "'%s' object is not callable", crn_tmpl_type_name(callee));
  }
}
