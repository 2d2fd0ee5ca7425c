#include "text/template/scope.h"

cairn_status crn_tmpl_resolver_spend(tmpl_resolver *z, int line) {
  if (z->budget-- > 0) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "%s: line %d: the template is too complex", z->tree->what, line);
}

// --- tables ---------------------------------------------------------------------------------------------------------------

typedef struct index_key {
  const void *owner, *name;
  uintptr_t level;
} index_key;

tmpl_symbol *crn_tmpl_symbols_own(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name) {
  index_key key = {s, name, 0};
  uint64_t found;
  return crn_map_get(&z->index, (const char *)&key, sizeof key, &found) ? (tmpl_symbol *)(uintptr_t)found : NULL;
}

// The symbol of a name in a scope or, for a branch, in what it is a branch of.
static tmpl_symbol *find_local(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name) {
  for (; s; s = s->base) {
    tmpl_symbol *e = crn_tmpl_symbols_own(z, s, name);
    if (e) return e;
  }
  return NULL;
}

const tmpl_symbol *crn_tmpl_symbols_find(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name) {
  for (; s; s = s->parent) {
    tmpl_symbol *e = find_local(z, s, name);
    if (e) return e;
  }
  return NULL;
}

static cairn_status slot_of(tmpl_resolver *z, tmpl_frame_layout *owner, int level, const tmpl_str *name, int *out_slot) {
  index_key key = {owner, name, (uintptr_t)level + 1};
  uint64_t found;
  if (!crn_map_get(&z->index, (const char *)&key, sizeof key, &found)) {
    found = (uint64_t)owner->n_slots++;
    CRN_TRY(crn_map_set(&z->index, (const char *)&key, sizeof key, found));
  }
  *out_slot = (int)found;
  return CAIRN_OK;
}

static cairn_status add_symbol(tmpl_resolver *z, tmpl_symbols *s, tmpl_symbol value) {
  index_key key = {s, value.name, 0};
  tmpl_symbol *made;
  CRN_TRY(crn_arena_alloc(&z->scratch, sizeof *made, &made));
  *made = value;
  CRN_TRY(crn_map_set(&z->index, (const char *)&key, sizeof key, (uint64_t)(uintptr_t)made));
  return crn_vec_push(z->scratch.allocator, &s->entries, made);
}

static cairn_status define(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name, tmpl_origin origin, tmpl_variable outside,
                           bool stored) {
  tmpl_symbol value = {.name = name, .variable = {.owner = s->owner}, .origin = origin, .outside = outside, .stored = stored};
  CRN_TRY(slot_of(z, s->owner, s->level, name, &value.variable.slot));
  tmpl_symbol *own = crn_tmpl_symbols_own(z, s, name);
  if (!own) return add_symbol(z, s, value);
  value.stored = stored || own->stored;
  *own = value;
  return CAIRN_OK;
}

cairn_status crn_tmpl_symbols_make(tmpl_resolver *z, tmpl_symbols *parent, tmpl_symbols *base, tmpl_frame_layout *owner,
                                   tmpl_symbols **out) {
  CRN_TRY(crn_arena_alloc(&z->scratch, sizeof **out, out));
  **out = (tmpl_symbols){.parent = parent, .base = base, .owner = owner, .level = base ? base->level : parent ? parent->level + 1 : 0};
  return crn_vec_push(z->scratch.allocator, &z->all, *out);
}

// --- analysis ---------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_symbols_declare(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name) {
  return define(z, s, name, TMPL_FROM_CALLER, (tmpl_variable){0}, true);
}

cairn_status crn_tmpl_symbols_declare_targets(tmpl_resolver *z, tmpl_symbols *s, const tmpl_node *target) {
  if (target->kind == TMPL_N_NAME) return crn_tmpl_symbols_declare(z, s, target->name.name);
  for (int i = 0; i < target->list.nodes.size; i++) CRN_TRY(crn_tmpl_symbols_declare_targets(z, s, target->list.nodes.items[i]));
  return CAIRN_OK;
}

cairn_status crn_tmpl_symbols_read(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name) {
  if (crn_tmpl_symbols_find(z, s, name)) return CAIRN_OK;
  return define(z, s, name, TMPL_FROM_CONTEXT, (tmpl_variable){0}, false);
}

static cairn_status note_write(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name) {
  const tmpl_symbol *known = find_local(z, s, name);
  if (known) return define(z, s, name, known->origin, known->outside, true);
  const tmpl_symbol *outer = s->parent ? crn_tmpl_symbols_find(z, s->parent, name) : NULL;
  if (outer) return define(z, s, name, TMPL_FROM_OUTSIDE, outer->variable, true);
  return define(z, s, name, TMPL_FROM_NOTHING, (tmpl_variable){0}, true);
}

static bool is_stored(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name) {
  const tmpl_symbol *e = find_local(z, s, name);
  return e && e->stored;
}

