#include "engines/llm/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engines/llm/logits.h"

// --- random numbers -------------------------------------------------------------------------------------------------

void crn_rng_seed(crn_rng *rng, uint64_t seed) {
  for (int i = 0; i < 4; i++) {
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    rng->s[i] = z ^ z >> 31;
  }
}

static uint64_t rotate(uint64_t x, int k) { return x << k | x >> (64 - k); }

uint64_t crn_rng_next(crn_rng *rng) {
  uint64_t *s = rng->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

double crn_rng_uniform(crn_rng *rng) { return (double)(crn_rng_next(rng) >> 11) * 0x1p-53; }

// --- configuration --------------------------------------------------------------------------------------------------

cairn_status cairn_sampling_check(const cairn_sampling *c) {
  CRN_REQUIRE_NAMED(c, "sampling");
  if (!(c->temperature >= 0) || isinf(c->temperature))
    return CRN_FAIL(INVALID_ARGUMENT, "temperature must be 0 (greedy) or a finite number above it (got %g)", (double)c->temperature);
  if (c->has_top_k && c->top_k <= 0) return CRN_FAIL(INVALID_ARGUMENT, "top_k must be positive if set (got %d)", c->top_k);
  if (c->has_top_p && !(c->top_p > 0 && c->top_p <= 1))
    return CRN_FAIL(INVALID_ARGUMENT, "top_p must be in (0, 1] if set (got %g)", (double)c->top_p);
  if (c->has_min_p && !(c->min_p > 0 && c->min_p <= 1))
    return CRN_FAIL(INVALID_ARGUMENT, "min_p must be in (0, 1] if set (got %g)", (double)c->min_p);
  if (c->has_repetition_penalty && (!(c->repetition_penalty >= 1) || isinf(c->repetition_penalty))) {
    return CRN_FAIL(INVALID_ARGUMENT, "repetition_penalty must be 1 or more, and finite, if set (got %g)", (double)c->repetition_penalty);
  }
  if (c->has_repetition_window && c->repetition_window <= 0) {
    return CRN_FAIL(INVALID_ARGUMENT, "repetition_window must be positive if set (got %d)", c->repetition_window);
  }
  return CAIRN_OK;
}

// Turns settings that mean the same as something simpler into that, and says so.
static void normalize(cairn_context *context, cairn_sampling *c) {
  bool has_filter = c->has_top_k || c->has_top_p || c->has_min_p;
  if (c->temperature == 0 && has_filter) CRN_WARN(context, "temperature 0 is greedy: top_k, top_p and min_p are left out");
  if (c->temperature > 0 && c->has_top_k && c->top_k == 1) {
    CRN_WARN(context, "top_k 1 leaves one token to choose from: the choice is greedy");
    c->temperature = 0;
  }
  if (c->has_top_p && c->top_p >= 1) c->has_top_p = false;
  if (c->has_repetition_penalty && c->repetition_penalty <= 1) c->has_repetition_penalty = false;
  if (c->temperature == 0) c->has_top_k = c->has_top_p = c->has_min_p = false;
}

static bool has_filters(const cairn_sampling *c) { return c->has_top_k || c->has_top_p || c->has_min_p; }

cairn_status crn_sampler_initialize(crn_sampler *s, cairn_context *context, const cairn_sampling *config, int64_t vocab_size) {
  *s = (crn_sampler){.allocator = &context->allocator, .config = *config, .vocab_size = vocab_size};
  CRN_TRY(cairn_sampling_check(config));
  normalize(context, &s->config);
  s->is_greedy = s->config.temperature == 0;
  crn_rng_seed(&s->rng, config->seed);
  cairn_status status;
  if (has_filters(&s->config)) {
    s->n_candidates = s->config.has_top_k && s->config.top_k < vocab_size ? s->config.top_k : vocab_size;
    CRN_TRY_GOTO(crn_alloc_array(s->allocator, (size_t)s->n_candidates, sizeof *s->candidates, &s->candidates));
  }
  if (s->config.has_repetition_penalty) CRN_TRY_GOTO(crn_alloc_array(s->allocator, (size_t)vocab_size, sizeof *s->seen, &s->seen));
  return CAIRN_OK;
done:
  crn_sampler_deinitialize(s);
  return status;
}

void crn_sampler_deinitialize(crn_sampler *s) {
  if (s->candidates) crn_free(s->allocator, s->candidates, (size_t)s->n_candidates * sizeof *s->candidates);
  if (s->seen) crn_free(s->allocator, s->seen, (size_t)s->vocab_size * sizeof *s->seen);
  crn_vec_free(s->allocator, &s->generated);
  s->candidates = NULL;
  s->seen = NULL;
}

// --- repetition penalty ---------------------------------------------------------------------------------------------

cairn_status crn_sampler_reserve(crn_sampler *s, int64_t n) {
  if (!s->config.has_repetition_penalty) return CAIRN_OK;
  return crn_vec_reserve(s->allocator, &s->generated, (size_t)n);
}

cairn_status crn_sampler_accept(crn_sampler *s, int32_t token) {
  if (!s->config.has_repetition_penalty) return CAIRN_OK;
  return crn_vec_push(s->allocator, &s->generated, token);
}

void crn_sampler_penalize(crn_sampler *s, float *row) {
  if (!s->config.has_repetition_penalty) return;
  if (++s->epoch == 0) {  // wrapped around: old marks would look fresh
    memset(s->seen, 0, (size_t)s->vocab_size * sizeof *s->seen);
    s->epoch = 1;
  }
  float penalty = s->config.repetition_penalty;
  size_t n = s->generated.size, window = s->config.has_repetition_window ? (size_t)s->config.repetition_window : n;
  for (size_t i = n > window ? n - window : 0; i < n; i++) {
    int32_t token = s->generated.items[i];
    if (token < 0 || token >= s->vocab_size || s->seen[token] == s->epoch) continue;
    s->seen[token] = s->epoch;
    row[token] = row[token] > 0 ? row[token] / penalty : row[token] * penalty;
  }
}

// --- candidates -----------------------------------------------------------------------------------------------------

// The order of candidates: larger logit first, lower id on ties.
static bool is_before(crn_candidate a, crn_candidate b) { return a.logit > b.logit || (a.logit == b.logit && a.token < b.token); }

static int compare(const void *a, const void *b) { return is_before(*(const crn_candidate *)a, *(const crn_candidate *)b) ? -1 : 1; }

// Restores the heap below `i`. With `last_on_top` the candidate that comes last in the order is at the root, else the first.
static void sift_down(crn_candidate *heap, int64_t n, int64_t i, bool last_on_top) {
  for (;;) {
    int64_t top = i;
    for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++) {
      if (last_on_top ? is_before(heap[top], heap[child]) : is_before(heap[child], heap[top])) top = child;
    }
    if (top == i) return;
    crn_candidate t = heap[i];
    heap[i] = heap[top];
    heap[top] = t;
    i = top;
  }
}

