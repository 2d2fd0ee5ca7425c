/// The function that turns token ids into embeddings, for decoders that take those.
#include <string.h>

#include "engines/llm/internal.h"

static bool has_function(const cairn_model *model, const char *name) {
  for (int i = 0; i < cairn_model_function_count(model); i++) {
    if (strcmp(cairn_model_function_info(model, i)->name, name) == 0) return true;
  }
  return false;
}

static cairn_status check(const crn_llm_embedder *e, const cairn_function_info *f, const cairn_descriptor *wanted) {
  if (f->n_inputs != 1 || f->n_outputs != 1 || f->n_states) {
    return CRN_FAIL(UNSUPPORTED, "embedding function '%s' has %d inputs, %d outputs and %d states: expected one input and one output",
                    f->name, f->n_inputs, f->n_outputs, f->n_states);
  }
  if (e->ids->is_image || e->ids->rank != 2 || (cairn_dtype_bytes(e->ids->dtype) != 4 && cairn_dtype_bytes(e->ids->dtype) != 8) ||
      e->ids->dtype == CAIRN_F32 || e->ids->dtype == CAIRN_F64 || e->ids->shape[1] != CAIRN_DYNAMIC) {
    return CRN_FAIL(UNSUPPORTED, "input '%s' of the embedding function should hold token ids as int32 [1, n]", e->ids->name);
  }
  if (e->embeds->rank != 3 || e->embeds->dtype != wanted->dtype || e->embeds->shape[2] != wanted->shape[2]) {
    return CRN_FAIL(INCOMPATIBLE, "the embedding function gives %s of width %lld, the decoder's '%s' takes %s of width %lld",
                    cairn_dtype_name(e->embeds->dtype), (long long)(e->embeds->rank == 3 ? e->embeds->shape[2] : 0), wanted->name,
                    cairn_dtype_name(wanted->dtype), (long long)wanted->shape[2]);
  }
  return CAIRN_OK;
}

cairn_status crn_llm_embedder_open(crn_llm_embedder *e, cairn_model *model, const cairn_descriptor *wanted) {
  const char *name = has_function(model, "embed_tokens") ? "embed_tokens" : "main";
  CRN_TRY(cairn_model_function(model, name, &e->function));
  const cairn_function_info *f = cairn_function_describe(e->function);
  e->ids = f->n_inputs ? &f->inputs[0] : NULL;
  e->embeds = f->n_outputs ? &f->outputs[0] : NULL;
  cairn_status status = check(e, f, wanted);
  if (status != CAIRN_OK) crn_llm_embedder_close(e);
  return status;
}

void crn_llm_embedder_close(crn_llm_embedder *e) {
  if (e->function) cairn_function_release(e->function);
  *e = (crn_llm_embedder){0};
}
