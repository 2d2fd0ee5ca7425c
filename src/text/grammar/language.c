// Texts that are in several languages and not in others. A single pattern is used as it stands. Where that does not do, the patterns
// become automata over characters, which are walked together; the walk is written as rules, one for each state.
#include <string.h>

#include "base/map.h"
#include "text/grammar/automaton.h"
#include "text/grammar/places.h"
#include "text/grammar/readers.h"
#include "text/grammar/schema.h"

enum { MAX_PLACES = 4000, MAX_STATES = 3000, MAX_CLASSES = 400, MAX_LANGUAGES = 24, LONG = 256, SHORT = 32, MAX_STEPS = 1 << 21 };

static const char TOO_LARGE[] = "patterns, lengths and exceptions together are too large";

// --- lengths ------------------------------------------------------------------------------------------------------------------

static size_t characters(const char *text, size_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
  return n;
}

void crn_language_lengths(const crn_node *node, int64_t *min, int64_t *max) {
  int64_t a, b;
  *min = *max = 0;
  switch (node->kind) {
    case CRN_NODE_SET:
      *min = *max = 1;
      return;
    case CRN_NODE_TEXT:
      *min = *max = (int64_t)characters(node->text, node->n);
      return;
    case CRN_NODE_ALL:
      for (size_t i = 0; i < node->n; i++) {
        crn_language_lengths(node->items[i], &a, &b);
        *min += a;
        *max = b < 0 || *max < 0 ? -1 : *max + b;
      }
      return;
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) {
        crn_language_lengths(node->items[i], &a, &b);
        if (!i || a < *min) *min = a;
        *max = i && (b < 0 || *max < 0) ? -1 : !i || b > *max ? b : *max;
      }
      return;
    case CRN_NODE_REPEAT:
      crn_language_lengths(node->items[0], &a, &b);
      *min = a * node->min;
      *max = b == 0 ? 0 : b < 0 || node->max < 0 ? -1 : b * node->max;
      return;
    default:
      return;
  }
}

// --- several automata at once ------------------------------------------------------------------------------------------------------

typedef struct language {
  crn_places places;
  bool is_without;
} language;

typedef struct walk {
  crn_rules *rules;
  language languages[MAX_LANGUAGES];
  size_t n_languages;
  crn_range classes[MAX_CLASSES];  ///< characters that no language tells apart
  size_t n_classes;
  size_t n_words;  ///< of a state: a bit for each place of each language, and the length
  int64_t min, max;
  CRN_VEC(uint64_t *) states;
  crn_map numbers;  ///< of the states
  const char *failure;
} walk;

// --- characters that are not told apart -------------------------------------------------------------------------------------------

static void cut(walk *w, uint32_t at) {
  for (size_t i = 0; i < w->n_classes; i++) {
    crn_range *c = &w->classes[i];
    if (at <= c->first || at > c->last) continue;
    if (w->n_classes == MAX_CLASSES) {
      w->failure = "patterns tell too many kinds of characters apart to be combined";
      return;
    }
    memmove(c + 1, c, (w->n_classes - i) * sizeof *c);
    w->n_classes++;
    c[0].last = at - 1;
    c[1].first = at;
    return;
  }
}

static void find_classes(walk *w) {
  w->n_classes = crn_set_all.n;
  memcpy(w->classes, crn_set_all.ranges, crn_set_all.n * sizeof *w->classes);
  for (size_t i = 0; i < w->n_languages; i++) {
    const language *l = &w->languages[i];
    for (size_t k = 0; k < l->places.nodes.size && !w->failure; k++) {
      crn_set set = l->places.nodes.items[k].set;
      for (size_t j = 0; j < set.n; j++) {
        cut(w, set.ranges[j].first);
        if (set.ranges[j].last < CRN_MAX_CODE) cut(w, set.ranges[j].last + 1);
      }
    }
  }
}

// --- walking ----------------------------------------------------------------------------------------------------------------------

static bool has(const uint64_t *bits, int32_t i) { return bits[i / 64] >> i % 64 & 1; }

static void enter(const language *l, uint64_t *bits, int32_t at) {
  while (at >= 0 && !has(bits, at)) {
    bits[at / 64] |= 1ull << at % 64;
    enter(l, bits, l->places.nodes.items[at].also[0]);
    at = l->places.nodes.items[at].also[1];
  }
}

static size_t words_of(const language *l) { return (l->places.nodes.size + 63) / 64; }

static uint64_t *new_state(walk *w) {
  uint64_t *state = NULL;
  cairn_status status = crn_arena_array(&w->rules->arena, w->n_words, sizeof *state, &state);
  if (status != CAIRN_OK) crn_rules_fail(w->rules, status);
  return status == CAIRN_OK ? state : NULL;
}

