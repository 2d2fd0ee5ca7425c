/// The public object: opening, describing, single steps.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "engines/llm/block_store.h"
#include "engines/llm/key.h"
#include "engines/llm/pipelined.h"
#include "engines/llm/prompt_cache.h"
#include "engines/llm/sequence.h"
#include "engines/llm/static_shape.h"

enum { DEFAULT_CHUNK = 512, DEFAULT_THRESHOLD = 1024, ASSUMED_CONTEXT = 4096, DEFAULT_SNAPSHOT_INTERVAL = 512, DEFAULT_SNAPSHOTS = 8 };

static const size_t kSnapshotBytes = (size_t)256 << 20;

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- decisions ------------------------------------------------------------------------------------------------------

cairn_status crn_llm_decide(cairn_llm *llm, const char *what, const char *chosen, const char *why, ...) {
  cairn_llm_decision d = {.what = what};
  crn_str text;
  va_list args;
  crn_str_initialize(&text, &llm->context->allocator);
  va_start(args, why);
  cairn_status status = crn_str_vprintf(&text, why, args);
  va_end(args);
  if (status == CAIRN_OK) status = crn_arena_strndup(&llm->model->arena, text.data, text.size, &d.why);
  if (status == CAIRN_OK) status = crn_arena_strndup(&llm->model->arena, chosen, strlen(chosen), &d.chosen);
  if (status == CAIRN_OK) status = crn_vec_push(&llm->context->allocator, &llm->model->decisions, d);
  if (status == CAIRN_OK) crn_log(llm->context, CAIRN_LOG_INFO, "%s: %s (%s)", what, d.chosen, d.why);
  crn_str_deinitialize(&text);
  return status;
}

static cairn_status decide_number(cairn_llm *llm, const char *what, int64_t n, const char *why) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)n);
  return crn_llm_decide(llm, what, text, "%s", why);
}

// --- options --------------------------------------------------------------------------------------------------------

static cairn_status check_options(const cairn_llm_options *o) {
  if (o->tokenizer && !crn_file_exists(o->tokenizer)) return CRN_FAIL(NOT_FOUND, "tokenizer '%s': no such file or folder", o->tokenizer);
  if (o->kv_capacity < 0) return CRN_FAIL(INVALID_ARGUMENT, "kv_capacity is %lld, 0 (default) or more expected", (long long)o->kv_capacity);
  if (o->prefill_chunk < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "prefill_chunk is %lld, 0 (default) or more expected", (long long)o->prefill_chunk);
  if (o->max_context < 0 || o->max_context > INT32_MAX) {
    return CRN_FAIL(INVALID_ARGUMENT, "max_context is %lld, 0 (default) to %d expected", (long long)o->max_context, INT32_MAX);
  }
  if (o->snapshot_interval < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "snapshot_interval is %lld, 0 (default) or more expected", (long long)o->snapshot_interval);
  return CAIRN_OK;
}

// A positive number of an environment variable; 0 for anything else.
static int64_t positive_from_environment(const char *name) {
  const char *text = getenv(name);
  char *end;
  long long n = text && *text ? strtoll(text, &end, 10) : 0;
  return text && *text && !*end && n > 0 && n <= INT32_MAX ? n : 0;
}

static void choose_pieces(cairn_llm *llm, const cairn_llm_options *o) {
  if (o->prefill_chunk) {
    llm->model->chunk = llm->model->threshold = o->prefill_chunk;
    return;
  }
  const char *own = getenv("CAIRN_CHUNK_THRESHOLD");
  int64_t n = positive_from_environment("CAIRN_CHUNK_THRESHOLD");
  if (own && *own && !n)
    CRN_WARN(llm->context, "CAIRN_CHUNK_THRESHOLD is '%s', a number from 1 to %d expected; it is not used", own, INT32_MAX);
  if (!n) n = positive_from_environment("COREAI_CHUNK_THRESHOLD");
  llm->model->threshold = n ? n : DEFAULT_THRESHOLD;
  llm->model->chunk = llm->model->threshold < DEFAULT_CHUNK ? llm->model->threshold : DEFAULT_CHUNK;
}

// --- opening --------------------------------------------------------------------------------------------------------

