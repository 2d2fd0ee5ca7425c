/// Single runs of the model function.
#include <string.h>

#include "engines/llm/internal.h"
#include "engines/llm/pipelined.h"
#include "engines/llm/vision.h"

cairn_status crn_llm_runner_initialize(crn_llm_runner *r, cairn_context *context, cairn_function *function,
                                       const crn_llm_contract *contract) {
  *r = (crn_llm_runner){.context = context, .function = function, .contract = contract};
  cairn_status status = crn_alloc_array(&context->allocator, (size_t)contract->vocab_size, sizeof *r->row, &r->row);
  if (status != CAIRN_OK) crn_llm_runner_deinitialize(r);
  return status;
}

static void drop(cairn_ndarray **array) {
  cairn_ndarray_release(*array);
  *array = NULL;
}

static void drop_views(crn_llm_runner *r) {
  for (int i = 0; i < CRN_LLM_POSITION_VIEWS; i++) drop(&r->views[i]);
  r->first_view = 0;
}

void crn_llm_arrays_release(crn_llm_arrays *a) {
  drop(&a->ids);
  drop(&a->embeds);
  drop(&a->logits);
  for (int i = 0; i < CRN_LLM_MAX_EXTRAS; i++) drop(&a->extras[i]);
  a->n = a->rows = 0;
}

void crn_llm_runner_deinitialize(crn_llm_runner *r) {
  if (!r->context) return;
  drop_views(r);
  crn_llm_arrays_release(&r->one);
  crn_llm_arrays_release(&r->many);
  crn_llm_arrays_release(&r->few);
  for (int i = 0; i <= CRN_LLM_FEW; i++) crn_llm_arrays_release(&r->few_views[i]);
  drop(&r->positions);
  if (r->row) crn_free(&r->context->allocator, r->row, (size_t)r->contract->vocab_size * sizeof *r->row);
  *r = (crn_llm_runner){0};
}

// --- positions ------------------------------------------------------------------------------------------------------

static void store_index(cairn_dtype dtype, void *data, int64_t i, int64_t value) {
  if (cairn_dtype_bytes(dtype) == 8) {
    ((int64_t *)data)[i] = value;
  } else {
    ((int32_t *)data)[i] = (int32_t)value;
  }
}

cairn_status crn_llm_runner_reserve(crn_llm_runner *r, int64_t n) {
  if (n <= r->n_positions || !r->contract->positions) return CAIRN_OK;
  const cairn_dtype dtype = r->contract->positions->dtype;
  cairn_ndarray *fresh;
  CRN_TRY(cairn_ndarray_create(r->context, dtype, (const int64_t[]){1, n}, 2, &fresh));
  void *data = cairn_ndarray_mutable_data(fresh);
  for (int64_t i = 0; i < n; i++) store_index(dtype, data, i, i);
  drop_views(r);
  drop(&r->positions);
  r->positions = fresh;
  r->n_positions = n;
  return CAIRN_OK;
}

static cairn_status view_positions(const crn_llm_runner *r, int64_t length, cairn_ndarray **out) {
  int64_t from = r->contract->current_position ? length - 1 : 0;
  return cairn_ndarray_reslice(r->positions, (const int64_t[]){0, from}, (const int64_t[]){1, length}, out);
}

cairn_status crn_llm_runner_positions(crn_llm_runner *r, int64_t length, cairn_ndarray **out) {
  int64_t i = length - r->first_view;
  *out = NULL;
  if (!r->contract->positions) return CAIRN_OK;
  if (!r->first_view || i < 0 || i >= CRN_LLM_POSITION_VIEWS || !r->views[i]) {
    // Views that nobody holds any more are moved on, so that a long generation makes none.
    r->first_view = 0;
    for (int k = 0; k < CRN_LLM_POSITION_VIEWS && length + k <= r->n_positions; k++) CRN_TRY(view_positions(r, length + k, &r->views[k]));
    r->first_view = length;
    i = 0;
  }
  *out = r->views[i];
  return CAIRN_OK;
}

// Tokens of a short run may be taken back. So the views that are kept begin at the next token, and not at the end of the run.
static cairn_status positions_of_run(crn_llm_runner *r, int64_t processed, int64_t n, cairn_ndarray **out) {
  const int64_t i = processed + n - r->first_view;
  const bool is_there = r->first_view && i >= 0 && i < CRN_LLM_POSITION_VIEWS && r->views[i];
  if (n > 1 && n <= CRN_LLM_FEW && !is_there) {
    r->first_view = 0;
    CRN_TRY(crn_llm_runner_positions(r, processed + 1, out));
  }
  return crn_llm_runner_positions(r, processed + n, out);
}

