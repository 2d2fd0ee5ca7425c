/// Generation: prompt, then token after token until something ends it.
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engines/llm/internal.h"
#include "engines/llm/sampler.h"
#include "engines/llm/stop_texts.h"
#include "engines/llm/vision.h"

struct cairn_generation {
  cairn_context *context;
  crn_id_vec prompt, tokens;
  crn_str text, stop_text;
  cairn_stop_reason reason;
  int64_t prefix_hit, prefill_tokens, decode_tokens;
  const char *prefix_note, *prompt_form;
  uint64_t seed;
  double prefill_seconds, decode_seconds;
};

typedef struct generator {
  cairn_llm *llm;
  const cairn_generate_options *options;
  cairn_generation *result;
  crn_sampler sampler;
  crn_stop_texts stops;
  cairn_detokenizer *detokenizer;  ///< NULL without a tokenizer
  crn_str piece;                   ///< text of the event that is being made
  crn_id_vec fed;                  ///< the prompt as it is fed: the tokens of images are those of the images
  bool is_forced, is_over;
  bool has_left;        ///< the caller wants no more events
  bool has_cut;         ///< a stop text was met: nothing behind it is given out
  double start, first;  ///< when it began, when the first token was known (0 = not yet)
} generator;

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *cairn_stop_reason_text(cairn_stop_reason reason) {
  switch (reason) {
#define TEXT_OF_STOP(NAME, value, text) \
  case CAIRN_STOP_##NAME:               \
    return text;
    CAIRN_STOP_LIST(TEXT_OF_STOP)
#undef TEXT_OF_STOP
  }
  return "unknown";
}

static void end(generator *g, cairn_stop_reason reason) {
  g->result->reason = reason;
  g->is_over = true;
}

// Asked before every run, so that a long prompt can be cancelled, too.
static bool should_stop(void *user) {
  const generator *g = user;
  return atomic_load(&g->llm->is_cancelled) || (g->options->should_cancel && g->options->should_cancel(g->options->user));
}

// --- text -----------------------------------------------------------------------------------------------------------

static cairn_status send(generator *g, int32_t token) {
  crn_str *piece = &g->piece;
  CRN_TRY(crn_str_append(&g->result->text, piece->data, piece->size));
  if (!g->options->on_token || g->has_left) return CAIRN_OK;
  const cairn_token_event event = {
      .index = (int64_t)g->result->tokens.size - 1, .token = token, .text = piece->data, .text_bytes = piece->size};
  if (!g->options->on_token(g->options->user, &event)) {
    g->has_left = true;
    if (!g->is_over) end(g, CAIRN_STOP_CANCELLED);
  }
  return CAIRN_OK;
}

// Whether a special token is hidden although the detokenizer shows them: some are shown, and this is none of them.
static bool is_hidden(const generator *g, int32_t token) {
  const cairn_generate_options *o = g->options;
  if (o->keep_special_tokens || o->n_shown_special_tokens <= 0 || !cairn_tokenizer_is_special(g->llm->text.tokenizer, token)) return false;
  const char *spelling = cairn_tokenizer_token(g->llm->text.tokenizer, token);
  for (int i = 0; spelling && i < o->n_shown_special_tokens; i++) {
    if (strcmp(o->shown_special_tokens[i], spelling) == 0) return false;
  }
  return true;
}

// Turns a token into text; what may begin a stop text is held back.
static cairn_status add_text(generator *g, int32_t token) {
  if (!g->detokenizer || is_hidden(g, token)) return CAIRN_OK;
  const char *text;
  size_t bytes;
  int match;
  CRN_TRY(cairn_detokenizer_push(g->detokenizer, token, &text, &bytes));
  CRN_TRY(crn_stop_texts_push(&g->stops, text, bytes, &g->piece, &match));
  if (match < 0) return CAIRN_OK;
  g->has_cut = true;
  end(g, CAIRN_STOP_SEQUENCE);
  return crn_str_puts(&g->result->stop_text, g->stops.texts[match]);
}

