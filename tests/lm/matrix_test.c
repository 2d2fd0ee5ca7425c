/// Every engine, cache, page, piece, batch, prefix and kind of draft in random combinations, on every tiny bundle: the logits of forced
/// tokens are those of the goldens, greedy and seeded tokens those of a fresh sequential engine. Each run has a seed of its own, which is
/// printed with what failed: CAIRN_MATRIX_SEED repeats it, CAIRN_MATRIX_RUNS says how many follow.
#include <dirent.h>
#include <unistd.h>

#include "cairn/batch.h"
#include "lm.h"

enum { MAX_MODELS = 32, RUNS = 600, MOST = 32, MEMBERS = 8, PROMPT = 400 };

// --- models -----------------------------------------------------------------------------------------------------------

typedef struct model {
  char name[64];
  lm_ids prompt, steps;
  lm_rows golden;  ///< of all tokens of both
  lm_bound bound;
  int64_t context, vocab;
  bool is_static;
} model;

static model g_models[MAX_MODELS];
static int g_n_models;
static cairn_context *g_context;

static void load_model(model *m) {
  cairn_llm_info info;
  crn_safetensors *file = lm_goldens(m->name);
  m->prompt = lm_golden_ids(file, "in_promptA");
  m->steps = lm_golden_ids(file, "in_decodeA");
  lm_rows first = lm_golden_rows(file, "torch_A_prefill"), then = lm_golden_rows(file, "torch_A_steps");
  for (int64_t i = 0; i < first.n; i++) lm_keep_row(&m->golden, 0, first.data + i * first.width, first.width);
  for (int64_t i = 0; i < then.n; i++) lm_keep_row(&m->golden, 0, then.data + i * then.width, then.width);
  lm_rows_free(&first);
  lm_rows_free(&then);
  crn_safetensors_close(file);
  cairn_llm *llm = lm_open(g_context, m->name, NULL);
  cairn_llm_describe(llm, &info);
  m->bound = lm_bound_of(info.kv_dtype);
  m->context = info.max_context;
  m->vocab = info.vocab_size;
  m->is_static = strcmp(info.engine, "static-shape") == 0;
  cairn_llm_close(llm);
}

static int compare_models(const void *a, const void *b) { return strcmp(((const model *)a)->name, ((const model *)b)->name); }

static int set_up(void **state) {
  (void)state;
  DIR *folder = opendir(LM_MODELS);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    char path[512];
    snprintf(path, sizeof path, LM_MODELS "%s/golden.safetensors", e->d_name);
    bool is_language = strstr(e->d_name, "-macos") || strstr(e->d_name, "-ios");
    if (g_n_models == MAX_MODELS || strncmp(e->d_name, "tiny-", 5) != 0 || !is_language || access(path, R_OK) != 0) continue;
    snprintf(g_models[g_n_models++].name, sizeof g_models->name, "%.63s", e->d_name);
  }
  if (folder) closedir(folder);
  qsort(g_models, (size_t)g_n_models, sizeof *g_models, compare_models);
  g_context = lm_context(2);
  for (int i = 0; i < g_n_models; i++) load_model(&g_models[i]);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < g_n_models; i++) {
    free(g_models[i].prompt.data);
    free(g_models[i].steps.data);
    lm_rows_free(&g_models[i].golden);
  }
  cairn_context_release(g_context);
  return 0;
}

// --- chance -----------------------------------------------------------------------------------------------------------

typedef struct chance {
  uint64_t state;
} chance;

static uint32_t draw(chance *c, uint32_t below) {
  c->state = c->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(c->state >> 33) % below;
}

static int64_t pick(chance *c, const int64_t *values, size_t n) { return values[draw(c, (uint32_t)n)]; }
#define PICK(c, ...) pick(c, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// --- one task ---------------------------------------------------------------------------------------------------------

typedef enum kind { FORCED, GREEDY, SEEDED, KINDS } kind;

/// What one sequence is asked for, and what it gave.
typedef struct task {
  kind kind;
  int32_t prompt[PROMPT];
  int64_t n;
  cairn_sampling sampling;
  lm_rows rows;
  cairn_generate_options options;
} task;

