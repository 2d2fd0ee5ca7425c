#include "text/tokenizer/regex_program.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "text/tokenizer/regex_program_parts.h"

/// Characters looked at for one match, beyond a few times those there are, before PCRE2 is asked.
enum { MOST_WORK = 1 << 20 };

// --- which characters a set holds ------------------------------------------------------------------------------------------

/// Planes 4 to 13 hold no characters, so the first place of plane 4 speaks for all of them.
enum { GAP_BEGIN = 0x40000, GAP_END = 0xe0000, ALPHABET_BYTES = 4 * (0x110000 - (GAP_END - GAP_BEGIN)) };

static uint32_t next_char(uint32_t code) {
  code++;
  return code == 0xd800 ? 0xe000 : code == GAP_BEGIN + 1 ? GAP_END : code;
}

/// Every character, in order.
static size_t write_alphabet(char *out) {
  size_t n = 0;
  for (uint32_t c = 0; c < 0x110000; c = next_char(c)) n += (size_t)crn_utf8_encode(c, out + n);
  return n;
}

static uint32_t code_at(const char *p) {
  uint32_t code = 0;
  bool valid;
  crn_utf8_decode(p, p + 4, &code, &valid);
  return code;
}

/// Adds the bit of a set to the masks of the characters that match its expression, run by run.
static cairn_status mark_set(const crn_str *expression, const char *alphabet, size_t bytes, uint32_t bit, uint32_t *masks) {
  int error;
  PCRE2_SIZE offset, at = 0;
  cairn_status status = CAIRN_OK;
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression->data, expression->size, PCRE2_UTF | PCRE2_UCP, &error, &offset, NULL);
  if (!data || !code) {
    status = CRN_FAIL(OUT_OF_MEMORY, "no memory for a set of characters");
  } else {
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    int rc;
    while ((rc = pcre2_match(code, (PCRE2_SPTR)alphabet, bytes, at, PCRE2_NO_UTF_CHECK, data, NULL)) >= 0) {
      const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
      at = ends[1];
      uint32_t stop = at < bytes ? code_at(alphabet + at) : 0x110000;
      for (uint32_t c = code_at(alphabet + ends[0]); c != stop; c = next_char(c)) masks[c] |= bit;
    }
    if (rc != PCRE2_ERROR_NOMATCH) status = CRN_FAIL(OUT_OF_MEMORY, "no memory to look at a set of characters");
  }
  pcre2_code_free(code);
  pcre2_match_data_free(data);
  return status;
}

static int find_class(crn_regex_program *p, uint32_t mask) {
  size_t i = 0;
  while (i < p->n_classes && p->masks[i] != mask) i++;
  if (i == CRN_PROGRAM_MAX_CLASSES) return -1;
  if (i == p->n_classes) p->masks[p->n_classes++] = mask;
  return (int)i;
}

/// Numbers the masks and folds the table: a block like the one before is not stored again.
static bool fold_masks(crn_regex_program *p, const uint32_t *masks, uint8_t *room) {
  size_t n = 0;
  int last = -1;
  for (size_t b = 0; b < CRN_PROGRAM_N_BLOCKS; b++) {
    uint8_t *block = room + n * CRN_PROGRAM_BLOCK;
    for (size_t i = 0; i < CRN_PROGRAM_BLOCK; i++) {
      uint32_t mask = masks[b * CRN_PROGRAM_BLOCK + i];
      if (last < 0 || p->masks[last] != mask) last = find_class(p, mask);
      if (last < 0) return false;
      block[i] = (uint8_t)last;
    }
    if (n && !memcmp(block, block - CRN_PROGRAM_BLOCK, CRN_PROGRAM_BLOCK)) n--;
    p->blocks[b] = (uint16_t)n++;
  }
  p->n_classes_room = n * CRN_PROGRAM_BLOCK;
  return true;
}

