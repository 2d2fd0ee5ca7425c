/// Shared by the files that build a model of the llama family: its weights, and the steps that every layer is made of.
#ifndef CRN_IMPORT_GGUF_LLAMA_PARTS_H
#define CRN_IMPORT_GGUF_LLAMA_PARTS_H

#include "import/gguf/llama_config.h"
#include "import/gguf/weights.h"

/// What the layers share while the graph grows. Values are NULL after a failure, which the builder remembers.
typedef struct crn_llama {
  crn_builder b;
  crn_gguf_weights *w;
  const crn_llama_config *c;
  cairn_dtype compute;          ///< of activations and caches
  crn_value *zero, *one, *two;  ///< si32[1] constants, also used as axes
  crn_value *ones5, *zeros5;    ///< bounds of whole slices
  crn_value *length, *offset;   ///< si32[1]: position of the last token + 1, of the first token
  crn_value *count;             ///< si32[1]: tokens of this run
  crn_value *positions;         ///< of this run's tokens
  crn_value *frequencies;       ///< input of rope, NULL when base and scale say all
  crn_value *input_ids, *key_state, *value_state;
  crn_value *keys, *values;        ///< newest content of the states
  crn_value *head_dim, *kv_heads;  ///< si32[1]
} crn_llama;

/// Finds "prefix.weight" and the like with the wanted shape (stack 1 = a matrix); NULL with the failure in the builder when it does
/// not fit, or when it is missing and required.
const crn_gguf_tensor *crn_llama_find(crn_llama *m, const char *prefix, const char *suffix, bool required, int64_t stack, int64_t rows,
                                      int64_t columns);
/// The constant vector "prefix.suffix". NULL when absent.
crn_value *crn_llama_vector(crn_llama *m, const char *prefix, const char *suffix, bool required, int64_t n);

/// x [1,S,columns] times the transposed weight [rows,columns].
crn_value *crn_llama_multiply(crn_llama *m, crn_value *x, crn_value *weight);
/// The same with the tensors "prefix.weight" and, where there is one, "prefix.bias".
crn_value *crn_llama_linear(crn_llama *m, crn_value *x, const char *prefix, int64_t rows, int64_t columns);
crn_value *crn_llama_cast(crn_llama *m, crn_value *x, cairn_dtype dtype);
crn_value *crn_llama_i32(crn_llama *m, int64_t value);

/// Normalizes over the last dimension with a constant scale.
crn_value *crn_llama_rms_norm(crn_llama *m, crn_value *x, crn_value *scale);
crn_value *crn_llama_rope(crn_llama *m, crn_value *x);
crn_value *crn_llama_attention(crn_llama *m, crn_value *q, crn_value *k, crn_value *v);
/// Frequencies of rope where the file divides them; NULL where it does not.
crn_value *crn_llama_frequencies(crn_llama *m);
/// lhs [S,..,1,k] times the matrices of rhs [1,experts,k,n] that indices [S,chosen] name: [1,S,chosen,1,n].
crn_value *crn_llama_gather_multiply(crn_llama *m, crn_value *lhs, crn_value *rhs, crn_value *indices);

/// llama_experts.c: whether a layer has experts, and what they make of x [1,S,hidden].
bool crn_llama_has_experts(crn_llama *m, int64_t layer);
crn_value *crn_llama_experts(crn_llama *m, crn_value *x, int64_t layer);

#endif
