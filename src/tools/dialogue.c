#include "tools/dialogue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "tools/text_source.h"

enum { PROMPT_TAIL = 64 };

// --- tools ------------------------------------------------------------------------------------------------------------

int crn_dialogue_check(crn_tool *t, const crn_dialogue_values *v) {
  cairn_dialogue_format format;
  if (v->tool_choice && !v->tools) return crn_tool_usage_error(t, "--tool-choice needs --tools");
  if (!v->tool_format || cairn_dialogue_format_parse(v->tool_format, &format) == CAIRN_OK) return TOOL_CONTINUE;
  return crn_tool_usage_error(t, "--tool-format: %s", cairn_last_error()->message);
}

// What a template would print without a word, and no model could call.
static cairn_status check_tool(const crn_dialogue_values *v, const json_t *tools, size_t i) {
  static const char expected[] = "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}";
  const json_t *tool = json_array_get(tools, i), *wrapped = json_object_get(tool, "function"), *f = wrapped ? wrapped : tool;
  const char *name = json_string_value(json_object_get(f, "name"));
  const json_t *parameters = json_object_get(f, "parameters");
  if (!json_is_object(tool) || !json_is_object(f))
    return CRN_FAIL(INVALID_ARGUMENT, "%s: #/%zu is no tool; expected %s", v->tools, i, expected);
  if (!name || !*name) return CRN_FAIL(INVALID_ARGUMENT, "%s: the tool #/%zu has no name; expected %s", v->tools, i, expected);
  if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the parameters of the tool '%s' must be an object: a JSON Schema", v->tools, name);
  for (size_t k = 0; k < i; k++) {
    const json_t *other = json_array_get(tools, k), *inside = json_object_get(other, "function");
    const char *taken = json_string_value(json_object_get(inside ? inside : other, "name"));
    if (taken && !strcmp(taken, name)) return CRN_FAIL(INVALID_ARGUMENT, "%s: two tools have the name '%s'", v->tools, name);
  }
  return CAIRN_OK;
}

cairn_status crn_dialogue_read_tools(const crn_dialogue_values *v, json_t **out_tools) {
  crn_str text;
  json_t *json = NULL;
  *out_tools = NULL;
  if (!v->tools) return CAIRN_OK;
  crn_str_initialize(&text, NULL);
  cairn_status status = crn_tool_read(v->tools, &text);
  if (status == CAIRN_OK) status = crn_json_parse(text.data, text.size, v->tools, &json);
  crn_str_deinitialize(&text);
  if (status != CAIRN_OK) return status;
  json_t *tools = json_is_object(json) ? json_object_get(json, "tools") : json;
  if (json_is_array(tools)) {
    for (size_t i = 0; i < json_array_size(tools) && status == CAIRN_OK; i++) status = check_tool(v, tools, i);
    if (status == CAIRN_OK) *out_tools = json_incref(tools);
  } else {
    status = CRN_FAIL(CORRUPT, "%s: expected an array of tools: [{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]",
                      v->tools);
  }
  json_decref(json);
  return status;
}

// --- output -----------------------------------------------------------------------------------------------------------

static void put(crn_reply *r, FILE *file, const char *text, size_t n) {
  if (file == stdout) {
    crn_tool_text(r->t, text, n);
  } else {
    fwrite(text, 1, n, file);
    fflush(file);
  }
  if (file == stdout && n) {
    r->printed_content = true;
    r->ends_line = text[n - 1] == '\n';
  }
}

static FILE *file_of_reasoning(const crn_reply *r) { return r->separate ? stderr : stdout; }

// On a terminal separate reasoning is told by its shade; where it is part of the output, by tags.
static void mark_reasoning(crn_reply *r, bool starts) {
  FILE *file = file_of_reasoning(r);
  bool shade = r->separate && isatty(STDERR_FILENO);
  if (r->in_reasoning == starts) return;
  r->in_reasoning = starts;
  if (r->separate) {
    fputs(shade ? (starts ? "\033[2m" : "\033[0m\n\n") : starts ? "" : "\n", file);
    fflush(file);
  } else if (starts) {
    put(r, file, "<think>\n", 8);
  } else {
    put(r, file, "\n</think>\n\n", 11);
  }
}

