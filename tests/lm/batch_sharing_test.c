/// What members of a batch do for one another: prompts that begin alike are computed once, whoever of them leaves; and what they do alone:
/// drafts, where the model allows them.
#include "cairn/batch.h"
#include "cairn/session.h"
#include "engines/llm/batch.h"
#include "lm.h"

#define FORMS CAIRN_TEST_DATA "/llm-forms/"
#define PAGED LM_MODELS "tiny-qwen3-macos"

enum { MEMBERS = 5, MOST = 400, GENERATED = 5 };

// --- members ----------------------------------------------------------------------------------------------------------

typedef struct asked {
  int32_t tokens[MOST];
  int64_t n, id, vocab;
  cairn_generate_options options;
  int n_asked, stop_at;  ///< of should_cancel
} asked;

// The first `common` tokens are those of all.
static void make(asked *a, int number, int64_t common, int64_t n, int64_t vocab) {
  *a = (asked){.n = n, .vocab = vocab};
  for (int64_t i = 0; i < n; i++) a->tokens[i] = (int32_t)((i < common ? i * 37 + 11 : i * 29 + 7 + number) % vocab);
  a->options = (cairn_generate_options){.tokens = a->tokens, .n_tokens = (size_t)n, .max_tokens = GENERATED, .ignore_eos = true};
}

static bool stop_later(void *user) {
  asked *a = user;
  return ++a->n_asked >= a->stop_at;
}

static void join(cairn_llm_batch *b, asked *a) { LM_OK(cairn_llm_batch_join(b, &a->options, &a->id)); }

// Steps until nobody is left. Gives the tokens of prompts that were computed.
static int64_t run(cairn_llm_batch *b) {
  int64_t n = 0;
  cairn_llm_batch_step_info info;
  do {
    LM_OK(cairn_llm_batch_step(b, &info));
    n += info.prompt_tokens;
  } while (info.n_active);
  return n;
}

// Takes a result, whose tokens must be those of a fresh sequence. Gives its hits.
static int64_t take(cairn_llm_batch *b, const cairn_llm *llm, const asked *a, int64_t *out_borrowed) {
  cairn_generation *g, *alone;
  cairn_generation_info info, wanted;
  cairn_llm *fresh;
  cairn_generate_options options = a->options;
  options.should_cancel = NULL;
  options.speculation = (cairn_speculation){0};
  LM_OK(cairn_llm_create_sequence(llm, &fresh));
  LM_OK(cairn_llm_generate(fresh, &options, &alone));
  LM_OK(cairn_llm_batch_take(b, a->id, &g));
  cairn_generation_get(g, &info);
  cairn_generation_get(alone, &wanted);
  if (info.stop_reason != CAIRN_STOP_CANCELLED) {
    assert_int_equal(info.n_tokens, wanted.n_tokens);
    assert_memory_equal(info.tokens, wanted.tokens, wanted.n_tokens * sizeof *wanted.tokens);
    assert_int_equal(info.prefix_hit + info.prefill_tokens, a->n);
  }
  const int64_t hit = info.prefix_hit;
  if (out_borrowed) *out_borrowed = info.prefix_from_memory;
  cairn_generation_destroy(alone);
  cairn_generation_destroy(g);
  cairn_llm_close(fresh);
  return hit;
}

// --- prompts that begin alike -------------------------------------------------------------------------------------------

typedef struct kind {
  const char *path;
  cairn_llm_options options;
  int64_t vocab, common, n;
  bool copies;
} kind;

// All come before the first step: the common part is computed once, whether states are in pages, are copied, or cannot be cut back.
static void check_together(cairn_context *context, const kind *k) {
  cairn_llm *llm = lm_open_path(context, k->path, &k->options);
  asked asks[MEMBERS];
  cairn_llm_batch *b;
  int64_t borrowed;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  for (int i = 0; i < MEMBERS; i++) {
    make(&asks[i], i, k->common, k->n, k->vocab);
    join(b, &asks[i]);
  }
  const int64_t computed = run(b), expected = k->n + (MEMBERS - 1) * (k->n - k->common);
  if (computed != expected) fail_msg("%s: %lld tokens computed instead of %lld", k->path, (long long)computed, (long long)expected);
  for (int i = 0; i < MEMBERS; i++) {
    assert_int_equal(take(b, llm, &asks[i], &borrowed), i ? k->common : 0);
    assert_int_equal(borrowed, i ? k->common : 0);
  }
  int64_t n_copied = 0;
  for (size_t i = 0; i < b->idle.size; i++) n_copied += b->idle.items[i]->states.bytes_copied;
  if ((n_copied > 0) != k->copies) fail_msg("%s %s: %lld bytes copied", k->path, k->options.kv, (long long)n_copied);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
}