static void make_heap(crn_candidate *heap, int64_t n, bool last_on_top) {
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(heap, n, i, last_on_top);
}

// Collects the k best in order, or everything at or above `least` unordered when k covers the vocabulary.
static int64_t collect_best(crn_sampler *s, const float *row, float scale) {
  crn_candidate *c = s->candidates;
  int64_t n = 0, k = s->n_candidates;
  for (int64_t i = 0; i < s->vocab_size; i++) {
    if (!(row[i] > -INFINITY)) continue;  // -inf and NaN
    crn_candidate next = {row[i] * scale, (int32_t)i};
    if (n < k) {
      c[n++] = next;
      if (n == k && k < s->vocab_size) make_heap(c, n, true);
    } else if (next.logit > c[0].logit) {  // an equal one comes later and so stays out
      c[0] = next;
      sift_down(c, n, 0, true);
    }
  }
  return n;
}

// Drops candidates below best + ln(min_p). The best one always stays.
static int64_t filter_min_p(crn_candidate *c, int64_t n, float min_p) {
  float best = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (c[i].logit > best) best = c[i].logit;
  }
  float least = best + logf(min_p);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) {
    if (c[i].logit >= least) c[kept++] = c[i];
  }
  return kept;
}

// The unnormalised probability of a logit. Several +inf share everything among themselves.
static double weight(float logit, float best) { return logit == best ? 1 : (double)expf(logit - best); }

