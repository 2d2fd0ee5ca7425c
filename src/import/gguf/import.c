#include "import/gguf/import.h"

#include <string.h>

#include "base/context.h"
#include "import/gguf/llama.h"
#include "import/gguf/private.h"
#include "import/gguf/vocabulary.h"
#include "import/gguf/weights.h"

static cairn_status read_names(const crn_gguf *f, crn_gguf_model *model) {
  crn_gguf_string name = {"", 0}, architecture;
  CRN_TRY(crn_gguf_get_string(f, "general.architecture", true, &architecture));
  CRN_TRY(crn_gguf_get_string(f, "general.name", false, &name));
  CRN_TRY(crn_gguf_copy_text(model, architecture, &model->architecture));
  CRN_TRY(crn_gguf_copy_text(model, name, &model->name));
  return CAIRN_OK;
}

// The program keeps the weights, and with them the file, from here on.
static cairn_status build_program(crn_gguf_model *model, crn_gguf_weights *weights, const crn_llama_config *config, cairn_dtype compute) {
  const crn_file_map *map = &weights->file->map;
  cairn_status status = crn_program_create(&model->context->allocator, &model->program);
  if (status == CAIRN_OK) status = crn_program_keep(model->program, crn_gguf_weights_destroy, weights);
  if (status != CAIRN_OK) {
    crn_gguf_weights_destroy(weights);
    return status;
  }
  if (map->data) {
    const char *path = crn_gguf_what(weights->file);
    model->program->origin = (crn_program_origin){.data = map->data, .bytes = map->bytes};
    CRN_TRY(crn_arena_strndup(&model->program->arena, path, strlen(path), &model->program->origin.path));
  }
  status = crn_llama_build(model->program, weights, config, compute, &model->vocab_size);
  // Vectors all over the file were copied, and the system may have mapped megabytes around each.
  if (map->data) crn_file_map_forget(map->data, map->bytes);
  return status;
}

// Takes the file over.
static cairn_status import_file(crn_gguf *file, cairn_dtype compute, bool beside, crn_gguf_model *model) {
  crn_llama_config config;
  crn_gguf_weights *weights;
  cairn_status status = read_names(file, model);
  if (status == CAIRN_OK) status = crn_llama_config_read(file, model->architecture, &config);
  if (status == CAIRN_OK) status = crn_gguf_read_vocabulary(file, beside, model);
  if (status != CAIRN_OK) {
    crn_gguf_close(file);
    return status;
  }
  model->context_length = config.context_length;
  CRN_TRY(crn_gguf_weights_create(&model->context->allocator, file, &weights));
  return build_program(model, weights, &config, compute);
}

static cairn_status finish(cairn_status status, crn_gguf *file, cairn_dtype compute, bool beside, crn_gguf_model *model) {
  if (status == CAIRN_OK) status = import_file(file, compute, beside, model);
  if (status != CAIRN_OK) crn_imported_model_destroy(model);
  return status;
}

static cairn_status import_path(cairn_context *context, const char *path, bool beside, crn_gguf_model *model) {
  crn_gguf *file;
  crn_imported_model_initialize(model, context);
  cairn_status status = crn_gguf_open(&context->allocator, path, &file);
  return finish(status, file, CAIRN_DTYPE_NONE, beside, model);
}

cairn_status crn_gguf_import(cairn_context *context, const char *path, crn_gguf_model *model) {
  return import_path(context, path, false, model);
}

cairn_status crn_gguf_import_beside(cairn_context *context, const char *path, crn_gguf_model *model) {
  return import_path(context, path, true, model);
}

cairn_status crn_gguf_import_memory_as(cairn_context *context, const void *data, size_t bytes, const char *what, cairn_dtype compute,
                                       crn_gguf_model *model) {
  crn_gguf *file;
  crn_imported_model_initialize(model, context);
  cairn_status status = crn_gguf_open_memory(&context->allocator, data, bytes, what, &file);
  return finish(status, file, compute, false, model);
}

cairn_status crn_gguf_import_memory(cairn_context *context, const void *data, size_t bytes, const char *what, crn_gguf_model *model) {
  return crn_gguf_import_memory_as(context, data, bytes, what, CAIRN_DTYPE_NONE, model);
}
