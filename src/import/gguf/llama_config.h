/// The sizes and constants of a llama model, read from metadata and checked.
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
  double attention_scale;  ///< 0 = 1 / sqrt(head_dim)
  int64_t window;          ///< 0 = every earlier position is seen
} crn_llama_config;

/// Errors: CORRUPT (a key that is missing, of another kind or out of range), UNSUPPORTED (experts, a rope scaling, heads
/// that differ between layers or between keys and values).
cairn_status crn_llama_config_read(const crn_gguf *file, crn_llama_config *out_config);

#endif
