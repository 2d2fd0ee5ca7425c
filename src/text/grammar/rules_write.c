// Writing rules in the EBNF of the library. What can never become a text is left out first: a grammar that leads into such a place
// would leave a model without any token to choose.
#include <string.h>

#include "base/map.h"
#include "text/grammar/rules.h"

// A counted repetition. It is written as a rule of its own, and what it repeats as another, once for all places where the same stands.
typedef struct counted {
  const char *item;  ///< as it is written
  size_t item_bytes;
  const crn_node *node;
} counted;

typedef struct writer {
  crn_rules *rules;
  crn_str *out;
  bool *can_end;  ///< by rule: whether it has a text
  CRN_VEC(counted) counted;
  crn_map numbers;  ///< of what is in `counted`
} writer;

// The library takes repetitions with a bound apart, up to so many times, and makes each part a rule.
enum { TAKEN_APART = 128, LEAST_COUNTED = 4 };

static bool is_counted(const crn_node *node) { return node->kind == CRN_NODE_REPEAT && node->max >= LEAST_COUNTED; }

static double parts_of(int64_t min, int64_t max) {
  int64_t times = max < 0 ? min + 1 : max;
  return (double)(times > TAKEN_APART ? TAKEN_APART : times);
}

// --- what has a text ----------------------------------------------------------------------------------------------------

bool crn_node_can_end(const bool *can_end, const crn_node *node) {
  switch (node->kind) {
    case CRN_NODE_NEVER:
      return false;
    case CRN_NODE_RULE:
      return can_end[node->rule];
    case CRN_NODE_ALL:
      for (size_t i = 0; i < node->n; i++) {
        if (!crn_node_can_end(can_end, node->items[i])) return false;
      }
      return true;
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) {
        if (crn_node_can_end(can_end, node->items[i])) return true;
      }
      return false;
    case CRN_NODE_REPEAT:
      return node->min == 0 || crn_node_can_end(can_end, node->items[0]);
    default:
      return true;
  }
}

cairn_status crn_rules_find_ends(crn_rules *r, bool **out_can_end) {
  const size_t n = r->bodies.size;
  bool changed = true, backwards = false, *can_end;
  CRN_TRY(crn_arena_array(&r->arena, n, sizeof *can_end, &can_end));
  // Rules are mostly defined behind or before their use, all of them: going to and fro makes long chains short.
  for (; changed; backwards = !backwards) {
    changed = false;
    for (size_t k = 0; k < n; k++) {
      size_t i = backwards ? n - 1 - k : k;
      const crn_node *body = r->bodies.items[i];
      if (can_end[i] || !body || !crn_node_can_end(can_end, body)) continue;
      can_end[i] = changed = true;
    }
  }
  *out_can_end = can_end;
  return CAIRN_OK;
}

static bool can_end(const writer *w, const crn_node *node) { return crn_node_can_end(w->can_end, node); }

// --- how large it becomes -----------------------------------------------------------------------------------------------

// Repetitions in repetitions: whoever matches them has to try how often the outer and how often the inner one has been gone through.
static double copies_of(const crn_node *node) {
  double sum = 1;
  switch (node->kind) {
    case CRN_NODE_TEXT:
      return 1 + (double)node->n;
    case CRN_NODE_SET:
      return 1 + (double)node->set.n;
    case CRN_NODE_ALL:
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) sum += copies_of(node->items[i]);
      return sum;
    case CRN_NODE_REPEAT:
      return 1 + copies_of(node->items[0]) * parts_of(node->min, node->max);
    default:
      return 1;
  }
}

// The library keeps a bit for every state of all rules in every rule, so that its memory is the product of both.
typedef struct size {
  double states, rules;
} size;

