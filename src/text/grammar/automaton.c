// From places to a deterministic automaton: a state is the set of places one may be in. Of copies of one place those are left out that can
// do nothing others cannot; so the rounds of loops in loops, which a text may share out in very many ways, are few places each.
#include "text/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/grammar/automaton_bytes.h"
#include "text/grammar/forms.h"
#include "text/grammar/places.h"

enum { MAX_PLACES = 40000, MAX_STATES = 24000, MAX_CLASSES = 200, MAX_NEXT = 1 << 21, MAX_STEPS = 10000000 };

typedef struct builder {
  crn_rules *rules;
  crn_places places;
  crn_range classes[MAX_CLASSES];
  size_t n_classes;
  CRN_VEC(int32_t) members;  ///< of all states, one behind the other
  CRN_VEC(size_t) ends;      ///< by state: behind its members
  CRN_VEC(int32_t) next;     ///< by state and class; -1 = nothing
  crn_map numbers;           ///< of states, by their members
  uint32_t *seen, now;       ///< by place
  int32_t *list, *stack;     ///< the state that is being made
  size_t n_list, n_steps;
  bool is_too_large;
} builder;

static bool check(builder *b, cairn_status status) {
  if (status != CAIRN_OK) crn_rules_fail(b->rules, status);
  return status == CAIRN_OK;
}

static bool goes_on(const builder *b) { return !b->is_too_large && !crn_rules_failed(b->rules); }

// --- characters that are not told apart ---------------------------------------------------------------------------------------

static void cut(builder *b, uint32_t at) {
  size_t low = 0, high = b->n_classes;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (b->classes[middle].last < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == b->n_classes || at <= b->classes[low].first) return;
  if (b->n_classes == MAX_CLASSES) {
    b->is_too_large = true;
    return;
  }
  crn_range *c = &b->classes[low];
  memmove(c + 1, c, (b->n_classes - low) * sizeof *c);
  b->n_classes++;
  c[0].last = at - 1;
  c[1].first = at;
}

static void find_classes(builder *b) {
  b->n_classes = crn_set_all.n;
  memcpy(b->classes, crn_set_all.ranges, crn_set_all.n * sizeof *b->classes);
  for (size_t i = 0; i < b->places.nodes.size && !b->is_too_large; i++) {
    const crn_set set = b->places.nodes.items[i].set;
    for (size_t k = 0; k < set.n && !b->is_too_large; k++) {
      cut(b, set.ranges[k].first);
      if (set.ranges[k].last < CRN_MAX_CODE) cut(b, set.ranges[k].last + 1);
    }
  }
}

// --- states -------------------------------------------------------------------------------------------------------------------

// Adds a place to the list, and those one is in at the same time, as far as they read a character or are the end.
static void enter(builder *b, int32_t at) {
  size_t n = 0;
  b->stack[n++] = at;
  while (n) {
    const int32_t i = b->stack[--n];
    if (i < 0 || b->seen[i] == b->now) continue;
    const crn_place_node *p = &b->places.nodes.items[i];
    b->seen[i] = b->now;
    b->n_steps++;
    if (p->set.n || i == b->places.end) b->list[b->n_list++] = i;
    if (p->also[0] >= 0 && b->seen[p->also[0]] != b->now) b->stack[n++] = p->also[0];
    if (p->also[1] >= 0 && b->seen[p->also[1]] != b->now) b->stack[n++] = p->also[1];
  }
}

static int compare_groups(const void *x, const void *y, void *user) {
  const builder *b = user;
  const int32_t i = *(const int32_t *)x, k = *(const int32_t *)y;
  const crn_place_node *p = &b->places.nodes.items[i], *q = &b->places.nodes.items[k];
  if (p->group != q->group) return p->group < q->group ? -1 : 1;
  for (int r = 0; r < CRN_PLACE_RANKS; r++) {
    if (p->rank[r] != q->rank[r]) return p->rank[r] < q->rank[r] ? -1 : 1;
  }
  return (i > k) - (i < k);
}

