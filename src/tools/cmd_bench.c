// cairn bench: prompt and generation speed of a language model by a fixed protocol; llm-benchmark is the same with the flags and the
// console of Apple's program of that name.
//
//   apple         512 prompt tokens, 1024 generated, 5 trials after a warm-up, means (prompt: splitmix64, seed 0)
//   pb-random-v1  128 prompt tokens, 256 generated, 1 cold and 3 warm trials in one process, medians
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/bandwidth.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/region.h"
#include "import/synthetic/synthetic.h"
#include "tools/bench_batch.h"
#include "tools/bench_prompt.h"
#include "tools/commands.h"
#include "tools/generation.h"
#include "tools/json_writer.h"
#include "tools/outputs.h"

#define GROUP_PROTOCOL "Protocol"
#define GROUP_OUTPUT "Output"
#define AT(member) offsetof(bench_options, member)

typedef struct bench_options {
  const char *protocol, *model, *output_json;
  crn_option_integer prompt_tokens, generation_tokens, trials, batch;
  crn_option_number batch_step;
  crn_option_unsigned seed;
  bool json, clear_cache;
  crn_generation_values generation;
} bench_options;

// A command line that Apple's program would refuse is refused with its words, so there the counts are checked later.
#define BENCH_COUNT(flag, short_flag, member, least, text)                                                                      \
  {                                                                                                                             \
    .name = flag, .letter = short_flag, .kind = OPTION_INTEGER, .offset = AT(member), .argument = "N", .group = GROUP_PROTOCOL, \
    .help = text, .minimum = least, .maximum = 1e9                                                                              \
  }
#define BENCH_COUNTS(least)                                                                                \
  BENCH_COUNT("prompt-tokens", 'p', prompt_tokens, least, "length of the prompt"),                         \
      BENCH_COUNT("generation-tokens", 'g', generation_tokens, least, "tokens to generate"),               \
      BENCH_COUNT("num-trials", 'n', trials, least, "trials after the warm-up"), {                         \
    .name = "seed", .kind = OPTION_UNSIGNED, .offset = AT(seed), .argument = "N", .group = GROUP_PROTOCOL, \
    .help = "of the prompt's tokens"                                                                       \
  }

static const crn_tool_option g_options[] = {
    {.name = "protocol",
     .kind = OPTION_TEXT,
     .offset = AT(protocol),
     .argument = "NAME",
     .group = GROUP_PROTOCOL,
     .help = "apple: 512/1024/5, means; pb-random-v1: 128/256, one cold and three warm trials, medians",
     .choices = "apple|pb-random-v1"},
    BENCH_COUNTS(1),
    {.name = "batch",
     .kind = OPTION_INTEGER,
     .offset = AT(batch),
     .argument = "N",
     .group = GROUP_PROTOCOL,
     .help = "1, 2, 4, … N sequences at once instead of trials, and a prompt that comes to the others (defaults: 64 prompt tokens, 64 "
             "generated)",
     .minimum = 1,
     .maximum = 64},
    {.name = "batch-step",
     .kind = OPTION_NUMBER,
     .offset = AT(batch_step),
     .argument = "SECONDS",
     .group = GROUP_PROTOCOL,
     .help = "with --batch: how long a step may take while prompts are computed (default 0.1)",
     .minimum = 1e-6,
     .maximum = 3600},
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json), .group = GROUP_OUTPUT, .help = "one JSON document on stdout"},
    {.name = "output-json",
     .kind = OPTION_TEXT,
     .offset = AT(output_json),
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = GROUP_OUTPUT,
     .help = "the JSON document as a file"},
    CRN_ENGINE_OPTIONS(bench_options),
};