static void hear(void *user, const cairn_dialogue_event *e) {
  crn_reply *r = user;
  if (!r->print) return;
  if (e->kind == CAIRN_DIALOGUE_REASONING) {
    if (r->hide_reasoning) return;
    mark_reasoning(r, true);
    put(r, file_of_reasoning(r), e->text, e->text_bytes);
  } else {
    mark_reasoning(r, false);
    if (e->kind == CAIRN_DIALOGUE_CONTENT) put(r, stdout, e->text, e->text_bytes);
  }
}

// --- opening ----------------------------------------------------------------------------------------------------------

// A prompt of text as the conversation it becomes; `*out_is_raw` when it is used as it is.
static cairn_status conversation_of(const cairn_llm *llm, const cairn_generate_options *o, crn_str *out, bool *out_is_raw) {
  *out_is_raw = false;
  if (o->conversation) return crn_str_append(out, o->conversation, o->conversation_bytes);
  *out_is_raw = o->form == CAIRN_PROMPT_RAW || cairn_llm_has_template(llm) != CAIRN_OK;
  if (*out_is_raw) return crn_str_append(out, o->text, o->text_bytes);
  CRN_TRY(crn_str_puts(out, "[{\"role\":\"user\",\"content\":"));
  CRN_TRY(crn_str_json(out, o->text, o->text_bytes));
  return crn_str_puts(out, "}]");
}

// The prompt as text, or its end: it may leave a reasoning tag or a channel open.
static cairn_status prompt_text(crn_tool *t, const cairn_llm *llm, const cairn_generate_options *o, crn_str *out) {
  crn_str conversation;
  bool is_raw;
  size_t n = 0;
  if (o->tokens) {
    char *tail;
    size_t n_tail = o->n_tokens < PROMPT_TAIL ? o->n_tokens : PROMPT_TAIL, bytes;
    CRN_TRY(crn_tool_decode(cairn_llm_tokenizer(llm), o->tokens + o->n_tokens - n_tail, n_tail, false, t->arena, &tail, &bytes));
    return crn_str_append(out, tail, bytes);
  }
  crn_str_initialize(&conversation, NULL);
  cairn_status status = conversation_of(llm, o, &conversation, &is_raw);
  if (status == CAIRN_OK && is_raw) {
    status = crn_str_append(out, conversation.data, conversation.size);
  } else if (status == CAIRN_OK) {
    status = cairn_llm_render(llm, conversation.data, conversation.size, NULL, 0, &n);
    if (status == CAIRN_OK) status = crn_str_reserve(out, n);
    if (status == CAIRN_OK) status = cairn_llm_render(llm, conversation.data, conversation.size, out->data, n, &out->size);
    if (status == CAIRN_OK && out->size > n) out->size = n;
    out->data[out->size] = 0;
  }
  crn_str_deinitialize(&conversation);
  return status;
}

static cairn_status choose_shown(crn_reply *r, const cairn_tokenizer *tokenizer, cairn_generate_options *options) {
  int n;
  const char *const *markers = cairn_dialogue_markers(r->dialogue, &n);
  CRN_TRY(crn_arena_array(r->t->arena, (size_t)n + 1, sizeof *r->shown, &r->shown));
  for (int i = 0; i < n; i++) {
    int32_t id = cairn_tokenizer_id(tokenizer, markers[i]);
    if (id >= 0 && cairn_tokenizer_is_special(tokenizer, id)) r->shown[r->n_shown++] = markers[i];
  }
  options->shown_special_tokens = r->shown;
  options->n_shown_special_tokens = r->n_shown;
  return CAIRN_OK;
}

// Keeps the grammar's sources in the tool's arena: the generation reads them when it begins.
static cairn_status guide_calls(crn_reply *r, const char *choice, const cairn_dialogue_options *o, cairn_grammar_source *out) {
  cairn_dialogue_options *kept;
  CRN_TRY(crn_arena_array(r->t->arena, 1, sizeof *kept, &kept));
  *kept = *o;
  kept->on_event = NULL;
  kept->user = NULL;
  CRN_TRY(crn_arena_strndup(r->t->arena, o->tools, o->tools_bytes, &kept->tools));
  CRN_TRY(crn_arena_strndup(r->t->arena, o->prompt ? o->prompt : "", o->prompt_bytes, &kept->prompt));
  *out = (cairn_grammar_source){.kind = CAIRN_GRAMMAR_TOOL_CALLS, .dialogue = kept, .tool_choice = choice};
  return cairn_grammar_check(r->t->context, out);
}

