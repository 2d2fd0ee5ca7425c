#include "text/tokenizer/models/heap.h"

#include <string.h>

static bool before(const crn_candidate *a, const crn_candidate *b) {
  if (a->score != b->score) return a->score > b->score;
  if (a->rank != b->rank) return a->rank < b->rank;
  return a->position < b->position;
}

cairn_status crn_heap_push(crn_run *run, crn_candidate candidate) {
  CRN_TRY(crn_vec_push(run->allocator, &run->heap, candidate));
  crn_candidate *h = run->heap.items;
  size_t i = run->heap.size - 1;
  while (i && before(&candidate, &h[(i - 1) / 2])) {
    h[i] = h[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  h[i] = candidate;
  return CAIRN_OK;
}

bool crn_heap_pop(crn_run *run, crn_candidate *out_candidate) {
  crn_candidate *h = run->heap.items;
  if (!run->heap.size) return false;
  *out_candidate = h[0];
  size_t n = --run->heap.size, i = 0;
  crn_candidate last = h[n];
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && before(&h[child + 1], &h[child])) child++;
    if (!before(&h[child], &last)) break;
    h[i] = h[child];
  }
  h[i] = last;
  return true;
}

// --- words met before ------------------------------------------------------------------------------------------------

enum { FEWEST_SLOTS = 256, MOST_SLOTS = 16384, LONGEST_WORD = 256 };

static uint32_t hash_word(const char *text, size_t bytes) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h ^ h >> 15;
}

static crn_word *find(const crn_word_cache *c, uint32_t hash, const char *text, size_t bytes) {
  for (size_t i = hash & (c->n_slots - 1);; i = (i + 1) & (c->n_slots - 1)) {
    crn_word *w = &c->slots[i];
    if (!w->bytes) return w;
    if (w->hash == hash && w->bytes == bytes && !memcmp(c->texts.data + w->text, text, bytes)) return w;
  }
}

cairn_status crn_word_cache_get(crn_run *run, const char *text, size_t bytes, bool *out_hit) {
  crn_word_cache *c = &run->cache;
  *out_hit = false;
  if (!c->slots || bytes > LONGEST_WORD) return CAIRN_OK;
  const crn_word *w = find(c, hash_word(text, bytes), text, bytes);
  if (!w->bytes) return CAIRN_OK;
  for (uint32_t i = 0; i < w->n_ids; i++) CRN_TRY(crn_run_push(run, c->ids.items[w->first_id + i]));
  *out_hit = true;
  return CAIRN_OK;
}

static cairn_status create_cache(crn_run *run) {
  crn_word_cache *c = &run->cache;
  // About as many slots as the text can have words; a short text should not pay for a large table.
  c->n_slots = FEWEST_SLOTS;
  while (c->n_slots < MOST_SLOTS && c->n_slots < run->input_bytes / 4) c->n_slots *= 2;
  CRN_TRY(crn_alloc_array(run->allocator, c->n_slots, sizeof *c->slots, &c->slots));
  crn_str_initialize(&c->texts, run->allocator);
  return CAIRN_OK;
}

cairn_status crn_word_cache_put(crn_run *run, const char *text, size_t bytes, size_t first) {
  crn_word_cache *c = &run->cache;
  if (!bytes || bytes > LONGEST_WORD || (c->slots && c->n_words >= c->n_slots / 2)) return CAIRN_OK;
  if (!c->slots) CRN_TRY(create_cache(run));
  uint32_t hash = hash_word(text, bytes);
  size_t n = run->ids->size - first;
  crn_word fresh = {hash, (uint32_t)c->texts.size, (uint32_t)bytes, (uint32_t)c->ids.size, (uint32_t)n};
  CRN_TRY(crn_str_append(&c->texts, text, bytes));
  for (size_t i = 0; i < n; i++) CRN_TRY(crn_vec_push(run->allocator, &c->ids, run->ids->items[first + i]));
  *find(c, hash, text, bytes) = fresh;
  c->n_words++;
  return CAIRN_OK;
}

void crn_word_cache_free(crn_run *run) {
  crn_word_cache *c = &run->cache;
  if (!c->slots) return;
  crn_free(run->allocator, c->slots, c->n_slots * sizeof *c->slots);
  crn_str_deinitialize(&c->texts);
  crn_vec_free(run->allocator, &c->ids);
  c->slots = NULL;
}
