/// Generation from end to end: the prompt, the loop, the result.
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/trace.h"
#include "engines/llm/guide.h"
#include "engines/llm/speculate.h"
#include "engines/llm/vision.h"

double crn_seconds_now(void) {
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

static cairn_status prefill(crn_generator *g) {
  cairn_generation *r = g->result;
  const cairn_generate_options *o = g->options;
  const bool is_first = g->first_token == 0;
  bool all = o->prefill_logits && o->on_logits && is_first, stopped = crn_generator_should_stop(g);
  if (!stopped) {
    crn_llm_reuse reuse;
    CRN_TRY(crn_llm_find_prefix(g->llm, g->fed.items, (int64_t)g->fed.size, !all, &reuse));
    const crn_llm_feed feed = {.tokens = g->fed.items + reuse.kept,
                               .n = (int64_t)g->fed.size - reuse.kept,
                               .all_rows = all,
                               .takes_snapshots = true,
                               .on_logits = all || o->first_logits ? o->on_logits : NULL,
                               .should_stop = crn_generator_should_stop,
                               .stop_user = g,
                               .user = o->user};
    cairn_status status = crn_llm_run_tokens(g->llm, &feed, &stopped);
    const int64_t n_fed = g->llm->history.n - reuse.kept;
    if (is_first) {
      r->prefix_hit = reuse.kept;
      r->prefix_from_memory = reuse.from_memory;
      r->prefix_from_disk = reuse.from_disk;
      r->prefix_note = reuse.note;
      r->prefill_tokens = n_fed;
    } else {
      r->overflow_fed += n_fed;
    }
    CRN_TRY(status);
  }
  if (stopped) crn_generator_end(g, CAIRN_STOP_CANCELLED);
  return CAIRN_OK;
}

// --- the whole ------------------------------------------------------------------------------------------------------

static cairn_status check_room(const crn_generator *g) {
  const cairn_llm *llm = g->llm;
  int64_t n = (int64_t)g->fed.size;
  bool wants_more = g->is_forced ? g->options->n_forced > 0 : g->options->max_tokens != 0;
  if (n + (wants_more ? 1 : 0) <= llm->max_context) return CAIRN_OK;
  return CRN_FAIL(CONTEXT_FULL, "the prompt has %lld tokens and leaves no room: %s %lld%s", (long long)n,
                  llm->max_context < llm->model->model_context ? "the KV cache holds" : "the context has", (long long)llm->max_context,
                  llm->max_context < llm->model->model_context ? " (a larger KV capacity helps)" : "");
}

// The prompt twice: as it is fed, and as it is reported, where a token of an image is the image token.
static cairn_status prepare_prompt(crn_generator *g) {
  const cairn_allocator *a = &g->llm->context->allocator;
  cairn_generation *r = g->result;
  const int64_t start = crn_trace_begin(g->llm->context);
  CRN_TRY(crn_llm_prompt(g->llm, g->options, &g->fed, &r->prompt_form));
  CRN_TRACE_END(g->llm->context, start, "engine", r->prompt_form, "Tokenization %lld", (long long)g->fed.size);
  CRN_TRY(crn_llm_place_images(g->llm, g->options, &g->fed));
  g->has_images = g->options->n_images > 0;
  CRN_TRY(crn_vec_reserve(a, &r->prompt, g->fed.size));
  for (size_t i = 0; i < g->fed.size; i++) {
    int32_t id = g->fed.items[i];
    r->prompt.items[r->prompt.size++] = id >= 0 ? id : crn_vision_token(g->llm->model->vision);
  }
  return CAIRN_OK;
}

static cairn_status prepare(crn_generator *g) {
  const cairn_generate_options *o = g->options;
  cairn_llm *llm = g->llm;
  cairn_generation *r = g->result;
  CRN_TRY(cairn_sampling_check(&o->sampling));
  if (o->n_stop < 0) return CRN_FAIL(INVALID_ARGUMENT, "%d stop texts", o->n_stop);
  if (o->n_stop) CRN_TRY(crn_llm_text_need_tokenizer(&llm->model->text));
  CRN_TRY(prepare_prompt(g));
  CRN_TRY(crn_llm_check_tokens(llm, "forced", o->forced, o->n_forced));
  CRN_TRY(crn_llm_check_tokens(llm, "stop_ids:", o->stop_ids, o->n_stop_ids));
  CRN_TRY(crn_overflow_begin(g));
  CRN_TRY(check_room(g));
  cairn_sampling sampling = o->sampling;
  if (sampling.temperature > 0 && !sampling.has_seed && getrandom(&sampling.seed, sizeof sampling.seed, 0) != sizeof sampling.seed) {
    return CRN_FAIL(INTERNAL, "the system gives no random seed");
  }
  if (sampling.temperature > 0) r->seed = sampling.seed;
  CRN_TRY(crn_sampler_initialize(&g->sampler, llm->context, &sampling, llm->model->contract.vocab_size));
  CRN_TRY(crn_stop_texts_initialize(&g->stops, &llm->context->allocator, o->stop, g->is_forced ? 0 : o->n_stop));
  bool hides = !o->keep_special_tokens && o->n_shown_special_tokens <= 0;
  if (llm->model->text.tokenizer) CRN_TRY(cairn_detokenizer_create(llm->model->text.tokenizer, hides, &g->detokenizer));
  return crn_guide_begin(g);
}

static cairn_status run(crn_generator *g) {
  CRN_TRY(prefill(g));
  const crn_llm_driver *d = g->llm->model->driver;
  if (!g->is_over) CRN_TRY(d->decode && !g->is_forced && !g->speculator ? d->decode(g) : crn_generator_decode(g));
  while (crn_overflow_goes_on(g)) {
    CRN_TRY(crn_overflow_make_room(g));
    CRN_TRY(prefill(g));
    if (!g->is_over) CRN_TRY(crn_generator_decode(g));
  }
  crn_llm_take_snapshot(g->llm);
  crn_llm_leave_prefix(g->llm);
  return crn_generator_finish_text(g);
}

void crn_generator_take_times(crn_generator *g) {
  double now = crn_seconds_now(), first = g->first > 0 ? g->first : now;
  g->result->prefill_seconds = first - g->start;
  g->result->decode_seconds = now - first;
}

cairn_status crn_generation_create(cairn_context *context, cairn_generation **out) {
  cairn_generation *r;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *r, &r));
  cairn_context_retain(context);
  r->context = context;
  r->prefix_note = "";
  r->prompt_form = "";
  r->speculation_note = "";
  crn_str_initialize(&r->text, &context->allocator);
  crn_str_initialize(&r->stop_text, &context->allocator);
  *out = r;
  return CAIRN_OK;
}

