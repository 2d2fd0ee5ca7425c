#include "engines/llm/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "engines/llm/stop_ids.h"

void crn_llm_text_initialize(crn_llm_text *text, cairn_context *context) {
  *text = (crn_llm_text){.context = context};
  crn_str_initialize(&text->no_tokenizer, &context->allocator);
  crn_str_initialize(&text->no_template, &context->allocator);
  crn_str_initialize(&text->folder, &context->allocator);
}

void crn_llm_text_deinitialize(crn_llm_text *text) {
  if (!text->context) return;
  cairn_tokenizer_release(text->tokenizer);
  if (text->chat_template) cairn_template_release(text->chat_template);
  if (text->tool_template) cairn_template_release(text->tool_template);
  json_decref(text->specials);
  crn_vec_free(&text->context->allocator, &text->stop_ids);
  crn_str_deinitialize(&text->no_tokenizer);
  crn_str_deinitialize(&text->no_template);
  crn_str_deinitialize(&text->folder);
  *text = (crn_llm_text){0};
}

cairn_status crn_llm_text_need_tokenizer(const crn_llm_text *text) {
  if (text->tokenizer) return CAIRN_OK;
  return CRN_FAIL(FAILED_PRECONDITION, "text needs a tokenizer, which this model lacks: %s; token ids can be used",
                  text->no_tokenizer.size ? text->no_tokenizer.data : "there is none with it");
}

cairn_status crn_llm_text_need_template(const crn_llm_text *text) {
  if (text->chat_template) return CAIRN_OK;
  return CRN_FAIL(FAILED_PRECONDITION, "a conversation needs a chat template, which this model lacks: %s; raw text can be used",
                  text->no_template.size ? text->no_template.data : "there is none with it");
}

// --- parts from an importer -----------------------------------------------------------------------------------------

static cairn_status set_special(crn_llm_text *text, const char *name, int32_t id) {
  const char *token = id < 0 ? NULL : cairn_tokenizer_token(text->tokenizer, id);
  if (!token) return CAIRN_OK;
  if (json_object_set_new_nocheck(text->specials, name, json_string(token)))
    return CRN_FAIL(OUT_OF_MEMORY, "no memory for the name of a token");
  return CAIRN_OK;
}

cairn_status crn_llm_text_take(crn_llm_text *text, const crn_llm_text_parts *parts) {
  if (!parts->tokenizer) return crn_str_puts(&text->no_tokenizer, "the file holds none");
  cairn_tokenizer_retain(parts->tokenizer);
  text->tokenizer = parts->tokenizer;
  text->specials = json_object();
  if (!text->specials) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the names of the special tokens");
  CRN_TRY(set_special(text, "bos_token", parts->bos_id));
  CRN_TRY(set_special(text, "eos_token", parts->eos_id));
  if (!parts->chat_template) {
    CRN_TRY(crn_str_puts(&text->no_template, "the file holds none"));
  } else {
    cairn_status status =
        cairn_template_create(text->context, parts->chat_template, strlen(parts->chat_template), "chat template", &text->chat_template);
    if (status == CAIRN_OUT_OF_MEMORY) return status;
    if (status != CAIRN_OK) CRN_TRY(crn_str_puts(&text->no_template, cairn_last_error()->message));
  }
  for (size_t i = 0; i < parts->n_stop_ids; i++) CRN_TRY(crn_stop_ids_add(text, parts->stop_ids[i], parts->vocab_size));
  CRN_TRY(crn_stop_ids_add(text, parts->eos_id, parts->vocab_size));
  return crn_stop_ids_finish(text, parts->vocab_size);
}

// --- rendering ------------------------------------------------------------------------------------------------------

static cairn_status out_of_json_memory(void) { return CRN_FAIL(OUT_OF_MEMORY, "no memory for the variables of the chat template"); }

static cairn_status set_default(json_t *variables, const char *key, json_t *value) {
  if (json_object_get(variables, key)) {
    json_decref(value);
    return CAIRN_OK;
  }
  return json_object_set_new_nocheck(variables, key, value) ? out_of_json_memory() : CAIRN_OK;
}

