#include "tools/bench_batch.h"

#include <stdlib.h>

#include "cairn/batch.h"
#include "tools/bench_prompt.h"
#include "tools/commands.h"
#include "tools/generation.h"

typedef struct measure {
  crn_tool *t;
  cairn_llm *llm;
  const crn_bench_batch_options *o;
  int64_t vocab;
  int32_t *prompt;
  double *times;  ///< of steps
  int64_t n_times;
  cairn_llm_batch *batch;
  uint64_t next_seed;
} measure;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double at_share(double *sorted, int64_t n, double share) {
  int64_t i = (int64_t)((double)n * share);
  return n ? sorted[i < n ? i : n - 1] : 0;
}

// Every prompt is another one: sequences that share tokens would share work.
static cairn_status join(measure *m, int64_t n_prompt, int64_t n_generate, int64_t *out_id) {
  crn_bench_prompt(m->next_seed++, m->vocab, n_prompt, m->prompt);
  const cairn_generate_options o = {.tokens = m->prompt, .n_tokens = (size_t)n_prompt, .max_tokens = n_generate, .ignore_eos = true};
  return cairn_llm_batch_join(m->batch, &o, out_id);
}

static cairn_status step(measure *m, cairn_llm_batch_step_info *info) {
  if (crn_interrupt_pending()) return CRN_FAIL(CANCELLED, "interrupted");
  return cairn_llm_batch_step(m->batch, info);
}