static void test_together(void **state) {
  (void)state;
  cairn_context *context = lm_context(2);
  const kind forms[] = {{FORMS "lm_hybrid", {0}, 40, 31, 50, true},
                        {FORMS "lm_hybrid", {.snapshot_interval = 8, .prefill_chunk = 9}, 40, 31, 50, true},
                        {FORMS "lm_static_one", {0}, 40, 30, 50, false},
                        {FORMS "lm_host_cache/model.aimodel", {0}, 40, 33, 40, true}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_together(context, &forms[i]);
  lm_need(PAGED);
  const kind models[] = {{PAGED, {.kv = "paged"}, 300, 150, 180, false},
                         {PAGED, {.kv = "paged", .prefill_chunk = 40}, 300, 150, 180, false},
                         {PAGED, {.kv = "chunked", .kv_window = 200, .prefill_chunk = 40}, 300, 150, 180, false},
                         {PAGED, {.kv = "growing"}, 300, 150, 180, true},
                         {LM_MODELS "tiny-mistral-macos", {.engine = "pipelined"}, 300, 64, 100, true},
                         {LM_MODELS "tiny-qwen3-ios", {.engine = "static-shape"}, 300, 64, 100, true}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_together(context, &models[i]);
  cairn_context_release(context);
}

// In modes that round, enough of each prompt is left to get the bits it has alone.
static void test_together_int8(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(2);
  const cairn_model_options model = {.precision = CAIRN_PRECISION_INT8, .no_cache = true};
  const kind k = {LM_MODELS "tiny-qwen3-macos-4bit", {.model = &model, .kv = "paged"}, 300, 150 - CRN_BATCH_LEAST, 150, false};
  check_together(context, &k);
  cairn_context_release(context);
}

// The first one leaves in the middle of its prompt, and the one that took over, too: the third goes on where they were, and nothing is
// computed twice. With one place only the others wait for that, too.
static void check_leaving(cairn_context *context, int max_sequences) {
  cairn_llm *llm = lm_open_path(context, PAGED, &(cairn_llm_options){.kv = "paged", .prefill_chunk = 32});
  asked asks[4];
  cairn_llm_batch *b;
  cairn_llm_batch_step_info info;
  int64_t computed = 0;
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.max_sequences = max_sequences}, &b));
  for (int i = 0; i < 4; i++) make(&asks[i], i, 200, 240, 300);
  asks[1].stop_at = 5;
  asks[1].options.should_cancel = stop_later;
  asks[1].options.user = &asks[1];
  for (int i = 0; i < 4; i++) join(b, &asks[i]);
  LM_OK(cairn_llm_batch_step(b, &info));
  assert_int_equal(info.prompt_tokens, 32);
  assert_int_equal(info.n_prompting, 1);
  assert_int_equal(info.n_waiting, 3);
  computed += info.prompt_tokens;
  LM_OK(cairn_llm_batch_cancel(b, asks[0].id));
  computed += run(b);
  // What nobody else has in common is computed by the two that end, and what was computed by those that left serves them.
  assert_int_equal(computed, 240 + 40);
  assert_int_equal(take(b, llm, &asks[0], NULL), 0);
  assert_int_equal(take(b, llm, &asks[1], NULL), 32);
  assert_true(asks[1].n_asked == 5);
  assert_in_range(take(b, llm, &asks[2], NULL), 64, 200);
  assert_int_equal(take(b, llm, &asks[3], NULL), 200);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
}

static void test_leaving(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(1);
  check_leaving(context, 0);
  check_leaving(context, 2);
  cairn_context_release(context);
}

static cairn_status refuse_row(void *user, int64_t position, const float *row, int64_t n) {
  (void)user, (void)position, (void)row, (void)n;
  return CRN_FAIL(CANCELLED, "no more of these");
}

