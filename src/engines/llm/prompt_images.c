/// Prompts with images: their places in conversations and texts, and the tokens of the images in them.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "engines/llm/internal.h"
#include "engines/llm/vision.h"

// --- places as text ---------------------------------------------------------------------------------------------------

// How a place is written where a template knows no images: the image token, between the marks of its kind where the vocabulary has them.
static cairn_status append_place(const cairn_llm *llm, crn_str *out) {
  static const char *const kMarks[][2] = {{"<|vision_start|>", "<|vision_end|>"}, {"<start_of_image>", "<end_of_image>"}};
  const cairn_tokenizer *t = llm->model->text.tokenizer;
  const char *token = cairn_tokenizer_token(t, crn_vision_token(llm->model->vision));
  if (!token)
    return CRN_FAIL(UNSUPPORTED, "the tokenizer has no token %d, which vision.image_token_id names", crn_vision_token(llm->model->vision));
  for (size_t i = 0; i < sizeof kMarks / sizeof *kMarks; i++) {
    if (cairn_tokenizer_id(t, kMarks[i][0]) < 0 || cairn_tokenizer_id(t, kMarks[i][1]) < 0) continue;
    return crn_str_printf(out, "%s%s%s", kMarks[i][0], token, kMarks[i][1]);
  }
  return crn_str_puts(out, token);
}

static json_t *messages_of(json_t *root) { return json_is_array(root) ? root : json_object_get(root, "messages"); }

static bool is_image_part(const json_t *part) {
  const char *type = json_string_value(json_object_get(part, "type"));
  return type && (strcmp(type, "image") == 0 || strcmp(type, "image_url") == 0);
}

static cairn_status append_part(const cairn_llm *llm, const json_t *part, crn_str *out) {
  const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
  if (is_image_part(part)) return append_place(llm, out);
  if (json_is_string(text)) return crn_str_append(out, json_string_value(text), json_string_length(text));
  return CRN_FAIL(INVALID_ARGUMENT,
                  "a part of a message is neither a text nor an image ({\"type\":\"text\",\"text\":...} or {\"type\":\"image\"})");
}

static size_t count_parts(json_t *messages) {
  json_t *message, *part;
  size_t i, k, n = 0;
  json_array_foreach(messages, i, message) { json_array_foreach(json_object_get(message, "content"), k, part) n += is_image_part(part); }
  return n;
}

static size_t count_texts(const crn_str *text, const char *part) {
  size_t n = 0;
  for (const char *at = text->size ? text->data : ""; (at = strstr(at, part)); at += strlen(part)) n++;
  return n;
}

cairn_status crn_llm_check_places(const cairn_llm *llm, const char *conversation, size_t bytes, const crn_str *rendered,
                                  bool *out_complete) {
  const char *token = cairn_tokenizer_token(llm->model->text.tokenizer, crn_vision_token(llm->model->vision));
  json_t *root;
  CRN_TRY(crn_json_parse(conversation, bytes, "the conversation", &root));
  size_t n = count_parts(messages_of(root));
  *out_complete = !n || (token && count_texts(rendered, token) >= n);
  json_decref(root);
  return CAIRN_OK;
}

// Makes the content of messages that is a list of parts one text.
static cairn_status flatten(const cairn_llm *llm, json_t *messages) {
  json_t *message, *part;
  size_t i, k;
  json_array_foreach(messages, i, message) {
    json_t *content = json_object_get(message, "content");
    crn_str text;
    if (!json_is_array(content)) continue;
    crn_str_initialize(&text, &llm->context->allocator);
    cairn_status status = CAIRN_OK;
    json_array_foreach(content, k, part) {
      if (status == CAIRN_OK) status = append_part(llm, part, &text);
    }
    if (status == CAIRN_OK && json_object_set_new(message, "content", json_stringn(text.size ? text.data : "", text.size)) != 0)
      status = CRN_FAIL(OUT_OF_MEMORY, "no memory for the conversation");
    crn_str_deinitialize(&text);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

cairn_status crn_llm_flatten_parts(const cairn_llm *llm, const char *conversation, size_t bytes, crn_str *out) {
  json_t *root;
  CRN_TRY(crn_json_parse(conversation, bytes, "the conversation", &root));
  cairn_status status = flatten(llm, messages_of(root));
  char *text = status == CAIRN_OK ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  if (status == CAIRN_OK) status = text ? crn_str_puts(out, text) : CRN_FAIL(OUT_OF_MEMORY, "no memory for the conversation");
  free(text);
  return status;
}

cairn_status crn_llm_message_of(const cairn_llm *llm, const cairn_generate_options *o, crn_str *out) {
  (void)llm;
  CRN_TRY(crn_str_puts(out, "[{\"role\":\"user\",\"content\":"));
  if (o->n_images > 0) {
    CRN_TRY(crn_str_puts(out, "["));
    for (int i = 0; i < o->n_images; i++) CRN_TRY(crn_str_puts(out, "{\"type\":\"image\"},"));
    CRN_TRY(crn_str_puts(out, "{\"type\":\"text\",\"text\":"));
  }
  CRN_TRY(crn_str_json(out, o->text, o->text_bytes));
  return crn_str_puts(out, o->n_images > 0 ? "}]}]" : "}]");
}

cairn_status crn_llm_raw_text_of(const cairn_llm *llm, const cairn_generate_options *o, crn_str *out) {
  for (int i = 0; llm->model->vision && i < o->n_images; i++) CRN_TRY(append_place(llm, out));
  return crn_str_append(out, o->text, o->text_bytes);
}

// --- tokens of images -------------------------------------------------------------------------------------------------

cairn_status crn_llm_place_images(cairn_llm *llm, const cairn_generate_options *o, crn_id_vec *ids) {
  if (o->n_images < 0) return CRN_FAIL(INVALID_ARGUMENT, "%d images", o->n_images);
  if (o->n_images == 0) {
    bool has_place = false;
    for (size_t i = 0; llm->model->vision && i < ids->size; i++) has_place |= ids->items[i] == crn_vision_token(llm->model->vision);
    if (has_place) CRN_WARN(llm->context, "the prompt has image tokens, but no image was given: they mean nothing");
    return CAIRN_OK;
  }
  return crn_vision_place(llm->model->vision, o->images, o->n_images, &ids->items, &ids->size, &ids->capacity);
}