/// Fills the classes; `*out_known` false: there are too many.
static cairn_status make_classes(crn_regex_program *p, const crn_program_sets *sets, bool *out_known) {
  const cairn_allocator *a = p->allocator;
  char *alphabet = NULL;
  uint32_t *masks = NULL;
  uint8_t *room = NULL;
  cairn_status status;
  CRN_TRY_GOTO(crn_alloc(a, ALPHABET_BYTES, &alphabet));
  CRN_TRY_GOTO(crn_alloc_zero(a, 0x110000 * sizeof *masks, &masks));
  CRN_TRY_GOTO(crn_alloc(a, 0x110000, &room));
  size_t bytes = write_alphabet(alphabet);
  for (size_t i = 0; i < sets->n; i++) CRN_TRY_GOTO(mark_set(&sets->expressions[i], alphabet, bytes, 1u << i, masks));
  for (uint32_t c = GAP_BEGIN + 1; c < GAP_END; c++) masks[c] = masks[GAP_BEGIN];
  *out_known = fold_masks(p, masks, room);
  if (*out_known) {
    CRN_TRY_GOTO(crn_alloc(a, p->n_classes_room, &p->classes));
    memcpy(p->classes, room, p->n_classes_room);
    memcpy(p->ascii, room, 128);
  }
done:
  crn_free(a, alphabet, ALPHABET_BYTES);
  crn_free(a, masks, 0x110000 * sizeof *masks);
  crn_free(a, room, 0x110000);
  return status;
}

// --- making ----------------------------------------------------------------------------------------------------------------

/// Whether any character is in both sets.
static bool overlap(const crn_regex_program *p, uint32_t a, uint32_t b) {
  for (size_t i = 0; i < p->n_classes; i++) {
    if ((p->masks[i] & a) && (p->masks[i] & b)) return true;
  }
  return false;
}

/// Sets the items from here on can begin with; `*out_known` false: a match of them can depend on more than that.
static uint32_t followers(const crn_program_alternative *a, size_t i, bool *out_known) {
  uint32_t sets = 0;
  *out_known = true;
  for (; i < a->n_items; i++) {
    const crn_program_item *item = &a->items[i];
    if (item->kind == CRN_PROGRAM_LOOK) break;
    if (item->kind == CRN_PROGRAM_RUN) sets |= item->set;
    for (size_t k = 0; k < item->n_branches; k++) sets |= item->branches[k].sets[0];
    if (item->kind == CRN_PROGRAM_GROUP ? !item->optional : item->min > 0) return sets;
  }
  // Behind the last item that must match nothing can fail any more, unless a look at the next character comes.
  *out_known = i == a->n_items;
  return 0;
}

/// A run followed by what cannot begin with a character the run can hold gains nothing from giving back what it took.
static void find_possessive(const crn_regex_program *p, crn_program_alternative *a) {
  for (size_t i = 0; i < a->n_items; i++) {
    bool known;
    uint32_t next = followers(a, i + 1, &known);
    if (a->items[i].kind == CRN_PROGRAM_RUN && known && !overlap(p, a->items[i].set, next)) a->items[i].possessive = true;
  }
}

static void finish(crn_regex_program *p) {
  for (size_t i = 0; i < p->n_alternatives; i++) {
    find_possessive(p, &p->alternatives[i]);
    for (size_t c = 0; c < p->n_classes; c++) {
      if (p->masks[c] & p->alternatives[i].first) p->starts[c] |= 1u << i;
    }
  }
}

cairn_status crn_regex_program_create(const cairn_allocator *allocator, const char *translated, size_t bytes,
                                      crn_regex_program **out_program) {
  crn_regex_program *p = NULL;
  crn_program_sets sets = {.n = 0};
  cairn_status status;
  bool known = false;
  *out_program = NULL;
  for (size_t i = 0; i < CRN_PROGRAM_MAX_SETS; i++) crn_str_initialize(&sets.expressions[i], allocator);
  CRN_TRY_GOTO(crn_alloc_zero(allocator, sizeof *p, &p));
  p->allocator = allocator;
  CRN_TRY_GOTO(crn_regex_program_read(translated, bytes, p, &sets, &known));
  if (known) CRN_TRY_GOTO(make_classes(p, &sets, &known));
  if (known) {
    finish(p);
    *out_program = p;
    p = NULL;
  }
done:
  for (size_t i = 0; i < CRN_PROGRAM_MAX_SETS; i++) crn_str_deinitialize(&sets.expressions[i]);
  crn_regex_program_destroy(p);
  return status;
}

void crn_regex_program_destroy(crn_regex_program *p) {
  if (!p) return;
  crn_free(p->allocator, p->classes, p->n_classes_room);
  crn_free(p->allocator, p, sizeof *p);
}

// --- matching --------------------------------------------------------------------------------------------------------------