static void make_task(chance *c, const model *m, task *t) {
  *t = (task){.kind = (kind)draw(c, KINDS)};
  t->n = m->prompt.n;
  memcpy(t->prompt, m->prompt.data, (size_t)t->n * sizeof *t->prompt);
  const int64_t room = (m->context < PROMPT ? m->context : PROMPT) - MOST - t->n;
  const int64_t more = t->kind == FORCED ? 0 : (int64_t)draw(c, 3) ? draw(c, 24) : draw(c, (uint32_t)room);
  // Some prompts repeat themselves, so that drafts from what came before are right now and then.
  const int64_t period = 1 + draw(c, 12);
  for (int64_t i = 0; i < more; i++, t->n++)
    t->prompt[t->n] = draw(c, 2) ? t->prompt[t->n - 1 - (period < t->n ? period - 1 : 0)] : (int32_t)draw(c, (uint32_t)m->vocab);
  t->options = (cairn_generate_options){.tokens = t->prompt, .n_tokens = (size_t)t->n, .max_tokens = 12, .ignore_eos = true};
  if (t->kind == FORCED) {
    t->options.forced = m->steps.data;
    t->options.n_forced = (size_t)m->steps.n;
    t->options.on_logits = lm_keep_row;
    t->options.user = &t->rows;
  }
  if (t->kind == SEEDED) {
    t->options.sampling = (cairn_sampling){.temperature = 0.5f + (float)draw(c, 4) / 2,
                                           .has_top_k = draw(c, 2),
                                           .top_k = 20,
                                           .has_top_p = draw(c, 2),
                                           .top_p = 0.9f,
                                           .has_repetition_penalty = draw(c, 2),
                                           .repetition_penalty = 1.2f,
                                           .has_seed = true,
                                           .seed = draw(c, 1000)};
  }
}

static void expect_tokens(const char *what, const cairn_generation_info *got, const cairn_generation_info *wanted) {
  if (got->n_tokens != wanted->n_tokens ||
      (got->n_tokens && memcmp(got->tokens, wanted->tokens, got->n_tokens * sizeof *got->tokens) != 0)) {
    fail_msg("%s: other tokens than the sequential engine", what);
  }
}

// Compares a result with the goldens, or with what a fresh sequential engine gives.
static void check_task(const char *what, const model *m, const task *t, const cairn_generation *g) {
  cairn_generation_info info, wanted;
  cairn_generation_get(g, &info);
  if (t->kind == FORCED) {
    assert_int_equal(t->rows.n, m->steps.n);
    const lm_rows golden = {.data = m->golden.data + m->prompt.n * m->golden.width, .n = m->steps.n, .width = m->golden.width};
    lm_compare(what, &t->rows, &golden, &m->bound);
    return;
  }
  cairn_generation *reference;
  cairn_generate_options plain = t->options;
  plain.speculation = (cairn_speculation){0};
  cairn_llm *llm = lm_open(g_context, m->name, m->is_static ? NULL : &(cairn_llm_options){.engine = "sequential"});
  LM_OK(cairn_llm_generate(llm, &plain, &reference));
  cairn_generation_get(reference, &wanted);
  expect_tokens(what, &info, &wanted);
  cairn_generation_destroy(reference);
  cairn_llm_close(llm);
}

// --- one run ----------------------------------------------------------------------------------------------------------

typedef struct setting {
  const model *model;
  cairn_llm_options options;
  int n_members;  ///< of a batch; 0 = the engine alone
  bool has_history;
  int64_t drafts;  ///< 0 none, 1 lookup, 2 by the model itself
} setting;

