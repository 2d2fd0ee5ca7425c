/// How many tokens of prompts go with a step that may take so long.
#include "engines/llm/batch.h"

enum { FIRST_BUDGET = 64, KEPT = 8 };

// A mean that forgets, so that it follows sequences that grow and machines that get other work.
static void mix(double *mean, double value, int64_t n) { *mean += (value - *mean) / (double)(n < KEPT ? n : KEPT); }

void crn_batch_pace_measure(crn_batch_pace *p, double seconds, int64_t prompt_tokens, int n_decoding) {
  if (prompt_tokens == 0) {
    mix(&p->step_seconds, seconds, ++p->n_steps);
  } else {
    // What a step takes without prompts is known, or there was nothing besides them.
    const double base = n_decoding ? p->step_seconds : 0;
    if (n_decoding && !p->n_steps) return;
    mix(&p->token_seconds, seconds > base ? (seconds - base) / (double)prompt_tokens : 0, ++p->n_tokens);
  }
}

int64_t crn_batch_pace_budget(const crn_batch_pace *p, double seconds, int64_t most) {
  if (!p->n_tokens) return FIRST_BUDGET < most ? FIRST_BUDGET : most;
  const double left = seconds - p->step_seconds, n = p->token_seconds > 0 ? left / p->token_seconds : (double)most;
  return n >= (double)most ? most : n <= CRN_BATCH_LEAST ? CRN_BATCH_LEAST : (int64_t)n;
}