typedef struct matcher {
  const crn_regex_program *program;
  const unsigned char *text;
  size_t bytes;
  size_t work, most_work;
} matcher;

enum { FAILED = -1 };

/// The class of the character at `at` and how many bytes it has. The text is valid UTF-8.
static inline unsigned class_at(const matcher *m, size_t at, size_t *out_bytes) {
  const unsigned char *u = m->text + at;
  uint32_t code;
  if (u[0] < 0x80) return *out_bytes = 1, m->program->ascii[u[0]];
  if (u[0] < 0xe0) {
    code = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    *out_bytes = 2;
  } else if (u[0] < 0xf0) {
    code = (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    *out_bytes = 3;
  } else {
    code = (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
    *out_bytes = 4;
  }
  return m->program->classes[(size_t)m->program->blocks[code / CRN_PROGRAM_BLOCK] * CRN_PROGRAM_BLOCK + code % CRN_PROGRAM_BLOCK];
}

static inline bool in_set(const matcher *m, size_t at, uint32_t set, size_t *out_bytes) {
  return (m->program->masks[class_at(m, at, out_bytes)] & set) != 0;
}

static ptrdiff_t match_items(matcher *m, const crn_program_item *item, const crn_program_item *end, size_t at);

/// One row of a group: where it ends, FAILED when it does not match.
static ptrdiff_t match_branch(const matcher *m, const crn_program_branch *b, size_t at) {
  size_t n;
  for (size_t i = 0; i < b->n; i++) {
    if (at >= m->bytes || !in_set(m, at, b->sets[i], &n)) return FAILED;
    at += n;
  }
  return (ptrdiff_t)at;
}

static ptrdiff_t match_group(matcher *m, const crn_program_item *item, const crn_program_item *end, size_t at) {
  for (size_t i = 0; i < item->n_branches; i++) {
    ptrdiff_t behind = match_branch(m, &item->branches[i], at);
    if (behind < 0) continue;
    behind = match_items(m, item + 1, end, (size_t)behind);
    if (behind >= 0) return behind;
  }
  return item->optional ? match_items(m, item + 1, end, at) : FAILED;
}

/// Takes as many characters as there are, then tries the rest, giving back one after the other.
static ptrdiff_t give_back(matcher *m, const crn_program_item *item, const crn_program_item *end, size_t at, size_t count) {
  for (;;) {
    ptrdiff_t behind = match_items(m, item + 1, end, at);
    if (behind >= 0 || count == item->min || ++m->work > m->most_work) return behind;
    count--;
    do at--;
    while ((m->text[at] & 0xc0) == 0x80);
  }
}

static ptrdiff_t match_items(matcher *m, const crn_program_item *item, const crn_program_item *end, size_t at) {
  for (; item < end; item++) {
    size_t n, count = 0;
    if (item->kind == CRN_PROGRAM_GROUP) return match_group(m, item, end, at);
    if (item->kind == CRN_PROGRAM_LOOK) {
      if ((at < m->bytes && in_set(m, at, item->set, &n)) == item->negated) return FAILED;
      continue;
    }
    for (; count < item->max && at < m->bytes && in_set(m, at, item->set, &n); count++) at += n;
    m->work += count;
    if (count < item->min) return FAILED;
    if (count > item->min && !item->possessive && item + 1 < end) return give_back(m, item, end, at, count);
  }
  return (ptrdiff_t)at;
}

crn_regex_outcome crn_regex_program_find(const crn_regex_program *program, const char *text, size_t bytes, size_t at, size_t *out_begin,
                                         size_t *out_end) {
  matcher m = {program, (const unsigned char *)text, bytes, 0, 0};
  for (size_t n; at < bytes; at += n) {
    m.work = 0;
    m.most_work = MOST_WORK + 4 * (bytes - at);
    uint32_t starts = program->starts[class_at(&m, at, &n)];
    for (; starts; starts &= starts - 1) {
      const crn_program_alternative *a = &program->alternatives[__builtin_ctz(starts)];
      ptrdiff_t end = match_items(&m, a->items, a->items + a->n_items, at);
      if (m.work > m.most_work) return CRN_REGEX_TIRED;
      if (end < 0) continue;
      *out_begin = at;
      *out_end = (size_t)end;
      return CRN_REGEX_FOUND;
    }
  }
  return CRN_REGEX_NONE;
}
