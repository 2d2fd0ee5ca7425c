/// Single runs of the model function.
#include <string.h>

#include "engines/llm/internal.h"

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

void crn_llm_runner_deinitialize(crn_llm_runner *r) {
  if (!r->context) return;
  drop_views(r);
  drop(&r->ids_one);
  drop(&r->ids_many);
  drop(&r->logits_one);
  drop(&r->logits_many);
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
  if (n <= r->n_positions) return CAIRN_OK;
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
  return cairn_ndarray_slice(r->positions, (const int64_t[]){0, from}, (const int64_t[]){1, length}, out);
}

// The view for a sequence of `length` tokens. The views of the lengths that come next are made along with it.
static cairn_status positions_of(crn_llm_runner *r, int64_t length, cairn_ndarray **out) {
  int64_t i = length - r->first_view;
  if (!r->first_view || i < 0 || i >= CRN_LLM_POSITION_VIEWS || !r->views[i]) {
    drop_views(r);
    for (int k = 0; k < CRN_LLM_POSITION_VIEWS && length + k <= r->n_positions; k++) CRN_TRY(view_positions(r, length + k, &r->views[k]));
    r->first_view = length;
    i = 0;
  }
  *out = r->views[i];
  return CAIRN_OK;
}

// --- tokens and logits ----------------------------------------------------------------------------------------------

static cairn_status create_pair(const crn_llm_runner *r, int64_t n, cairn_ndarray **ids, cairn_ndarray **logits) {
  const crn_llm_contract *c = r->contract;
  int64_t rows = c->last_row_only ? 1 : n;
  const int64_t shape3[] = {1, rows, c->vocab_size}, *shape = c->logits->rank == 3 ? shape3 : shape3 + 1;
  CRN_TRY(cairn_ndarray_create(r->context, c->ids->dtype, (const int64_t[]){1, n}, 2, ids));
  cairn_status status = cairn_ndarray_create(r->context, c->logits->dtype, shape, c->logits->rank, logits);
  if (status != CAIRN_OK) drop(ids);
  return status;
}

// The arrays for `n` tokens. Those of a longer piece are kept until one of another length comes.
static cairn_status arrays_of(crn_llm_runner *r, int64_t n, cairn_ndarray **ids, cairn_ndarray **logits) {
  if (n == 1) {
    if (!r->ids_one) CRN_TRY(create_pair(r, 1, &r->ids_one, &r->logits_one));
    *ids = r->ids_one;
    *logits = r->logits_one;
    return CAIRN_OK;
  }
  if (r->n_many != n) {
    drop(&r->ids_many);
    drop(&r->logits_many);
    r->n_many = 0;
    CRN_TRY(create_pair(r, n, &r->ids_many, &r->logits_many));
    r->n_many = n;
  }
  *ids = r->ids_many;
  *logits = r->logits_many;
  return CAIRN_OK;
}

void crn_llm_runner_trim(crn_llm_runner *r) {
  enum { KEPT_BYTES = 16 << 20 };
  if (!r->logits_many) return;
  if ((size_t)cairn_ndarray_count(r->logits_many) * cairn_dtype_bytes(r->contract->logits->dtype) <= KEPT_BYTES) return;
  drop(&r->ids_many);
  drop(&r->logits_many);
  r->n_many = 0;
}

// Runs with the logits as a view. Outputs nobody asked for, which few models have, are dropped.
static cairn_status call(crn_llm_runner *r, const crn_llm_states *states, cairn_ndarray *ids, cairn_ndarray *positions,
                         cairn_ndarray *logits) {
  const crn_llm_contract *c = r->contract;
  const cairn_named_array inputs[] = {{c->ids->name, ids}, {c->positions->name, positions}}, outputs[] = {{c->logits->name, logits}};
  const cairn_run_args args = {
      .inputs = inputs, .n_inputs = 2, .states = states->arrays, .n_states = c->n_states, .outputs = outputs, .n_outputs = 1};
  if (cairn_function_describe(r->function)->n_outputs == 1) return cairn_function_run(r->function, &args, NULL);
  cairn_outputs *rest = NULL;
  cairn_status status = cairn_function_run(r->function, &args, &rest);
  cairn_outputs_destroy(rest);
  return status;
}

cairn_status crn_llm_runner_run(crn_llm_runner *r, const crn_llm_states *states, int64_t processed, const int32_t *tokens, int64_t n,
                                const cairn_ndarray **out_logits, bool *out_started) {
  cairn_ndarray *ids, *positions, *logits;
  *out_started = false;
  CRN_TRY(crn_llm_runner_reserve(r, processed + n));
  CRN_TRY(positions_of(r, processed + n, &positions));
  CRN_TRY(arrays_of(r, n, &ids, &logits));
  void *data = cairn_ndarray_mutable_data(ids);
  for (int64_t i = 0; i < n; i++) store_index(r->contract->ids->dtype, data, i, tokens[i]);
  *out_logits = logits;
  *out_started = true;
  cairn_status status = call(r, states, ids, positions, logits);
  if (status != CAIRN_OK) crn_note(status, "running %lld tokens after %lld", (long long)n, (long long)processed);
  return status;
}