static setting make_setting(chance *c) {
  static const char *const kCaches[] = {"auto", "fixed", "growing", "paged", "paged", "chunked"};
  setting s = {.model = &g_models[draw(c, (uint32_t)g_n_models)]};
  s.options.engine = s.model->is_static ? "static-shape" : draw(c, 2) ? "pipelined" : "sequential";
  s.options.kv = kCaches[draw(c, 6)];
  if (strcmp(s.options.kv, "paged") == 0 || strcmp(s.options.kv, "chunked") == 0) s.options.kv_page = PICK(c, 64, 128, 256);
  // All of a run fits into the window: there the chunked cache loses nothing.
  if (strcmp(s.options.kv, "chunked") == 0) s.options.kv_window = 1024 < s.model->context ? 1024 : s.model->context;
  if (strcmp(s.options.kv, "growing") == 0) s.options.kv_capacity = PICK(c, 1, 8, 100, 256);
  s.options.prefill_chunk = PICK(c, 0, 1, 3, 8, 64);
  s.options.pipeline_depth = (int)draw(c, 5);
  s.n_members = draw(c, 3) ? 0 : 1 + (int)draw(c, MEMBERS);
  s.has_history = draw(c, 2);
  s.drafts = PICK(c, 0, 0, 1, 2);
  return s;
}

static void describe(const setting *s, uint64_t seed, char *text, size_t bytes) {
  snprintf(text, bytes,
           "seed %llu: %s, %s, kv %s (page %lld, capacity %lld), pieces of %lld, depth %d, batch of %d, history %d, drafts %lld",
           (unsigned long long)seed, s->model->name, s->options.engine, s->options.kv, (long long)s->options.kv_page,
           (long long)s->options.kv_capacity, (long long)s->options.prefill_chunk, s->options.pipeline_depth, s->n_members, s->has_history,
           (long long)s->drafts);
}

// Something that was there before: a sequence that begins like the task, and went another way.
static void make_history(chance *c, cairn_llm *llm, const task *t) {
  task other = *t;
  cairn_generation *g;
  const int64_t cut = draw(c, (uint32_t)t->n);
  other.n = cut + 1 + draw(c, 8);
  for (int64_t i = cut; i < other.n; i++) other.prompt[i] = (int32_t)draw(c, 40);
  const cairn_generate_options o = {.tokens = other.prompt, .n_tokens = (size_t)other.n, .max_tokens = draw(c, 9), .ignore_eos = true};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_destroy(g);
}

static void add_drafts(const setting *s, cairn_llm *drafter, task *t) {
  if (!s->drafts || t->kind == FORCED) return;
  t->options.speculation = (cairn_speculation){.mode = s->drafts == 1 ? CAIRN_SPECULATION_LOOKUP : CAIRN_SPECULATION_DRAFT,
                                               .draft = s->drafts == 2 ? drafter : NULL,
                                               .always = true};
}

static void run_alone(chance *c, const setting *s, const char *what, cairn_llm *llm, cairn_llm *drafter) {
  task t;
  cairn_generation *g;
  make_task(c, s->model, &t);
  add_drafts(s, drafter, &t);
  t.options.user = &t.rows;
  if (s->has_history) make_history(c, llm, &t);
  cairn_status status = cairn_llm_generate(llm, &t.options, &g);
  if (status == CAIRN_UNSUPPORTED && s->drafts) {
    // Said of models that cannot: without drafts it runs.
    t.options.speculation = (cairn_speculation){0};
    status = cairn_llm_generate(llm, &t.options, &g);
  }
  LM_OK(status);
  check_task(what, s->model, &t, g);
  cairn_generation_destroy(g);
  lm_rows_free(&t.rows);
}

/// What batches came to.
static struct { int64_t drafted, accepted, shared; } g_in_batches;

static void count_batch(const cairn_generation *g) {
  cairn_generation_info info;
  cairn_generation_get(g, &info);
  g_in_batches.drafted += info.drafted_tokens;
  g_in_batches.accepted += info.accepted_tokens;
  g_in_batches.shared += info.prefix_from_memory;
}

// Prompts of one batch often begin alike, and may come at once.
static void share_beginning(chance *c, const task *first, task *t) {
  if (t->kind == FORCED || draw(c, 2)) return;
  const int64_t n = first->n < t->n ? first->n : t->n;
  memcpy(t->prompt, first->prompt, draw(c, (uint32_t)n + 1) * sizeof *t->prompt);
}