// --- tokens and logits ----------------------------------------------------------------------------------------------

static cairn_status create_arrays(const cairn_llm *llm, const crn_llm_runner *r, int64_t n, int64_t rows, crn_llm_arrays *a) {
  const crn_llm_contract *c = r->contract;
  const int64_t shape3[] = {1, rows, c->vocab_size}, *shape = c->logits->rank == 3 ? shape3 : shape3 + 1;
  const cairn_descriptor *ids = c->ids ? c->ids : llm->model->embedder.ids;
  CRN_TRY(cairn_ndarray_create(r->context, ids->dtype, (const int64_t[]){1, n}, 2, &a->ids));
  if (c->embeds) CRN_TRY(cairn_ndarray_create(r->context, c->embeds->dtype, (const int64_t[]){1, n, c->embeds->shape[2]}, 3, &a->embeds));
  for (int i = 0; i < c->n_extras; i++) {
    int64_t extra[CAIRN_MAX_RANK];
    memcpy(extra, c->extras[i]->shape, sizeof extra);
    extra[0] = 1;
    extra[1] = n;
    CRN_TRY(cairn_ndarray_create(r->context, c->extras[i]->dtype, extra, c->extras[i]->rank, &a->extras[i]));
  }
  CRN_TRY(cairn_ndarray_create(r->context, c->logits->dtype, shape, c->logits->rank, &a->logits));
  a->n = n;
  a->rows = rows;
  return CAIRN_OK;
}

cairn_status crn_llm_arrays_create(const cairn_llm *llm, const crn_llm_runner *r, int64_t n, int64_t rows, crn_llm_arrays *out) {
  *out = (crn_llm_arrays){0};
  cairn_status status = create_arrays(llm, r, n, rows, out);
  if (status != CAIRN_OK) crn_llm_arrays_release(out);
  return status;
}

static cairn_status view_first(cairn_ndarray *array, int axis, int64_t n, cairn_ndarray **out) {
  return array ? crn_llm_slice_axis(array, axis, 0, n, out) : CAIRN_OK;
}

// Views of the first `n` tokens of `all`.
static cairn_status view_arrays(const crn_llm_arrays *all, int64_t n, crn_llm_arrays *out) {
  cairn_status status = view_first(all->ids, 1, n, &out->ids);
  if (status == CAIRN_OK) status = view_first(all->embeds, 1, n, &out->embeds);
  for (int i = 0; i < CRN_LLM_MAX_EXTRAS && status == CAIRN_OK; i++) status = view_first(all->extras[i], 1, n, &out->extras[i]);
  if (status == CAIRN_OK) status = view_first(all->logits, cairn_ndarray_rank(all->logits) - 2, n, &out->logits);
  if (status != CAIRN_OK) {
    crn_llm_arrays_release(out);
    return status;
  }
  out->n = out->rows = n;
  return CAIRN_OK;
}

// The arrays of a run of few tokens with a row for each. Runs of changing lengths share their memory and allocate nothing.
static cairn_status few_arrays(const cairn_llm *llm, crn_llm_runner *r, int64_t n, crn_llm_arrays **out) {
  *out = &r->few_views[n];
  if ((*out)->n) return CAIRN_OK;
  if (!r->few.n) CRN_TRY(crn_llm_arrays_create(llm, r, CRN_LLM_FEW, CRN_LLM_FEW, &r->few));
  return view_arrays(&r->few, n, *out);
}

// The arrays for `n` tokens. Those of a longer piece are kept until one of another length comes.
static cairn_status arrays_of(const cairn_llm *llm, crn_llm_runner *r, int64_t n, int64_t rows, crn_llm_arrays **out) {
  crn_llm_arrays *a = n == 1 ? &r->one : &r->many;
  const bool is_any = r->contract->query == 0 && !r->contract->stateless;
  if (is_any && n > 1 && n <= CRN_LLM_FEW && rows == n) return few_arrays(llm, r, n, out);
  *out = a;
  if (a->n == n && a->rows == rows) return CAIRN_OK;
  crn_llm_arrays_release(a);
  return crn_llm_arrays_create(llm, r, n, rows, a);
}

void crn_llm_runner_trim(crn_llm_runner *r) {
  enum { KEPT_BYTES = 16 << 20 };
  if (!r->many.n) return;
  if ((size_t)cairn_ndarray_count(r->many.logits) * cairn_dtype_bytes(r->contract->logits->dtype) <= KEPT_BYTES) return;
  crn_llm_arrays_release(&r->many);
}

