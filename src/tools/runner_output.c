#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/safetensors.h"
#include "tools/runner.h"
#include "tools/text_source.h"

enum { PRINTED_CANDIDATES = 5, MAX_CANDIDATES = 20, WHOLE_ROWS = -1 };

int crn_runner_row_length(const crn_runner_options *o) {
  return strcmp(o->save_logits_length, "full") != 0 ? atoi(o->save_logits_length) : WHOLE_ROWS;
}

bool crn_runner_wants_logits(const crn_runner_options *o) { return o->print_logits || o->save_logits; }

// --- collecting -------------------------------------------------------------------------------------------------------

bool crn_runner_take_token(void *user, const cairn_token_event *event) {
  crn_runner *r = user;
  bool go_on = crn_token_stream_take(&r->stream, event);
  const char *text = "";
  if (event->text_bytes && crn_arena_strndup(r->t->arena, event->text, event->text_bytes, &text) != CAIRN_OK) return false;
  if (event->token < 0) return go_on;  // text held back belongs to no token
  crn_runner_token token = {event->token, text};
  return crn_vec_push(crn_default_allocator(), &r->tokens, token) == CAIRN_OK && go_on;
}

cairn_status crn_runner_take_logits(void *user, int64_t position, const float *row, int64_t vocab_size) {
  crn_runner *r = user;
  // Rows before the last prompt token predict the prompt itself; nobody asks for them, and they may be gigabytes.
  if (position + 1 < (int64_t)r->n_prompt) return CAIRN_OK;
  return crn_logits_take(&r->logits, position, row, vocab_size);
}

void crn_runner_best(const float *row, int64_t vocab_size, int32_t *out_ids, int k) {
  int n = 0;
  for (int64_t id = 0; id < vocab_size; id++) {
    int at = n;
    while (at > 0 && row[id] > row[out_ids[at - 1]]) at--;
    if (at >= k) continue;
    if (n < k) n++;
    memmove(out_ids + at + 1, out_ids + at, (size_t)(n - 1 - at) * sizeof *out_ids);
    out_ids[at] = (int32_t)id;
  }
}

// --- printing ---------------------------------------------------------------------------------------------------------

cairn_status crn_runner_token_text(crn_runner *r, int32_t id, const char **out_text) {
  cairn_tokenizer *tokenizer = cairn_llm_tokenizer(r->llm);
  char *text = NULL;
  size_t bytes;
  *out_text = "";
  if (!tokenizer) return CAIRN_OK;
  CRN_TRY(crn_tool_decode(tokenizer, &id, 1, false, r->t->arena, &text, &bytes));
  *out_text = text;
  return CAIRN_OK;
}

// Line ends and tabs escaped, so that a token stays on its line.
static void print_escaped(const char *text) {
  for (const char *p = text; *p; p++) {
    if (*p == '\n')
      fputs("\\n", stdout);
    else if (*p == '\r')
      fputs("\\r", stdout);
    else if (*p == '\t')
      fputs("\\t", stdout);
    else
      putchar(*p);
  }
}

cairn_status crn_runner_print_token(crn_runner *r, int64_t number, int32_t id, const float *row) {
  int32_t best[PRINTED_CANDIDATES];
  int n = r->logits.vocab_size < PRINTED_CANDIDATES ? (int)r->logits.vocab_size : PRINTED_CANDIDATES;
  const char *text;
  CRN_TRY(crn_runner_token_text(r, id, &text));
  printf("Token %lld: \"", (long long)number);
  print_escaped(text);
  printf("\" (id: %d)\n  Top candidates:\n", (int)id);
  crn_runner_best(row, r->logits.vocab_size, best, n);
  for (int i = 0; i < n; i++) {
    CRN_TRY(crn_runner_token_text(r, best[i], &text));
    printf("  %d. \"", i + 1);
    print_escaped(text);
    printf("\" (%d): %.2f\n", (int)best[i], (double)row[best[i]]);
  }
  return CAIRN_OK;
}

// --- --save-logits ----------------------------------------------------------------------------------------------------

static cairn_status append_base64(crn_str *out, const unsigned char *p, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  CRN_TRY(crn_str_reserve(out, (n + 2) / 3 * 4));
  for (size_t i = 0; i < n; i += 3) {
    unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
    char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '='};
    CRN_TRY(crn_str_append(out, four, 4));
  }
  return CAIRN_OK;
}

