// Building rules.
#include "text/grammar/rules.h"

#include <string.h>

static const crn_node EMPTY = {.kind = CRN_NODE_EMPTY}, NEVER = {.kind = CRN_NODE_NEVER};

void crn_rules_initialize(crn_rules *r, const cairn_allocator *allocator) {
  *r = (crn_rules){.allocator = allocator};
  crn_arena_initialize(&r->arena, allocator);
}

void crn_rules_deinitialize(crn_rules *r) {
  crn_vec_free(r->allocator, &r->bodies);
  crn_vec_free(r->allocator, &r->automata);
  crn_arena_deinitialize(&r->arena);
}

bool crn_rules_failed(const crn_rules *r) { return r->status != CAIRN_OK; }

const crn_node *crn_rules_fail(crn_rules *r, cairn_status status) {
  if (r->status == CAIRN_OK) r->status = status;
  return &EMPTY;
}

int32_t crn_rule_new(crn_rules *r) {
  if (crn_rules_failed(r)) return 0;
  if (r->bodies.size >= CRN_GRAMMAR_MAX_RULES) {
    crn_rules_fail(r, CRN_FAIL(UNSUPPORTED, "the grammar needs more than %d rules", CRN_GRAMMAR_MAX_RULES));
    return 0;
  }
  cairn_status status = crn_vec_push(r->allocator, &r->bodies, NULL);
  if (status != CAIRN_OK) crn_rules_fail(r, status);
  return status == CAIRN_OK ? (int32_t)r->bodies.size - 1 : 0;
}

void crn_rule_set(crn_rules *r, int32_t rule, const crn_node *body) {
  if (!crn_rules_failed(r)) r->bodies.items[rule] = body;
}

// --- nodes ------------------------------------------------------------------------------------------------------------

const crn_node *crn_node_empty(void) { return &EMPTY; }
const crn_node *crn_node_never(void) { return &NEVER; }

static crn_node *make(crn_rules *r, crn_node_kind kind) {
  crn_node *node = NULL;
  if (crn_rules_failed(r)) return NULL;
  if (++r->n_nodes > CRN_GRAMMAR_MAX_NODES) {
    crn_rules_fail(r, CRN_FAIL(UNSUPPORTED, "the grammar has more than %d parts", CRN_GRAMMAR_MAX_NODES));
    return NULL;
  }
  cairn_status status = crn_arena_alloc(&r->arena, sizeof *node, &node);
  if (status != CAIRN_OK) {
    crn_rules_fail(r, status);
    return NULL;
  }
  node->kind = kind;
  return node;
}

const crn_node *crn_node_set(crn_rules *r, crn_set set) {
  if (!set.n) return crn_rules_failed(r) ? &EMPTY : &NEVER;
  crn_node *node = make(r, CRN_NODE_SET);
  if (!node) return &EMPTY;
  node->set = set;
  return node;
}

const crn_node *crn_node_text(crn_rules *r, const char *text, size_t bytes) {
  if (!bytes) return &EMPTY;
  crn_node *node = make(r, CRN_NODE_TEXT);
  if (!node) return &EMPTY;
  cairn_status status = crn_arena_strndup(&r->arena, text, bytes, &node->text);
  if (status != CAIRN_OK) return crn_rules_fail(r, status);
  node->n = bytes;
  return node;
}

const crn_node *crn_node_literal(crn_rules *r, const char *text) { return crn_node_text(r, text, strlen(text)); }

const crn_node *crn_node_rule(crn_rules *r, int32_t rule) {
  crn_node *node = make(r, CRN_NODE_RULE);
  if (!node) return &EMPTY;
  node->rule = rule;
  return node;
}

const crn_node *crn_node_automaton(crn_rules *r, int32_t number) {
  crn_node *node = make(r, CRN_NODE_AUTOMATON);
  if (!node) return &EMPTY;
  node->rule = number;
  return node;
}

const crn_node *crn_node_mark(crn_rules *r, crn_node_kind kind, size_t place) {
  crn_node *node = make(r, kind);
  if (!node) return &EMPTY;
  node->place = place;
  return node;
}

