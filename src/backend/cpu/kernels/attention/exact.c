// Exact attention: blocks of 64 absolute positions through the parts of an instruction set. Both drivers walk the same blocks with
// the same parts and merge the same ranges in the same order, which makes their bits equal.
#include "backend/cpu/kernels/attention/exact.h"

#include "backend/cpu/kernels/attention/items.h"
#include "backend/cpu/kernels/attention/parts.h"
#include "tensor/half.h"

enum { BLOCK = CRN_ATTENTION_BLOCK, SPAN = CRN_ATTENTION_SPAN, HEAD = CRN_ATTENTION_HEAD, MANY_ITEMS = 64, TOGETHER = 4 };
enum { MOST_HEADS = 8, AHEAD_BYTES = 8192 };

// One job: items that share a head of keys, and the buffers for a block of positions.
typedef struct work {
  const crn_attention *a;
  const crn_attention_parts *parts;
  int64_t kv_head, n_sums, ld_q, ld_state;
  int64_t low, high;               ///< the positions any item sees
  int64_t end, after, after_head;  ///< of the blocks that are being taken, and where reading goes on behind them
  int n_items;
  bool no_range;  ///< rounded, and the item's range is empty
  bool rounded;   ///< the item has everything masked: scores get the mask's values and the roundings of the body
  crn_attention_item *items;
  uint64_t *live;  ///< bit c: the item sees position c of the block
  float *q, *scores, *masks;
  float *k, *v;  ///< a block as f32; NULL when items read the caches themselves
  float *states;
  float *totals;
} work;

static int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// Hands out parts of a block of memory, or, with base NULL, only counts.
static void *carve(char *base, size_t *at, size_t bytes) {
  void *part = base ? base + *at : NULL;
  *at += (bytes + 63) / 64 * 64;
  return part;
}

// Lays the buffers of n items out in `scratch` and returns their size.
static size_t lay_out(work *w, const crn_attention *a, int64_t n, bool many, void *scratch) {
  size_t at = 0, count = (size_t)n;
  w->a = a;
  w->n_items = (int)n;
  w->n_sums = padded(a->value_size);
  w->ld_q = padded(a->key_size);
  w->ld_state = HEAD + w->n_sums;
  w->items = carve(scratch, &at, count * sizeof(crn_attention_item));
  w->live = carve(scratch, &at, count * sizeof(uint64_t));
  w->q = carve(scratch, &at, count * (size_t)w->ld_q * sizeof(float));
  w->scores = carve(scratch, &at, count * BLOCK * sizeof(float));
  w->masks = a->mask || !many ? carve(scratch, &at, count * BLOCK * sizeof(float)) : NULL;
  w->totals = carve(scratch, &at, count * (size_t)w->ld_state * sizeof(float));
  w->states = carve(scratch, &at, count * (size_t)w->ld_state * sizeof(float));
  // Codes have no loops of their own: also few items get them as f32.
  if (many || a->k.type == CRN_CACHE_I8) w->k = carve(scratch, &at, BLOCK * (size_t)w->ld_q * sizeof(float));
  if (many || a->v.type == CRN_CACHE_I8) w->v = carve(scratch, &at, BLOCK * (size_t)w->n_sums * sizeof(float));
  return at;
}

static void start_item(work *w, int i, int64_t row, int64_t head) {
  const crn_attention *a = w->a;
  w->items[i] = crn_attention_item_of(a, row, head);
  const float *q = a->q + row * a->q_row_stride + head * a->q_head_stride;
  float *target = w->q + i * w->ld_q;
  for (int64_t d = 0; d < a->key_size; d++) target[d] = q[d] * a->scale;
  for (int64_t d = a->key_size; d < w->ld_q; d++) target[d] = 0;
}

static void reset_states(const work *w, float *states) {
  for (int i = 0; i < w->n_items; i++) {
    float *state = states + i * w->ld_state;
    for (int64_t d = 0; d < w->ld_state; d++) state[d] = 0;
    state[CRN_STATE_TOP] = -__builtin_inff();
  }
}

// --- masks ----------------------------------------------------------------------------------------------------------------

