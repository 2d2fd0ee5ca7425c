#include "text/template/scope.h"

#include <string.h>

#include "text/template/filters.h"
#include "text/template/tests.h"

// Where a node stands.
typedef struct place {
  tmpl_resolver *resolver;
  tmpl_symbols *scope;
  tmpl_frame_layout *owner;
  bool top_level;
  bool in_loop;  // break and continue are allowed
  bool soft;     // unknown filters and tests may stay, since they may never run
} place;

enum { RESOLVE_BUDGET = 50 * 1000 * 1000 };

static cairn_status resolve(place *at, tmpl_node *node);

static cairn_status resolve_all(place *at, const tmpl_nodes *nodes) {
  for (int i = 0; i < nodes->size; i++) CRN_TRY(resolve(at, nodes->items[i]));
  return CAIRN_OK;
}

static tmpl_ref ref_from(const tmpl_frame_layout *here, tmpl_variable v) {
  tmpl_ref ref = {.slot = v.slot};
  for (; here && here != v.owner; here = here->parent) ref.hops++;
  return ref;
}

static cairn_status resolve_name(place *at, const tmpl_str *name, tmpl_ref *out) {
  const tmpl_symbol *e = crn_tmpl_symbols_find(at->resolver, at->scope, name);
  if (!e) return CRN_FAIL(INTERNAL, "%s: '%.*s' was not analysed", at->resolver->tree->what, (int)name->size, name->data);
  *out = ref_from(at->owner, e->variable);
  return CAIRN_OK;
}

static cairn_status make_layout(place *at, tmpl_frame_layout *parent, tmpl_frame_layout **out) {
  CRN_TRY(crn_arena_alloc(&at->resolver->scratch, sizeof **out, out));
  (*out)->parent = parent;
  return CAIRN_OK;
}

static cairn_status make_scope(place *at, tmpl_frame_layout *owner, tmpl_symbols **out) {
  return crn_tmpl_symbols_make(at->resolver, at->scope, NULL, owner, out);
}

// What entering and leaving the scope does to its slots.
static cairn_status finish_scope(place *at, const tmpl_symbols *s, tmpl_scope *out) {
  size_t n = s->entries.size;
  crn_arena *arena = at->resolver->tree->arena;
  *out = (tmpl_scope){0};
  if (!n) return CAIRN_OK;
  CRN_TRY(crn_arena_array(arena, n, sizeof *out->loads, &out->loads));
  CRN_TRY(crn_arena_array(arena, n, sizeof *out->slots, &out->slots));
  for (size_t i = 0; i < n; i++) {
    const tmpl_symbol *e = s->entries.items[i];
    out->slots[out->n_slots++] = e->variable.slot;
    if (e->origin == TMPL_FROM_CALLER) continue;
    tmpl_load *load = &out->loads[out->n_loads++];
    *load = (tmpl_load){.slot = e->variable.slot, .name = e->name, .kind = TMPL_LOAD_UNDEFINED};
    if (e->origin == TMPL_FROM_CONTEXT) load->kind = TMPL_LOAD_RESOLVE;
    if (e->origin == TMPL_FROM_OUTSIDE) {
      load->kind = TMPL_LOAD_ALIAS;
      load->from = ref_from(s->owner, e->outside);
    }
  }
  return CAIRN_OK;
}

// The place inside of a scope that was just analysed.
static place inside(const place *at, tmpl_symbols *scope, tmpl_frame_layout *owner) {
  return (place){.resolver = at->resolver, .scope = scope, .owner = owner, .in_loop = owner == at->owner && at->in_loop};
}

// --- loops ----------------------------------------------------------------------------------------------------------------