static const crn_tool_option g_alias_options[] = {
    {.name = "model",
     .kind = OPTION_TEXT,
     .offset = AT(model),
     .argument = "PATH",
     .place = PLACE_MODEL,
     .group = GROUP_PROTOCOL,
     .help = "the model's folder or file (required)"},
    BENCH_COUNTS(-1e9),
    {.name = "output-json",
     .kind = OPTION_TEXT,
     .offset = AT(output_json),
     .argument = "FILE",
     .place = PLACE_DEEP,
     .group = GROUP_OUTPUT,
     .help = "results as a JSON file"},
    {.name = "clear-coreai-cache",
     .kind = OPTION_FLAG,
     .offset = AT(clear_cache),
     .group = GROUP_PROTOCOL,
     .help = "forget specialized forms of the model first"},
    CRN_ENGINE_OPTIONS(bench_options),
};

static const bench_options g_defaults;

// --- measuring ----------------------------------------------------------------------------------------------------------------

typedef struct trial {
  double prompt_tps, generation_tps, prompt_seconds, p50, p95;  ///< the last two: seconds between tokens
} trial;

typedef struct bench {
  crn_tool *t;
  const bench_options *o;
  const char *path;
  cairn_llm *llm;
  int64_t n_prompt, n_generate, n_trials;
  bool is_medians;
  bool is_alias;  ///< llm-benchmark
  int32_t *prompt;
  double *times;  ///< of tokens
  int64_t n_times;
  trial *trials;
  double *values;  ///< one a trial
  trial summary;
  crn_bench_batch_result batch;
  double prepare_seconds, warmup_seconds;
  int64_t peak_bytes;
  double read_speed;  ///< bytes a second that memory gives to all threads; 0 = not measured
} bench;

static bool take_time(void *user, const cairn_token_event *event) {
  bench *b = user;
  if (event->token >= 0 && b->n_times < b->n_generate) b->times[b->n_times++] = crn_tool_now();
  return !crn_interrupt_pending();
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static cairn_status run_trial(bench *b, trial *out) {
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  CRN_TRY(cairn_llm_reset(b->llm, 0));
  cairn_generate_options options = {.tokens = b->prompt,
                                    .n_tokens = (size_t)b->n_prompt,
                                    .max_tokens = b->n_generate,
                                    .ignore_eos = true,
                                    .on_token = take_time,
                                    .user = b};
  cairn_generation *g = NULL;
  b->n_times = 0;
  double start = crn_tool_now();
  cairn_status status = cairn_llm_generate(b->llm, &options, &g);
  cairn_generation_destroy(g);
  CRN_TRY(status);
  if (b->n_times < b->n_generate) return CRN_FAIL(CANCELLED, "interrupted");
  double prompt = b->times[0] - start, generation = b->times[b->n_times - 1] - b->times[0];
  *out = (trial){.prompt_tps = (double)b->n_prompt / prompt,
                 .generation_tps = b->n_times > 1 ? (double)(b->n_times - 1) / generation : 0,
                 .prompt_seconds = prompt};
  int64_t n = b->n_times - 1;
  for (int64_t i = 0; i < n; i++) b->times[i] = b->times[i + 1] - b->times[i];
  qsort(b->times, (size_t)n, sizeof *b->times, compare);
  if (n > 0) {
    out->p50 = b->times[n / 2];
    out->p95 = b->times[n * 95 / 100];
  }
  return CAIRN_OK;
}

static double middle(const bench *b, size_t offset) {
  double *values = b->values, sum = 0;
  int64_t n = b->n_trials;
  for (int64_t i = 0; i < n; i++) {
    values[i] = *(const double *)(const void *)((const char *)&b->trials[i] + offset);
    sum += values[i];
  }
  if (!b->is_medians) return sum / (double)n;
  qsort(values, (size_t)n, sizeof *values, compare);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void summarize(bench *b) {
  b->summary = (trial){middle(b, offsetof(trial, prompt_tps)), middle(b, offsetof(trial, generation_tps)),
                       middle(b, offsetof(trial, prompt_seconds)), middle(b, offsetof(trial, p50)), middle(b, offsetof(trial, p95))};
}

// --- results ------------------------------------------------------------------------------------------------------------------

static int64_t peak_bytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)usage.ru_maxrss * 1024;
}

