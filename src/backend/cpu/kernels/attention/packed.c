// Attention of the modes that round, for blocks of rows: every job packs the keys and values it needs, 128 positions at a time, and lets
// its items, 32 at a time, meet them while they are in the cache.
#include "backend/cpu/kernels/attention/packed.h"

#include "backend/cpu/kernels/attention/exact.h"
#include "backend/cpu/kernels/attention/items.h"
#include "tensor/half.h"

enum { BLOCK = CRN_PACKED_BLOCK, ITEMS = CRN_PACKED_ITEMS, MOST_ITEMS = 512 };

typedef struct work {
  const crn_attention *a;
  const crn_packed_parts *parts;
  int64_t kv_head, key_size, value_size;  ///< sizes are rounded up to 32
  int64_t query_bytes, key_bytes;         ///< packed, of an item and of a position
  int n_items;
  crn_attention_item *items;
  crn_packed_state *states;
  char *queries, *keys, *values, *weights;  ///< packed
  float *sums, *scores;
  int64_t mask_items;  ///< items that share a mask's row: a group, or 1
  float *masks;        ///< added to the block's scores, 128 for each of them; NULL when nothing is
  uint64_t *seen;      ///< two words of live positions of the block for each of them
  uint64_t *live;      ///< two words for each of the 32 items in work
  void *zeros, *masked_scratch;
  uint64_t strange[2];  ///< positions of the block with values that are not finite
  int64_t first;        ///< of the block
} work;

static int64_t padded(int64_t n) { return (n + 31) / 32 * 32; }

static void *carve(char *base, size_t *at, size_t bytes) {
  void *part = base ? base + *at : NULL;
  *at += (bytes + 63) / 64 * 64;
  return part;
}

static size_t lay_out(work *w, const crn_packed_parts *parts, const crn_attention *a, int64_t n, void *scratch) {
  size_t at = 0, count = (size_t)padded(n), bytes = (size_t)parts->bytes;
  w->a = a;
  w->parts = parts;
  w->n_items = (int)n;
  w->key_size = padded(a->key_size);
  w->query_bytes = w->key_size * parts->query_terms * parts->bytes;
  w->key_bytes = w->key_size * parts->key_terms[a->k.type] * parts->bytes;
  w->value_size = padded(a->value_size);
  w->items = carve(scratch, &at, count * sizeof *w->items);
  w->states = carve(scratch, &at, count * sizeof *w->states);
  w->queries = carve(scratch, &at, count * (size_t)w->query_bytes);
  w->sums = carve(scratch, &at, count * (size_t)w->value_size * sizeof(float));
  w->keys = carve(scratch, &at, BLOCK * (size_t)w->key_bytes);
  w->values = carve(scratch, &at, BLOCK * (size_t)w->value_size * bytes);
  w->weights = carve(scratch, &at, ITEMS * BLOCK * bytes);
  w->scores = carve(scratch, &at, ITEMS * BLOCK * sizeof(float));
  w->live = carve(scratch, &at, ITEMS * 2 * sizeof(uint64_t));
  w->mask_items = a->mask && a->mask_head_stride ? 1 : a->heads / a->kv_heads;
  size_t slots = (size_t)(n / w->mask_items);
  w->seen = carve(scratch, &at, slots * 2 * sizeof(uint64_t));
  w->masks = NULL;
  if (a->mask && a->mask_type != CRN_MASK_BOOL) w->masks = carve(scratch, &at, slots * BLOCK * sizeof(float));
  w->zeros = carve(scratch, &at, (size_t)(w->key_size > w->value_size ? w->key_size : w->value_size) * sizeof(float));
  w->masked_scratch = carve(scratch, &at, crn_attention_masked_bytes(a));
  return at;
}

static void fill_zero(void *data, size_t bytes) {
  for (size_t i = 0; i < bytes / 4; i++) ((uint32_t *)data)[i] = 0;
}

static void start_items(work *w, int64_t first_row) {
  const crn_attention *a = w->a;
  int64_t group = a->heads / a->kv_heads, count = padded(w->n_items);
  fill_zero(w->queries, (size_t)(count * w->query_bytes));
  fill_zero(w->sums, (size_t)(count * w->value_size) * 4);
  fill_zero(w->weights, (size_t)(ITEMS * BLOCK * w->parts->bytes));
  fill_zero(w->zeros, (size_t)(w->key_size > w->value_size ? w->key_size : w->value_size) * sizeof(float));
  for (int64_t i = 0; i < w->n_items; i++) {
    int64_t row = first_row + i / group, head = w->kv_head * group + i % group;
    w->items[i] = crn_attention_item_of(a, row, head);
    w->states[i] = (crn_packed_state){.top = -__builtin_inff()};
    const float *q = a->q + row * a->q_row_stride + head * a->q_head_stride;
    w->parts->pack_query(q, a->key_size, a->scale * CRN_PACKED_LOG2E, w->queries, i);
  }
}

