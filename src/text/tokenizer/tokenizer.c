#include "text/tokenizer/internal.h"

#include <string.h>

#include "base/context.h"
#include "text/tokenizer/models/words.h"

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
  t->added.by_content.borrows_keys = true;  // of the tokenizer's arena, as all texts of tokens
  *out_tokenizer = t;
  return CAIRN_OK;
}

void cairn_tokenizer_retain(cairn_tokenizer *t) {
  if (!t) return;
  atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
}

void cairn_tokenizer_release(cairn_tokenizer *t) {
  if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = t->context;
  for (size_t i = 0; i < t->regexes.size; i++) crn_regex_destroy(t->regexes.items[i]);
  crn_vec_free(t->allocator, &t->regexes);
  crn_map_deinitialize(&t->added.by_content);
  if (t->leftovers) crn_words_free(t->allocator, atomic_load(&t->leftovers->words));
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
  crn_leftovers *leftovers;
  CRN_TRY(crn_arena_alloc(&t->arena, sizeof *leftovers, &leftovers));
  atomic_init(&leftovers->words, NULL);
  t->leftovers = leftovers;
  crn_pretokenizers_plan(t);
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
  bool has_special = false;
  for (size_t i = 0; i < t->added.n_tokens && !has_special; i++) has_special = t->added.tokens[i].special;
  for (int32_t i = 0; i < t->n_entries && has_special; i++) {
    if (t->entries[i].token.text) mark_skipped(t, &t->entries[i]);
  }
  return CAIRN_OK;
}

// --- questions ---------------------------------------------------------------------------------------------------------

int32_t cairn_tokenizer_vocab_size(const cairn_tokenizer *t) { return t ? t->n_entries : 0; }

int32_t cairn_tokenizer_id(const cairn_tokenizer *t, const char *token) {
  if (!t) return -1;
  uint64_t index;
  size_t n = token ? strlen(token) : 0;
  if (!token) return -1;
  if (crn_map_get(&t->added.by_content, token, n, &index)) return t->added.tokens[index].id;
  return crn_vocab_id(&t->vocab, token, n);
}

const char *cairn_tokenizer_token(const cairn_tokenizer *t, int32_t id) {
  if (!t) return NULL;
  return id >= 0 && id < t->n_entries ? t->entries[id].token.text : NULL;
}

bool cairn_tokenizer_is_special(const cairn_tokenizer *t, int32_t id) {
  return t && id >= 0 && id < t->n_entries && t->entries[id].special;
}

// --- encoding ------------------------------------------------------------------------------------------------------------

static cairn_status encode(const cairn_tokenizer *t, const crn_view *text, const crn_view *pair, int flags, int32_t *out_ids,
                           int32_t *out_type_ids, size_t capacity, size_t *out_count) {
  crn_encoding_vec encodings = {0};
  crn_input inputs[2];
  cairn_status status;
  if (!out_count || (capacity && !out_ids)) return CRN_FAIL(INVALID_ARGUMENT, "no place for the ids");
  *out_count = 0;
  crn_inputs_initialize(t, inputs);
  CRN_TRY_GOTO(crn_input_read(&inputs[0], text->text, text->bytes));
  if (pair) CRN_TRY_GOTO(crn_input_read(&inputs[1], pair->text, pair->bytes));
  CRN_TRY_GOTO(crn_inputs_encode(t, inputs, pair ? 2 : 1, flags, &encodings));
  const crn_encoding *e = &encodings.items[0];
  size_t n = e->ids.size < capacity ? e->ids.size : capacity;
  if (n) memcpy(out_ids, e->ids.items, n * sizeof *out_ids);
  if (n && out_type_ids) memcpy(out_type_ids, e->types.items, n * sizeof *out_type_ids);
  *out_count = e->ids.size;
done:
  crn_encodings_free(t->allocator, &encodings);
  crn_inputs_deinitialize(inputs);
  return status;
}

cairn_status cairn_tokenizer_encode_pair(const cairn_tokenizer *t, const char *text, size_t text_bytes, const char *pair, size_t pair_bytes,
                                         bool add_special_tokens, int32_t *out_ids, int32_t *out_type_ids, size_t capacity,
                                         size_t *out_count) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
  const crn_view first = {text, text_bytes}, second = {pair, pair_bytes};
  int flags = add_special_tokens ? CRN_ENCODE_SPECIAL : 0;
  return encode(t, &first, pair ? &second : NULL, flags, out_ids, out_type_ids, capacity, out_count);
}

cairn_status cairn_tokenizer_encode(const cairn_tokenizer *t, const char *text, size_t text_bytes, bool add_special_tokens,
                                    int32_t *out_ids, size_t capacity, size_t *out_count) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
  return cairn_tokenizer_encode_pair(t, text, text_bytes, NULL, 0, add_special_tokens, out_ids, NULL, capacity, out_count);
}

cairn_status cairn_tokenizer_encode_whole(const cairn_tokenizer *t, const char *text, size_t text_bytes, bool add_special_tokens,
                                          int32_t *out_ids, size_t capacity, size_t *out_count) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
  const crn_view whole = {text, text_bytes};
  int flags = CRN_ENCODE_WHOLE | (add_special_tokens ? CRN_ENCODE_SPECIAL : 0);
  return encode(t, &whole, NULL, flags, out_ids, NULL, capacity, out_count);
}

// --- decoding ------------------------------------------------------------------------------------------------------------

cairn_status cairn_tokenizer_decode(const cairn_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip_special_tokens, char *out_text,
                                    size_t capacity, size_t *out_bytes) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
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