// What a token in the middle of the generation reads: weights, and the rows of the cache before it.
static double token_bytes(const bench *b, const cairn_llm_info *info) {
  double rows = (double)b->n_prompt + (double)b->n_generate / 2,
         row = info->kv_capacity ? (double)info->kv_bytes / (double)info->kv_capacity : 0;
  return (double)info->weight_bytes + row * rows;
}

// Of what memory gives, how much decoding takes.
static double roof_share(const bench *b, const cairn_llm_info *info) {
  return b->read_speed > 0 ? b->summary.generation_tps * token_bytes(b, info) / b->read_speed : 0;
}

// Measured in the same minute, because what memory gives differs from one to the next. Called last: it takes memory of its own.
static void measure_memory(bench *b) {
  enum { TRIES = 8 };
  static const size_t bytes = (size_t)512 << 20;
  crn_memory_region region = {0};
  crn_pool *pool = NULL;
  char *memory;
  cairn_status status = crn_pool_create(crn_default_allocator(), cairn_context_threads(b->t->context), &pool);
  if (status == CAIRN_OK) status = crn_memory_region_take(&region, bytes, &memory);
  if (status == CAIRN_OK) b->read_speed = crn_memory_read_speed(pool, memory, bytes, TRIES);
  // Figures without a limit beside them are figures still.
  if (status != CAIRN_OK) crn_error_clear();
  crn_memory_region_release(&region);
  crn_pool_destroy(pool);
}

static void write_trial(const bench *b, const trial *t, crn_json_writer *w) {
  crn_jw_open_inline_object(w);
  if (!b->is_alias) crn_jw_put_number(w, "first_token_s", t->prompt_seconds);
  crn_jw_put_number(w, "gen_tps", t->generation_tps);
  crn_jw_put_number(w, "prompt_tps", t->prompt_tps);
  if (!b->is_alias) crn_jw_put_number(w, "token_p50_s", t->p50);
  if (!b->is_alias) crn_jw_put_number(w, "token_p95_s", t->p95);
  crn_jw_close_object(w);
}

static void write_provenance(const bench *b, crn_json_writer *w) {
  cairn_llm_info info;
  double load[3] = {0};
  cairn_llm_describe(b->llm, &info);
  crn_jw_key(w, "provenance");
  crn_jw_open_inline_object(w);
  const bool is_batch = b->o->batch.given;
  crn_jw_put_text(w, "protocol", is_batch ? "batch" : b->o->protocol ? b->o->protocol : "apple");
  crn_jw_put_text(w, "summary", b->is_medians ? "medians" : "means");
  crn_jw_put_text(w, "version", cairn_version());
  crn_jw_put_text(w, "engine", info.engine);
  crn_jw_put_text(w, "device", "cpu");
  crn_jw_put_text(w, "precision", info.precision);
  crn_jw_put_text(w, "kv", info.kv_strategy);
  crn_jw_put_integer(w, "threads", cairn_context_threads(b->t->context));
  crn_jw_put_integer(w, "cpu_bits", (int64_t)crn_cpu_bits());
  crn_jw_put_number(w, "load_average", getloadavg(load, 1) == 1 ? load[0] : 0);
  crn_jw_put_integer(w, "peak_memory_bytes", b->peak_bytes);
  // The caches of a batch are those of its sequences, and gone when this is written; peak_memory_bytes has them.
  if (!is_batch) crn_jw_put_integer(w, "kv_bytes", (int64_t)info.kv_bytes);
  crn_jw_put_integer(w, "weight_bytes_per_token", (int64_t)info.weight_bytes);
  if (!is_batch) crn_jw_put_integer(w, "bytes_per_token", (int64_t)token_bytes(b, &info));
  crn_jw_put_number(w, "read_bytes_per_s", b->read_speed);
  if (!is_batch) crn_jw_put_number(w, "roofline_share", roof_share(b, &info));
  crn_jw_close_object(w);
}

