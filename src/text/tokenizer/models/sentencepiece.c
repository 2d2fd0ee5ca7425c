// The models of a SentencePiece file: Unigram, BPE, words, characters. Sums of scores are rounded where its own library
// rounds them, because equal sums decide between cuts of a text.
#include <string.h>

#include "text/tokenizer/sentencepiece.h"

// --- what the models give out ----------------------------------------------------------------------------------------------

// Unknown pieces side by side are one; with byte pieces each is spelled in bytes.
static cairn_status push(crn_run *run, const char *text, size_t begin, size_t bytes, int32_t id, bool *in_out_unknown) {
  const crn_model *m = &run->tokenizer->model;
  bool unknown = id < 0 || id == m->unk_id, joined = unknown && *in_out_unknown;
  *in_out_unknown = unknown;
  if (!unknown) return crn_run_push_part(run, id, begin, begin + bytes);
  if (m->sp->byte_fallback) {
    for (size_t i = 0; i < bytes; i++) {
      CRN_TRY(crn_run_push_part(run, m->byte_ids[(unsigned char)text[begin + i]], begin, begin + bytes));
    }
    return CAIRN_OK;
  }
  if (!joined) return crn_run_push_part(run, m->unk_id, begin, begin + bytes);
  crn_run_extend(run, begin + bytes);
  return CAIRN_OK;
}

enum { LARGEST_SUM = 100000 };

// The id of a piece that may come out; unused, control and byte pieces are unknown text.
static int32_t find_used(const cairn_tokenizer *t, const char *text, size_t bytes) {
  int32_t id = crn_vocab_id(&t->vocab, text, bytes);
  if (id < 0) return -1;
  uint8_t type = t->model.sp->types[id];
  return type == CRN_TOKEN_NORMAL || type == CRN_TOKEN_USER_DEFINED ? id : -1;
}

// --- Unigram ------------------------------------------------------------------------------------------------------------------

// Sums are single numbers there; a double holds each of them exactly.
static void offer(crn_best *target, float score, int32_t id, size_t start) {
  if (target->start < 0 || score > (float)target->score) *target = (crn_best){score, id, (int32_t)start};
}

static void offer_pieces(const crn_sentencepiece *sp, crn_best *best, const char *text, size_t bytes, size_t start, size_t *in_out_reached,
                         bool *out_whole_char) {
  size_t char_bytes = (size_t)crn_code_bytes((unsigned char)text[start]);
  uint32_t node = 0;
  for (size_t at = start; at < bytes; at++) {
    node = crn_trie_step(&sp->pieces, node, (unsigned char)text[at]);
    if (!node) return;
    int32_t id = sp->pieces.nodes[node].value;
    size_t length = at + 1 - start;
    if (id < 0 || sp->types[id] == CRN_TOKEN_UNUSED) continue;
    float score = sp->scores[id];
    if (sp->types[id] == CRN_TOKEN_USER_DEFINED) score = (float)(0.1 * ((double)length - 1));
    if (at + 1 > *in_out_reached) *in_out_reached = at + 1;
    offer(&best[at + 1], score + (float)best[start].score, id, start);
    *out_whole_char = *out_whole_char || length == char_bytes;
  }
}

// Only differences between sums matter, so large ones are made small again before they lose their fractions.
static void start_sums_anew(crn_best *best, size_t start, size_t reached) {
  float offset = (float)best[start].score;
  for (size_t i = start; i <= reached; i++) {
    if (i == start || best[i].start >= 0) best[i].score = (float)best[i].score - offset;
  }
}

static cairn_status find_best(crn_run *run, const char *text, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  float unknown_score = m->sp->min_score - 10.0f;
  run->best.size = 0;
  CRN_TRY(crn_vec_reserve(run->allocator, &run->best, bytes + 1));
  crn_best *best = run->best.items;
  for (size_t i = 0; i <= bytes; i++) best[i] = (crn_best){.start = -1};
  size_t reached = 0;
  for (size_t start = 0; start < bytes; start += (size_t)crn_code_bytes((unsigned char)text[start])) {
    size_t next = start + (size_t)crn_code_bytes((unsigned char)text[start]);
    bool whole_char = false;
    if (best[start].score < -LARGEST_SUM || best[start].score > LARGEST_SUM) start_sums_anew(best, start, reached);
    if (m->sp->pieces.nodes) offer_pieces(m->sp, best, text, bytes, start, &reached, &whole_char);
    if (whole_char) continue;
    if (next > reached) reached = next;
    offer(&best[next], unknown_score + (float)best[start].score, m->unk_id, start);
  }
  return CAIRN_OK;
}

