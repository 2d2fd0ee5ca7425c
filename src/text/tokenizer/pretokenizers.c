#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/raw.h"
#include "text/tokenizer/pretokenizers.h"
#include "text/tokenizer/unicode.h"

static const char GPT2_PATTERN[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// --- loading ---------------------------------------------------------------------------------------------------------

static cairn_status add_step(crn_build *build, const crn_pretokenizer *step) {
  cairn_tokenizer *t = build->tokenizer;
  CRN_TRY(crn_build_grow(build, (void **)&t->pretokenizers, t->n_pretokenizers, &t->pretokenizer_room, sizeof *step));
  t->pretokenizers[t->n_pretokenizers++] = *step;
  return CAIRN_OK;
}

static cairn_status load_behavior(const json_t *json, const char *where, bool required, crn_behavior *out) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const char *name = NULL;
  CRN_TRY(crn_json_string(json, where, "behavior", required, &name));
  if (!name) return CAIRN_OK;
  for (int i = 0; i < 5; i++) {
    if (!strcmp(name, names[i])) return *out = (crn_behavior)i, CAIRN_OK;
  }
  return CRN_FAIL(UNSUPPORTED, "%s: split behavior '%s', expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                  where, name);
}

static cairn_status load_byte_level(crn_build *build, const json_t *json, const char *where, crn_pretokenizer *step) {
  bool trim;
  step->use_regex = true;
  step->behavior = CRN_BEHAVIOR_ISOLATED;
  CRN_TRY(crn_build_bool(json, where, "add_prefix_space", &step->add_prefix_space));
  CRN_TRY(crn_build_bool(json, where, "trim_offsets", &trim));
  CRN_TRY(crn_json_bool(json, where, "use_regex", false, &step->use_regex));
  if (step->use_regex) CRN_TRY(crn_build_regex(build, GPT2_PATTERN, sizeof GPT2_PATTERN - 1, false, &step->regex));
  return CAIRN_OK;
}

static cairn_status load_metaspace(crn_build *build, const json_t *json, const char *where, crn_pretokenizer *step) {
  static const char *const names[] = {"first", "never", "always"};
  const char *scheme = "always";
  bool add_prefix = true;
  const json_t *flag = json_object_get(json, "add_prefix_space");
  CRN_TRY(crn_build_char(build, json, where, "replacement", &step->code));
  CRN_TRY(crn_json_string(json, where, "prepend_scheme", false, &scheme));
  if (flag && !json_is_null(flag)) CRN_TRY(crn_build_bool(json, where, "add_prefix_space", &add_prefix));
  step->split = true;
  flag = json_object_get(json, "split");
  if (flag && !json_is_null(flag)) CRN_TRY(crn_build_bool(json, where, "split", &step->split));
  for (int i = 0; i < 3; i++) {
    if (strcmp(scheme, names[i])) continue;
    step->scheme = (crn_prepend_scheme)i;
    if (!add_prefix && step->scheme != CRN_PREPEND_NEVER) {
      return CRN_FAIL(CORRUPT, "%s: add_prefix_space is false but prepend_scheme is '%s', expected 'never'", where, scheme);
    }
    return CAIRN_OK;
  }
  return CRN_FAIL(UNSUPPORTED, "%s: prepend_scheme '%s', expected first, never or always", where, scheme);
}

static cairn_status load_fixed_length(const json_t *json, const char *where, crn_pretokenizer *step) {
  int64_t length = 5;
  CRN_TRY(crn_json_int(json, where, "length", false, &length));
  if (length < 1) return CRN_FAIL(CORRUPT, "%s: length %lld, at least 1 expected", where, (long long)length);
  step->length = (size_t)length;
  return CAIRN_OK;
}

static cairn_status load_fields(crn_build *build, const json_t *json, const char *where, crn_pretokenizer *step) {
  switch (step->kind) {
    case CRN_PRE_BYTE_LEVEL:
      return load_byte_level(build, json, where, step);
    case CRN_PRE_SPLIT:
      CRN_TRY(crn_build_pattern(build, json, where, &step->regex, NULL));
      CRN_TRY(load_behavior(json, where, true, &step->behavior));
      return crn_build_bool(json, where, "invert", &step->invert);
    case CRN_PRE_METASPACE:
      return load_metaspace(build, json, where, step);
    case CRN_PRE_PUNCTUATION:
      step->behavior = CRN_BEHAVIOR_ISOLATED;
      return load_behavior(json, where, false, &step->behavior);
    case CRN_PRE_DIGITS: {
      bool individual;
      CRN_TRY(crn_build_bool(json, where, "individual_digits", &individual));
      step->behavior = individual ? CRN_BEHAVIOR_ISOLATED : CRN_BEHAVIOR_CONTIGUOUS;
      return CAIRN_OK;
    }
    case CRN_PRE_DELIMITER:
      return crn_build_char(build, json, where, "delimiter", &step->code);
    case CRN_PRE_FIXED_LENGTH:
      return load_fixed_length(json, where, step);
    default:
      return CAIRN_OK;
  }
}

static bool hits(const crn_pretokenizer *step, uint32_t code);

/// Writes down for the first plane which characters are hits, where finding that out takes a search.
static cairn_status make_hits(crn_build *build, crn_pretokenizer *step) {
  uint64_t *bits;
  if (step->kind != CRN_PRE_DIGITS && step->kind != CRN_PRE_PUNCTUATION) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, 0x10000 / 64, sizeof *bits, &bits));
  for (uint32_t code = 0; code < 0x10000; code++) bits[code / 64] |= (uint64_t)hits(step, code) << code % 64;
  step->hits = bits;
  return CAIRN_OK;
}

