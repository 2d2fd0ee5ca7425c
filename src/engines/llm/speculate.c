#include "engines/llm/speculate.h"

#include <string.h>

#include "base/log.h"
#include "engines/llm/guide.h"
#include "engines/llm/logits.h"
#include "engines/llm/static_shape.h"

// --- whether it is possible -------------------------------------------------------------------------------------------

const char *crn_speculator_obstacle(const cairn_llm *llm) {
  const crn_llm_contract *c = &llm->model->contract;
  if (c->hybrid) return "the model keeps a running state that cannot be cut back";
  if (c->one_token) return "the model takes one token a run";
  if (c->last_row_only) return "the model gives logits of the last token only";
  if (llm->model->fixed && llm->model->fixed->ladder.max_query < 2) return "the model takes one token a run";
  return NULL;
}

static cairn_status check(const crn_generator *g, bool computes_ahead, const char **out_obstacle) {
  const cairn_speculation *o = &g->options->speculation;
  *out_obstacle = NULL;
  if (o->mode != CAIRN_SPECULATION_OFF && o->mode != CAIRN_SPECULATION_AUTO && o->mode != CAIRN_SPECULATION_LOOKUP &&
      o->mode != CAIRN_SPECULATION_DRAFT)
    return CRN_FAIL(INVALID_ARGUMENT, "speculation mode %d; 0 to 3 expected", (int)o->mode);
  if (o->mode == CAIRN_SPECULATION_OFF) return CAIRN_OK;
  if (o->max_draft < 0 || o->max_draft > CRN_DRAFT_MOST)
    return CRN_FAIL(INVALID_ARGUMENT, "speculation: max_draft is %d; 1 to %d expected (0 = %d)", o->max_draft, CRN_DRAFT_MOST,
                    CRN_DRAFT_MOST);
  if (o->mode == CAIRN_SPECULATION_DRAFT && !o->draft) return CRN_FAIL(INVALID_ARGUMENT, "speculation by a draft model needs one");
  if (o->mode == CAIRN_SPECULATION_LOOKUP && o->draft)
    return CRN_FAIL(INVALID_ARGUMENT, "speculation by lookup uses no draft model; modes 'draft' and 'auto' do");
  *out_obstacle = crn_speculator_obstacle(g->llm);
  if (!*out_obstacle && o->mode == CAIRN_SPECULATION_AUTO && computes_ahead) *out_obstacle = "the engine computes ahead already";
  if (!*out_obstacle || o->mode == CAIRN_SPECULATION_AUTO) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "speculation is not possible: %s", *out_obstacle);
}

// --- a generation -----------------------------------------------------------------------------------------------------

static cairn_status create(cairn_llm *llm) {
  if (llm->speculator) return CAIRN_OK;
  CRN_TRY(crn_alloc_zero(&llm->context->allocator, sizeof *llm->speculator, &llm->speculator));
  crn_ngram_initialize(&llm->speculator->ngrams, &llm->context->allocator);
  crn_draft_account_initialize(&llm->speculator->account);
  return CAIRN_OK;
}

void crn_speculator_destroy(cairn_llm *llm) {
  if (!llm->speculator) return;
  crn_ngram_deinitialize(&llm->speculator->ngrams);
  crn_free(&llm->context->allocator, llm->speculator, sizeof *llm->speculator);
  llm->speculator = NULL;
}

// Asked for when it is looked, because whether there are any is all there is to know.
static bool look_forced(void *user, const int32_t *tokens, int64_t n, crn_draft_class *out_class) {
  crn_generator *g = user;
  (void)tokens;
  (void)n;
  *out_class = CRN_DRAFT_FORCED;
  g->speculator->n_forced = crn_guide_forced(g, g->speculator->forced, CRN_DRAFT_MOST);
  return g->speculator->n_forced > 0;
}

