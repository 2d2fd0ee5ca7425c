/// What a step costs beside the same step with another cache: models of any contract, in turn, at one position. A step must cost what the
/// positions there are cost, not what the cache could hold.
///
///   bench_contracts [-p POSITION] [-r ROUNDS] [-e ENGINE] MODEL[@KV] MODEL[@KV]...
///
/// MODEL is a path, or mlx:ROWS[:CONTEXT] for a model of the form that mlx2coreai writes, with the shape of qwen3-0.6b (fewer layers and a
/// smaller vocabulary) and caches of ROWS rows (? = dynamic), or plain:ASSET for a ladder with its caches as plain inputs and outputs. KV is
/// the storage of the cache (fixed, growing, paged). Ratios are to the first.
#include <string.h>

#include "bench/measure.h"
#include "engines/llm/static_shape.h"
#include "mlx_model.h"
#include "plain_form.h"

enum { MOST = 8, ROUNDS = 400, LAYERS = 4, VOCAB = 32768 };

typedef struct subject {
  const char *name;
  mlx_shape mlx;
  cairn_llm *llm;
  double *ms;
  int64_t written, runs;  // bytes of states, and runs
} subject;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(double *values, int n, double q) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return values[(int)(q * (n - 1))];
}

static void need(cairn_status status) { bench_check("bench_contracts", status); }

static void open_subject(cairn_context *context, const char *engine, subject *s) {
  char path[1024];
  const char *kv = strrchr(s->name, '@');
  snprintf(path, sizeof path, "%.*s", (int)(kv ? kv - s->name : (long)strlen(s->name)), s->name);
  const cairn_llm_options options = {.engine = engine, .kv = kv ? kv + 1 : NULL};
  if (!strncmp(path, "plain:", 6)) {
    plain_form form = {path + 6, 0};
    need(crn_llm_open_with(context, &options, plain_form_open, &form, &s->llm));
    return;
  }
  if (strncmp(path, "mlx:", 4) != 0) {
    need(cairn_llm_open(context, path, &options, &s->llm));
    return;
  }
  const char *then = strchr(path + 4, ':');
  s->mlx = (mlx_shape){.layers = LAYERS,
                       .width = 1024,
                       .inner = 3072,
                       .heads = 16,
                       .groups = 8,
                       .head_dim = 128,
                       .vocab = VOCAB,
                       .capacity = path[4] == '?' ? -1 : atoll(path + 4),
                       .dtype = CAIRN_F16};
  s->mlx.context = then ? atoll(then + 1) : s->mlx.capacity;
  need(crn_llm_open_with(context, &options, mlx_open, &s->mlx, &s->llm));
}

static void feed(cairn_llm *llm, int64_t n) {
  int32_t tokens[4096];
  for (int64_t i = 0; i < n; i++)
    tokens[i] = (int32_t)((uint64_t)(llm->history.n + i + 1) * 2654435761u % (uint64_t)llm->model->contract.vocab_size);
  need(cairn_llm_forward(llm, &(cairn_forward_options){.tokens = tokens, .n_tokens = (size_t)n}));
}

// What all functions of the model wrote into states so far.
static int64_t written(const cairn_llm *llm) {
  cairn_function_stats stats;
  int64_t bytes = 0;
  cairn_function_get_stats(llm->model->function, &stats);
  bytes += stats.state_bytes_written;
  for (size_t i = 0; llm->model->fixed && i < llm->model->fixed->ladder.rungs.size; i++) {
    if (!llm->graphs[i].is_ready || llm->graphs[i].function == llm->model->function) continue;
    cairn_function_get_stats(llm->graphs[i].function, &stats);
    bytes += stats.state_bytes_written;
  }
  return bytes;
}

static double step(subject *s, int64_t position) {
  need(cairn_llm_reset(s->llm, position));
  const int64_t before = written(s->llm);
  const double start = bench_now();
  feed(s->llm, 1);
  const double ms = (bench_now() - start) * 1e3;
  s->written += written(s->llm) - before;
  s->runs++;
  return ms;
}

int main(int argc, char **argv) {
  subject subjects[MOST];
  int64_t position = 12;
  int n = 0, rounds = ROUNDS;
  const char *engine = NULL;
  cairn_context *context;
  need(cairn_context_create(NULL, &context));
  memset(subjects, 0, sizeof subjects);
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-p") && i + 1 < argc) {
      position = atoll(argv[++i]);
    } else if (!strcmp(argv[i], "-r") && i + 1 < argc) {
      rounds = atoi(argv[++i]);
    } else if (!strcmp(argv[i], "-e") && i + 1 < argc) {
      engine = argv[++i];
    } else if (n < MOST) {
      subjects[n++].name = argv[i];
    }
  }
  if (n < 1 || rounds < 1 || position < 1 || position > 4096) {
    fprintf(stderr, "usage: bench_contracts [-p POSITION] [-r ROUNDS] [-e ENGINE] MODEL[@KV] MODEL[@KV]...\n");
    return 64;
  }
  for (int i = 0; i < n; i++) {
    open_subject(context, engine, &subjects[i]);
    subjects[i].ms = malloc((size_t)rounds * sizeof *subjects[i].ms);
    if (!subjects[i].ms) return 1;
    feed(subjects[i].llm, position);
    for (int k = 0; k < 8; k++) (void)step(&subjects[i], position);
    subjects[i].written = subjects[i].runs = 0;
  }
  for (int r = 0; r < rounds; r++) {
    for (int k = 0; k < n; k++) {
      subject *s = &subjects[(k + r) % n];
      s->ms[r] = step(s, position);
    }
  }
  printf("a step at position %lld, %d rounds in turn:\n", (long long)position, rounds);
  const double first = quantile(subjects[0].ms, rounds, 0.5);
  for (int i = 0; i < n; i++) {
    subject *s = &subjects[i];
    cairn_llm_info info;
    cairn_llm_describe(s->llm, &info);
    const double median = quantile(s->ms, rounds, 0.5);
    printf("  %-40s %s, %s of %lld rows: %.3f ms (first tenth %.3f), %.3f times; %lld bytes of states written\n", s->name, info.engine,
           info.kv_strategy, (long long)info.kv_capacity, median, quantile(s->ms, rounds, 0.1), median / first,
           (long long)(s->written / s->runs));
    cairn_llm_close(s->llm);
    free(s->ms);
  }
  cairn_context_release(context);
  return 0;
}
