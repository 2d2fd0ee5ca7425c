#include "text/tokenizer/spec_families.h"

#include <math.h>
#include <string.h>

#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/sentencepiece.h"

static int32_t type_of(const crn_tokenizer_spec *s, size_t i) { return s->types ? s->types[i] : CRN_TOKEN_NORMAL; }

// --- respelled vocabularies --------------------------------------------------------------------------------------------------

/// Writes the new spelling of a token.
typedef cairn_status (*respell_fn)(const crn_tokenizer_spec *spec, size_t index, crn_str *out);

static cairn_status load_respelled(crn_build *build, const crn_tokenizer_spec *s, respell_fn respell) {
  crn_view *texts;
  crn_str text;
  CRN_TRY(crn_alloc_array(build->allocator, s->n_tokens, sizeof *texts, &texts));
  crn_str_initialize(&text, build->allocator);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < s->n_tokens && status == CAIRN_OK; i++) {
    crn_str_clear(&text);
    status = respell(s, i, &text);
    texts[i].bytes = text.size;
    if (status == CAIRN_OK) status = crn_arena_strndup(&build->tokenizer->arena, text.data, text.size, &texts[i].text);
  }
  if (status == CAIRN_OK) status = crn_vocab_load_list(build, texts, s->n_tokens);
  crn_str_deinitialize(&text);
  crn_free(build->allocator, texts, s->n_tokens * sizeof *texts);
  return status;
}

static cairn_status respell_wordpiece(const crn_tokenizer_spec *s, size_t i, crn_str *out) {
  const crn_token_text *t = &s->tokens[i];
  bool begins = t->bytes >= 3 && !memcmp(t->data, "\xe2\x96\x81", 3);
  bool is_name = t->bytes > 1 && t->data[0] == '[' && t->data[t->bytes - 1] == ']';
  if (begins) return crn_str_append(out, t->data + 3, t->bytes - 3);
  if (!is_name && type_of(s, i) == CRN_TOKEN_NORMAL) CRN_TRY(crn_str_puts(out, "##"));
  return crn_str_append(out, t->data, t->bytes);
}

cairn_status crn_spec_load_wordpieces(crn_build *build, const crn_tokenizer_spec *s) { return load_respelled(build, s, respell_wordpiece); }

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The byte at the front of an escaped text, and how much of it that is; 0 when the escape is cut off.
static size_t unescape(const char *p, size_t n, unsigned char *out) {
  *out = (unsigned char)*p;
  if (*p != '\\') return 1;
  if (n < 2) return 0;
  *out = p[1] == 't' ? '\t' : p[1] == 'n' ? '\n' : p[1] == 'r' ? '\r' : (unsigned char)p[1];
  if (p[1] != 'x') return 2;
  int high = n >= 4 ? hex_digit(p[2]) : -1, low = n >= 4 ? hex_digit(p[3]) : -1;
  *out = (unsigned char)(high * 16 + low);
  return high < 0 || low < 0 ? 0 : 4;
}

static cairn_status respell_escaped(const crn_tokenizer_spec *s, size_t i, crn_str *out) {
  const crn_token_text *t = &s->tokens[i];
  if (type_of(s, i) != CRN_TOKEN_NORMAL && type_of(s, i) != CRN_TOKEN_BYTE) return crn_str_append(out, t->data, t->bytes);
  for (size_t at = 0; at < t->bytes;) {
    unsigned char byte;
    char code[4];
    size_t used = unescape(t->data + at, t->bytes - at, &byte);
    if (!used) return CRN_FAIL(CORRUPT, "%s: token %zu ends in half an escaped byte", s->what, i);
    CRN_TRY(crn_str_append(out, code, (size_t)crn_utf8_encode(crn_byte_char(byte), code)));
    at += used;
  }
  return CAIRN_OK;
}

cairn_status crn_spec_load_escaped(crn_build *build, const crn_tokenizer_spec *s) { return load_respelled(build, s, respell_escaped); }

// --- models ---------------------------------------------------------------------------------------------------------------

