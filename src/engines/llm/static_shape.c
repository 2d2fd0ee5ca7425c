/// Steps of a model with fixed shapes.
///
/// A step always takes a whole block of as many tokens as its function: tokens of the block that were computed earlier are
/// computed again (to the same rows of the cache), and the places behind the last token are filled up and masked.
#include "engines/llm/static_shape.h"

#include <string.h>

// What the exporters mask with, -40000: small enough for a weight of zero, and still a number in f16.
static size_t masked_bits(cairn_dtype dtype, unsigned char out[4]) {
  const uint16_t f16 = 0xf8e2, bf16 = 0xc71c;
  const float f32 = -40000.0f;
  size_t bytes = dtype == CAIRN_F32 ? sizeof f32 : sizeof f16;
  memcpy(out, dtype == CAIRN_F32 ? (const void *)&f32 : dtype == CAIRN_BF16 ? (const void *)&bf16 : (const void *)&f16, bytes);
  return bytes;
}

static void store_integer(cairn_ndarray *array, int64_t i, int64_t value) {
  void *data = cairn_ndarray_mutable_data(array);
  switch (cairn_dtype_bytes(cairn_ndarray_dtype(array))) {
    case 2:
      ((uint16_t *)data)[i] = (uint16_t)value;
      break;
    case 4:
      ((int32_t *)data)[i] = (int32_t)value;
      break;
    default:
      ((int64_t *)data)[i] = value;
  }
}

// --- one step -------------------------------------------------------------------------------------------------------

static int32_t token_at(const cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t position) {
  int64_t held = llm->history.n;
  if (position < held) return llm->history.tokens[position];
  return position < held + n ? tokens[position - held] : 0;
}

// A token sees all up to itself, padding sees nothing. Of the mask of the last step only those keys are written again that may differ.
static void fill_mask(crn_static_graph *g, int64_t start, int64_t n_real) {
  const int64_t *shape = cairn_ndarray_shape(g->mask), rows = shape[1], query = shape[3];
  const bool is_filled = g->n_real > 0;
  const int64_t lower = g->start < start ? g->start : start, upper = (g->start < start ? start : g->start) + query;
  const int64_t first = is_filled && g->n_real == n_real ? lower : 0, end = !is_filled || upper > rows ? rows : upper;
  unsigned char masked[4], *at = cairn_ndarray_mutable_data(g->mask);
  const size_t bytes = masked_bits(cairn_ndarray_dtype(g->mask), masked);
  at += (size_t)(first * query) * bytes;
  for (int64_t key = first; key < end; key++, at += (size_t)query * bytes) {
    // Keys in front of the block are seen by every token of it.
    if (key > first && key <= start) {
      memcpy(at, at - (size_t)query * bytes, (size_t)query * bytes);
      continue;
    }
    for (int64_t i = 0; i < query; i++) {
      if (i < n_real && key <= start + i) {
        memset(at + (size_t)i * bytes, 0, bytes);
      } else {
        memcpy(at + (size_t)i * bytes, masked, bytes);
      }
    }
  }
  g->start = start;
  g->n_real = n_real;
}

static void fill_inputs(cairn_llm *llm, crn_static_graph *g, const int32_t *tokens, int64_t n) {
  const int64_t start = crn_ladder_block(g->rung, llm->history.n), query = g->rung->query;
  for (int64_t i = 0; i < query; i++) {
    store_integer(g->ids, i, token_at(llm, tokens, n, start + i));
    store_integer(g->positions, i, start + i);
  }
  if (g->step) store_integer(g->step, 0, start);
  if (g->mask) fill_mask(g, start, llm->history.n + n - start);
}

static cairn_status gather(const crn_static_graph *g) {
  const cairn_function_info *f = cairn_function_describe(g->gather);
  const char *output = f->outputs[0].name;
  for (int i = 0; i < f->n_outputs; i++) {
    if (strcmp(f->outputs[i].name, "out_transformer_input") == 0) output = f->outputs[i].name;
  }
  const cairn_named_array input = {"in_new_token_ids", g->ids}, view = {output, g->embedded};
  const cairn_run_args args = {.inputs = &input, .n_inputs = 1, .outputs = &view, .n_outputs = 1};
  cairn_outputs *rest = NULL;
  cairn_status status = cairn_function_run(g->gather, &args, f->n_outputs > 1 ? &rest : NULL);
  cairn_outputs_destroy(rest);
  return status;
}

