#include "engines/llm/prompt_cache.h"

#include "base/log.h"
#include "engines/llm/block_store.h"
#include "engines/llm/key.h"
#include "engines/llm/rows.h"
#include "engines/llm/vision.h"

// --- names --------------------------------------------------------------------------------------------------------------

typedef struct chain {
  unsigned char (*digests)[CRN_SHA256_BYTES];  ///< of the first 1, 2, … blocks
  int64_t n, capacity;
} chain;

// A token of an image stands for the picture, whose number is the model's own matter.
static cairn_status add_image_token(const cairn_llm *llm, int32_t token, crn_hasher *h) {
  crn_vision_image image;
  int64_t row;
  if (!llm->model->vision) return CRN_FAIL(INTERNAL, "token %d of a model without images", token);
  CRN_TRY(crn_vision_get(llm->model->vision, crn_vision_number(llm->model->vision, token, &row), &image));
  cairn_ndarray_release(image.features);
  CRN_TRY(crn_hasher_add(h, image.digest, sizeof image.digest));
  return crn_hasher_add(h, &row, sizeof row);
}

static cairn_status hash_block(const cairn_llm *llm, const void *before, size_t before_bytes, const int32_t *tokens, unsigned char *out) {
  crn_hasher h;
  CRN_TRY(crn_hasher_begin(&h));
  cairn_status status = crn_hasher_add(&h, before, before_bytes);
  bool has_image = false;
  for (int i = 0; i < CRN_PROMPT_BLOCK; i++) has_image |= tokens[i] < 0;
  if (!has_image && status == CAIRN_OK) status = crn_hasher_add(&h, tokens, CRN_PROMPT_BLOCK * sizeof *tokens);
  for (int i = 0; has_image && status == CAIRN_OK && i < CRN_PROMPT_BLOCK; i++) {
    status = tokens[i] < 0 ? add_image_token(llm, tokens[i], &h) : crn_hasher_add(&h, &tokens[i], sizeof *tokens);
  }
  if (status == CAIRN_OK) return crn_hasher_end(&h, out);
  crn_hasher_discard(&h);
  return status;
}

static void free_chain(const cairn_llm *llm, chain *c) {
  if (c->digests) crn_free(&llm->context->allocator, c->digests, (size_t)c->capacity * sizeof *c->digests);
  *c = (chain){0};
}

// The names of the whole blocks of `n` tokens. It ends early at the token of an image that is not known any more.
static cairn_status make_chain(const cairn_llm *llm, const int32_t *tokens, int64_t n, chain *out) {
  const crn_str *key;
  *out = (chain){.capacity = n / CRN_PROMPT_BLOCK};
  if (!out->capacity) return CAIRN_OK;
  CRN_TRY(crn_llm_key(llm, &key));
  CRN_TRY(crn_alloc_array(&llm->context->allocator, (size_t)out->capacity, sizeof *out->digests, &out->digests));
  for (int64_t i = 0; i < out->capacity; i++) {
    const void *before = i ? (const void *)out->digests[i - 1] : key->data;
    const size_t before_bytes = i ? sizeof *out->digests : key->size;
    cairn_status status = hash_block(llm, before, before_bytes, tokens + i * CRN_PROMPT_BLOCK, out->digests[i]);
    if (status == CAIRN_OUT_OF_MEMORY) {
      free_chain(llm, out);
      return status;
    }
    if (status != CAIRN_OK) break;
    out->n = i + 1;
  }
  return CAIRN_OK;
}

static crn_block_name rows_name(const chain *c, int64_t i) { return crn_block_name_of(c->digests[i], "rows"); }
static crn_block_name whole_name(const chain *c, int64_t i) { return crn_block_name_of(c->digests[i], "whole"); }

// Later blocks first: of blocks used at one time those at the end go first, without which the others are still good.
static void touch_all(const crn_block_store *store, const chain *c, int64_t n, bool has_whole) {
  for (int64_t i = n; i-- > 0;) {
    const crn_block_name rows = rows_name(c, i), whole = whole_name(c, i);
    crn_block_store_touch(store, &rows);
    if (has_whole) crn_block_store_touch(store, &whole);
  }
}

// --- taking -------------------------------------------------------------------------------------------------------------

// Blocks there are, counted from the first; of a model with states without rows only up to one at whose end these are there.
static int64_t count_blocks(const cairn_llm *llm, const chain *c, int64_t from) {
  const crn_block_store *store = llm->model->prompt_cache;
  const bool needs_whole = crn_llm_has_whole_states(&llm->model->contract);
  int64_t n = from;
  while (n < c->n) {
    const crn_block_name name = rows_name(c, n);
    if (!crn_block_store_has(store, &name)) break;
    n++;
  }
  for (; needs_whole && n > from; n--) {
    const crn_block_name name = whole_name(c, n - 1);
    if (crn_block_store_has(store, &name)) break;
  }
  return n;
}

