/// Opening a model with fixed shapes: its ladder, its contract, and the arrays of one function when it is first needed.
#include <stdio.h>
#include <string.h>

#include "engines/llm/static_shape.h"

static const char *const kCaches[2] = {"key_cache", "value_cache"}, *const kTable = "embedding_table";

static const cairn_descriptor *find(const cairn_descriptor *d, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (strcmp(d[i].name, name) == 0) return &d[i];
  }
  return NULL;
}

typedef struct name_list {
  char text[512];
} name_list;

// "a, b, c", cut where it becomes too long, for messages.
static const char *names_of(const cairn_descriptor *d, int n, name_list *room) {
  size_t at = 0;
  room->text[0] = 0;
  for (int i = 0; i < n && at < sizeof room->text; i++)
    at += (size_t)snprintf(room->text + at, sizeof room->text - at, "%s%s", i ? ", " : "", d[i].name);
  return room->text;
}

static const cairn_function_info *info_of(const cairn_llm *llm, const char *name) {
  for (int i = 0; i < cairn_model_function_count(llm->model->source.model); i++) {
    const cairn_function_info *info = cairn_model_function_info(llm->model->source.model, i);
    if (strcmp(info->name, name) == 0) return info;
  }
  return NULL;
}

// --- the cache ------------------------------------------------------------------------------------------------------

// The output that gives a cache back when it is no state.
static const cairn_descriptor *cache_output(const cairn_function_info *f, int i) {
  static const char *const kNames[2][4] = {{"new_key_cache", "new_k_cache", "key_cache", NULL},
                                           {"new_value_cache", "new_v_cache", "value_cache", NULL}};
  for (const char *const *name = kNames[i]; *name; name++) {
    const cairn_descriptor *d = find(f->outputs, f->n_outputs, *name);
    if (d) return d;
  }
  return NULL;
}

// The descriptors of key and value cache, states or plain inputs.
static cairn_status find_caches(const cairn_function_info *f, const cairn_descriptor *out[2], bool *out_plain) {
  name_list names;
  *out_plain = f->n_states == 0;
  const cairn_descriptor *d = *out_plain ? f->inputs : f->states;
  int n = *out_plain ? f->n_inputs : f->n_states;
  for (int i = 0; i < 2; i++) out[i] = find(d, n, kCaches[i]);
  if (*out_plain && (!out[0] || !out[1] || !cache_output(f, 0) || !cache_output(f, 1))) {
    return CRN_FAIL(UNSUPPORTED,
                    "function '%s' has no states 'key_cache' and 'value_cache', nor are they inputs with outputs 'new_k_cache' and "
                    "'new_v_cache': a cache inside of the model cannot be shared by its functions",
                    f->name);
  }
  if (f->n_states == 1) {
    return CRN_FAIL(UNSUPPORTED, "Function '%s' has exactly 1 state (%s): expected 2 (key_cache, value_cache), or 0 with plain caches",
                    f->name, f->states[0].name);
  }
  if (!out[0] || !out[1] || f->n_states > 2) {
    return CRN_FAIL(UNSUPPORTED, "Function '%s' has states [%s]: required are 'key_cache' and 'value_cache', and no others", f->name,
                    names_of(f->states, f->n_states, &names));
  }
  return CAIRN_OK;
}

static cairn_status read_cache(const cairn_function_info *f, const cairn_descriptor *d, int64_t rows, crn_llm_state *out) {
  if (d->rank < 2)
    return CRN_FAIL(UNSUPPORTED, "'%s' of function '%s' has rank %d: expected [layers, 1, channels, 1, rows]", d->name, f->name, d->rank);
  int axis = d->rank - 1;
  if (d->shape[axis] != rows && d->shape[axis] != CAIRN_DYNAMIC) {
    return CRN_FAIL(UNSUPPORTED, "'%s' of function '%s' has %lld rows in its last dim, its mask %lld", d->name, f->name,
                    (long long)d->shape[axis], (long long)rows);
  }
  *out = (crn_llm_state){.descriptor = d, .kind = CAIRN_STATE_KV_CACHE, .axis = axis, .size = rows};
  return CAIRN_OK;
}

// --- the contract ---------------------------------------------------------------------------------------------------

