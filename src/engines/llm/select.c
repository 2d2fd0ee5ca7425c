/// Which engine a model gets.
#include <string.h>

#include "engines/llm/internal.h"

cairn_status crn_llm_engine_parse(const char *name, crn_llm_engine *out_engine) {
  static const struct {
    const char *name;
    crn_llm_engine engine;
  } kNames[] = {{"auto", CRN_LLM_ENGINE_AUTO},
                {"default", CRN_LLM_ENGINE_AUTO},
                {"sequential", CRN_LLM_ENGINE_SEQUENTIAL},
                {"coreai-sequential", CRN_LLM_ENGINE_SEQUENTIAL},
                {"pipelined", CRN_LLM_ENGINE_PIPELINED},
                {"coreai-pipelined", CRN_LLM_ENGINE_PIPELINED},
                {"static-shape", CRN_LLM_ENGINE_STATIC_SHAPE}};
  *out_engine = CRN_LLM_ENGINE_AUTO;
  for (size_t i = 0; name && i < sizeof kNames / sizeof *kNames; i++) {
    if (strcmp(name, kNames[i].name) != 0) continue;
    *out_engine = kNames[i].engine;
    return CAIRN_OK;
  }
  if (!name) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "unknown engine '%s'; valid: auto, sequential, pipelined, static-shape", name);
}

cairn_status crn_llm_engine_select(crn_llm_engine asked, crn_llm_structure structure, crn_llm_engine *out_engine) {
  bool is_static = structure == CRN_LLM_STATIC_SHAPE;
  *out_engine = asked != CRN_LLM_ENGINE_AUTO ? asked : is_static ? CRN_LLM_ENGINE_STATIC_SHAPE : CRN_LLM_ENGINE_SEQUENTIAL;
  if (structure == CRN_LLM_SEGMENTER)
    return CRN_FAIL(INCOMPATIBLE, "the model is a segmenter (image_encode, text_encode, detect), not a language model");
  if (is_static && *out_engine != CRN_LLM_ENGINE_STATIC_SHAPE) {
    return CRN_FAIL(INCOMPATIBLE,
                    "engine '%s' needs a dynamic model; this one has fixed shapes (functions extend_*) and needs 'static-shape'",
                    *out_engine == CRN_LLM_ENGINE_PIPELINED ? "pipelined" : "sequential");
  }
  if (!is_static && *out_engine == CRN_LLM_ENGINE_STATIC_SHAPE) {
    return CRN_FAIL(
        INCOMPATIBLE,
        "engine 'static-shape' needs a model with fixed shapes (functions load_embeddings and extend_*); this one needs 'sequential' or "
        "'pipelined'");
  }
  return CAIRN_OK;
}
