/// A language model of any size in the form that mlx2coreai writes (BRIDGES §2 and §4): caches stacked over the layers, a mask over the
/// whole capacity, every op spelled out. Weights are random. For tests and benchmarks of what the one bundle at hand is too small for.
#ifndef CAIRN_TESTS_LM_MLX_MODEL_H
#define CAIRN_TESTS_LM_MLX_MODEL_H

#include "engines/llm/internal.h"

typedef struct mlx_shape {
  int64_t layers, width, inner, heads, groups, head_dim, vocab;
  int64_t capacity;   ///< rows of the caches; -1 = dynamic
  int64_t context;    ///< tokens a sequence may have
  cairn_dtype dtype;  ///< of everything: F32 or F16
} mlx_shape;

/// A crn_llm_opener whose user is a `const mlx_shape`.
cairn_status mlx_open(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena, crn_llm_source *out_source);

#endif
