/// What stands beside the main function of a model: a function for prompts, one that makes embeddings, images, and tables of values
/// for further inputs.
#include <string.h>

#include "engines/llm/bundle_internal.h"
#include "engines/llm/internal.h"
#include "engines/llm/vision.h"

// --- a function for prompts -------------------------------------------------------------------------------------------

static const cairn_function_info *info_of(const cairn_llm *llm, const char *name) {
  for (int i = 0; i < cairn_model_function_count(llm->model->source.model); i++) {
    const cairn_function_info *info = cairn_model_function_info(llm->model->source.model, i);
    if (strcmp(info->name, name) == 0) return info;
  }
  return NULL;
}

const char *crn_llm_main_function(const cairn_llm *llm) {
  const cairn_bundle *b = llm->model->source.bundle;
  const char *name;
  for (size_t i = 0; b && (name = crn_bundle_function_at(b, "main", i)); i++) {
    crn_llm_contract contract;
    const cairn_function_info *info = info_of(llm, name);
    if (info && crn_llm_contract_read(info, b, &contract) == CAIRN_OK && contract.query < 2) return name;
  }
  return llm->model->source.function;
}

// The function the metadata gives the role "prefill", the other one of the role "main", or one that is called so.
static const char *name_of_prefill(const cairn_llm *llm) {
  const cairn_bundle *b = llm->model->source.bundle;
  const char *main_name = cairn_function_describe(llm->model->function)->name, *name;
  if (b && cairn_bundle_has_function(b, "prefill")) return cairn_bundle_function(b, "prefill");
  for (size_t i = 0; b && (name = crn_bundle_function_at(b, "main", i)); i++) {
    if (strcmp(name, main_name) != 0) return name;
  }
  return info_of(llm, "prefill") ? "prefill" : NULL;
}

static cairn_status open_prefill(cairn_llm *llm) {
  const char *name = name_of_prefill(llm);
  const cairn_function_info *info = name ? info_of(llm, name) : NULL;
  if (!name || strcmp(name, cairn_function_describe(llm->model->function)->name) == 0) return CAIRN_OK;
  if (!info) return CRN_FAIL(NOT_FOUND, "the metadata names the function '%s' for prompts, which the model does not have", name);
  CRN_TRY(crn_llm_contract_read(info, llm->model->source.bundle, &llm->model->prefill_contract));
  // Beside a function that takes any number of tokens another one for prompts has nothing to do.
  if (!llm->model->contract.one_token || llm->model->prefill_contract.one_token) return CAIRN_OK;
  CRN_TRY(crn_llm_contract_check_pair(info, &llm->model->contract, &llm->model->prefill_contract));
  CRN_TRY(cairn_model_function(llm->model->source.model, name, &llm->model->prefill));
  if (!llm->model->prefill_contract.query) return crn_llm_decide(llm, "prefill", name, "a function for prompts of any length");
  return crn_llm_decide(llm, "prefill", name, "pieces of %lld tokens; the rest goes token by token",
                        (long long)llm->model->prefill_contract.query);
}

// The main function has to stand alone when no other takes what is left over.
static cairn_status check_query(const cairn_llm *llm) {
  const crn_llm_contract *c = &llm->model->contract;
  if (c->query < 2) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "input '%s' takes exactly %lld tokens: only models that take any number, or 1, can run here",
                  (c->ids ? c->ids : c->embeds)->name, (long long)c->query);
}

// --- embeddings and images --------------------------------------------------------------------------------------------

static cairn_status open_embeddings(cairn_llm *llm) {
  cairn_bundle_vision vision;
  if (!llm->model->contract.embeds) {
    if (!llm->model->source.embedding) return CAIRN_OK;
    return CRN_FAIL(UNSUPPORTED, "the bundle is of kind vlm, but its decoder takes token ids ('%s'): images could not reach it",
                    llm->model->contract.ids->name);
  }
  cairn_model *model = llm->model->source.embedding   ? llm->model->source.embedding
                       : info_of(llm, "embed_tokens") ? llm->model->source.model
                                                      : NULL;
  if (!model) {
    return CRN_FAIL(UNSUPPORTED,
                    "input '%s' takes embeddings: the vision-language engine needs the bundle, with the assets 'embedding' and 'vision'",
                    llm->model->contract.embeds->name);
  }
  CRN_TRY(crn_llm_embedder_open(&llm->model->embedder, model, llm->model->contract.embeds));
  if (llm->model->driver == &crn_llm_sequential_driver) llm->model->driver = &crn_llm_vision_driver;
  if (!llm->model->source.vision) return CAIRN_OK;
  CRN_TRY(cairn_bundle_get_vision(llm->model->source.bundle, &vision));
  if (vision.image_token_id >= llm->model->contract.vocab_size) {
    return CRN_FAIL(INCOMPATIBLE, "vision.image_token_id is %lld, the vocabulary has the ids 0 to %lld", (long long)vision.image_token_id,
                    (long long)llm->model->contract.vocab_size - 1);
  }
  if (vision.rescale_factor < 0.02) {
    CRN_TRY(crn_llm_decide(llm, "rescale_factor", "as 1/255", "%g is so small that the division of pixels by 255 is a part of it already",
                           vision.rescale_factor));
  }
  if (vision.include_image_info) {
    CRN_TRY(crn_llm_decide(llm, "image_info", "off",
                           "the metadata asks for a text about each image (include_image_info), which nothing specifies"));
  }
  return crn_vision_open(llm->context, &vision, llm->model->source.vision, &llm->model->vision);
}