static cairn_status unigram(crn_run *run, const char *text, size_t bytes) {
  bool unknown = false;
  size_t begin = 0;
  CRN_TRY(find_best(run, text, bytes));
  // The path is known from its end.
  run->codes.size = 0;
  for (int32_t end = (int32_t)bytes; end > 0; end = run->best.items[end].start) CRN_TRY(crn_vec_push(run->allocator, &run->codes, end));
  for (size_t i = run->codes.size; i-- > 0;) {
    size_t end = (size_t)run->codes.items[i];
    CRN_TRY(push(run, text, begin, end - begin, run->best.items[end].id, &unknown));
    begin = end;
  }
  return CAIRN_OK;
}

// --- BPE ------------------------------------------------------------------------------------------------------------------------

static cairn_status make_symbols(crn_run *run, const char *text, size_t bytes) {
  run->symbols.size = 0;
  for (size_t at = 0, used; at < bytes; at += used) {
    int32_t n = (int32_t)run->symbols.size;
    bool user;
    used = crn_sentencepiece_step(run->tokenizer->model.sp, text + at, bytes - at, &user);
    crn_symbol s = {.id = user ? CRN_SYMBOL_FROZEN : 0, .previous = n - 1, .next = at + used < bytes ? n + 1 : -1};
    s.begin = (uint32_t)at;
    s.bytes = (uint32_t)used;
    CRN_TRY(crn_vec_push(run->allocator, &run->symbols, s));
  }
  return CAIRN_OK;
}

// An unused piece is taken apart again into what it was joined of, as often as needed. The parts still to come lie on a
// stack of their ends.
static cairn_status push_symbol(crn_run *run, const char *text, const crn_symbol *s, bool *in_out_unknown) {
  const cairn_tokenizer *t = run->tokenizer;
  size_t begin = s->begin;
  run->codes.size = 0;
  CRN_TRY(crn_vec_push(run->allocator, &run->codes, (int32_t)(s->begin + s->bytes)));
  while (run->codes.size) {
    size_t end = (size_t)run->codes.items[run->codes.size - 1];
    int32_t id = crn_vocab_id(&t->vocab, text + begin, end - begin);
    bool unused = id >= 0 && t->model.sp->types[id] == CRN_TOKEN_UNUSED;
    int32_t left = unused ? run->splits.items[id] : 0;
    if (left > 0 && (size_t)left < end - begin) {
      CRN_TRY(crn_vec_push(run->allocator, &run->codes, (int32_t)begin + left));
      continue;
    }
    run->codes.size--;
    CRN_TRY(push(run, text, begin, end - begin, find_used(t, text + begin, end - begin), in_out_unknown));
    begin = end;
  }
  return CAIRN_OK;
}

static cairn_status clear_splits(crn_run *run) {
  size_t n = run->tokenizer->model.sp->has_unused ? (size_t)run->tokenizer->vocab.n_ids : 0;
  run->splits.size = 0;
  CRN_TRY(crn_vec_reserve(run->allocator, &run->splits, n));
  for (size_t i = 0; i < n; i++) run->splits.items[run->splits.size++] = 0;
  return CAIRN_OK;
}

static cairn_status bpe(crn_run *run, const char *text, size_t bytes) {
  bool unknown = false;
  CRN_TRY(clear_splits(run));
  CRN_TRY(make_symbols(run, text, bytes));
  CRN_TRY(crn_spm_merge(run, text));
  for (size_t i = 0; i < run->symbols.size; i++) {
    if (run->symbols.items[i].bytes) CRN_TRY(push_symbol(run, text, &run->symbols.items[i], &unknown));
  }
  return CAIRN_OK;
}

// --- words and characters -----------------------------------------------------------------------------------------------------

static cairn_status words(crn_run *run, const char *text, size_t bytes) {
  bool unknown = false;
  for (size_t begin = 0, end; begin < bytes; begin = end) {
    end = begin + 1;
    while (end < bytes && (bytes - end < 3 || memcmp(text + end, "\xe2\x96\x81", 3) != 0)) end++;
    CRN_TRY(push(run, text, begin, end - begin, find_used(run->tokenizer, text + begin, end - begin), &unknown));
  }
  return CAIRN_OK;
}

static cairn_status characters(crn_run *run, const char *text, size_t bytes) {
  const cairn_tokenizer *t = run->tokenizer;
  bool unknown = false;
  for (size_t at = 0, used; at < bytes; at += used) {
    used = crn_sentencepiece_step(t->model.sp, text + at, bytes - at, NULL);
    CRN_TRY(push(run, text, at, used, find_used(t, text + at, used), &unknown));
  }
  return CAIRN_OK;
}

cairn_status crn_sentencepiece_tokenize(crn_run *run, const char *text, size_t bytes) {
  switch (run->tokenizer->model.sp->algorithm) {
    case CRN_SP_BPE:
      return bpe(run, text, bytes);
    case CRN_SP_WORD:
      return words(run, text, bytes);
    case CRN_SP_CHAR:
      return characters(run, text, bytes);
    default:
      return unigram(run, text, bytes);
  }
}