cairn_status crn_reply_open(crn_tool *t, const crn_dialogue_values *v, const char *how, const json_t *tools, const cairn_llm *llm,
                            cairn_generate_options *options, crn_reply *r) {
  const cairn_tokenizer *tokenizer = cairn_llm_tokenizer(llm);
  const cairn_template_set *templates = cairn_llm_templates(llm);
  cairn_dialogue_options o = {.tokenizer = tokenizer, .trim = true, .on_event = hear, .user = r};
  char *tools_text = tools ? json_dumps(tools, JSON_COMPACT) : NULL;
  crn_str prompt;
  cairn_status status;
  crn_str_initialize(&prompt, NULL);
  *r = (crn_reply){.t = t, .hide_reasoning = strcmp(how, "hide") == 0, .separate = strcmp(how, "separate") == 0, .ends_line = true};
  if (r->separate && t->quiet) r->hide_reasoning = true;
  if (templates && cairn_template_set_pick(templates, v->template_name, tools != NULL, NULL, &o.chat_template, &o.chat_template_bytes)) {
    o.chat_template = NULL;  // what is wrong with the choice is told where it is rendered
  }
  if (tools && !t->told_of_tools && o.chat_template && !memmem(o.chat_template, o.chat_template_bytes, "tools", 5)) {
    crn_tool_warn(t, "the model's chat template does not use tools: the model is not told of them");
    t->told_of_tools = true;
  }
  CRN_TRY_GOTO(cairn_dialogue_format_parse(v->tool_format ? v->tool_format : "auto", &o.format));
  r->is_auto = o.format == CAIRN_DIALOGUE_AUTO;
  CRN_TRY_GOTO(prompt_text(t, llm, options, &prompt));
  o.prompt = prompt.data;
  o.prompt_bytes = prompt.size;
  o.tools = tools_text;
  o.tools_bytes = tools_text ? strlen(tools_text) : 0;
  CRN_TRY_GOTO(cairn_dialogue_create(t->context, &o, &r->dialogue));
  CRN_TRY_GOTO(choose_shown(r, tokenizer, options));
  if (v->tool_choice) CRN_TRY_GOTO(guide_calls(r, v->tool_choice, &o, &options->guide));
done:
  crn_str_deinitialize(&prompt);
  free(tools_text);
  return status;
}

// --- text -------------------------------------------------------------------------------------------------------------

static void keep_failure(crn_reply *r, cairn_status status) {
  if (status == CAIRN_OK || r->status != CAIRN_OK) return;
  r->status = status;
  cairn_last_error_text(r->failure, sizeof r->failure);
}

bool crn_reply_push(crn_reply *r, const char *text, size_t bytes) {
  if (r->status == CAIRN_OK) keep_failure(r, cairn_dialogue_push(r->dialogue, text, bytes));
  return r->status == CAIRN_OK;
}

cairn_status crn_reply_write_call(crn_str *out, const cairn_dialogue_call *call) {
  CRN_TRY(crn_str_putc(out, '{'));
  if (call->id) {
    CRN_TRY(crn_str_puts(out, "\"id\":"));
    CRN_TRY(crn_str_json(out, call->id, strlen(call->id)));
    CRN_TRY(crn_str_putc(out, ','));
  }
  CRN_TRY(crn_str_puts(out, "\"name\":"));
  CRN_TRY(crn_str_json(out, call->name, strlen(call->name)));
  CRN_TRY(crn_str_puts(out, ",\"arguments\":"));
  CRN_TRY(crn_str_append(out, call->arguments, call->arguments_bytes));
  return crn_str_putc(out, '}');
}

static cairn_status print_calls(crn_reply *r, const cairn_dialogue_result *result) {
  crn_str line;
  crn_str_initialize(&line, NULL);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < result->n_calls && status == CAIRN_OK; i++) {
    crn_str_clear(&line);
    if (!r->ends_line || i) status = crn_str_putc(&line, '\n');
    if (status == CAIRN_OK) status = crn_str_puts(&line, "tool call: ");
    if (status == CAIRN_OK) status = crn_reply_write_call(&line, &result->calls[i]);
    put(r, stdout, line.data, line.size);
  }
  crn_str_deinitialize(&line);
  return status;
}

cairn_status crn_reply_finish(crn_reply *r) {
  cairn_dialogue_result result;
  if (r->status == CAIRN_OK) keep_failure(r, cairn_dialogue_finish(r->dialogue));
  cairn_dialogue_get(r->dialogue, &result);
  if (r->print) mark_reasoning(r, false);
  if (r->print) CRN_TRY(print_calls(r, &result));
  if (r->status == CAIRN_OK) return CAIRN_OK;
  return crn_fail(r->status, __FILE__, __LINE__, "%s", r->failure);
}