// Blocks that are read, checked and written at once, by all threads. What a thread has checked lies in its cache when it writes it.
enum { AT_ONCE = 16 };

typedef struct batch {
  cairn_llm *llm;
  const chain *chain;
  size_t bytes;  ///< of each
  int64_t first, end;
  int64_t apart, group;  ///< so many blocks share pages and are one thread's; the first such group
  cairn_status status[AT_ONCE];
} batch;

static cairn_status take_block(const batch *b, int64_t i) {
  const crn_block_name name = rows_name(b->chain, i);
  crn_file_map map;
  const void *data;
  CRN_TRY(crn_block_store_read(b->llm->model->prompt_cache, &name, b->bytes, &map, &data));
  cairn_status status = crn_llm_all_rows_write(&b->llm->states, i * CRN_PROMPT_BLOCK, (i + 1) * CRN_PROMPT_BLOCK, data);
  crn_file_map_close(&map);
  return status;
}

static void take_blocks_of(void *user, int64_t begin, int64_t end, int worker) {
  batch *b = user;
  (void)worker;
  for (int64_t i = (b->group + begin) * b->apart; i < (b->group + end) * b->apart; i++) {
    if (i >= b->first && i < b->end) b->status[i - b->first] = take_block(b, i);
  }
}

// Pages are taken while rows are written, so those who write at once must not meet in one.
static int64_t blocks_of_a_page(const crn_llm_states *s) {
  const int64_t rows = crn_llm_states_are_paged(s) ? s->page_rows : 0;
  return rows > CRN_PROMPT_BLOCK ? rows / CRN_PROMPT_BLOCK : 1;
}

// Takes rows of the blocks [first, end), at most AT_ONCE. `*out_n` tells how many there were before one that is none. Rows behind that
// one may be written, too: nobody will read them.
static cairn_status take_rows(cairn_llm *llm, const chain *c, int64_t first, int64_t end, int64_t *out_n) {
  batch b = {.llm = llm,
             .chain = c,
             .bytes = crn_llm_all_rows_bytes(&llm->states, CRN_PROMPT_BLOCK),
             .first = first,
             .end = end,
             .apart = blocks_of_a_page(&llm->states)};
  b.group = first / b.apart;
  crn_pool_run(llm->context->pool, (end - 1) / b.apart + 1 - b.group, 1, take_blocks_of, &b);
  *out_n = 0;
  while (*out_n < end - first && b.status[*out_n] == CAIRN_OK) ++*out_n;
  for (int64_t i = 0; i < end - first; i++) {
    if (b.status[i] == CAIRN_OUT_OF_MEMORY) return CRN_FAIL(OUT_OF_MEMORY, "no memory to read the prompt cache");
  }
  return CAIRN_OK;
}

static cairn_status take_whole(cairn_llm *llm, const chain *c, int64_t n_blocks) {
  const crn_block_name name = whole_name(c, n_blocks - 1);
  crn_file_map map;
  const void *data;
  CRN_TRY(crn_block_store_read(llm->model->prompt_cache, &name, crn_llm_whole_bytes(&llm->states), &map, &data));
  cairn_status status = crn_llm_whole_write(&llm->states, data);
  crn_file_map_close(&map);
  if (status != CAIRN_OK) llm->is_dirty = true;
  return status;
}

// Rows are written behind those that are held, so that until the history grows nothing is lost whatever goes wrong.
static cairn_status take_blocks(cairn_llm *llm, const chain *c, const int32_t *tokens, int64_t kept, int64_t *out_kept) {
  const int64_t from = kept / CRN_PROMPT_BLOCK, found = count_blocks(llm, c, from);
  const bool needs_whole = crn_llm_has_whole_states(&llm->model->contract);
  if (found * CRN_PROMPT_BLOCK <= kept) return CAIRN_OK;
  CRN_TRY(crn_llm_states_extend(&llm->states, found * CRN_PROMPT_BLOCK, kept));
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  cairn_status status = CAIRN_OK;
  int64_t n = from, taken = 1;
  while (n < found && taken > 0 && status == CAIRN_OK) {
    const int64_t end = found - n < AT_ONCE ? found : n + AT_ONCE;
    status = take_rows(llm, c, n, end, &taken);
    n += taken;
    if (n < end) break;
  }
  // Of a model with states without rows only all of the blocks are any good.
  if (status == CAIRN_OK && needs_whole && n < found) status = CRN_FAIL(NOT_FOUND, "a block of the prompt cache was damaged");
  if (status == CAIRN_OK && needs_whole) status = take_whole(llm, c, n);
  if (status != CAIRN_OK && status != CAIRN_NOT_FOUND) return status;
  crn_error_clear();
  if ((status != CAIRN_OK && needs_whole) || n * CRN_PROMPT_BLOCK <= kept) return CAIRN_OK;
  CRN_TRY(crn_history_append(&llm->history, tokens + kept, n * CRN_PROMPT_BLOCK - kept));
  touch_all(llm->model->prompt_cache, c, n, needs_whole);
  crn_llm_take_snapshot(llm);
  *out_kept = n * CRN_PROMPT_BLOCK;
  return CAIRN_OK;
}

