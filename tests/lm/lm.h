/// What the tests of language models share: goldens, captured logits, comparisons.
#ifndef CAIRN_TESTS_LM_H
#define CAIRN_TESTS_LM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/llm.h"
#include "import/safetensors.h"

#define LM_MODELS CAIRN_SHARED_DATA "/models/"

/// Fails the test, with the record, unless `status` is `expected` and its record holds `part`.
void lm_expect(cairn_status status, cairn_status expected, const char *part);
#define LM_OK(expr) lm_expect((expr), CAIRN_OK, "")

/// Skips the running test when a path under the models does not exist.
void lm_need(const char *path);

cairn_context *lm_context(int n_threads);
/// Opens LM_MODELS/name; fails the test when that fails. The environment variable CAIRN_TEST_ENGINE names the engine that models of open
/// shapes get when the options name none.
cairn_llm *lm_open(cairn_context *context, const char *name, const cairn_llm_options *options);

/// The name of its engine.
const char *lm_engine(const cairn_llm *llm);

/// Opens a path with the options as they are; fails the test when that fails.
cairn_llm *lm_open_path(cairn_context *context, const char *path, const cairn_llm_options *options);

/// Tokens of [0, vocab) that look random and are the same every time.
void lm_fill(int32_t *tokens, int64_t n, uint32_t seed, uint32_t vocab);
/// Removes a folder with all that is in it; 0 when that went well.
int lm_remove_folder(const char *path);

/// An allocator that counts, and fails when it is told to. Thread: safe.
typedef struct lm_counting {
  atomic_llong n_allocations, n_live, fail_at;  ///< fail_at: number of the allocation that fails, 0 = none
  atomic_llong bytes;                           ///< in use
} lm_counting;
/// A context that takes its memory from `c`, which starts anew.
cairn_context *lm_counted_context(lm_counting *c, int n_threads);
/// The same; warnings go to `log` with `user`.
cairn_context *lm_counted_context_with(lm_counting *c, int n_threads, cairn_log_fn log, void *user);

// --- goldens --------------------------------------------------------------------------------------------------------

/// Rows of f32, and where they are of one width. Owner: unique; lm_rows_free.
typedef struct lm_rows {
  float *data;
  int64_t n, width, capacity;
} lm_rows;
void lm_rows_free(lm_rows *rows);

typedef struct lm_ids {
  int32_t *data;
  int64_t n;
} lm_ids;

crn_safetensors *lm_goldens(const char *bundle);
/// A tensor widened to f32; the last dim is the width. Empty when absent.
lm_rows lm_golden_rows(const crn_safetensors *file, const char *name);
/// An int32 tensor, flattened. Owner: free(data).
lm_ids lm_golden_ids(const crn_safetensors *file, const char *name);
/// `key` of entry `index` of a JSON file (index -1: of the object itself) as ids.
lm_ids lm_json_ids(const char *path, int index, const char *key);

// --- logits ---------------------------------------------------------------------------------------------------------

/// A cairn_logits_fn that appends rows to the lm_rows that is its user.
cairn_status lm_keep_row(void *user, int64_t position, const float *row, int64_t vocab_size);

/// Feeds tokens in pieces of `piece` and keeps every row.
void lm_feed(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t piece, lm_rows *rows);

typedef struct lm_bound {
  double relative, absolute, cosine;  ///< |difference| <= max(relative * max|golden|, absolute)
} lm_bound;
/// The bound for a model that computes in `dtype`.
lm_bound lm_bound_of(cairn_dtype dtype);
/// Fails when rows differ by more than the bound. Returns the largest difference in units of it.
double lm_compare(const char *what, const lm_rows *got, const lm_rows *golden, const lm_bound *bound);
double lm_cosine(const float *a, const float *b, int64_t n);
int32_t lm_argmax(const float *row, int64_t n);
/// The distance between the two largest values.
double lm_gap(const float *row, int64_t n);

/// Generates greedily from `prompt`, ignoring stop ids, and keeps the row each token was chosen by.
void lm_greedy(cairn_llm *llm, const lm_ids *prompt, int64_t n, lm_ids *out_tokens, lm_rows *out_rows);

#endif
