#include "execute/model.h"

#include <stdlib.h>
#include <string.h>

#include "asset/asset.h"
#include "base/log.h"
#include "base/str.h"
#include "base/trace.h"
#include "execute/describe.h"
#include "execute/fold.h"
#include "execute/internal.h"
#include "execute/packed_cache.h"
#include "execute/ties.h"
#include "execute/work.h"
#include "program/from_mlirbc.h"
#include "program/verify.h"
#include "specialize/print.h"

static cairn_status describe_functions(cairn_model *m) {
  crn_arena *arena = &m->arena;
  CRN_TRY(crn_arena_array(arena, m->program->n_graphs, sizeof *m->functions, &m->functions));
  CRN_TRY(crn_arena_array(arena, m->program->n_graphs, sizeof *m->graphs, &m->graphs));
  for (const crn_graph *g = m->program->first; g; g = g->next) {
    if (!crn_graph_is_function(g)) continue;
    CRN_TRY(crn_describe_function(arena, g, &m->functions[m->n_functions]));
    m->graphs[m->n_functions++] = g;
  }
  if (!m->n_functions) return CRN_FAIL(CORRUPT, "the program has no function to call");
  return CAIRN_OK;
}

static cairn_status check_options(const cairn_model_options *o) {
  if (o->max_in_flight < 0) return CRN_FAIL(INVALID_ARGUMENT, "max_in_flight is %d, 0 (no bound) or more expected", o->max_in_flight);
  if ((unsigned)o->device > CAIRN_DEVICE_NEURAL_ENGINE)
    return CRN_FAIL(INVALID_ARGUMENT, "device is %d, a value of cairn_device expected", (int)o->device);
  if (o->device > CAIRN_DEVICE_CPU)
    return CRN_FAIL(UNSUPPORTED, "device %s is not available in this build: cpu is", cairn_device_text(o->device));
  return CAIRN_OK;
}

cairn_status crn_model_create_from_program(cairn_context *context, crn_program *program, const cairn_model_options *options,
                                           cairn_model **out_model) {
  cairn_model *m;
  *out_model = NULL;
  cairn_status status = options ? check_options(options) : CAIRN_OK;
  if (status == CAIRN_OK) status = crn_alloc_zero(&context->allocator, sizeof *m, &m);
  if (status != CAIRN_OK) {
    crn_program_destroy(program);
    return status;
  }
  atomic_init(&m->references, 1);
  cairn_context_retain(context);
  m->context = context;
  m->program = program;
  if (options) m->options = *options;
  crn_arena_initialize(&m->arena, &context->allocator);
  crn_weight_store_initialize(&m->weights, &context->allocator);
  m->weights.base = program->origin.data;
  m->weights.base_bytes = program->origin.bytes;
  m->weights.is_file = program->origin.path != NULL;
  status = crn_program_verify(program);
  if (status == CAIRN_OK) status = describe_functions(m);
  if (status == CAIRN_OK) crn_packed_cache_identify(m);
  if (status != CAIRN_OK) {
    cairn_model_release(m);
    return status;
  }
  *out_model = m;
  return CAIRN_OK;
}

cairn_status cairn_model_create(cairn_asset *asset, const cairn_model_options *options, cairn_model **out_model) {
  CRN_REQUIRE(out_model);
  *out_model = NULL;
  CRN_REQUIRE(asset);
  crn_bc_module *module;
  crn_program *program = NULL;
  int64_t start = crn_trace_begin(asset->context);
  CRN_TRY(crn_asset_open_module(asset, &module));
  cairn_status status = crn_program_from_mlirbc(&asset->context->allocator, module, &program);
  crn_bc_module_close(module);
  if (status == CAIRN_OK) status = crn_model_create_from_program(asset->context, program, options, out_model);
  CRN_TRACE_END(asset->context, start, "load", cairn_asset_path(asset), "Load model");
  if (status != CAIRN_OK) return crn_note(status, "loading '%s'", cairn_asset_path(asset));
  cairn_asset_retain(asset);
  (*out_model)->asset = asset;
  memcpy((*out_model)->hash, asset->hash, sizeof asset->hash);
  (*out_model)->weights.base = asset->map.data;
  (*out_model)->weights.base_bytes = asset->map.bytes;
  (*out_model)->weights.is_file = !asset->borrowed && !asset->compiled;
  return CAIRN_OK;
}

