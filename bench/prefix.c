// What a prefix that was computed before is worth: the time to the first token of N tokens that are known and M new ones, cold and from
// each place where rows are kept, and the bytes a fork copies.
//
//   prefix MODEL [N=4096] [M=16] [ROUNDS=3]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"

static void check(cairn_status status) { bench_check("prefix", status); }

static double work_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// `work` is the time of all threads, which other load of the machine changes little.
typedef struct run {
  double seconds, work;
  int64_t hit, from_memory, from_disk;
  int32_t token;
} run;

static run first_token(cairn_llm *llm, const int32_t *tokens, int64_t n) {
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = (size_t)n, .max_tokens = 1, .ignore_eos = true};
  cairn_generation *g;
  cairn_generation_info info;
  const double start = work_now();
  check(cairn_llm_generate(llm, &o, &g));
  const double work = work_now() - start;
  cairn_generation_get(g, &info);
  run r = {info.prefill_seconds, work, info.prefix_hit, info.prefix_from_memory, info.prefix_from_disk, info.tokens[0]};
  cairn_generation_destroy(g);
  return r;
}

static double g_cold, g_cold_work;
static int32_t g_token;

static void print(const char *what, const run *r) {
  printf("%-34s %10.4f s   hit %5lld   1/%-7.1f  work 1/%-7.1f%s\n", what, r->seconds, (long long)r->hit, g_cold / r->seconds,
         g_cold_work / r->work, r->token == g_token ? "" : "   OTHER TOKEN");
}

static int by_time(const void *a, const void *b) {
  const double x = ((const run *)a)->seconds, y = ((const run *)b)->seconds;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: prefix MODEL [TOKENS] [NEW] [ROUNDS]\n");
    return 2;
  }
  const int64_t n = argc > 2 ? atoll(argv[2]) : 4096, m = argc > 3 ? atoll(argv[3]) : 16;
  const int rounds = argc > 4 ? atoi(argv[4]) : 3;
  char folder[] = "/tmp/cairn-prefix-XXXXXX", file[64], command[96];
  if (!mkdtemp(folder) || n < 64 || m < 1 || rounds < 1 || rounds > 64) return 2;
  snprintf(file, sizeof file, "%s/session", folder);
  cairn_context *context;
  cairn_llm *llm, *memory, *other;
  check(cairn_context_create(NULL, &context));
  const char *kv = getenv("PREFIX_KV");
  const cairn_llm_options o = {.kv = kv, .prompt_cache = folder}, with_memory = {.kv = kv, .prefix_bytes = (size_t)8 << 30};
  check(cairn_llm_open(context, argv[1], &o, &llm));
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  int32_t *tokens = malloc((size_t)(n + m) * sizeof *tokens);
  uint32_t seed = 1;
  for (int64_t i = 0; tokens && i < n + m; i++) {
    seed = seed * 1664525u + 1013904223u;
    tokens[i] = (int32_t)((seed >> 8) % (uint32_t)info.vocab_size);
  }
  check(cairn_llm_warm_up(llm, 32));
  printf("%s: %s, precision %s, kv %s, %d threads; %lld tokens that are known, %lld new\n", info.name, info.engine, info.precision,
         info.kv_strategy, cairn_context_threads(context), (long long)n, (long long)m);
  // Cold: all of it. Then only the prefix is left everywhere it can be.
  run r = first_token(llm, tokens, n + m);
  g_cold = r.seconds;
  g_cold_work = r.work;
  g_token = r.token;
  print("cold", &r);
  run all[4][64];
  for (int i = 0; i < rounds; i++) {
    check(cairn_llm_reset(llm, n));
    all[0][i] = first_token(llm, tokens, n + m);
    check(cairn_llm_reset(llm, 0));
    all[1][i] = first_token(llm, tokens, n + m);
    check(cairn_llm_save(llm, file));
    check(cairn_llm_create_sequence(llm, &other));
    const double start = bench_now(), work = work_now();
    check(cairn_llm_restore(other, file));
    const double restored = bench_now() - start, restored_work = work_now() - work;
    check(cairn_llm_reset(other, n));
    all[2][i] = first_token(other, tokens, n + m);
    all[2][i].seconds += restored;
    all[2][i].work += restored_work;
    check(cairn_llm_reset(other, 0));
    cairn_llm_close(other);
  }
  check(cairn_llm_open(context, argv[1], &with_memory, &memory));
  check(cairn_llm_warm_up(memory, 32));
  check(cairn_llm_restore(memory, file));
  check(cairn_llm_register_prefix(memory, n));
  for (int i = 0; i < rounds; i++) {
    check(cairn_llm_create_sequence(memory, &other));
    all[3][i] = first_token(other, tokens, n + m);
    check(cairn_llm_reset(other, 0));
    cairn_llm_close(other);
  }
  cairn_llm_close(memory);
  static const char *const kNames[] = {"the sequence itself", "prompt cache on disk", "saved session (with its reading)",
                                       "another sequence in memory"};
  for (int k = 0; k < 4; k++) {
    qsort(all[k], (size_t)rounds, sizeof all[k][0], by_time);
    print(kNames[k], &all[k][rounds / 2]);
  }
  check(cairn_llm_reset(llm, n));
  const double start = bench_now();
  check(cairn_llm_fork(llm, n, &other));
  const double forked = bench_now() - start;
  cairn_llm_info fork;
  cairn_llm_describe(other, &fork);
  printf("a fork of %lld tokens: %.6f s, %zu bytes copied of %zu\n", (long long)n, forked, fork.kv_bytes_copied, fork.kv_bytes);
  cairn_llm_close(other);
  cairn_llm_close(llm);
  cairn_context_release(context);
  free(tokens);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) != 0;
}
