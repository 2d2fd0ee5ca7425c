// How likely given tokens are: one position per token that was fed, with the probability the model gave it before.
#include <math.h>
#include <string.h>

#include "tools/runner.h"
#include "tools/text_source.h"

typedef struct evaluation {
  const char *context, *continuation;  // texts
  const int32_t *context_ids, *ids;    // what is fed as prompt, and what is evaluated
  size_t n_context, n;
  double total;  // of the finite log-probabilities
  size_t counted;
} evaluation;

// log of the softmax at `id`. A +inf logit takes all of the probability.
static double log_probability(const float *row, int64_t n, int32_t id) {
  float largest = -INFINITY;
  for (int64_t i = 0; i < n; i++)
    if (row[i] > largest) largest = row[i];
  if (id < 0 || id >= n || isnan(row[id])) return -INFINITY;
  if (largest == INFINITY) return row[id] == INFINITY ? 0 : -INFINITY;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (!isnan(row[i])) sum += exp((double)row[i] - (double)largest);
  return (double)row[id] - (double)largest - log(sum);
}

static cairn_status row_of(crn_runner *r, const evaluation *e, size_t i, const float **out_row) {
  *out_row = crn_logits_at(&r->logits, (int64_t)(e->n_context + i) - 1);
  return *out_row ? CAIRN_OK : CRN_FAIL(INTERNAL, "the engine gave no logits for token %zu", i);
}

static cairn_status run(crn_runner *r, evaluation *e) {
  cairn_generation *generation = NULL;
  r->prompt = (int32_t *)e->context_ids;
  r->n_prompt = e->n_context;
  cairn_generate_options g = {.tokens = e->context_ids,
                              .n_tokens = e->n_context,
                              .max_tokens = (int64_t)e->n,
                              .forced = e->ids,
                              .n_forced = e->n,
                              .use_forced = true,
                              .on_logits = crn_runner_take_logits,
                              .prefill_logits = true,
                              .should_cancel = crn_token_stream_cancelled,
                              .user = r};
  cairn_status status = cairn_llm_generate(r->llm, &g, &generation);
  if (generation) cairn_generation_destroy(generation);
  return status;
}

static cairn_status sum_up(crn_runner *r, evaluation *e) {
  for (size_t i = 0; i < e->n; i++) {
    const float *row;
    CRN_TRY(row_of(r, e, i, &row));
    double p = log_probability(row, r->logits.vocab_size, e->ids[i]);
    if (!isfinite(p)) continue;
    e->total += p;
    e->counted++;
  }
  return CAIRN_OK;
}

static double average(const evaluation *e) { return e->counted ? e->total / (double)e->counted : 0; }

static double perplexity(const evaluation *e) { return e->counted ? exp(-average(e)) : 0; }

static void write_ids(crn_json_writer *w, const char *key, const int32_t *ids, size_t n) {
  crn_jw_key(w, key);
  crn_jw_open_array(w, true);
  for (size_t i = 0; i < n; i++) crn_jw_integer(w, ids[i]);
  crn_jw_close_array(w);
}

static cairn_status write_alternatives(crn_runner *r, crn_json_writer *w, const float *row) {
  int32_t best[20];
  int n = crn_runner_row_length(r->o);
  if (n > r->logits.vocab_size) n = (int)r->logits.vocab_size;
  crn_runner_best(row, r->logits.vocab_size, best, n);
  crn_jw_key(w, "top_k");
  crn_jw_open_array(w, false);
  for (int i = 0; i < n; i++) {
    const char *text;
    double p = log_probability(row, r->logits.vocab_size, best[i]);
    CRN_TRY(crn_runner_token_text(r, best[i], &text));
    crn_jw_open_inline_object(w);
    crn_jw_put_integer(w, "token", best[i]);
    crn_jw_put_text(w, "text", text);
    crn_jw_put_number(w, "probability", exp(p));
    crn_jw_put_number(w, "log_prob", log(fmax(exp(p), 1e-10)));
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
  return w->status;
}

static cairn_status write_position(crn_runner *r, crn_json_writer *w, const evaluation *e, size_t i) {
  const float *row;
  const char *text;
  CRN_TRY(row_of(r, e, i, &row));
  CRN_TRY(crn_runner_token_text(r, e->ids[i], &text));
  double p = log_probability(row, r->logits.vocab_size, e->ids[i]);
  crn_jw_open_object(w);
  crn_jw_put_integer(w, "index", (int64_t)i);
  crn_jw_put_integer(w, "target_token", e->ids[i]);
  crn_jw_put_text(w, "target_text", text);
  crn_jw_put_number(w, "target_probability", exp(p));
  // The bounded value is what readers of this file know; the true one stands beside it.
  crn_jw_put_number(w, "target_log_prob", log(fmax(exp(p), 1e-10)));
  crn_jw_put_number(w, "log_probability", p);
  CRN_TRY(crn_runner_row_length(r->o) < 0 ? crn_runner_write_row(r, w, row) : write_alternatives(r, w, row));
  crn_jw_close_object(w);
  return w->status;
}

static cairn_status save(crn_runner *r, const evaluation *e) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "context", e->context);
  crn_jw_put_text(&w, "continuation", e->continuation);
  write_ids(&w, "context_tokens", e->context_ids, e->n_context);
  write_ids(&w, "continuation_tokens", e->ids, e->n);
  crn_jw_key(&w, "positions");
  crn_jw_open_array(&w, false);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < e->n && status == CAIRN_OK; i++) status = write_position(r, &w, e, i);
  crn_jw_close_array(&w);
  crn_jw_put_number(&w, "total_log_probability", e->total);
  crn_jw_put_number(&w, "average_log_probability", average(e));
  crn_jw_put_number(&w, "perplexity", perplexity(e));
  crn_jw_close_object(&w);
  if (status == CAIRN_OK) status = crn_jw_save(&w, r->o->save_logits);
  crn_jw_deinitialize(&w);
  return status;
}

