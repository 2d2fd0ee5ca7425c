// The bytes of a token by itself, for what works on tokens one by one: grammars.
#include <string.h>

#include "text/tokenizer/decoders.h"
#include "text/tokenizer/token_bytes.h"

static const char *const DECODER_NAMES[] = {
    [CRN_DECODER_WORDPIECE] = "WordPiece", [CRN_DECODER_CTC] = "CTC", [CRN_DECODER_BPE] = "BPEDecoder"};

// Whether a stage makes of a token something that depends on those before it, anywhere but at the beginning of a text.
static cairn_status check_decoder(const crn_decoder *d) {
  switch (d->kind) {
    case CRN_DECODER_WORDPIECE:
    case CRN_DECODER_CTC:
    case CRN_DECODER_BPE:
      return CRN_FAIL(UNSUPPORTED, "the tokens of this tokenizer have no bytes of their own: its decoder is %s", DECODER_NAMES[d->kind]);
    case CRN_DECODER_REPLACE:
      if (!d->literal.bytes)
        return CRN_FAIL(UNSUPPORTED, "the tokens of this tokenizer have no bytes of their own: its decoder replaces by a pattern");
      if (d->fused && d->literal.bytes > 1) {
        return CRN_FAIL(UNSUPPORTED, "the tokens of this tokenizer have no bytes of their own: its decoder replaces across tokens");
      }
      return CAIRN_OK;
    case CRN_DECODER_STRIP:
      if (d->fused && d->stop)
        return CRN_FAIL(UNSUPPORTED, "the tokens of this tokenizer have no bytes of their own: its decoder strips the end");
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
}

cairn_status crn_tokenizer_check_bytes(const cairn_tokenizer *t) {
  if (!t->has_decoder) {
    return CRN_FAIL(UNSUPPORTED,
                    "the tokens of this tokenizer have no bytes of their own: it has no decoder, so they are set apart by spaces");
  }
  for (size_t i = 0; i < t->n_decoders; i++) CRN_TRY(check_decoder(&t->decoders[i]));
  return CAIRN_OK;
}

static cairn_status replace_all(crn_str *text, crn_view from, const char *to, size_t to_bytes) {
  crn_str out;
  crn_str_initialize(&out, text->allocator);
  cairn_status status = crn_replace_all(&out, text->data, text->size, from, to, to_bytes);
  crn_str swap = *text;
  *text = out;
  crn_str_deinitialize(&swap);
  return status;
}

static cairn_status to_byte(crn_str *text, int byte) {
  crn_str_clear(text);
  return crn_str_putc(text, (char)byte);
}

// Characters of the byte-level alphabet become their bytes; a token with any other character stands for itself.
static cairn_status byte_level(crn_str *text) {
  size_t n = 0;
  for (size_t at = 0; at < text->size;) {
    uint32_t code;
    at += (size_t)crn_code_at(text->data + at, &code);
    if (crn_char_byte(code) < 0) return CAIRN_OK;
  }
  for (size_t at = 0; at < text->size; n++) {
    uint32_t code;
    at += (size_t)crn_code_at(text->data + at, &code);
    text->data[n] = (char)crn_char_byte(code);
  }
  text->size = n;
  text->data[n] = 0;
  return CAIRN_OK;
}

static void strip(crn_str *text, const crn_decoder *d) {
  char mark[4];
  size_t n = (size_t)crn_utf8_encode(d->code, mark), begin = 0, end = text->size;
  for (size_t i = 0; i < d->start && end - begin >= n && !memcmp(text->data + begin, mark, n); i++) begin += n;
  for (size_t i = 0; i < d->stop && end - begin >= n && !memcmp(text->data + end - n, mark, n); i++) end -= n;
  memmove(text->data, text->data + begin, end - begin);
  text->size = end - begin;
}

// `*done` when the token is a byte: no later stage changes one.
static cairn_status apply(const crn_decoder *d, crn_str *text, bool *done) {
  static const crn_view SENTENCEPIECE_MARK = {"\xe2\x96\x81", 3};
  char mark[4];
  int byte;
  switch (d->kind) {
    case CRN_DECODER_BYTE_LEVEL:
      *done = true;
      return byte_level(text);
    case CRN_DECODER_BYTE_FALLBACK:
      byte = crn_byte_of_token(text->data, text->size);
      *done = byte >= 0;
      return *done ? to_byte(text, byte) : CAIRN_OK;
    case CRN_DECODER_SENTENCEPIECE:
      byte = d->bytes ? crn_byte_of_token(text->data, text->size) : -1;
      *done = byte >= 0;
      return *done ? to_byte(text, byte) : replace_all(text, SENTENCEPIECE_MARK, " ", 1);
    case CRN_DECODER_METASPACE:
      return replace_all(text, (crn_view){mark, (size_t)crn_utf8_encode(d->code, mark)}, " ", 1);
    case CRN_DECODER_REPLACE:
      return replace_all(text, d->literal, d->content.text, d->content.bytes);
    case CRN_DECODER_STRIP:
      if (!d->fused) strip(text, d);
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
}

cairn_status crn_tokenizer_append_bytes(const cairn_tokenizer *t, int32_t id, crn_str *out) {
  const crn_token_entry *e = id >= 0 && id < t->n_entries ? &t->entries[id] : NULL;
  if (!e || !e->token.text) return CAIRN_OK;
  crn_str text;
  crn_str_initialize(&text, t->allocator);
  bool done = false;
  cairn_status status = crn_str_append(&text, e->decoded.text, e->decoded.bytes);
  for (size_t i = 0; i < t->n_decoders && status == CAIRN_OK && !done; i++) status = apply(&t->decoders[i], &text, &done);
  if (status == CAIRN_OK) status = crn_str_append(out, text.data, text.size);
  crn_str_deinitialize(&text);
  return status;
}

cairn_status cairn_tokenizer_token_bytes(const cairn_tokenizer *t, int32_t id, char *out_bytes, size_t capacity, size_t *out_n) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
  CRN_REQUIRE_SOME(out_bytes, capacity);
  CRN_REQUIRE(out_n);
  *out_n = 0;
  CRN_TRY(crn_tokenizer_check_bytes(t));
  if (id < 0 || id >= t->n_entries) return CRN_FAIL(OUT_OF_RANGE, "token %d is out of range [0, %d)", (int)id, (int)t->n_entries);
  crn_str text;
  crn_str_initialize(&text, t->allocator);
  cairn_status status = crn_tokenizer_append_bytes(t, id, &text);
  if (status == CAIRN_OK) {
    *out_n = text.size;
    if (capacity && text.size) memcpy(out_bytes, text.data, text.size < capacity ? text.size : capacity);
  }
  crn_str_deinitialize(&text);
  return status;
}