// Pointers to the rows of positions [from, to) of the block, to zeros for the rest.
static void find_rows(const work *w, const crn_cache_view *view, int from, int to, const void **rows) {
  int64_t step = view->position_stride * (view->type == CRN_CACHE_F32 ? 4 : 2);
  for (int c = 0; c < BLOCK; c++) rows[c] = w->zeros;
  for (int c = from; c < to;) {
    int n = (int)crn_cache_run(view, w->first + c, to - c);
    const char *row = crn_cache_at(view, w->kv_head, w->first + c);
    for (int i = 0; i < n; i++) rows[c + i] = row + i * step;
    c += n;
  }
}

static void pack_block(work *w, int from, int to) {
  const crn_attention *a = w->a;
  const void *rows[BLOCK];
  find_rows(w, &a->k, from, to, rows);
  int first = from / 32 * 32, n = (to + 31) / 32 * 32 - first;
  w->parts->pack_keys[a->k.type](rows + first, n, a->key_size, w->keys + first * w->key_bytes);
  find_rows(w, &a->v, from, to, rows);
  w->parts->pack_values[a->v.type](rows, (to + 31) / 32 * 32, a->value_size, w->values, w->strange);
}

// Asks for the rows of the block behind this one. They lie in pieces of a page, over whose ends no prefetcher of the processor looks.
static void ask_for(const work *w, const crn_cache_view *view, int64_t size, int64_t from, int64_t to) {
  int64_t element = view->type == CRN_CACHE_F32 ? 4 : 2, step = view->position_stride * element;
  for (int64_t c = from; c < to;) {
    int64_t n = crn_cache_run(view, c, to - c);
    const char *row = crn_cache_at(view, w->kv_head, c);
    for (int64_t i = 0; i < n; i++, row += step) {
      for (int64_t at = 0; at < size * element; at += 64) __builtin_prefetch(row + at, 0, 2);
    }
    c += n;
  }
}

static void ask_for_next(const work *w, int64_t high) {
  int64_t from = w->first + BLOCK, to = from + BLOCK < high ? from + BLOCK : high;
  if (from >= to) return;
  ask_for(w, &w->a->k, w->a->key_size, from, to);
  ask_for(w, &w->a->v, w->a->value_size, from, to);
}

// What each row sees of the block goes to w->seen, what its mask adds to w->masks; any[2] receives what some row sees.
static void look(work *w, uint64_t *any) {
  const crn_attention *a = w->a;
  any[0] = any[1] = 0;
  for (int64_t slot = 0; slot * w->mask_items < w->n_items; slot++) {
    const crn_attention_item *it = &w->items[slot * w->mask_items];
    for (int half = 0; half < 2; half++) {
      int64_t first = w->first + 64 * half;
      uint64_t bits = crn_attention_block_alive(a, w->parts->exact, it, first);
      w->seen[2 * slot + half] = bits;
      any[half] |= bits;
      if (bits && w->masks) crn_attention_block_values(a, w->parts->exact, it, first, w->masks + slot * BLOCK + 64 * half);
    }
  }
}

// The live positions of n items from i on; any[2] those of all of them together. Returns whether all see the whole block.
static bool gather_live(const work *w, int i, int n, uint64_t *any) {
  uint64_t all = ~(uint64_t)0;
  any[0] = any[1] = 0;
  for (int r = 0; r < n; r++) {
    int64_t slot = (i + r) / w->mask_items;
    for (int half = 0; half < 2; half++) {
      uint64_t bits = w->seen[2 * slot + half];
      w->live[2 * r + half] = bits;
      any[half] |= bits;
      all &= bits;
    }
  }
  return all == ~(uint64_t)0;
}

static void add_masks(const work *w, int i, int n, int from, int to) {
  for (int r = 0; r < n; r++) {
    int64_t slot = (i + r) / w->mask_items;
    // Where a row sees nothing its mask was not loaded.
    if (w->live[2 * r] | w->live[2 * r + 1]) w->parts->add_mask(w->scores + r * BLOCK, w->masks + slot * BLOCK, from, to);
  }
}

static float element(const void *row, int type, int64_t i) {
  if (type == CRN_CACHE_F32) return ((const float *)row)[i];
  uint16_t h = ((const uint16_t *)row)[i];
  return type == CRN_CACHE_F16 ? crn_f16_to_f32(h) : crn_bf16_to_f32(h);
}

static float weight_at(const work *w, int i) {
  if (w->parts->bytes == 2) return crn_bf16_to_f32(((const uint16_t *)(const void *)w->weights)[i]);
  return ((const float *)(const void *)w->weights)[i];
}

