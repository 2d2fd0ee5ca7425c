/// One generation of a batch, from its options to its result.
#include <string.h>

#include "engines/llm/batch.h"
#include "engines/llm/guide.h"
#include "engines/llm/sequence.h"

// --- options ----------------------------------------------------------------------------------------------------------

static cairn_status copy_bytes(crn_arena *arena, const void *from, size_t n, size_t bytes_each, void *out_pointer) {
  void *copy = NULL;
  if (n) {
    CRN_TRY(crn_arena_array(arena, n, bytes_each, &copy));
    memcpy(copy, from, n * bytes_each);
  }
  *(void **)out_pointer = copy;
  return CAIRN_OK;
}

static cairn_status copy_texts(crn_arena *arena, const char *const **texts, int n) {
  const char **copy;
  if (n <= 0) return CAIRN_OK;
  CRN_TRY(crn_arena_array(arena, (size_t)n, sizeof *copy, &copy));
  for (int i = 0; i < n; i++) {
    copy[i] = NULL;
    if ((*texts)[i]) CRN_TRY(crn_arena_strndup(arena, (*texts)[i], strlen((*texts)[i]), &copy[i]));
  }
  *texts = copy;
  return CAIRN_OK;
}

// What is read behind the making of the prompt gets copies; what only that reads is borrowed for the call.
static cairn_status copy_options(crn_batch_member *m, const cairn_generate_options *o) {
  m->options = *o;
  CRN_TRY(copy_texts(&m->arena, &m->options.stop, o->n_stop));
  CRN_TRY(copy_texts(&m->arena, &m->options.shown_special_tokens, o->n_shown_special_tokens));
  CRN_TRY(copy_bytes(&m->arena, o->stop_ids, o->n_stop_ids, sizeof *o->stop_ids, &m->options.stop_ids));
  return copy_bytes(&m->arena, o->forced, o->n_forced, sizeof *o->forced, &m->options.forced);
}

static void forget_prompt(cairn_generate_options *o) {
  o->tokens = NULL;
  o->text = o->conversation = NULL;
  o->images = NULL;
  o->speculation.draft = NULL;
}

// --- creation ---------------------------------------------------------------------------------------------------------

cairn_status crn_batch_member_create(cairn_llm *prototype, const cairn_generate_options *options, crn_batch_member **out_member) {
  const cairn_allocator *a = &prototype->context->allocator;
  crn_batch_member *m;
  *out_member = NULL;
  CRN_TRY(crn_alloc_zero(a, sizeof *m, &m));
  crn_arena_initialize(&m->arena, a);
  atomic_init(&m->is_cancelled, false);
  atomic_init(&m->has_ended, false);
  m->generator.llm = prototype;
  cairn_status status = copy_options(m, options);
  if (status == CAIRN_OK) status = crn_generation_create(prototype->context, &m->result);
  if (status == CAIRN_OK) {
    m->is_open = true;
    status = crn_generator_open(&m->generator, prototype, &m->options, m->result);
    m->generator.is_cancelled = &m->is_cancelled;
  }
  if (status == CAIRN_OK) status = crn_batch_member_check_drafts(m);
  if (status != CAIRN_OK) {
    crn_batch_member_destroy(m);
    return status;
  }
  forget_prompt(&m->options);
  *out_member = m;
  return CAIRN_OK;
}

static void close_generator(crn_batch_member *m) {
  if (m->is_open) crn_generator_close(&m->generator);
  m->is_open = false;
}

void crn_batch_member_destroy(crn_batch_member *m) {
  if (!m) return;
  const cairn_allocator a = m->generator.llm->context->allocator;
  close_generator(m);
  cairn_llm_close(m->drafter);
  if (m->draft_model) crn_llm_model_release(m->draft_model);
  cairn_generation_destroy(m->result);
  crn_failure_release(m->failure);
  crn_arena_deinitialize(&m->arena);
  crn_free(&a, m, sizeof *m);
}

void crn_batch_member_fail(crn_batch_member *m, cairn_status status) {
  m->status = status;
  crn_failure_release(m->failure);
  m->failure = crn_failure_capture(&m->generator.llm->context->allocator);
  crn_generator_end(&m->generator, CAIRN_STOP_ERROR);
}

// --- prompt -----------------------------------------------------------------------------------------------------------

cairn_status crn_batch_member_begin(crn_batch_member *m, cairn_llm *llm, bool keep) {
  crn_generator *g = &m->generator;
  const cairn_generate_options *o = &m->options;
  const bool is_first = g->first_token == 0, all = o->prefill_logits && o->on_logits && is_first;
  cairn_generation *r = m->result;
  crn_llm_reuse reuse;
  g->llm = llm;
  m->phase = CRN_BATCH_PROMPT;
  m->most = crn_generator_most(g, &m->full);
  CRN_TRY(crn_llm_find_prefix(llm, g->fed.items, (int64_t)g->fed.size, keep && !all, &reuse));
  if (is_first) {
    r->prefix_hit = reuse.kept;
    const int64_t own = reuse.kept - reuse.from_memory - reuse.from_disk;
    r->prefix_from_memory = reuse.from_memory + (m->n_borrowed < own ? m->n_borrowed : own);
    r->prefix_from_disk = reuse.from_disk;
    r->prefix_note = keep ? reuse.note : "";
  }
  m->feed = (crn_llm_feed){.tokens = g->fed.items + reuse.kept,
                           .n = (int64_t)g->fed.size - reuse.kept,
                           .all_rows = all,
                           .takes_snapshots = true,
                           .on_logits = all || o->first_logits ? o->on_logits : NULL,
                           .user = o->user};
  m->at = m->whole_end = m->branch = 0;
  return crn_llm_feed_reserve(llm, m->feed.n);
}

