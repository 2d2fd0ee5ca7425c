/// The engines 'pipelined' and 'sequential' beside a loop of plain runs, on one set of weights in one process, in turn.
///
///     bench_pipelined [--quick] [--rounds N] [--tokens N] MODEL...
///
/// One engine is opened for each model. For the sequential arm its driver is exchanged; the third arm is what a program without an engine
/// does: a cairn_function_run for every token, with fresh inputs and the outputs the run gives. All arms use the same function, the same
/// caches and the same sampler, and must give the same tokens. Time is that of the tokens behind the first one, in which the caller's
/// callback is called for every token. Prints JSON lines; bench/pipelined makes docs/pipelined.md of them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engines/llm/generator.h"
#include "engines/llm/logits.h"
#include "engines/llm/pipelined.h"

enum { MAX_ROUNDS = 64, MAX_TOKENS = 256, N_ARMS = 3, ASSUMED_TOKENS = 24 };

static const char *const kArms[N_ARMS] = {"sequential", "pipelined", "runs"};
enum { ARM_SEQUENTIAL, ARM_PIPELINED, ARM_RUNS };

static const int64_t kContexts[] = {16, 1024, 4096};

typedef struct sampler_case {
  const char *name;
  cairn_sampling sampling;
} sampler_case;
static const sampler_case kSamplers[] = {
    {"greedy", {.temperature = 0}},
    {"filters",
     {.temperature = 0.8f,
      .has_seed = true,
      .seed = 1,
      .has_top_k = true,
      .top_k = 40,
      .has_top_p = true,
      .top_p = 0.95f,
      .has_repetition_penalty = true,
      .repetition_penalty = 1.1f}},
    // No top-k: what is kept of the whole vocabulary is sorted. For flat logits that is most of it.
    {"slow", {.temperature = 1.5f, .has_seed = true, .seed = 1, .has_top_p = true, .top_p = 0.99f}},
};

typedef struct consumer_case {
  const char *name;
  double seconds;
  bool works;  ///< keeps a core busy instead of waiting
} consumer_case;
static const consumer_case kConsumers[] = {{"none", 0, false},
                                           {"waits 0.5 ms", 0.0005, false},
                                           {"waits 2 ms", 0.002, false},
                                           {"waits 10 ms", 0.010, false},
                                           {"works 0.5 ms", 0.0005, true},
                                           {"works 2 ms", 0.002, true},
                                           {"works 10 ms", 0.010, true}};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool check(cairn_status status, const char *what) {
  if (status == CAIRN_OK) return true;
  fprintf(stderr, "%s: %s\n", what, cairn_last_error()->message);
  return false;
}

// --- the caller ---------------------------------------------------------------------------------------------------------

static void wait_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static void consume(const consumer_case *c) {
  if (c->seconds <= 0) return;
  if (!c->works) {
    wait_seconds(c->seconds);
    return;
  }
  const double end = crn_seconds_now() + c->seconds;
  while (crn_seconds_now() < end) {
  }
}

static bool on_token(void *user, const cairn_token_event *event) {
  if (event->token >= 0) consume(user);
  return true;
}

// --- arms ---------------------------------------------------------------------------------------------------------------

typedef struct measured {
  double seconds;  ///< of a token
  int32_t tokens[MAX_TOKENS];
  int64_t n;
} measured;

typedef struct bench {
  cairn_context *context;
  cairn_llm *llm;
  int32_t *prompt;
  int64_t n_prompt, n_tokens;
  const sampler_case *sampler;
  const consumer_case *consumer;
} bench;

static bool run_engine(bench *b, const crn_llm_driver *driver, measured *out) {
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = b->prompt,
                                    .n_tokens = (size_t)b->n_prompt,
                                    .max_tokens = b->n_tokens,
                                    .ignore_eos = true,
                                    .sampling = b->sampler->sampling,
                                    .on_token = on_token,
                                    .user = (void *)b->consumer};
  b->llm->model->driver = driver;
  if (!check(cairn_llm_generate(b->llm, &o, &g), driver->engine)) return false;
  cairn_generation_get(g, &info);
  out->n = (int64_t)info.n_tokens;
  memcpy(out->tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  out->seconds = info.decode_seconds / (double)(out->n - 1);
  cairn_generation_destroy(g);
  return true;
}