void crn_reply_warn(const crn_reply *r) {
  cairn_dialogue_result result;
  cairn_dialogue_get(r->dialogue, &result);
  for (int i = 0; i < result.n_warnings; i++) {
    char line[512];
    size_t n = 0;
    // A warning quotes the model, whose lines and control characters are none of the terminal's.
    for (const char *p = result.warnings[i]; *p && n + 3 < sizeof line; p++) {
      const bool is_control = (unsigned char)*p < ' ' || *p == 0x7F;
      if (*p == '\n') line[n++] = '\\';
      line[n++] = *p == '\n' ? 'n' : is_control ? ' ' : *p;
    }
    line[n] = 0;
    crn_tool_warn(r->t, "%s", line);
  }
}

void crn_reply_close(crn_reply *r) {
  cairn_dialogue_destroy(r->dialogue);
  r->dialogue = NULL;
}

// --- documents --------------------------------------------------------------------------------------------------------

static void write_calls(crn_json_writer *w, const cairn_dialogue_result *result) {
  crn_jw_key(w, "tool_calls");
  crn_jw_open_array(w, false);
  for (int i = 0; i < result->n_calls; i++) {
    const cairn_dialogue_call *call = &result->calls[i];
    crn_jw_open_inline_object(w);
    if (call->id) crn_jw_put_text(w, "id", call->id);
    crn_jw_put_text(w, "type", "function");
    crn_jw_key(w, "function");
    crn_jw_open_inline_object(w);
    crn_jw_put_text(w, "name", call->name);
    crn_jw_key(w, "arguments");
    crn_jw_text_n(w, call->arguments, call->arguments_bytes);
    crn_jw_close_object(w);
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
}

void crn_reply_write(crn_json_writer *w, const crn_reply *r) {
  cairn_dialogue_result result;
  cairn_dialogue_get(r->dialogue, &result);
  if (result.reasoning_bytes || result.n_calls || result.n_malformed || !r->is_auto) {
    crn_jw_key(w, "content");
    crn_jw_text_n(w, result.content, result.content_bytes);
  }
  if (result.reasoning_bytes && !r->hide_reasoning) {
    crn_jw_key(w, "reasoning");
    crn_jw_text_n(w, result.reasoning, result.reasoning_bytes);
  }
  if (result.n_calls) write_calls(w, &result);
  if (result.n_malformed) crn_jw_put_integer(w, "malformed_tool_calls", result.n_malformed);
}

// --- the text for itself ----------------------------------------------------------------------------------------------

// Cuts a text at the stop text that is complete first.
static void cut_at_stop(const cairn_generate_options *options, crn_str *text) {
  const char *best_end = NULL, *best = NULL;
  for (int i = 0; i < options->n_stop; i++) {
    size_t n = strlen(options->stop[i]);
    const char *at = memmem(text->data, text->size, options->stop[i], n);
    if (!at || (best && at + n >= best_end)) continue;
    best = at;
    best_end = at + n;
  }
  if (!best) return;
  text->size = (size_t)(best - text->data);
  text->data[text->size] = 0;
}

cairn_status crn_reply_plain_text(const crn_reply *r, const cairn_llm *llm, const cairn_generation_info *info,
                                  const cairn_generate_options *options, crn_str *out) {
  char *text;
  size_t bytes, n = info->n_tokens;
  if (!r->n_shown || options->keep_special_tokens) return crn_str_append(out, info->text, info->text_bytes);
  const cairn_tokenizer *tokenizer = cairn_llm_tokenizer(llm);
  const char *last = n ? cairn_tokenizer_token(tokenizer, info->tokens[n - 1]) : NULL;
  // The token that ended the generation has no text.
  bool by_token = info->stop_reason == CAIRN_STOP_EOS || info->stop_reason == CAIRN_STOP_SEQUENCE;
  if (by_token && last && strcmp(last, info->stop_text) == 0) n--;
  CRN_TRY(crn_tool_decode(tokenizer, info->tokens, n, true, r->t->arena, &text, &bytes));
  CRN_TRY(crn_str_append(out, text, bytes));
  if (info->stop_reason == CAIRN_STOP_SEQUENCE) cut_at_stop(options, out);
  return CAIRN_OK;
}
