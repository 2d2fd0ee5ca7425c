/// cairn bench --batch: what several sequences at once give, and how long a prompt waits that comes to them.
#ifndef CRN_TOOLS_BENCH_BATCH_H
#define CRN_TOOLS_BENCH_BATCH_H

#include "cairn/llm.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

typedef struct crn_bench_batch_options {
  int most;  ///< sequences
  int64_t n_prompt, n_generate;
  uint64_t seed;
  double max_step_seconds;  ///< 0 = that of the library
  bool is_talking;          ///< figures on stdout as they come
} crn_bench_batch_options;

enum { CRN_BENCH_BATCH_POINTS = 16 };

typedef struct crn_bench_batch_point {
  int sequences;
  double tps, ratio;          ///< tokens a second of all, to those of one sequence
  double p50_step, p95_step;  ///< seconds of a step: what each waits for its next token
} crn_bench_batch_point;

typedef struct crn_bench_batch_result {
  crn_bench_batch_point points[CRN_BENCH_BATCH_POINTS];
  int n_points;
  double first_token_seconds;                    ///< of a prompt that comes to most - 1 sequences that generate
  double longest_step, quiet_step, step_budget;  ///< steps while it is computed, those before, and what was allowed
  int64_t n_prompt_steps;
} crn_bench_batch_result;

/// Errors: CONTEXT_FULL, CANCELLED, and those of batches.
cairn_status crn_bench_batch(crn_tool *t, cairn_llm *llm, const crn_bench_batch_options *options, crn_bench_batch_result *out);
void crn_bench_batch_write(const crn_bench_batch_result *r, crn_json_writer *w);

#endif