// The number of a state, which is added when it is new; -1 when no text of it can be one.
static int32_t number_of(walk *w, uint64_t *state) {
  uint64_t number;
  if (crn_map_get(&w->numbers, (const char *)state, w->n_words * sizeof *state, &number)) return (int32_t)number;
  if (w->states.size >= MAX_STATES) {
    w->failure = TOO_LARGE;
    return -1;
  }
  cairn_status status = crn_map_set(&w->numbers, (const char *)state, w->n_words * sizeof *state, w->states.size);
  if (status == CAIRN_OK) status = crn_vec_push(w->rules->allocator, &w->states, state);
  if (status != CAIRN_OK) crn_rules_fail(w->rules, status);
  return status == CAIRN_OK ? (int32_t)w->states.size - 1 : -1;
}

// The length is kept in the last word as far as it matters.
static bool step(walk *w, const uint64_t *from, uint32_t code, uint64_t *to) {
  const uint64_t *in = from;
  uint64_t *out = to;
  uint64_t length = from[w->n_words - 1];
  if (w->max >= 0 && length >= (uint64_t)w->max) return false;
  uint64_t cap = (uint64_t)(w->max >= 0 ? w->max : w->min);
  for (size_t i = 0; i < w->n_languages; i++) {
    const language *l = &w->languages[i];
    bool is_alive = false;
    for (size_t k = 0; k < words_of(l); k++) {
      for (uint64_t left = in[k]; left; left &= left - 1) {
        const crn_place_node *p = &l->places.nodes.items[k * 64 + (size_t)__builtin_ctzll(left)];
        if (!p->set.n || !crn_set_has(p->set, code)) continue;
        enter(l, out, p->next);
        is_alive = true;
      }
    }
    if (!is_alive && !l->is_without) return false;
    in += words_of(l);
    out += words_of(l);
  }
  *out = length < cap ? length + 1 : cap;
  return true;
}

static bool is_final(const walk *w, const uint64_t *state) {
  if (state[w->n_words - 1] < (uint64_t)w->min) return false;
  for (size_t i = 0; i < w->n_languages; i++) {
    if (has(state, w->languages[i].places.end) == w->languages[i].is_without) return false;
    state += words_of(&w->languages[i]);
  }
  return true;
}

// The rule of a state: characters that lead to one state are one set.
static const crn_node *state_node(walk *w, size_t at, int32_t first_rule) {
  crn_rules *r = w->rules;
  int32_t targets[MAX_CLASSES];
  uint64_t *to = new_state(w);
  crn_node_vec choices = {0};
  for (size_t c = 0; c < w->n_classes && !crn_rules_failed(r) && !w->failure; c++) {
    memset(to, 0, w->n_words * sizeof *to);
    targets[c] = step(w, w->states.items[at], w->classes[c].first, to) ? number_of(w, to) : -1;
    if (targets[c] >= 0 && targets[c] == (int32_t)w->states.size - 1 && w->states.items[targets[c]] == to) to = new_state(w);
  }
  if (crn_rules_failed(r) || w->failure) return crn_node_empty();
  if (is_final(w, w->states.items[at])) crn_nodes_add(r, &choices, crn_node_empty());
  for (size_t c = 0; c < w->n_classes; c++) {
    crn_range ranges[MAX_CLASSES];
    size_t n = 0;
    int32_t target = targets[c];
    if (target < 0) continue;
    for (size_t k = c; k < w->n_classes; k++) {
      if (targets[k] != target) continue;
      ranges[n++] = w->classes[k];
      targets[k] = -1;
    }
    const crn_node *next = crn_node_rule(r, first_rule + target);
    const crn_set set = crn_set_make(r, ranges, n);
    crn_nodes_add(r, &choices, CRN_ALL(r, crn_form_written_set(r, set), next));
  }
  return crn_nodes_any(r, &choices);
}

// The rules of all states, of which there are none after a failure.
static const crn_node *walk_all(walk *w) {
  crn_rules *r = w->rules;
  if (!w->failure) find_classes(w);
  if (w->failure || crn_rules_failed(r)) return crn_node_empty();
  uint64_t *start = new_state(w), *at = start;
  for (size_t i = 0; start && i < w->n_languages; i++) {
    enter(&w->languages[i], at, w->languages[i].places.start);
    at += words_of(&w->languages[i]);
  }
  if (start) number_of(w, start);
  int32_t first = (int32_t)r->bodies.size;
  bool has_text = false;
  // Rules are made as states are met, so that the rule of a state is its number behind the first.
  for (size_t i = 0; i < w->states.size && !crn_rules_failed(r) && !w->failure; i++) {
    const crn_node *body = state_node(w, i, first);
    has_text = has_text || is_final(w, w->states.items[i]);
    while (r->bodies.size < (size_t)first + w->states.size && !crn_rules_failed(r)) crn_rule_new(r);
    crn_rule_set(r, first + (int32_t)i, body);
  }
  if (crn_rules_failed(r)) return crn_node_empty();
  return has_text ? crn_node_rule(r, first) : crn_node_never();
}