// Moves the smallest set that holds `top_p` of the probability to the front, in order, and returns its size. A heap gives
// out only as many candidates as the set has, so the vocabulary is never sorted as a whole.
static int64_t filter_top_p(crn_candidate *c, int64_t n, float top_p) {
  make_heap(c, n, false);
  float best = c[0].logit;
  double total = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) total += weight(c[i].logit, best);
  int64_t left = n, kept = 0;
  // Sorted candidates grow from the end of the array while the heap shrinks.
  while (left > 0) {
    crn_candidate first = c[0];
    c[0] = c[--left];
    sift_down(c, left, 0, false);
    c[left] = first;
    kept++;
    sum += weight(first.logit, best);
    if (sum >= (double)top_p * total) break;
  }
  for (int64_t i = 0; i < kept / 2; i++) {  // the sorted run is backwards
    crn_candidate t = c[left + i];
    c[left + i] = c[left + kept - 1 - i];
    c[left + kept - 1 - i] = t;
  }
  memmove(c, c + left, (size_t)kept * sizeof *c);
  return kept;
}

// --- drawing --------------------------------------------------------------------------------------------------------

static int32_t draw_candidate(crn_sampler *s, const crn_candidate *c, int64_t n) {
  double total = 0, sum = 0, r = crn_rng_uniform(&s->rng);
  int32_t chosen = c[0].token;
  for (int64_t i = 0; i < n; i++) total += weight(c[i].logit, c[0].logit);
  for (int64_t i = 0; i < n; i++) {
    double w = weight(c[i].logit, c[0].logit);
    if (w <= 0) continue;
    chosen = c[i].token;  // rounding can leave a rest: the last possible one gets it
    sum += w;
    if (r * total < sum) break;
  }
  return chosen;
}

// Without filters the row itself takes the weights, so that each is computed once.
static int32_t draw_row(crn_sampler *s, float *row, float best, float scale) {
  double total = 0, sum = 0, r = crn_rng_uniform(&s->rng);
  int32_t chosen = 0;
  float top = best * scale;
  for (int64_t i = 0; i < s->vocab_size; i++) {
    row[i] = row[i] > -INFINITY ? (float)weight(row[i] * scale, top) : 0;
    total += (double)row[i];
  }
  for (int64_t i = 0; i < s->vocab_size; i++) {
    if (!(row[i] > 0)) continue;
    chosen = (int32_t)i;  // rounding can leave a rest: the last possible one gets it
    sum += (double)row[i];
    if (r * total < sum) break;
  }
  return chosen;
}

int32_t crn_sampler_pick(crn_sampler *s, float *row) {
  crn_sampler_penalize(s, row);
  float best;
  int32_t greedy = crn_logits_argmax(row, s->vocab_size, &best);
  if (s->is_greedy || best == -INFINITY) return greedy;
  // A temperature so small that its inverse overflows is as good as greedy.
  float scale = 1.0f / s->config.temperature;
  if (isinf(scale) || (!isinf(best) && isinf(best * scale))) return greedy;
  if (!has_filters(&s->config)) return draw_row(s, row, best, scale);
  int64_t n = collect_best(s, row, scale);
  if (s->config.has_min_p) n = filter_min_p(s->candidates, n, s->config.min_p);
  if (s->config.has_top_p) {
    n = filter_top_p(s->candidates, n, s->config.top_p);
  } else {
    qsort(s->candidates, (size_t)n, sizeof *s->candidates, compare);
  }
  return draw_candidate(s, s->candidates, n);
}