static cairn_status load_leaf(crn_build *build, const json_t *json, const char *type) {
  static const struct {
    const char *name;
    crn_pretokenizer_kind kind;
  } kinds[] = {
      {"ByteLevel", CRN_PRE_BYTE_LEVEL},     {"Split", CRN_PRE_SPLIT},
      {"Metaspace", CRN_PRE_METASPACE},      {"Whitespace", CRN_PRE_WHITESPACE},
      {"WhitespaceSplit", CRN_PRE_SPACES},   {"BertPreTokenizer", CRN_PRE_BERT},
      {"Punctuation", CRN_PRE_PUNCTUATION},  {"Digits", CRN_PRE_DIGITS},
      {"UnicodeScripts", CRN_PRE_SCRIPTS},   {"CharDelimiterSplit", CRN_PRE_DELIMITER},
      {"FixedLength", CRN_PRE_FIXED_LENGTH},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, type)) continue;
    char where[160];
    snprintf(where, sizeof where, "%.100s: pre_tokenizer %s", build->what, type);
    crn_pretokenizer step = {.kind = kinds[i].kind};
    CRN_TRY(load_fields(build, json, where, &step));
    CRN_TRY(make_hits(build, &step));
    return add_step(build, &step);
  }
  return CRN_FAIL(UNSUPPORTED, "%s: pre_tokenizer type '%s' is not known", build->what, type);
}

cairn_status crn_pretokenizers_load(crn_build *build, const json_t *json) {
  return crn_build_sequence(build, json, "pre_tokenizer", "pretokenizers", load_leaf);
}

cairn_status crn_pretokenizers_add_split(crn_build *build, const char *pattern) {
  crn_pretokenizer step = {.kind = CRN_PRE_SPLIT, .behavior = CRN_BEHAVIOR_ISOLATED};
  CRN_TRY(crn_build_regex(build, pattern, strlen(pattern), false, &step.regex));
  return add_step(build, &step);
}

cairn_status crn_pretokenizers_add_byte_level(crn_build *build) {
  crn_pretokenizer step = {.kind = CRN_PRE_BYTE_LEVEL};
  return add_step(build, &step);
}