static cairn_status propose_forced(void *user, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens, int64_t *out_n) {
  const crn_speculator *s = ((const crn_generator *)user)->speculator;
  (void)tokens;
  (void)n;
  *out_n = s->n_forced < most ? s->n_forced : most;
  memcpy(out_tokens, s->forced, (size_t)*out_n * sizeof *out_tokens);
  return CAIRN_OK;
}

static cairn_status open_sources(crn_generator *g, crn_speculator *s, cairn_llm *draft) {
  const cairn_speculation *o = &g->options->speculation;
  cairn_stop_reason reason;
  s->n_sources = 0;
  if (g->guide)
    s->sources[s->n_sources++] = (crn_draft_source){.name = "grammar", .user = g, .look = look_forced, .propose = propose_forced};
  if (o->mode != CAIRN_SPECULATION_DRAFT) {
    CRN_TRY(crn_ngram_begin(&s->ngrams, (int64_t)g->fed.size + crn_generator_most(g, &reason)));
    s->sources[s->n_sources++] = crn_ngram_source(&s->ngrams);
  }
  if (!draft) return CAIRN_OK;
  CRN_TRY(crn_draft_model_begin(&s->model, g, draft));
  s->sources[s->n_sources++] = crn_draft_model_source(&s->model);
  return CAIRN_OK;
}

cairn_status crn_speculator_check(crn_generator *g, bool computes_ahead, bool *out_speculates) {
  const char *obstacle;
  *out_speculates = false;
  CRN_TRY(check(g, computes_ahead, &obstacle));
  g->result->speculation_note = obstacle ? obstacle : "";
  if (g->options->speculation.mode == CAIRN_SPECULATION_OFF || obstacle) return CAIRN_OK;
  if (g->is_forced) {
    g->result->speculation_note = "the tokens are given";
    return CAIRN_OK;
  }
  *out_speculates = true;
  return CAIRN_OK;
}

cairn_status crn_speculator_open(crn_generator *g, cairn_llm *draft, int64_t most_behind) {
  const cairn_speculation *o = &g->options->speculation;
  CRN_TRY(create(g->llm));
  crn_speculator *s = g->llm->speculator;
  s->most = o->max_draft ? o->max_draft : CRN_DRAFT_MOST;
  s->is_careless = o->always;
  s->n_run = s->n_used = 0;
  s->model.most_behind = most_behind;
  CRN_TRY(open_sources(g, s, draft));
  g->speculator = s;
  g->result->speculates = true;
  return CAIRN_OK;
}

cairn_status crn_speculator_begin(crn_generator *g) {
  bool speculates;
  CRN_TRY(crn_speculator_check(g, g->llm->model->driver->decode != NULL, &speculates));
  return speculates ? crn_speculator_open(g, g->options->speculation.draft, 0) : CAIRN_OK;
}

// What became of the last draft; of one that was never run, nothing.
static void settle(crn_speculator *s, bool is_refuted) {
  if (s->n_run > 1 && s->n_used > 0) {
    s->outcome.n_accepted = s->n_used - 1;
    s->outcome.is_refuted = is_refuted && s->n_used < s->n_run;
    crn_draft_account_take(&s->account, &s->outcome);
  }
  s->n_run = s->n_used = 0;
}

void crn_speculator_end(crn_generator *g) {
  if (!g->speculator) return;
  settle(g->speculator, false);
  crn_draft_model_end(&g->speculator->model);
  g->speculator = NULL;
}

// --- drafts -----------------------------------------------------------------------------------------------------------

// Of `n` tokens, those that one run takes; in an engine of fixed shapes those that cost nothing beside the first.
static int64_t most_of_run(const cairn_llm *llm, int64_t n) {
  static const int32_t kAny[CRN_DRAFT_MOST + 1] = {0};
  const crn_llm_driver *d = llm->model->driver;
  crn_llm_rows rows;
  const crn_llm_feed feed = {.tokens = kAny, .n = n, .all_rows = true, .out_rows = &rows};
  const int64_t most = d->beside ? d->beside(llm) : d->piece(llm, &feed, 0);
  return most < n ? most : n;
}

