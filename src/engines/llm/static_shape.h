/// The engine for models with fixed shapes: a ladder of functions, one cache they all see a part of.
#ifndef CRN_ENGINES_LLM_STATIC_SHAPE_H
#define CRN_ENGINES_LLM_STATIC_SHAPE_H

#include "engines/llm/internal.h"
#include "engines/llm/ladder.h"

/// A function of the ladder that is ready to run, with the arrays it is called with.
typedef struct crn_static_graph {
  const crn_ladder_rung *rung;
  cairn_function *function, *gather;
  cairn_ndarray *ids, *embedded;                    ///< of the gather function; `embedded` goes on to `function` as it is
  cairn_ndarray *positions, *step, *mask, *logits;  ///< NULL where the function has none
  cairn_ndarray *cache[2];                          ///< views of the rows it sees
  bool is_ready;
  int64_t start, n_real;  ///< what the mask was filled for: where the block begins, and its tokens; 0 tokens = it was not filled
} crn_static_graph;

/// What the sequences of a model share.
typedef struct crn_static_shape {
  crn_ladder ladder;
  bool is_plain_cache;  ///< by its program the cache is no state, but an input and an output
} crn_static_shape;

extern const crn_llm_driver crn_llm_static_driver;

/// Reads the ladder of the model, its contract (into llm->model->contract) and the function that stands for the model
/// (llm->model->function). Errors: UNSUPPORTED naming what is missing.
cairn_status crn_static_shape_open(cairn_llm *llm, int64_t max_context);
void crn_static_shape_close(crn_llm_model *model);
/// Makes a sequence ready, behind its states, whose memory the functions see.
cairn_status crn_static_shape_start(cairn_llm *llm);
void crn_static_shape_stop(cairn_llm *llm);

/// Prepares a rung for its first use.
cairn_status crn_static_graph_prepare(cairn_llm *llm, crn_static_graph *graph);
void crn_static_graph_release(crn_static_graph *graph);

#endif
