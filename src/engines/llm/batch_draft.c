/// Drafts of the members of a batch. Each has a speculator of its own (speculate.h); what is different from a sequence alone is who makes
/// the run, and what a draft costs: the step goes on for all, so its unit is the time that a step takes for each token it gives. Where
/// steps are bound by arithmetic, a row costs about that, and no draft pays.
#include "engines/llm/batch.h"
#include "engines/llm/sequence.h"

enum { MOST_BEHIND = 128 };  ///< tokens of a prompt that a smaller model computes in one step

// --- beginning and end ------------------------------------------------------------------------------------------------

cairn_status crn_batch_member_check_drafts(crn_batch_member *m) {
  const cairn_llm *draft = m->options.speculation.draft;
  CRN_TRY(crn_speculator_check(&m->generator, false, &m->speculates));
  if (!m->speculates || !draft) return CAIRN_OK;
  CRN_TRY(crn_draft_model_check(m->generator.llm, draft));
  crn_llm_model_retain(draft->model);
  m->draft_model = draft->model;
  return CAIRN_OK;
}

static cairn_llm *take_drafter(cairn_llm_batch *b, size_t at) {
  cairn_llm *llm = b->drafters.items[at];
  crn_vec_remove(&b->drafters, at);
  return llm;
}

// A sequence of the smaller model: the one that has most of the prompt already.
static cairn_status find_drafter(cairn_llm_batch *b, crn_batch_member *m) {
  const crn_id_vec *fed = &m->generator.fed;
  int64_t most = -1;
  size_t at = 0;
  for (size_t i = 0; i < b->drafters.size; i++) {
    const cairn_llm *llm = b->drafters.items[i];
    if (llm->model != m->draft_model) continue;
    const int64_t common = crn_history_common_prefix(&llm->history, fed->items, (int64_t)fed->size);
    if (common <= most) continue;
    most = common;
    at = i;
  }
  if (most < 0) return crn_llm_sequence_create(m->draft_model, &m->drafter);
  m->drafter = take_drafter(b, at);
  return CAIRN_OK;
}

cairn_status crn_batch_member_open_drafts(cairn_llm_batch *b, crn_batch_member *m) {
  if (!m->speculates || m->generator.speculator || m->generator.first_token) return CAIRN_OK;
  if (m->draft_model && !m->drafter) CRN_TRY(find_drafter(b, m));
  CRN_TRY(crn_speculator_open(&m->generator, m->drafter, MOST_BEHIND));
  // What was learned with the sequence was learned from somebody else's text.
  crn_draft_account_initialize(&m->generator.speculator->account);
  return CAIRN_OK;
}

void crn_batch_return_drafter(cairn_llm_batch *b, crn_batch_member *m) {
  cairn_llm *llm = m->drafter;
  m->drafter = NULL;
  if (!llm) return;
  if (b->drafters.size >= (size_t)b->options.max_sequences) cairn_llm_close(take_drafter(b, 0));
  if (crn_vec_push(&b->context->allocator, &b->drafters, llm) != CAIRN_OK) cairn_llm_close(llm);
}

// --- before a run -----------------------------------------------------------------------------------------------------

// What the next drafts add to the step, beside those that were made for others.
static void tell_costs(const cairn_llm_batch *b, const crn_batch_load_now *now, crn_draft_account *account) {
  const double one = crn_batch_pace_plain(&b->pace, now->n_decoding) / now->n_decoding;
  const double before = crn_batch_pace_more(&b->pace, now->n_decoding, now->n_drafts);
  double more[CRN_DRAFT_MOST];
  int64_t n = 0;
  while (n < CRN_DRAFT_MOST && before >= 0) {
    const double with = crn_batch_pace_more(&b->pace, now->n_decoding, now->n_drafts + n + 1);
    if (with < 0) break;
    more[n++] = with > before ? with - before : 0;
  }
  crn_draft_account_tell(account, one, more, n);
}

static cairn_status make_drafts(const cairn_llm_batch *b, crn_batch_member *m, const crn_batch_load_now *now) {
  crn_generator *g = &m->generator;
  crn_speculator *s = g->speculator;
  tell_costs(b, now, &s->account);
  const bool is_left_out = !s->is_careless && crn_batch_pace_is_due(&b->pace);
  CRN_TRY(crn_speculator_draft(g, m->token, is_left_out ? 0 : crn_speculator_room(g)));
  m->feed = (crn_llm_feed){.tokens = s->tokens, .n = s->n_run, .all_rows = s->n_run > 1, .out_rows = &m->rows};
  m->has_drafts = true;
  return CAIRN_OK;
}

void crn_batch_make_drafts(cairn_llm_batch *b, crn_batch_load_now *now) {
  for (size_t i = 0; i < b->active.size; i++) {
    crn_batch_member *m = b->active.items[i];
    if (m->phase != CRN_BATCH_DECODE) continue;
    // Those of a step that could not be made are there still.
    cairn_status status = m->generator.speculator && !m->has_drafts ? make_drafts(b, m, now) : CAIRN_OK;
    if (status != CAIRN_OK) crn_batch_member_fail(m, status);
    m->n = status == CAIRN_OK ? m->feed.n : 0;
    if (m->n) now->n_drafts += m->n - 1;
  }
}

// --- behind a run -----------------------------------------------------------------------------------------------------

// The part of the step's time that is a member's: an equal one of what there would have been without drafts, and of what they added
// that for its own. 0 = nobody knows.
static double seconds_of(const cairn_llm_batch *b, const crn_batch_member *m, const crn_batch_load_now *now) {
  const int n = now->n_decoding;
  const double plain = crn_batch_pace_plain(&b->pace, n);
  if (!now->n_drafts && !now->n_prompt_tokens) return now->seconds / n;
  if (plain <= 0 || m->n == 1) return plain / n;
  double more = now->n_prompt_tokens ? crn_batch_pace_more(&b->pace, n, now->n_drafts) : now->seconds - plain;
  if (now->n_prompt_tokens && more < 0) return 0;
  if (more < 0) more = 0;
  return plain / n + more * (double)(m->n - 1) / (double)now->n_drafts;
}

cairn_status crn_batch_member_take_drafts(cairn_llm_batch *b, crn_batch_member *m, const crn_batch_load_now *now) {
  m->has_drafts = false;
  CRN_TRY(crn_speculator_take_run(&m->generator, &m->rows, seconds_of(b, m, now)));
  return crn_speculator_give_row(&m->generator);
}

cairn_status crn_batch_member_accept(crn_batch_member *m, int32_t token, bool *out_is_there) {
  cairn_status status = CAIRN_OK;
  *out_is_there = m->generator.speculator && crn_speculator_accept(&m->generator, token, &status);
  if (*out_is_there) m->result->decode_tokens++;
  return status;
}