static size size_of(const writer *w, const crn_node *node) {
  size sum = {1, 0};
  if (is_counted(node)) return sum;
  switch (node->kind) {
    case CRN_NODE_TEXT:
      sum.states += (double)node->n;
      break;
    case CRN_NODE_SET:
      sum.states += (double)node->set.n;
      break;
    case CRN_NODE_ALL:
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) {
        size item = size_of(w, node->items[i]);
        sum.states += item.states;
        sum.rules += item.rules;
      }
      break;
    case CRN_NODE_REPEAT: {
      size item = size_of(w, node->items[0]);
      double parts = parts_of(node->min, node->max);
      sum.states += item.states * parts;
      sum.rules += (1 + item.rules) * parts;
      break;
    }
    default:
      break;
  }
  return sum;
}

static cairn_status check_size(const size *s) {
  // Two bits for each state, in each rule; states of the library are about two for each of ours.
  double megabytes = s->rules * s->states / 2 / 1e6;
  if (megabytes > CRN_GRAMMAR_MAX_MEGABYTES) {
    return CRN_FAIL(UNSUPPORTED,
                    "the grammar is too large: %.0f rules and counted repetitions with %.0f parts would take about %.0f MB, at most %d are "
                    "allowed; use fewer or smaller bounds (as maxLength, maxItems)",
                    s->rules, s->states, megabytes, CRN_GRAMMAR_MAX_MEGABYTES);
  }
  return CAIRN_OK;
}

// --- writing ------------------------------------------------------------------------------------------------------------

static cairn_status write_node(writer *w, const crn_node *node);

static cairn_status write_code(crn_str *out, uint32_t code, bool is_plain) {
  bool is_word = (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  if (is_word || (is_plain && (code == ' ' || code == ':' || code == ',' || code == '{' || code == '}')))
    return crn_str_putc(out, (char)code);
  return crn_str_printf(out, "\\U%08x", (unsigned)code);
}

static cairn_status write_text(crn_str *out, const char *text, size_t bytes) {
  CRN_TRY(crn_str_putc(out, '"'));
  for (const char *p = text, *end = text + bytes; p < end;) {
    uint32_t code;
    bool valid;
    p += crn_utf8_decode(p, end, &code, &valid);
    CRN_TRY(write_code(out, code, true));
  }
  return crn_str_putc(out, '"');
}

static cairn_status write_range(crn_str *out, uint32_t first, uint32_t last) {
  CRN_TRY(write_code(out, first, false));
  if (first == last) return CAIRN_OK;
  CRN_TRY(crn_str_putc(out, '-'));
  return write_code(out, last, false);
}

// The library goes wrong where a range ends within the block of its last first or second byte of UTF-8 and begins before that block
// (it loses the block), and takes overlong forms where a range crosses lengths. So ranges are cut there.
static cairn_status write_cut(crn_str *out, uint32_t first, uint32_t last) {
  static const uint32_t STARTS[] = {0x10000, 0x800, 0x80}, BLOCKS[] = {0x40000, 0x1000};
  for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
    if (first >= STARTS[i] || last < STARTS[i]) continue;
    CRN_TRY(write_cut(out, first, STARTS[i] - 1));
    first = STARTS[i];
    break;
  }
  for (size_t i = 0; i < sizeof BLOCKS / sizeof *BLOCKS && first >= 0x800; i++) {
    const uint32_t block = last & ~(BLOCKS[i] - 1);
    if (block <= first || (last & (BLOCKS[i] - 1)) == BLOCKS[i] - 1) continue;
    CRN_TRY(write_cut(out, first, block - 1));
    first = block;
  }
  return write_range(out, first, last);
}

static cairn_status write_set(crn_str *out, crn_set set) {
  CRN_TRY(crn_str_putc(out, '['));
  for (size_t i = 0; i < set.n; i++) CRN_TRY(write_cut(out, set.ranges[i].first, set.ranges[i].last));
  return crn_str_putc(out, ']');
}

static cairn_status write_list(writer *w, const crn_node *node, const char *between) {
  bool is_first = true;
  CRN_TRY(crn_str_putc(w->out, '('));
  for (size_t i = 0; i < node->n; i++) {
    if (!can_end(w, node->items[i])) continue;  // only of an ANY: an ALL with such a part is not written
    if (!is_first) CRN_TRY(crn_str_puts(w->out, between));
    CRN_TRY(write_node(w, node->items[i]));
    is_first = false;
  }
  return crn_str_putc(w->out, ')');
}