// Copies the row of each token from a table. Types and shapes were checked when the table was given.
static void gather_rows(const cairn_ndarray *table, const int32_t *tokens, int64_t n, cairn_ndarray *out) {
  const size_t bytes = (size_t)(cairn_ndarray_count(out) / n) * cairn_dtype_bytes(cairn_ndarray_dtype(out));
  const char *from = cairn_ndarray_data(table);
  char *to = cairn_ndarray_mutable_data(out);
  for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * bytes, from + (size_t)tokens[i] * bytes, bytes);
}

void crn_llm_arrays_set_token(const cairn_llm *llm, const crn_llm_contract *c, crn_llm_arrays *a, int32_t token) {
  store_index(cairn_ndarray_dtype(a->ids), cairn_ndarray_mutable_data(a->ids), 0, token);
  for (int i = 0; i < c->n_extras; i++) gather_rows(llm->model->tables[i].table, &token, 1, a->extras[i]);
}

// Fills in what the function is told about tokens [from, from + n) of the sequence whose last ones are `tokens`.
static cairn_status fill(const cairn_llm *llm, const crn_llm_runner *r, crn_llm_arrays *a, const int32_t *tokens, int64_t n) {
  const crn_llm_contract *c = r->contract;
  const int64_t before = a->n - n;  // tokens of the history: only functions without states take them again
  void *data = cairn_ndarray_mutable_data(a->ids);
  const cairn_dtype dtype = cairn_ndarray_dtype(a->ids);
  for (int64_t i = 0; i < a->n; i++) {
    int32_t token = i < before ? llm->history.tokens[i] : tokens[i - before];
    store_index(dtype, data, i, token >= 0 ? token : crn_vision_token(llm->model->vision));
  }
  for (int i = 0; i < c->n_extras; i++) gather_rows(llm->model->tables[i].table, tokens, n, a->extras[i]);
  if (!c->embeds) return CAIRN_OK;
  const cairn_named_array input = {llm->model->embedder.ids->name, a->ids}, output = {llm->model->embedder.embeds->name, a->embeds};
  const cairn_run_args args = {.inputs = &input, .n_inputs = 1, .outputs = &output, .n_outputs = 1};
  CRN_TRY(cairn_function_run(llm->model->embedder.function, &args, NULL));
  return llm->model->vision ? crn_vision_fill(llm->model->vision, tokens, n, a->embeds) : CAIRN_OK;
}

// --- one call -------------------------------------------------------------------------------------------------------

// Caches that are plain arrays: the rows there are go in, and what comes out is put behind them.
typedef struct host_cache {
  cairn_named_array inputs[CRN_LLM_MAX_CACHES];
  int n;
} host_cache;

static void release_host_cache(host_cache *h) {
  for (int i = 0; i < h->n; i++) cairn_ndarray_release(h->inputs[i].array);
  h->n = 0;
}

static cairn_status view_host_cache(const cairn_llm *llm, host_cache *h) {
  const crn_llm_contract *c = &llm->model->contract;
  for (int i = 0; c->host_cache && i < c->n_states; i++) {
    h->inputs[i].name = c->states[i].descriptor->name;
    CRN_TRY(crn_llm_slice_axis(llm->states.arrays[i].array, c->states[i].axis, 0, llm->history.n, &h->inputs[i].array));
    h->n++;
  }
  return CAIRN_OK;
}