// Apple's keys as they are and where they are; ours beside them, but for the program that goes by Apple's name.
static void write_json(const bench *b, crn_json_writer *w) {
  cairn_llm_info info;
  cairn_llm_describe(b->llm, &info);
  crn_jw_open_object(w);
  crn_jw_key(w, "averages");
  crn_jw_open_inline_object(w);
  crn_jw_put_number(w, "generation_tps", b->summary.generation_tps);
  crn_jw_put_number(w, "prompt_tps", b->summary.prompt_tps);
  crn_jw_close_object(w);
  if (b->o->batch.given) {
    crn_jw_key(w, "batch");
    crn_bench_batch_write(&b->batch, w);
  }
  crn_jw_put_boolean(w, "cache_hit", info.cache_hit);
  crn_jw_put_integer(w, "generation_tokens", b->n_generate);
  crn_jw_put_text(w, "model", b->path);
  crn_jw_put_integer(w, "num_trials", b->n_trials);
  crn_jw_put_number(w, "prepare_seconds", b->prepare_seconds);
  crn_jw_put_integer(w, "prompt_tokens", b->n_prompt);
  if (!b->is_alias) write_provenance(b, w);
  crn_jw_key(w, "trials");
  crn_jw_open_array(w, false);
  for (int64_t i = 0; i < b->n_trials; i++) write_trial(b, &b->trials[i], w);
  crn_jw_close_array(w);
  crn_jw_put_number(w, "warmup_seconds", b->warmup_seconds);
  crn_jw_close_object(w);
}

static cairn_status put_json(bench *b) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  write_json(b, &w);
  cairn_status status = w.status;
  if (status == CAIRN_OK && b->o->json) status = crn_jw_print(&w, stdout);
  if (status == CAIRN_OK && b->o->output_json) status = crn_file_replace(b->o->output_json, w.text.data, w.text.size);
  crn_jw_deinitialize(&w);
  return status;
}

static bool is_talking(const bench *b) { return !b->o->json && !b->t->quiet; }

static cairn_status run_trials(bench *b) {
  double start = crn_tool_now();
  trial warm;
  if (is_talking(b)) printf("⚙️  Warming up engine...");
  CRN_TRY(run_trial(b, &warm));
  b->warmup_seconds = crn_tool_now() - start;
  if (is_talking(b))
    printf(" done in %.3f seconds\n🔄 Benchmarking with %lld prompt tokens, %lld generation tokens\n", b->warmup_seconds,
           (long long)b->n_prompt, (long long)b->n_generate);
  for (int64_t i = 0; i < b->n_trials; i++) {
    CRN_TRY(run_trial(b, &b->trials[i]));
    if (is_talking(b))
      printf("🧪 Trial %lld\n⚡ Prompt:  %.3f tokens/sec\n🏃 Generation: %.3f tokens/sec\n", (long long)i + 1, b->trials[i].prompt_tps,
             b->trials[i].generation_tps);
    fflush(stdout);
  }
  return CAIRN_OK;
}

static void print_limits(const bench *b) {
  cairn_llm_info info;
  cairn_llm_describe(b->llm, &info);
  printf("Token:      p50 %.3f ms, p95 %.3f ms\nReads:      %.1f MB a token, %.2f of the %.1f GB/s that memory gives\n",
         b->summary.p50 * 1e3, b->summary.p95 * 1e3, token_bytes(b, &info) / 1e6, roof_share(b, &info), b->read_speed / 1e9);
  printf("Memory:     %.1f MB at most; packed weights were %s\n", (double)b->peak_bytes / 1e6, info.cache_hit ? "there" : "made");
}