static cairn_status choose_engine(cairn_llm *llm, crn_llm_engine asked, crn_llm_engine *out_engine) {
  enum { MAX_NAMES = 1024 };
  const char *names[MAX_NAMES];
  int n = cairn_model_function_count(llm->model->source.model);
  if (n > MAX_NAMES) n = MAX_NAMES;
  for (int i = 0; i < n; i++) names[i] = cairn_model_function_info(llm->model->source.model, i)->name;
  CRN_TRY(crn_llm_engine_select(asked, crn_llm_structure_of(names, n), out_engine));
  llm->model->driver = *out_engine == CRN_LLM_ENGINE_STATIC_SHAPE ? &crn_llm_static_driver
                       : *out_engine == CRN_LLM_ENGINE_PIPELINED  ? &crn_llm_pipelined_driver
                                                                  : &crn_llm_sequential_driver;
  return CAIRN_OK;
}

static cairn_status decide_engine(cairn_llm *llm) {
  const char *why = llm->model->fixed                ? "the model has functions of fixed shapes (extend_*)"
                    : llm->model->contract.embeds    ? "the decoder takes embeddings"
                    : llm->model->contract.one_token ? "the model takes one token a run"
                                                     : "the model takes any number of tokens";
  // Working ahead costs some microseconds a token, which only a caller that takes its time over a token gives back (docs/pipelined.md).
  const char *other = llm->model->fixed ? "" : "; 'pipelined' pays where the caller is slow";
  return crn_llm_decide(llm, "engine", llm->model->driver->engine, "%s%s", why, other);
}

// The function the metadata names, else "main", else the only one there is.
static cairn_status open_function(cairn_llm *llm) {
  const char *name = crn_llm_main_function(llm);
  if (!name) {
    int n = cairn_model_function_count(llm->model->source.model);
    name = "main";
    const char *only = n == 1 ? cairn_model_function_info(llm->model->source.model, 0)->name : name;
    if (strcmp(only, name) != 0) {
      name = only;
      CRN_TRY(crn_llm_decide(llm, "function", name, "it is the only one"));
    }
  }
  return cairn_model_function(llm->model->source.model, name, &llm->model->function);
}

static cairn_status check_vocabulary(const cairn_llm *llm, const cairn_llm_options *o) {
  int64_t told = llm->model->source.vocab_size, real = llm->model->contract.vocab_size;
  if (!told || told == real) return CAIRN_OK;
  if (o->allow_vocab_mismatch) {
    CRN_WARN(llm->context, "vocab_size is %lld in the metadata, but the logits have %lld values", (long long)told, (long long)real);
    return CAIRN_OK;
  }
  return CRN_FAIL(INCOMPATIBLE, "vocab_size is %lld in the metadata, but the logits have %lld values: tokens would have the wrong meaning",
                  (long long)told, (long long)real);
}

static cairn_status choose_context(cairn_llm *llm, const cairn_llm_options *o) {
  int64_t told = llm->model->source.context_length, rows = llm->model->contract.has_dynamic_kv ? 0 : llm->model->contract.fixed_rows;
  if (o->max_context) {
    int64_t most = told ? told : rows;
    if (most && o->max_context > most) {
      return CRN_FAIL(INVALID_ARGUMENT, "max_context %lld is more than the %lld tokens the model takes", (long long)o->max_context,
                      (long long)most);
    }
    llm->model->model_context = o->max_context;
    return CAIRN_OK;
  }
  if (told) {
    llm->model->model_context = told;
    return CAIRN_OK;
  }
  if (rows) {
    llm->model->model_context = rows;
    return decide_number(llm, "max_context", rows, "the cache of the model has so many rows");
  }
  llm->model->model_context = ASSUMED_CONTEXT;
  return decide_number(llm, "max_context", ASSUMED_CONTEXT, "assumed: neither metadata nor cache tell; give max_context for more");
}

// Caches whose descriptors ask for blocks of channels are kept in plain order (see create_array of states.c).
static cairn_status decide_layout(cairn_llm *llm) {
  for (int i = 0; i < llm->model->contract.n_states; i++) {
    const cairn_descriptor *d = llm->model->contract.states[i].descriptor;
    for (int k = 0; k < d->rank; k++) {
      if (d->interleave[k] < 2) continue;
      return crn_llm_decide(llm, "kv_layout", "plain", "'%s' asks for blocks of %lld, but kernels compute in plain order", d->name,
                            (long long)d->interleave[k]);
    }
  }
  return CAIRN_OK;
}

