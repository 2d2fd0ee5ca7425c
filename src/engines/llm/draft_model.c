/// Drafts of a smaller model with the same vocabulary.
#include <math.h>
#include <string.h>

#include "engines/llm/logits.h"
#include "engines/llm/speculate.h"

// --- the vocabulary ---------------------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

// Logits may be padded to different widths; what counts is what the ids mean.
static cairn_status compare_tokenizers(const cairn_tokenizer *a, const cairn_tokenizer *b) {
  const int32_t n = cairn_tokenizer_vocab_size(a), n_draft = cairn_tokenizer_vocab_size(b);
  if (n != n_draft) return CRN_FAIL(INCOMPATIBLE, "the draft model has a vocabulary of %d tokens, the model one of %d", n_draft, n);
  for (int32_t i = 0; i < n; i++) {
    const char *text = cairn_tokenizer_token(a, i), *other = cairn_tokenizer_token(b, i);
    if (same_text(text, other)) continue;
    return CRN_FAIL(INCOMPATIBLE, "the draft model has another vocabulary: token %d is '%s' there and '%s' in the model", i,
                    other ? other : "", text ? text : "");
  }
  return CAIRN_OK;
}

static cairn_status compare_vocabularies(const cairn_llm *llm, const cairn_llm *draft) {
  const cairn_tokenizer *a = llm->model->text.tokenizer, *b = draft->model->text.tokenizer;
  if (a && b) return compare_tokenizers(a, b);
  const int64_t n = llm->model->contract.vocab_size, n_draft = draft->model->contract.vocab_size;
  if (n == n_draft) return CAIRN_OK;
  return CRN_FAIL(INCOMPATIBLE, "the draft model has logits for %lld tokens, the model for %lld", (long long)n_draft, (long long)n);
}

// --- a generation -----------------------------------------------------------------------------------------------------

cairn_status crn_draft_model_check(const cairn_llm *llm, const cairn_llm *draft) {
  if (draft->model->contract.hybrid)
    return CRN_FAIL(UNSUPPORTED, "the draft model keeps a running state that cannot be cut back: every wrong draft would cost all of it");
  return compare_vocabularies(llm, draft);
}

static cairn_status check(crn_draft_model *m, const cairn_llm *llm, const cairn_llm *draft) {
  // Comparing a vocabulary takes milliseconds, so it is done once.
  if (m->checked == draft->model->serial) return CAIRN_OK;
  CRN_TRY(crn_draft_model_check(llm, draft));
  m->checked = draft->model->serial;
  return CAIRN_OK;
}

cairn_status crn_draft_model_begin(crn_draft_model *m, crn_generator *g, cairn_llm *llm) {
  if (llm == g->llm) return CRN_FAIL(INVALID_ARGUMENT, "the draft model is the sequence that generates; a smaller model is expected");
  cairn_status status = crn_llm_acquire(llm);
  if (status != CAIRN_OK) return crn_note(status, "the draft model");
  status = check(m, g->llm, llm);
  if (status != CAIRN_OK) {
    crn_llm_yield(llm);
    return status;
  }
  m->llm = llm;
  m->generator = g;
  m->vocab_size = g->llm->model->contract.vocab_size;
  return CAIRN_OK;
}

void crn_draft_model_end(crn_draft_model *m) {
  if (m->llm) crn_llm_yield(m->llm);
  m->llm = NULL;
  m->generator = NULL;
}

// --- drafts -----------------------------------------------------------------------------------------------------------

static bool look(void *user, const int32_t *tokens, int64_t n, crn_draft_class *out_class) {
  const crn_draft_model *m = user;
  (void)tokens;
  *out_class = CRN_DRAFT_MODEL;
  return n <= m->llm->max_context;
}

// Makes the history of the draft model that of the sequence. `*out_fits` false: it has tokens the draft model does not know, or more are
// missing than are caught up at once.
static cairn_status catch_up(crn_draft_model *m, const int32_t *tokens, int64_t n, bool *out_fits) {
  cairn_llm *llm = m->llm;
  const int64_t common = crn_history_common_prefix(&llm->history, tokens, n), held = llm->history.n;
  int64_t kept = llm->is_dirty ? 0 : common < n - 1 ? common : n - 1;
  *out_fits = false;
  if (kept < held && !crn_llm_can_cut(&llm->model->contract, held)) kept = 0;
  for (int64_t i = kept; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= llm->model->contract.vocab_size) return CAIRN_OK;
  }
  if (kept < held || llm->is_dirty) CRN_TRY(crn_llm_cut(llm, kept));
  m->has_caught_up = n - kept > 2;
  bool stopped;
  const int64_t missing = n - kept, n_fed = m->most_behind && missing > m->most_behind ? m->most_behind : missing;
  const crn_llm_feed feed = {.tokens = tokens + kept, .n = n_fed, .should_stop = crn_generator_should_stop, .stop_user = m->generator};
  CRN_TRY(crn_llm_run_tokens(llm, &feed, &stopped));
  *out_fits = !stopped && n_fed == missing;
  return CAIRN_OK;
}

static cairn_status propose(void *user, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens, int64_t *out_n) {
  crn_draft_model *m = user;
  cairn_llm *llm = m->llm;
  const int64_t room = llm->max_context - n + 1, vocab = llm->model->contract.vocab_size;
  bool fits;
  *out_n = 0;
  if (most > room) most = room;
  CRN_TRY(catch_up(m, tokens, n, &fits));
  while (fits && *out_n < most) {
    float best;
    const int32_t token = crn_logits_argmax(llm->runner.row, vocab, &best);
    if (!(best > -INFINITY) || token >= m->vocab_size) break;
    out_tokens[(*out_n)++] = token;
    if (*out_n == most) break;
    const crn_llm_feed feed = {.tokens = &token, .n = 1};
    CRN_TRY(crn_llm_run_tokens(llm, &feed, NULL));
  }
  return CAIRN_OK;
}

crn_draft_source crn_draft_model_source(crn_draft_model *m) {
  return (crn_draft_source){.name = "draft", .user = m, .look = look, .propose = propose};
}