// Makes the object of variables out of an array of messages or an object that has them.
static cairn_status make_variables(const crn_llm_text *text, const char *conversation, size_t bytes, json_t **out_variables) {
  json_t *v;
  *out_variables = NULL;
  cairn_status status = crn_json_parse(conversation, bytes, "conversation", &v);
  if (status == CAIRN_CORRUPT) return CRN_FAIL(INVALID_ARGUMENT, "%s", cairn_last_error()->message);
  if (status != CAIRN_OK) return status;
  if (json_is_array(v)) {
    json_t *object = json_object();
    if (json_object_set_new(object, "messages", v)) {  // takes v over, also on failure
      json_decref(object);
      return out_of_json_memory();
    }
    v = object;
  }
  if (!json_is_array(json_object_get(v, "messages"))) {
    json_decref(v);
    return CRN_FAIL(INVALID_ARGUMENT, "conversation: expected an array of messages, or an object with the array 'messages'");
  }
  const char *name;
  json_t *value;
  CRN_TRY_GOTO(set_default(v, "add_generation_prompt", json_true()));
  CRN_TRY_GOTO(set_default(v, "tools", json_null()));
  CRN_TRY_GOTO(set_default(v, "documents", json_null()));
  json_object_foreach(text->specials, name, value) CRN_TRY_GOTO(set_default(v, name, json_incref(value)));
  *out_variables = v;
  return CAIRN_OK;
done:
  json_decref(v);
  return status;
}

static cairn_status render_into(const cairn_template *t, const char *json, size_t json_bytes, crn_str *out) {
  size_t need = 0;
  CRN_TRY(crn_str_reserve(out, 4 * json_bytes + 1024));
  CRN_TRY(cairn_template_render(t, json, json_bytes, NULL, out->data, out->capacity - 1, &need));
  if (need >= out->capacity) {
    CRN_TRY(crn_str_reserve(out, need));
    CRN_TRY(cairn_template_render(t, json, json_bytes, NULL, out->data, out->capacity - 1, &need));
  }
  if (need >= out->capacity) return CRN_FAIL(INTERNAL, "the chat template gave texts of different sizes");
  out->size = need;
  out->data[need] = 0;
  return CAIRN_OK;
}

cairn_status crn_llm_text_render(const crn_llm_text *text, const char *conversation, size_t bytes, crn_str *out) {
  json_t *variables;
  crn_str_clear(out);
  CRN_TRY(crn_llm_text_need_template(text));
  CRN_TRY(make_variables(text, conversation, bytes, &variables));
  bool has_tools = json_array_size(json_object_get(variables, "tools")) > 0;
  char *json = json_dumps(variables, JSON_COMPACT);
  json_decref(variables);
  if (!json) return out_of_json_memory();
  const cairn_template *t = has_tools && text->tool_template ? text->tool_template : text->chat_template;
  cairn_status status = render_into(t, json, strlen(json), out);
  free(json);
  return status;
}

cairn_status crn_llm_text_encode(const crn_llm_text *text, const char *string, size_t bytes, bool add_special_tokens, crn_id_vec *ids) {
  CRN_TRY(crn_llm_text_need_tokenizer(text));
  const cairn_allocator *a = &text->context->allocator;
  size_t n = 0;
  // A token is rarely shorter than 2 bytes, so one pass is the rule.
  CRN_TRY(crn_vec_reserve(a, ids, bytes / 2 + 16));
  CRN_TRY(
      cairn_tokenizer_encode(text->tokenizer, string, bytes, add_special_tokens, ids->items + ids->size, ids->capacity - ids->size, &n));
  if (n > ids->capacity - ids->size) {
    CRN_TRY(crn_vec_reserve(a, ids, n));
    CRN_TRY(
        cairn_tokenizer_encode(text->tokenizer, string, bytes, add_special_tokens, ids->items + ids->size, ids->capacity - ids->size, &n));
  }
  ids->size += n;
  return CAIRN_OK;
}
