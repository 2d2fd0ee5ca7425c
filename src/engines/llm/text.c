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
  cairn_template_set_release(text->templates);
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
  if (text->templates) return CAIRN_OK;
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
    CRN_TRY(
        cairn_template_set_create(text->context, parts->chat_template, strlen(parts->chat_template), "chat template", &text->templates));
    CRN_TRY(crn_llm_text_check_templates(text));
  }
  for (size_t i = 0; i < parts->n_stop_ids; i++) CRN_TRY(crn_stop_ids_add(text, parts->stop_ids[i], parts->vocab_size));
  CRN_TRY(crn_stop_ids_add(text, parts->eos_id, parts->vocab_size));
  return crn_stop_ids_finish(text, parts->vocab_size);
}

// --- rendering ------------------------------------------------------------------------------------------------------

// A set whose default does not compile is as good as none, and says so at once.
cairn_status crn_llm_text_check_templates(crn_llm_text *text) {
  const cairn_template *unused;
  cairn_status status = cairn_template_set_pick(text->templates, NULL, false, &unused, NULL, NULL);
  // Without a default there are templates to be named.
  if (status == CAIRN_OK || (status == CAIRN_NOT_FOUND && cairn_template_set_count(text->templates) > 0)) return CAIRN_OK;
  cairn_template_set_release(text->templates);
  text->templates = NULL;
  if (status == CAIRN_OUT_OF_MEMORY) return status;
  crn_str_clear(&text->no_template);
  return crn_str_puts(&text->no_template, cairn_last_error()->message);
}

// A conversation that is not continued asks for a reply unless it says otherwise.
static cairn_status add_prompt_wish(const char *conversation, size_t bytes, crn_str *out) {
  json_t *v;
  cairn_status status = crn_json_parse(conversation, bytes, "conversation", &v);
  if (status == CAIRN_CORRUPT) return CRN_FAIL(INVALID_ARGUMENT, "%s", cairn_last_error()->message);
  if (status != CAIRN_OK) return status;
  const json_t *continued = json_object_get(v, "continue_final_message");
  bool is_continued = json_is_true(continued) || json_string_length(continued) > 0;
  if (json_is_array(v)) {
    json_t *object = json_object();
    if (json_object_set_new(object, "messages", v)) v = NULL;  // takes v over, also on failure
    if (v) v = object;
    if (!v) json_decref(object);
  }
  bool ok = v != NULL;
  if (ok && json_is_object(v) && !json_object_get(v, "add_generation_prompt"))
    ok = !json_object_set_new(v, "add_generation_prompt", json_boolean(!is_continued));
  char *text = ok ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  json_decref(v);
  status = text ? crn_str_puts(out, text) : CRN_FAIL(OUT_OF_MEMORY, "no memory for the variables of the chat template");
  free(text);
  return status;
}

static cairn_status render_into(const crn_llm_text *text, const crn_str *conversation, const char *specials, crn_str *out) {
  size_t need = 0;
  CRN_TRY(crn_str_reserve(out, 4 * conversation->size + 1024));
  CRN_TRY(cairn_template_set_render(text->templates, conversation->data, conversation->size, specials, NULL, out->data, out->capacity - 1,
                                    &need));
  if (need >= out->capacity) {
    CRN_TRY(crn_str_reserve(out, need));
    CRN_TRY(cairn_template_set_render(text->templates, conversation->data, conversation->size, specials, NULL, out->data, out->capacity - 1,
                                      &need));
  }
  if (need >= out->capacity) return CRN_FAIL(INTERNAL, "the chat template gave texts of different sizes");
  out->size = need;
  out->data[need] = 0;
  return CAIRN_OK;
}

cairn_status crn_llm_text_render(const crn_llm_text *text, const char *conversation, size_t bytes, crn_str *out) {
  crn_str complete;
  crn_str_clear(out);
  CRN_TRY(crn_llm_text_need_template(text));
  char *specials = json_dumps(text->specials, JSON_COMPACT);
  if (!specials) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the names of the special tokens");
  crn_str_initialize(&complete, &text->context->allocator);
  cairn_status status = add_prompt_wish(conversation, bytes, &complete);
  if (status == CAIRN_OK) status = render_into(text, &complete, specials, out);
  crn_str_deinitialize(&complete);
  free(specials);
  return status;
}

cairn_status crn_llm_text_encode(const crn_llm_text *text, const char *string, size_t bytes, bool add_special_tokens, crn_id_vec *ids) {
  CRN_TRY(crn_llm_text_need_tokenizer(text));
  const cairn_allocator *a = &text->context->allocator;
  size_t n = 0;
  // A token is rarely shorter than 2 bytes, so one pass is the rule.
  CRN_TRY(crn_vec_reserve(a, ids, bytes / 2 + 16));
  const cairn_tokenizer *t = text->tokenizer;
  CRN_TRY(cairn_tokenizer_encode_whole(t, string, bytes, add_special_tokens, ids->items + ids->size, ids->capacity - ids->size, &n));
  if (n > ids->capacity - ids->size) {
    CRN_TRY(crn_vec_reserve(a, ids, n));
    CRN_TRY(cairn_tokenizer_encode_whole(t, string, bytes, add_special_tokens, ids->items + ids->size, ids->capacity - ids->size, &n));
  }
  ids->size += n;
  return CAIRN_OK;
}