static cairn_status read_logits(cairn_llm *llm, const cairn_function_info *f) {
  name_list names;
  crn_llm_contract *c = &llm->model->contract;
  c->logits = find(f->outputs, f->n_outputs, "out_logits");
  if (!c->logits) c->logits = find(f->outputs, f->n_outputs, "logits");
  if (!c->logits) {
    return CRN_FAIL(UNSUPPORTED, "Function '%s' missing required output 'out_logits'. Available outputs: [%s]", f->name,
                    names_of(f->outputs, f->n_outputs, &names));
  }
  const cairn_descriptor *d = c->logits;
  if (d->is_image || (d->dtype != CAIRN_F16 && d->dtype != CAIRN_BF16 && d->dtype != CAIRN_F32)) {
    return CRN_FAIL(UNSUPPORTED, "unsupported logits type: '%s' is %s; float16, bfloat16 and float32 are supported", d->name,
                    cairn_dtype_name(d->dtype));
  }
  c->vocab_size = d->rank ? d->shape[d->rank - 1] : 0;
  if (d->rank < 2 || c->vocab_size < 1 || c->vocab_size > INT32_MAX)
    return CRN_FAIL(UNSUPPORTED, "output '%s' of function '%s' has no fixed vocabulary in its last dim", d->name, f->name);
  return CAIRN_OK;
}

static cairn_status check_inputs(const cairn_function_info *f) {
  static const char *const kKnown[] = {"transformer_input", "position_ids", "in_step",    "causal_mask",
                                       "embedding_table",   "key_cache",    "value_cache"};
  static const char *const kNeeded[] = {"transformer_input", "position_ids"};
  for (size_t i = 0; i < sizeof kNeeded / sizeof *kNeeded; i++) {
    if (!find(f->inputs, f->n_inputs, kNeeded[i])) return CRN_FAIL(UNSUPPORTED, "Graph '%s' has no %s input", f->name, kNeeded[i]);
  }
  for (int i = 0; i < f->n_inputs; i++) {
    bool is_known = false;
    for (size_t k = 0; k < sizeof kKnown / sizeof *kKnown; k++) is_known |= strcmp(f->inputs[i].name, kKnown[k]) == 0;
    if (!is_known)
      return CRN_FAIL(UNSUPPORTED, "function '%s' has an input '%s' that the static-shape engine does not know", f->name,
                      f->inputs[i].name);
  }
  return CAIRN_OK;
}

static cairn_status read_contract(cairn_llm *llm, const cairn_function_info *f, int64_t rows) {
  crn_llm_contract *c = &llm->model->contract;
  const cairn_descriptor *caches[2];
  CRN_TRY(check_inputs(f));
  CRN_TRY(read_logits(llm, f));
  CRN_TRY(find_caches(f, caches, &llm->model->fixed->is_plain_cache));
  c->n_states = 2;
  c->fixed_rows = llm->model->fixed->ladder.reach;
  for (int i = 0; i < 2; i++) CRN_TRY(read_cache(f, caches[i], rows, &c->states[i]));
  c->positions = find(f->inputs, f->n_inputs, "position_ids");
  c->ids = c->positions;  // replaced by that of the gather function when it is found
  return CAIRN_OK;
}

// --- opening --------------------------------------------------------------------------------------------------------

// The shortest cache that holds what was asked for, else the longest.
static const crn_ladder_rung *choose_largest(const crn_ladder *ladder, int64_t max_context) {
  const crn_ladder_rung *best = NULL;
  for (size_t i = 0; i < ladder->rungs.size; i++) {
    const crn_ladder_rung *r = &ladder->rungs.items[i];
    if (r->is_prompt) continue;
    bool holds = max_context && r->context >= max_context, best_holds = best && max_context && best->context >= max_context;
    bool is_better = !best || (holds != best_holds ? holds : holds ? r->context < best->context : r->context > best->context);
    if (is_better || (best && r->context == best->context && r->query < best->query)) best = r;
  }
  return best;
}

static cairn_status check_table(const cairn_llm *llm) {
  const cairn_function_info *f = info_of(llm, "load_embeddings");
  if (f && find(f->outputs, f->n_outputs, kTable) && !f->n_inputs && !f->n_states) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "load_embeddings has no 'embedding_table' ndArray output descriptor, or takes inputs");
}

// A function as the engine runs it: the table of embeddings is what load_embeddings gives, a constant of every function, ...
static cairn_status make_function(const cairn_llm *llm, const cairn_function_info *f, const cairn_carried *carried, int n_carried,
                                  cairn_function **out) {
  const cairn_function_options options = {.carried = carried, .n_carried = n_carried, .take_constants = true};
  CRN_TRY(cairn_model_function_with(llm->model->source.model, f->name, &options, out));
  if (!cairn_function_input(*out, kTable)) return CAIRN_OK;
  cairn_function_release(*out);
  *out = NULL;
  return CRN_FAIL(UNSUPPORTED, "input 'embedding_table' of function '%s' is of another type than what load_embeddings gives", f->name);
}