cairn_status crn_pretokenizers_add_bert(crn_build *build) {
  crn_pretokenizer step = {.kind = CRN_PRE_BERT};
  return add_step(build, &step);
}

bool crn_pretokenizers_need_origins(const cairn_tokenizer *tokenizer) {
  for (size_t i = 0; i < tokenizer->n_pretokenizers; i++) {
    if (tokenizer->pretokenizers[i].scheme == CRN_PREPEND_FIRST && tokenizer->pretokenizers[i].kind == CRN_PRE_METASPACE) return true;
  }
  return false;
}

void crn_pretokenizers_plan(cairn_tokenizer *t) {
  size_t n = t->n_pretokenizers;
  const crn_pretokenizer *last = n ? &t->pretokenizers[n - 1] : NULL, *before = n > 1 ? last - 1 : NULL;
  for (size_t i = 0; i < n; i++) {
    if ((t->pretokenizers[i].kind == CRN_PRE_BYTE_LEVEL) != (i + 1 == n)) return;
  }
  if (!last) return;
  // The last cut is made together with the encoding of its parts; a space in front has to be put there before.
  bool before_cuts = before && before->kind == CRN_PRE_SPLIT && before->behavior == CRN_BEHAVIOR_ISOLATED && !before->invert;
  if (last->use_regex || last->add_prefix_space || !before_cuts) {
    crn_raw_plan(t, last->add_prefix_space ? n : n - 1, last->regex);
  } else {
    crn_raw_plan(t, n - 2, before->regex);
  }
}

// --- splitting by characters ---------------------------------------------------------------------------------------------

static bool hits(const crn_pretokenizer *step, uint32_t code) {
  switch (step->kind) {
    case CRN_PRE_SPACES:
      return crn_is_whitespace(code);
    case CRN_PRE_PUNCTUATION:
      return crn_is_punctuation(code);
    case CRN_PRE_DIGITS:
      return crn_is_numeric(code);
    default:
      return code == step->code;
  }
}

static cairn_status add_match(crn_run *run, size_t begin, size_t end, bool hit) {
  return crn_vec_push(run->allocator, &run->matches, ((crn_match){begin, end, hit}));
}

// Every hit is a match of its own; what lies between hits is one gap.
static cairn_status match_chars(crn_run *run, const crn_pretokenizer *step, crn_piece piece) {
  const char *text = run->text.bytes.data;
  size_t gap = piece.begin, at = piece.begin;
  run->matches.size = 0;
  while (at < piece.end) {
    uint32_t code = (unsigned char)text[at];
    size_t next = at + 1;
    if (code >= 0x80) next = at + (size_t)crn_code_at(text + at, &code);
    if (step->hits && code < 0x10000 ? step->hits[code / 64] >> code % 64 & 1 : hits(step, code)) {
      if (gap < at) CRN_TRY(add_match(run, gap, at, false));
      CRN_TRY(add_match(run, at, next, true));
      gap = next;
    }
    at = next;
  }
  return gap < piece.end ? add_match(run, gap, piece.end, false) : CAIRN_OK;
}

// Runs of word characters and runs of other visible characters remain; white space goes.
static cairn_status match_words(crn_run *run, crn_piece piece) {
  const char *text = run->text.bytes.data;
  size_t begin = piece.begin, at = piece.begin;
  int last = -1;
  run->matches.size = 0;
  while (at < piece.end) {
    uint32_t code;
    size_t next = at + (size_t)crn_code_at(text + at, &code);
    int kind = crn_is_word(code) ? 0 : crn_is_whitespace(code) ? 1 : 2;
    if (kind != last && last >= 0) {
      CRN_TRY(add_match(run, begin, at, last == 1));
      begin = at;
    }
    last = kind;
    at = next;
  }
  return begin < piece.end ? add_match(run, begin, piece.end, last == 1) : CAIRN_OK;
}

