/// Models that are loaded when they are needed, once for all who ask for the same.
#include <string.h>

#include "engines/llm/sequence.h"

enum { MAX_TEXTS = 8 };

struct cairn_llm_loader {
  int references;  ///< guarded by the registry
  cairn_llm_loader *next;
  cairn_context *context;
  crn_arena arena;  ///< of the copies below
  const char *path;
  cairn_llm_options options;  ///< its pointers lead to the copies
  cairn_model_options model_options;

  pthread_mutex_t lock;  ///< guards what follows
  pthread_cond_t changed;
  crn_llm_model *model;  ///< NULL while it is not loaded
  bool is_loading;
  uint64_t generation;  ///< counts unloads: a load of an earlier one is not kept
  int64_t n_loads;
};

// All loaders there are. They do not keep one another: the last reference takes one out.
static struct {
  pthread_mutex_t lock;
  cairn_llm_loader *first;
} g_registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- equal configurations -------------------------------------------------------------------------------------------------

// The texts among the options; all other members are compared and copied as they are.
static void texts_of(cairn_llm_options *o, const char **out_texts[MAX_TEXTS], int *out_n) {
  const char **const texts[] = {&o->engine, &o->kv, &o->kv_type, &o->tokenizer, &o->prompt_cache};
  *out_n = (int)(sizeof texts / sizeof *texts);
  memcpy(out_texts, texts, sizeof texts);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_tables(const cairn_llm_options *a, const cairn_llm_options *b) {
  if (a->n_token_tables != b->n_token_tables) return false;
  for (int i = 0; i < a->n_token_tables; i++) {
    if (a->token_tables[i].array != b->token_tables[i].array || strcmp(a->token_tables[i].name, b->token_tables[i].name) != 0) return false;
  }
  return true;
}

// Padding may make equal ones differ, which costs a second load and nothing else.
static bool same_rest(const cairn_llm_options *a, const cairn_llm_options *b) {
  cairn_llm_options x, y;
  const char **texts[MAX_TEXTS];
  int n;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  texts_of(&x, texts, &n);
  for (int i = 0; i < n; i++) *texts[i] = NULL;
  texts_of(&y, texts, &n);
  for (int i = 0; i < n; i++) *texts[i] = NULL;
  x.token_tables = y.token_tables = NULL;
  x.model = y.model = NULL;
  return memcmp(&x, &y, sizeof x) == 0;
}

static bool is_same(cairn_llm_loader *l, cairn_context *context, const char *path, const cairn_llm_options *o) {
  static const cairn_model_options kDefaults = {0};
  cairn_llm_options other;
  const char **own[MAX_TEXTS], **given[MAX_TEXTS];
  int n;
  if (l->context != context || strcmp(l->path, path) != 0) return false;
  memcpy(&other, o, sizeof other);
  texts_of(&l->options, own, &n);
  texts_of(&other, given, &n);
  for (int i = 0; i < n; i++) {
    if (!same_text(*own[i], *given[i])) return false;
  }
  return same_rest(&l->options, o) && same_tables(&l->options, o) &&
         memcmp(&l->model_options, o->model ? o->model : &kDefaults, sizeof kDefaults) == 0;
}

// --- making one -----------------------------------------------------------------------------------------------------------

static void destroy(cairn_llm_loader *l) {
  cairn_context *context = l->context;
  if (l->model) crn_llm_model_release(l->model);
  for (int i = 0; i < l->options.n_token_tables; i++) cairn_ndarray_release(l->options.token_tables[i].array);
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->lock);
  crn_arena_deinitialize(&l->arena);
  crn_free(&context->allocator, l, sizeof *l);
  cairn_context_release(context);
}

static cairn_status copy_tables(cairn_llm_loader *l, const cairn_llm_options *o) {
  cairn_named_array *copy;
  l->options.token_tables = NULL;
  l->options.n_token_tables = 0;
  if (o->n_token_tables < 1) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&l->arena, (size_t)o->n_token_tables, sizeof *copy, &copy));
  for (int i = 0; i < o->n_token_tables; i++)
    CRN_TRY(crn_arena_strndup(&l->arena, o->token_tables[i].name, strlen(o->token_tables[i].name), &copy[i].name));
  for (int i = 0; i < o->n_token_tables; i++) {
    copy[i].array = o->token_tables[i].array;
    cairn_ndarray_retain(copy[i].array);
  }
  l->options.token_tables = copy;
  l->options.n_token_tables = o->n_token_tables;
  return CAIRN_OK;
}

static cairn_status copy_options(cairn_llm_loader *l, const char *path, const cairn_llm_options *o) {
  const char **texts[MAX_TEXTS];
  int n;
  memcpy(&l->options, o, sizeof *o);
  if (o->model) memcpy(&l->model_options, o->model, sizeof l->model_options);
  l->options.model = &l->model_options;
  CRN_TRY(copy_tables(l, o));
  CRN_TRY(crn_arena_strndup(&l->arena, path, strlen(path), &l->path));
  texts_of(&l->options, texts, &n);
  for (int i = 0; i < n; i++) {
    if (*texts[i]) CRN_TRY(crn_arena_strndup(&l->arena, *texts[i], strlen(*texts[i]), texts[i]));
  }
  return CAIRN_OK;
}