/// What copies a cache out of its pages in every run: slow, and nothing that could know what a window dropped.
typedef struct page_copier {
  const char *function, *state, *operation;  ///< the last is NULL when there is none
} page_copier;

static cairn_status find_page_copier(const cairn_llm *llm, page_copier *out) {
  const crn_llm_contract *c = &llm->model->contract;
  const cairn_function *const functions[] = {llm->model->function, llm->model->prefill};
  *out = (page_copier){NULL, NULL, NULL};
  for (int f = 0; f < 2; f++) {
    for (int i = 0; functions[f] && !c->host_cache && i < c->n_states && !out->operation; i++) {
      if (c->states[i].kind != CAIRN_STATE_KV_CACHE) continue;
      out->function = cairn_function_describe(functions[f])->name;
      out->state = c->states[i].descriptor->name;
      CRN_TRY(cairn_function_find_page_copier(functions[f], out->state, &out->operation));
    }
  }
  return CAIRN_OK;
}

static cairn_status check_pages(cairn_llm *llm, const page_copier *copier) {
  // The functions of a ladder are told by masks what they may see, of a cache whose length is theirs: nothing could be dropped.
  if (llm->model->fixed && llm->states.strategy == CRN_LLM_KV_CHUNKED)
    return CRN_FAIL(UNSUPPORTED, "KV strategy 'chunked' does not go with functions of fixed shapes (extend_*): use 'paged' or 'fixed'");
  if (!copier->operation || !crn_llm_states_are_paged(&llm->states)) return CAIRN_OK;
  if (llm->states.strategy == CRN_LLM_KV_CHUNKED)
    return CRN_FAIL(UNSUPPORTED,
                    "KV strategy 'chunked' needs caches that only attention reads: in function '%s' state '%s' is read whole by %s",
                    copier->function, copier->state, copier->operation);
  return crn_llm_decide(llm, "kv_pages", "copied", "in function '%s' %s takes no pages and reads '%s': it gets a copy in every run",
                        copier->function, copier->operation, copier->state);
}

static cairn_status open_states(cairn_llm *llm, const cairn_llm_options *o) {
  crn_llm_states_options states = {.capacity = o->kv_capacity,
                                   .max_context = llm->model->model_context,
                                   .page_rows = o->kv_page,
                                   .window = o->kv_window,
                                   .sinks = o->kv_sinks};
  CRN_TRY(crn_llm_kv_parse(o->kv, &states.strategy));
  CRN_TRY(crn_llm_kv_type_parse(o->kv_type, &states.is_int8));
  page_copier copier;
  CRN_TRY(find_page_copier(llm, &copier));
  states.fits_pages = !copier.operation;
  llm->model->settings.states = states;
  CRN_TRY(crn_llm_states_initialize(&llm->states, llm->context, &llm->model->contract, &states));
  llm->max_context = llm->states.limit;
  CRN_TRY(check_pages(llm, &copier));
  CRN_TRY(decide_layout(llm));
  const char *chosen = crn_llm_kv_text(llm->states.strategy);
  if (states.strategy == CRN_LLM_KV_AUTO) {
    if (llm->model->contract.stateless) chosen = "none";
    CRN_TRY(crn_llm_decide(llm, "kv", chosen,
                           llm->model->contract.stateless           ? "the model keeps nothing: every step takes the whole sequence"
                           : !llm->model->contract.has_dynamic_kv   ? "the cache has a fixed size"
                           : crn_llm_states_are_paged(&llm->states) ? "the cache has a dynamic dim, and all that reads it takes pages"
                                                                    : "the cache has a dynamic dim, and what reads it takes no pages"));
  }
  if (llm->max_context < llm->model->model_context) {
    CRN_TRY(decide_number(llm, "max_context", llm->max_context, "the cache has no more rows"));
  }
  if (o->kv_capacity > llm->states.capacity) {
    CRN_TRY(decide_number(llm, "kv_capacity", llm->states.capacity, "the model takes no more tokens"));
  }
  for (int i = 0; llm->model->contract.n_states > 2 && !llm->model->contract.host_cache && i < llm->model->contract.n_states; i++) {
    const crn_llm_state *s = &llm->model->contract.states[i];
    CRN_TRY(crn_llm_decide(llm, "state", cairn_state_kind_text(s->kind), "kind of '%s'", s->descriptor->name));
  }
  return CAIRN_OK;
}