int64_t crn_batch_member_piece(crn_batch_member *m, int64_t budget) {
  const cairn_llm *llm = m->generator.llm;
  const crn_llm_model *model = llm->model;
  if (m->at >= m->whole_end) m->whole_end = m->at + crn_llm_feed_piece(llm, &m->feed, m->at, &m->point);
  const int64_t left = m->whole_end - m->at, n = budget > CRN_BATCH_LEAST ? budget : CRN_BATCH_LEAST;
  // A function for prompts of one length takes whole pieces only.
  if (model->prefill && model->prefill_contract.query) return left;
  const int64_t piece = left - n < CRN_BATCH_LEAST ? left : n, to_branch = m->branch - llm->history.n;
  return to_branch > 0 && to_branch < piece ? to_branch : piece;
}

void crn_batch_member_keep_point(crn_batch_member *m) {
  cairn_llm *llm = m->generator.llm;
  if (m->phase != CRN_BATCH_PROMPT || m->at >= m->feed.n) return;
  if (llm->history.n >= m->point || llm->history.n == m->branch) crn_llm_take_snapshot(llm);
}

// --- tokens -----------------------------------------------------------------------------------------------------------

static void feed_token(crn_batch_member *m, int32_t token) {
  m->token = token;
  m->feed = (crn_llm_feed){.tokens = &m->token, .n = 1, .on_logits = m->options.on_logits, .user = m->options.user};
  m->at = 0;
  m->phase = CRN_BATCH_DECODE;
}

// As the loop over forced tokens of a sequence by itself: each is fed, the last one too.
static cairn_status go_on_forced(crn_batch_member *m) {
  crn_generator *g = &m->generator;
  const size_t i = m->result->tokens.size;
  if (i >= m->options.n_forced) {
    g->is_over = true;
  } else if (g->llm->history.n >= g->llm->max_context) {
    crn_generator_end(g, CAIRN_STOP_CONTEXT_FULL);
  } else if (crn_generator_should_stop(g)) {
    crn_generator_end(g, CAIRN_STOP_CANCELLED);
  } else {
    const int32_t token = m->options.forced[i];
    CRN_TRY(crn_generator_force(g, token));
    CRN_TRY(crn_generator_give(g, token));
    feed_token(m, token);
  }
  return CAIRN_OK;
}

// A token is chosen by the row that is in the runner, and by those behind it as long as tokens are the ones that were drafted. The last
// token is only fed when another one follows it.
static cairn_status go_on_free(crn_batch_member *m) {
  crn_generator *g = &m->generator;
  for (bool is_there = true, is_first = true; is_there; is_first = false) {
    int32_t token;
    if ((int64_t)m->result->tokens.size >= m->most) {
      crn_generator_end(g, m->full);
      break;
    }
    if (crn_generator_should_stop(g)) {
      crn_generator_end(g, CAIRN_STOP_CANCELLED);
      break;
    }
    if (crn_guide_is_cancelled(g)) {
      crn_generator_end(g, CAIRN_STOP_CANCELLED);
      break;
    }
    if (!is_first) CRN_TRY(crn_speculator_give_row(g));
    CRN_TRY(crn_generator_choose(g, g->llm->runner.row, &token));
    CRN_TRY(crn_generator_give(g, token));
    feed_token(m, token);
    if (g->is_over) break;
    if ((int64_t)m->result->tokens.size >= m->most) {
      crn_generator_end(g, m->full);
      break;
    }
    CRN_TRY(crn_batch_member_accept(m, token, &is_there));
  }
  return CAIRN_OK;
}

// A context that is full makes room if it was asked to, and what is left is a prompt again.
cairn_status crn_batch_member_go_on(crn_batch_member *m) {
  CRN_TRY(m->generator.is_forced ? go_on_forced(m) : go_on_free(m));
  if (!crn_overflow_goes_on(&m->generator)) return CAIRN_OK;
  CRN_TRY(crn_overflow_make_room(&m->generator));
  return crn_batch_member_begin(m, m->generator.llm, true);
}

void crn_batch_member_count(crn_batch_member *m, int64_t n_fed, bool was_decode) {
  if (was_decode) {
    m->result->decode_tokens++;
  } else if (m->generator.first_token == 0) {
    m->result->prefill_tokens += n_fed;
  } else {
    m->result->overflow_fed += n_fed;
  }
}

cairn_llm *crn_batch_member_end(crn_batch_member *m, cairn_llm *prototype) {
  crn_generator *g = &m->generator;
  cairn_llm *llm = g->llm;
  if (llm != prototype && m->status == CAIRN_OK) {
    crn_llm_take_snapshot(llm);
    crn_llm_leave_prefix(llm);
  }
  cairn_status status = m->status == CAIRN_OK ? crn_generator_finish_text(g) : CAIRN_OK;
  if (status != CAIRN_OK) crn_batch_member_fail(m, status);
  crn_generator_take_times(g);
  close_generator(m);
  m->phase = CRN_BATCH_OVER;
  g->llm = prototype;
  return llm == prototype ? NULL : llm;
}