int64_t crn_speculator_room(const crn_generator *g) {
  const cairn_llm *llm = g->llm;
  const crn_llm_states *states = &llm->states;
  cairn_stop_reason reason;
  // The last token is never fed, and a draft in its place would be.
  int64_t room = crn_generator_most(g, &reason) - 1 - (int64_t)g->result->tokens.size, held = llm->history.n + 1;
  if (room > llm->max_context - held) room = llm->max_context - held;
  // Caches do not grow for what may not stay; where they have to grow for the token itself, there is room afterwards.
  if (held <= states->capacity && room > states->capacity - held) room = states->capacity - held;
  // A row written where the window is full drops one, which would be missed when the draft was wrong.
  if (states->strategy == CRN_LLM_KV_CHUNKED && room > states->window - held) room = states->window - held;
  while (room > 0 && !crn_llm_can_cut(&llm->model->contract, held + room)) room--;
  // Where every run takes the whole sequence there are no single rows to be like; from so many on, kernels do not change any more.
  if (room <= 0 || (llm->model->contract.stateless && held < 32)) return 0;
  const int64_t run = most_of_run(llm, 1 + (room < CRN_DRAFT_MOST ? room : CRN_DRAFT_MOST));
  return run - 1 < room ? run - 1 : room;
}

// Tokens the model does not have, and those that end the generation, are followed by nothing.
static int64_t cut_at_ends(const crn_generator *g, const int32_t *tokens, int64_t n) {
  cairn_stop_reason reason;
  for (int64_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= g->llm->model->contract.vocab_size || crn_generator_is_stop(g, tokens[i], &reason)) return i;
  }
  return n;
}

/// The source that promises most.
typedef struct choice {
  const crn_draft_source *source;
  crn_draft_class class;
  int64_t n;
  double rate;
} choice;

static choice choose_source(crn_speculator *s, const int32_t *tokens, int64_t n, int64_t most) {
  choice best = {.n = 0};
  for (int i = 0; i < s->n_sources; i++) {
    choice c = {.source = &s->sources[i], .rate = 1};
    if (!c.source->look(c.source->user, tokens, n, &c.class)) continue;
    c.n = s->is_careless ? most : crn_draft_account_choose(&s->account, c.class, most, &c.rate);
    if (c.n > 0 && (best.n == 0 || c.rate > best.rate)) best = c;
  }
  return best;
}

// A source that fails is no reason to fail: it is left out from then on.
static void drop_source(crn_generator *g, const crn_draft_source *source) {
  crn_speculator *s = g->speculator;
  const ptrdiff_t at = source - s->sources;
  char text[512];
  cairn_last_error_text(text, sizeof text);
  CRN_WARN(g->llm->context, "speculation goes on without drafts from '%s': %s", source->name, text);
  crn_error_clear();
  g->result->speculation_note = "a source of drafts failed";
  s->n_sources--;
  memmove(&s->sources[at], &s->sources[at + 1], (size_t)(s->n_sources - at) * sizeof *s->sources);
}

// The drafts behind `token`, which is in place behind the history.
static void draft(crn_generator *g, const int32_t *tokens, int64_t n, int64_t most) {
  crn_speculator *s = g->speculator;
  if (most > s->most) most = s->most;
  if (most <= 0) return;
  const double start = crn_seconds_now();
  choice c = choose_source(s, tokens, n, most);
  int64_t n_drafts = 0;
  if (!c.n) return;
  s->model.has_caught_up = false;
  if (c.source->propose(c.source->user, tokens, n, c.n, s->tokens + 1, &n_drafts) != CAIRN_OK) {
    drop_source(g, c.source);
    return;
  }
  s->n_run = 1 + cut_at_ends(g, s->tokens + 1, n_drafts);
  s->outcome = (crn_draft_outcome){
      .class = c.class, .n_drafted = s->n_run - 1, .drafting_seconds = crn_seconds_now() - start, .is_first_draft = s->model.has_caught_up};
}