static cairn_status match_fixed(crn_run *run, const crn_pretokenizer *step, crn_piece piece) {
  const char *text = run->text.bytes.data;
  run->matches.size = 0;
  for (size_t at = piece.begin; at < piece.end;) {
    size_t begin = at;
    for (size_t n = 0; n < step->length && at < piece.end; n++) at += (size_t)crn_code_bytes((unsigned char)text[at]);
    CRN_TRY(add_match(run, begin, at, false));
  }
  return CAIRN_OK;
}

static cairn_status match_regex(crn_run *run, const crn_pretokenizer *step, crn_piece piece) {
  crn_regex_walk walk;
  size_t last = 0;
  bool found;
  run->matches.size = 0;
  crn_regex_walk_begin(&walk, step->regex, run->room, run->text.bytes.data + piece.begin, piece.end - piece.begin);
  for (;;) {
    size_t begin, end;
    CRN_TRY(crn_regex_walk_next(&walk, &found, &begin, &end));
    if (!found) break;
    if (last != begin) CRN_TRY(add_match(run, piece.begin + last, piece.begin + begin, step->invert));
    CRN_TRY(add_match(run, piece.begin + begin, piece.begin + end, !step->invert));
    last = end;
  }
  return piece.begin + last < piece.end ? add_match(run, piece.begin + last, piece.end, step->invert) : CAIRN_OK;
}

static cairn_status find_matches(crn_run *run, const crn_pretokenizer *step, crn_piece piece) {
  switch (step->kind) {
    case CRN_PRE_WHITESPACE:
      return match_words(run, piece);
    case CRN_PRE_FIXED_LENGTH:
      return match_fixed(run, step, piece);
    case CRN_PRE_SCRIPTS:
      return crn_match_scripts(run, piece);
    default:
      return step->regex ? match_regex(run, step, piece) : match_chars(run, step, piece);
  }
}

static cairn_status split_pieces(crn_run *run, const crn_pretokenizer *step) {
  run->spare_pieces.size = 0;
  for (size_t i = 0; i < run->pieces.size; i++) {
    CRN_TRY(find_matches(run, step, run->pieces.items[i]));
    CRN_TRY(crn_split_emit(run, &run->matches, step->behavior, &run->spare_pieces));
  }
  crn_piece_vec swap = run->pieces;
  run->pieces = run->spare_pieces;
  run->spare_pieces = swap;
  return CAIRN_OK;
}

// --- changing the text -------------------------------------------------------------------------------------------------------

/// Puts `mark` in front of the piece; it counts as coming from where the first character comes from.
static cairn_status prepend(crn_run *run, crn_piece piece, const char *mark, size_t bytes) {
  if (run->spare.tracked) CRN_TRY(crn_text_put_origins(&run->spare, run->text.origins.items[piece.begin], bytes));
  return crn_str_append(&run->spare.bytes, mark, bytes);
}

static cairn_status add_prefix_space(crn_run *run) {
  crn_text_clear(&run->spare);
  for (size_t i = 0; i < run->pieces.size; i++) {
    crn_piece *p = &run->pieces.items[i];
    size_t begin = run->spare.bytes.size;
    if (run->text.bytes.data[p->begin] != ' ') CRN_TRY(prepend(run, *p, " ", 1));
    CRN_TRY(crn_text_copy(&run->spare, &run->text, p->begin, p->end));
    *p = (crn_piece){begin, run->spare.bytes.size, p->shift};
  }
  crn_run_swap_texts(run);
  return CAIRN_OK;
}

static cairn_status map_bytes(crn_run *run) {
  crn_text_clear(&run->spare);
  for (size_t i = 0; i < run->pieces.size; i++) {
    crn_piece *p = &run->pieces.items[i];
    size_t begin = run->spare.bytes.size;
    CRN_TRY(crn_str_reserve(&run->spare.bytes, 2 * (p->end - p->begin)));
    for (size_t at = p->begin; at < p->end; at++) {
      char code[4];
      int n = crn_utf8_encode(crn_byte_char((unsigned char)run->text.bytes.data[at]), code);
      CRN_TRY(crn_str_append(&run->spare.bytes, code, (size_t)n));
      if (run->spare.tracked) CRN_TRY(crn_text_put_origins(&run->spare, run->text.origins.items[at], (size_t)n));
    }
    *p = (crn_piece){begin, run->spare.bytes.size, p->shift};
  }
  crn_run_swap_texts(run);
  return CAIRN_OK;
}