static void print_summary(const bench *b) {
  static const char line[] = "==================================================";
  if (!is_talking(b)) return;
  printf(
      "\n%s\n📊 Benchmark Summary:\n%s\nPrepare:    %.3f seconds\nWarmup:     %.3f seconds\nPrompt:     %.3f tokens/sec\n"
      "Generation: %.3f tokens/sec\n",
      line, line, b->prepare_seconds, b->warmup_seconds, b->summary.prompt_tps, b->summary.generation_tps);
  if (!b->is_alias) print_limits(b);
  if (b->o->output_json) printf("Wrote: %s\n", b->o->output_json);
}

// What one sequence has room for, and who says so.
static cairn_status check_room(const bench *b, const cairn_llm_info *info) {
  if (b->n_prompt + b->n_generate <= info->max_context) return CAIRN_OK;
  const crn_generation_values *v = &b->o->generation;
  const bool is_cache = v->kv_capacity.given && info->kv_limit == info->max_context && v->kv_capacity.value == info->kv_limit;
  const bool is_asked = v->max_context.given && v->max_context.value == info->max_context;
  return CRN_FAIL(CONTEXT_FULL, "%lld prompt and %lld generated tokens are more than the %lld %s (-p and -g say how many)",
                  (long long)b->n_prompt, (long long)b->n_generate, (long long)info->max_context,
                  is_cache   ? "the cache holds, see --kv-capacity"
                  : is_asked ? "that --max-context allows"
                             : "the model takes");
}

static cairn_status prepare(bench *b) {
  double start = crn_tool_now();
  cairn_llm_info info;
  CRN_TRY(crn_generation_open(b->t, b->path, &b->o->generation, CRN_NEED_IDS, &b->llm));
  b->prepare_seconds = crn_tool_now() - start;
  cairn_llm_describe(b->llm, &info);
  CRN_TRY(check_room(b, &info));
  CRN_TRY(crn_arena_array(b->t->arena, (size_t)b->n_prompt, sizeof *b->prompt, &b->prompt));
  CRN_TRY(crn_arena_array(b->t->arena, (size_t)b->n_generate, sizeof *b->times, &b->times));
  CRN_TRY(crn_arena_array(b->t->arena, (size_t)b->n_trials, sizeof *b->trials, &b->trials));
  CRN_TRY(crn_arena_array(b->t->arena, (size_t)b->n_trials, sizeof *b->values, &b->values));
  crn_bench_prompt(b->o->seed.given ? b->o->seed.value : 0, info.vocab_size, b->n_prompt, b->prompt);
  return CAIRN_OK;
}

// Sequences at once instead of trials; what one sequence gives stands where the averages are.
static cairn_status run_batch(bench *b) {
  const crn_bench_batch_options o = {.most = (int)b->o->batch.value,
                                     .n_prompt = b->n_prompt,
                                     .n_generate = b->n_generate,
                                     .seed = b->o->seed.given ? b->o->seed.value : 0,
                                     .max_step_seconds = b->o->batch_step.given ? b->o->batch_step.value : 0,
                                     .is_talking = is_talking(b)};
  CRN_TRY(crn_bench_batch(b->t, b->llm, &o, &b->batch));
  b->summary.generation_tps = b->batch.points[0].tps;
  return CAIRN_OK;
}

static int64_t given_or(const crn_option_integer *o, int64_t fallback) { return o->given ? o->value : fallback; }

