// Byte pair encoding: the characters of a word are joined pair by pair, the best ranked pair first.
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/log.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/bpe.h"
#include "text/tokenizer/models/heap.h"

// --- loading ---------------------------------------------------------------------------------------------------------

cairn_status crn_bpe_begin_merges(crn_build *build, size_t n_merges) {
  crn_model *m = &build->tokenizer->model;
  if (n_merges > CRN_MAX_TOKEN_ID)
    return CRN_FAIL(UNSUPPORTED, "%s: %zu merges, at most %d are supported", build->what, n_merges, CRN_MAX_TOKEN_ID);
  m->n_pairs = 16;
  while (m->n_pairs < 2 * n_merges) m->n_pairs *= 2;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, m->n_pairs, sizeof *m->pairs, &m->pairs));
  for (size_t i = 0; i < m->n_pairs; i++) m->pairs[i].id = -1;
  return CAIRN_OK;
}

cairn_status crn_bpe_add_merge(crn_build *build, uint32_t rank, const char *left, size_t left_bytes, const char *right,
                               size_t right_bytes) {
  cairn_tokenizer *t = build->tokenizer;
  crn_model *m = &t->model;
  int32_t a = crn_vocab_id(&t->vocab, left, left_bytes), b = crn_vocab_id(&t->vocab, right, right_bytes);
  if (a < 0 || b < 0) {
    return CRN_FAIL(CORRUPT, "%s: merge %u: token '%.80s' is not in the vocabulary", build->what, (unsigned)rank, a < 0 ? left : right);
  }
  // The right part of a merge is a continuing piece, whose prefix does not show inside the result.
  if (m->prefix.bytes > right_bytes) {
    return CRN_FAIL(CORRUPT, "%s: merge %u: '%.80s' is shorter than the continuing prefix", build->what, (unsigned)rank, right);
  }
  // Merges are many and short, so the joined text normally needs no allocation.
  char room[256], *joined = room;
  size_t right_rest = right_bytes - m->prefix.bytes, bytes;
  if (!crn_add_size(left_bytes, right_rest, &bytes)) return CRN_FAIL(CORRUPT, "%s: merge %u is too long", build->what, (unsigned)rank);
  if (bytes > sizeof room) CRN_TRY(crn_alloc(build->allocator, bytes, &joined));
  memcpy(joined, left, left_bytes);
  memcpy(joined + left_bytes, right + m->prefix.bytes, right_rest);
  int32_t id = crn_vocab_id(&t->vocab, joined, bytes);
  if (joined != room) crn_free(build->allocator, joined, bytes);
  if (id < 0) return CRN_FAIL(CORRUPT, "%s: merge %u: '%.80s%.80s' is not in the vocabulary", build->what, (unsigned)rank, left, right);
  *crn_bpe_find_pair(m, a, b) = (crn_pair_slot){crn_bpe_pair_key(a, b), rank, id};
  return CAIRN_OK;
}

static cairn_status add_json_merge(crn_build *build, uint32_t rank, const json_t *merge) {
  if (json_is_array(merge) && json_array_size(merge) == 2) {
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_is_string(a) && json_is_string(b)) {
      return crn_bpe_add_merge(build, rank, json_string_value(a), json_string_length(a), json_string_value(b), json_string_length(b));
    }
  }
  if (json_is_string(merge)) {
    const char *text = json_string_value(merge), *end = text + json_string_length(merge);
    const char *space = memchr(text, ' ', (size_t)(end - text));
    if (space && !memchr(space + 1, ' ', (size_t)(end - space - 1))) {
      return crn_bpe_add_merge(build, rank, text, (size_t)(space - text), space + 1, (size_t)(end - space - 1));
    }
  }
  return CRN_FAIL(CORRUPT, "%s: merge %u must be \"left right\" or [\"left\", \"right\"]", build->what, (unsigned)rank);
}

static cairn_status load_merges(crn_build *build, const json_t *list) {
  if (!json_is_array(list)) return CRN_FAIL(CORRUPT, "%s: 'merges' must be an array", build->what);
  CRN_TRY(crn_bpe_begin_merges(build, json_array_size(list)));
  uint32_t rank = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *merge = json_array_get(list, i);
    // A list of lines may carry the heading of the merges.txt it came from.
    if (json_is_string(merge) && crn_starts_with(json_string_value(merge), "#version")) continue;
    CRN_TRY(add_json_merge(build, rank++, merge));
  }
  return CAIRN_OK;
}

static cairn_status load_flag(const json_t *json, const char *where, const char *key, bool *out) {
  const json_t *v = json_object_get(json, key);
  return !v || json_is_null(v) ? CAIRN_OK : crn_json_bool(json, where, key, true, out);
}