// A walk through languages still to be added; NULL after a failure.
static walk *open_walk(crn_rules *r, int64_t min, int64_t max) {
  walk *w;
  cairn_status status = crn_alloc_zero(r->allocator, sizeof *w, &w);
  if (status != CAIRN_OK) {
    crn_rules_fail(r, status);
    return NULL;
  }
  w->rules = r;
  w->min = min;
  w->max = max;
  w->n_words = 1;
  crn_map_initialize(&w->numbers, r->allocator);
  return w;
}

static void close_walk(walk *w) {
  for (size_t i = 0; i < w->n_languages; i++) crn_places_free(&w->languages[i].places);
  crn_vec_free(w->rules->allocator, &w->states);
  crn_map_deinitialize(&w->numbers);
  crn_free(w->rules->allocator, w, sizeof *w);
}

static void add_language(walk *w, const crn_node *node, bool is_without) {
  if (w->n_languages == MAX_LANGUAGES) {
    w->failure = "too many patterns and exceptions for one text";
    return;
  }
  language *l = &w->languages[w->n_languages++];
  l->is_without = is_without;
  l->places = (crn_places){.rules = w->rules, .most = MAX_PLACES};
  crn_places_build(&l->places, node);
  w->failure = l->places.failure;
  w->n_words += words_of(l);
}

static const crn_node *combine(crn_rules *r, const crn_node *const *with, size_t n_with, const crn_node *const *without, size_t n_without,
                               int64_t min, int64_t max) {
  const size_t n_rules = r->bodies.size, n_nodes = r->n_nodes;
  walk *w = open_walk(r, min, max);
  if (!w) return crn_node_empty();
  for (size_t i = 0; i < n_with && !w->failure; i++) add_language(w, with[i], false);
  // Words and patterns that are left out are one language: what is in none of them.
  if (n_without && !w->failure) add_language(w, crn_node_any(r, without, n_without), true);
  const crn_node *node = walk_all(w);
  if (w->failure && !crn_rules_failed(r)) crn_rules_fail(r, CRN_FAIL(UNSUPPORTED, "%s", w->failure));
  close_walk(w);
  if (!crn_rules_failed(r)) return node;
  // Whoever tries again with less begins where this one did.
  r->bodies.size = n_rules;
  r->n_nodes = n_nodes;
  return crn_node_empty();
}

bool crn_language_has(crn_rules *r, const crn_node *node, const char *text, size_t bytes) {
  bool is_in = true;
  walk *w = crn_rules_failed(r) ? NULL : open_walk(r, 0, -1);
  if (!w) return false;
  add_language(w, node, false);
  uint64_t *from = w->failure ? NULL : new_state(w), *to = w->failure ? NULL : new_state(w);
  if (from && to) enter(&w->languages[0], from, w->languages[0].places.start);
  for (const char *p = text; from && to && is_in && p < text + bytes;) {
    uint32_t code;
    bool valid;
    p += crn_utf8_decode(p, text + bytes, &code, &valid);
    memset(to, 0, w->n_words * sizeof *to);
    is_in = step(w, from, code, to);
    uint64_t *swap = from;
    from = to;
    to = swap;
  }
  is_in = from && to && is_in && is_final(w, from);
  if (w->failure && !crn_rules_failed(r)) crn_rules_fail(r, CRN_FAIL(UNSUPPORTED, "%s", w->failure));
  close_walk(w);
  return is_in && !crn_rules_failed(r);
}

// --- single patterns -----------------------------------------------------------------------------------------------------------

typedef struct loops {
  const crn_rules *rules;
  size_t *steps_left;  ///< rules may name each other so often that following them all takes forever
  int depth;
  bool is_known;  ///< no rule leads to itself
} loops;

// Whether something that is repeated has in it what may be repeated more or less often; `is_repeated` = the node is in such a thing.
static bool has_loop(loops *l, const crn_node *node, bool is_repeated) {
  bool found = false;
  if (!l->is_known || !*l->steps_left || l->depth > CRN_GRAMMAR_MAX_DEPTH) {
    l->is_known = false;
    return false;
  }
  --*l->steps_left;
  switch (node->kind) {
    case CRN_NODE_REPEAT:
      found = is_repeated && node->max != node->min && node->max != 1;
      return has_loop(l, node->items[0], is_repeated || node->max != 1) || found;
    case CRN_NODE_ALL:
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) found = has_loop(l, node->items[i], is_repeated) || found;
      return found;
    case CRN_NODE_RULE:
      if (!l->rules->bodies.items[node->rule]) l->is_known = false;
      l->depth++;
      found = l->is_known && has_loop(l, l->rules->bodies.items[node->rule], is_repeated);
      l->depth--;
      return found;
    default:
      return false;
  }
}