static int run_bench_on(crn_tool *t, const bench_options *o, const char *path, bool is_alias) {
  bool random = o->protocol && strcmp(o->protocol, "pb-random-v1") == 0;
  if (o->batch.given && (o->trials.given || o->protocol))
    return crn_tool_usage_error(t, "--num-trials and --protocol are about trials; --batch measures sequences at once instead");
  bench b = {.t = t, .o = o, .path = path, .is_medians = random, .is_alias = is_alias};
  b.n_prompt = given_or(&o->prompt_tokens, random ? 128 : 512);
  b.n_generate = given_or(&o->generation_tokens, random ? 256 : 1024);
  b.n_trials = given_or(&o->trials, random ? 3 : 5);
  if (o->batch.given) {
    b.n_prompt = given_or(&o->prompt_tokens, 64);
    b.n_generate = given_or(&o->generation_tokens, 64);
    b.n_trials = 0;
  } else if (o->batch_step.given) {
    return crn_tool_usage_error(t, "--batch-step belongs to --batch");
  }
  int code = crn_generation_check(t, &o->generation);
  if (code != TOOL_CONTINUE) return code;
  crn_interrupt_catch();
  cairn_status status = crn_tool_open_context(t);
  if (status == CAIRN_OK) status = prepare(&b);
  if (status == CAIRN_OK) status = o->batch.given ? run_batch(&b) : run_trials(&b);
  if (status == CAIRN_OK) {
    b.peak_bytes = peak_bytes();
    if (!is_alias) measure_memory(&b);
    if (!o->batch.given) summarize(&b);
    if (o->json || o->output_json) status = put_json(&b);
    if (status == CAIRN_OK && !o->batch.given) print_summary(&b);
  }
  cairn_llm_close(b.llm);
  return crn_tool_flush(t, crn_tool_result(t, status));
}

static int run_bench(crn_tool *t, const void *values) { return run_bench_on(t, values, t->positionals[0], false); }

static int check_counts(crn_tool *t, const bench_options *o) {
  const struct {
    const char *name;
    const crn_option_integer *value;
  } counts[] = {{"prompt-tokens", &o->prompt_tokens}, {"generation-tokens", &o->generation_tokens}, {"num-trials", &o->trials}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (counts[i].value->given && counts[i].value->value < 1) return crn_tool_usage_error(t, "--%s must be >= 1", counts[i].name);
  }
  return TOOL_CONTINUE;
}

static cairn_status make_parent(crn_tool *t, const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL, *folder;
  if (!slash || slash == path) return CAIRN_OK;
  CRN_TRY(crn_arena_strndup(t->arena, path, (size_t)(slash - path), &folder));
  return crn_make_directories(folder);
}

static int run_alias(crn_tool *t, const void *values) {
  const bench_options *o = values;
  if (!o->model) return crn_tool_usage_error(t, "Missing expected argument '--model <model>'");
  int code = check_counts(t, o);
  if (code != TOOL_CONTINUE) return code;
  if (access(o->model, F_OK) != 0 && !crn_synthetic_is(o->model)) {
    fprintf(stderr, "Error: Model path not found: %s\n", o->model);
    return TOOL_FAILURE;
  }
  if (make_parent(t, o->output_json) != CAIRN_OK || crn_output_check_file("--output-json", o->output_json) != CAIRN_OK)
    return crn_tool_fail(t);
  if (o->clear_cache && crn_tool_clear_cache(t, o->model, o->model) != CAIRN_OK) return crn_tool_fail(t);
  return run_bench_on(t, o, o->model, true);
}

const crn_tool_command crn_command_bench = {
    .name = "bench",
    .synopsis = "MODEL [-p N] [-g N] [-n N] [options]",
    .summary = "prompt and generation speed of a language model",
    .description =
        "Generates greedily from a prompt of random tokens, ignoring end tokens: once to warm up, then as often as asked. With --json the "
        "keys "
        "of Apple's llm-benchmark, percentiles, and what the figures were made with.\n"
        "\n"
        "  cairn bench bundle\n"
        "  cairn bench bundle -p 512 -g 128 -n 3 --json\n"
        "  cairn bench bundle --batch 8\n"
        "  cairn bench model.gguf --protocol pb-random-v1",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .can_trace = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_bench,
};

const crn_tool_command crn_command_llm_benchmark = {
    .name = "llm-benchmark",
    .synopsis = "--model PATH [-p N] [-g N] [-n N] [--seed N] [--output-json FILE]",
    .summary = "prompt and generation speed of a language model",
    .description = "The benchmark of 'cairn bench' with the flags of Apple's llm-benchmark.",
    TOOL_OPTIONS(g_alias_options),
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_alias,
};