// Gives out what was held back.
static cairn_status finish_text(generator *g) {
  if (!g->detokenizer || g->has_cut) return CAIRN_OK;
  const char *text;
  size_t bytes;
  int match;
  crn_str_clear(&g->piece);
  CRN_TRY(cairn_detokenizer_finish(g->detokenizer, &text, &bytes));
  CRN_TRY(crn_stop_texts_push(&g->stops, text, bytes, &g->piece, &match));
  if (match < 0) CRN_TRY(crn_stop_texts_flush(&g->stops, &g->piece));
  return g->piece.size ? send(g, -1) : CAIRN_OK;
}

// --- tokens ---------------------------------------------------------------------------------------------------------

static bool is_among(const int32_t *ids, size_t n, int32_t token) {
  for (size_t i = 0; i < n; i++) {
    if (ids[i] == token) return true;
  }
  return false;
}

// A stop text that is a special token never shows up in the text; it is recognised by its id.
static const char *stop_text_of(const generator *g, int32_t token) {
  const cairn_tokenizer *t = g->llm->text.tokenizer;
  const char *spelling = t && cairn_tokenizer_is_special(t, token) ? cairn_tokenizer_token(t, token) : NULL;
  for (int i = 0; spelling && i < g->options->n_stop; i++) {
    if (strcmp(g->options->stop[i], spelling) == 0) return spelling;
  }
  return NULL;
}

static cairn_status check_stop_ids(generator *g, int32_t token) {
  const cairn_generate_options *o = g->options;
  const char *spelling = g->llm->text.tokenizer ? cairn_tokenizer_token(g->llm->text.tokenizer, token) : NULL;
  if (is_among(o->stop_ids, o->n_stop_ids, token) || stop_text_of(g, token)) {
    end(g, CAIRN_STOP_SEQUENCE);
  } else if (!o->ignore_eos && is_among(g->llm->text.stop_ids.items, g->llm->text.stop_ids.size, token)) {
    end(g, CAIRN_STOP_EOS);
  }
  return g->is_over && spelling ? crn_str_puts(&g->result->stop_text, spelling) : CAIRN_OK;
}

// Takes a chosen or forced token: memory of the penalty, end of the generation, text, event.
static cairn_status accept(generator *g, int32_t token) {
  if (g->first == 0) g->first = seconds_now();
  CRN_TRY(crn_vec_push(&g->llm->context->allocator, &g->result->tokens, token));
  CRN_TRY(crn_sampler_accept(&g->sampler, token));
  crn_str_clear(&g->piece);
  if (!g->is_forced) CRN_TRY(check_stop_ids(g, token));
  if (!g->is_over) CRN_TRY(add_text(g, token));
  return send(g, token);
}

static cairn_status choose(generator *g, int32_t *out_token) {
  float *row = g->llm->runner.row;
  *out_token = crn_sampler_pick(&g->sampler, row);
  if (row[*out_token] > -INFINITY) return CAIRN_OK;
  return CRN_FAIL(INTERNAL, "the logits after token %lld hold no number to choose by: all are NaN or -inf",
                  (long long)g->llm->history.n - 1);
}

static cairn_status feed_one(generator *g, int32_t token) {
  const crn_llm_feed feed = {.tokens = &token, .n = 1, .on_logits = g->options->on_logits, .user = g->options->user};
  CRN_TRY(crn_llm_run_tokens(g->llm, &feed, NULL));
  g->result->decode_tokens++;
  return CAIRN_OK;
}

static cairn_status decode_forced(generator *g) {
  for (size_t i = 0; i < g->options->n_forced && !g->is_over; i++) {
    if (g->llm->history.n >= g->llm->max_context) {
      end(g, CAIRN_STOP_CONTEXT_FULL);
    } else if (should_stop(g)) {
      end(g, CAIRN_STOP_CANCELLED);
    } else {
      CRN_TRY(accept(g, g->options->forced[i]));
      CRN_TRY(feed_one(g, g->options->forced[i]));
    }
  }
  return CAIRN_OK;
}

static cairn_status decode_free(generator *g) {
  int64_t most = g->options->max_tokens < 0 ? INT64_MAX : g->options->max_tokens;
  int64_t room = g->llm->max_context - (int64_t)g->result->prompt.size;
  for (int64_t n = 0; !g->is_over; n++) {
    int32_t token;
    if (n >= most) {
      end(g, CAIRN_STOP_MAX_TOKENS);
    } else if (n >= room) {
      end(g, CAIRN_STOP_CONTEXT_FULL);
    } else if (should_stop(g)) {
      end(g, CAIRN_STOP_CANCELLED);
    } else {
      // The last token is only fed when another one follows it.
      if (n > 0) CRN_TRY(feed_one(g, g->result->tokens.items[n - 1]));
      CRN_TRY(choose(g, &token));
      CRN_TRY(accept(g, token));
    }
  }
  return CAIRN_OK;
}