cairn_status cairn_model_load(cairn_context *context, const char *path, const cairn_model_options *options, cairn_model **out_model) {
  CRN_REQUIRE(out_model);
  *out_model = NULL;
  CRN_REQUIRE(context);
  cairn_asset *asset;
  int64_t start = crn_trace_begin(context);
  CRN_TRY(cairn_asset_open(context, path, &(cairn_asset_options){.strict_hash = options && options->strict_hash}, &asset));
  CRN_TRACE_END(context, start, "load", path, "Open asset");
  cairn_status status = cairn_model_create(asset, options, out_model);
  cairn_asset_release(asset);
  return status;
}

void cairn_model_retain(cairn_model *m) {
  if (!m) return;
  atomic_fetch_add_explicit(&m->references, 1, memory_order_relaxed);
}

void cairn_model_release(cairn_model *m) {
  if (!m || atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = m->context;
  crn_program_destroy(m->program);
  crn_weight_store_deinitialize(&m->weights);
  crn_arena_deinitialize(&m->arena);
  cairn_asset_release(m->asset);
  crn_free(&context->allocator, m, sizeof *m);
  cairn_context_release(context);
}

int cairn_model_function_count(const cairn_model *m) { return m ? m->n_functions : 0; }

const cairn_function_info *cairn_model_function_info(const cairn_model *m, int i) {
  if (!m) return NULL;
  return i >= 0 && i < m->n_functions ? &m->functions[i] : NULL;
}

// --- functions ------------------------------------------------------------------------------------------------------------

static cairn_status not_found(const cairn_model *m, const char *name) {
  crn_str names;
  crn_str_initialize(&names, &m->context->allocator);
  for (int i = 0; i < m->n_functions && i < 20; i++) crn_str_printf(&names, "%s%s", i ? ", " : "", m->functions[i].name);
  cairn_status status = CRN_FAIL(NOT_FOUND, "no function '%s'; the model has: %s%s", name, names.data, m->n_functions > 20 ? ", …" : "");
  crn_str_deinitialize(&names);
  return status;
}

static cairn_status composites_by_body(const cairn_model_options *o, bool *out_use_bodies) {
  const char *text = o->composites == CAIRN_COMPOSITES_DEFAULT ? getenv("CAIRN_COMPOSITES") : NULL;
  *out_use_bodies = o->composites == CAIRN_COMPOSITES_BODY;
  if (!text || !*text || !strcmp(text, "fast")) return CAIRN_OK;
  if (strcmp(text, "body")) return CRN_FAIL(INVALID_ARGUMENT, "CAIRN_COMPOSITES is '%s', 'fast' or 'body' expected", text);
  *out_use_bodies = true;
  return CAIRN_OK;
}

static cairn_status make_plan(cairn_model *m, const crn_graph *graph, const crn_plan_tie *ties, uint32_t n_ties, crn_plan **out_plan) {
  bool use_bodies;
  crn_specialization s = {.precision = m->options.precision, .store = &m->weights};
  CRN_TRY(composites_by_body(&m->options, &use_bodies));
  CRN_TRY(crn_program_check_ready(m->program, graph));
  for (uint32_t i = 0; i < n_ties; i++) {
    if (ties[i].giver) CRN_TRY(crn_program_check_ready(m->program, ties[i].giver));
  }
  CRN_TRY(crn_plan_create(m->context, graph, ties, n_ties, use_bodies, out_plan));
  // Bodies are the reference that fast paths are checked against: nothing is fused when they are asked for.
  if (!use_bodies) {
    bool is_compiled = m->asset && m->asset->compiled;
    CRN_TRY(crn_compiled_check_options(m, &s.precision));
    CRN_TRY(crn_plan_keep_palettes(*out_plan));
    CRN_TRY(crn_plan_fold(*out_plan, true, NULL, NULL));
    crn_resolve_precision(*out_plan, &s);
    if ((is_compiled || crn_plan_is_heavy(*out_plan)) && !atomic_exchange(&m->has_read_cache, true)) CRN_TRY(crn_packed_cache_read(m));
    int64_t start = crn_trace_begin(m->context);
    cairn_status status = crn_specialize_plan(*out_plan, &s);
    CRN_TRACE_END(m->context, start, "specialization", cairn_precision_text((*out_plan)->precision), "Compile");
    CRN_TRY(status);
    crn_packed_cache_write(m);
  } else if (m->asset && m->asset->compiled) {
    return CRN_FAIL(INCOMPATIBLE, "'%s' is compiled: its composites cannot be computed by their bodies", cairn_asset_path(m->asset));
  }
  CRN_TRY(crn_compiled_check_plan(m, *out_plan));
  CRN_TRY(crn_plan_fold(*out_plan, false, m->options.progress, m->options.progress_user));
  if (!use_bodies) CRN_TRY(crn_specialize_folded(*out_plan, &s));
  return crn_plan_set_lifetimes(*out_plan);
}

static bool is_open(const cairn_descriptor *d, int n) {
  for (int i = 0; i < n; i++) {
    if (cairn_descriptor_is_dynamic(&d[i])) return true;
  }
  return false;
}

// Apple's runtime crashes on such a combination.
static void warn_of_reshapes(const cairn_model *m, const cairn_function_info *info) {
  bool is_any_open = is_open(info->inputs, info->n_inputs) || is_open(info->states, info->n_states);
  if (m->options.expect_frequent_reshapes && !is_any_open)
    CRN_WARN(m->context, "frequent reshapes are expected, but all shapes of function '%s' are fixed", info->name);
}

// A function without its plan.
static cairn_status create_function(cairn_model *m, cairn_function **out) {
  cairn_function *f;
  CRN_TRY(crn_alloc_zero(&m->context->allocator, sizeof *f, &f));
  atomic_init(&f->references, 1);
  pthread_mutex_init(&f->lock, NULL);
  pthread_mutex_init(&f->widening.lock, NULL);
  f->max_in_flight = m->options.max_in_flight;
  cairn_model_retain(m);
  f->model = m;
  crn_arena_initialize(&f->arena, &m->context->allocator);
  f->trace = (crn_trace){m->options.trace, m->options.trace_user};
  *out = f;
  return CAIRN_OK;
}

cairn_status cairn_model_function(cairn_model *m, const char *name, cairn_function **out_function) {
  return cairn_model_function_with(m, name, NULL, out_function);
}

cairn_status cairn_model_function_with(cairn_model *m, const char *name, const cairn_function_options *options,
                                       cairn_function **out_function) {
  CRN_REQUIRE(out_function);
  *out_function = NULL;
  CRN_REQUIRE_NAMED(m, "model");
  CRN_REQUIRE(name);
  int at = 0;
  while (at < m->n_functions && strcmp(m->functions[at].name, name)) at++;
  if (at == m->n_functions) return not_found(m, name);
  cairn_function *f;
  const crn_plan_tie *ties;
  uint32_t n_ties;
  CRN_TRY(create_function(m, &f));
  int64_t start = crn_trace_begin(m->context);
  cairn_status status = crn_ties_resolve(m, at, options, &f->arena, &ties, &n_ties, &f->info);
  if (status == CAIRN_OK) status = make_plan(m, m->graphs[at], ties, n_ties, &f->plan);
  CRN_TRACE_END(m->context, start, "specialization", f->plan ? cairn_precision_text(f->plan->precision) : NULL, "Specialize %s", name);
  if (status != CAIRN_OK) {
    cairn_function_release(f);
    return crn_note(status, "preparing function '%s'", name);
  }
  f->stats.folded_bytes = f->plan->folded_bytes;
  warn_of_reshapes(m, f->info);
  *out_function = f;
  return CAIRN_OK;
}

void cairn_function_retain(cairn_function *f) {
  if (!f) return;
  atomic_fetch_add_explicit(&f->references, 1, memory_order_relaxed);
}

void cairn_function_release(cairn_function *f) {
  if (!f || atomic_fetch_sub_explicit(&f->references, 1, memory_order_acq_rel) != 1) return;
  cairn_model *m = f->model;
  for (crn_workspace *w = f->idle; w;) {
    crn_workspace *next = w->next;
    crn_workspace_destroy(w);
    w = next;
  }
  crn_plan_destroy(f->plan);
  crn_arena_deinitialize(&f->arena);
  pthread_mutex_destroy(&f->lock);
  pthread_mutex_destroy(&f->widening.lock);
  crn_free(&m->context->allocator, f, sizeof *f);
  cairn_model_release(m);
}

cairn_status cairn_function_print_plan(const cairn_function *f, char *out_text, size_t capacity, size_t *out_bytes) {
  CRN_REQUIRE_NAMED(f, "function");
  CRN_REQUIRE_SOME(out_text, capacity);
  CRN_REQUIRE(out_bytes);
  crn_str text;
  *out_bytes = 0;
  crn_str_initialize(&text, &f->model->context->allocator);
  cairn_status status = crn_plan_print(f->plan, false, &text);
  if (status == CAIRN_OK) {
    *out_bytes = text.size;
    if (text.size && capacity) memcpy(out_text, text.data, text.size < capacity ? text.size : capacity);
  }
  crn_str_deinitialize(&text);
  return status;
}

const char *cairn_precision_text(cairn_precision precision) {
  static const char *const texts[] = {"default", "exact", "bf16", "int8", "auto"};
  return (unsigned)precision < sizeof texts / sizeof *texts ? texts[precision] : "unknown";
}

const char *cairn_device_text(cairn_device device) {
  static const char *const texts[] = {"default", "cpu", "gpu", "neural-engine"};
  return (unsigned)device < sizeof texts / sizeof *texts ? texts[device] : "unknown";
}

cairn_status cairn_function_set_max_in_flight(cairn_function *f, int max_in_flight) {
  CRN_REQUIRE_NAMED(f, "function");
  if (max_in_flight < 0) return CRN_FAIL(INVALID_ARGUMENT, "max_in_flight is %d, 0 (no bound) or more expected", max_in_flight);
  crn_work_list *list = &f->model->context->work;
  pthread_mutex_lock(&list->lock);
  f->max_in_flight = max_in_flight;
  crn_stream_wake_all(list);
  crn_work_signal(list);
  pthread_mutex_unlock(&list->lock);
  return CAIRN_OK;
}

cairn_precision cairn_function_get_precision(const cairn_function *f) { return f ? f->plan->precision : CAIRN_PRECISION_DEFAULT; }

// Every kernel of this build is one of the CPU.
cairn_device cairn_function_get_device(const cairn_function *f) { return f ? CAIRN_DEVICE_CPU : CAIRN_DEVICE_DEFAULT; }

const cairn_function_info *cairn_function_describe(const cairn_function *f) { return f ? f->info : NULL; }

static const cairn_descriptor *find_descriptor(const cairn_descriptor *d, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (!strcmp(d[i].name, name)) return &d[i];
  }
  return NULL;
}

const cairn_descriptor *cairn_function_input(const cairn_function *f, const char *name) {
  if (!f || !name) return NULL;
  return find_descriptor(f->info->inputs, f->info->n_inputs, name);
}
const cairn_descriptor *cairn_function_output(const cairn_function *f, const char *name) {
  return f ? find_descriptor(f->info->outputs, f->info->n_outputs, name) : NULL;
}
const cairn_descriptor *cairn_function_state(const cairn_function *f, const char *name) {
  if (!f || !name) return NULL;
  return find_descriptor(f->info->states, f->info->n_states, name);
}

void cairn_function_get_stats(const cairn_function *f, cairn_function_stats *out_stats) {
  if (!out_stats) return;
  if (!f) {
    *out_stats = (cairn_function_stats){0};
    return;
  }
  pthread_mutex_lock((pthread_mutex_t *)&f->lock);
  *out_stats = f->stats;
  out_stats->weight_bytes = crn_plan_weight_bytes(f->plan);
  out_stats->weights_were_ready = f->model->has_ready_weights;
  pthread_mutex_unlock((pthread_mutex_t *)&f->lock);
}