cairn_status crn_prompt_cache_take(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t kept, int64_t *out_kept) {
  chain c;
  *out_kept = kept;
  if (!llm->model->prompt_cache || n - 1 < kept + CRN_PROMPT_BLOCK / 2 || llm->is_dirty) return CAIRN_OK;
  CRN_TRY(make_chain(llm, tokens, n - 1, &c));
  cairn_status status = take_blocks(llm, &c, tokens, kept, out_kept);
  free_chain(llm, &c);
  return status;
}

// --- keeping ------------------------------------------------------------------------------------------------------------

static cairn_status keep_rows(const cairn_llm *llm, const chain *c, int64_t i, void *room, size_t bytes, bool *out_written) {
  const crn_block_name name = rows_name(c, i);
  if (crn_block_store_has(llm->model->prompt_cache, &name)) return CAIRN_OK;
  *out_written = true;
  CRN_TRY(crn_llm_all_rows_read(&llm->states, i * CRN_PROMPT_BLOCK, (i + 1) * CRN_PROMPT_BLOCK, room));
  return crn_block_store_write(llm->model->prompt_cache, &name, room, bytes);
}

static cairn_status keep_snapshot(const cairn_llm *llm, const chain *c, const crn_llm_snapshot *s) {
  const cairn_allocator *a = &llm->context->allocator;
  const size_t bytes = crn_llm_whole_bytes(&llm->states);
  const crn_block_name name = whole_name(c, s->n / CRN_PROMPT_BLOCK - 1);
  char *room, *at;
  if (crn_block_store_has(llm->model->prompt_cache, &name)) return CAIRN_OK;
  CRN_TRY(crn_alloc(a, bytes, &room));
  cairn_status status = CAIRN_OK;
  at = room;
  for (int i = 0; i < llm->model->contract.n_states && status == CAIRN_OK; i++) {
    if (!crn_llm_state_is_whole(&llm->model->contract.states[i])) continue;
    const size_t part = crn_llm_rows_bytes(&llm->states, i, 0);
    status = cairn_ndarray_read(s->arrays[i], at, part);
    at += part;
  }
  if (status == CAIRN_OK) status = crn_block_store_write(llm->model->prompt_cache, &name, room, bytes);
  crn_free(a, room, bytes);
  return status;
}

// Rows behind the last point where the states without rows are kept would never be found.
static int64_t blocks_to_keep(const cairn_llm *llm, const chain *c) {
  if (!crn_llm_has_whole_states(&llm->model->contract)) return c->n;
  int64_t n = 0;
  for (size_t i = 0; i < llm->snapshots.items.size; i++) {
    const int64_t at = llm->snapshots.items.items[i].n;
    if (at % CRN_PROMPT_BLOCK == 0 && at / CRN_PROMPT_BLOCK <= c->n) n = at / CRN_PROMPT_BLOCK;
  }
  return n;
}

static cairn_status keep_all(const cairn_llm *llm, const chain *c) {
  const cairn_allocator *a = &llm->context->allocator;
  const size_t bytes = crn_llm_all_rows_bytes(&llm->states, CRN_PROMPT_BLOCK);
  const int64_t n = blocks_to_keep(llm, c);
  bool is_written = false;
  void *room;
  if (!n) return CAIRN_OK;
  CRN_TRY(crn_alloc(a, bytes, &room));
  cairn_status status = CAIRN_OK;
  for (int64_t i = 0; i < n && status == CAIRN_OK; i++) status = keep_rows(llm, c, i, room, bytes, &is_written);
  crn_free(a, room, bytes);
  for (size_t i = 0; i < llm->snapshots.items.size && status == CAIRN_OK; i++) {
    const crn_llm_snapshot *s = &llm->snapshots.items.items[i];
    if (s->n % CRN_PROMPT_BLOCK == 0 && s->n / CRN_PROMPT_BLOCK <= n) status = keep_snapshot(llm, c, s);
  }
  touch_all(llm->model->prompt_cache, c, n, crn_llm_has_whole_states(&llm->model->contract));
  if (is_written) crn_block_store_trim(llm->model->prompt_cache);
  return status;
}

void crn_prompt_cache_keep(cairn_llm *llm) {
  chain c;
  if (!llm->model->prompt_cache || llm->is_dirty || crn_llm_rows_were_dropped(&llm->states)) return;
  cairn_status status = make_chain(llm, llm->history.tokens, llm->history.n, &c);
  if (status == CAIRN_OK) {
    status = keep_all(llm, &c);
    free_chain(llm, &c);
  }
  if (status == CAIRN_OK) return;
  CRN_WARN(llm->context, "the prompt cache was not written: %s", cairn_last_error()->message);
  crn_error_clear();
}
