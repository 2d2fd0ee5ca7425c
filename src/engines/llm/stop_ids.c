#include "engines/llm/stop_ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"

bool crn_is_end_of_turn(const char *token) {
  static const char *const kParts[] = {"end_of_turn", "endofturn", "im_end", "eot_id", "endoftext", "end_of_text", "eot_token", "<|eot|>"};
  for (size_t i = 0; i < sizeof kParts / sizeof *kParts; i++) {
    if (strstr(token, kParts[i])) return true;
  }
  return false;
}

cairn_status crn_stop_ids_add(crn_llm_text *text, int32_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) return CAIRN_OK;
  for (size_t i = 0; i < text->stop_ids.size; i++) {
    if (text->stop_ids.items[i] == id) return CAIRN_OK;
  }
  return crn_vec_push(&text->context->allocator, &text->stop_ids, id);
}

// The text of a token given as a string or as an object with "content"; NULL for anything else.
static const char *token_text(const json_t *v) { return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v); }

static cairn_status add_token(crn_llm_text *text, const char *token, int64_t vocab_size) {
  return token ? crn_stop_ids_add(text, cairn_tokenizer_id(text->tokenizer, token), vocab_size) : CAIRN_OK;
}

cairn_status crn_stop_ids_from_config(crn_llm_text *text, const json_t *config, int64_t vocab_size) {
  static const char *const kNames[] = {"eot_token", "end_of_turn", "im_end", "endoftext"};
  size_t i;
  const char *key;
  json_t *item, *eos = json_object_get(config, "eos_token");
  CRN_TRY(add_token(text, token_text(eos), vocab_size));
  json_array_foreach(eos, i, item) CRN_TRY(add_token(text, token_text(item), vocab_size));
  // Tokens that start a turn, or mark tools and images, are listed here, too.
  json_array_foreach(json_object_get(config, "additional_special_tokens"), i, item) {
    const char *token = token_text(item);
    if (token && crn_is_end_of_turn(token)) CRN_TRY(add_token(text, token, vocab_size));
  }
  json_t *added = json_object_get(config, "added_tokens_decoder");
  json_object_foreach(added, key, item) {
    const char *token = token_text(item);
    if (token && json_is_true(json_object_get(item, "special")) && crn_is_end_of_turn(token)) CRN_TRY(add_token(text, token, vocab_size));
  }
  for (i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    CRN_TRY(add_token(text, json_string_value(json_object_get(config, kNames[i])), vocab_size));
  }
  return CAIRN_OK;
}

static cairn_status add_number(crn_llm_text *text, const json_t *id, int64_t vocab_size) {
  int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
  return value < 0 || value >= vocab_size ? CAIRN_OK : crn_stop_ids_add(text, (int32_t)value, vocab_size);
}

cairn_status crn_stop_ids_from_generation(crn_llm_text *text, const json_t *config, int64_t vocab_size) {
  json_t *eos = json_object_get(config, "eos_token_id"), *item;
  size_t i;
  CRN_TRY(add_number(text, eos, vocab_size));
  json_array_foreach(eos, i, item) CRN_TRY(add_number(text, item, vocab_size));
  return CAIRN_OK;
}

// --- what tokenizer and template tell -------------------------------------------------------------------------------

static cairn_status add_special_tokens(crn_llm_text *text, int64_t vocab_size) {
  int32_t n = cairn_tokenizer_vocab_size(text->tokenizer);
  for (int32_t id = 0; id < n; id++) {
    if (!cairn_tokenizer_is_special(text->tokenizer, id)) continue;
    const char *token = cairn_tokenizer_token(text->tokenizer, id);
    if (token && crn_is_end_of_turn(token)) CRN_TRY(crn_stop_ids_add(text, id, vocab_size));
  }
  return CAIRN_OK;
}

// A marker is a special token, or one written like "<turn|>" or "[END]".
static bool is_marker(const cairn_tokenizer *t, int32_t id, const char *token) {
  size_t n = strlen(token);
  return cairn_tokenizer_is_special(t, id) ||
         (n > 2 && ((token[0] == '<' && token[n - 1] == '>') || (token[0] == '[' && token[n - 1] == ']')));
}

// Renders a finished answer and looks at what follows it: when that is a marker, the model has learnt to end turns with it.
static cairn_status add_template_terminator(crn_llm_text *text, int64_t vocab_size) {
  static const char kAnswer[] = "cairn-answer";
  static const char kConversation[] =
      "{\"add_generation_prompt\":false,\"messages\":[{\"role\":\"user\",\"content\":\"cairn-question\"},"
      "{\"role\":\"assistant\",\"content\":\"cairn-answer\"}]}";
  crn_str rendered;
  crn_id_vec ids = {0};
  crn_str_initialize(&rendered, &text->context->allocator);
  cairn_status status = crn_llm_text_render(text, kConversation, strlen(kConversation), &rendered);
  const char *rest = NULL;
  for (const char *at = rendered.data; status == CAIRN_OK && (at = strstr(at, kAnswer)); at++) rest = at + strlen(kAnswer);
  if (rest) rest += strspn(rest, " \t\r\n");
  if (rest && *rest) status = crn_llm_text_encode(text, rest, strlen(rest), false, &ids);
  if (status == CAIRN_OK && ids.size) {
    const char *token = cairn_tokenizer_token(text->tokenizer, ids.items[0]);
    if (token && crn_starts_with(rest, token) && is_marker(text->tokenizer, ids.items[0], token)) {
      status = crn_stop_ids_add(text, ids.items[0], vocab_size);
    }
  }
  crn_vec_free(&text->context->allocator, &ids);
  crn_str_deinitialize(&rendered);
  if (status == CAIRN_OUT_OF_MEMORY) return status;
  // A template that cannot render these two messages tells nothing here; it will say why when it is used.
  if (status != CAIRN_OK) crn_error_clear();
  return CAIRN_OK;
}

static int compare_ids(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

cairn_status crn_stop_ids_finish(crn_llm_text *text, int64_t vocab_size) {
  // A SentencePiece model names its end itself.
  CRN_TRY(add_token(text, cairn_tokenizer_role(text->tokenizer, "eos_token"), vocab_size));
  CRN_TRY(add_special_tokens(text, vocab_size));
  if (text->templates) CRN_TRY(add_template_terminator(text, vocab_size));
  if (text->stop_ids.size) qsort(text->stop_ids.items, text->stop_ids.size, sizeof *text->stop_ids.items, compare_ids);
  return CAIRN_OK;
}
