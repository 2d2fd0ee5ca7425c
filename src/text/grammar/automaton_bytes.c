// UTF-8 byte by byte: a state of its own for each way a character may have begun that leads on differently.
#include "text/grammar/automaton_bytes.h"

#include <string.h>

enum { MAX_EDGES = 1 << 21 };

void crn_bytes_initialize(crn_byte_writer *w, crn_rules *rules, size_t n_states) {
  *w = (crn_byte_writer){.rules = rules, .n_states = n_states};
  crn_map_initialize(&w->inner, rules->allocator);
}

void crn_bytes_deinitialize(crn_byte_writer *w) {
  crn_vec_free(w->rules->allocator, &w->rows);
  crn_vec_free(w->rules->allocator, &w->edges);
  crn_map_deinitialize(&w->inner);
}

static bool check(crn_byte_writer *w, cairn_status status) {
  if (status != CAIRN_OK) crn_rules_fail(w->rules, status);
  return status == CAIRN_OK;
}

// --- rows ---------------------------------------------------------------------------------------------------------------------

static int encode(uint32_t code, uint8_t *out) {
  if (code < 0x80) {
    out[0] = (uint8_t)code;
    return 1;
  }
  const int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
  out[0] = (uint8_t)((0xF00 >> n) | code);
  return n;
}

// Characters whose bytes are any of a range at each place: ranges are cut until they are like that.
static void add_range(crn_byte_writer *w, uint32_t first, uint32_t last, int32_t to) {
  static const uint32_t LENGTHS[] = {0x7F, 0x7FF, 0xFFFF};
  for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
    if (first > LENGTHS[i] || last <= LENGTHS[i]) continue;
    add_range(w, first, LENGTHS[i], to);
    add_range(w, LENGTHS[i] + 1, last, to);
    return;
  }
  for (int i = 1; i < 4; i++) {
    const uint32_t mask = (1u << 6 * i) - 1;
    if ((first & ~mask) == (last & ~mask) || first < 0x80) continue;
    const uint32_t at = first & mask ? (first | mask) + 1 : (last & mask) != mask ? last & ~mask : 0;
    if (!at) continue;
    add_range(w, first, at - 1, to);
    add_range(w, at, last, to);
    return;
  }
  crn_byte_row row = {.to = to};
  row.n = encode(first, row.first);
  encode(last, row.last);
  check(w, crn_vec_push(w->rules->allocator, &w->rows, row));
}

void crn_bytes_add(crn_byte_writer *w, const crn_node *node, int32_t to) {
  crn_byte_row row = {.to = to};
  switch (node->kind) {
    case CRN_NODE_SET:
      for (size_t i = 0; i < node->set.n; i++) add_range(w, node->set.ranges[i].first, node->set.ranges[i].last, to);
      return;
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) crn_bytes_add(w, node->items[i], to);
      return;
    case CRN_NODE_TEXT:
      if (node->n > CRN_BYTES_MOST) return;
      row.n = (int32_t)node->n;
      memcpy(row.first, node->text, node->n);
      memcpy(row.last, node->text, node->n);
      check(w, crn_vec_push(w->rules->allocator, &w->rows, row));
      return;
    default:
      return;
  }
}

// --- states -------------------------------------------------------------------------------------------------------------------

static void write_rows(crn_byte_writer *w, int32_t state, const crn_byte_row *rows, size_t n);

// The state behind one byte of some rows, the byte left out of them.
static int32_t behind(crn_byte_writer *w, crn_byte_row *rows, size_t n) {
  uint64_t known;
  if (rows[0].n == 1) return rows[0].to;  // none is the beginning of another
  for (size_t i = 0; i < n; i++) {
    memmove(rows[i].first, rows[i].first + 1, CRN_BYTES_MOST - 1);
    memmove(rows[i].last, rows[i].last + 1, CRN_BYTES_MOST - 1);
    rows[i].first[CRN_BYTES_MOST - 1] = rows[i].last[CRN_BYTES_MOST - 1] = 0;
    rows[i].n--;
  }
  if (crn_map_get(&w->inner, (const char *)rows, n * sizeof *rows, &known)) return (int32_t)known;
  const size_t state = w->n_states++;
  if (w->rules->n_states + w->n_states > CRN_GRAMMAR_MAX_STATES) w->is_too_large = true;
  if (w->is_too_large || !check(w, crn_map_set(&w->inner, (const char *)rows, n * sizeof *rows, state))) return -1;
  write_rows(w, (int32_t)state, rows, n);
  return (int32_t)state;
}

static void add_edge(crn_byte_writer *w, crn_edge edge) {
  crn_edge *last = w->edges.size ? &w->edges.items[w->edges.size - 1] : NULL;
  if (last && last->from == edge.from && last->to == edge.to && last->last + 1 == edge.first) {
    last->last = edge.last;
    return;
  }
  if (w->edges.size >= MAX_EDGES) w->is_too_large = true;
  if (!w->is_too_large) check(w, crn_vec_push(w->rules->allocator, &w->edges, edge));
}

// Bytes between two places where a row begins or ends are alike.
static void write_rows(crn_byte_writer *w, int32_t state, const crn_byte_row *rows, size_t n) {
  const cairn_allocator *a = w->rules->allocator;
  bool begins[257] = {false};
  crn_byte_row *some;
  CRN_VEC(crn_edge) edges = {0};
  if (!check(w, crn_alloc_array(a, n, sizeof *some, &some))) return;
  for (size_t i = 0; i < n; i++) begins[rows[i].first[0]] = begins[rows[i].last[0] + 1] = true;
  for (int first = 0; first < 256 && !w->is_too_large && !crn_rules_failed(w->rules);) {
    int end = first + 1;
    size_t k = 0;
    while (end < 256 && !begins[end]) end++;
    for (size_t i = 0; i < n; i++) {
      if (rows[i].first[0] <= first && first <= rows[i].last[0]) some[k++] = rows[i];
    }
    const int32_t to = k ? behind(w, some, k) : -1;
    if (to >= 0)
      check(w, crn_vec_push(a, &edges, ((crn_edge){.from = state, .to = to, .first = (uint8_t)first, .last = (uint8_t)(end - 1)})));
    first = end;
  }
  // Those of states within are written by now.
  for (size_t i = 0; i < edges.size; i++) add_edge(w, edges.items[i]);
  crn_vec_free(a, &edges);
  crn_free(a, some, n * sizeof *some);
}

void crn_bytes_end_state(crn_byte_writer *w, int32_t state) {
  if (w->rows.size && !crn_rules_failed(w->rules)) write_rows(w, state, w->rows.items, w->rows.size);
  w->rows.size = 0;
}

const crn_node *crn_bytes_node(crn_byte_writer *w, const unsigned char *ends) {
  crn_rules *r = w->rules;
  crn_automaton *made = NULL;
  crn_edge *edges = NULL;
  if (!check(w, crn_arena_alloc(&r->arena, sizeof *made, &made)) ||
      !check(w, crn_arena_array(&r->arena, w->edges.size, sizeof *edges, &edges)))
    return NULL;
  for (size_t i = 0; i < w->edges.size; i++) {
    const crn_edge *e = &w->edges.items[i];
    edges[i].from = e->from;
    edges[i].to = e->to;
    edges[i].first = e->first;
    edges[i].last = e->last;
  }
  *made = (crn_automaton){edges, w->edges.size, w->n_states, ends};
  if (!check(w, crn_vec_push(r->allocator, &r->automata, made))) return NULL;
  r->n_states += w->n_states;
  return crn_node_automaton(r, (int32_t)r->automata.size - 1);
}
