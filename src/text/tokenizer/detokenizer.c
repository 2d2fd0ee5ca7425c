// Streamed decoding: the same stages as cairn_tokenizer_decode, fed one id at a time.
#include "text/tokenizer/internal.h"

struct cairn_detokenizer {
  cairn_tokenizer *tokenizer;
  bool skip_special_tokens;
  crn_decoding decoding;
};

cairn_status cairn_detokenizer_create(cairn_tokenizer *tokenizer, bool skip_special_tokens, cairn_detokenizer **out) {
  CRN_REQUIRE(out);
  *out = NULL;
  CRN_REQUIRE(tokenizer);
  cairn_detokenizer *d;
  CRN_TRY(crn_alloc_zero(tokenizer->allocator, sizeof *d, &d));
  cairn_status status = crn_decoding_initialize(&d->decoding, tokenizer);
  if (status != CAIRN_OK) {
    crn_free(tokenizer->allocator, d, sizeof *d);
    return status;
  }
  cairn_tokenizer_retain(tokenizer);
  d->tokenizer = tokenizer;
  d->skip_special_tokens = skip_special_tokens;
  *out = d;
  return CAIRN_OK;
}

static void give(cairn_detokenizer *d, const char **out_text, size_t *out_bytes) {
  *out_text = d->decoding.out.data;
  *out_bytes = d->decoding.out.size;
}

cairn_status cairn_detokenizer_push(cairn_detokenizer *d, int32_t id, const char **out_text, size_t *out_bytes) {
  CRN_REQUIRE(d);
  CRN_REQUIRE(out_text);
  CRN_REQUIRE(out_bytes);
  const cairn_tokenizer *t = d->tokenizer;
  const crn_token_entry *e = id >= 0 && id < t->n_entries ? &t->entries[id] : NULL;
  cairn_status status = CAIRN_OK;
  crn_str_clear(&d->decoding.out);
  if (e && e->token.text && !(d->skip_special_tokens && e->skipped))
    status = crn_decoding_push(&d->decoding, e->decoded.text, e->decoded.bytes);
  give(d, out_text, out_bytes);
  return status;
}

cairn_status cairn_detokenizer_finish(cairn_detokenizer *d, const char **out_text, size_t *out_bytes) {
  CRN_REQUIRE(d);
  CRN_REQUIRE(out_text);
  CRN_REQUIRE(out_bytes);
  crn_str_clear(&d->decoding.out);
  cairn_status status = crn_decoding_finish(&d->decoding);
  give(d, out_text, out_bytes);
  return status;
}

void cairn_detokenizer_destroy(cairn_detokenizer *d) {
  if (!d) return;
  cairn_tokenizer *tokenizer = d->tokenizer;
  crn_decoding_deinitialize(&d->decoding);
  crn_free(tokenizer->allocator, d, sizeof *d);
  cairn_tokenizer_release(tokenizer);
}
