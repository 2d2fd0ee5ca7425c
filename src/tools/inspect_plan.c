// cairn inspect --plan: the functions of a model made ready to run, and the plans they became.
#include <string.h>

#include "tools/inspect.h"

static cairn_status plan_text(const cairn_function *f, crn_arena *arena, char **out_text) {
  size_t bytes = 0, again = 0;
  CRN_TRY(cairn_function_print_plan(f, NULL, 0, &bytes));
  CRN_TRY(crn_arena_alloc(arena, bytes + 1, out_text));
  return cairn_function_print_plan(f, *out_text, bytes, &again);
}

// The lines of a plan as an array of texts.
static void put_lines(crn_json_writer *w, const char *text) {
  crn_jw_open_array(w, false);
  while (*text) {
    const char *end = strchr(text, '\n');
    size_t n = end ? (size_t)(end - text) : strlen(text);
    crn_jw_text_n(w, text, n);
    text += n + (end ? 1 : 0);
  }
  crn_jw_close_array(w);
}

static cairn_status show_function(crn_tool *t, cairn_model *model, const char *name, crn_json_writer *w) {
  cairn_function *f;
  char *text = NULL;
  CRN_TRY(cairn_model_function(model, name, &f));
  cairn_status status = plan_text(f, t->arena, &text);
  if (status == CAIRN_OK && w) {
    crn_jw_open_object(w);
    crn_jw_put_text(w, "name", name);
    crn_jw_put_text(w, "device", cairn_device_text(cairn_function_get_device(f)));
    crn_jw_put_text(w, "precision", cairn_precision_text(cairn_function_get_precision(f)));
    crn_jw_key(w, "plan");
    put_lines(w, text);
    crn_jw_close_object(w);
  } else if (status == CAIRN_OK) {
    fputs(text, stdout);
  }
  cairn_function_release(f);
  return status;
}

static cairn_status show_all(crn_tool *t, cairn_model *model, crn_json_writer *w) {
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < cairn_model_function_count(model) && status == CAIRN_OK; i++) {
    status = show_function(t, model, cairn_model_function_info(model, i)->name, w);
  }
  return status;
}

int crn_inspect_plan(crn_tool *t, const crn_source *source, const crn_inspect_options *o) {
  cairn_model_options options = {.precision = o->precision ? crn_precision_of(o->precision) : CAIRN_PRECISION_AUTO,
                                 .progress = crn_tool_progress_callback,
                                 .progress_user = t};
  cairn_model *model = NULL;
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  cairn_status status = crn_source_load(t, source, o->component, &options, &model);
  if (status == CAIRN_OK && o->json) {
    crn_jw_open_object(&w);
    crn_jw_key(&w, "functions");
    crn_jw_open_array(&w, false);
  }
  if (status == CAIRN_OK) status = show_all(t, model, o->json ? &w : NULL);
  if (status == CAIRN_OK && o->json) {
    crn_jw_close_array(&w);
    crn_jw_close_object(&w);
    status = crn_jw_print(&w, stdout);
  }
  crn_jw_deinitialize(&w);
  cairn_model_release(model);
  return crn_tool_result(t, status);
}