static cairn_status create(cairn_context *context, const char *path, const cairn_llm_options *o, cairn_llm_loader **out) {
  cairn_llm_loader *l;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *l, &l));
  const bool has_lock = pthread_mutex_init(&l->lock, NULL) == 0;
  if (!has_lock || pthread_cond_init(&l->changed, NULL) != 0) {
    if (has_lock) pthread_mutex_destroy(&l->lock);
    crn_free(&context->allocator, l, sizeof *l);
    return CRN_FAIL(OUT_OF_MEMORY, "no memory for a lock");
  }
  cairn_context_retain(context);
  l->context = context;
  l->references = 1;
  crn_arena_initialize(&l->arena, &context->allocator);
  cairn_status status = copy_options(l, path, o);
  if (status != CAIRN_OK) {
    destroy(l);
    return status;
  }
  *out = l;
  return CAIRN_OK;
}

static cairn_status find_or_create(cairn_context *context, const char *path, const cairn_llm_options *o, cairn_llm_loader **out) {
  for (cairn_llm_loader *l = g_registry.first; l; l = l->next) {
    if (!is_same(l, context, path, o)) continue;
    l->references++;
    *out = l;
    return CAIRN_OK;
  }
  CRN_TRY(create(context, path, o, out));
  (*out)->next = g_registry.first;
  g_registry.first = *out;
  return CAIRN_OK;
}

cairn_status cairn_llm_loader_open(cairn_context *context, const char *path, const cairn_llm_options *options, bool is_eager,
                                   cairn_llm_loader **out_loader) {
  CRN_REQUIRE(out_loader);
  *out_loader = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE(path);
  static const cairn_llm_options kDefaults = {0};
  pthread_mutex_lock(&g_registry.lock);
  cairn_status status = find_or_create(context, path, options ? options : &kDefaults, out_loader);
  pthread_mutex_unlock(&g_registry.lock);
  if (status != CAIRN_OK || !is_eager) return status;
  cairn_llm *llm;
  status = cairn_llm_loader_borrow(*out_loader, &llm);
  if (status == CAIRN_OK) {
    cairn_llm_close(llm);
    return CAIRN_OK;
  }
  cairn_llm_loader_release(*out_loader);
  *out_loader = NULL;
  return status;
}

void cairn_llm_loader_retain(cairn_llm_loader *loader) {
  if (!loader) return;
  pthread_mutex_lock(&g_registry.lock);
  loader->references++;
  pthread_mutex_unlock(&g_registry.lock);
}

void cairn_llm_loader_release(cairn_llm_loader *loader) {
  if (!loader) return;
  pthread_mutex_lock(&g_registry.lock);
  const bool is_last = --loader->references == 0;
  for (cairn_llm_loader **at = &g_registry.first; is_last && *at; at = &(*at)->next) {
    if (*at != loader) continue;
    *at = loader->next;
    break;
  }
  pthread_mutex_unlock(&g_registry.lock);
  if (is_last) destroy(loader);
}

// --- loading --------------------------------------------------------------------------------------------------------------

// Loads it for the caller, whose sequence is the first one. Others wait meanwhile; they find the model, or try themselves.
static cairn_status load(cairn_llm_loader *l, uint64_t generation, cairn_llm **out_llm) {
  cairn_status status = cairn_llm_open(l->context, l->path, &l->options, out_llm);
  pthread_mutex_lock(&l->lock);
  l->is_loading = false;
  l->n_loads += status == CAIRN_OK;
  if (status == CAIRN_OK && l->generation == generation) {
    l->model = (*out_llm)->model;
    crn_llm_model_retain(l->model);
  }
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return status;
}

cairn_status cairn_llm_loader_borrow(cairn_llm_loader *l, cairn_llm **out_llm) {
  CRN_REQUIRE(out_llm);
  *out_llm = NULL;
  CRN_REQUIRE_NAMED(l, "loader");
  pthread_mutex_lock(&l->lock);
  while (l->is_loading) pthread_cond_wait(&l->changed, &l->lock);
  crn_llm_model *model = l->model;
  const uint64_t generation = l->generation;
  if (model) {
    crn_llm_model_retain(model);
  } else {
    l->is_loading = true;
  }
  pthread_mutex_unlock(&l->lock);
  if (!model) return load(l, generation, out_llm);
  cairn_status status = crn_llm_sequence_create(model, out_llm);
  crn_llm_model_release(model);
  return status;
}

cairn_status cairn_llm_loader_prewarm(cairn_llm_loader *loader, int64_t n_tokens) {
  CRN_REQUIRE(loader);
  cairn_llm *llm;
  CRN_TRY(cairn_llm_loader_borrow(loader, &llm));
  cairn_status status = cairn_llm_warm_up(llm, n_tokens);
  cairn_llm_close(llm);
  return status;
}

void cairn_llm_loader_unload(cairn_llm_loader *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  crn_llm_model *model = l->model;
  l->model = NULL;
  l->generation++;
  pthread_mutex_unlock(&l->lock);
  if (model) crn_llm_model_release(model);
}

void cairn_llm_loader_count(cairn_llm_loader *l, cairn_llm_loader_counts *out_counts) {
  if (!out_counts) return;
  if (!l) {
    *out_counts = (cairn_llm_loader_counts){0};
    return;
  }
  pthread_mutex_lock(&l->lock);
  *out_counts = (cairn_llm_loader_counts){
      .is_loaded = l->model != NULL, .n_loads = l->n_loads, .n_borrowed = l->model ? atomic_load(&l->model->references) - 1 : 0};
  pthread_mutex_unlock(&l->lock);
}