static cairn_status prefill(generator *g) {
  cairn_generation *r = g->result;
  const cairn_generate_options *o = g->options;
  bool all = o->prefill_logits && o->on_logits, stopped = should_stop(g);
  if (!stopped) {
    CRN_TRY(crn_llm_resolve_prefix(g->llm, g->fed.items, (int64_t)r->prompt.size, !all, &r->prefix_hit, &r->prefix_note));
    const crn_llm_feed feed = {.tokens = g->fed.items + r->prefix_hit,
                               .n = (int64_t)r->prompt.size - r->prefix_hit,
                               .all_rows = all,
                               .on_logits = all ? o->on_logits : NULL,
                               .should_stop = should_stop,
                               .stop_user = g,
                               .user = o->user};
    cairn_status status = crn_llm_run_tokens(g->llm, &feed, &stopped);
    r->prefill_tokens = g->llm->history.n - r->prefix_hit;
    CRN_TRY(status);
  }
  if (stopped) end(g, CAIRN_STOP_CANCELLED);
  return CAIRN_OK;
}

// --- the whole ------------------------------------------------------------------------------------------------------

static cairn_status check_room(const generator *g) {
  const cairn_llm *llm = g->llm;
  int64_t n = (int64_t)g->result->prompt.size;
  bool wants_more = g->is_forced ? g->options->n_forced > 0 : g->options->max_tokens != 0;
  if (n + (wants_more ? 1 : 0) <= llm->max_context) return CAIRN_OK;
  return CRN_FAIL(CONTEXT_FULL, "the prompt has %lld tokens and leaves no room: %s %lld%s", (long long)n,
                  llm->max_context < llm->model_context ? "the KV cache holds" : "the context has", (long long)llm->max_context,
                  llm->max_context < llm->model_context ? " (a larger KV capacity helps)" : "");
}

// The prompt twice: as it is fed, and as it is reported, where a token of an image is the image token.
static cairn_status prepare_prompt(generator *g) {
  const cairn_allocator *a = &g->llm->context->allocator;
  cairn_generation *r = g->result;
  CRN_TRY(crn_llm_prompt(g->llm, g->options, &g->fed, &r->prompt_form));
  CRN_TRY(crn_llm_place_images(g->llm, g->options, &g->fed));
  CRN_TRY(crn_vec_reserve(a, &r->prompt, g->fed.size));
  for (size_t i = 0; i < g->fed.size; i++) {
    int32_t id = g->fed.items[i];
    r->prompt.items[r->prompt.size++] = id >= 0 ? id : crn_vision_token(g->llm->vision);
  }
  return CAIRN_OK;
}

static cairn_status prepare(generator *g) {
  const cairn_generate_options *o = g->options;
  cairn_llm *llm = g->llm;
  cairn_generation *r = g->result;
  CRN_TRY(cairn_sampling_check(&o->sampling));
  if (o->n_stop < 0) return CRN_FAIL(INVALID_ARGUMENT, "%d stop texts", o->n_stop);
  if (o->n_stop) CRN_TRY(crn_llm_text_need_tokenizer(&llm->text));
  CRN_TRY(prepare_prompt(g));
  CRN_TRY(crn_llm_check_tokens(llm, "forced", o->forced, o->n_forced));
  CRN_TRY(check_room(g));
  cairn_sampling sampling = o->sampling;
  if (sampling.temperature > 0 && !sampling.has_seed && getrandom(&sampling.seed, sizeof sampling.seed, 0) != sizeof sampling.seed) {
    return CRN_FAIL(INTERNAL, "the system gives no random seed");
  }
  if (sampling.temperature > 0) r->seed = sampling.seed;
  CRN_TRY(crn_sampler_initialize(&g->sampler, llm->context, &sampling, llm->contract.vocab_size));
  CRN_TRY(crn_stop_texts_initialize(&g->stops, &llm->context->allocator, o->stop, g->is_forced ? 0 : o->n_stop));
  bool hides = !o->keep_special_tokens && o->n_shown_special_tokens <= 0;
  if (llm->text.tokenizer) CRN_TRY(cairn_detokenizer_create(llm->text.tokenizer, hides, &g->detokenizer));
  return CAIRN_OK;
}