static cairn_status open_text(cairn_llm *llm, const char *tokenizer) {
  crn_llm_text_initialize(&llm->model->text, llm->context);
  CRN_TRY(crn_llm_source_finish_text(&llm->model->source));
  const crn_llm_source *s = &llm->model->source;
  int64_t vocab = llm->model->contract.vocab_size;
  if (tokenizer) {
    CRN_TRY(crn_llm_text_load_chosen(&llm->model->text, tokenizer, vocab));
  } else if (s->bundle) {
    CRN_TRY(crn_llm_text_load_bundle(&llm->model->text, s->bundle, s->language.tokenizer, s->language.embedded_tokenizer, vocab));
  } else if (strcmp(s->kind, "aimodel") == 0) {
    CRN_TRY(crn_str_puts(&llm->model->text.no_tokenizer, "a bare asset carries none"));
  } else {
    CRN_TRY(crn_llm_text_take(&llm->model->text, &s->parts));
  }
  if (!llm->model->text.tokenizer) {
    CRN_WARN(llm->context, "no tokenizer: %s", llm->model->text.no_tokenizer.data);
    return crn_llm_decide(llm, "tokenizer", "none", "%s", llm->model->text.no_tokenizer.data);
  }
  if (!llm->model->text.templates) {
    CRN_WARN(llm->context, "no chat template: %s", llm->model->text.no_template.data);
    CRN_TRY(crn_llm_decide(llm, "template", "none", "%s", llm->model->text.no_template.data));
  }
  if (!llm->model->text.stop_ids.size) {
    CRN_WARN(llm->context, "no token is known that ends a generation: it goes on to max_tokens or the end of the context");
    CRN_TRY(crn_llm_decide(llm, "stop_ids", "none", "neither tokenizer, template nor generation_config.json tell"));
  }
  return CAIRN_OK;
}

static cairn_status decide_precision(cairn_llm *llm) {
  cairn_precision precision = cairn_function_get_precision(llm->model->function);
  const char *path = llm->model->source.path;
  const char *why = path && crn_ends_with(path, ".aimodelc") ? "the model was compiled for it"
                    : precision == CAIRN_PRECISION_INT8      ? "most weights are quantised"
                                                             : "few weights are quantised, or none";
  return crn_llm_decide(llm, "precision", cairn_precision_text(precision), "%s", why);
}

static cairn_status open_contract(cairn_llm *llm, const cairn_llm_options *o) {
  if (llm->model->driver == &crn_llm_static_driver) return crn_static_shape_open(llm, o->max_context);
  CRN_TRY(open_function(llm));
  return crn_llm_contract_read(cairn_function_describe(llm->model->function), llm->model->source.bundle, &llm->model->contract);
}

static cairn_status open_prompt_cache(cairn_llm *llm, const cairn_llm_options *o) {
  static const uint64_t kBytes = (uint64_t)4 << 30;
  crn_llm_model *m = llm->model;
  const crn_str *key;
  m->shelf.most_bytes = o->prefix_bytes;
  if (!o->prompt_cache || m->contract.stateless) return CAIRN_OK;
  CRN_TRY(crn_alloc_zero(&llm->context->allocator, sizeof *m->prompt_cache, &m->prompt_cache));
  CRN_TRY_NOTE(crn_block_store_open(m->prompt_cache, &llm->context->allocator, o->prompt_cache,
                                    o->prompt_cache_bytes ? o->prompt_cache_bytes : kBytes),
               "the prompt cache");
  m->settings.snapshots.align = CRN_PROMPT_BLOCK;
  return crn_llm_key(llm, &key);
}

