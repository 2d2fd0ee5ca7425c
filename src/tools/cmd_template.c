// cairn template: renders a chat template.
#include <stdlib.h>
#include <string.h>

#include "cairn/template.h"
#include "tools/commands.h"
#include "tools/source.h"
#include "tools/text_source.h"

typedef struct template_options {
  const char *input, *name;
} template_options;

static const crn_tool_option g_options[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OPTION_TEXT,
     .offset = offsetof(template_options, input),
     .argument = "FILE",
     .group = "Input",
     .help = "{\"messages\":[...],\"tools\":[...],\"add_generation_prompt\":true,\"variables\":{...}}; - or nothing = stdin"},
    {.name = "template",
     .kind = OPTION_TEXT,
     .offset = offsetof(template_options, name),
     .argument = "NAME",
     .group = "Input",
     .help = "which one of several templates: default, tool_use, rag, ... (without: tool_use when there are tools)"},
};

static const template_options g_defaults;

static cairn_status out_of_memory(void) { return CRN_FAIL(OUT_OF_MEMORY, "no memory for the template's variables"); }

// The variables a template sees: the members of the input, then what "variables" says over them.
static cairn_status make_variables(const json_t *input, const char *name, json_t **out) {
  const char *key;
  json_t *value, *all = json_object();
  *out = all;
  if (!all) return out_of_memory();
  json_object_foreach((json_t *)input, key, value) {
    if (strcmp(key, "variables") != 0 && json_object_set(all, key, value)) return out_of_memory();
  }
  json_t *variables = json_object_get(input, "variables");
  if (variables && !json_is_null(variables)) {
    if (!json_is_object(variables)) return CRN_FAIL(CORRUPT, "'variables' must be an object");
    if (json_object_update(all, variables)) return out_of_memory();
  }
  if (name && json_object_set_new(all, "chat_template", json_string(name))) return out_of_memory();
  if (!json_is_array(json_object_get(all, "messages")))
    return CRN_FAIL(INVALID_ARGUMENT, "'messages' must be an array: {\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
  return CAIRN_OK;
}

static cairn_status render(const crn_template_source *source, const json_t *variables, crn_str *out) {
  char *text = json_dumps(variables, JSON_COMPACT), *tokens = json_dumps(source->tokens, JSON_COMPACT);
  size_t n = text ? strlen(text) : 0, bytes = 0;
  cairn_status status = text && tokens ? crn_str_reserve(out, 1 << 16) : out_of_memory();
  if (status == CAIRN_OK) status = cairn_template_set_render(source->set, text, n, tokens, NULL, out->data, out->capacity - 1, &bytes);
  if (status == CAIRN_OK && bytes > out->capacity - 1) {
    status = crn_str_reserve(out, bytes);
    if (status == CAIRN_OK) status = cairn_template_set_render(source->set, text, n, tokens, NULL, out->data, out->capacity - 1, &bytes);
  }
  if (status == CAIRN_OK) out->size = bytes;
  free(text);
  free(tokens);
  return status;
}

static cairn_status read_input(const char *path, json_t **out) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  const char *what = path && strcmp(path, "-") != 0 ? path : "stdin";
  cairn_status status = crn_tool_read(path, &text);
  if (status == CAIRN_OK) status = crn_tool_parse_json(text.data, text.size, what, out);
  if (status == CAIRN_OK && !json_is_object(*out)) status = CRN_FAIL(CORRUPT, "%s: a JSON object with 'messages' is expected", what);
  crn_str_deinitialize(&text);
  return status;
}

static cairn_status render_all(crn_tool *t, const char *path, const template_options *o, crn_str *out) {
  json_t *input = NULL, *variables = NULL;
  crn_template_source source = {0};
  cairn_status status;
  CRN_TRY_GOTO(read_input(o->input, &input));
  CRN_TRY_GOTO(crn_template_source_open(t, path, &source));
  CRN_TRY_GOTO(make_variables(input, o->name, &variables));
  CRN_TRY_GOTO(render(&source, variables, out));
done:
  crn_template_source_close(&source);
  json_decref(variables);
  json_decref(input);
  return status;
}

static int run_template(crn_tool *t, const void *values) {
  const char *path = NULL;
  crn_str out;
  crn_str_initialize(&out, NULL);
  cairn_status status = crn_tool_open_context(t);
  if (status == CAIRN_OK) status = crn_source_locate(t, t->positionals[0], NULL, &path);
  if (status == CAIRN_OK) status = render_all(t, path, values, &out);
  if (status == CAIRN_OK) fwrite(out.data, 1, out.size, stdout);
  int code = crn_tool_result(t, status);
  crn_str_deinitialize(&out);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_template = {
    .name = "template",
    .synopsis = "PATH --input FILE",
    .summary = "render a chat template",
    .description =
        "Renders the chat template of a bundle, a tokenizer folder, a GGUF file or a .jinja file and prints the text exactly, with no "
        "newline added. The names of the special tokens (bos_token, eos_token, ...) come from the tokenizer's files; \"variables\" of the "
        "input can replace them and add others. \"continue_final_message\":true ends the text where the last message ends, so that a "
        "model goes on with it.\n"
        "\n"
        "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' | cairn template bundle",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_template,
};