static cairn_status take_host_cache(const cairn_llm *llm, const crn_llm_contract *c, cairn_outputs *outputs, int64_t n) {
  for (int i = 0; c->host_cache && i < c->n_states; i++) {
    const crn_llm_state *s = &llm->model->contract.states[i];
    cairn_ndarray *given, *fresh = NULL, *target = NULL;
    CRN_TRY(cairn_outputs_take(outputs, s->output->name, &given));
    int64_t rows = cairn_ndarray_shape(given)[s->axis];
    cairn_status status = CAIRN_OK;
    if (rows < n) {
      status =
          CRN_FAIL(INTERNAL, "cache '%s' came back with %lld rows after %lld new tokens", s->output->name, (long long)rows, (long long)n);
    }
    if (status == CAIRN_OK) status = crn_llm_slice_axis(given, s->axis, rows - n, rows, &fresh);
    if (status == CAIRN_OK) status = crn_llm_slice_axis(llm->states.arrays[i].array, s->axis, llm->history.n, llm->history.n + n, &target);
    if (status == CAIRN_OK) status = cairn_ndarray_copy(fresh, target);
    cairn_ndarray_release(target);
    cairn_ndarray_release(fresh);
    cairn_ndarray_release(given);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

// The inputs of a run but for caches that are plain arrays.
static int list_inputs(const crn_llm_contract *c, const crn_llm_arrays *a, cairn_ndarray *positions, cairn_named_array *inputs) {
  int n = 0;
  inputs[n++] = c->ids ? (cairn_named_array){c->ids->name, a->ids} : (cairn_named_array){c->embeds->name, a->embeds};
  if (positions) inputs[n++] = (cairn_named_array){c->positions->name, positions};
  for (int i = 0; i < c->n_extras; i++) inputs[n++] = (cairn_named_array){c->extras[i]->name, a->extras[i]};
  return n;
}

static cairn_status call(cairn_llm *llm, crn_llm_runner *r, const crn_llm_arrays *a, cairn_ndarray *positions, int64_t n,
                         int64_t last_rows) {
  const crn_llm_contract *c = r->contract;
  cairn_named_array inputs[2 + CRN_LLM_MAX_EXTRAS + CRN_LLM_MAX_CACHES];
  const cairn_named_array output = {c->logits->name, a->logits};
  host_cache past = {.n = 0};
  cairn_outputs *rest = NULL;
  int n_inputs = list_inputs(c, a, positions, inputs);
  cairn_status status = view_host_cache(llm, &past);
  for (int i = 0; i < past.n; i++) inputs[n_inputs++] = past.inputs[i];
  const cairn_run_args args = {.inputs = inputs,
                               .n_inputs = n_inputs,
                               .states = llm->states.arrays,
                               .n_states = c->host_cache ? 0 : c->n_states,
                               .outputs = &output,
                               .n_outputs = 1,
                               .last_rows = last_rows,
                               .rows_as_one = r->rows_as_one};
  // Outputs nobody asked for, which few models have, are dropped.
  const bool has_rest = cairn_function_describe(r->function)->n_outputs > 1;
  if (status == CAIRN_OK) status = cairn_function_run(r->function, &args, has_rest ? &rest : NULL);
  if (status == CAIRN_OK) status = take_host_cache(llm, c, rest, n);
  cairn_outputs_destroy(rest);
  release_host_cache(&past);
  return status;
}

// The rows of logits that a run of `n` tokens (`total` with those fed again) gives. A model with a fixed number of rows always gives them
// all. Caches that come back are cut to as many rows as the logits, so they ask for a row a token.
static int64_t rows_of(const crn_llm_runner *r, int64_t total, int64_t n, bool all_rows) {
  const cairn_descriptor *d = r->contract->logits;
  if (r->contract->last_row_only) return 1;
  if (d->shape[d->rank - 2] >= 0) return total;
  return all_rows || r->contract->host_cache ? n : 1;
}

// The arrays of a run of `n` tokens, filled in. `*out_last_rows` is what to ask the function for.
static cairn_status prepare_arrays(cairn_llm *llm, crn_llm_runner *r, const int32_t *tokens, int64_t n, bool all_rows,
                                   crn_llm_arrays **out_arrays, cairn_ndarray **out_positions, int64_t *out_last_rows) {
  const int64_t processed = llm->history.n, total = r->contract->stateless ? processed + n : n;
  const int64_t rows = rows_of(r, total, n, all_rows);
  CRN_TRY(crn_llm_runner_reserve(r, processed + n));
  CRN_TRY(positions_of_run(r, processed, n, out_positions));
  CRN_TRY(arrays_of(llm, r, total, rows, out_arrays));
  *out_last_rows = rows < total ? rows : 0;
  return fill(llm, r, *out_arrays, tokens, n);
}

cairn_status crn_llm_runner_run(cairn_llm *llm, crn_llm_runner *r, const int32_t *tokens, int64_t n, bool all_rows,
                                const cairn_ndarray **out_logits, bool *out_started) {
  const int64_t processed = llm->history.n;
  crn_llm_arrays *a;
  cairn_ndarray *positions;
  int64_t last_rows;
  *out_started = false;
  CRN_TRY(prepare_arrays(llm, r, tokens, n, all_rows, &a, &positions, &last_rows));
  *out_logits = a->logits;
  *out_started = true;
  cairn_status status = call(llm, r, a, positions, n, last_rows);
  if (status != CAIRN_OK) crn_note(status, "running %lld tokens after %lld", (long long)n, (long long)processed);
  return status;
}

// --- the driver -----------------------------------------------------------------------------------------------------

// The runner for the tokens of `feed` from `at` on, and how many of them it takes. A function for prompts takes whole pieces only: what
// is left over goes token by token, so no padding is ever fed.
static crn_llm_runner *choose_runner(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t *out_n) {
  const int64_t left = feed->n - at, query = llm->model->prefill_contract.query;
  int64_t most = llm->model->contract.one_token ? 1 : feed->n > llm->model->threshold ? llm->model->chunk : feed->n;
  bool wants_all = crn_llm_wants_rows(feed);
  bool is_prefill = llm->model->prefill && left > 1 && left >= query && !(wants_all && llm->model->prefill_contract.last_row_only);
  if (is_prefill) most = query ? query : feed->n > llm->model->threshold ? llm->model->chunk : left;
  *out_n = most < left ? most : left;
  return (crn_llm_runner *)(is_prefill ? &llm->prefill_runner : &llm->runner);
}

static int64_t piece(const cairn_llm *llm, const crn_llm_feed *feed, int64_t at) {
  int64_t n;
  choose_runner(llm, feed, at, &n);
  return n;
}

static cairn_status reserve(cairn_llm *llm, int64_t rows) {
  if (llm->model->prefill) CRN_TRY(crn_llm_runner_reserve(&llm->prefill_runner, rows));
  return crn_llm_runner_reserve(&llm->runner, rows);
}

// The rows of `logits` that are those of the `n` tokens of a run.
static crn_llm_rows last_rows_of(const cairn_llm *llm, const cairn_ndarray *logits, int64_t n) {
  const int64_t vocab = llm->model->contract.vocab_size, rows = cairn_ndarray_count(logits) / vocab, used = rows < n ? rows : n;
  const size_t row_bytes = (size_t)vocab * cairn_dtype_bytes(cairn_ndarray_dtype(logits));
  return (crn_llm_rows){cairn_ndarray_dtype(logits), (const char *)cairn_ndarray_data(logits) + (size_t)(rows - used) * row_bytes, used};
}

static cairn_status run(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, crn_llm_rows *out_rows, bool *out_started) {
  const cairn_ndarray *logits;
  int64_t most;
  crn_llm_runner *r = choose_runner(llm, feed, at, &most);
  r->rows_as_one = feed->out_rows && !r->contract->stateless;
  CRN_TRY(crn_llm_runner_run(llm, r, feed->tokens + at, n, crn_llm_wants_rows(feed), &logits, out_started));
  *out_rows = last_rows_of(llm, logits, n);
  return CAIRN_OK;
}

// Functions that give more than logits have outputs to be taken care of by themselves.
static cairn_status prepare_call(cairn_llm *llm, const crn_llm_feed *feed, int64_t at, int64_t n, crn_llm_call *out) {
  crn_llm_arrays *a;
  cairn_ndarray *positions;
  int64_t most, last_rows;
  crn_llm_runner *r = choose_runner(llm, feed, at, &most);
  r->rows_as_one = feed->out_rows && !r->contract->stateless;
  out->function = NULL;
  if (r->contract->host_cache || cairn_function_describe(r->function)->n_outputs > 1) return CAIRN_OK;
  CRN_TRY(prepare_arrays(llm, r, feed->tokens + at, n, crn_llm_wants_rows(feed), &a, &positions, &last_rows));
  out->function = r->function;
  out->output = (cairn_named_array){r->contract->logits->name, a->logits};
  out->args = (cairn_run_args){.inputs = out->inputs,
                               .n_inputs = list_inputs(r->contract, a, positions, out->inputs),
                               .states = llm->states.arrays,
                               .n_states = r->contract->n_states,
                               .outputs = &out->output,
                               .n_outputs = 1,
                               .last_rows = last_rows,
                               .rows_as_one = r->rows_as_one};
  out->rows = last_rows_of(llm, a->logits, n);
  return CAIRN_OK;
}

static void trim(cairn_llm *llm) {
  crn_llm_runner_trim(&llm->runner);
  if (llm->model->prefill) crn_llm_runner_trim(&llm->prefill_runner);
}

const crn_llm_driver crn_llm_sequential_driver = {
    .engine = "sequential", .piece = piece, .reserve = reserve, .run = run, .prepare = prepare_call, .trim = trim};
const crn_llm_driver crn_llm_pipelined_driver = {.engine = "pipelined",
                                                 .piece = piece,
                                                 .reserve = reserve,
                                                 .run = run,
                                                 .prepare = prepare_call,
                                                 .trim = trim,
                                                 .decode = crn_pipelined_decode};
const crn_llm_driver crn_llm_vision_driver = {
    .engine = "vision", .piece = piece, .reserve = reserve, .run = run, .prepare = prepare_call, .trim = trim};