static cairn_status open_all(cairn_llm *llm, const cairn_llm_options *o, crn_llm_opener open, void *user) {
  crn_llm_engine asked, engine;
  crn_llm_kv kv;
  // What was asked for is checked before anything large is read.
  CRN_TRY(crn_llm_engine_parse(o->engine, &asked));
  CRN_TRY(crn_llm_kv_parse(o->kv, &kv));
  CRN_TRY(check_options(o));
  choose_pieces(llm, o);
  cairn_model_options model = o->model ? *o->model : (cairn_model_options){0};
  llm->model->settings.composites = model.composites;
  if (model.precision == CAIRN_PRECISION_DEFAULT) model.precision = CAIRN_PRECISION_AUTO;
  CRN_TRY(open(user, llm->context, &model, &llm->model->arena, &llm->model->source));
  CRN_TRY(choose_engine(llm, asked, &engine));
  CRN_TRY(open_contract(llm, o));
  CRN_TRY(crn_llm_companions_open(llm, o));
  if (asked == CRN_LLM_ENGINE_AUTO) CRN_TRY(decide_engine(llm));
  if (model.precision == CAIRN_PRECISION_AUTO) CRN_TRY(decide_precision(llm));
  CRN_TRY(check_vocabulary(llm, o));
  CRN_TRY(choose_context(llm, o));
  CRN_TRY(open_states(llm, o));
  CRN_TRY(open_prompt_cache(llm, o));
  if (engine == CRN_LLM_ENGINE_PIPELINED) CRN_TRY(crn_pipeline_choose_depth(llm, o->pipeline_depth));
  CRN_TRY(crn_llm_sequence_start(llm));
  const int64_t start = crn_trace_begin(llm->context);
  CRN_TRY(open_text(llm, o->tokenizer));
  CRN_TRACE_END(llm->context, start, "load", NULL, "Load tokenizer");
  return CAIRN_OK;
}

static cairn_status create_model(cairn_context *context, crn_llm_model **out) {
  static atomic_ullong last_serial;
  crn_llm_model *m;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *m, &m));
  if (pthread_mutex_init(&m->lock, NULL)) {
    crn_free(&context->allocator, m, sizeof *m);
    return CRN_FAIL(OUT_OF_MEMORY, "no memory for a lock");
  }
  atomic_init(&m->references, 1);
  m->serial = atomic_fetch_add(&last_serial, 1) + 1;
  cairn_context_retain(context);
  m->context = context;
  crn_arena_initialize(&m->arena, &context->allocator);
  crn_str_initialize(&m->key, &context->allocator);
  *out = m;
  return CAIRN_OK;
}

void crn_llm_model_retain(crn_llm_model *m) { atomic_fetch_add(&m->references, 1); }

void crn_llm_model_release(crn_llm_model *m) {
  if (!m || atomic_fetch_sub(&m->references, 1) > 1) return;
  cairn_context *context = m->context;
  crn_llm_text_deinitialize(&m->text);
  cairn_grammar_compiler_release(atomic_load(&m->grammars));
  crn_llm_companions_close(m);
  crn_static_shape_close(m);
  if (m->function) cairn_function_release(m->function);
  crn_llm_source_release(&m->source);
  crn_vec_free(&context->allocator, &m->decisions);
  crn_arena_deinitialize(&m->arena);
  crn_llm_shelf_free(&m->shelf, &context->allocator);
  if (m->prompt_cache) {
    crn_block_store_close(m->prompt_cache);
    crn_free(&context->allocator, m->prompt_cache, sizeof *m->prompt_cache);
  }
  crn_str_deinitialize(&m->key);
  pthread_mutex_destroy(&m->lock);
  crn_free(&context->allocator, m, sizeof *m);
  cairn_context_release(context);
}

static cairn_status create(cairn_context *context, const cairn_llm_options *o, cairn_llm **out) {
  crn_llm_model *model;
  CRN_TRY(create_model(context, &model));
  model->settings.waits = o->when_busy == CAIRN_BUSY_WAIT;
  model->settings.snapshots = (crn_llm_snapshot_bounds){.interval = o->snapshot_interval ? o->snapshot_interval : DEFAULT_SNAPSHOT_INTERVAL,
                                                        .most = o->max_snapshots < 0 ? 0
                                                                : o->max_snapshots   ? (size_t)o->max_snapshots
                                                                                     : DEFAULT_SNAPSHOTS,
                                                        .most_bytes = o->snapshot_bytes ? o->snapshot_bytes : kSnapshotBytes};
  cairn_status status = crn_llm_sequence_allocate(model, model->settings.waits, out);
  if (status != CAIRN_OK) crn_llm_model_release(model);
  return status;
}

