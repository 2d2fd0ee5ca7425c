/// Prefixes kept in memory with chance: lengths, pages, caches, sequences alone and members of batches that begin alike. Tokens are those
/// of a model opened for the prompt alone. CAIRN_MATRIX_SEED repeats a run, CAIRN_MATRIX_RUNS says how many follow.
#include "cairn/batch.h"
#include "cairn/session.h"
#include "lm.h"

enum { RUNS = 60, MOST_PROMPT = 330, MEMBERS = 6, NEW_TOKENS = 8, VOCAB = 40 };

static cairn_context *g_context;

typedef struct chance {
  uint64_t state;
} chance;

static int64_t draw(chance *c, int64_t below) {
  c->state = c->state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((c->state >> 33) % (uint64_t)below);
}

typedef struct result {
  int32_t tokens[NEW_TOKENS];
  int64_t n, from_memory, hit;
} result;

static cairn_generate_options options_of(const int32_t *tokens, int64_t n) {
  return (cairn_generate_options){.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = NEW_TOKENS, .ignore_eos = true};
}

static result take(cairn_generation *g) {
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  result r = {.n = (int64_t)info.n_tokens, .from_memory = info.prefix_from_memory, .hit = info.prefix_hit};
  assert_true(r.n <= NEW_TOKENS);
  memcpy(r.tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  cairn_generation_destroy(g);
  return r;
}

static result generate(cairn_llm *llm, const int32_t *tokens, int64_t n) {
  cairn_generation *g;
  const cairn_generate_options o = options_of(tokens, n);
  LM_OK(cairn_llm_generate(llm, &o, &g));
  return take(g);
}

typedef struct setting {
  const char *model;
  cairn_llm_options options;
  char text[200];
} setting;

static setting make_setting(chance *c, uint64_t seed) {
  static const char *const kModels[] = {"tiny-qwen3-macos", "tiny-qwen2-macos", "tiny-mistral-macos", "tiny-qwen3_moe-macos"};
  static const char *const kCaches[] = {"auto", "growing", "fixed", "paged", "paged", "chunked"};
  static const int64_t kPages[] = {0, 64, 128, 256}, kPieces[] = {0, 0, 7, 64};
  setting s = {.model = kModels[draw(c, 4)], .options = {.kv = kCaches[draw(c, 6)], .prefix_bytes = 64 << 20}};
  const bool is_paged = strcmp(s.options.kv, "paged") == 0 || strcmp(s.options.kv, "chunked") == 0;
  if (is_paged) s.options.kv_page = kPages[draw(c, 4)];
  if (is_paged && draw(c, 3) == 0) s.options.kv_type = "int8";
  // All of a run fits into the window: there the chunked cache loses nothing.
  if (strcmp(s.options.kv, "chunked") == 0) s.options.kv_window = strcmp(s.model, "tiny-mistral-macos") == 0 ? 256 : 512;
  s.options.prefill_chunk = kPieces[draw(c, 4)];
  s.options.engine = draw(c, 2) ? "sequential" : "pipelined";
  snprintf(s.text, sizeof s.text, "CAIRN_MATRIX_SEED=%llu: %s, %s, %s, page %lld, %s, pieces of %lld", (unsigned long long)seed, s.model,
           s.options.engine, s.options.kv, (long long)s.options.kv_page, s.options.kv_type ? s.options.kv_type : "as it is",
           (long long)s.options.prefill_chunk);
  return s;
}

static int64_t g_from_memory, g_hits, g_prompts;

static void check(const setting *s, const int32_t *tokens, int64_t n, const result *got) {
  char path[512];
  cairn_llm *llm;
  cairn_llm_options o = s->options;
  o.prefix_bytes = 0;
  snprintf(path, sizeof path, LM_MODELS "%s", s->model);
  LM_OK(cairn_llm_open(g_context, path, &o, &llm));
  const result expected = generate(llm, tokens, n);
  cairn_llm_close(llm);
  if (got->n != expected.n || memcmp(got->tokens, expected.tokens, (size_t)got->n * sizeof *got->tokens) != 0)
    fail_msg("%s: other tokens behind a prompt of %lld, %lld of them kept", s->text, (long long)n, (long long)got->hit);
  g_from_memory += got->from_memory;
  g_hits += got->hit;
  g_prompts++;
}

// A prompt that agrees with one that was there before in some first tokens; lengths near the ends of pages come often.
static int64_t make_prompt(chance *c, int64_t context, int32_t (*prompts)[MOST_PROMPT], const int64_t *lengths, int i) {
  static const int64_t kEdges[] = {63, 64, 65, 66, 127, 128, 129, 255, 256, 257};
  int64_t n = draw(c, 2) ? kEdges[draw(c, 10)] : 1 + draw(c, MOST_PROMPT);
  if (n > context - NEW_TOKENS) n = context - NEW_TOKENS;
  for (int64_t k = 0; k < n; k++) prompts[i][k] = (int32_t)draw(c, VOCAB);
  if (i) {
    const int with = (int)draw(c, i);
    int64_t shared = draw(c, (n < lengths[with] ? n : lengths[with]) + 1);
    memcpy(prompts[i], prompts[with], (size_t)shared * sizeof **prompts);
  }
  return n;
}

static void run_alone(chance *c, const setting *s, cairn_llm *llm, int32_t (*prompts)[MOST_PROMPT], const int64_t *lengths) {
  cairn_llm *kept = NULL;
  for (int i = 0; i < MEMBERS; i++) {
    cairn_llm *sequence = kept;
    kept = NULL;
    if (!sequence) LM_OK(cairn_llm_create_sequence(llm, &sequence));
    const result r = generate(sequence, prompts[i], lengths[i]);
    check(s, prompts[i], lengths[i], &r);
    if (draw(c, 3) == 0) LM_OK(cairn_llm_register_prefix(sequence, -1));
    // The sequence itself goes on to the next prompt, or ends and leaves what it has.
    if (draw(c, 2)) {
      kept = sequence;
    } else {
      cairn_llm_close(sequence);
    }
  }
  if (kept) cairn_llm_close(kept);
}

static void run_batch(chance *c, const setting *s, cairn_llm *llm, int32_t (*prompts)[MOST_PROMPT], const int64_t *lengths) {
  cairn_llm_batch *batch;
  int64_t ids[MEMBERS];
  const cairn_llm_batch_options o = {.max_sequences = 1 + (int)draw(c, MEMBERS), .max_step_tokens = draw(c, 2) ? 0 : 32};
  LM_OK(cairn_llm_batch_create(llm, &o, &batch));
  for (int i = 0; i < MEMBERS; i++) {
    const cairn_generate_options options = options_of(prompts[i], lengths[i]);
    cairn_llm_batch_step_info info;
    LM_OK(cairn_llm_batch_join(batch, &options, &ids[i]));
    for (int64_t k = draw(c, 4); k > 0; k--) LM_OK(cairn_llm_batch_step(batch, &info));
  }
  LM_OK(cairn_llm_batch_run(batch));
  for (int i = 0; i < MEMBERS; i++) {
    cairn_generation *g;
    LM_OK(cairn_llm_batch_take(batch, ids[i], &g));
    const result r = take(g);
    check(s, prompts[i], lengths[i], &r);
  }
  cairn_llm_batch_destroy(batch);
}

static bool run_one(uint64_t seed) {
  static int32_t prompts[MEMBERS][MOST_PROMPT];
  int64_t lengths[MEMBERS];
  char path[512];
  cairn_llm *llm;
  cairn_llm_info info;
  chance c = {seed * 2654435761u + 1};
  for (int i = 0; i < 4; i++) draw(&c, 2);
  const setting s = make_setting(&c, seed);
  snprintf(path, sizeof path, LM_MODELS "%s", s.model);
  cairn_status status = cairn_llm_open(g_context, path, &s.options, &llm);
  if (status == CAIRN_UNSUPPORTED) return false;
  if (status != CAIRN_OK) print_message("%s\n", s.text);
  LM_OK(status);
  cairn_llm_describe(llm, &info);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < MEMBERS; i++) lengths[i] = make_prompt(&c, info.max_context, prompts, lengths, i);
    if (getenv("CAIRN_MATRIX_SEED")) print_message("%s\n", s.text);
    if (draw(&c, 3)) {
      run_alone(&c, &s, llm, prompts, lengths);
    } else {
      run_batch(&c, &s, llm, prompts, lengths);
    }
  }
  cairn_llm_close(llm);
  return true;
}