// One that fails in its prompt, and one that waits but is cancelled itself.
static void test_failing(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open_path(context, PAGED, &(cairn_llm_options){.kv = "paged", .prefill_chunk = 32});
  asked asks[4];
  cairn_llm_batch *b;
  cairn_generation *g;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  for (int i = 0; i < 4; i++) {
    make(&asks[i], i, 200, 240, 300);
    if (i == 0) asks[i].options.on_logits = refuse_row, asks[i].options.prefill_logits = true;
    join(b, &asks[i]);
  }
  LM_OK(cairn_llm_batch_cancel(b, asks[2].id));
  run(b);
  assert_int_equal(cairn_llm_batch_take(b, asks[0].id, &g), CAIRN_CANCELLED);
  cairn_generation_destroy(g);
  take(b, llm, &asks[1], NULL);
  take(b, llm, &asks[2], NULL);
  assert_int_equal(take(b, llm, &asks[3], NULL), 200);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// One asks for all logits of its prompt, and computes all of it; the others do not wait for more than there is to share.
static void test_unwilling(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open_path(context, PAGED, &(cairn_llm_options){.kv = "paged"});
  asked asks[3];
  lm_rows rows = {0};
  cairn_llm_batch *b;
  cairn_llm_batch_step_info info;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  for (int i = 0; i < 3; i++) make(&asks[i], i, i == 2 ? 20 : 60, 80, 300);
  asks[1].options.on_logits = lm_keep_row;
  asks[1].options.user = &rows;
  asks[1].options.prefill_logits = true;
  for (int i = 0; i < 3; i++) join(b, &asks[i]);
  LM_OK(cairn_llm_batch_step(b, &info));
  assert_int_equal(info.prompt_tokens, 240);
  run(b);
  for (int i = 0; i < 3; i++) assert_int_equal(take(b, llm, &asks[i], NULL), 0);
  lm_rows_free(&rows);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// --- what is kept elsewhere ---------------------------------------------------------------------------------------------

// A batch finds what others left in memory and on disk, and leaves its own.
static void test_kept(void **state) {
  (void)state;
  lm_need(PAGED);
  char folder[] = "/tmp/cairn-batch-XXXXXX";
  assert_non_null(mkdtemp(folder));
  cairn_context *context = lm_context(1);
  cairn_llm_options options = {.kv = "paged", .prompt_cache = folder};
  asked a, later;
  int64_t borrowed;
  for (int round = 0; round < 2; round++) {
    cairn_llm *llm = lm_open_path(context, PAGED, &options);
    cairn_llm_batch *b;
    LM_OK(cairn_llm_batch_create(llm, NULL, &b));
    make(&a, 0, 200, 200, 300);
    join(b, &a);
    run(b);
    assert_int_equal(take(b, llm, &a, NULL), round ? 192 : 0);  // whole blocks of 64
    cairn_llm_batch_destroy(b);
    cairn_llm_close(llm);
  }
  options.prompt_cache = NULL;
  options.prefix_bytes = 64 << 20;
  cairn_llm *llm = lm_open_path(context, PAGED, &options);
  for (int round = 0; round < 2; round++) {
    cairn_llm_batch *b;
    LM_OK(cairn_llm_batch_create(llm, NULL, &b));
    make(&later, round, 150, 200, 300);
    join(b, &later);
    run(b);
    assert_int_equal(take(b, llm, &later, &borrowed), round ? 150 : 0);
    assert_int_equal(borrowed, round ? 150 : 0);
    cairn_llm_batch_destroy(b);
  }
  cairn_llm_close(llm);
  cairn_context_release(context);
  assert_int_equal(lm_remove_folder(folder), 0);
}

// --- drafts -------------------------------------------------------------------------------------------------------------

// A model that cannot be cut back says so: by name at once, by itself in the result.
static void test_no_drafts(void **state) {
  (void)state;
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open_path(context, FORMS "lm_hybrid", NULL);
  asked a;
  cairn_llm_batch *b;
  cairn_generation *g;
  cairn_generation_info info;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  make(&a, 0, 10, 10, 40);
  a.options.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_LOOKUP};
  lm_expect(cairn_llm_batch_join(b, &a.options, &a.id), CAIRN_UNSUPPORTED, "cannot be cut back");
  a.options.speculation.mode = CAIRN_SPECULATION_DRAFT;
  lm_expect(cairn_llm_batch_join(b, &a.options, &a.id), CAIRN_INVALID_ARGUMENT, "needs one");
  a.options.speculation.mode = CAIRN_SPECULATION_AUTO;
  join(b, &a);
  run(b);
  LM_OK(cairn_llm_batch_take(b, a.id, &g));
  cairn_generation_get(g, &info);
  assert_false(info.speculates);
  assert_non_null(strstr(info.speculation_note, "cannot be cut back"));
  assert_int_equal(info.n_tokens, GENERATED);
  cairn_generation_destroy(g);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// The model itself drafts for five members, all of whose drafts are right; the sequence that was given is not used, and may be closed.
static void test_draft_model(void **state) {
  (void)state;
  lm_need(PAGED);
  enum { TOKENS = 40 };
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open_path(context, PAGED, &(cairn_llm_options){.engine = "pipelined"}), *draft = lm_open_path(context, PAGED, NULL);
  asked asks[MEMBERS];
  cairn_llm_batch *b;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  for (int i = 0; i < MEMBERS; i++) {
    make(&asks[i], i, 0, i == 2 ? 300 : 12, 300);
    asks[i].options.max_tokens = TOKENS;
    asks[i].options.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_AUTO, .draft = draft, .max_draft = 7, .always = true};
    if (i == 3) asks[i].options.speculation.mode = CAIRN_SPECULATION_DRAFT;
    join(b, &asks[i]);
  }
  cairn_llm_close(draft);
  run(b);
  for (int i = 0; i < MEMBERS; i++) {
    cairn_generation *g;
    cairn_generation_info info;
    LM_OK(cairn_llm_batch_take(b, asks[i].id, &g));
    cairn_generation_get(g, &info);
    assert_true(info.speculates);
    assert_string_equal(info.speculation_note, "");
    assert_int_equal(info.n_tokens, TOKENS);
    assert_int_equal(info.decode_runs + info.accepted_tokens, TOKENS - 1);
    // Its prompt of 300 tokens is caught up in three steps, the others are ready at once. Where lookup takes a turn it may be wrong.
    if (i == 3) assert_int_equal(info.accepted_tokens, info.drafted_tokens);
    if (i == 3) assert_int_equal(info.decode_runs, 5);
    assert_true(info.accepted_tokens > TOKENS / 4);
    cairn_generation_destroy(g);
  }
  assert_true(b->drafters.size == MEMBERS);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_other_vocabulary(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open_path(context, PAGED, NULL), *draft = lm_open_path(context, FORMS "lm_dynamic", NULL);
  asked a;
  cairn_llm_batch *b;
  LM_OK(cairn_llm_batch_create(llm, NULL, &b));
  make(&a, 0, 10, 10, 40);
  a.options.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_DRAFT, .draft = draft};
  lm_expect(cairn_llm_batch_join(b, &a.options, &a.id), CAIRN_INCOMPATIBLE, "logits");
  cairn_llm_batch_destroy(b);
  cairn_llm_close(draft);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// Drafts count to what a step computes: a prompt gets what they leave, but never less than a piece.
static void test_budget_counts_drafts(void **state) {
  (void)state;
  lm_need(PAGED);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open_path(context, PAGED, NULL);
  asked asks[3], prompt;
  cairn_llm_batch *b;
  cairn_llm_batch_step_info info;
  int64_t most_drafts = 0, n_steps = 0;
  LM_OK(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.max_step_tokens = 80, .no_sharing = true}, &b));
  for (int i = 0; i < 3; i++) {
    make(&asks[i], i, 0, 12, 300);
    asks[i].options.max_tokens = 200;
    asks[i].options.speculation = (cairn_speculation){.mode = CAIRN_SPECULATION_DRAFT, .draft = llm, .always = true};
    join(b, &asks[i]);
  }
  LM_OK(cairn_llm_batch_step(b, &info));
  assert_int_equal(info.n_generating, 3);
  make(&prompt, 0, 0, 380, 300);
  prompt.options.max_tokens = 1;
  join(b, &prompt);
  for (bool ended = false; !ended; n_steps++) {
    LM_OK(cairn_llm_batch_step(b, &info));
    if (info.draft_tokens > most_drafts) most_drafts = info.draft_tokens;
    LM_OK(cairn_llm_batch_has_ended(b, prompt.id, &ended));
    assert_in_range(info.prompt_tokens, CRN_BATCH_LEAST, 80 - info.draft_tokens + (ended ? CRN_BATCH_LEAST : 0));
  }
  assert_int_equal(most_drafts, 3 * CRN_DRAFT_MOST);
  assert_in_range(n_steps, 8, 14);
  cairn_llm_batch_destroy(b);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_together),         cmocka_unit_test(test_together_int8),
                                     cmocka_unit_test(test_leaving),          cmocka_unit_test(test_failing),
                                     cmocka_unit_test(test_unwilling),        cmocka_unit_test(test_kept),
                                     cmocka_unit_test(test_no_drafts),        cmocka_unit_test(test_draft_model),
                                     cmocka_unit_test(test_other_vocabulary), cmocka_unit_test(test_budget_counts_drafts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
