#include "text/tokenizer/internal.h"

#include <string.h>

#include "base/context.h"

// --- life ------------------------------------------------------------------------------------------------------------

cairn_status crn_tokenizer_create_empty(cairn_context *context, cairn_tokenizer **out_tokenizer) {
  cairn_tokenizer *t;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *t, &t));
  atomic_init(&t->references, 1);
  cairn_context_retain(context);
  t->context = context;
  t->allocator = &context->allocator;
  crn_arena_initialize(&t->arena, t->allocator);
  crn_map_initialize(&t->added.by_content, t->allocator);
  *out_tokenizer = t;
  return CAIRN_OK;
}

void cairn_tokenizer_retain(cairn_tokenizer *t) { atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed); }

void cairn_tokenizer_release(cairn_tokenizer *t) {
  if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = t->context;
  for (size_t i = 0; i < t->regexes.size; i++) crn_regex_destroy(t->regexes.items[i]);
  crn_vec_free(t->allocator, &t->regexes);
  crn_map_deinitialize(&t->added.by_content);
  crn_arena_deinitialize(&t->arena);
  crn_free(&context->allocator, t, sizeof *t);
  cairn_context_release(context);
}

// Special is a matter of the text a decoder would get, so that a token of the vocabulary that reads like a special token
// is left out with it, and a special token whose normal form reads differently is not.
static void mark_skipped(cairn_tokenizer *t, crn_token_entry *e) {
  uint64_t index;
  e->skipped = crn_map_get(&t->added.by_content, e->decoded.text, e->decoded.bytes, &index) && t->added.tokens[index].special;
}

cairn_status crn_tokenizer_finish(crn_build *build) {
  cairn_tokenizer *t = build->tokenizer;
  t->tracked = crn_pretokenizers_need_origins(t);
  t->n_entries = t->vocab.n_ids;
  for (size_t i = 0; i < t->added.n_tokens; i++) {
    if (t->added.tokens[i].id >= t->n_entries) t->n_entries = t->added.tokens[i].id + 1;
  }
  CRN_TRY(crn_arena_array(&t->arena, (size_t)t->n_entries, sizeof *t->entries, &t->entries));
  for (int32_t i = 0; i < t->vocab.n_ids; i++) t->entries[i].token = t->entries[i].decoded = t->vocab.tokens[i];
  for (size_t i = 0; i < t->added.n_tokens; i++) {
    const crn_added_token *a = &t->added.tokens[i];
    t->entries[a->id] = (crn_token_entry){.token = a->content, .decoded = a->normalized_content, .special = a->special};
  }
  for (int32_t i = 0; i < t->n_entries; i++) {
    if (t->entries[i].token.text) mark_skipped(t, &t->entries[i]);
  }
  return CAIRN_OK;
}

// --- questions ---------------------------------------------------------------------------------------------------------

int32_t cairn_tokenizer_vocab_size(const cairn_tokenizer *t) { return t->n_entries; }

int32_t cairn_tokenizer_id(const cairn_tokenizer *t, const char *token) {
  uint64_t index;
  size_t n = token ? strlen(token) : 0;
  if (!token) return -1;
  if (crn_map_get(&t->added.by_content, token, n, &index)) return t->added.tokens[index].id;
  return crn_vocab_id(&t->vocab, token, n);
}

const char *cairn_tokenizer_token(const cairn_tokenizer *t, int32_t id) {
  return id >= 0 && id < t->n_entries ? t->entries[id].token.text : NULL;
}

bool cairn_tokenizer_is_special(const cairn_tokenizer *t, int32_t id) { return id >= 0 && id < t->n_entries && t->entries[id].special; }

// --- encoding ------------------------------------------------------------------------------------------------------------

// Malformed sequences become U+FFFD; well-formed text is used as it is.
static cairn_status clean_utf8(const char *text, size_t bytes, crn_str *room, const char **out_text, size_t *out_bytes) {
  const char *end = text + bytes, *copied = text;
  for (const char *p = text; p < end;) {
    if ((unsigned char)*p < 0x80) {
      p++;
      continue;
    }
    uint32_t code;
    bool valid;
    int n = crn_utf8_decode(p, end, &code, &valid);
    if (!valid) {
      CRN_TRY(crn_str_append(room, copied, (size_t)(p - copied)));
      CRN_TRY(crn_str_append(room, "\xef\xbf\xbd", 3));
      copied = p + n;
    }
    p += n;
  }
  if (copied != text) {
    CRN_TRY(crn_str_append(room, copied, (size_t)(end - copied)));
    *out_text = room->data;
    *out_bytes = room->size;
  } else {
    *out_text = bytes ? text : "";
    *out_bytes = bytes;
  }
  return CAIRN_OK;
}