void cairn_llm_describe_images(const cairn_llm *llm, cairn_llm_images *out_images) {
  if (!out_images) return;
  if (!llm) {
    *out_images = (cairn_llm_images){0};
    return;
  }
  *out_images = (cairn_llm_images){0};
  if (!llm->model->vision) return;
  const cairn_bundle_vision *v = &llm->model->vision->config;
  *out_images =
      (cairn_llm_images){.image_size = v->image_size, .image_tokens = v->image_token_count, .image_token = (int32_t)v->image_token_id};
}

// --- tables -------------------------------------------------------------------------------------------------------------

static cairn_status check_table(const cairn_llm *llm, const cairn_descriptor *d, const cairn_ndarray *table) {
  const int64_t *shape = cairn_ndarray_shape(table);
  bool is_right = cairn_ndarray_dtype(table) == d->dtype && cairn_ndarray_is_contiguous(table) && cairn_ndarray_rank(table) >= 1 &&
                  shape[0] == llm->model->contract.vocab_size;
  int64_t values = 1, wanted = 1;
  for (int i = 1; i < cairn_ndarray_rank(table); i++) values *= shape[i];
  for (int i = 2; i < d->rank; i++) wanted *= d->shape[i];
  if (is_right && values == wanted) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT,
                  "the table for input '%s' must be contiguous %s of the shape [%lld, ...] with %lld values for each token", d->name,
                  cairn_dtype_name(d->dtype), (long long)llm->model->contract.vocab_size, (long long)wanted);
}

static cairn_status open_tables(cairn_llm *llm, const cairn_llm_options *o) {
  for (int i = 0; i < llm->model->contract.n_extras; i++) {
    const cairn_descriptor *d = llm->model->contract.extras[i];
    cairn_ndarray *table = NULL;
    for (int k = 0; k < o->n_token_tables; k++) {
      if (strcmp(o->token_tables[k].name, d->name) == 0) table = o->token_tables[k].array;
    }
    if (!table) {
      return CRN_FAIL(INVALID_ARGUMENT,
                      "input '%s' takes values for every token: a table [%lld, ...] of %s is needed for it (token_tables)", d->name,
                      (long long)llm->model->contract.vocab_size, cairn_dtype_name(d->dtype));
    }
    CRN_TRY(check_table(llm, d, table));
    cairn_ndarray_retain(table);
    llm->model->tables[i] = (crn_llm_table){d->name, table};
  }
  for (int k = 0; k < o->n_token_tables; k++) {
    bool is_used = false;
    for (int i = 0; i < llm->model->contract.n_extras; i++)
      is_used |= strcmp(o->token_tables[k].name, llm->model->contract.extras[i]->name) == 0;
    if (!is_used)
      return CRN_FAIL(INVALID_ARGUMENT, "there is a table for '%s', but the model has no such further input", o->token_tables[k].name);
  }
  return CAIRN_OK;
}

// --- all ----------------------------------------------------------------------------------------------------------------

cairn_status crn_llm_companions_open(cairn_llm *llm, const cairn_llm_options *options) {
  if (llm->model->fixed) return CAIRN_OK;
  CRN_TRY(check_query(llm));
  CRN_TRY(open_embeddings(llm));
  CRN_TRY(open_prefill(llm));
  return open_tables(llm, options);
}

void crn_llm_companions_close(crn_llm_model *m) {
  if (m->prefill) cairn_function_release(m->prefill);
  crn_llm_embedder_close(&m->embedder);
  crn_vision_close(m->vision);
  for (int i = 0; i < CRN_LLM_MAX_EXTRAS; i++) cairn_ndarray_release(m->tables[i].table);
}