// The automaton of a node that has loops in loops and is not too large for it, else NULL.
static const crn_node *single(crn_rules *r, const crn_node *node, bool is_plain, size_t *steps_left) {
  loops l = {.rules = r, .steps_left = steps_left, .is_known = true};
  const bool wants_one = has_loop(&l, node, false) && l.is_known;
  return wants_one ? crn_automaton_node(r, node, is_plain) : NULL;
}

const crn_node *crn_language_single(crn_rules *r, const crn_node *node, bool is_plain) {
  size_t steps_left = MAX_STEPS;
  if (crn_rules_failed(r)) return crn_node_empty();
  const crn_node *automaton = single(r, node, is_plain, &steps_left);
  if (automaton || crn_rules_failed(r)) return automaton ? automaton : crn_node_empty();
  return is_plain ? node : crn_form_written(r, node);
}

static void visit(crn_rules *r, const crn_node *node, unsigned char *seen, int32_t *list, size_t *n) {
  if (node->kind == CRN_NODE_RULE && !seen[node->rule]) {
    seen[node->rule] = 1;
    list[(*n)++] = node->rule;
  }
  for (size_t i = 0; i < node->n && node->items; i++) visit(r, node->items[i], seen, list, n);
}

void crn_language_simplify(crn_rules *r) {
  unsigned char *seen;
  int32_t *list;
  size_t n = 0, steps_left = MAX_STEPS;
  if (crn_rules_failed(r) || !r->bodies.size) return;
  cairn_status status = crn_arena_array(&r->arena, r->bodies.size, sizeof *seen, &seen);
  if (status == CAIRN_OK) status = crn_arena_array(&r->arena, r->bodies.size, sizeof *list, &list);
  if (status != CAIRN_OK) {
    crn_rules_fail(r, status);
    return;
  }
  seen[0] = 1;
  list[n++] = 0;
  while (n && !crn_rules_failed(r)) {
    const int32_t rule = list[--n];
    const crn_node *body = r->bodies.items[rule];
    if (!body) continue;
    const crn_node *automaton = single(r, body, true, &steps_left);
    if (automaton) {
      r->bodies.items[rule] = automaton;
    } else {
      visit(r, body, seen, list, &n);
    }
  }
}

// A pattern that is one repeated character takes lengths into its own count.
static const crn_node *fit(crn_rules *r, const crn_node *node, int64_t min, int64_t max) {
  int64_t least, most;
  crn_language_lengths(node, &least, &most);
  if (least >= min && (max < 0 || (most >= 0 && most <= max))) return node;
  if (node->kind != CRN_NODE_REPEAT || node->items[0]->kind != CRN_NODE_SET) return NULL;
  int64_t low = node->min > min ? node->min : min, high = node->max < 0 ? max : max < 0 || node->max < max ? node->max : max;
  return high >= 0 && low > high ? crn_node_never() : crn_node_repeat(r, node->items[0], low, high);
}

const crn_node *crn_language_node(crn_rules *r, const crn_node *const *with, size_t n_with, const crn_node *const *without,
                                  size_t n_without, int64_t min, int64_t max) {
  if (crn_rules_failed(r)) return crn_node_empty();
  if (n_with == 1 && !n_without) {
    const crn_node *node = fit(r, with[0], min, max);
    if (node) return crn_language_single(r, node, false);
  }
  // What a pattern says of its lengths by itself need not be counted.
  for (size_t i = 0; i < n_with; i++) {
    int64_t least, most;
    crn_language_lengths(with[i], &least, &most);
    if (least >= min) min = 0;
    if (most >= 0 && most <= max) max = -1;
  }
  // Each length is a state of its own. A smaller bound than the one asked for only leaves long texts out.
  if (max > LONG && max > min) max = min > LONG ? min : LONG;
  const crn_node *node = combine(r, with, n_with, without, n_without, min, max);
  while (r->status == CAIRN_UNSUPPORTED && max > SHORT && max / 2 >= min) {
    max /= 2;
    r->status = CAIRN_OK;
    node = combine(r, with, n_with, without, n_without, min, max);
    // That there is no short text says nothing of the long ones.
    if (node->kind == CRN_NODE_NEVER && !crn_rules_failed(r)) return crn_rules_fail(r, CRN_FAIL(UNSUPPORTED, "%s", TOO_LARGE));
  }
  return node;
}
