/// GGUF files of the llama family (Llama 1 to 3, Mistral, SmolLM, Mixtral, Qwen 2 and 3, Qwen 3 MoE) as a program with the standard
/// contract, in the form genuine assets have: one matrix for queries, keys and values where their types agree, f16 activations and
/// caches (see compute_type in llama.c), weights as the constants they are stored as.
#ifndef CRN_IMPORT_GGUF_LLAMA_H
#define CRN_IMPORT_GGUF_LLAMA_H

#include "import/gguf/llama_config.h"
#include "import/gguf/weights.h"

/// Builds `main` in `program`. `compute` is the type of activations and caches (F32 or F16; CAIRN_DTYPE_NONE = by the types of the
/// file). `out_vocab_size` gets the number of logits.
/// Errors: CORRUPT (a tensor missing or of another shape), UNSUPPORTED (a tensor type, or a tensor of no known part).
cairn_status crn_llama_build(crn_program *program, crn_gguf_weights *weights, const crn_llama_config *config, cairn_dtype compute,
                             int64_t *out_vocab_size);

#endif