// ... and a cache that comes and goes as a plain array is a state, which is changed in place.
static cairn_status make_step(const cairn_llm *llm, const cairn_function_info *f, cairn_function **out) {
  const cairn_descriptor *caches[2];
  bool is_plain;
  CRN_TRY(find_caches(f, caches, &is_plain));
  if (is_plain != llm->model->fixed->is_plain_cache)
    return CRN_FAIL(UNSUPPORTED, "function '%s' keeps its cache in another way than '%s'", f->name,
                    cairn_function_describe(llm->model->function)->name);
  cairn_carried carried[2];
  for (int i = 0; i < 2 && is_plain; i++) carried[i] = (cairn_carried){kCaches[i], cache_output(f, i)->name};
  return make_function(llm, f, carried, is_plain ? 2 : 0, out);
}

cairn_status crn_static_shape_open(cairn_llm *llm, int64_t max_context) {
  const cairn_allocator *a = &llm->context->allocator;
  crn_static_shape *s;
  CRN_TRY(crn_alloc_zero(a, sizeof *s, &s));
  llm->model->fixed = s;
  int n = cairn_model_function_count(llm->model->source.model);
  const cairn_function_info **functions;
  CRN_TRY(crn_arena_array(&llm->model->arena, (size_t)n, sizeof *functions, &functions));
  for (int i = 0; i < n; i++) functions[i] = cairn_model_function_info(llm->model->source.model, i);
  int64_t told = llm->model->source.context_length, open_context = max_context ? max_context : told ? told : 4096;
  CRN_TRY(crn_ladder_read(a, functions, n, open_context, &s->ladder));
  const crn_ladder_rung largest = *choose_largest(&s->ladder, max_context);
  crn_ladder_limit(&s->ladder, largest.context);
  const cairn_function_info *f = info_of(llm, largest.function);
  CRN_TRY(check_table(llm));
  CRN_TRY(read_contract(llm, f, largest.context));
  return make_step(llm, f, &llm->model->function);
}

cairn_status crn_static_shape_start(cairn_llm *llm) {
  const crn_ladder *ladder = &llm->model->fixed->ladder;
  CRN_TRY(crn_alloc_array(&llm->context->allocator, (size_t)llm->model->contract.vocab_size, sizeof *llm->runner.row, &llm->runner.row));
  llm->runner.context = llm->context;
  llm->runner.contract = &llm->model->contract;
  CRN_TRY(crn_alloc_array(&llm->context->allocator, ladder->rungs.size, sizeof *llm->graphs, &llm->graphs));
  for (size_t i = 0; i < ladder->rungs.size; i++) llm->graphs[i].rung = &ladder->rungs.items[i];
  return CAIRN_OK;
}

void crn_static_shape_stop(cairn_llm *llm) {
  if (!llm->graphs) return;
  const size_t n = llm->model->fixed->ladder.rungs.size;
  for (size_t i = 0; i < n; i++) crn_static_graph_release(&llm->graphs[i]);
  crn_free(&llm->context->allocator, llm->graphs, n * sizeof *llm->graphs);
  llm->graphs = NULL;
}

void crn_static_shape_close(crn_llm_model *model) {
  crn_static_shape *s = model->fixed;
  if (!s) return;
  crn_ladder_free(&model->context->allocator, &s->ladder);
  crn_free(&model->context->allocator, s, sizeof *s);
  model->fixed = NULL;
}

// --- one function ---------------------------------------------------------------------------------------------------

// Creates the array of an input or output whose open dims are resolved by the shape given. Shapes that contradict are refused.
static cairn_status create(cairn_llm *llm, const cairn_function_info *f, const cairn_descriptor *d, const int64_t *shape, int rank,
                           cairn_ndarray **out) {
  if (d->rank != rank) return CRN_FAIL(UNSUPPORTED, "'%s' of function '%s' has rank %d, %d expected", d->name, f->name, d->rank, rank);
  for (int i = 0; i < rank; i++) {
    if (d->shape[i] < 0 || d->shape[i] == shape[i]) continue;
    return CRN_FAIL(UNSUPPORTED, "dim %d of '%s' of function '%s' is %lld, %lld expected", i, d->name, f->name, (long long)d->shape[i],
                    (long long)shape[i]);
  }
  return cairn_ndarray_create(llm->context, d->dtype, shape, rank, out);
}

static cairn_status find_gather(cairn_llm *llm, int64_t query, const cairn_function_info **out) {
  char name[64];
  snprintf(name, sizeof name, "gather_embeddings_%lld", (long long)query);
  *out = info_of(llm, name);
  if (!*out) *out = info_of(llm, "gather_embeddings");
  if (!*out) return CRN_FAIL(UNSUPPORTED, "No gather function '%s' for batch size %lld", name, (long long)query);
  const cairn_descriptor *ids = find((*out)->inputs, (*out)->n_inputs, "in_new_token_ids");
  if (!ids || ids->rank != 2 || (cairn_dtype_bytes(ids->dtype) != 4 && cairn_dtype_bytes(ids->dtype) != 8))
    return CRN_FAIL(UNSUPPORTED, "function '%s' has no input 'in_new_token_ids' of the type int32 and the shape [1, %lld]", (*out)->name,
                    (long long)query);
  if ((*out)->n_outputs < 1) return CRN_FAIL(UNSUPPORTED, "Gather '%s' returned no output", (*out)->name);
  return CAIRN_OK;
}