static cairn_status resolve_loop_test(place *at, tmpl_for *loop) {
  if (!loop->test) return CAIRN_OK;
  tmpl_frame_layout *f;
  tmpl_symbols *s;
  CRN_TRY(make_layout(at, at->owner, &f));
  CRN_TRY(make_scope(at, f, &s));
  CRN_TRY(crn_tmpl_symbols_declare_targets(at->resolver, s, loop->test_target));
  CRN_TRY(crn_tmpl_symbols_analyse(at->resolver, s, loop->test));
  CRN_TRY(finish_scope(at, s, &loop->test_scope));
  place in = inside(at, s, f);
  CRN_TRY(resolve(&in, loop->test_target));
  CRN_TRY(resolve(&in, loop->test));
  loop->n_test_slots = f->n_slots;
  return CAIRN_OK;
}

static cairn_status check_loop_name(place *at, tmpl_node *node) {
  tmpl_resolver *z = at->resolver;
  tmpl_search body = {.resolver = z, .names = {z->tree->special.loop}}, whole = {.resolver = z, .into_blocks = true};
  CRN_TRY(crn_tmpl_search_all(&body, &node->loop->body));
  CRN_TRY(crn_tmpl_search(&whole, node));
  if (whole.writes_loop) return CRN_FAIL(CORRUPT, "%s: line %d: cannot assign to the special variable 'loop'", z->tree->what, node->line);
  node->loop->needs_loop = node->loop->recursive || body.found[0] || whole.has_scoped_block;
  return CAIRN_OK;
}

static cairn_status resolve_for(place *at, tmpl_node *node) {
  tmpl_resolver *z = at->resolver;
  tmpl_for *loop = node->loop;
  tmpl_frame_layout *f = at->owner;
  tmpl_symbols *body, *otherwise;
  CRN_TRY(check_loop_name(at, node));
  if (loop->recursive) CRN_TRY(make_layout(at, at->owner, &f));
  CRN_TRY(make_scope(at, f, &body));
  CRN_TRY(make_scope(at, f, &otherwise));
  if (loop->needs_loop) {
    CRN_TRY(crn_tmpl_symbols_declare(z, body, z->tree->special.loop));
    loop->loop_slot = crn_tmpl_symbols_own(z, body, z->tree->special.loop)->variable.slot;
  }
  CRN_TRY(crn_tmpl_symbols_declare_targets(z, body, loop->target));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, body, &loop->body));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, otherwise, &loop->otherwise));
  CRN_TRY(finish_scope(at, body, &loop->body_scope));
  CRN_TRY(finish_scope(at, otherwise, &loop->else_scope));
  CRN_TRY(resolve_loop_test(at, loop));
  CRN_TRY(resolve(at, loop->iterable));
  place in = inside(at, body, f);
  in.in_loop = true;
  CRN_TRY(resolve(&in, loop->target));
  CRN_TRY(resolve_all(&in, &loop->body));
  in = inside(at, otherwise, f);
  CRN_TRY(resolve_all(&in, &loop->otherwise));
  loop->n_slots = f->n_slots;
  return CAIRN_OK;
}

// --- macros -----------------------------------------------------------------------------------------------------------------

// `caller`, `kwargs` and `varargs` exist in a macro when its body reads them.
static cairn_status declare_special(place *at, tmpl_symbols *s, const tmpl_str *name, bool used, int *out_slot) {
  if (!used) return CAIRN_OK;
  CRN_TRY(crn_tmpl_symbols_declare(at->resolver, s, name));
  *out_slot = crn_tmpl_symbols_own(at->resolver, s, name)->variable.slot;
  return CAIRN_OK;
}