// Whether all that `q` leads to is what `p` leads to.
static bool covers(const crn_place_node *p, const crn_place_node *q) {
  for (int r = 0; r < CRN_PLACE_RANKS; r++) {
    if (p->rank[r] > q->rank[r]) return false;
  }
  return p->group == q->group;
}

static void drop_covered(builder *b) {
  size_t kept = 0, first = 0;  // of a group
  qsort_r(b->list, b->n_list, sizeof *b->list, compare_groups, b);
  for (size_t i = 0; i < b->n_list; i++) {
    const crn_place_node *q = &b->places.nodes.items[b->list[i]];
    bool is_covered = false;
    if (kept && b->places.nodes.items[b->list[kept - 1]].group != q->group) first = kept;
    for (size_t k = first; k < kept && !is_covered; k++) is_covered = covers(&b->places.nodes.items[b->list[k]], q);
    b->n_steps += kept - first;
    if (!is_covered) b->list[kept++] = b->list[i];
  }
  b->n_list = kept;
}

static size_t first_of(const builder *b, size_t state) { return state ? b->ends.items[state - 1] : 0; }

// The number of the state of the list, which is added when it is new.
static int32_t number_of_list(builder *b) {
  const cairn_allocator *a = b->rules->allocator;
  uint64_t number;
  drop_covered(b);
  const char *key = (const char *)b->list;
  const size_t bytes = b->n_list * sizeof *b->list;
  if (crn_map_get(&b->numbers, key, bytes, &number)) return (int32_t)number;
  number = b->ends.size;
  if (number >= MAX_STATES || (number + 1) * b->n_classes > MAX_NEXT || b->n_steps > MAX_STEPS) b->is_too_large = true;
  if (!goes_on(b) || !check(b, crn_map_set(&b->numbers, key, bytes, number)) || !check(b, crn_vec_reserve(a, &b->members, b->n_list)))
    return -1;
  memcpy(b->members.items + b->members.size, b->list, bytes);
  b->members.size += b->n_list;
  return check(b, crn_vec_push(a, &b->ends, b->members.size)) ? (int32_t)number : -1;
}

static int32_t step(builder *b, size_t state, uint32_t code) {
  b->n_list = 0;
  b->now++;
  for (size_t k = first_of(b, state); k < b->ends.items[state]; k++) {
    const crn_place_node *p = &b->places.nodes.items[b->members.items[k]];
    if (p->set.n && crn_set_has(p->set, code)) enter(b, p->next);
  }
  return b->n_list ? number_of_list(b) : -1;
}

static void walk(builder *b) {
  const cairn_allocator *a = b->rules->allocator;
  b->now = 1;
  enter(b, b->places.start);
  number_of_list(b);
  for (size_t i = 0; i < b->ends.size && goes_on(b); i++) {
    for (size_t c = 0; c < b->n_classes && goes_on(b); c++) {
      const int32_t to = step(b, i, b->classes[c].first);
      if (goes_on(b)) check(b, crn_vec_push(a, &b->next, to));
    }
  }
}

// --- what is left of them ---------------------------------------------------------------------------------------------------------

static bool is_final(const builder *b, size_t state) {
  for (size_t k = first_of(b, state); k < b->ends.items[state]; k++) {
    if (b->members.items[k] == b->places.end) return true;
  }
  return false;
}

// Numbers states from which a text can end, in their order; the others are -1.
static size_t number_live(const builder *b, int32_t *numbers) {
  size_t n = 0;
  bool changed = true;
  for (size_t i = 0; i < b->ends.size; i++) numbers[i] = is_final(b, i) ? 1 : -1;
  while (changed) {
    changed = false;
    for (size_t i = b->ends.size; i-- > 0;) {
      for (size_t c = 0; c < b->n_classes && numbers[i] < 0; c++) {
        const int32_t to = b->next.items[i * b->n_classes + c];
        if (to < 0 || numbers[to] < 0) continue;
        numbers[i] = 1;
        changed = true;
      }
    }
  }
  for (size_t i = 0; i < b->ends.size; i++) numbers[i] = numbers[i] < 0 ? -1 : (int32_t)n++;
  return n;
}

