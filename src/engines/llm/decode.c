/// Choosing tokens and feeding them, one after the other.
#include <math.h>

#include "base/trace.h"
#include "engines/llm/guide.h"
#include "engines/llm/speculate.h"

// Asked before every run, so that a long prompt can be cancelled, too.
bool crn_generator_should_stop(void *user) {
  const crn_generator *g = user;
  if (g->is_cancelled && atomic_load((atomic_bool *)g->is_cancelled)) return true;
  return atomic_load(&g->llm->turn.is_cancelled) || (g->options->should_cancel && g->options->should_cancel(g->options->user));
}

cairn_status crn_generator_choose(crn_generator *g, float *row, int32_t *out_token) {
  if (g->guide) CRN_TRY(crn_guide_mask(g->guide, row, g->llm->model->contract.vocab_size));
  const int64_t start = crn_trace_begin(g->llm->context), at = (int64_t)g->result->prompt.size + g->n_chosen++;
  *out_token = crn_sampler_pick(&g->sampler, row);
  CRN_TRACE_END(g->llm->context, start, "engine", NULL, "Sample %lld", (long long)at);
  if (row[*out_token] > -INFINITY) {
    if (g->guide) CRN_TRY(crn_guide_take(g->guide, *out_token));
    return crn_sampler_accept(&g->sampler, *out_token);
  }
  return CRN_FAIL(INTERNAL, "the logits after token %lld hold no number to choose by: all are NaN or -inf", (long long)at - 1);
}

cairn_status crn_generator_force(crn_generator *g, int32_t token) {
  g->n_chosen++;
  return crn_sampler_accept(&g->sampler, token);
}

cairn_status crn_generator_feed(crn_generator *g, int32_t token) {
  const crn_llm_feed feed = {.tokens = &token, .n = 1, .on_logits = g->options->on_logits, .user = g->options->user};
  CRN_TRY(g->speculator ? crn_speculator_feed(g, token) : crn_llm_run_tokens(g->llm, &feed, NULL));
  g->result->decode_tokens++;
  return CAIRN_OK;
}

int64_t crn_generator_most(const crn_generator *g, cairn_stop_reason *out_reason) {
  const int64_t most = g->options->max_tokens, room = (int64_t)g->first_token + crn_overflow_limit(g) - (int64_t)g->fed.size;
  const bool is_asked = most >= 0 && most <= room;
  *out_reason = is_asked ? CAIRN_STOP_MAX_TOKENS : CAIRN_STOP_CONTEXT_FULL;
  return is_asked ? most : room;
}

static cairn_status decode_forced(crn_generator *g) {
  for (size_t i = 0; i < g->options->n_forced && !g->is_over; i++) {
    const int32_t token = g->options->forced[i];
    if (g->llm->history.n >= g->llm->max_context) {
      crn_generator_end(g, CAIRN_STOP_CONTEXT_FULL);
    } else if (crn_generator_should_stop(g)) {
      crn_generator_end(g, CAIRN_STOP_CANCELLED);
    } else {
      CRN_TRY(crn_generator_force(g, token));
      CRN_TRY(crn_generator_give(g, token));
      CRN_TRY(crn_generator_feed(g, token));
    }
  }
  return CAIRN_OK;
}

static cairn_status decode_free(crn_generator *g) {
  cairn_stop_reason full;
  const int64_t most = crn_generator_most(g, &full);
  // The row behind the prompt is there; behind a later beginning, too.
  const int64_t first = (int64_t)g->first_token;
  for (int64_t n = first; !g->is_over; n++) {
    int32_t token;
    if (n >= most) {
      crn_generator_end(g, full);
    } else if (crn_generator_should_stop(g)) {
      crn_generator_end(g, CAIRN_STOP_CANCELLED);
    } else {
      // The last token is only fed when another one follows it.
      if (n > first) CRN_TRY(crn_generator_feed(g, g->result->tokens.items[n - 1]));
      if (crn_guide_is_cancelled(g)) {
        crn_generator_end(g, CAIRN_STOP_CANCELLED);
        break;
      }
      CRN_TRY(crn_generator_choose(g, g->llm->runner.row, &token));
      CRN_TRY(crn_generator_give(g, token));
    }
  }
  return CAIRN_OK;
}

cairn_status crn_generator_decode(crn_generator *g) { return g->is_forced ? decode_forced(g) : decode_free(g); }