static bool run_batch(chance *c, const setting *s, const char *what, cairn_llm *llm, cairn_llm *drafter) {
  static task tasks[MEMBERS];
  int64_t ids[MEMBERS];
  cairn_llm_batch *batch;
  const cairn_llm_batch_options options = {.max_sequences = 1 + (int)draw(c, MEMBERS), .max_step_tokens = PICK(c, 0, 24, 64)};
  cairn_status status = cairn_llm_batch_create(llm, &options, &batch);
  if (status == CAIRN_UNSUPPORTED) return false;
  LM_OK(status);
  for (int i = 0; i < s->n_members; i++) {
    make_task(c, s->model, &tasks[i]);
    if (i) share_beginning(c, &tasks[0], &tasks[i]);
    if (draw(c, 4)) add_drafts(s, drafter, &tasks[i]);
    tasks[i].options.user = &tasks[i].rows;
    status = cairn_llm_batch_join(batch, &tasks[i].options, &ids[i]);
    if (status == CAIRN_UNSUPPORTED && s->drafts) {
      tasks[i].options.speculation = (cairn_speculation){0};
      status = cairn_llm_batch_join(batch, &tasks[i].options, &ids[i]);
    }
    LM_OK(status);
    cairn_llm_batch_step_info info;
    for (uint32_t steps = draw(c, 3); steps > 0; steps--) LM_OK(cairn_llm_batch_step(batch, &info));
  }
  LM_OK(cairn_llm_batch_run(batch));
  for (int i = 0; i < s->n_members; i++) {
    cairn_generation *g;
    LM_OK(cairn_llm_batch_take(batch, ids[i], &g));
    check_task(what, s->model, &tasks[i], g);
    count_batch(g);
    cairn_generation_destroy(g);
    lm_rows_free(&tasks[i].rows);
  }
  cairn_llm_batch_destroy(batch);
  return true;
}

// Returns whether the model and the setting go together.
static bool run_one(uint64_t seed) {
  chance c = {seed * 2654435761u + 1};
  for (int i = 0; i < 4; i++) draw(&c, 2);
  const setting s = make_setting(&c);
  char path[512], what[512];
  cairn_llm *llm, *drafter = NULL;
  describe(&s, seed, what, sizeof what);
  snprintf(path, sizeof path, LM_MODELS "%s", s.model->name);
  cairn_status status = cairn_llm_open(g_context, path, &s.options, &llm);
  if (status == CAIRN_UNSUPPORTED) return false;
  if (status != CAIRN_OK) print_message("%s\n", what);
  LM_OK(status);
  if (s.drafts == 2) drafter = lm_open(g_context, s.model->name, NULL);
  bool ran = true;
  if (s.n_members) {
    ran = run_batch(&c, &s, what, llm, drafter);
  } else {
    run_alone(&c, &s, what, llm, drafter);
  }
  if (drafter) cairn_llm_close(drafter);
  cairn_llm_close(llm);
  return ran;
}

static void test_matrix(void **state) {
  (void)state;
  if (!g_n_models) skip();
  const char *seed_text = getenv("CAIRN_MATRIX_SEED"), *runs_text = getenv("CAIRN_MATRIX_RUNS");
  const uint64_t first = seed_text ? strtoull(seed_text, NULL, 10) : 1;
  const int64_t wanted = runs_text ? strtoll(runs_text, NULL, 10) : seed_text ? 1 : RUNS;
  int64_t n = 0, n_refused = 0;
  uint64_t seed = first;
  for (; n < wanted; seed++) {
    if (run_one(seed)) {
      n++;
    } else {
      n_refused++;
      assert_true(seed_text || n_refused < 2 * RUNS);
    }
    if (seed_text && !runs_text) break;
  }
  print_message("seeds %llu to %llu: %lld runs, %lld combinations that a model does not allow\n", (unsigned long long)first,
                (unsigned long long)seed, (long long)n, (long long)n_refused);
  print_message("in batches: %lld tokens drafted, %lld of them right, %lld tokens of prompts computed by another sequence\n",
                (long long)g_in_batches.drafted, (long long)g_in_batches.accepted, (long long)g_in_batches.shared);
  if (wanted == RUNS) assert_true(g_in_batches.accepted > 0 && g_in_batches.accepted < g_in_batches.drafted && g_in_batches.shared > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrix)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