static cairn_status encode_text(crn_run *run, const char *text, size_t bytes, int32_t type, crn_encoding_vec *encodings) {
  crn_str room;
  cairn_status status;
  if (bytes > CRN_MAX_TEXT_BYTES) return CRN_FAIL(INVALID_ARGUMENT, "text of %zu bytes, at most %d expected", bytes, CRN_MAX_TEXT_BYTES);
  if (!text && bytes) return CRN_FAIL(INVALID_ARGUMENT, "text is NULL");
  crn_str_initialize(&room, run->allocator);
  CRN_TRY_GOTO(crn_vec_push(run->allocator, encodings, ((crn_encoding){0})));
  crn_encoding *e = &encodings->items[encodings->size - 1];
  CRN_TRY_GOTO(clean_utf8(text, bytes, &room, &text, &bytes));
  CRN_TRY_GOTO(crn_run_encode(run, text, bytes, &e->ids));
  CRN_TRY_GOTO(crn_vec_reserve(run->allocator, &e->types, e->ids.size));
  for (size_t i = 0; i < e->ids.size; i++) e->types.items[e->types.size++] = type;
done:
  crn_str_deinitialize(&room);
  return status;
}

cairn_status cairn_tokenizer_encode_pair(const cairn_tokenizer *t, const char *text, size_t text_bytes, const char *pair, size_t pair_bytes,
                                         bool add_special_tokens, int32_t *out_ids, int32_t *out_type_ids, size_t capacity,
                                         size_t *out_count) {
  crn_run run;
  crn_encoding_vec encodings = {0};
  cairn_status status;
  if (!out_count || (capacity && !out_ids)) return CRN_FAIL(INVALID_ARGUMENT, "no place for the ids");
  *out_count = 0;
  CRN_TRY_GOTO(crn_run_initialize(&run, t));
  CRN_TRY_GOTO(encode_text(&run, text, text_bytes, 0, &encodings));
  if (pair) CRN_TRY_GOTO(encode_text(&run, pair, pair_bytes, 1, &encodings));
  CRN_TRY_GOTO(crn_postprocess(t, &encodings, add_special_tokens));
  const crn_encoding *e = &encodings.items[0];
  size_t n = e->ids.size < capacity ? e->ids.size : capacity;
  if (n) memcpy(out_ids, e->ids.items, n * sizeof *out_ids);
  if (n && out_type_ids) memcpy(out_type_ids, e->types.items, n * sizeof *out_type_ids);
  *out_count = e->ids.size;
done:
  crn_encodings_free(t->allocator, &encodings);
  crn_run_deinitialize(&run);
  return status;
}

cairn_status cairn_tokenizer_encode(const cairn_tokenizer *t, const char *text, size_t text_bytes, bool add_special_tokens,
                                    int32_t *out_ids, size_t capacity, size_t *out_count) {
  return cairn_tokenizer_encode_pair(t, text, text_bytes, NULL, 0, add_special_tokens, out_ids, NULL, capacity, out_count);
}

// --- decoding ------------------------------------------------------------------------------------------------------------

cairn_status cairn_tokenizer_decode(const cairn_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip_special_tokens, char *out_text,
                                    size_t capacity, size_t *out_bytes) {
  crn_decoding d;
  cairn_status status;
  if (!out_bytes || (capacity && !out_text) || (n_ids && !ids)) return CRN_FAIL(INVALID_ARGUMENT, "ids or the place for the text are NULL");
  *out_bytes = 0;
  CRN_TRY(crn_decoding_initialize(&d, t));
  for (size_t i = 0; i < n_ids; i++) {
    const crn_token_entry *e = ids[i] >= 0 && ids[i] < t->n_entries ? &t->entries[ids[i]] : NULL;
    if (!e || !e->token.text || (skip_special_tokens && e->skipped)) continue;
    CRN_TRY_GOTO(crn_decoding_push(&d, e->decoded.text, e->decoded.bytes));
  }
  CRN_TRY_GOTO(crn_decoding_finish(&d));
  if (d.out.size && capacity) memcpy(out_text, d.out.data, d.out.size < capacity ? d.out.size : capacity);
  *out_bytes = d.out.size;
done:
  crn_decoding_deinitialize(&d);
  return status;
}