// The characters that lead from a state to each other one, in bytes.
static void write_state(builder *b, crn_byte_writer *w, size_t state, const int32_t *numbers, bool is_plain) {
  crn_rules *r = b->rules;
  const int32_t *next = b->next.items + state * b->n_classes;
  bool done[MAX_CLASSES] = {false};
  for (size_t c = 0; c < b->n_classes && !crn_rules_failed(r); c++) {
    crn_range ranges[MAX_CLASSES];
    const int32_t to = next[c] < 0 ? -1 : numbers[next[c]];
    const size_t n_nodes = r->n_nodes;
    size_t n = 0;
    if (to < 0 || done[c]) continue;
    for (size_t k = c; k < b->n_classes; k++) {
      if (next[k] != next[c]) continue;
      ranges[n++] = b->classes[k];
      done[k] = true;
    }
    const crn_set set = crn_set_make(r, ranges, n);
    crn_bytes_add(w, is_plain ? crn_node_set(r, set) : crn_form_written_set(r, set), to);
    r->n_nodes = n_nodes;  // they are read at once
  }
  crn_bytes_end_state(w, numbers[state]);
}

static const crn_node *write_all(builder *b, bool is_plain) {
  crn_rules *r = b->rules;
  int32_t *numbers;
  unsigned char *ends;
  const crn_node *node = NULL;
  crn_byte_writer w;
  if (!check(b, crn_arena_array(&r->arena, b->ends.size, sizeof *numbers, &numbers))) return NULL;
  const size_t n = number_live(b, numbers);
  if (!n) return crn_node_never();
  crn_bytes_initialize(&w, r, n);
  for (size_t i = 0; i < b->ends.size && !w.is_too_large && !crn_rules_failed(r); i++) {
    if (numbers[i] >= 0) write_state(b, &w, i, numbers, is_plain);
  }
  if (!w.is_too_large && !crn_rules_failed(r) && check(b, crn_arena_array(&r->arena, w.n_states, sizeof *ends, &ends))) {
    for (size_t i = 0; i < b->ends.size; i++) {
      if (numbers[i] >= 0) ends[numbers[i]] = is_final(b, i);
    }
    node = crn_bytes_node(&w, ends);
  }
  crn_bytes_deinitialize(&w);
  return node;
}

// --- the whole --------------------------------------------------------------------------------------------------------------------

static const crn_node *build_all(builder *b, const crn_node *node, bool is_plain) {
  crn_arena *arena = &b->rules->arena;
  crn_places_build(&b->places, node);
  if (b->places.failure) return NULL;
  const size_t n = b->places.nodes.size;
  if (!check(b, crn_arena_array(arena, n, sizeof *b->seen, &b->seen)) || !check(b, crn_arena_array(arena, n, sizeof *b->list, &b->list)) ||
      !check(b, crn_arena_array(arena, 2 * n + 2, sizeof *b->stack, &b->stack)))
    return NULL;
  find_classes(b);
  if (goes_on(b)) walk(b);
  return goes_on(b) ? write_all(b, is_plain) : NULL;
}

const crn_node *crn_automaton_node(crn_rules *r, const crn_node *node, bool is_plain) {
  const cairn_allocator *a = r->allocator;
  builder *b;
  cairn_status status = crn_alloc_zero(a, sizeof *b, &b);
  if (status != CAIRN_OK) {
    crn_rules_fail(r, status);
    return NULL;
  }
  b->rules = r;
  b->places = (crn_places){.rules = r, .most = MAX_PLACES};
  crn_map_initialize(&b->numbers, a);
  const crn_node *made = build_all(b, node, is_plain);
  crn_places_free(&b->places);
  crn_map_deinitialize(&b->numbers);
  crn_vec_free(a, &b->members);
  crn_vec_free(a, &b->ends);
  crn_vec_free(a, &b->next);
  crn_free(a, b, sizeof *b);
  return crn_rules_failed(r) ? NULL : made;
}
