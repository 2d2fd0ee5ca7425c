/// The sizes and constants of a model of the llama family (llama, qwen2, qwen3, qwen3moe), read from metadata and checked.
#ifndef CRN_IMPORT_GGUF_LLAMA_CONFIG_H
#define CRN_IMPORT_GGUF_LLAMA_CONFIG_H

#include "import/gguf/gguf.h"

typedef struct crn_llama_config {
  int64_t n_layers, hidden, heads, kv_heads, head_dim;
  int64_t context_length;
  int64_t rope_dims;  ///< leading dims of a head that are rotated
  double rope_base;
  double rope_scale;  ///< factor of the positions' angles
  double norm_epsilon;
  double attention_scale;   ///< 0 = 1 / sqrt(head_dim)
  int64_t window;           ///< 0 = every earlier position is seen
  bool rotates_neighbours;  ///< rope turns pairs of neighbours, not of halves
  bool has_head_norms;      ///< queries and keys are normalized head by head
  int64_t experts;          ///< of layers that have them, 0 = none
  int64_t chosen_experts;
  bool normalizes_chosen;  ///< weights of the chosen experts add up to 1
} crn_llama_config;

bool crn_llama_knows(const char *architecture);

/// Errors: CORRUPT (a key that is missing, of another kind or out of range), UNSUPPORTED (an architecture, a rope scaling, a way to
/// choose experts, heads that differ between layers or between keys and values).
cairn_status crn_llama_config_read(const crn_gguf *file, const char *architecture, crn_llama_config *out_config);

#endif