static cairn_status check_dropout(crn_build *build, const json_t *json) {
  const json_t *v = json_object_get(json, "dropout");
  if (!v || json_is_null(v)) return CAIRN_OK;
  if (!json_is_number(v) || json_number_value(v) < 0 || json_number_value(v) > 1) {
    return CRN_FAIL(CORRUPT, "%s: 'dropout' must be null or a number from 0 to 1", build->what);
  }
  if (json_number_value(v) > 0) {
    CRN_WARN(build->context, "%s: dropout %g is for training and is not applied", build->what, json_number_value(v));
  }
  return CAIRN_OK;
}

void crn_bpe_finish(cairn_tokenizer *t) {
  crn_model *m = &t->model;
  for (uint32_t code = 0; code < 0x800; code++) {
    char text[4];
    int n = crn_utf8_encode(code, text);
    m->short_ids[code] = crn_vocab_id(&t->vocab, text, (size_t)n);
  }
  crn_model_find_bytes(t);
}

cairn_status crn_bpe_load(crn_build *build, const json_t *json) {
  cairn_tokenizer *t = build->tokenizer;
  crn_model *m = &t->model;
  char where[160];
  snprintf(where, sizeof where, "%.120s: BPE model", build->what);
  m->kind = CRN_MODEL_BPE;
  CRN_TRY(check_dropout(build, json));
  CRN_TRY(crn_build_view(build, json, where, "unk_token", false, &m->unk_token));
  CRN_TRY(crn_build_view(build, json, where, "continuing_subword_prefix", false, &m->prefix));
  CRN_TRY(crn_build_view(build, json, where, "end_of_word_suffix", false, &m->suffix));
  CRN_TRY(load_flag(json, where, "fuse_unk", &m->fuse_unk));
  CRN_TRY(load_flag(json, where, "byte_fallback", &m->byte_fallback));
  CRN_TRY(load_flag(json, where, "ignore_merges", &m->ignore_merges));
  CRN_TRY(crn_vocab_load_map(build, json_object_get(json, "vocab")));
  CRN_TRY(load_merges(build, json_object_get(json, "merges")));
  if (m->unk_token.text) m->unk_id = crn_vocab_id(&t->vocab, m->unk_token.text, m->unk_token.bytes);
  crn_bpe_finish(t);
  return CAIRN_OK;
}

// --- encoding --------------------------------------------------------------------------------------------------------

static cairn_status add_symbol(crn_run *run, int32_t id, uint32_t bytes) {
  int32_t n = (int32_t)run->symbols.size;
  crn_symbol s = {.id = id, .previous = n - 1, .next = -1, .bytes = bytes};
  if (n) run->symbols.items[n - 1].next = n;
  return crn_vec_push(run->allocator, &run->symbols, s);
}

// The character with the prefix and suffix its place in the word asks for; plain characters need no copy.
static cairn_status spell(crn_run *run, const char *text, size_t n, bool first, bool last, const char **out_text, size_t *out_bytes) {
  const crn_model *m = &run->tokenizer->model;
  bool prefixed = !first && m->prefix.bytes, suffixed = last && m->suffix.bytes;
  *out_text = text;
  *out_bytes = n;
  if (!prefixed && !suffixed) return CAIRN_OK;
  crn_str_clear(&run->word);
  if (prefixed) CRN_TRY(crn_str_append(&run->word, m->prefix.text, m->prefix.bytes));
  CRN_TRY(crn_str_append(&run->word, text, n));
  if (suffixed) CRN_TRY(crn_str_append(&run->word, m->suffix.text, m->suffix.bytes));
  *out_text = run->word.data;
  *out_bytes = run->word.size;
  return CAIRN_OK;
}

static int32_t find_char(const cairn_tokenizer *t, const char *text, size_t n) {
  if (n == 1 && (unsigned char)text[0] < 0x80) return t->model.short_ids[(unsigned char)text[0]];
  if (n == 2 && (unsigned char)text[0] >= 0xc2 && (unsigned char)text[0] < 0xe0) {
    return t->model.short_ids[((unsigned char)text[0] & 0x1f) << 6 | ((unsigned char)text[1] & 0x3f)];
  }
  return crn_vocab_id(&t->vocab, text, n);
}

static bool all_bytes_known(const crn_model *m, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (m->byte_ids[(unsigned char)text[i]] < 0) return false;
  }
  return true;
}