static cairn_status declare_specials(place *at, tmpl_function *fn, tmpl_symbols *s, int line) {
  const tmpl_special_names *special = &at->resolver->tree->special;
  tmpl_search q = {.resolver = at->resolver, .names = {special->caller, special->kwargs, special->varargs}};
  CRN_TRY(crn_tmpl_search_all(&q, &fn->body));
  for (int i = 0; i < fn->params.size; i++) {
    const tmpl_str *name = fn->params.items[i]->name.name;
    bool has_default = i >= fn->params.size - fn->defaults.size;
    if (name == special->caller) fn->explicit_caller = true;
    if (name == special->caller && q.found[0] && !has_default) {
      return CRN_FAIL(CORRUPT, "%s: line %d: the special argument 'caller' needs a default or must be left out", at->resolver->tree->what,
                      line);
    }
    for (int k = 0; k < TMPL_MAX_SOUGHT; k++) q.found[k] = q.found[k] && name != q.names[k];
  }
  CRN_TRY(declare_special(at, s, special->caller, q.found[0], &fn->caller_slot));
  CRN_TRY(declare_special(at, s, special->kwargs, q.found[1], &fn->kwargs_slot));
  return declare_special(at, s, special->varargs, q.found[2], &fn->varargs_slot);
}

static cairn_status resolve_function(place *at, tmpl_function *fn, int line) {
  tmpl_resolver *z = at->resolver;
  tmpl_frame_layout *f;
  tmpl_symbols *s;
  CRN_TRY(make_layout(at, at->owner, &f));
  CRN_TRY(make_scope(at, f, &s));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, s, &fn->params));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, s, &fn->defaults));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, s, &fn->body));
  CRN_TRY(declare_specials(at, fn, s, line));
  CRN_TRY(crn_arena_array(z->tree->arena, (size_t)fn->params.size, sizeof(int), &fn->param_slots));
  for (int i = 0; i < fn->params.size; i++) {
    fn->param_slots[i] = crn_tmpl_symbols_own(z, s, fn->params.items[i]->name.name)->variable.slot;
  }
  CRN_TRY(finish_scope(at, s, &fn->scope));
  place in = inside(at, s, f);
  CRN_TRY(resolve_all(&in, &fn->defaults));
  CRN_TRY(resolve_all(&in, &fn->body));
  fn->n_slots = f->n_slots;
  return CAIRN_OK;
}

static cairn_status resolve_macro(place *at, tmpl_node *node) {
  CRN_TRY(resolve_function(at, node->macro.function, node->line));
  if (node->kind == TMPL_N_CALL_BLOCK) return resolve(at, node->macro.call);
  node->macro.top_level = at->top_level;
  return resolve_name(at, node->macro.function->name, &node->macro.ref);
}

// --- other statements -----------------------------------------------------------------------------------------------------------

static cairn_status resolve_if(place *at, const tmpl_if *branch) {
  place in = *at;
  in.soft = true;
  CRN_TRY(resolve(&in, branch->test));
  CRN_TRY(resolve_all(&in, &branch->body));
  CRN_TRY(resolve_all(&in, &branch->elifs));
  return resolve_all(&in, &branch->otherwise);
}

// Jinja's own compiler fails on names that only the filter of a set block uses; here they are simply analysed too.
static cairn_status resolve_set(place *at, tmpl_node *node) {
  node->set.top_level = at->top_level;
  if (node->kind == TMPL_N_SET_BLOCK) {
    tmpl_symbols *s;
    CRN_TRY(make_scope(at, at->owner, &s));
    CRN_TRY(crn_tmpl_symbols_analyse_all(at->resolver, s, &node->set.body));
    CRN_TRY(crn_tmpl_symbols_analyse(at->resolver, s, node->set.filter));
    CRN_TRY(finish_scope(at, s, &node->set.scope));
    place in = inside(at, s, at->owner);
    CRN_TRY(resolve_all(&in, &node->set.body));
    CRN_TRY(resolve(&in, node->set.filter));
  }
  CRN_TRY(resolve(at, node->set.value));
  return resolve(at, node->set.target);
}