// Takes over what `from` noted.
static cairn_status merge(tmpl_resolver *z, tmpl_symbols *s, const tmpl_symbols *from, int line) {
  for (size_t i = 0; i < from->entries.size; i++) {
    const tmpl_symbol *e = from->entries.items[i];
    CRN_TRY(crn_tmpl_resolver_spend(z, line));
    CRN_TRY(define(z, s, e->name, e->origin, e->outside, e->stored || is_stored(z, s, e->name)));
  }
  return CAIRN_OK;
}

// Names that only a branch writes start with the value they have without it.
static cairn_status keep_old_values(tmpl_resolver *z, tmpl_symbols *s, const tmpl_symbols *branch, const tmpl_symbols *before, int line) {
  for (size_t i = 0; i < branch->entries.size; i++) {
    const tmpl_str *name = branch->entries.items[i]->name;
    CRN_TRY(crn_tmpl_resolver_spend(z, line));
    if (!branch->entries.items[i]->stored || is_stored(z, before, name)) continue;
    const tmpl_symbol *outer = s->parent ? crn_tmpl_symbols_find(z, s->parent, name) : NULL;
    tmpl_variable outside = outer ? outer->variable : (tmpl_variable){0};
    CRN_TRY(define(z, s, name, outer ? TMPL_FROM_OUTSIDE : TMPL_FROM_CONTEXT, outside, true));
  }
  return CAIRN_OK;
}

static cairn_status analyse_if(tmpl_resolver *z, tmpl_symbols *s, tmpl_node *node) {
  const tmpl_if *branch = node->branch;
  CRN_TRY(crn_tmpl_symbols_analyse(z, s, branch->test));
  const tmpl_nodes *bodies[] = {&branch->body, &branch->elifs, &branch->otherwise};
  tmpl_symbols *parts[3], *after;
  for (int i = 0; i < 3; i++) {
    CRN_TRY(crn_tmpl_symbols_make(z, s->parent, s, s->owner, &parts[i]));
    CRN_TRY(crn_tmpl_symbols_analyse_all(z, parts[i], bodies[i]));
  }
  // The branches are merged apart, because what `s` knew before decides which names are new.
  CRN_TRY(crn_tmpl_symbols_make(z, s->parent, s, s->owner, &after));
  for (int i = 0; i < 3; i++) CRN_TRY(merge(z, after, parts[i], node->line));
  for (int i = 0; i < 3; i++) CRN_TRY(keep_old_values(z, after, parts[i], s, node->line));
  return merge(z, s, after, node->line);
}

typedef struct analysis {
  tmpl_resolver *resolver;
  tmpl_symbols *symbols;
} analysis;

static cairn_status analyse_child(void *self, tmpl_node *child) {
  const analysis *a = self;
  return crn_tmpl_symbols_analyse(a->resolver, a->symbols, child);
}

cairn_status crn_tmpl_symbols_analyse_all(tmpl_resolver *z, tmpl_symbols *s, const tmpl_nodes *nodes) {
  for (int i = 0; i < nodes->size; i++) CRN_TRY(crn_tmpl_symbols_analyse(z, s, nodes->items[i]));
  return CAIRN_OK;
}

cairn_status crn_tmpl_symbols_analyse(tmpl_resolver *z, tmpl_symbols *s, tmpl_node *node) {
  if (!node) return CAIRN_OK;
  CRN_TRY(crn_tmpl_resolver_spend(z, node->line));
  switch (node->kind) {
    case TMPL_N_NAME:
      if (node->name.param) return crn_tmpl_symbols_declare(z, s, node->name.name);
      return node->name.store ? note_write(z, s, node->name.name) : crn_tmpl_symbols_read(z, s, node->name.name);
    case TMPL_N_NAMESPACE_REF:
      return crn_tmpl_symbols_read(z, s, node->attribute.object->name.name);
    case TMPL_N_OUTPUT:
      return crn_tmpl_symbols_analyse_all(z, s, &node->list.nodes);
    case TMPL_N_FOR:
      return crn_tmpl_symbols_analyse(z, s, node->loop->iterable);
    case TMPL_N_IF:
      return analyse_if(z, s, node);
    case TMPL_N_SET:
      CRN_TRY(crn_tmpl_symbols_analyse(z, s, node->set.value));
      return crn_tmpl_symbols_analyse(z, s, node->set.target);
    case TMPL_N_SET_BLOCK:
      return crn_tmpl_symbols_analyse(z, s, node->set.target);
    case TMPL_N_MACRO:
      return note_write(z, s, node->macro.function->name);
    case TMPL_N_CALL_BLOCK:
      return crn_tmpl_symbols_analyse(z, s, node->macro.call);
    case TMPL_N_FILTER_BLOCK:
      return crn_tmpl_symbols_analyse(z, s, node->filter_block.filter);
    case TMPL_N_WITH:
      return crn_tmpl_symbols_analyse_all(z, s, &node->with.values);
    default: {
      analysis a = {z, s};
      return crn_tmpl_expression_children(node, analyse_child, &a);
    }
  }
}