cairn_status crn_speculator_draft(crn_generator *g, int32_t token, int64_t most) {
  crn_speculator *s = g->speculator;
  crn_history *h = &g->llm->history;
  settle(s, true);
  s->n_run = 1;
  s->base = h->n;
  s->tokens[0] = token;
  CRN_TRY(crn_history_reserve(h, h->n + 1));
  h->tokens[h->n] = token;  // where it will be: sources see it as the end of the sequence
  draft(g, h->tokens, h->n + 1, most);
  g->result->drafted += s->n_run - 1;
  return CAIRN_OK;
}

// --- runs -------------------------------------------------------------------------------------------------------------

bool crn_speculator_accept(crn_generator *g, int32_t token, cairn_status *out_status) {
  crn_speculator *s = g->speculator;
  cairn_llm *llm = g->llm;
  *out_status = CAIRN_OK;
  if (s->n_used >= s->n_run || s->tokens[s->n_used] != token) return false;
  // Somebody went back, or ran something: the rows are not what they were.
  if (s->run_number != llm->n_runs || llm->history.n != s->base + s->n_used) return false;
  *out_status = crn_history_append(&llm->history, &token, 1);
  if (*out_status != CAIRN_OK) return false;
  s->n_used++;
  g->result->accepted++;
  return true;
}

cairn_status crn_speculator_take_run(crn_generator *g, const crn_llm_rows *rows, double seconds) {
  crn_speculator *s = g->speculator;
  crn_history_truncate(&g->llm->history, s->base + 1);
  s->run_number = g->llm->n_runs;
  s->rows = *rows;
  s->n_used = 1;
  s->outcome.seconds = seconds;
  if (s->n_run == 1 && seconds > 0) crn_draft_account_plain(&s->account, seconds);
  if (rows->n >= s->n_run) return CAIRN_OK;
  return CRN_FAIL(INTERNAL, "a run of %lld tokens gave %lld rows of logits", (long long)s->n_run, (long long)rows->n);
}

cairn_status crn_speculator_give_row(crn_generator *g) {
  const crn_speculator *s = g->speculator;
  cairn_llm *llm = g->llm;
  const int64_t vocab = llm->model->contract.vocab_size, at = s->rows.n - s->n_run + s->n_used - 1;
  const char *row = (const char *)s->rows.data + (size_t)at * (size_t)vocab * cairn_dtype_bytes(s->rows.dtype);
  crn_logits_widen(llm->context->pool, s->rows.dtype, row, llm->runner.row, vocab);
  if (!g->options->on_logits) return CAIRN_OK;
  return g->options->on_logits(g->options->user, llm->history.n - 1, llm->runner.row, vocab);
}

static cairn_status run(crn_generator *g) {
  const crn_speculator *s = g->speculator;
  crn_llm_rows rows;
  const crn_llm_feed feed = {.tokens = s->tokens, .n = s->n_run, .all_rows = s->n_run > 1, .out_rows = &rows};
  const double start = crn_seconds_now();
  CRN_TRY(crn_llm_run_tokens(g->llm, &feed, NULL));
  return crn_speculator_take_run(g, &rows, crn_seconds_now() - start);
}

cairn_status crn_speculator_feed(crn_generator *g, int32_t token) {
  cairn_status status;
  if (!crn_speculator_accept(g, token, &status)) {
    CRN_TRY(status);
    CRN_TRY(crn_speculator_draft(g, token, crn_speculator_room(g)));
    status = run(g);
    if (status != CAIRN_OK) {
      g->speculator->n_run = g->speculator->n_used = 0;
      return status;
    }
  }
  return crn_speculator_give_row(g);
}
