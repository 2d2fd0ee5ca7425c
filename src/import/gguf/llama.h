/// GGUF files of architecture "llama" (Llama 1 to 3, Mistral, SmolLM, …) as a program with the standard contract.
///
/// All arithmetic is f32, as are the caches; weights keep their stored form as constants. Rows of the query and key
/// weights are interleaved in these files, so rope rotates neighbours.
#ifndef CRN_IMPORT_GGUF_LLAMA_H
#define CRN_IMPORT_GGUF_LLAMA_H

#include "import/gguf/llama_config.h"
#include "import/gguf/weights.h"

/// Builds `main` in `program`. `out_vocab_size` gets the number of logits.
/// Errors: CORRUPT (a tensor missing or of another shape), UNSUPPORTED (a tensor type, or a tensor of no known part).
cairn_status crn_llama_build(crn_program *program, crn_gguf_weights *weights, const crn_llama_config *config, int64_t *out_vocab_size);

#endif