static void test_random(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  const char *seed_text = getenv("CAIRN_MATRIX_SEED"), *runs_text = getenv("CAIRN_MATRIX_RUNS");
  uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
  const int64_t wanted = runs_text ? strtoll(runs_text, NULL, 10) : seed_text ? 1 : RUNS;
  int64_t n_refused = 0;
  for (int64_t i = 0; i < wanted; i++) n_refused += !run_one(seed++);
  print_message("%lld runs, %lld refused; %lld prompts, %lld tokens of them kept, %lld from memory\n", (long long)wanted,
                (long long)n_refused, (long long)g_prompts, (long long)g_hits, (long long)g_from_memory);
  if (wanted >= RUNS) assert_true(g_from_memory > 0 && n_refused < wanted / 2);
}

// A long sequence is kept, and one that shares its first tokens crosses a page soon behind them: lengths that failed once.
static void test_next_page(void **state) {
  (void)state;
  lm_need(LM_MODELS "tiny-qwen3-macos");
  static const int64_t kLengths[][3] = {{130, 60, 64}, {200, 64, 66}, {300, 100, 127}, {200, 60, 64}, {60, 30, 200}};
  for (size_t i = 0; i < sizeof kLengths / sizeof *kLengths; i++) {
    for (int64_t page = 64; page <= 128; page *= 2) {
      static int32_t first[300], then[300];
      setting s = {.model = "tiny-qwen3-macos", .options = {.prefix_bytes = 16 << 20, .kv = "paged", .kv_page = page}, .text = "next page"};
      lm_fill(first, 300, 1, VOCAB);
      lm_fill(then, 300, 2, VOCAB);
      memcpy(then, first, (size_t)kLengths[i][1] * sizeof *then);
      then[kLengths[i][1]] = (first[kLengths[i][1]] + 1) % VOCAB;
      cairn_llm *llm = lm_open(g_context, s.model, &s.options), *other;
      LM_OK(cairn_llm_create_sequence(llm, &other));
      generate(other, first, kLengths[i][0]);
      cairn_llm_close(other);
      for (int again = 0; again < 2; again++) {
        LM_OK(cairn_llm_create_sequence(llm, &other));
        result r = generate(other, then, kLengths[i][2]);
        if (!again) assert_int_equal(r.from_memory, kLengths[i][1]);
        check(&s, then, kLengths[i][2], &r);
        cairn_llm_close(other);
      }
      cairn_llm_close(llm);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_next_page), cmocka_unit_test(test_random)};
  g_context = lm_context(1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