cairn_status crn_spec_make_wordpiece(crn_build *build, const crn_tokenizer_spec *s) {
  crn_model *m = &build->tokenizer->model;
  crn_normalizer clean = {
      .kind = CRN_NORMALIZER_BERT, .clean = true, .chinese = true, .accents = s->strip_accents, .lowercase = s->lowercase};
  m->prefix = (crn_view){"##", 2};
  // Words that are longer are unknown to the models themselves.
  m->max_word_chars = 100;
  m->unk_token = m->unk_id >= 0 ? build->tokenizer->vocab.tokens[m->unk_id] : (crn_view){"[UNK]", 5};
  CRN_TRY(crn_normalizers_add(build, &clean));
  CRN_TRY(crn_pretokenizers_add_bert(build));
  CRN_TRY(crn_decoders_add_wordpiece(build));
  return crn_wordpiece_finish(build);
}

cairn_status crn_spec_make_greedy(crn_build *build) {
  crn_model *m = &build->tokenizer->model;
  m->prefix = (crn_view){"", 0};
  m->max_word_chars = SIZE_MAX;
  m->unk_token = (crn_view){"of a byte", 9};
  CRN_TRY(crn_pretokenizers_add_byte_level(build));
  CRN_TRY(crn_decoders_add_byte_level(build));
  return crn_wordpiece_finish(build);
}

static bool is_piece(int32_t type) { return type == CRN_TOKEN_NORMAL || type == CRN_TOKEN_USER_DEFINED || type == CRN_TOKEN_UNUSED; }

static cairn_status make_tries(crn_build *build, const crn_tokenizer_spec *s, crn_sentencepiece *sp) {
  crn_arena *arena = &build->tokenizer->arena;
  const crn_view *tokens = build->tokenizer->vocab.tokens;
  crn_trie_key *keys;
  size_t n = 0;
  CRN_TRY(crn_alloc_array(build->allocator, s->n_tokens, sizeof *keys, &keys));
  for (size_t i = 0; i < s->n_tokens; i++) {
    if (is_piece(type_of(s, i))) keys[n++] = (crn_trie_key){tokens[i].text, (uint32_t)tokens[i].bytes, (int32_t)i};
  }
  cairn_status status = crn_trie_build(&build->tokenizer->model.trie, arena, keys, n);
  n = 0;
  for (size_t i = 0; i < s->n_tokens; i++) {
    if (type_of(s, i) == CRN_TOKEN_USER_DEFINED) keys[n++] = (crn_trie_key){tokens[i].text, (uint32_t)tokens[i].bytes, (int32_t)i};
  }
  if (status == CAIRN_OK) status = crn_trie_build(&sp->user, arena, keys, n);
  crn_free(build->allocator, keys, s->n_tokens * sizeof *keys);
  return status;
}

// User-defined pieces score 0, which is better than anything else.
static cairn_status set_scores(crn_build *build, const crn_tokenizer_spec *s) {
  crn_model *m = &build->tokenizer->model;
  double *scores, least = INFINITY;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, s->n_tokens, sizeof *scores, &scores));
  for (size_t i = 0; i < s->n_tokens; i++) {
    scores[i] = type_of(s, i) == CRN_TOKEN_USER_DEFINED ? 0 : (double)s->scores[i];
    if (type_of(s, i) == CRN_TOKEN_NORMAL) least = fmin(least, scores[i]);
  }
  m->scores = scores;
  m->unk_score = least - 10;
  return CAIRN_OK;
}

cairn_status crn_spec_make_unigram(crn_build *build, const crn_tokenizer_spec *s) {
  crn_sentencepiece *sp;
  build->tokenizer->model.kind = CRN_MODEL_UNIGRAM;
  CRN_TRY(crn_arena_alloc(&build->tokenizer->arena, sizeof *sp, &sp));
  *sp = (crn_sentencepiece){.dummy_prefix = s->add_space_prefix, .remove_extra = s->remove_extra_whitespaces, .escape = true};
  if (s->charsmap_bytes) CRN_TRY(crn_charsmap_copy(build, s->charsmap, s->charsmap_bytes, s->what, &sp->map));
  CRN_TRY(make_tries(build, s, sp));
  CRN_TRY(set_scores(build, s));
  CRN_TRY(crn_normalizers_add(build, &(crn_normalizer){.kind = CRN_NORMALIZER_SENTENCEPIECE, .sp = sp}));
  return crn_decoders_add_sentencepiece(build, sp);
}
