/// Words met before and the ids they got. The memory of one call is left to the next one.
#ifndef CRN_TEXT_TOKENIZER_MODELS_WORDS_H
#define CRN_TEXT_TOKENIZER_MODELS_WORDS_H

#include <string.h>

#include "text/tokenizer/internal.h"

enum {
  CRN_WORD_MOST_BYTES = 31,
  CRN_WORD_MOST_IDS = 7,
  CRN_WORD_SLACK = 32,  ///< bytes that must be readable from the first byte of a word on
};

/// A word as it is looked for: its bytes, zeros, and the size in the last byte.
typedef struct crn_word_key {
  uint64_t parts[4];
} crn_word_key;

/// One cache line.
struct crn_word {
  crn_word_key key;
  uint32_t n_ids;
  int32_t ids[CRN_WORD_MOST_IDS];
};

struct crn_word_cache {
  size_t n_slots;  ///< a power of two
  size_t n_added;
  _Alignas(64) crn_word slots[];
};

/// 32 bytes are readable at `text` and 1 <= bytes <= CRN_WORD_MOST_BYTES.
static inline crn_word_key crn_word_key_make(const char *text, size_t bytes) {
  static const unsigned char ones[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  crn_word_key key;
  uint64_t mask[4];
  memcpy(key.parts, text, 32);
  memcpy(mask, ones + 32 - bytes, 32);
  for (int i = 0; i < 4; i++) key.parts[i] &= mask[i];
  ((unsigned char *)key.parts)[31] = (unsigned char)bytes;
  return key;
}

static inline size_t crn_word_hash(const crn_word_key *key) {
  uint64_t a = (key->parts[0] ^ key->parts[2] * 0xff51afd7ed558ccdu) * 0x9e3779b97f4a7c15u;
  uint64_t b = (key->parts[1] ^ key->parts[3] * 0xc4ceb9fe1a85ec53u) * 0xd6e8feb86659fd93u;
  a ^= b ^ a >> 32 ^ b >> 29;
  return (size_t)(a * 0x9e3779b97f4a7c15u >> 32);
}

static inline bool crn_word_key_equal(const crn_word_key *a, const crn_word_key *b) {
  return !((a->parts[0] ^ b->parts[0]) | (a->parts[1] ^ b->parts[1]) | (a->parts[2] ^ b->parts[2]) | (a->parts[3] ^ b->parts[3]));
}

/// The word, or NULL. A word can be in two places; unused places equal no key, since every key has a size.
static inline const crn_word *crn_words_find(const crn_word_cache *cache, const crn_word_key *key, size_t hash) {
  if (!cache) return NULL;
  const crn_word *w = &cache->slots[hash & (cache->n_slots - 2)];
  if (crn_word_key_equal(&w[0].key, key)) return &w[0];
  return crn_word_key_equal(&w[1].key, key) ? &w[1] : NULL;
}

static inline void crn_words_prefetch(const crn_word_cache *cache, size_t hash) {
  if (!cache) return;
  const crn_word *w = &cache->slots[hash & (cache->n_slots - 2)];
  __builtin_prefetch(w);
  __builtin_prefetch(w + 1);
}

/// Remembers a word's ids when they are not too many; the word that came last but one to its places is forgotten.
cairn_status crn_words_add(crn_run *run, const crn_word_key *key, size_t hash, const int32_t *ids, size_t n_ids);
/// Takes over what an earlier call has left, and leaves it to a later one.
void crn_words_take(crn_run *run);
void crn_words_leave(crn_run *run);
void crn_words_free(const cairn_allocator *allocator, crn_word_cache *cache);
/// Tokenizes by the model, unless the word was met before. CRN_WORD_SLACK bytes must be readable at `text`.
cairn_status crn_words_tokenize(crn_run *run, const char *text, size_t bytes);

#endif
