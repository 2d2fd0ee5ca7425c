/// From the three ways to give a prompt to token ids.
#include <string.h>

#include "base/log.h"
#include "engines/llm/internal.h"

static void give_bytes(const crn_str *text, char *out_text, size_t capacity, size_t *out_bytes) {
  size_t n = text->size < capacity ? text->size : capacity;
  if (n) memcpy(out_text, text->data, n);
  *out_bytes = text->size;
}

// Templates disagree about images: one that knows no parts fails on them or leaves them out, and gets texts with the places written in.
static cairn_status render(const cairn_llm *llm, const char *conversation, size_t bytes, crn_str *out) {
  cairn_status status = crn_llm_text_render(&llm->model->text, conversation, bytes, out);
  bool is_complete = true;
  if (status != CAIRN_OK) crn_str_clear(out);
  if (llm->model->vision) CRN_TRY(crn_llm_check_places(llm, conversation, bytes, out, &is_complete));
  if (is_complete) return status;
  crn_str flat;
  crn_str_initialize(&flat, &llm->context->allocator);
  status = crn_llm_flatten_parts(llm, conversation, bytes, &flat);
  if (status == CAIRN_OK) status = crn_llm_text_render(&llm->model->text, flat.data, flat.size, out);
  crn_str_deinitialize(&flat);
  return status;
}

cairn_status cairn_llm_render(const cairn_llm *llm, const char *conversation_json, size_t bytes, char *out_text, size_t capacity,
                              size_t *out_bytes) {
  CRN_REQUIRE(llm);
  CRN_REQUIRE_SOME(out_text, capacity);
  CRN_REQUIRE(out_bytes);
  crn_str rendered;
  *out_bytes = 0;
  crn_str_initialize(&rendered, &llm->context->allocator);
  cairn_status status = crn_llm_text_need_tokenizer(&llm->model->text);
  if (status == CAIRN_OK) status = render(llm, conversation_json, bytes, &rendered);
  if (status == CAIRN_OK) give_bytes(&rendered, out_text, capacity, out_bytes);
  crn_str_deinitialize(&rendered);
  return status;
}

const cairn_template_set *cairn_llm_templates(const cairn_llm *llm) { return llm ? llm->model->text.templates : NULL; }

// The template writes the special tokens itself, so the tokenizer must not add them again.
static cairn_status encode_conversation(const cairn_llm *llm, const char *conversation, size_t bytes, crn_id_vec *ids) {
  crn_str rendered;
  crn_str_initialize(&rendered, &llm->context->allocator);
  cairn_status status = render(llm, conversation, bytes, &rendered);
  if (status == CAIRN_OK) status = crn_llm_text_encode(&llm->model->text, rendered.data, rendered.size, false, ids);
  crn_str_deinitialize(&rendered);
  return status;
}

static cairn_status encode_text(const cairn_llm *llm, const cairn_generate_options *o, bool is_message, crn_id_vec *ids) {
  crn_str text;
  crn_str_initialize(&text, &llm->context->allocator);
  cairn_status status = is_message ? crn_llm_message_of(llm, o, &text) : crn_llm_raw_text_of(llm, o, &text);
  if (status == CAIRN_OK) {
    status = is_message ? encode_conversation(llm, text.data, text.size, ids)
                        : crn_llm_text_encode(&llm->model->text, text.data, text.size, true, ids);
  }
  crn_str_deinitialize(&text);
  return status;
}

static cairn_status prompt_of_text(const cairn_llm *llm, const cairn_generate_options *o, crn_id_vec *ids, const char **out_form) {
  CRN_TRY(crn_llm_text_need_tokenizer(&llm->model->text));
  bool is_message = o->form == CAIRN_PROMPT_TEMPLATE || (o->form == CAIRN_PROMPT_AUTO && llm->model->text.templates);
  *out_form = is_message ? "template" : "raw";
  return encode_text(llm, o, is_message, ids);
}

cairn_status crn_llm_prompt(const cairn_llm *llm, const cairn_generate_options *o, crn_id_vec *ids, const char **out_form) {
  int n_given = (o->tokens != NULL) + (o->text != NULL) + (o->conversation != NULL);
  if (n_given != 1)
    return CRN_FAIL(INVALID_ARGUMENT, "%d prompts were given; exactly one of tokens, text and conversation is expected", n_given);
  if (o->form < CAIRN_PROMPT_AUTO || o->form > CAIRN_PROMPT_TEMPLATE)
    return CRN_FAIL(INVALID_ARGUMENT, "form is %d; 0 (auto), 1 (raw) or 2 (template) expected", (int)o->form);
  // Told before a template can stumble over the images.
  if (o->n_images > 0 && !llm->model->vision) return CRN_FAIL(UNSUPPORTED, "the model takes no images: a bundle of kind vlm is needed");
  if (o->text) {
    CRN_TRY(prompt_of_text(llm, o, ids, out_form));
  } else if (o->conversation) {
    CRN_TRY(crn_llm_text_need_tokenizer(&llm->model->text));
    *out_form = "template";
    CRN_TRY(encode_conversation(llm, o->conversation, o->conversation_bytes, ids));
  } else {
    *out_form = "tokens";
    CRN_TRY(crn_vec_reserve(&llm->context->allocator, ids, o->n_tokens));
    if (o->n_tokens) memcpy(ids->items + ids->size, o->tokens, o->n_tokens * sizeof *o->tokens);
    ids->size += o->n_tokens;
  }
  if (!ids->size) return CRN_FAIL(INVALID_ARGUMENT, "the prompt has no tokens");
  return crn_llm_check_tokens(llm, "prompt", ids->items, ids->size);
}

cairn_status cairn_llm_encode_prompt(const cairn_llm *llm, const cairn_generate_options *options, int32_t *out_ids, size_t capacity,
                                     size_t *out_count) {
  CRN_REQUIRE(llm);
  CRN_REQUIRE(options);
  CRN_REQUIRE_SOME(out_ids, capacity);
  CRN_REQUIRE(out_count);
  crn_id_vec ids = {0};
  const char *form;
  *out_count = 0;
  cairn_status status = crn_llm_prompt(llm, options, &ids, &form);
  if (status == CAIRN_OK) {
    size_t n = ids.size < capacity ? ids.size : capacity;
    if (n) memcpy(out_ids, ids.items, n * sizeof *out_ids);
    *out_count = ids.size;
  }
  crn_vec_free(&llm->context->allocator, &ids);
  return status;
}
