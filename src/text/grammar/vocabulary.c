#include "text/grammar/vocabulary.h"

#include "base/str.h"
#include "text/tokenizer/token_bytes.h"

// --- UTF-8 ----------------------------------------------------------------------------------------------------------------

// 1, 2, 3: so many more bytes; 4 and up: the second byte is bounded, as behind E0, ED, F0, F4.
int crn_utf8_step(int state, unsigned char b) {
  switch (state) {
    case CRN_UTF8_START:
      if (b < 0x80) return CRN_UTF8_START;
      if (b >= 0xC2 && b <= 0xDF) return 1;
      if (b == 0xE0) return 4;
      if (b == 0xED) return 5;
      if (b >= 0xE1 && b <= 0xEF) return 2;
      if (b == 0xF0) return 6;
      if (b == 0xF4) return 7;
      return b >= 0xF1 && b <= 0xF3 ? 3 : CRN_UTF8_BROKEN;
    case 1:
    case 2:
    case 3:
      return b >= 0x80 && b <= 0xBF ? state - 1 : CRN_UTF8_BROKEN;
    case 4:
      return b >= 0xA0 && b <= 0xBF ? 1 : CRN_UTF8_BROKEN;
    case 5:
      return b >= 0x80 && b <= 0x9F ? 1 : CRN_UTF8_BROKEN;
    case 6:
      return b >= 0x90 && b <= 0xBF ? 2 : CRN_UTF8_BROKEN;
    case 7:
      return b >= 0x80 && b <= 0x8F ? 2 : CRN_UTF8_BROKEN;
    default:
      return CRN_UTF8_BROKEN;
  }
}

int crn_vocabulary_step(const crn_vocabulary *v, int state, int32_t token) {
  for (uint32_t i = token ? v->ends[token - 1] : 0; i < v->ends[token] && state != CRN_UTF8_BROKEN; i++) {
    state = crn_utf8_step(state, (unsigned char)v->bytes[i]);
  }
  return state;
}

// --- life -------------------------------------------------------------------------------------------------------------------

void crn_vocabulary_retain(crn_vocabulary *v) { atomic_fetch_add(&v->references, 1); }

void crn_vocabulary_release(crn_vocabulary *v) {
  if (!v || atomic_fetch_sub(&v->references, 1) != 1) return;
  cairn_context *context = v->context;
  const cairn_allocator *a = &context->allocator;
  crn_xg_vocab_destroy(v->xg);
  crn_free(a, v->bytes, v->n_bytes);
  crn_free(a, v->ends, (size_t)v->n * sizeof *v->ends);
  crn_free(a, v->valid, (size_t)v->n_words * CRN_UTF8_STATES * sizeof *v->valid);
  crn_free(a, v, sizeof *v);
  cairn_context_release(context);
}

static bool is_one_of(int32_t id, const int32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (ids[i] == id) return true;
  }
  return false;
}

static cairn_status read_tokens(crn_vocabulary *v, const cairn_tokenizer *tokenizer, const int32_t *shown, size_t n_shown) {
  const cairn_allocator *a = &v->context->allocator;
  crn_str all;
  crn_str_initialize(&all, a);
  cairn_status status = crn_alloc_array(a, (size_t)v->n, sizeof *v->ends, &v->ends);
  for (int64_t id = 0; id < v->n && status == CAIRN_OK; id++) {
    const bool is_there = id < cairn_tokenizer_vocab_size(tokenizer);
    if (is_there && (!cairn_tokenizer_is_special(tokenizer, (int32_t)id) || is_one_of((int32_t)id, shown, n_shown))) {
      status = crn_tokenizer_append_bytes(tokenizer, (int32_t)id, &all);
    }
    v->ends[id] = (uint32_t)all.size;
    if (all.size > INT32_MAX) status = CRN_FAIL(UNSUPPORTED, "the tokens have more than 2 GiB");
  }
  if (status == CAIRN_OK) status = crn_alloc(a, all.size, &v->bytes);
  if (status == CAIRN_OK) {
    v->n_bytes = all.size;
    for (size_t i = 0; i < all.size; i++) v->bytes[i] = all.data[i];
  }
  crn_str_deinitialize(&all);
  return status;
}

static cairn_status find_valid(crn_vocabulary *v) {
  CRN_TRY(crn_alloc_array(&v->context->allocator, (size_t)v->n_words * CRN_UTF8_STATES, sizeof *v->valid, &v->valid));
  for (int state = 0; state < CRN_UTF8_STATES; state++) {
    uint32_t *words = v->valid + (size_t)state * (size_t)v->n_words;
    for (int64_t id = 0; id < v->n; id++) {
      if (crn_vocabulary_step(v, state, (int32_t)id) != CRN_UTF8_BROKEN) words[id / 32] |= 1u << id % 32;
    }
  }
  return CAIRN_OK;
}

cairn_status crn_vocabulary_create(cairn_context *context, const cairn_tokenizer *tokenizer, int64_t n, const int32_t *shown,
                                   size_t n_shown, crn_vocabulary **out) {
  crn_vocabulary *v;
  *out = NULL;
  CRN_TRY(crn_tokenizer_check_bytes(tokenizer));
  if (n <= 0) n = cairn_tokenizer_vocab_size(tokenizer);
  if (n > INT32_MAX / 2) return CRN_FAIL(INVALID_ARGUMENT, "a vocabulary of %lld tokens", (long long)n);
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *v, &v));
  cairn_context_retain(context);
  v->context = context;
  v->references = 1;
  v->n = n;
  v->n_words = (n + 31) / 32;
  cairn_status status = read_tokens(v, tokenizer, shown, n_shown);
  if (status == CAIRN_OK) status = find_valid(v);
  if (status != CAIRN_OK) {
    crn_vocabulary_release(v);
    return status;
  }
  *out = v;
  return CAIRN_OK;
}
