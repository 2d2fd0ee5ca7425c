/// Rows of logits, kept while a generation runs and written as safetensors afterwards.
#ifndef CRN_TOOLS_LOGITS_H
#define CRN_TOOLS_LOGITS_H

#include "base/vec.h"
#include "cairn/llm.h"

typedef struct crn_logits {
  CRN_VEC(float) values;       ///< rows one after the other
  CRN_VEC(int64_t) positions;  ///< of the rows: the token they follow
  int64_t vocab_size;
} crn_logits;

void crn_logits_release(crn_logits *logits);
/// Adds a row. Errors: OUT_OF_MEMORY.
cairn_status crn_logits_take(crn_logits *logits, int64_t position, const float *row, int64_t vocab_size);
/// The row after the token at `position`, NULL when there is none.
const float *crn_logits_at(const crn_logits *logits, int64_t position);
/// Writes f32 `prefill` [S,V], a row per prompt token, and `decode` [M,V], a row per token fed after the prompt.
cairn_status crn_logits_write(const crn_logits *logits, int64_t n_prompt, const char *path);

#endif