// `text` is the character as spelled, which stands for `n_char` bytes of the word; `*in_out_unknown` counts the bytes of the
// unknown token that is due.
static cairn_status add_unknown(crn_run *run, const char *text, size_t n, size_t n_char, uint32_t *in_out_unknown) {
  const crn_model *m = &run->tokenizer->model;
  if (m->byte_fallback && all_bytes_known(m, text, n)) {
    for (size_t i = 0; i < n; i++) CRN_TRY(add_symbol(run, m->byte_ids[(unsigned char)text[i]], 1));
    return CAIRN_OK;
  }
  if (!m->unk_token.text) return CAIRN_OK;
  if (m->unk_id < 0) return CRN_FAIL(FAILED_PRECONDITION, "the unknown token '%.80s' is not in the vocabulary", m->unk_token.text);
  // Without fusing the unknown token before this one is complete; with fusing both stay one token.
  if (*in_out_unknown && !m->fuse_unk) {
    CRN_TRY(add_symbol(run, m->unk_id, *in_out_unknown));
    *in_out_unknown = 0;
  }
  *in_out_unknown += (uint32_t)n_char;
  return CAIRN_OK;
}

static cairn_status make_symbols(crn_run *run, const char *text, size_t bytes) {
  const cairn_tokenizer *t = run->tokenizer;
  uint32_t unknown = 0;  // bytes of an unknown token that is due, and may still take in more characters
  run->symbols.size = 0;
  for (size_t at = 0; at < bytes;) {
    size_t n = (size_t)crn_code_bytes((unsigned char)text[at]), spelled_bytes;
    const char *spelled;
    CRN_TRY(spell(run, text + at, n, at == 0, at + n == bytes, &spelled, &spelled_bytes));
    int32_t id = find_char(t, spelled, spelled_bytes);
    if (id >= 0) {
      if (unknown) CRN_TRY(add_symbol(run, t->model.unk_id, unknown));
      unknown = 0;
      CRN_TRY(add_symbol(run, id, (uint32_t)n));
    } else {
      CRN_TRY(add_unknown(run, spelled, spelled_bytes, n, &unknown));
    }
    at += n;
  }
  return unknown ? add_symbol(run, t->model.unk_id, unknown) : CAIRN_OK;
}

static cairn_status offer_pair(crn_run *run, int32_t left) {
  const crn_symbol *s = &run->symbols.items[left];
  if (s->next < 0) return CAIRN_OK;
  const crn_pair_slot *p = crn_bpe_find_pair(&run->tokenizer->model, s->id, run->symbols.items[s->next].id);
  if (p->id < 0) return CAIRN_OK;
  return crn_heap_push(run, (crn_candidate){.rank = p->rank, .position = left, .id = p->id});
}

static cairn_status merge_symbols(crn_run *run) {
  crn_symbol *s = run->symbols.items;
  crn_candidate c;
  run->heap.size = 0;
  for (size_t i = 0; i + 1 < run->symbols.size; i++) CRN_TRY(offer_pair(run, (int32_t)i));
  while (crn_heap_pop(run, &c)) {
    crn_symbol *left = &s[c.position];
    if (!left->bytes || left->next < 0) continue;
    crn_symbol *right = &s[left->next];
    // One of both may have changed since the pair was offered.
    const crn_pair_slot *p = crn_bpe_find_pair(&run->tokenizer->model, left->id, right->id);
    if (p->id != c.id) continue;
    left->id = c.id;
    left->bytes += right->bytes;
    left->next = right->next;
    right->bytes = 0;
    if (left->next >= 0) s[left->next].previous = c.position;
    if (left->previous >= 0) CRN_TRY(offer_pair(run, left->previous));
    CRN_TRY(offer_pair(run, c.position));
  }
  return CAIRN_OK;
}

static cairn_status push_symbols(crn_run *run) {
  size_t at = 0;
  for (size_t i = 0; i < run->symbols.size; i++) {
    uint32_t n = run->symbols.items[i].bytes;
    if (n) CRN_TRY(crn_run_push_part(run, run->symbols.items[i].id, at, at + n));
    at += n;
  }
  return CAIRN_OK;
}

cairn_status crn_bpe_encode_bytes(crn_run *run, const char *text, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  run->symbols.size = 0;
  CRN_TRY(crn_vec_reserve(run->allocator, &run->symbols, bytes));
  for (size_t i = 0; i < bytes; i++) CRN_TRY(add_symbol(run, m->raw_ids[(unsigned char)text[i]], 1));
  CRN_TRY(merge_symbols(run));
  return push_symbols(run);
}

cairn_status crn_bpe_tokenize(crn_run *run, const char *text, size_t bytes) {
  const cairn_tokenizer *t = run->tokenizer;
  if (t->model.ignore_merges) {
    int32_t id = crn_vocab_id(&t->vocab, text, bytes);
    if (id >= 0) return crn_run_push_part(run, id, 0, bytes);
  }
  CRN_TRY(make_symbols(run, text, bytes));
  CRN_TRY(merge_symbols(run));
  return push_symbols(run);
}