// Counts are at most CRN_GRAMMAR_MAX_REPEAT as they are read; what they become when they are joined is of the library's 32 bits.
static const int64_t MOST_JOINED = 1000000000;

// (x{a,b}){c,d} is x{ac,bd} where the numbers of x that k and k + 1 rounds give leave none out between: a matcher then does not have to
// try how they may be shared out. -1 is without end.
static bool joins(const crn_node *item, int64_t *min, int64_t *max) {
  if (item->kind != CRN_NODE_REPEAT) return false;
  const int64_t a = item->min, b = item->max, c = *min, d = *max;
  bool is_one = c == d, is_whole = b < 0 ? c > 0 || a <= 1 : a * (c + 1) <= b * c + 1;
  if (!is_one && !is_whole) return false;
  const int64_t least = a * c, most = b < 0 || d < 0 ? -1 : b * d;
  if (least > MOST_JOINED || most > MOST_JOINED) return false;
  *min = least;
  *max = most;
  return true;
}

const crn_node *crn_node_repeat(crn_rules *r, const crn_node *item, int64_t min, int64_t max) {
  if (max == 0 || item->kind == CRN_NODE_EMPTY) return &EMPTY;
  while (joins(item, &min, &max)) item = item->items[0];
  if (item->kind == CRN_NODE_NEVER) return min ? &NEVER : &EMPTY;
  if (min == 1 && max == 1) return item;
  crn_node *node = make(r, CRN_NODE_REPEAT);
  if (!node) return &EMPTY;
  cairn_status status = crn_arena_array(&r->arena, 1, sizeof *node->items, &node->items);
  if (status != CAIRN_OK) return crn_rules_fail(r, status);
  node->items[0] = item;
  node->n = 1;
  node->min = min;
  node->max = max;
  return node;
}

static const crn_node *list(crn_rules *r, crn_node_kind kind, const crn_node *const *items, size_t n, crn_node_kind dropped) {
  size_t kept = 0;
  const crn_node *last = NULL;
  for (size_t i = 0; i < n; i++) {
    if (items[i]->kind != dropped) last = items[i], kept++;
  }
  if (kept == 1) return last;
  crn_node *node = make(r, kind);
  if (!node) return &EMPTY;
  cairn_status status = crn_arena_array(&r->arena, kept, sizeof *node->items, &node->items);
  if (status != CAIRN_OK) return crn_rules_fail(r, status);
  for (size_t i = 0; i < n; i++) {
    if (items[i]->kind != dropped) node->items[node->n++] = items[i];
  }
  return node;
}

const crn_node *crn_node_all(crn_rules *r, const crn_node *const *items, size_t n) {
  bool is_empty = true;
  for (size_t i = 0; i < n; i++) {
    if (items[i]->kind == CRN_NODE_NEVER) return &NEVER;
    is_empty = is_empty && items[i]->kind == CRN_NODE_EMPTY;
  }
  return is_empty ? &EMPTY : list(r, CRN_NODE_ALL, items, n, CRN_NODE_EMPTY);
}

const crn_node *crn_node_any(crn_rules *r, const crn_node *const *items, size_t n) {
  bool is_never = true;
  for (size_t i = 0; i < n; i++) is_never = is_never && items[i]->kind == CRN_NODE_NEVER;
  return is_never ? &NEVER : list(r, CRN_NODE_ANY, items, n, CRN_NODE_NEVER);
}

void crn_nodes_add(crn_rules *r, crn_node_vec *v, const crn_node *node) {
  if (crn_rules_failed(r)) return;
  cairn_status status = crn_vec_push(r->allocator, v, node);
  if (status != CAIRN_OK) crn_rules_fail(r, status);
}

const crn_node *crn_nodes_all(crn_rules *r, crn_node_vec *v) {
  const crn_node *node = crn_rules_failed(r) ? &EMPTY : crn_node_all(r, v->items, v->size);
  crn_vec_free(r->allocator, v);
  return node;
}

const crn_node *crn_nodes_any(crn_rules *r, crn_node_vec *v) {
  const crn_node *node = crn_rules_failed(r) ? &EMPTY : crn_node_any(r, v->items, v->size);
  crn_vec_free(r->allocator, v);
  return node;
}
