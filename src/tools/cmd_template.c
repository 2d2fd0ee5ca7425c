// cairn template: renders a chat template.
#include <stdlib.h>
#include <string.h>

#include "cairn/template.h"
#include "tools/commands.h"
#include "tools/source.h"
#include "tools/text_source.h"

typedef struct template_options {
  const char *input;
} template_options;

static const crn_tool_option g_options[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OPTION_TEXT,
     .offset = offsetof(template_options, input),
     .argument = "FILE",
     .group = "Input",
     .help = "{\"messages\":[...],\"tools\":[...],\"add_generation_prompt\":true,\"variables\":{...}}; - or nothing = stdin"},
};

static const template_options g_defaults;

static cairn_status out_of_memory(void) { return CRN_FAIL(OUT_OF_MEMORY, "no memory for the template's variables"); }

// The variables a template sees: special tokens first, then the members of the input, then what "variables" says, each
// over the ones before. Templates may ask for tools and documents; both exist and are none unless given.
static cairn_status make_variables(const json_t *input, const crn_template_source *source, json_t **out) {
  const char *key;
  json_t *value;
  json_t *all = json_deep_copy(source->tokens);
  *out = all;
  if (!all) return out_of_memory();
  if (json_object_set_new(all, "tools", json_null()) || json_object_set_new(all, "documents", json_null()) ||
      json_object_set_new(all, "add_generation_prompt", json_false()))
    return out_of_memory();
  json_object_foreach((json_t *)input, key, value) {
    if (strcmp(key, "variables") != 0 && json_object_set(all, key, value)) return out_of_memory();
  }
  json_t *variables = json_object_get(input, "variables");
  if (variables && !json_is_null(variables)) {
    if (!json_is_object(variables)) return CRN_FAIL(CORRUPT, "'variables' must be an object");
    if (json_object_update(all, variables)) return out_of_memory();
  }
  if (!json_is_array(json_object_get(all, "messages")))
    return CRN_FAIL(INVALID_ARGUMENT, "'messages' must be an array: {\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
  return CAIRN_OK;
}

static cairn_status render(const cairn_template *compiled, const json_t *variables, crn_str *out) {
  char *text = json_dumps(variables, JSON_COMPACT);
  if (!text) return out_of_memory();
  size_t n = strlen(text), bytes = 0;
  cairn_status status = crn_str_reserve(out, 1 << 16);
  if (status == CAIRN_OK) status = cairn_template_render(compiled, text, n, NULL, out->data, out->capacity - 1, &bytes);
  if (status == CAIRN_OK && bytes > out->capacity - 1) {
    status = crn_str_reserve(out, bytes);
    if (status == CAIRN_OK) status = cairn_template_render(compiled, text, n, NULL, out->data, out->capacity - 1, &bytes);
  }
  if (status == CAIRN_OK) out->size = bytes;
  free(text);
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
  cairn_template *compiled = NULL;
  crn_template_source source = {0};
  cairn_status status;
  CRN_TRY_GOTO(read_input(o->input, &input));
  bool with_tools = json_array_size(json_object_get(input, "tools")) > 0;
  status = crn_template_source_open(t, path, with_tools, &source);
  if (status == CAIRN_OK) status = make_variables(input, &source, &variables);
  if (status == CAIRN_OK) status = cairn_template_create(t->context, source.text.data, source.text.size, source.what, &compiled);
  if (status == CAIRN_OK) status = render(compiled, variables, out);
  crn_template_source_close(&source);
done:
  if (compiled) cairn_template_release(compiled);
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
        "input can replace them and add others.\n"
        "\n"
        "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' | cairn template bundle",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_template,
};