cairn_status crn_generator_open(crn_generator *g, cairn_llm *llm, const cairn_generate_options *options, cairn_generation *result) {
  *g = (crn_generator){.llm = llm, .options = options, .result = result, .is_forced = options->use_forced || options->n_forced > 0};
  crn_str_initialize(&g->piece, &llm->context->allocator);
  crn_str_initialize(&g->stops.pending, &llm->context->allocator);
  g->start = crn_seconds_now();
  return prepare(g);
}

void crn_generator_close(crn_generator *g) {
  crn_speculator_end(g);
  crn_guide_end(g);
  cairn_detokenizer_destroy(g->detokenizer);
  crn_stop_texts_deinitialize(&g->stops);
  if (g->sampler.allocator) crn_sampler_deinitialize(&g->sampler);
  crn_str_deinitialize(&g->piece);
  const crn_id_vec *placed = g->placed.size ? &g->placed : &g->fed;
  if (g->has_images) crn_vision_release(g->llm->model->vision, placed->items, placed->size);
  crn_vec_free(&g->llm->context->allocator, &g->placed);
  crn_vec_free(&g->llm->context->allocator, &g->fed);
}

static cairn_status generate(cairn_llm *llm, const cairn_generate_options *options, cairn_generation *result, bool *out_started) {
  crn_generator g;
  cairn_status status = crn_generator_open(&g, llm, options, result);
  if (status == CAIRN_OK) status = crn_speculator_begin(&g);
  *out_started = status == CAIRN_OK;
  if (status == CAIRN_OK) {
    status = run(&g);
    crn_generator_take_times(&g);
    if (status != CAIRN_OK) result->reason = CAIRN_STOP_ERROR;
  }
  crn_generator_close(&g);
  return status;
}

cairn_status cairn_llm_generate(cairn_llm *llm, const cairn_generate_options *options, cairn_generation **out_generation) {
  CRN_REQUIRE(out_generation);
  *out_generation = NULL;
  CRN_REQUIRE(llm);
  CRN_REQUIRE(options);
  cairn_generation *result;
  bool started = false;
  CRN_TRY(crn_llm_acquire(llm));
  cairn_status status = crn_generation_create(llm->context, &result);
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

static const char *overflow_text(cairn_overflow_kind kind) {
  return kind == CAIRN_OVERFLOW_SLIDE ? "slide" : kind == CAIRN_OVERFLOW_SUMMARISE ? "summarise" : "none";
}

void cairn_generation_get(const cairn_generation *g, cairn_generation_info *out_info) {
  if (!out_info) return;
  if (!g) {
    *out_info = (cairn_generation_info){0};
    return;
  }
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
                                      .n_overflows = g->n_overflows,
                                      .overflow_dropped = g->overflow_dropped,
                                      .overflow_fed = g->overflow_fed,
                                      .overflow = overflow_text(g->overflow),
                                      .prefix_from_memory = g->prefix_from_memory,
                                      .prefix_from_disk = g->prefix_from_disk,
                                      .prompt_form = g->prompt_form,
                                      .seed = g->seed,
                                      .prefill_seconds = g->prefill_seconds,
                                      .prefill_tokens = g->prefill_tokens,
                                      .decode_seconds = g->decode_seconds,
                                      .decode_tokens = g->decode_tokens,
                                      .decode_runs = g->decode_tokens - g->accepted,
                                      .speculates = g->speculates,
                                      .drafted_tokens = g->drafted,
                                      .accepted_tokens = g->accepted,
                                      .speculation_note = g->speculation_note,
                                      .guided = g->is_guided,
                                      .guide_complete = g->is_complete,
                                      .mask_seconds = g->mask_seconds,
                                      .mask_wait_seconds = g->mask_wait_seconds};
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
