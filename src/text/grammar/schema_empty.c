// Why nothing satisfies a schema: which part of it leaves nothing. A rule without a text leads to the rule that is to blame as long as one
// alone is.
#include "text/grammar/schema.h"

enum { NONE = -1, SEVERAL = -2 };

typedef struct search {
  const crn_schema *s;
  const crn_rules *rules;
  const bool *can_end;
  bool *seen;     ///< by rule
  int32_t *list;  ///< rules without a schema of their own that are still to be looked into
  size_t n_list;
  int32_t found;  ///< the only rule of a schema, NONE, SEVERAL
} search;

static const crn_known_terms *known(const crn_schema *s, int32_t rule) {
  for (size_t i = 0; i < s->known.size; i++) {
    if (s->known.items[i].rule == rule) return &s->known.items[i];
  }
  return NULL;
}

static void look(search *x, const crn_node *node) {
  switch (node->kind) {
    case CRN_NODE_RULE:
      if (x->can_end[node->rule] || x->seen[node->rule]) return;
      x->seen[node->rule] = true;
      if (known(x->s, node->rule)) {
        x->found = x->found == NONE ? node->rule : SEVERAL;
      } else {
        x->list[x->n_list++] = node->rule;
      }
      return;
    case CRN_NODE_ALL:
      for (size_t i = 0; i < node->n; i++) {
        if (crn_node_can_end(x->can_end, node->items[i])) continue;
        look(x, node->items[i]);
        return;  // one is enough
      }
      return;
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) look(x, node->items[i]);
      return;
    case CRN_NODE_REPEAT:
      look(x, node->items[0]);
      return;
    default:
      return;
  }
}

// The rule of a schema that leaves `rule` without a text, when there is one alone; else NONE or SEVERAL.
static int32_t cause(search *x, int32_t rule) {
  x->found = NONE;
  x->n_list = 0;
  x->list[x->n_list++] = rule;
  while (x->n_list) {
    const crn_node *body = x->rules->bodies.items[x->list[--x->n_list]];
    if (body) look(x, body);
  }
  return x->found;
}

// The first of a rule's schemas that is one of the document; of several that all hold, the outermost.
static bool place_of(const crn_schema *s, int32_t rule, crn_str *out) {
  const crn_known_terms *k = known(s, rule);
  crn_str path;
  bool found = false;
  crn_str_initialize(&path, s->rules->allocator);
  for (size_t i = 0; k && i < k->n; i++) {
    crn_str_clear(&path);
    if (!crn_schema_find(s, k->terms[i].schema, &path) || (found && path.size >= out->size)) continue;
    crn_str_clear(out);
    found = crn_str_append(out, path.data ? path.data : "", path.size) == CAIRN_OK;
  }
  crn_str_deinitialize(&path);
  return found;
}

cairn_status crn_schema_find_empty(const crn_schema *s, const bool *can_end, int32_t rule, crn_str *out_place) {
  const size_t n = s->rules->bodies.size;
  search x = {.s = s, .rules = s->rules, .can_end = can_end};
  CRN_TRY(crn_arena_array(&s->rules->arena, n, sizeof *x.seen, &x.seen));
  CRN_TRY(crn_arena_array(&s->rules->arena, n + 1, sizeof *x.list, &x.list));
  crn_str_clear(out_place);
  for (; rule >= 0; rule = cause(&x, rule)) {
    x.seen[rule] = true;
    place_of(s, rule, out_place);
  }
  return CAIRN_OK;
}