// The key of a repetition is how it would be written.
static cairn_status find_counted(writer *w, const crn_node *node, crn_str *key, uint64_t *out_number) {
  crn_str *out = w->out;
  w->out = key;
  cairn_status status = write_node(w, node->items[0]);
  w->out = out;
  CRN_TRY(status);
  counted c = {.item_bytes = key->size, .node = node};
  CRN_TRY(crn_str_printf(key, "{%lld,%lld}", (long long)node->min, (long long)node->max));
  if (crn_map_get(&w->numbers, key->data, key->size, out_number)) return CAIRN_OK;
  *out_number = w->counted.size;
  CRN_TRY(crn_map_set(&w->numbers, key->data, key->size, *out_number));
  CRN_TRY(crn_arena_strndup(&w->rules->arena, key->data, c.item_bytes, &c.item));
  return crn_vec_push(w->rules->allocator, &w->counted, c);
}

static cairn_status write_counted(writer *w, const crn_node *node) {
  crn_str key;
  uint64_t number = 0;
  crn_str_initialize(&key, w->rules->allocator);
  cairn_status status = find_counted(w, node, &key, &number);
  crn_str_deinitialize(&key);
  return status == CAIRN_OK ? crn_str_printf(w->out, "c%llu", (unsigned long long)number) : status;
}

// The library reads one count behind an element.
static cairn_status write_item(writer *w, const crn_node *item) {
  bool is_plain = item->kind != CRN_NODE_REPEAT;
  if (!is_plain) CRN_TRY(crn_str_putc(w->out, '('));
  CRN_TRY(write_node(w, item));
  return is_plain ? CAIRN_OK : crn_str_puts(w->out, ")");
}

// The count behind an item. The library takes x{a,b} repeated c to d times for x{ac,bd}, also where it stands in a rule of its own, which
// is too much when a is 2 or more. So the first of two or more items is written by itself, in front of those that are counted.
static cairn_status write_count(crn_str *out, const crn_node *node) {
  int64_t first = node->min >= 2, min = node->min - first, max = node->max < 0 ? -1 : node->max - first;
  if (min == 1 && max == 1) return crn_str_putc(out, ' ');
  if (min == 0 && max < 0) return crn_str_putc(out, '*');
  if (min == 1 && max < 0) return crn_str_putc(out, '+');
  if (min == 0 && max == 1) return crn_str_putc(out, '?');
  if (max < 0) return crn_str_printf(out, "{%lld,}", (long long)min);
  return crn_str_printf(out, "{%lld,%lld}", (long long)min, (long long)max);
}

static cairn_status write_repeat(writer *w, const crn_node *node) {
  const crn_node *item = node->items[0];
  if (!can_end(w, item)) return crn_str_puts(w->out, "\"\"");
  if (is_counted(node)) return write_counted(w, node);
  if (node->min >= 2) CRN_TRY(crn_str_putc(w->out, '('));
  if (node->min >= 2) {
    CRN_TRY(write_item(w, item));
    CRN_TRY(crn_str_putc(w->out, ' '));
  }
  CRN_TRY(write_item(w, item));
  CRN_TRY(write_count(w->out, node));
  return node->min >= 2 ? crn_str_putc(w->out, ')') : CAIRN_OK;
}

static cairn_status write_node(writer *w, const crn_node *node) {
  if (w->out->size > CRN_GRAMMAR_MAX_WRITTEN) return CRN_FAIL(UNSUPPORTED, "the grammar is too large");
  switch (node->kind) {
    case CRN_NODE_SET:
      return write_set(w->out, node->set);
    case CRN_NODE_TEXT:
      return write_text(w->out, node->text, node->n);
    case CRN_NODE_ALL:
      return write_list(w, node, " ");
    case CRN_NODE_ANY:
      return write_list(w, node, " | ");
    case CRN_NODE_REPEAT:
      return write_repeat(w, node);
    case CRN_NODE_AUTOMATON:
      return crn_str_printf(w->out, "a%d", node->rule);
    case CRN_NODE_RULE:
      return node->rule ? crn_str_printf(w->out, "r%d", node->rule) : crn_str_puts(w->out, "root");
    default:
      return crn_str_puts(w->out, "\"\"");
  }
}