static cairn_status prepare_gather(cairn_llm *llm, crn_static_graph *g) {
  const cairn_function_info *f, *target = cairn_function_describe(g->function);
  const int64_t query = g->rung->query;
  CRN_TRY(find_gather(llm, query, &f));
  CRN_TRY(make_function(llm, f, NULL, 0, &g->gather));
  CRN_TRY(create(llm, f, find(f->inputs, f->n_inputs, "in_new_token_ids"), (const int64_t[]){1, query}, 2, &g->ids));
  const cairn_descriptor *x = find(target->inputs, target->n_inputs, "transformer_input");
  int64_t shape[CAIRN_MAX_RANK];
  if (!x) return CRN_FAIL(UNSUPPORTED, "Graph '%s' has no transformer_input input", target->name);
  memcpy(shape, x->shape, sizeof shape);
  if (x->rank > 1) shape[1] = query;
  return create(llm, target, x, shape, x->rank, &g->embedded);
}

static cairn_status view_cache(cairn_llm *llm, crn_static_graph *g) {
  for (int i = 0; i < 2; i++) {
    cairn_ndarray *whole = llm->states.arrays[i].array;
    CRN_TRY(crn_llm_slice_axis(whole, cairn_ndarray_rank(whole) - 1, 0, g->rung->context, &g->cache[i]));
  }
  return CAIRN_OK;
}

static cairn_status prepare_arrays(cairn_llm *llm, crn_static_graph *g) {
  const cairn_function_info *f = cairn_function_describe(g->function);
  const int64_t query = g->rung->query, rows = g->rung->context;
  const cairn_descriptor *step = find(f->inputs, f->n_inputs, "in_step"), *mask = find(f->inputs, f->n_inputs, "causal_mask");
  CRN_TRY(check_inputs(f));
  CRN_TRY(create(llm, f, find(f->inputs, f->n_inputs, "position_ids"), (const int64_t[]){1, query}, 2, &g->positions));
  if (step) CRN_TRY(create(llm, f, step, (const int64_t[]){1}, 1, &g->step));
  if (mask && mask->dtype != CAIRN_F16 && mask->dtype != CAIRN_BF16 && mask->dtype != CAIRN_F32)
    return CRN_FAIL(UNSUPPORTED, "the mask of function '%s' is %s: expected a float type", f->name, cairn_dtype_name(mask->dtype));
  if (mask) CRN_TRY(create(llm, f, mask, (const int64_t[]){1, rows, 1, query}, 4, &g->mask));
  if (!g->rung->is_prompt) {
    name_list names;
    const cairn_descriptor *d = find(f->outputs, f->n_outputs, llm->model->contract.logits->name);
    int64_t shape[CAIRN_MAX_RANK] = {0};
    if (!d)
      return CRN_FAIL(UNSUPPORTED, "Function '%s' missing required output '%s'. Available outputs: [%s]", f->name,
                      llm->model->contract.logits->name, names_of(f->outputs, f->n_outputs, &names));
    for (int i = 0; i < d->rank; i++) shape[i] = 1;
    if (d->rank >= 2) {
      shape[d->rank - 1] = llm->model->contract.vocab_size;
      shape[d->rank - 2] = query;
    }
    CRN_TRY(create(llm, f, d, shape, d->rank, &g->logits));
  }
  return view_cache(llm, g);
}

cairn_status crn_static_graph_prepare(cairn_llm *llm, crn_static_graph *g) {
  if (g->is_ready) return CAIRN_OK;
  crn_static_graph_release(g);  // of a preparation that failed
  cairn_status status = make_step(llm, info_of(llm, g->rung->function), &g->function);
  if (status == CAIRN_OK) status = prepare_gather(llm, g);
  if (status == CAIRN_OK) status = prepare_arrays(llm, g);
  if (status != CAIRN_OK) {
    crn_static_graph_release(g);
    return status;
  }
  g->is_ready = true;
  return CAIRN_OK;
}

void crn_static_graph_release(crn_static_graph *g) {
  cairn_ndarray *const arrays[] = {g->ids, g->embedded, g->positions, g->step, g->mask, g->logits, g->cache[0], g->cache[1]};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) cairn_ndarray_release(arrays[i]);
  if (g->function) cairn_function_release(g->function);
  if (g->gather) cairn_function_release(g->gather);
  *g = (crn_static_graph){.rung = g->rung};
}