static cairn_status evaluate(crn_runner *r, evaluation *e) {
  CRN_TRY(run(r, e));
  CRN_TRY(sum_up(r, e));
  for (size_t i = 0; i < e->n && r->o->print_logits; i++) {
    const float *row;
    CRN_TRY(row_of(r, e, i, &row));
    CRN_TRY(crn_runner_print_token(r, (int64_t)i + 1, e->ids[i], row));
  }
  printf("Evaluated %zu tokens: log probability %.6f, average %.6f, perplexity %.6f\n", e->n, e->total, average(e), perplexity(e));
  return r->o->save_logits ? save(r, e) : CAIRN_OK;
}

cairn_status crn_runner_evaluate_continuation(crn_runner *r, const char *context, size_t context_bytes) {
  cairn_tokenizer *tokenizer = cairn_llm_tokenizer(r->llm);
  evaluation e = {.context = context, .continuation = r->o->continuation};
  int32_t *alone = NULL, *together = NULL;
  size_t n_alone, n_together, same = 0;
  crn_str whole;
  CRN_TRY(cairn_llm_has_text(r->llm));
  crn_str_initialize(&whole, NULL);
  cairn_status status = crn_str_append(&whole, context, context_bytes);
  if (status == CAIRN_OK) status = crn_str_puts(&whole, r->o->continuation);
  if (status == CAIRN_OK) status = crn_tool_encode(tokenizer, context, context_bytes, true, r->t->arena, &alone, &n_alone);
  if (status == CAIRN_OK) status = crn_tool_encode(tokenizer, whole.data, whole.size, true, r->t->arena, &together, &n_together);
  crn_str_deinitialize(&whole);
  CRN_TRY(status);
  // A merge across the seam changes the context's last tokens; what is compared begins where the two differ.
  while (same < n_alone && same < n_together && alone[same] == together[same]) same++;
  if (same == 0) return CRN_FAIL(INVALID_ARGUMENT, "the context gives no token to start from");
  if (same == n_together) return CRN_FAIL(INVALID_ARGUMENT, "the continuation adds no tokens to the context");
  e.context_ids = together;
  e.n_context = same;
  e.ids = together + same;
  e.n = n_together - same;
  return evaluate(r, &e);
}

cairn_status crn_runner_evaluate_tokens(crn_runner *r, const int32_t *ids, size_t n) {
  cairn_tokenizer *tokenizer = cairn_llm_tokenizer(r->llm);
  if (n < 2) return CRN_FAIL(INVALID_ARGUMENT, "Raw token evaluation requires at least 2 tokens");
  evaluation e = {.context = "", .continuation = "", .context_ids = ids, .n_context = 1, .ids = ids + 1, .n = n - 1};
  if (tokenizer) {
    char *text = NULL;
    size_t bytes;
    CRN_TRY(crn_runner_token_text(r, ids[0], &e.context));
    CRN_TRY(crn_tool_decode(tokenizer, e.ids, e.n, false, r->t->arena, &text, &bytes));
    e.continuation = text;
  }
  return evaluate(r, &e);
}