static cairn_status write_whole_row(crn_runner *r, crn_json_writer *w, const float *row) {
  size_t n = (size_t)r->logits.vocab_size;
  crn_arena arena;
  crn_str text;
  void *half = NULL;
  crn_arena_initialize(&arena, NULL);
  crn_str_initialize(&text, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_arena_array(&arena, n, 2, &half));
  crn_convert(CAIRN_F32, row, CAIRN_F16, half, (int64_t)n);
  CRN_TRY_GOTO(append_base64(&text, half, n * 2));
  crn_jw_key(w, "logits_base64");
  crn_jw_text_n(w, text.data, text.size);
  status = w->status;
done:
  crn_arena_deinitialize(&arena);
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_runner_write_row(crn_runner *r, crn_json_writer *w, const float *row) {
  int32_t best[MAX_CANDIDATES];
  int n = crn_runner_row_length(r->o);
  if (n == WHOLE_ROWS) return write_whole_row(r, w, row);
  if (n > r->logits.vocab_size) n = (int)r->logits.vocab_size;
  crn_runner_best(row, r->logits.vocab_size, best, n);
  crn_jw_key(w, "top_logits");
  crn_jw_open_array(w, false);
  for (int i = 0; i < n; i++) {
    const char *text;
    CRN_TRY(crn_runner_token_text(r, best[i], &text));
    crn_jw_open_inline_object(w);
    crn_jw_put_integer(w, "token_id", best[i]);
    crn_jw_put_text(w, "incremental_text", text);
    crn_jw_put_number(w, "logit", (double)row[best[i]]);
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
  return w->status;
}

static cairn_status write_tokens(crn_runner *r, crn_json_writer *w) {
  for (size_t i = 0; i < r->tokens.size; i++) {
    const float *row = crn_logits_at(&r->logits, (int64_t)(r->n_prompt + i) - 1);
    if (!row) continue;
    crn_jw_open_object(w);
    crn_jw_put_integer(w, "token_id", r->tokens.items[i].id);
    crn_jw_put_text(w, "incremental_text", r->tokens.items[i].text);
    CRN_TRY(crn_runner_write_row(r, w, row));
    crn_jw_close_object(w);
  }
  return CAIRN_OK;
}

cairn_status crn_runner_save_logits(crn_runner *r) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_key(&w, "tokens");
  crn_jw_open_array(&w, false);
  cairn_status status = write_tokens(r, &w);
  crn_jw_close_array(&w);
  crn_jw_close_object(&w);
  if (status == CAIRN_OK) status = crn_jw_save(&w, r->o->save_logits);
  crn_jw_deinitialize(&w);
  return status;
}

// --- summary ----------------------------------------------------------------------------------------------------------

static void print_rule(void) {
  for (int i = 0; i < 50; i++) putchar('=');
  putchar('\n');
}

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void print_row(const char *group, const char *metric, double shortest, double longest, int64_t n, double total) {
  if (n == 0) return;
  printf("%-8s %-14s ", group, metric);
  if (n == 1)
    printf("%9s %9.2f %9s", "-", total * 1e3, "-");
  else
    printf("%9.2f %9.2f %9.2f", shortest * 1e3, total * 1e3 / (double)n, longest * 1e3);
  printf(" %5lld %9.2f\n", (long long)n, total * 1e3);
}

static void print_table(const crn_runner *r, const cairn_generation_info *info, double load) {
  puts("\nDetailed statistics:");
  printf("%-8s %-14s %9s %9s %9s %5s %9s\n", "Group", "Metric", "Min ms", "Avg ms", "Max ms", "Count", "Total ms");
  print_row("main", "ModelLoad", 0, 0, 1, load);
  print_row("main", "Warmup", 0, 0, r->warmup_seconds > 0, r->warmup_seconds);
  print_row("decoder", "Tokenization", 0, 0, r->tokenize_seconds > 0, r->tokenize_seconds);
  print_row("decoder", "Prompt", 0, 0, 1, info->prefill_seconds);
  print_row("decoder", "Extend", r->stream.shortest, r->stream.longest, info->decode_tokens, info->decode_seconds);
}

void crn_runner_print_summary(const crn_runner *r, const cairn_generation_info *info) {
  cairn_llm_info llm;
  cairn_llm_describe(r->llm, &llm);
  double total = llm.load_seconds + info->prefill_seconds + info->decode_seconds;
  puts("\n⏱️  Performance Summary:");
  print_rule();
  printf("Model Load: %.1fms\n", llm.load_seconds * 1e3);
  printf("Prompt:     %.1fms, %lld tokens, %.1f tokens/sec\n", info->prefill_seconds * 1e3, (long long)info->prefill_tokens,
         rate(info->prefill_tokens, info->prefill_seconds));
  printf("Generation: %.1fms, %zu tokens, %.1f tokens/sec\n", info->decode_seconds * 1e3, info->n_tokens,
         rate(info->decode_tokens, info->decode_seconds));
  printf("Total:      %.3fs\n", total);
  printf("Engine:     %s, kv %s, device cpu, precision %s\n", llm.engine, llm.kv_strategy, llm.precision);
  if (r->t->verbose) print_table(r, info, llm.load_seconds);
}