static cairn_status resolve_filter_block(place *at, tmpl_node *node) {
  tmpl_symbols *s;
  CRN_TRY(make_scope(at, at->owner, &s));
  CRN_TRY(crn_tmpl_symbols_analyse_all(at->resolver, s, &node->filter_block.body));
  CRN_TRY(crn_tmpl_symbols_analyse(at->resolver, s, node->filter_block.filter));
  CRN_TRY(finish_scope(at, s, &node->filter_block.scope));
  place in = inside(at, s, at->owner);
  CRN_TRY(resolve_all(&in, &node->filter_block.body));
  return resolve(&in, node->filter_block.filter);
}

static cairn_status resolve_with(place *at, tmpl_node *node) {
  tmpl_symbols *s;
  CRN_TRY(make_scope(at, at->owner, &s));
  CRN_TRY(crn_tmpl_symbols_analyse_all(at->resolver, s, &node->with.targets));
  CRN_TRY(crn_tmpl_symbols_analyse_all(at->resolver, s, &node->with.body));
  CRN_TRY(finish_scope(at, s, &node->with.scope));
  CRN_TRY(resolve_all(at, &node->with.values));
  place in = inside(at, s, at->owner);
  CRN_TRY(resolve_all(&in, &node->with.targets));
  return resolve_all(&in, &node->with.body);
}

// A scoped block sees the variables that are written around it.
static cairn_status note_visible(place *at, tmpl_block *block) {
  if (!block->scoped) return CAIRN_OK;
  crn_arena *arena = at->resolver->tree->arena;
  size_t n = 0;
  for (const tmpl_symbols *s = at->scope; s; s = s->parent) n += s->entries.size;
  CRN_TRY(crn_arena_array(arena, n, sizeof *block->visible, &block->visible));
  CRN_TRY(crn_arena_array(arena, n, sizeof *block->visible_names, &block->visible_names));
  // From the outside inwards, so that inner variables win.
  for (int level = 0; level <= at->scope->level; level++) {
    const tmpl_symbols *s = at->scope;
    while (s->level != level) s = s->parent;
    for (size_t i = 0; i < s->entries.size; i++) {
      const tmpl_symbol *e = s->entries.items[i];
      CRN_TRY(crn_tmpl_resolver_spend(at->resolver, 1));
      if (!e->stored) continue;
      block->visible[block->n_visible] = ref_from(at->owner, e->variable);
      block->visible_names[block->n_visible++] = e->name;
    }
  }
  return CAIRN_OK;
}

static cairn_status refuse_loop_control(const place *at, const tmpl_node *node) {
  if (at->in_loop) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: line %d: '%s' outside of a loop", at->resolver->tree->what, node->line,
                  node->kind == TMPL_N_BREAK ? "break" : "continue");
}

// --- expressions -----------------------------------------------------------------------------------------------------------------

static cairn_status resolve_child(void *self, tmpl_node *child) { return resolve(self, child); }

static cairn_status resolve_apply(place *at, tmpl_node *node) {
  const tmpl_str *name = node->apply.name;
  bool is_filter = node->kind == TMPL_N_FILTER;
  if (is_filter)
    node->apply.filter = crn_tmpl_filter_find(name);
  else
    node->apply.test = crn_tmpl_test_find(name);
  if (!at->soft && !node->apply.filter && !node->apply.test) {
    return CRN_FAIL(CORRUPT, "%s: line %d: no %s named '%.*s'", at->resolver->tree->what, node->line, is_filter ? "filter" : "test",
                    (int)name->size, name->data);
  }
  return crn_tmpl_expression_children(node, resolve_child, at);
}

