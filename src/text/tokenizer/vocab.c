// The vocabulary of the model: texts to ids and back.
#include <string.h>

#include "base/checked.h"
#include "text/tokenizer/internal.h"

// FNV-1a folded to 32 bits: tokens are short.
static uint32_t hash_text(const char *text, size_t bytes) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
  return (uint32_t)(h ^ h >> 32);
}

static crn_vocab_slot *find(const crn_vocab *v, uint32_t hash, const char *text, size_t bytes) {
  for (size_t i = hash & (v->n_slots - 1);; i = (i + 1) & (v->n_slots - 1)) {
    crn_vocab_slot *s = &v->slots[i];
    if (s->entry < 0) return s;
    const crn_vocab_entry *e = &v->entries[s->entry];
    if (s->hash == hash && e->bytes == bytes && !memcmp(e->text, text, bytes)) return s;
  }
}

int32_t crn_vocab_id(const crn_vocab *vocab, const char *text, size_t bytes) {
  if (!vocab->n_slots) return -1;
  const crn_vocab_slot *slot = find(vocab, hash_text(text, bytes), text, bytes);
  return slot->entry < 0 ? -1 : vocab->entries[slot->entry].id;
}

// Tables are indexed by id, so a short file must not be able to ask for a long one.
static json_int_t largest_allowed(size_t n_tokens) {
  return n_tokens >= CRN_MAX_TOKEN_ID / 16 ? CRN_MAX_TOKEN_ID : (1 << 20) + 16 * (json_int_t)n_tokens;
}

static cairn_status check_id(const crn_build *build, const char *text, const json_t *id, json_int_t allowed) {
  if (!json_is_integer(id) || json_integer_value(id) < 0) {
    return CRN_FAIL(CORRUPT, "%s: the id of token '%.80s' must be a whole number from 0 on", build->what, text);
  }
  if (json_integer_value(id) > allowed) {
    return CRN_FAIL(UNSUPPORTED, "%s: token '%.80s' has id %lld, at most %lld is supported for as many tokens", build->what, text,
                    (long long)json_integer_value(id), (long long)allowed);
  }
  return CAIRN_OK;
}

/// Makes room for n texts of so many bytes in all and ids below v->n_ids.
static cairn_status begin(crn_build *build, size_t n, size_t bytes, char **out_room) {
  cairn_tokenizer *t = build->tokenizer;
  crn_vocab *v = &t->vocab;
  if (bytes > INT32_MAX)
    return CRN_FAIL(UNSUPPORTED, "%s: tokens of %zu bytes in all, at most %d are supported", build->what, bytes, INT32_MAX);
  v->n_slots = 16;
  while (v->n_slots <= 2 * n) v->n_slots *= 2;
  v->n_tokens = n;
  CRN_TRY(crn_arena_array(&t->arena, (size_t)v->n_ids, sizeof *v->tokens, &v->tokens));
  CRN_TRY(crn_arena_array(&t->arena, v->n_slots, sizeof *v->slots, &v->slots));
  CRN_TRY(crn_arena_array(&t->arena, n, sizeof *v->entries, &v->entries));
  for (size_t i = 0; i < v->n_slots; i++) v->slots[i].entry = -1;
  return crn_arena_alloc(&t->arena, bytes + n, out_room);
}

static void add(crn_vocab *v, const char *text, size_t bytes, int32_t id, char **in_out_room) {
  char *copy = *in_out_room;
  if (bytes) memmove(copy, text, bytes);
  copy[bytes] = 0;
  *in_out_room += bytes + 1;
  v->tokens[id] = (crn_view){copy, bytes};
  if ((int32_t)bytes > v->max_bytes) v->max_bytes = (int32_t)bytes;
  uint32_t hash = hash_text(copy, bytes);
  v->entries[v->n_entries] = (crn_vocab_entry){copy, (uint32_t)bytes, id};
  *find(v, hash, copy, bytes) = (crn_vocab_slot){hash, (int32_t)v->n_entries++};
}

// U+0000 is written otherwise in keys.
static void add_key(crn_vocab *v, const char *text, int32_t id, char **in_out_room) {
  const char *nul = strstr(text, CRN_JSON_NUL);
  if (!nul) {
    add(v, text, strlen(text), id, in_out_room);
    return;
  }
  char *out = *in_out_room;
  for (; nul; nul = strstr(text, CRN_JSON_NUL)) {
    memcpy(out, text, (size_t)(nul - text));
    out += nul - text;
    *out++ = 0;
    text = nul + sizeof CRN_JSON_NUL - 1;
  }
  memcpy(out, text, strlen(text));
  add(v, *in_out_room, (size_t)(out - *in_out_room) + strlen(text), id, in_out_room);
}

cairn_status crn_vocab_load_map(crn_build *build, const json_t *json) {
  crn_vocab *v = &build->tokenizer->vocab;
  const char *text;
  char *room;
  json_t *id;
  json_int_t largest = -1;
  size_t bytes = 0;
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s: 'vocab' must be an object of token ids", build->what);
  json_int_t allowed = largest_allowed(json_object_size(json));
  json_object_foreach((json_t *)json, text, id) {
    CRN_TRY(check_id(build, text, id, allowed));
    if (json_integer_value(id) > largest) largest = json_integer_value(id);
    bytes += strlen(text);
  }
  v->n_ids = (int32_t)largest + 1;
  CRN_TRY(begin(build, json_object_size(json), bytes, &room));
  json_object_foreach((json_t *)json, text, id) add_key(v, text, (int32_t)json_integer_value(id), &room);
  return CAIRN_OK;
}

cairn_status crn_vocab_load_list(crn_build *build, const crn_view *texts, size_t n) {
  crn_vocab *v = &build->tokenizer->vocab;
  char *room;
  size_t bytes = 0;
  if (n > CRN_MAX_TOKEN_ID) return CRN_FAIL(UNSUPPORTED, "%s: %zu tokens, at most %d are supported", build->what, n, CRN_MAX_TOKEN_ID);
  for (size_t i = 0; i < n; i++) {
    if (!crn_add_size(bytes, texts[i].bytes, &bytes)) return CRN_FAIL(CORRUPT, "%s: the tokens are too long", build->what);
  }
  v->n_ids = (int32_t)n;
  CRN_TRY(begin(build, n, bytes, &room));
  for (size_t i = 0; i < n; i++) add(v, texts[i].text, texts[i].bytes, (int32_t)i, &room);
  return CAIRN_OK;
}

cairn_status crn_vocab_trie(crn_build *build, crn_trie *trie) {
  const crn_vocab *v = &build->tokenizer->vocab;
  crn_trie_key *keys;
  size_t n = 0;
  CRN_TRY(crn_alloc_array(build->allocator, v->n_entries, sizeof *keys, &keys));
  for (size_t i = 0; i < v->n_entries; i++) keys[n++] = (crn_trie_key){v->entries[i].text, v->entries[i].bytes, v->entries[i].id};
  cairn_status status = crn_trie_build(trie, &build->tokenizer->arena, keys, n);
  crn_free(build->allocator, keys, v->n_entries * sizeof *keys);
  return status;
}
