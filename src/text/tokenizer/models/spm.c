// SentencePiece's byte pair encoding without a merge list: of all neighbours whose joined text is a token, the pair with
// the best score is joined first.
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/heap.h"
#include "text/tokenizer/sentencepiece.h"

static cairn_status offer(crn_run *run, const char *text, int32_t left) {
  const crn_symbol *a = &run->symbols.items[left];
  if (a->next < 0) return CAIRN_OK;
  const cairn_tokenizer *t = run->tokenizer;
  const crn_symbol *b = &run->symbols.items[a->next];
  uint32_t bytes = a->bytes + b->bytes;
  if (bytes > (uint32_t)t->vocab.max_bytes) return CAIRN_OK;
  int32_t id = crn_vocab_id(&t->vocab, text + a->begin, bytes);
  if (id < 0) return CAIRN_OK;
  if (t->model.sp) {
    int32_t type = t->model.sp->types[id];
    if (a->id == CRN_SYMBOL_FROZEN || b->id == CRN_SYMBOL_FROZEN) return CAIRN_OK;
    if (type != CRN_TOKEN_NORMAL && type != CRN_TOKEN_USER_DEFINED && type != CRN_TOKEN_UNUSED) return CAIRN_OK;
    if (type == CRN_TOKEN_UNUSED) run->splits.items[id] = (int32_t)a->bytes;
  }
  return crn_heap_push(run, (crn_candidate){.score = t->model.float_scores[id], .position = left, .id = id, .bytes = bytes});
}

static cairn_status make_symbols(crn_run *run, const char *text, size_t bytes) {
  run->symbols.size = 0;
  for (size_t at = 0; at < bytes;) {
    int32_t n = (int32_t)run->symbols.size;
    uint32_t used = (uint32_t)crn_code_bytes((unsigned char)text[at]);
    crn_symbol s = {.previous = n - 1, .next = at + used < bytes ? n + 1 : -1, .begin = (uint32_t)at, .bytes = used};
    CRN_TRY(crn_vec_push(run->allocator, &run->symbols, s));
    at += used;
  }
  return CAIRN_OK;
}

cairn_status crn_spm_merge(crn_run *run, const char *text) {
  crn_symbol *s = run->symbols.items;
  crn_candidate c;
  run->heap.size = 0;
  for (size_t i = 0; i + 1 < run->symbols.size; i++) CRN_TRY(offer(run, text, (int32_t)i));
  while (crn_heap_pop(run, &c)) {
    crn_symbol *left = &s[c.position];
    if (!left->bytes || left->next < 0) continue;
    crn_symbol *right = &s[left->next];
    // One of both may have grown since the pair was offered.
    if (left->bytes + right->bytes != c.bytes) continue;
    left->bytes = c.bytes;
    left->next = right->next;
    right->bytes = 0;
    if (left->next >= 0) s[left->next].previous = c.position;
    if (left->previous >= 0) CRN_TRY(offer(run, text, left->previous));
    CRN_TRY(offer(run, text, c.position));
  }
  return CAIRN_OK;
}

static cairn_status push_symbol(crn_run *run, const char *text, const crn_symbol *s) {
  const cairn_tokenizer *t = run->tokenizer;
  int32_t id = crn_vocab_id(&t->vocab, text + s->begin, s->bytes);
  if (id >= 0) return crn_run_push_part(run, id, s->begin, s->begin + s->bytes);
  for (uint32_t i = 0; i < s->bytes; i++) {
    int32_t byte = t->model.byte_ids[(unsigned char)text[s->begin + i]];
    if (byte < 0) byte = t->model.unk_id;
    if (byte >= 0) CRN_TRY(crn_run_push_part(run, byte, s->begin, s->begin + s->bytes));
  }
  return CAIRN_OK;
}

cairn_status crn_spm_tokenize(crn_run *run, const char *text, size_t bytes) {
  CRN_TRY(make_symbols(run, text, bytes));
  CRN_TRY(crn_spm_merge(run, text));
  for (size_t i = 0; i < run->symbols.size; i++) {
    if (run->symbols.items[i].bytes) CRN_TRY(push_symbol(run, text, &run->symbols.items[i]));
  }
  return CAIRN_OK;
}
