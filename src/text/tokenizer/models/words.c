#include "text/tokenizer/models/words.h"

enum { FEWEST_SLOTS = 64, MOST_SLOTS = 1 << 15, GROWTH = 4 };

static size_t cache_bytes(size_t n_slots) { return sizeof(crn_word_cache) + n_slots * sizeof(crn_word); }

static crn_word *make_place(crn_word_cache *c, size_t hash) {
  crn_word *w = &c->slots[hash & (c->n_slots - 2)];
  w[1] = w[0];
  return w;
}

/// A short text should not pay for a large table, so it grows with the words it has seen.
static cairn_status grow(crn_run *run) {
  crn_word_cache *old = run->cache, *fresh;
  size_t n = old ? old->n_slots * GROWTH : FEWEST_SLOTS;
  if (n > MOST_SLOTS) n = MOST_SLOTS;
  CRN_TRY(crn_alloc_zero(run->allocator, cache_bytes(n), &fresh));
  fresh->n_slots = n;
  for (size_t i = 0; old && i < old->n_slots; i++) {
    // The older one of two is moved first, to stay the older one.
    const crn_word *w = &old->slots[i ^ 1];
    if (w->key.parts[3]) *make_place(fresh, crn_word_hash(&w->key)) = *w;
  }
  crn_words_free(run->allocator, old);
  run->cache = fresh;
  return CAIRN_OK;
}

cairn_status crn_words_add(crn_run *run, const crn_word_key *key, size_t hash, const int32_t *ids, size_t n_ids) {
  crn_word_cache *c = run->cache;
  if (n_ids > CRN_WORD_MOST_IDS) return CAIRN_OK;
  if (!c || (c->n_added >= c->n_slots / 2 && c->n_slots < MOST_SLOTS)) CRN_TRY(grow(run));
  crn_word *w = make_place(run->cache, hash);
  run->cache->n_added++;
  w->key = *key;
  w->n_ids = (uint32_t)n_ids;
  if (n_ids) memcpy(w->ids, ids, n_ids * sizeof *ids);
  return CAIRN_OK;
}

void crn_words_take(crn_run *run) {
  crn_leftovers *l = run->tokenizer->leftovers;
  run->cache = l ? atomic_exchange_explicit(&l->words, NULL, memory_order_acquire) : NULL;
}

void crn_words_leave(crn_run *run) {
  crn_leftovers *l = run->tokenizer->leftovers;
  if (l) run->cache = atomic_exchange_explicit(&l->words, run->cache, memory_order_acq_rel);
  crn_words_free(run->allocator, run->cache);
  run->cache = NULL;
}

void crn_words_free(const cairn_allocator *allocator, crn_word_cache *cache) {
  if (cache) crn_free(allocator, cache, cache_bytes(cache->n_slots));
}

cairn_status crn_words_tokenize(crn_run *run, const char *text, size_t bytes) {
  // A remembered word has no places, and looking for whole words needs no memory of them.
  if (run->spans || !bytes || bytes > CRN_WORD_MOST_BYTES || run->tokenizer->model.kind == CRN_MODEL_WORDLEVEL) {
    return crn_model_tokenize(run, text, bytes);
  }
  crn_word_key key = crn_word_key_make(text, bytes);
  size_t hash = crn_word_hash(&key), first = run->ids->size;
  const crn_word *w = crn_words_find(run->cache, &key, hash);
  if (!w) {
    CRN_TRY(crn_model_tokenize(run, text, bytes));
    return crn_words_add(run, &key, hash, run->ids->items + first, run->ids->size - first);
  }
  CRN_TRY(crn_vec_reserve(run->allocator, run->ids, w->n_ids));
  for (uint32_t i = 0; i < w->n_ids; i++) run->ids->items[first + i] = w->ids[i];
  run->ids->size += w->n_ids;
  return CAIRN_OK;
}