cairn_status crn_llm_open_with(cairn_context *context, const cairn_llm_options *options, crn_llm_opener open, void *user,
                               cairn_llm **out_llm) {
  static const cairn_llm_options kDefaults = {0};
  cairn_llm *llm;
  double start = seconds_now();
  const int64_t begin = crn_trace_begin(context);
  *out_llm = NULL;
  if (!options) options = &kDefaults;
  CRN_TRY(create(context, options, &llm));
  cairn_status status = open_all(llm, options, open, user);
  if (status != CAIRN_OK) {
    cairn_llm_close(llm);
    return status;
  }
  llm->model->load_seconds = seconds_now() - start;
  CRN_TRACE_END(context, begin, "load", NULL, "Load engine %s", llm->model->driver->engine);
  *out_llm = llm;
  return CAIRN_OK;
}

static cairn_status open_path(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                              crn_llm_source *out_source) {
  return crn_llm_source_open(context, user, options, arena, out_source);
}

cairn_status cairn_llm_open(cairn_context *context, const char *path, const cairn_llm_options *options, cairn_llm **out_llm) {
  CRN_REQUIRE(out_llm);
  *out_llm = NULL;
  CRN_REQUIRE(context);
  return crn_llm_open_with(context, options, open_path, (void *)path, out_llm);
}

// --- description ----------------------------------------------------------------------------------------------------

void cairn_llm_describe(const cairn_llm *llm, cairn_llm_info *out_info) {
  if (!out_info) return;
  if (!llm) {
    *out_info = (cairn_llm_info){0};
    return;
  }
  cairn_function_stats stats;
  cairn_function_get_stats(llm->model->function, &stats);
  *out_info =
      (cairn_llm_info){.name = llm->model->source.name,
                       .source = llm->model->source.kind,
                       .engine = llm->model->driver->engine,
                       .precision = cairn_precision_text(cairn_function_get_precision(llm->model->function)),
                       .kv_strategy = llm->model->contract.stateless ? "none" : crn_llm_kv_text(llm->states.strategy),
                       .kv_capacity = llm->states.capacity,
                       .kv_limit = llm->states.limit,
                       .kv_bytes = crn_llm_states_bytes(&llm->states),
                       .kv_bytes_copied = (size_t)llm->states.bytes_copied,
                       .kv_dtype = llm->model->contract.stateless ? CAIRN_DTYPE_NONE : llm->model->contract.states[0].descriptor->dtype,
                       .logits_dtype = llm->model->contract.logits->dtype,
                       .vocab_size = llm->model->contract.vocab_size,
                       .max_context = llm->max_context,
                       .prefill_chunk = llm->model->contract.one_token ? 1 : llm->model->chunk,
                       .prefill_threshold = llm->model->contract.one_token ? 1 : llm->model->threshold,
                       .hybrid = llm->model->contract.hybrid,
                       .n_snapshots = (int64_t)llm->snapshots.items.size,
                       .snapshot_bytes = llm->snapshots.bytes,
                       .load_seconds = llm->model->load_seconds,
                       .n_decisions = (int)llm->model->decisions.size,
                       .decisions = llm->model->decisions.items,
                       .weight_bytes = (size_t)stats.weight_bytes,
                       .cache_hit = stats.weights_were_ready};
}

cairn_tokenizer *cairn_llm_tokenizer(const cairn_llm *llm) { return llm ? llm->model->text.tokenizer : NULL; }
cairn_status cairn_llm_has_text(const cairn_llm *llm) {
  CRN_REQUIRE(llm);
  return crn_llm_text_need_tokenizer(&llm->model->text);
}

cairn_status cairn_llm_has_template(const cairn_llm *llm) {
  CRN_REQUIRE(llm);
  CRN_TRY(crn_llm_text_need_tokenizer(&llm->model->text));
  return crn_llm_text_need_template(&llm->model->text);
}

const int32_t *cairn_llm_stop_ids(const cairn_llm *llm, size_t *out_n) {
  if (!llm || !out_n) return NULL;
  *out_n = llm->model->text.stop_ids.size;
  return llm->model->text.stop_ids.items;
}

const int32_t *cairn_llm_history(const cairn_llm *llm, int64_t *out_n) {
  if (!llm || !out_n) return NULL;
  *out_n = llm->history.n;
  return llm->history.tokens;
}

// --- single steps ---------------------------------------------------------------------------------------------------

cairn_status crn_llm_acquire(cairn_llm *llm) { return crn_llm_turn_take(&llm->turn); }

void crn_llm_yield(cairn_llm *llm) { crn_llm_turn_give(&llm->turn); }

