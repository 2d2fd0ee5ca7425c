/// What storage of a key/value cache costs: growth on the way of a token, a fork, and a decoded token at a long context, pages beside one
/// piece of memory in turn.
///
///   bench_kv MODEL [CONTEXT [PAGE_ROWS]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"

enum { ROUNDS = 48, STEPS = 8, MOST = 1 << 16 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// Of all threads: with one (CAIRN_THREADS=1) other work on the machine hardly shows in it.
static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void need(cairn_status status) {
  if (status == CAIRN_OK) return;
  fprintf(stderr, "bench_kv: %s\n", cairn_last_error()->message);
  exit(1);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void print_load(void) {
  char line[64] = "";
  FILE *f = fopen("/proc/loadavg", "r");
  if (f && fgets(line, sizeof line, f)) printf("load average: %s", line);
  if (f) fclose(f);
}

static cairn_llm *open_model(cairn_context *context, const char *path, const char *kv, int64_t page_rows, const char *type) {
  cairn_llm *llm;
  need(cairn_llm_open(context, path, &(cairn_llm_options){.kv = kv, .kv_page = page_rows, .kv_type = type}, &llm));
  return llm;
}

static int32_t token_at(const cairn_llm *llm, int64_t i) {
  return (int32_t)((uint64_t)(i + 1) * 2654435761u % (uint64_t)llm->model->contract.vocab_size);
}

static void feed(cairn_llm *llm, int64_t n) {
  int32_t *tokens = malloc((size_t)n * sizeof *tokens);
  if (!tokens) exit(1);
  for (int64_t i = 0; i < n; i++) tokens[i] = token_at(llm, llm->history.n + i);
  need(cairn_llm_forward(llm, &(cairn_forward_options){.tokens = tokens, .n_tokens = (size_t)n}));
  free(tokens);
}

// --- growth -------------------------------------------------------------------------------------------------------------

// Steps from the start to `end`; the rows of each are taken in front of it, as the engine does, and that is timed where it grows.
static void measure_growth(cairn_llm *llm, int64_t end) {
  static double grown[MOST], plain[MOST];
  int n_grown = 0, n_plain = 0;
  feed(llm, 1);
  while (llm->history.n < end && n_plain < MOST) {
    int64_t capacity = llm->states.capacity;
    double start = now_ms();
    need(crn_llm_states_reserve(&llm->states, llm->history.n + 1, llm->history.n));
    double ms = now_ms() - start;
    if (llm->states.capacity != capacity) {
      grown[n_grown++] = ms;
    } else {
      plain[n_plain++] = ms;
    }
    feed(llm, 1);
  }
  cairn_segment_counts counts;
  cairn_ndarray_count_segments(llm->states.arrays[0].array, &counts);
  double worst = 0;
  for (int i = 0; i < n_grown; i++) worst = grown[i] > worst ? grown[i] : worst;
  printf("  %-8s %4d growths: median %.4f ms, worst %.4f ms; %.1f MiB copied", crn_llm_kv_text(llm->states.strategy), n_grown,
         median(grown, n_grown), worst, (double)llm->states.bytes_copied / (1 << 20));
  if (counts.page_rows)
    printf("; pages of %.2f MiB, %lld of them not made ready aside (the first ones)", (double)counts.page_bytes / (1 << 20),
           (long long)counts.n_waited);
  printf("\n           a step that does not grow: %.4f ms\n", median(plain, n_plain));
}

// --- decoding -----------------------------------------------------------------------------------------------------------

static double step_ms(cairn_llm *llm, int64_t context, double *out_cpu) {
  double times[STEPS], cpu[STEPS];
  need(cairn_llm_reset(llm, context));
  for (int i = 0; i < STEPS; i++) {
    double start = now_ms(), start_cpu = cpu_ms();
    feed(llm, 1);
    times[i] = now_ms() - start;
    cpu[i] = cpu_ms() - start_cpu;
  }
  *out_cpu = median(cpu, STEPS);
  return median(times, STEPS);
}

static void measure_decode(cairn_llm *const *llms, const char *const *names, int n, int64_t context) {
  static double times[8][ROUNDS], cpu[8][ROUNDS], ratios[8][ROUNDS], cpu_ratios[8][ROUNDS];
  for (int i = 0; i < n; i++) {
    feed(llms[i], context);
    (void)step_ms(llms[i], context, &cpu[i][0]);
  }
  // In turn, and beside the first of the same round: what else the machine does meets all of them.
  for (int r = 0; r < ROUNDS; r++) {
    for (int k = 0; k < n; k++) {
      int i = (k + r) % n;
      times[i][r] = step_ms(llms[i], context, &cpu[i][r]);
    }
    for (int i = 0; i < n; i++) ratios[i][r] = times[i][r] / times[0][r];
    for (int i = 0; i < n; i++) cpu_ratios[i][r] = cpu[i][r] / cpu[0][r];
  }
  for (int i = 0; i < n; i++) {
    double ratio = median(ratios[i], ROUNDS);
    printf("  %-12s %.3f ms a token, %.4f of %s (%.4f of its processor time), caches of %.1f MiB\n", names[i], median(times[i], ROUNDS),
           ratio, names[0], median(cpu_ratios[i], ROUNDS), (double)crn_llm_states_bytes(&llms[i]->states) / (1 << 20));
  }
}

static void measure_fork(cairn_llm *llm, const char *name) {
  double times[9];
  int64_t copied = 0;
  for (int i = 0; i < 9; i++) {
    cairn_llm *fork;
    double start = now_ms();
    need(cairn_llm_fork(llm, -1, &fork));
    times[i] = now_ms() - start;
    copied = fork->states.bytes_copied;
    cairn_llm_close(fork);
  }
  printf("  %-12s %.3f ms, %.1f MiB copied\n", name, median(times, 9), (double)copied / (1 << 20));
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: bench_kv MODEL [CONTEXT [PAGE_ROWS]]\n");
    return 64;
  }
  int64_t context = argc > 2 ? atoll(argv[2]) : 4096, page_rows = argc > 3 ? atoll(argv[3]) : 64;
  static const char *const kNames[] = {"growing", "paged", "paged int8"};
  cairn_context *c;
  need(cairn_context_create(NULL, &c));
  cairn_llm *llms[3] = {open_model(c, argv[1], "growing", 0, NULL), open_model(c, argv[1], "paged", page_rows, NULL),
                        open_model(c, argv[1], "paged", page_rows, "int8")};
  if (context + STEPS > llms[0]->max_context) context = llms[0]->max_context - STEPS;
  print_load();
  printf("growth, token by token to %lld:\n", (long long)(context < 1100 ? context : 1100));
  for (int i = 0; i < 2; i++) {
    measure_growth(llms[i], context < 1100 ? context : 1100);
    need(cairn_llm_reset(llms[i], 0));
  }
  printf("a decoded token at %lld, in turn, %d rounds of %d:\n", (long long)context, ROUNDS, STEPS);
  measure_decode(llms, kNames, 3, context);
  printf("a fork at %lld:\n", (long long)context);
  for (int i = 0; i < 3; i++) measure_fork(llms[i], kNames[i]);
  print_load();
  for (int i = 0; i < 3; i++) cairn_llm_close(llms[i]);
  cairn_context_release(c);
  return 0;
}