// Values that are not finite were packed as zeros: they reach only the items that see their position.
static void add_strange(const work *w, int i, int n) {
  const crn_attention *a = w->a;
  for (int c = 0; c < BLOCK; c++) {
    if (!(w->strange[c / 64] >> c % 64 & 1)) continue;
    const void *row = crn_cache_at(&a->v, w->kv_head, w->first + c);
    for (int64_t d = 0; d < a->value_size; d++) {
      float v = element(row, a->v.type, d);
      if (w->parts->bytes == 2) v = crn_bf16_to_f32(crn_bf16_from_f32(v));
      if (v - v == 0) continue;
      for (int r = 0; r < n; r++) {
        if (!(w->live[2 * r + c / 64] >> c % 64 & 1)) continue;
        w->sums[(i + r) * w->value_size + d] += weight_at(w, r * BLOCK + c) * v;
      }
    }
  }
}

// The first and behind the last position of two words of bits.
static void extent(const uint64_t *bits, int *from, int *to) {
  *from = bits[0] ? __builtin_ctzll(bits[0]) : 64 + __builtin_ctzll(bits[1]);
  *to = bits[1] ? 128 - __builtin_clzll(bits[1]) : 64 - __builtin_clzll(bits[0]);
}

// Up to 32 items from i on meet the packed block.
static void take_items(work *w, int i, int n) {
  uint64_t any[2];
  bool all = gather_live(w, i, n, any);
  if (!(any[0] | any[1])) return;
  int from, to;
  extent(any, &from, &to);
  from = from / 32 * 32, to = (to + 31) / 32 * 32;
  w->parts->score(w->queries + i * w->query_bytes, w->key_size, w->keys, w->parts->key_terms[w->a->k.type], from, to, w->scores);
  if (w->masks) add_masks(w, i, n, from, to);
  float *sums = w->sums + i * w->value_size;
  w->parts->soften(w->scores, w->weights, all ? NULL : w->live, n, from, to, w->states + i, sums, w->value_size);
  w->parts->add(w->weights, w->values, from, to, w->value_size, sums);
  if (w->strange[0] | w->strange[1]) add_strange(w, i, n);
}

void crn_attention_plan_packed(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out) {
  work w;
  int64_t group = a->heads / a->kv_heads, block = MOST_ITEMS / group > 0 ? MOST_ITEMS / group : 1;
  while (block * group > ITEMS && block > 1 && a->kv_heads * ((a->rows + block - 1) / block) < 4 * (int64_t)n_workers) block /= 2;
  if (block > a->rows) block = a->rows;
  *out = (crn_attention_plan){.block_rows = block};
  out->jobs = a->kv_heads * ((a->rows + block - 1) / block);
  out->worker_bytes = lay_out(&w, kernel->parts, a, block * group, NULL);
}

void crn_attention_run_packed(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                              void *scratch, void *shared) {
  (void)shared;
  // As with exact arithmetic: blocks of a head one after the other, the last rows first.
  int64_t blocks = (a->rows + plan->block_rows - 1) / plan->block_rows, row = (blocks - 1 - job % blocks) * plan->block_rows;
  int64_t group = a->heads / a->kv_heads, rows = a->rows - row < plan->block_rows ? a->rows - row : plan->block_rows;
  work w = {.kv_head = job / blocks};
  lay_out(&w, kernel->parts, a, rows * group, scratch);
  start_items(&w, row);
  w.parts->begin();
  int64_t low, high;
  crn_attention_rows_range(a, row, row + rows - 1, &low, &high);
  for (w.first = low / BLOCK * BLOCK; w.first < high; w.first += BLOCK) {
    uint64_t any[2];
    int from, to;
    look(&w, any);
    if (!(any[0] | any[1])) continue;
    extent(any, &from, &to);
    pack_block(&w, from, to);
    ask_for_next(&w, high);
    for (int i = 0; i < w.n_items; i += ITEMS) take_items(&w, i, w.n_items - i < ITEMS ? w.n_items - i : ITEMS);
  }
  w.parts->end();
  for (int i = 0; i < w.n_items; i++) {
    const crn_attention_item *it = &w.items[i];
    if (!w.states[i].seen) {
      crn_attention_masked_row(w.parts->exact, a, it->row, it->head, w.masked_scratch);
      continue;
    }
    const float *sink = a->sinks ? a->sinks + it->head : NULL;
    w.parts->finish(&w.states[i], w.sums + i * w.value_size, sink, a->value_size,
                    a->out + it->row * a->out_row_stride + it->head * a->out_head_stride);
  }
}

void crn_attention_merge_packed(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                                void *scratch, void *shared) {
  (void)kernel, (void)a, (void)plan, (void)job, (void)scratch, (void)shared;
}
