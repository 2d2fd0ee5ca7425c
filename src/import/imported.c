#include "import/imported.h"

#include "base/context.h"

void crn_imported_model_initialize(crn_imported_model *model, cairn_context *context) {
  *model = (crn_imported_model){.context = context, .name = "", .architecture = "", .bos_id = -1, .eos_id = -1};
  cairn_context_retain(context);
  crn_arena_initialize(&model->arena, &context->allocator);
}

cairn_status crn_imported_model_wait(crn_imported_model *model) {
  crn_imported_text *text = model->making;
  if (!text) return CAIRN_OK;
  cairn_status status = crn_task_wait(&text->task);
  text->finish(text->user, &model->tokenizer);
  model->making = NULL;
  return status;
}

// The failure that is known already is the one to be told, not that of a tokenizer nobody wants any more.
static void abandon_text(crn_imported_model *model) {
  char message[CRN_TASK_MESSAGE] = "";
  cairn_status code = cairn_last_error()->code;
  if (!model->making) return;
  cairn_last_error_text(message, sizeof message);
  crn_imported_model_wait(model);
  crn_error_restore(code, message);
}

void crn_imported_model_destroy(crn_imported_model *model) {
  if (!model->context) return;
  abandon_text(model);
  crn_program_destroy(model->program);
  if (model->tokenizer) cairn_tokenizer_release(model->tokenizer);
  crn_arena_deinitialize(&model->arena);
  cairn_context_release(model->context);
  *model = (crn_imported_model){0};
}