static cairn_status run(generator *g) {
  CRN_TRY(prefill(g));
  if (!g->is_over) CRN_TRY(g->is_forced ? decode_forced(g) : decode_free(g));
  return finish_text(g);
}

static void take_times(generator *g) {
  double now = seconds_now(), first = g->first > 0 ? g->first : now;
  g->result->prefill_seconds = first - g->start;
  g->result->decode_seconds = now - first;
}

static cairn_status create_result(cairn_context *context, cairn_generation **out) {
  cairn_generation *r;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *r, &r));
  cairn_context_retain(context);
  r->context = context;
  r->prefix_note = "";
  r->prompt_form = "";
  crn_str_initialize(&r->text, &context->allocator);
  crn_str_initialize(&r->stop_text, &context->allocator);
  *out = r;
  return CAIRN_OK;
}

static cairn_status generate(cairn_llm *llm, const cairn_generate_options *options, cairn_generation *result, bool *out_started) {
  generator g = {.llm = llm, .options = options, .result = result, .is_forced = options->use_forced || options->n_forced > 0};
  crn_str_initialize(&g.piece, &llm->context->allocator);
  crn_str_initialize(&g.stops.pending, &llm->context->allocator);
  atomic_store(&llm->is_cancelled, false);
  g.start = seconds_now();
  cairn_status status = prepare(&g);
  *out_started = status == CAIRN_OK;
  if (status == CAIRN_OK) {
    status = run(&g);
    take_times(&g);
    if (status != CAIRN_OK) result->reason = CAIRN_STOP_ERROR;
  }
  cairn_detokenizer_destroy(g.detokenizer);
  crn_stop_texts_deinitialize(&g.stops);
  if (g.sampler.allocator) crn_sampler_deinitialize(&g.sampler);
  crn_str_deinitialize(&g.piece);
  crn_vec_free(&llm->context->allocator, &g.fed);
  return status;
}

cairn_status cairn_llm_generate(cairn_llm *llm, const cairn_generate_options *options, cairn_generation **out_generation) {
  cairn_generation *result;
  bool started = false;
  *out_generation = NULL;
  CRN_TRY(crn_llm_acquire(llm));
  cairn_status status = create_result(llm->context, &result);
  if (status == CAIRN_OK) {
    status = generate(llm, options, result, &started);
    if (started) {
      *out_generation = result;
    } else {
      cairn_generation_destroy(result);
    }
  }
  crn_llm_yield(llm);
  return status;
}

// --- the result -----------------------------------------------------------------------------------------------------

void cairn_generation_get(const cairn_generation *g, cairn_generation_info *out_info) {
  *out_info = (cairn_generation_info){.prompt_tokens = g->prompt.items,
                                      .n_prompt_tokens = g->prompt.size,
                                      .tokens = g->tokens.items,
                                      .n_tokens = g->tokens.size,
                                      .text = g->text.data,
                                      .text_bytes = g->text.size,
                                      .stop_reason = g->reason,
                                      .stop_text = g->stop_text.data,
                                      .prefix_hit = g->prefix_hit,
                                      .prefix_note = g->prefix_note,
                                      .prompt_form = g->prompt_form,
                                      .seed = g->seed,
                                      .prefill_seconds = g->prefill_seconds,
                                      .prefill_tokens = g->prefill_tokens,
                                      .decode_seconds = g->decode_seconds,
                                      .decode_tokens = g->decode_tokens};
}

void cairn_generation_destroy(cairn_generation *g) {
  if (!g) return;
  cairn_context *context = g->context;
  crn_vec_free(&context->allocator, &g->prompt);
  crn_vec_free(&context->allocator, &g->tokens);
  crn_str_deinitialize(&g->text);
  crn_str_deinitialize(&g->stop_text);
  crn_free(&context->allocator, g, sizeof *g);
  cairn_context_release(context);
}