// A run as a program without an engine makes it: inputs are made anew, the logits are what the run gives.
static cairn_status run_once(const bench *b, int32_t token, int64_t length, float *row) {
  const crn_llm_contract *c = b->llm->runner.contract;
  cairn_ndarray *ids = NULL, *positions = NULL, *logits = NULL;
  cairn_outputs *outputs = NULL;
  cairn_named_array inputs[2];
  int n = 0;
  cairn_status status;
  CRN_TRY_GOTO(cairn_ndarray_create(b->context, c->ids->dtype, (const int64_t[]){1, 1}, 2, &ids));
  *(int32_t *)cairn_ndarray_mutable_data(ids) = token;
  inputs[n++] = (cairn_named_array){c->ids->name, ids};
  if (c->positions) {
    CRN_TRY_GOTO(cairn_ndarray_create(b->context, c->positions->dtype, (const int64_t[]){1, length}, 2, &positions));
    for (int64_t i = 0; i < length; i++) ((int32_t *)cairn_ndarray_mutable_data(positions))[i] = (int32_t)i;
    inputs[n++] = (cairn_named_array){c->positions->name, positions};
  }
  const cairn_run_args args = {.inputs = inputs, .n_inputs = n, .states = b->llm->states.arrays, .n_states = c->n_states};
  CRN_TRY_GOTO(cairn_function_run(b->llm->runner.function, &args, &outputs));
  CRN_TRY_GOTO(cairn_outputs_take(outputs, c->logits->name, &logits));
  crn_logits_widen(NULL, cairn_ndarray_dtype(logits), cairn_ndarray_data(logits), row, c->vocab_size);
done:
  cairn_ndarray_release(ids);
  cairn_ndarray_release(positions);
  cairn_ndarray_release(logits);
  cairn_outputs_destroy(outputs);
  return status;
}

static cairn_status loop_of_runs(const bench *b, crn_sampler *sampler, float *row, measured *out) {
  double start = 0;
  int32_t token = b->prompt[b->n_prompt - 1];
  for (out->n = 0; out->n < b->n_tokens; out->n++) {
    CRN_TRY(run_once(b, token, b->n_prompt + out->n, row));
    token = crn_sampler_pick(sampler, row);
    CRN_TRY(crn_sampler_accept(sampler, token));
    out->tokens[out->n] = token;
    if (!out->n) start = crn_seconds_now();
    const cairn_token_event event = {.index = out->n, .token = token, .text = ""};
    on_token((void *)b->consumer, &event);
  }
  out->seconds = (crn_seconds_now() - start) / (double)(out->n - 1);
  return CAIRN_OK;
}

// The caches hold the prompt and are large enough, for the engine ran before.
static bool run_runs(bench *b, measured *out) {
  const int64_t vocab = b->llm->model->contract.vocab_size;
  crn_sampler sampler = {0};
  float *row = malloc((size_t)vocab * sizeof *row);
  cairn_status status = cairn_llm_reset(b->llm, b->n_prompt - 1);
  if (status == CAIRN_OK) status = crn_sampler_initialize(&sampler, b->context, &b->sampler->sampling, vocab);
  if (status == CAIRN_OK && row) status = loop_of_runs(b, &sampler, row, out);
  if (sampler.allocator) crn_sampler_deinitialize(&sampler);
  free(row);
  return row && check(status, "runs");
}

static bool run_arm(bench *b, int arm, measured *out) {
  if (arm == ARM_RUNS) return run_runs(b, out);
  return run_engine(b, arm == ARM_PIPELINED ? &crn_llm_pipelined_driver : &crn_llm_sequential_driver, out);
}

// --- cells --------------------------------------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *list, int n) {
  qsort(list, (size_t)n, sizeof *list, compare_doubles);
  return n % 2 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2;
}

// All arms in turn, in another order each round; the round before the first one is thrown away.
static bool measure_cell(bench *b, int rounds, const char *model) {
  double seconds[N_ARMS][MAX_ROUNDS], ratios[2][MAX_ROUNDS];
  measured first = {0};
  bool is_equal = true;
  for (int round = -1; round < rounds; round++) {
    for (int k = 0; k < N_ARMS; k++) {
      const int arm = round < 0 ? k : (k + round) % N_ARMS;
      measured m = {0};
      if (!run_arm(b, arm, &m)) return false;
      if (round < 0 && !k) first = m;
      is_equal = is_equal && m.n == first.n && !memcmp(m.tokens, first.tokens, (size_t)m.n * sizeof *m.tokens);
      if (round >= 0) seconds[arm][round] = m.seconds;
    }
    if (round < 0) continue;
    ratios[0][round] = seconds[ARM_SEQUENTIAL][round] / seconds[ARM_PIPELINED][round];
    ratios[1][round] = seconds[ARM_RUNS][round] / seconds[ARM_PIPELINED][round];
  }
  printf(
      "{\"model\":\"%s\",\"context\":%lld,\"sampler\":\"%s\",\"consumer\":\"%s\",\"consumer_ms\":%g,\"works\":%s,\"depth\":%d,"
      "\"equal\":%s",
      model, (long long)b->n_prompt, b->sampler->name, b->consumer->name, b->consumer->seconds * 1e3, b->consumer->works ? "true" : "false",
      b->llm->model->pipeline_depth, is_equal ? "true" : "false");
  for (int arm = 0; arm < N_ARMS; arm++) printf(",\"%s_ms\":%.4f", kArms[arm], median(seconds[arm], rounds) * 1e3);
  printf(",\"gain\":%.4f,\"gain_runs\":%.4f}\n", median(ratios[0], rounds), median(ratios[1], rounds));
  fflush(stdout);
  return true;
}

// --- a model ------------------------------------------------------------------------------------------------------------

