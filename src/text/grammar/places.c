// From nodes to places.
#include "text/grammar/places.h"

static int32_t add_place(crn_places *p, crn_place_node place) {
  if (p->failure) return 0;
  if (p->nodes.size >= p->most) {
    p->failure = "a pattern is too large to be combined with others or with lengths";
    return 0;
  }
  place.group = (int32_t)p->nodes.size;
  for (int i = 0; i < CRN_PLACE_RANKS; i++) place.rank[i] = p->ranks[i];
  cairn_status status = crn_vec_push(p->rules->allocator, &p->nodes, place);
  if (status != CAIRN_OK) {
    crn_rules_fail(p->rules, status);
    p->failure = "no memory";
    return 0;
  }
  return (int32_t)p->nodes.size - 1;
}

// Adds places from which a text of the node leads to `to`; gives the first.
static int32_t build(crn_places *p, const crn_node *node, int32_t to);

static int32_t build_text(crn_places *p, const crn_node *node, int32_t to) {
  for (const char *at = node->text + node->n; at > node->text && !p->failure;) {
    const char *end = at;
    uint32_t code;
    bool valid;
    do at--;
    while (at > node->text && ((unsigned char)*at & 0xC0) == 0x80);
    crn_utf8_decode(at, end, &code, &valid);
    to = add_place(p, (crn_place_node){.set = crn_set_one(p->rules, code, code), .next = to, .also = {-1, -1}});
  }
  return to;
}

// Rounds that may be left out. All of them have their places in the same order, so that those of one are found in another.
static int32_t build_rounds(crn_places *p, const crn_node *item, int64_t min, int64_t max, int32_t to) {
  const bool is_ranked = p->n_ranks < CRN_PLACE_RANKS;
  const int level = p->n_ranks;
  const int32_t end = to;
  size_t first = 0;
  if (is_ranked) p->n_ranks++;
  for (int64_t i = max - 1; i >= min && !p->failure; i--) {
    const size_t begin = p->nodes.size;
    if (is_ranked) p->ranks[level] = (uint16_t)i;
    const int32_t inside = build(p, item, to);
    if (i == max - 1) first = begin;
    for (size_t k = begin; k < p->nodes.size && is_ranked && !p->failure; k++) {
      p->nodes.items[k].group = p->nodes.items[first + (k - begin)].group;
    }
    to = add_place(p, (crn_place_node){.also = {inside, end}});
  }
  if (is_ranked) p->ranks[--p->n_ranks] = 0;
  return to;
}

static int32_t build_repeat(crn_places *p, const crn_node *node, int32_t to) {
  const crn_node *item = node->items[0];
  if (node->max < 0) {
    int32_t loop = add_place(p, (crn_place_node){.also = {to, -1}});
    int32_t inside = build(p, item, loop);
    if (!p->failure) p->nodes.items[loop].also[1] = inside;
    to = loop;
  } else {
    to = build_rounds(p, item, node->min, node->max, to);
  }
  for (int64_t i = 0; i < node->min && !p->failure; i++) to = build(p, item, to);
  return to;
}

static int32_t build_rule(crn_places *p, const crn_node *node, int32_t to) {
  const crn_node *body = p->rules->bodies.items[node->rule];
  if (!body || p->depth >= CRN_GRAMMAR_MAX_DEPTH) {
    p->failure = "a rule leads to itself";
    return 0;
  }
  p->depth++;
  to = build(p, body, to);
  p->depth--;
  return to;
}

static int32_t build(crn_places *p, const crn_node *node, int32_t to) {
  if (p->failure) return 0;
  switch (node->kind) {
    case CRN_NODE_SET:
      return add_place(p, (crn_place_node){.set = node->set, .next = to, .also = {-1, -1}});
    case CRN_NODE_TEXT:
      return build_text(p, node, to);
    case CRN_NODE_REPEAT:
      return build_repeat(p, node, to);
    case CRN_NODE_RULE:
      return build_rule(p, node, to);
    case CRN_NODE_ALL:
      for (size_t i = node->n; i-- > 0;) to = build(p, node->items[i], to);
      return to;
    case CRN_NODE_ANY: {
      int32_t first = add_place(p, (crn_place_node){.also = {-1, -1}});
      for (size_t i = 0; i < node->n && !p->failure; i++) {
        int32_t branch = build(p, node->items[i], to);
        first = add_place(p, (crn_place_node){.also = {branch, first}});
      }
      return first;
    }
    case CRN_NODE_NEVER:
      return add_place(p, (crn_place_node){.also = {-1, -1}});
    default:
      return to;
  }
}

void crn_places_build(crn_places *p, const crn_node *node) {
  p->end = add_place(p, (crn_place_node){.also = {-1, -1}});
  p->start = build(p, node, p->end);
}

void crn_places_free(crn_places *p) { crn_vec_free(p->rules->allocator, &p->nodes); }