static cairn_status byte_level(crn_run *run, const crn_pretokenizer *step) {
  if (step->add_prefix_space) CRN_TRY(add_prefix_space(run));
  if (run->raw) return CAIRN_OK;
  if (step->use_regex) CRN_TRY(split_pieces(run, step));
  return map_bytes(run);
}

static cairn_status metaspace_piece(crn_run *run, const crn_pretokenizer *step, crn_piece *p, const char *mark, size_t mark_bytes) {
  const char *text = run->text.bytes.data;
  size_t begin = run->spare.bytes.size;
  uint32_t first;
  crn_code_at(text + p->begin, &first);
  if (first == ' ') first = step->code;
  bool wanted = step->scheme == CRN_PREPEND_ALWAYS || (step->scheme == CRN_PREPEND_FIRST && p->shift == 0);
  if (wanted && first != step->code) CRN_TRY(prepend(run, *p, mark, mark_bytes));
  for (size_t at = p->begin, from = at; at <= p->end; at++) {
    if (at < p->end && text[at] != ' ') continue;
    CRN_TRY(crn_text_copy(&run->spare, &run->text, from, at));
    from = at + 1;
    if (at == p->end) break;
    crn_rewrite r = crn_rewrite_begin(&run->text, (crn_piece){at, at + 1, p->shift}, 0, &run->spare);
    CRN_TRY(crn_rewrite_bytes(&r, mark, mark_bytes, 0));
  }
  *p = (crn_piece){begin, run->spare.bytes.size, p->shift};
  return CAIRN_OK;
}

static cairn_status metaspace(crn_run *run, const crn_pretokenizer *step) {
  char mark[4];
  size_t mark_bytes = (size_t)crn_utf8_encode(step->code, mark);
  crn_text_clear(&run->spare);
  for (size_t i = 0; i < run->pieces.size; i++) CRN_TRY(metaspace_piece(run, step, &run->pieces.items[i], mark, mark_bytes));
  crn_run_swap_texts(run);
  if (!step->split) return CAIRN_OK;
  crn_pretokenizer split = {.kind = CRN_PRE_DELIMITER, .code = step->code, .behavior = CRN_BEHAVIOR_MERGED_WITH_NEXT};
  return split_pieces(run, &split);
}

static cairn_status bert(crn_run *run) {
  crn_pretokenizer spaces = {.kind = CRN_PRE_SPACES, .behavior = CRN_BEHAVIOR_REMOVED};
  crn_pretokenizer punctuation = {.kind = CRN_PRE_PUNCTUATION, .behavior = CRN_BEHAVIOR_ISOLATED};
  CRN_TRY(split_pieces(run, &spaces));
  return split_pieces(run, &punctuation);
}

cairn_status crn_pretokenizers_run(crn_run *run) {
  const cairn_tokenizer *t = run->tokenizer;
  size_t n = run->raw ? t->n_raw_steps : t->n_pretokenizers;
  for (size_t i = 0; i < n; i++) {
    const crn_pretokenizer *step = &t->pretokenizers[i];
    switch (step->kind) {
      case CRN_PRE_BYTE_LEVEL:
        CRN_TRY(byte_level(run, step));
        break;
      case CRN_PRE_METASPACE:
        CRN_TRY(metaspace(run, step));
        break;
      case CRN_PRE_BERT:
        CRN_TRY(bert(run));
        break;
      default:
        CRN_TRY(split_pieces(run, step));
    }
    CRN_TRY(crn_text_check_size(run->text.bytes.size));
  }
  return CAIRN_OK;
}