static cairn_status resolve(place *at, tmpl_node *node) {
  if (!node) return CAIRN_OK;
  CRN_TRY(crn_tmpl_resolver_spend(at->resolver, node->line));
  switch (node->kind) {
    case TMPL_N_NAME:
      return resolve_name(at, node->name.name, &node->name.ref);
    case TMPL_N_NAMESPACE_REF:
      return resolve_name(at, node->attribute.object->name.name, &node->attribute.ref);
    case TMPL_N_FILTER:
    case TMPL_N_TEST:
      return resolve_apply(at, node);
    case TMPL_N_CONDITION: {
      place in = *at;
      in.soft = true;
      return crn_tmpl_expression_children(node, resolve_child, &in);
    }
    case TMPL_N_OUTPUT:
      return resolve_all(at, &node->list.nodes);
    case TMPL_N_FOR:
      return resolve_for(at, node);
    case TMPL_N_IF:
      return resolve_if(at, node->branch);
    case TMPL_N_SET:
    case TMPL_N_SET_BLOCK:
      return resolve_set(at, node);
    case TMPL_N_MACRO:
    case TMPL_N_CALL_BLOCK:
      return resolve_macro(at, node);
    case TMPL_N_FILTER_BLOCK:
      return resolve_filter_block(at, node);
    case TMPL_N_WITH:
    case TMPL_N_SCOPE:
      return resolve_with(at, node);
    case TMPL_N_BLOCK:
      return note_visible(at, node->block);
    case TMPL_N_BREAK:
    case TMPL_N_CONTINUE:
      return refuse_loop_control(at, node);
    default:
      return crn_tmpl_expression_children(node, resolve_child, at);
  }
}

// --- the template ----------------------------------------------------------------------------------------------------------------

static cairn_status declare_used(place *at, tmpl_symbols *s, const tmpl_nodes *body, const tmpl_str *name, int *out_slot) {
  tmpl_search q = {.resolver = at->resolver, .names = {name}};
  CRN_TRY(crn_tmpl_search_all(&q, body));
  return declare_special(at, s, name, q.found[0], out_slot);
}

static cairn_status resolve_root(tmpl_resolver *z) {
  tmpl_tree *tree = z->tree;
  place at = {.resolver = z, .top_level = true};
  CRN_TRY(make_layout(&at, NULL, &at.owner));
  CRN_TRY(make_scope(&at, at.owner, &at.scope));
  tree->self_slot = -1;
  CRN_TRY(declare_used(&at, at.scope, &tree->body, tree->special.self, &tree->self_slot));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, at.scope, &tree->body));
  CRN_TRY(finish_scope(&at, at.scope, &tree->scope));
  CRN_TRY(resolve_all(&at, &tree->body));
  tree->n_slots = at.owner->n_slots;
  return CAIRN_OK;
}

static cairn_status resolve_block(tmpl_resolver *z, tmpl_block *block) {
  place at = {.resolver = z};
  CRN_TRY(make_layout(&at, NULL, &at.owner));
  CRN_TRY(make_scope(&at, at.owner, &at.scope));
  CRN_TRY(declare_used(&at, at.scope, &block->body, z->tree->special.self, &block->self_slot));
  CRN_TRY(declare_used(&at, at.scope, &block->body, z->tree->special.super, &block->super_slot));
  CRN_TRY(crn_tmpl_symbols_analyse_all(z, at.scope, &block->body));
  CRN_TRY(finish_scope(&at, at.scope, &block->scope));
  CRN_TRY(resolve_all(&at, &block->body));
  block->n_slots = at.owner->n_slots;
  return CAIRN_OK;
}

cairn_status crn_tmpl_resolve(tmpl_tree *tree) {
  tmpl_resolver z = {.tree = tree, .budget = RESOLVE_BUDGET};
  crn_arena_initialize(&z.scratch, tree->arena->allocator);
  crn_map_initialize(&z.index, tree->arena->allocator);
  cairn_status status = resolve_root(&z);
  for (int i = 0; status == CAIRN_OK && i < tree->n_blocks; i++) status = resolve_block(&z, tree->blocks[i]);
  for (size_t i = 0; i < z.all.size; i++) crn_vec_free(z.scratch.allocator, &z.all.items[i]->entries);
  crn_vec_free(z.scratch.allocator, &z.all);
  crn_map_deinitialize(&z.index);
  crn_arena_deinitialize(&z.scratch);
  return status;
}