// Which positions of the block at `first` item i sees; what the mask adds, if anything, is left in w->masks.
static uint64_t look(work *w, int i, int64_t first) {
  const crn_attention_item *it = &w->items[i];
  float *mask = w->masks + i * BLOCK;
  if (w->rounded) {
    for (int c = 0; c < BLOCK; c++) mask[c] = CRN_ATTENTION_EXCLUDED;
    // A row whose range is empty has nothing to do with the mask.
    if (w->a->mask && !w->no_range) crn_attention_block_values(w->a, w->parts, it, first, mask);
    return crn_attention_block_range(it, first);
  }
  bool shared = i > 0 && w->a->mask_head_stride == 0 && it->row == it[-1].row;
  uint64_t bits = shared ? w->live[i - 1] : crn_attention_block_alive(w->a, w->parts, it, first);
  if (!bits || !w->a->mask || w->a->mask_type == CRN_MASK_BOOL) return bits;
  if (shared) {
    for (int c = 0; c < BLOCK; c++) mask[c] = mask[c - BLOCK];
  } else {
    crn_attention_block_values(w->a, w->parts, it, first, mask);
  }
  return bits;
}

static float round_to(int type, float x) {
  if (type == CRN_CACHE_F16) return crn_f16_to_f32(crn_f16_from_f32(x));
  return type == CRN_CACHE_BF16 ? crn_bf16_to_f32(crn_bf16_from_f32(x)) : x;
}

static void add_masks(const work *w) {
  int type = w->a->value_type;
  for (int i = 0; i < w->n_items; i++) {
    float *scores = w->scores + i * BLOCK;
    const float *mask = w->masks + i * BLOCK;
    uint64_t live = w->live[i];
    if (w->rounded) {
      for (int c = 0; c < BLOCK; c++) {
        if (live >> c & 1) scores[c] = round_to(type, round_to(type, scores[c]) + round_to(type, mask[c]));
      }
    } else if (w->a->mask_type != CRN_MASK_BOOL && live) {
      // What lies outside the live positions is overwritten later.
      for (int c = __builtin_ctzll(live); c < BLOCK - __builtin_clzll(live); c++) scores[c] += mask[c];
    }
  }
}

// --- blocks ---------------------------------------------------------------------------------------------------------------

static int ahead_rows(int64_t row_bytes) {
  int rows = (int)(AHEAD_BYTES / row_bytes) / 8 * 8;
  return rows < 8 ? 8 : rows > BLOCK ? BLOCK : rows;
}

// Where the rows lie that are to be fetched while the *n rows from c of the block on are read, or NULL: AHEAD_BYTES further on, in the
// order in which they will be read, wherever that goes on. The distance lasts for the softmax between keys and values, and keeps as many
// reads on their way as the processor takes. *n is cut where the rows to come do not lie behind one another.
static const void *rows_ahead(const work *w, const crn_cache_view *view, int64_t size, int64_t first, int c, int *n) {
  if (w->k || view->page_shift < 6) return NULL;
  int bytes = view->type == CRN_CACHE_F32 ? 4 : 2, rows = ahead_rows(size * bytes);
  bool is_last = first + BLOCK >= w->end;
  int64_t next_head = is_last ? w->after_head : w->kv_head, next = is_last ? w->after : first + BLOCK;
  int filled = w->high - first < BLOCK ? (int)(w->high - first) : BLOCK, left = filled - rows - c;  // of these in this block
  int64_t head = left > 0 ? w->kv_head : next_head, position = left > 0 ? first + c + rows : next - left;
  // What nobody sees is not fetched either.
  if (position >= w->high) return NULL;
  if (*n > w->high - position) *n = (int)(w->high - position);
  const char *here = crn_cache_at(view, head, position);
  if (left > 0 && *n > left && next < w->high) {
    const char *behind = here + left * view->position_stride * bytes;
    if (behind != crn_cache_at(view, next_head, next)) *n = left;
  }
  return here;
}

