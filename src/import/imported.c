#include "import/imported.h"

#include "base/context.h"

void crn_imported_model_initialize(crn_imported_model *model, cairn_context *context) {
  *model = (crn_imported_model){.context = context, .name = "", .architecture = "", .bos_id = -1, .eos_id = -1};
  cairn_context_retain(context);
  crn_arena_initialize(&model->arena, &context->allocator);
}

void crn_imported_model_destroy(crn_imported_model *model) {
  if (!model->context) return;
  crn_program_destroy(model->program);
  if (model->tokenizer) cairn_tokenizer_release(model->tokenizer);
  crn_arena_deinitialize(&model->arena);
  cairn_context_release(model->context);
  *model = (crn_imported_model){0};
}