static int add_input(const crn_static_graph *g, const char *name, cairn_ndarray *array, cairn_named_array *inputs, int n) {
  if (!array || !cairn_function_input(g->function, name)) return n;
  inputs[n] = (cairn_named_array){name, array};
  return n + 1;
}

static cairn_status call(const cairn_llm *llm, const crn_static_graph *g) {
  cairn_named_array inputs[4];
  int n = add_input(g, "transformer_input", g->embedded, inputs, 0);
  n = add_input(g, "position_ids", g->positions, inputs, n);
  n = add_input(g, "in_step", g->step, inputs, n);
  n = add_input(g, "causal_mask", g->mask, inputs, n);
  const cairn_named_array states[] = {{"key_cache", g->cache[0]}, {"value_cache", g->cache[1]}};
  const cairn_named_array logits[] = {{llm->model->contract.logits->name, g->logits}};
  const int n_outputs = g->logits ? 1 : 0;
  const cairn_run_args args = {.inputs = inputs,
                               .n_inputs = n,
                               .states = states,
                               .n_states = 2,
                               .outputs = logits,
                               .n_outputs = n_outputs,
                               .blind_rows_unused = true};
  cairn_outputs *rest = NULL;
  cairn_status status = cairn_function_run(g->function, &args, cairn_function_describe(g->function)->n_outputs > n_outputs ? &rest : NULL);
  cairn_outputs_destroy(rest);
  return status;
}

// --- the driver -----------------------------------------------------------------------------------------------------

static crn_static_graph *select_graph(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at) {
  bool needs_logits = crn_llm_wants_rows(feed);
  const crn_ladder_rung *rung = crn_ladder_select(&llm->model->fixed->ladder, feed->n - at, llm->history.n, needs_logits);
  return rung ? &llm->graphs[rung - llm->model->fixed->ladder.rungs.items] : NULL;
}

static int64_t piece(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at) {
  const crn_static_graph *g = select_graph(llm, feed, at);
  if (!g) return feed->n - at;  // the run tells what is missing
  int64_t room = crn_ladder_block(g->rung, llm->history.n) + g->rung->query - llm->history.n;
  return room < feed->n - at ? room : feed->n - at;
}

// The rest of the block that a step of one token computes anyway.
static int64_t beside(const cairn_llm *llm) {
  const crn_ladder_rung *rung = crn_ladder_select(&llm->model->fixed->ladder, 1, llm->history.n, true);
  return rung ? crn_ladder_block(rung, llm->history.n) + rung->query - llm->history.n : 1;
}

static cairn_status run(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, crn_llm_rows *out_rows, bool *out_started) {
  crn_static_graph *g = select_graph(llm, feed, at);
  *out_started = false;
  if (!g) {
    return CRN_FAIL(UNSUPPORTED, "No graph with cache_len > %lld and seq_len = %lld", (long long)llm->history.n,
                    (long long)llm->model->fixed->ladder.max_query);
  }
  CRN_TRY(crn_static_graph_prepare(llm, g));
  fill_inputs(llm, g, feed->tokens + at, n);
  CRN_TRY(gather(g));
  *out_started = true;
  cairn_status status = call(llm, g);
  if (status != CAIRN_OK)
    return crn_note(status, "running %lld tokens after %lld with '%s'", (long long)n, (long long)llm->history.n, g->rung->function);
  *out_rows = (crn_llm_rows){0};
  if (!g->logits) return CAIRN_OK;
  const size_t row_bytes = (size_t)llm->model->contract.vocab_size * cairn_dtype_bytes(llm->model->contract.logits->dtype);
  const int64_t first = llm->history.n - crn_ladder_block(g->rung, llm->history.n);
  *out_rows = (crn_llm_rows){cairn_ndarray_dtype(g->logits), (const char *)cairn_ndarray_data(g->logits) + (size_t)first * row_bytes, n};
  return CAIRN_OK;
}

static cairn_status reserve(cairn_llm *llm, int64_t rows) {
  (void)llm;
  (void)rows;
  return CAIRN_OK;
}

static void trim(cairn_llm *llm) { (void)llm; }

const crn_llm_driver crn_llm_static_driver = {
    .engine = "static-shape", .piece = piece, .reserve = reserve, .run = run, .beside = beside, .trim = trim};