static cairn_status drop_results(measure *m, const int64_t *ids, int n) {
  for (int i = 0; i < n; i++) {
    cairn_generation *g;
    cairn_status status = cairn_llm_batch_take(m->batch, ids[i], &g);
    cairn_generation_destroy(g);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

// Steps until all sequences generate.
static cairn_status compute_prompts(measure *m, int n, cairn_llm_batch_step_info *info) {
  do CRN_TRY(step(m, info));
  while (info->n_generating < n && info->n_active);
  return CAIRN_OK;
}

// --- tokens a second --------------------------------------------------------------------------------------------------------

// Only steps in which all sequences take part count. A few go ahead.
static cairn_status measure_point(measure *m, int n, crn_bench_batch_point *out) {
  enum { AHEAD = 3 };
  int64_t ids[64];
  cairn_llm_batch_step_info info;
  m->n_times = 0;
  // The first ones generate while the prompts of the last ones are computed.
  const int64_t slack = n * (m->o->n_prompt / 24 + 2) + AHEAD;
  for (int i = 0; i < n; i++) CRN_TRY(join(m, m->o->n_prompt, m->o->n_generate + slack, &ids[i]));
  CRN_TRY(compute_prompts(m, n, &info));
  for (int i = 0; i < AHEAD; i++) CRN_TRY(step(m, &info));
  double seconds = 0;
  for (int64_t i = 0; i < m->o->n_generate && info.n_generating == n; i++) {
    CRN_TRY(step(m, &info));
    m->times[m->n_times++] = info.seconds;
    seconds += info.seconds;
  }
  for (int i = 0; i < n; i++) CRN_TRY(cairn_llm_batch_cancel(m->batch, ids[i]));
  CRN_TRY(cairn_llm_batch_run(m->batch));
  CRN_TRY(drop_results(m, ids, n));
  qsort(m->times, (size_t)m->n_times, sizeof *m->times, compare);
  *out = (crn_bench_batch_point){.sequences = n,
                                 .tps = (double)(n * m->n_times) / seconds,
                                 .p50_step = at_share(m->times, m->n_times, 0.5),
                                 .p95_step = at_share(m->times, m->n_times, 0.95)};
  return CAIRN_OK;
}

// 1, 2, 4, … and the most.
static cairn_status measure_points(measure *m, crn_bench_batch_result *r) {
  for (int n = 1; r->n_points < CRN_BENCH_BATCH_POINTS; n = n * 2 < m->o->most ? n * 2 : m->o->most) {
    crn_bench_batch_point *p = &r->points[r->n_points];
    CRN_TRY(measure_point(m, n, p));
    p->ratio = p->tps / r->points[0].tps;
    r->n_points++;
    if (m->o->is_talking) {
      printf("%3d sequence%s %9.2f tokens/s  %5.2fx  step %7.2f ms (95 %%: %.2f ms)\n", n, n == 1 ? " " : "s", p->tps, p->ratio,
             p->p50_step * 1e3, p->p95_step * 1e3);
      fflush(stdout);
    }
    if (n == m->o->most) break;
  }
  return CAIRN_OK;
}

// --- a prompt that comes to others --------------------------------------------------------------------------------------------

static cairn_status measure_arrival(measure *m, crn_bench_batch_result *r) {
  int64_t ids[64];
  cairn_llm_batch_step_info info;
  const int n = m->o->most - 1;
  const int64_t most = (m->o->n_prompt / 24 + 2) * (n + 1) + 8;
  for (int i = 0; i < n; i++) CRN_TRY(join(m, m->o->n_prompt, most + 8, &ids[i]));
  if (n) CRN_TRY(compute_prompts(m, n, &info));
  for (int i = 0; i < 4 && n; i++) {
    CRN_TRY(step(m, &info));
    r->quiet_step = info.seconds;
  }
  CRN_TRY(join(m, m->o->n_prompt, 1, &ids[n]));
  const double start = crn_tool_now();
  for (bool ended = false; !ended; r->n_prompt_steps++) {
    CRN_TRY(step(m, &info));
    if (info.seconds > r->longest_step) r->longest_step = info.seconds;
    CRN_TRY(cairn_llm_batch_has_ended(m->batch, ids[n], &ended));
  }
  r->first_token_seconds = crn_tool_now() - start;
  for (int i = 0; i < n; i++) CRN_TRY(cairn_llm_batch_cancel(m->batch, ids[i]));
  CRN_TRY(cairn_llm_batch_run(m->batch));
  return drop_results(m, ids, n + 1);
}

static void talk_arrival(const measure *m, const crn_bench_batch_result *r) {
  if (!m->o->is_talking) return;
  printf(
      "a prompt of %lld tokens beside %d sequences: first token after %.3f s in %lld steps, the longest %.1f ms (allowed: %.0f ms; "
      "without prompts %.1f ms)\n",
      (long long)m->o->n_prompt, m->o->most - 1, r->first_token_seconds, (long long)r->n_prompt_steps, r->longest_step * 1e3,
      r->step_budget * 1e3, r->quiet_step * 1e3);
}

// --- the whole ----------------------------------------------------------------------------------------------------------------

cairn_status crn_bench_batch(crn_tool *t, cairn_llm *llm, const crn_bench_batch_options *o, crn_bench_batch_result *out) {
  measure m = {.t = t, .llm = llm, .o = o, .next_seed = o->seed};
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  m.vocab = info.vocab_size;
  *out = (crn_bench_batch_result){.step_budget = o->max_step_seconds > 0 ? o->max_step_seconds : 0.1};
  if (o->n_prompt + o->n_generate + o->most * (o->n_prompt / 24 + 3) + 8 > info.max_context)
    return CRN_FAIL(CONTEXT_FULL,
                    "%lld prompt and %lld generated tokens of %d sequences are more than the %lld of a sequence (-p and -g say how many)",
                    (long long)o->n_prompt, (long long)o->n_generate, o->most, (long long)info.max_context);
  CRN_TRY(crn_arena_array(t->arena, (size_t)o->n_prompt, sizeof *m.prompt, &m.prompt));
  CRN_TRY(crn_arena_array(t->arena, (size_t)o->n_generate, sizeof *m.times, &m.times));
  const cairn_llm_batch_options options = {.max_sequences = o->most, .max_step_seconds = o->max_step_seconds, .no_sharing = true};
  CRN_TRY(cairn_llm_batch_create(llm, &options, &m.batch));
  cairn_status status = measure_points(&m, out);
  if (status == CAIRN_OK) status = measure_arrival(&m, out);
  if (status == CAIRN_OK) talk_arrival(&m, out);
  cairn_llm_batch_destroy(m.batch);
  return status;
}

void crn_bench_batch_write(const crn_bench_batch_result *r, crn_json_writer *w) {
  crn_jw_open_array(w, false);
  for (int i = 0; i < r->n_points; i++) {
    const crn_bench_batch_point *p = &r->points[i];
    crn_jw_open_inline_object(w);
    crn_jw_put_integer(w, "sequences", p->sequences);
    crn_jw_put_number(w, "generation_tps", p->tps);
    crn_jw_put_number(w, "ratio", p->ratio);
    crn_jw_put_number(w, "step_p50_s", p->p50_step);
    crn_jw_put_number(w, "step_p95_s", p->p95_step);
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
  crn_jw_key(w, "batch_arrival");
  crn_jw_open_inline_object(w);
  crn_jw_put_number(w, "first_token_s", r->first_token_seconds);
  crn_jw_put_integer(w, "steps", r->n_prompt_steps);
  crn_jw_put_number(w, "longest_step_s", r->longest_step);
  crn_jw_put_number(w, "allowed_step_s", r->step_budget);
  crn_jw_put_number(w, "step_without_prompts_s", r->quiet_step);
  crn_jw_close_object(w);
}
