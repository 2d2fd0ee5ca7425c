/// What happens when the context is full: older tokens are dropped, or the caller replaces them, and what is left is fed again. Positions
/// of kept rows would be wrong otherwise, so nothing but the common beginning is reused.
#include <string.h>

#include "engines/llm/generator.h"
#include "engines/llm/speculate.h"
#include "engines/llm/vision.h"

enum { DEFAULT_SINKS = 4, LEAST_CONTEXT = 8 };

static int64_t sinks_of(const crn_generator *g) {
  const int64_t asked = g->options->overflow.sinks, most = g->llm->max_context / 2;
  const int64_t sinks = asked < 0 ? 0 : asked ? asked : DEFAULT_SINKS;
  return sinks < most ? sinks : most;
}

static int64_t margin_of(const crn_generator *g) {
  const int64_t asked = g->options->overflow.margin, quarter = g->llm->max_context / 4;
  const int64_t most = g->llm->max_context - sinks_of(g) - 1, margin = asked > 0 ? asked : quarter > 0 ? quarter : 1;
  return margin < most ? margin : most;
}

static bool is_on(const crn_generator *g) { return g->options->overflow.kind != CAIRN_OVERFLOW_REFUSE && !g->is_forced; }

int64_t crn_overflow_limit(const crn_generator *g) {
  const bool keeps_room = is_on(g) && g->options->overflow.kind == CAIRN_OVERFLOW_SUMMARISE;
  return g->llm->max_context - (keeps_room ? margin_of(g) : 0);
}

bool crn_overflow_goes_on(const crn_generator *g) {
  return is_on(g) && g->is_over && g->result->reason == CAIRN_STOP_CONTEXT_FULL && !g->has_left && !g->has_cut;
}

// --- what is left -------------------------------------------------------------------------------------------------------

// All tokens of the sequence: what was fed, and what was generated behind it.
static cairn_status all_tokens(const crn_generator *g, crn_id_vec *out) {
  const cairn_allocator *a = &g->llm->context->allocator;
  const crn_id_vec *tokens = &g->result->tokens;
  const size_t n = tokens->size - g->first_token;
  CRN_TRY(crn_vec_reserve(a, out, g->fed.size + n));
  if (g->fed.size) memcpy(out->items, g->fed.items, g->fed.size * sizeof *out->items);
  if (n) memcpy(out->items + g->fed.size, tokens->items + g->first_token, n * sizeof *out->items);
  out->size = g->fed.size + n;
  return CAIRN_OK;
}

// Drops whole margins, so that the prompts of later turns, which hold the dropped tokens again, are cut at the same place. A picture is
// not cut in two: what is left of one in front of a cut, or behind it, goes too.
static void slide(const crn_generator *g, crn_id_vec *all) {
  const int64_t n = (int64_t)all->size, margin = margin_of(g), over = n - g->llm->max_context + 1;
  int64_t first = sinks_of(g), end = first + (over + margin - 1) / margin * margin;
  if (end > n - 1) end = n - 1;
  while (first > 0 && all->items[first - 1] < 0) first--;
  while (end < n - 1 && all->items[end] < 0 && all->items[end - 1] < 0) end++;
  if (first > end) first = end;
  memmove(all->items + first, all->items + end, (size_t)(n - end) * sizeof *all->items);
  all->size = (size_t)(n - (end - first));
}

static cairn_status summarise(const crn_generator *g, crn_id_vec *all) {
  const cairn_overflow *o = &g->options->overflow;
  const size_t most = (size_t)crn_overflow_limit(g) - 1;
  const int32_t *tokens = NULL;
  size_t n = 0;
  for (size_t i = 0; i < all->size; i++) {
    if (all->items[i] < 0) all->items[i] = crn_vision_token(g->llm->model->vision);
  }
  CRN_TRY(o->replace(o->user, all->items, all->size, most, &tokens, &n));
  if (!tokens || n < 1 || n > most)
    return CRN_FAIL(INVALID_ARGUMENT, "the overflow function gave %zu tokens; 1 to %zu are expected", n, most);
  CRN_TRY(crn_llm_check_tokens(g->llm, "replacement", tokens, n));
  if (n > all->size) CRN_TRY(crn_vec_reserve(&g->llm->context->allocator, all, n - all->size));
  memmove(all->items, tokens, n * sizeof *tokens);
  all->size = n;
  return CAIRN_OK;
}

cairn_status crn_overflow_make_room(crn_generator *g) {
  const cairn_allocator *a = &g->llm->context->allocator;
  cairn_generation *r = g->result;
  crn_id_vec all = {0};
  cairn_status status = all_tokens(g, &all);
  const size_t before = all.size;
  if (status == CAIRN_OK && g->options->overflow.kind == CAIRN_OVERFLOW_SLIDE) slide(g, &all);
  if (status == CAIRN_OK && g->options->overflow.kind == CAIRN_OVERFLOW_SUMMARISE) status = summarise(g, &all);
  if (status != CAIRN_OK) {
    crn_vec_free(a, &all);
    return status;
  }
  // The images of the prompt are kept by its tokens until the generation ends.
  if (g->placed.size) {
    crn_vec_free(a, &g->fed);
  } else {
    g->placed = g->fed;
  }
  g->fed = all;
  g->first_token = r->tokens.size;
  // Drafts are looked up in a sequence that is no more.
  crn_speculator_end(g);
  g->is_over = false;
  r->overflow = g->options->overflow.kind;
  r->n_overflows++;
  r->overflow_dropped += before > all.size ? (int64_t)(before - all.size) : 0;
  return CAIRN_OK;
}

// --- the prompt ---------------------------------------------------------------------------------------------------------

cairn_status crn_overflow_begin(crn_generator *g) {
  const cairn_overflow *o = &g->options->overflow;
  if (o->kind < CAIRN_OVERFLOW_REFUSE || o->kind > CAIRN_OVERFLOW_SUMMARISE)
    return CRN_FAIL(INVALID_ARGUMENT, "overflow kind %d; 0 (refuse), 1 (slide) or 2 (summarise) expected", (int)o->kind);
  if (o->kind == CAIRN_OVERFLOW_SUMMARISE && !o->replace)
    return CRN_FAIL(INVALID_ARGUMENT, "overflow 'summarise' needs a function that gives the summary");
  if (!is_on(g)) return CAIRN_OK;
  if (g->llm->max_context < LEAST_CONTEXT)
    return CRN_FAIL(INVALID_ARGUMENT, "a context of %lld tokens is too short to make room in; it must have %d or more",
                    (long long)g->llm->max_context, (int)LEAST_CONTEXT);
  if (g->options->max_tokens == 0 || (int64_t)g->fed.size + 1 <= crn_overflow_limit(g)) return CAIRN_OK;
  CRN_TRY(crn_overflow_make_room(g));
  g->first_token = 0;
  return CAIRN_OK;
}