static cairn_status write_counted_rule(writer *w, size_t i, size *all) {
  const counted *c = &w->counted.items[i];
  size item = size_of(w, c->node->items[0]);
  double parts = parts_of(c->node->min, c->node->max);
  all->states += item.states + parts;
  all->rules += 2 + item.rules + parts;
  CRN_TRY(check_size(all));
  CRN_TRY(crn_str_printf(w->out, "i%zu ::= %.*s\n", i, (int)c->item_bytes, c->item));
  CRN_TRY(crn_str_printf(w->out, "c%zu ::= ", i));
  if (c->node->min >= 2) CRN_TRY(crn_str_printf(w->out, "i%zu ", i));
  CRN_TRY(crn_str_printf(w->out, "i%zu", i));
  CRN_TRY(write_count(w->out, c->node));
  return crn_str_putc(w->out, '\n');
}

static cairn_status write_rules(writer *w) {
  const crn_rules *r = w->rules;
  size all = {0, 0};
  double copies = 0;
  for (size_t i = 0; i < r->bodies.size; i++) {
    if (!w->can_end[i]) continue;
    copies += copies_of(r->bodies.items[i]);
    if (copies > CRN_GRAMMAR_MAX_COPIES) return CRN_FAIL(UNSUPPORTED, "the grammar is too large: its repetitions multiply");
    size one = size_of(w, r->bodies.items[i]);
    all.states += one.states;
    all.rules += 1 + one.rules;
    CRN_TRY(check_size(&all));
    CRN_TRY(i ? crn_str_printf(w->out, "r%zu ::= ", i) : crn_str_puts(w->out, "root ::= "));
    CRN_TRY(write_node(w, r->bodies.items[i]));
    CRN_TRY(crn_str_putc(w->out, '\n'));
  }
  for (size_t i = 0; i < w->counted.size; i++) CRN_TRY(write_counted_rule(w, i, &all));
  return CAIRN_OK;
}

// A rule for each automaton, whose body only says whether it takes the empty text: the library must not put it elsewhere, so it leads to a
// rule that leads to itself.
static cairn_status write_automata(const crn_rules *r, crn_str *out) {
  if (!r->automata.size) return CAIRN_OK;
  CRN_TRY(crn_str_puts(out, "x ::= \"x\" | \"y\" x\n"));
  for (size_t i = 0; i < r->automata.size; i++) {
    CRN_TRY(crn_str_printf(out, "a%zu ::= %s\"x\" x\n", i, r->automata.items[i]->ends[0] ? "\"\" | " : ""));
  }
  CRN_TRY(crn_str_putc(out, 0));
  for (size_t i = 0; i < r->automata.size; i++) {
    const crn_automaton *a = r->automata.items[i];
    const uint64_t counts[] = {a->n_states, a->n_edges};
    CRN_TRY(crn_str_append(out, (const char *)counts, sizeof counts));
    CRN_TRY(crn_str_append(out, (const char *)a->ends, a->n_states));
    CRN_TRY(crn_str_append(out, (const char *)a->edges, a->n_edges * sizeof *a->edges));
  }
  return CAIRN_OK;
}

cairn_status crn_rules_write(crn_rules *r, crn_str *out) {
  writer w = {.rules = r, .out = out};
  CRN_TRY(r->status);
  CRN_TRY(crn_rules_find_ends(r, &w.can_end));
  if (!w.can_end[0]) return CRN_FAIL(INVALID_ARGUMENT, "no text can ever satisfy this");
  crn_map_initialize(&w.numbers, r->allocator);
  cairn_status status = write_rules(&w);
  if (status == CAIRN_OK) status = write_automata(r, out);
  crn_map_deinitialize(&w.numbers);
  crn_vec_free(r->allocator, &w.counted);
  return status;
}