typedef struct settings {
  bool is_quick;
  int rounds;
  int64_t n_tokens;
} settings;

static cairn_llm *open_model(cairn_context *context, const char *path, int depth) {
  cairn_llm *llm;
  const cairn_llm_options o = {.engine = "pipelined", .pipeline_depth = depth};
  return check(cairn_llm_open(context, path, &o, &llm), path) ? llm : NULL;
}

// The parts of the whole matrix that --quick keeps: every consumer at the short context, and a few of the rest.
static bool is_wanted(const settings *s, size_t context, size_t sampler, size_t consumer) {
  if (!s->is_quick) return true;
  const bool is_few = consumer == 0 || consumer == 2;
  return (context == 0 && sampler == 0) || ((context == 0 || sampler == 0) && is_few);
}

static bool measure_context(bench *b, const settings *s, const char *name, size_t context) {
  // From here on the caches hold the prompt: every arm feeds its last token. (In int8 a token has other roundings alone than in a piece.)
  measured m;
  b->sampler = &kSamplers[0];
  b->consumer = &kConsumers[0];
  if (!run_arm(b, ARM_SEQUENTIAL, &m)) return false;
  for (size_t i = 0; i < COUNT(kSamplers); i++) {
    for (size_t k = 0; k < COUNT(kConsumers); k++) {
      b->sampler = &kSamplers[i];
      b->consumer = &kConsumers[k];
      if (!is_wanted(s, context, i, k)) continue;
      fprintf(stderr, "%s, context %lld, %s, %s\n", name, (long long)b->n_prompt, b->sampler->name, b->consumer->name);
      if (!measure_cell(b, s->rounds, name)) return false;
    }
  }
  return true;
}

static void fill_prompt(int32_t *tokens, int64_t n, int64_t vocab) {
  uint32_t seed = 1;
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    tokens[i] = (int32_t)((seed >> 8) % (uint32_t)vocab);
  }
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool measure_model(cairn_context *context, const char *path, const settings *s) {
  cairn_llm *llm = open_model(context, path, 0);
  if (!llm) return false;
  bool ok = true;
  for (size_t i = 0; ok && i < COUNT(kContexts); i++) {
    const int64_t vocab = llm->model->contract.vocab_size, room = llm->max_context - s->n_tokens;
    const int64_t n = kContexts[i] < room ? kContexts[i] : room;  // a short context is used as far as it goes
    int32_t *prompt = malloc((size_t)n * sizeof *prompt);
    bench b = {.context = context, .llm = llm, .prompt = prompt, .n_prompt = n, .n_tokens = s->n_tokens};
    if (prompt && n > (i ? kContexts[i - 1] : 0)) {
      fill_prompt(prompt, n, vocab);
      ok = measure_context(&b, s, name_of(path), i);
    }
    free(prompt);
  }
  cairn_llm_close(llm);
  return ok;
}

// What the depth is worth, for a caller that now and then is slow.
static bool measure_depths(cairn_context *context, const char *path, const settings *s) {
  static const int kDepths[] = {1, 2, 3, 8};
  int32_t prompt[16];
  bool ok = true;
  for (size_t i = 0; ok && i < COUNT(kDepths); i++) {
    cairn_llm *llm = open_model(context, path, kDepths[i]);
    if (!llm) return false;
    bench b = {.context = context,
               .llm = llm,
               .prompt = prompt,
               .n_prompt = 16,
               .n_tokens = s->n_tokens,
               .sampler = &kSamplers[0],
               .consumer = &kConsumers[2]};
    fill_prompt(prompt, 16, llm->model->contract.vocab_size);
    measured m;
    ok = run_arm(&b, ARM_SEQUENTIAL, &m) && measure_cell(&b, s->rounds, name_of(path));
    cairn_llm_close(llm);
  }
  return ok;
}

static int usage(void) {
  fprintf(stderr, "bench_pipelined [--quick] [--rounds N] [--tokens N] MODEL...\n");
  return 2;
}

int main(int argc, char **argv) {
  settings s = {.rounds = 0, .n_tokens = ASSUMED_TOKENS};
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (!strcmp(argv[i], "--quick")) {
      s.is_quick = true;
    } else if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
      s.rounds = atoi(argv[++i]);
    } else if (!strcmp(argv[i], "--tokens") && i + 1 < argc) {
      s.n_tokens = atoi(argv[++i]);
    } else {
      return usage();
    }
  }
  if (!s.rounds) s.rounds = s.is_quick ? 3 : 5;
  if (i == argc || s.rounds < 1 || s.rounds > MAX_ROUNDS || s.n_tokens < 2 || s.n_tokens > MAX_TOKENS) return usage();
  cairn_context *context;
  if (!check(cairn_context_create(NULL, &context), "context")) return 1;
  bool ok = true;
  for (int k = i; ok && k < argc; k++) ok = measure_model(context, argv[k], &s);
  if (ok && i + 1 < argc) ok = measure_depths(context, argv[i + 1], &s);
  cairn_context_release(context);
  return ok ? 0 : 1;
}
