// Writing rules in the EBNF of the library. What can never become a text is left out first: a grammar that leads into such a place
// would leave a model without any token to choose.
#include <string.h>

#include "text/grammar/rules.h"

typedef struct writer {
  crn_rules *rules;
  crn_str *out;
  bool *can_end;  ///< by rule: whether it has a text
} writer;

// --- what has a text ----------------------------------------------------------------------------------------------------

static bool can_end(const writer *w, const crn_node *node) {
  switch (node->kind) {
    case CRN_NODE_NEVER:
      return false;
    case CRN_NODE_RULE:
      return w->can_end[node->rule];
    case CRN_NODE_ALL:
      for (size_t i = 0; i < node->n; i++) {
        if (!can_end(w, node->items[i])) return false;
      }
      return true;
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) {
        if (can_end(w, node->items[i])) return true;
      }
      return false;
    case CRN_NODE_REPEAT:
      return node->min == 0 || can_end(w, node->items[0]);
    default:
      return true;
  }
}

static void find_ends(writer *w) {
  size_t n = w->rules->bodies.size;
  bool changed = true, backwards = false;
  // Rules are mostly defined behind or before their use, all of them: going to and fro makes long chains short.
  for (; changed; backwards = !backwards) {
    changed = false;
    for (size_t k = 0; k < n; k++) {
      size_t i = backwards ? n - 1 - k : k;
      const crn_node *body = w->rules->bodies.items[i];
      if (w->can_end[i] || !body || !can_end(w, body)) continue;
      w->can_end[i] = changed = true;
    }
  }
}

// --- how large it becomes -----------------------------------------------------------------------------------------------

// The library takes small counted repetitions apart, one in the other: so may a short source become a huge grammar.
static double copies_of(const writer *w, const crn_node *node) {
  double sum = 1;
  switch (node->kind) {
    case CRN_NODE_TEXT:
      return 1 + (double)node->n;
    case CRN_NODE_SET:
      return 1 + (double)node->set.n;
    case CRN_NODE_ALL:
    case CRN_NODE_ANY:
      for (size_t i = 0; i < node->n; i++) sum += copies_of(w, node->items[i]);
      return sum;
    case CRN_NODE_REPEAT: {
      double times = (double)(node->max < 0 ? node->min + 1 : node->max);
      return 1 + copies_of(w, node->items[0]) * (times > 128 ? 128 : times);
    }
    default:
      return 1;
  }
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

static cairn_status write_repeat(writer *w, const crn_node *node) {
  const crn_node *item = node->items[0];
  if (!can_end(w, item)) return crn_str_puts(w->out, "\"\"");
  bool is_plain = item->kind != CRN_NODE_REPEAT;  // the library reads one count behind an element
  if (!is_plain) CRN_TRY(crn_str_putc(w->out, '('));
  CRN_TRY(write_node(w, item));
  if (!is_plain) CRN_TRY(crn_str_putc(w->out, ')'));
  if (node->min == 0 && node->max < 0) return crn_str_putc(w->out, '*');
  if (node->min == 1 && node->max < 0) return crn_str_putc(w->out, '+');
  if (node->min == 0 && node->max == 1) return crn_str_putc(w->out, '?');
  if (node->max < 0) return crn_str_printf(w->out, "{%lld,}", (long long)node->min);
  return crn_str_printf(w->out, "{%lld,%lld}", (long long)node->min, (long long)node->max);
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
    case CRN_NODE_RULE:
      return node->rule ? crn_str_printf(w->out, "r%d", node->rule) : crn_str_puts(w->out, "root");
    default:
      return crn_str_puts(w->out, "\"\"");
  }
}

static cairn_status write_rules(writer *w) {
  const crn_rules *r = w->rules;
  double copies = 0;
  for (size_t i = 0; i < r->bodies.size; i++) {
    if (!w->can_end[i]) continue;
    copies += copies_of(w, r->bodies.items[i]);
    if (copies > CRN_GRAMMAR_MAX_COPIES) return CRN_FAIL(UNSUPPORTED, "the grammar is too large: its repetitions multiply");
    CRN_TRY(i ? crn_str_printf(w->out, "r%zu ::= ", i) : crn_str_puts(w->out, "root ::= "));
    CRN_TRY(write_node(w, r->bodies.items[i]));
    CRN_TRY(crn_str_putc(w->out, '\n'));
  }
  return CAIRN_OK;
}

cairn_status crn_rules_write(crn_rules *r, crn_str *out) {
  writer w = {.rules = r, .out = out};
  CRN_TRY(r->status);
  CRN_TRY(crn_arena_array(&r->arena, r->bodies.size, sizeof *w.can_end, &w.can_end));
  find_ends(&w);
  if (!w.can_end[0]) return CRN_FAIL(INVALID_ARGUMENT, "no text can ever satisfy this");
  return write_rules(&w);
}