// Asks for the rows that a job reads first, of which nobody told the processor.
static void ask_for_first(const work *w, const crn_cache_view *view, int64_t size, int64_t first) {
  int bytes = view->type == CRN_CACHE_F32 ? 4 : 2;
  int64_t n = w->high - first < ahead_rows(size * bytes) ? w->high - first : ahead_rows(size * bytes);
  if (view->type == CRN_CACHE_I8 || n <= 0) return;
  n = crn_cache_run(view, first, n);
  const char *row = crn_cache_at(view, w->kv_head, first);
  for (int64_t i = 0; i < n; i++, row += view->position_stride * bytes) {
    for (int64_t at = 0; at < size * bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
  }
}

// Rows of codes as f32, filled up with zeros to rows of ld.
static void dequantize_rows(const work *w, const crn_cache_view *view, int64_t first, int n, int64_t size, int64_t ld, float *target) {
  int64_t in_page = first & (((int64_t)1 << view->page_shift) - 1);
  int64_t element = w->kv_head * view->head_stride + in_page * view->position_stride;
  const int8_t *codes = crn_cache_at(view, w->kv_head, first);
  const float *scales = view->scales[first >> view->page_shift];
  for (int c = 0; c < n; c++, codes += view->position_stride, element += view->position_stride, target += ld) {
    int64_t at = view->base + element, d = 0;
    while (d < size) {
      int64_t left = view->group - (at + d) % view->group, run = left < size - d ? left : size - d;
      w->parts->dequantize(codes + d, scales[(at + d) / view->group], run, target + d);
      d += run;
    }
    for (; d < ld; d++) target[d] = 0;
  }
}

static void score_block(const work *w, int64_t first, int from, int to) {
  const crn_attention *a = w->a;
  const crn_cache_view *k = &a->k;
  bool wide = w->k && k->type != CRN_CACHE_F32;
  for (int c = from; c < to;) {
    int n = (int)crn_cache_run(k, first + c, to - c);
    const void *keys = crn_cache_at(k, w->kv_head, first + c);
    if (k->type == CRN_CACHE_I8) {
      dequantize_rows(w, k, first + c, n, a->key_size, w->ld_q, w->k + c * w->ld_q);
    } else if (wide) {
      w->parts->widen[k->type](keys, k->position_stride, n, a->key_size, w->k + c * w->ld_q);
    } else {
      const void *ahead = rows_ahead(w, k, a->key_size, first, c, &n);
      w->parts->score[k->type](w->q, w->ld_q, w->n_items, keys, k->position_stride, n, a->key_size, ahead, w->scores + c);
    }
    c += n;
  }
  if (wide) {
    const float *keys = w->k + from * w->ld_q;
    w->parts->score[CRN_CACHE_F32](w->q, w->ld_q, w->n_items, keys, w->ld_q, to - from, w->ld_q, NULL, w->scores + from);
  }
}

static void widen_values(const work *w, int64_t first, int from, int to) {
  const crn_cache_view *v = &w->a->v;
  for (int c = from; c < to;) {
    int n = (int)crn_cache_run(v, first + c, to - c);
    float *target = w->v + c * w->n_sums;
    if (v->type == CRN_CACHE_I8) {
      dequantize_rows(w, v, first + c, n, w->a->value_size, w->n_sums, target);
    } else {
      w->parts->widen[v->type](crn_cache_at(v, w->kv_head, first + c), v->position_stride, n, w->a->value_size, target);
    }
    c += n;
  }
}

// Adds the values of positions [from, to) of the block to the sums of n items.
static void add_values(const work *w, int64_t first, int i, int n_items, int from, int to) {
  const crn_cache_view *v = &w->a->v;
  float *sums = w->states + i * w->ld_state + HEAD;
  const float *weights = w->scores + i * BLOCK;
  if (w->v && v->type != CRN_CACHE_F32) {
    if (from >= to) return;
    const float *values = w->v + from * w->n_sums;
    w->parts->add[CRN_CACHE_F32](weights + from, n_items, values, w->n_sums, to - from, w->n_sums, NULL, sums, w->ld_state);
    return;
  }
  for (int c = from; c < to;) {
    int n = (int)crn_cache_run(v, first + c, to - c);
    const void *values = crn_cache_at(v, w->kv_head, first + c);
    const void *ahead = i == 0 ? rows_ahead(w, v, w->a->value_size, first, c, &n) : NULL;
    w->parts->add[v->type](weights + c, n_items, values, v->position_stride, n, w->a->value_size, ahead, sums, w->ld_state);
    c += n;
  }
}

// An item that sees its positions in pieces: one piece after the other.
static void add_pieces(const work *w, int64_t first, int i) {
  uint64_t live = w->live[i];
  for (int c = 0; c < BLOCK && live >> c;) {
    c += __builtin_ctzll(live >> c);
    int to = c;
    while (to < BLOCK && live >> to & 1) to++;
    add_values(w, first, i, 1, c, to);
    c = to;
  }
}

// Items that see one piece each share the part all of them see.
static void add_shared(const work *w, int64_t first, int i, int n) {
  int low = 0, high = BLOCK;
  bool whole = true;
  for (int j = i; j < i + n; j++) {
    uint64_t live = w->live[j];
    int from = live ? __builtin_ctzll(live) : BLOCK, to = live ? BLOCK - __builtin_clzll(live) : 0;
    whole = whole && live == crn_attention_bits(from, to);
    if (from > low) low = from;
    if (to < high) high = to;
  }
  if (!whole || low >= high) {
    for (int j = i; j < i + n; j++) add_pieces(w, first, j);
    return;
  }
  for (int j = i; j < i + n; j++) add_values(w, first, j, 1, __builtin_ctzll(w->live[j]), low);
  add_values(w, first, i, n, low, high);
  for (int j = i; j < i + n; j++) add_values(w, first, j, 1, high, BLOCK - __builtin_clzll(w->live[j]));
}

// One block of positions for all items. A block nobody sees is not touched.
static void take_block(work *w, int64_t first) {
  uint64_t any = 0, all = ~(uint64_t)0;
  for (int i = 0; i < w->n_items; i++) {
    w->live[i] = look(w, i, first);
    any |= w->live[i];
    all &= w->live[i];
  }
  if (!any) return;
  int from = __builtin_ctzll(any), to = BLOCK - __builtin_clzll(any);
  score_block(w, first, from, to);
  if (w->a->mask || w->rounded) add_masks(w);
  w->parts->soften(w->scores, w->live, w->n_items, w->states, w->ld_state, w->n_sums);
  if (w->v && w->a->v.type != CRN_CACHE_F32) widen_values(w, first, from, to);
  if (any == all && any == crn_attention_bits(from, to)) {
    add_values(w, first, 0, w->n_items, from, to);
    return;
  }
  for (int i = 0; i < w->n_items; i += TOGETHER) add_shared(w, first, i, w->n_items - i < TOGETHER ? w->n_items - i : TOGETHER);
}

// Empties the states for a range, and finds what the items see.
static void open_span(work *w) {
  reset_states(w, w->states);
  w->low = w->a->positions;
  w->high = 0;
  for (int i = 0; i < w->n_items; i++) {
    const crn_attention_item *it = &w->items[i];
    if (it->low < it->high && it->low < w->low) w->low = it->low;
    if (it->high > w->high) w->high = it->high;
  }
}

// The blocks of [from, to), which begins where a block does.
static void take_blocks(work *w, int64_t from, int64_t to) {
  w->end = to < w->high ? to : w->high;
  if (w->low > from) from = w->low / BLOCK * BLOCK;
  for (int64_t first = from; first < to && first < w->high; first += BLOCK) take_block(w, first);
}

static void take_span(work *w, int64_t span) {
  open_span(w);
  w->after = (span + 1) * SPAN;
  w->after_head = w->kv_head;
  take_blocks(w, span * SPAN, (span + 1) * SPAN);
}

// An item that saw nothing: all of its range counts, or all positions.
static void take_masked(const work *w, int i, float *total) {
  work m = *w;
  crn_attention_item it = crn_attention_item_whole(w->a, w->items[i].row, w->items[i].head);
  m.no_range = it.low >= it.high;
  if (m.no_range) it.low = 0, it.high = w->a->positions;
  float mask[BLOCK];
  m.items = &it;
  m.q = w->q + i * w->ld_q;
  m.masks = mask;
  m.n_items = 1;
  m.rounded = true;
  reset_states(&m, total);
  for (int64_t span = it.low / SPAN; span * SPAN < it.high; span++) {
    take_span(&m, span);
    m.parts->merge(total, m.states, m.n_sums);
  }
}

static void merge_states(const work *w) {
  for (int i = 0; i < w->n_items; i++) w->parts->merge(w->totals + i * w->ld_state, w->states + i * w->ld_state, w->n_sums);
}

static void finish_items(const work *w) {
  const crn_attention *a = w->a;
  for (int i = 0; i < w->n_items; i++) {
    const crn_attention_item *it = &w->items[i];
    float *total = w->totals + i * w->ld_state;
    if (total[CRN_STATE_SEEN] == 0) take_masked(w, i, total);
    const float *sink = a->sinks ? a->sinks + it->head : NULL;
    w->parts->finish(total, sink, a->value_size, a->out + it->row * a->out_row_stride + it->head * a->out_head_stride);
  }
}

size_t crn_attention_masked_bytes(const crn_attention *a) {
  work w;
  return lay_out(&w, a, 1, false, NULL);
}

void crn_attention_masked_row(const crn_attention_parts *parts, const crn_attention *a, int64_t row, int64_t head, void *scratch) {
  work w = {.parts = parts, .kv_head = head / (a->heads / a->kv_heads)};
  lay_out(&w, a, 1, false, scratch);
  start_item(&w, 0, row, head);
  reset_states(&w, w.totals);
  finish_items(&w);
}

// --- few rows: jobs are heads of keys, some together, × runs of ranges of positions -----------------------------------------------

// Heads lie behind one another in a page: those of a job are read in one go. Where heads divide among the workers, each has as many.
static int64_t heads_together(int64_t kv_heads, int64_t workers, int64_t runs) {
  int64_t most = 1;
  for (int64_t n = 2; n <= MOST_HEADS; n++) {
    int64_t sets = kv_heads / n;
    if (kv_heads % n == 0 && sets * runs >= 2 * workers && (sets % workers == 0 || kv_heads % workers != 0)) most = n;
  }
  return most;
}

void crn_attention_plan_few(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out) {
  (void)kernel;
  work w;
  int64_t items = a->rows * (a->heads / a->kv_heads);
  int64_t low, high;
  crn_attention_rows_range(a, 0, a->rows - 1, &low, &high);
  *out = (crn_attention_plan){.first_span = low / SPAN, .job_heads = 1};
  out->n_spans = (high + SPAN - 1) / SPAN - out->first_span;
  if (out->n_spans < 1) out->n_spans = 1;
  // Long contexts are cut into runs of all heads; in short ones, where heads are enough for all workers, nothing has to be merged.
  int64_t workers = n_workers, most = (4 * workers + a->kv_heads - 1) / a->kv_heads;
  if (out->n_spans >= 4 * workers) {
    most = out->n_spans / 4 < 2 * workers ? 2 * workers : out->n_spans / 4;
    if (most > 4 * workers) most = 4 * workers;
  }
  out->n_runs = out->n_spans < most ? out->n_spans : most;
  out->job_heads = heads_together(a->kv_heads, workers, out->n_runs);
  out->worker_bytes = (size_t)out->job_heads * lay_out(&w, a, items, false, NULL);
  out->jobs = a->kv_heads / out->job_heads * out->n_runs;
  if (out->n_runs == 1) return;
  out->merge_jobs = a->kv_heads * items;
  out->shared_bytes = (size_t)(a->kv_heads * items * out->n_spans * w.ld_state) * sizeof(float);
}

static size_t start_few(work *w, const crn_attention_kernel *kernel, const crn_attention *a, int64_t kv_head, void *scratch) {
  int64_t group = a->heads / a->kv_heads;
  *w = (work){.parts = kernel->parts, .kv_head = kv_head};
  return lay_out(w, a, a->rows * group, false, scratch);
}

// Runs of ranges that are as long as others or one longer, the longer ones first: what is done last should be short.
static int64_t run_begin(const crn_attention_plan *plan, int64_t run) { return (plan->n_spans * run + plan->n_runs - 1) / plan->n_runs; }

// One range for n heads: each as much as lies behind one another in a page, then the next head.
static void take_together(work *heads, int n, int64_t span, bool is_first) {
  int64_t piece = SPAN, end = (span + 1) * SPAN;
  int k_shift = heads->a->k.page_shift, v_shift = heads->a->v.page_shift, shift = k_shift < v_shift ? k_shift : v_shift;
  if (shift < 8) piece = shift < 6 ? BLOCK : (int64_t)1 << shift;
  // Or, where all heads of a position do, a block.
  if (heads->a->k.head_stride < heads->a->k.position_stride) piece = BLOCK;
  for (int h = 0; h < n; h++) open_span(&heads[h]);
  if (is_first) {
    int64_t begin = heads->low > span * SPAN ? heads->low / BLOCK * BLOCK : span * SPAN;
    ask_for_first(heads, &heads->a->k, heads->a->key_size, begin);
    ask_for_first(heads, &heads->a->v, heads->a->value_size, begin);
  }
  for (int64_t from = span * SPAN; from < end; from += piece) {
    for (int h = 0; h < n; h++) {
      bool is_last = h + 1 == n;
      heads[h].after = is_last ? from + piece : from;
      heads[h].after_head = heads[is_last ? 0 : h + 1].kv_head;
      take_blocks(&heads[h], from, from + piece);
    }
  }
}

void crn_attention_run_few(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                           void *scratch, void *shared) {
  work heads[MOST_HEADS];
  int n = (int)plan->job_heads;
  int64_t run = job % plan->n_runs, kv_head = job / plan->n_runs * n, group = a->heads / a->kv_heads;
  for (int h = 0; h < n; h++) {
    work *w = &heads[h];
    scratch = (char *)scratch + start_few(w, kernel, a, kv_head + h, scratch);
    for (int i = 0; i < w->n_items; i++) start_item(w, i, i / group, w->kv_head * group + i % group);
    if (plan->merge_jobs == 0) reset_states(w, w->totals);
  }
  for (int64_t span = run_begin(plan, run); span < run_begin(plan, run + 1); span++) {
    for (int h = 0; h < n && plan->merge_jobs; h++) {
      heads[h].states = (float *)shared + (heads[h].kv_head * plan->n_spans + span) * heads[h].n_items * heads[h].ld_state;
    }
    take_together(heads, n, plan->first_span + span, span == run_begin(plan, run));
    for (int h = 0; h < n && !plan->merge_jobs; h++) merge_states(&heads[h]);
  }
  for (int h = 0; h < n && !plan->merge_jobs; h++) finish_items(&heads[h]);
}

void crn_attention_merge_few(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                             void *scratch, void *shared) {
  work w;
  int64_t group = a->heads / a->kv_heads, items = a->rows * group, kv_head = job / items;
  int i = (int)(job % items);
  start_few(&w, kernel, a, kv_head, scratch);
  w.n_items = 1;
  reset_states(&w, w.totals);
  for (int64_t span = 0; span < plan->n_spans; span++) {
    w.parts->merge(w.totals, (float *)shared + ((kv_head * plan->n_spans + span) * items + i) * w.ld_state, w.n_sums);
  }
  start_item(&w, 0, i / group, kv_head * group + i % group);
  finish_items(&w);
}

// --- many rows: jobs are heads of keys × blocks of rows ------------------------------------------------------------------------

void crn_attention_plan_many(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out) {
  (void)kernel;
  work w;
  int64_t group = a->heads / a->kv_heads, block = MANY_ITEMS / group > 0 ? MANY_ITEMS / group : 1;
  // Smaller blocks where workers would stay idle: they widen keys and values more often.
  while (block > 8 && a->kv_heads * ((a->rows + block - 1) / block) < 2 * (int64_t)n_workers) block /= 2;
  *out = (crn_attention_plan){.block_rows = block};
  out->jobs = a->kv_heads * ((a->rows + block - 1) / block);
  out->worker_bytes = lay_out(&w, a, block * group, true, NULL);
}

void crn_attention_run_many(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                            void *scratch, void *shared) {
  (void)shared;
  // Blocks of a head follow each other, for its keys and values stay in the cache. The last rows see most under a causal range:
  // they go first, so that no worker is left with a long job at the end.
  int64_t blocks = (a->rows + plan->block_rows - 1) / plan->block_rows, row = (blocks - 1 - job % blocks) * plan->block_rows;
  work w = {.parts = kernel->parts, .kv_head = job / blocks};
  int64_t group = a->heads / a->kv_heads, rows = a->rows - row < plan->block_rows ? a->rows - row : plan->block_rows;
  lay_out(&w, a, rows * group, true, scratch);
  int64_t low, high;
  crn_attention_rows_range(a, row, row + rows - 1, &low, &high);
  for (int i = 0; i < w.n_items; i++) start_item(&w, i, row + i / group, w.kv_head * group + i % group);
  reset_states(&w, w.totals);
  for (int64_t span = low / SPAN; span * SPAN < high; span++) {
    take_span(&w, span);
    merge_states(&w);
  }
  finish_items(&w);
}

void crn_attention_merge_many(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,
                              void *scratch, void *shared) {
  (void)kernel, (void)a, (void)plan, (void)job, (void)scratch, (void)shared;
}