void cairn_llm_cancel(cairn_llm *llm) {
  if (!llm) return;
  crn_llm_turn_cancel(&llm->turn);
}

// Both kinds of producers read the whole vector in their own way, and both are right only for 0, 1, …, P - 1.
static cairn_status check_positions(const cairn_llm *llm, const cairn_forward_options *o) {
  if (!o->positions) return CAIRN_OK;
  int64_t total = llm->history.n + (int64_t)o->n_tokens;
  if ((int64_t)o->n_positions != total) {
    return CRN_FAIL(INVALID_ARGUMENT, "positions: %zu given for a sequence of %lld tokens (%lld held and %zu new)", o->n_positions,
                    (long long)total, (long long)llm->history.n, o->n_tokens);
  }
  for (int64_t i = 0; i < total; i++) {
    if (o->positions[i] == i) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "positions: entry %lld is %d; they must be 0 to %lld in order", (long long)i, o->positions[i],
                    (long long)total - 1);
  }
  return CAIRN_OK;
}

static cairn_status forward(cairn_llm *llm, const cairn_forward_options *o) {
  if (!o->tokens || !o->n_tokens) return CRN_FAIL(INVALID_ARGUMENT, "no tokens to process");
  if (llm->is_dirty) return CRN_FAIL(FAILED_PRECONDITION, "a run failed before, so the states hold no known tokens: reset to 0 first");
  CRN_TRY(crn_llm_check_tokens(llm, "input", o->tokens, o->n_tokens));
  CRN_TRY(check_positions(llm, o));
  const crn_llm_feed feed = {
      .tokens = o->tokens, .n = (int64_t)o->n_tokens, .all_rows = o->all_rows, .on_logits = o->on_logits, .user = o->user};
  return crn_llm_run_tokens(llm, &feed, NULL);
}

cairn_status cairn_llm_forward(cairn_llm *llm, const cairn_forward_options *options) {
  CRN_REQUIRE(llm);
  CRN_REQUIRE(options);
  CRN_TRY(crn_llm_acquire(llm));
  cairn_status status = forward(llm, options);
  crn_llm_yield(llm);
  return status;
}

cairn_status cairn_llm_reset(cairn_llm *llm, int64_t n) {
  CRN_REQUIRE(llm);
  CRN_TRY(crn_llm_acquire(llm));
  const int64_t start = crn_trace_begin(llm->context);
  cairn_status status = crn_llm_cut(llm, n);
  CRN_TRACE_END(llm->context, start, "engine", status == CAIRN_OK ? NULL : cairn_status_name(status), "Reset to %lld", (long long)n);
  crn_llm_yield(llm);
  return status;
}

cairn_status cairn_llm_warm_up(cairn_llm *llm, int64_t n_tokens) {
  CRN_REQUIRE(llm);
  if (n_tokens < 1 || n_tokens > llm->max_context) {
    return CRN_FAIL(INVALID_ARGUMENT, "a warm-up of %lld tokens; 1 to %lld expected", (long long)n_tokens, (long long)llm->max_context);
  }
  int32_t *tokens;
  CRN_TRY(crn_alloc_array(&llm->context->allocator, (size_t)n_tokens, sizeof *tokens, &tokens));
  cairn_status status = crn_llm_acquire(llm);
  if (status == CAIRN_OK) {
    const int64_t start = crn_trace_begin(llm->context);
    status = crn_llm_cut(llm, 0);
    // What is left of loading is done in front of a model's second run, which is the first that goes as all others will.
    const int64_t runs[] = {1, n_tokens};
    for (int i = 0; i < 2 && status == CAIRN_OK; i++) {
      const crn_llm_feed feed = {.tokens = tokens, .n = runs[i]};
      status = crn_llm_run_tokens(llm, &feed, NULL);
      if (status == CAIRN_OK) status = crn_llm_cut(llm, 0);
    }
    // Whatever happened, nothing of the dummy tokens may stay.
    cairn_status after = crn_llm_cut(llm, 0);
    if (status == CAIRN_OK) status = after;
    CRN_TRACE_END(llm->context, start, "engine", NULL, "Warm-up %lld", (long long)n_tokens);
    crn_llm_yield(llm);
  }
  crn_free(&llm->context->allocator, tokens, (size_t)n_tokens * sizeof *tokens);
  return status;
}
