#include "text/tokenizer/sentencepiece_beside.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/tokenizer/spec.h"

typedef CRN_VEC(crn_added_token) token_vec;

typedef struct beside {
  crn_build *build;
  json_t *config, *added;
  token_vec tokens;
} beside;

static cairn_status read_optional(const crn_build *build, const char *folder, const char *name, json_t **out) {
  crn_str path;
  crn_str_initialize(&path, build->allocator);
  cairn_status status = crn_path_join(&path, folder, name);
  if (status == CAIRN_OK && crn_file_exists(path.data)) status = crn_json_read_nul(path.data, out);
  crn_str_deinitialize(&path);
  return status;
}

// Tokenizers of these classes number their tokens otherwise than the model does, or put more around a text.
static cairn_status check_class(const crn_build *build, const char *name) {
  static const char *const others[] = {"XLMRoberta", "Camembert", "MBart",   "Nllb",        "XGLM",    "Barthez", "Bartpho",
                                       "PLBart",     "M2M100",    "Marian",  "Speech2Text", "Pegasus", "BigBird", "Albert",
                                       "XLNet",      "Reformer",  "Rembert", "RemBert",     "Fnet",    "FNet",    "MLuke",
                                       "CpmAnt",     "Deberta",   "Ernie",   "SeamlessM4T"};
  for (size_t i = 0; name && i < sizeof others / sizeof *others; i++) {
    if (!crn_starts_with(name, others[i])) continue;
    return CRN_FAIL(UNSUPPORTED, "%s: tokenizer_class '%.80s' changes what the model says; a tokenizer.json is needed", build->what, name);
  }
  return CAIRN_OK;
}

// --- added tokens --------------------------------------------------------------------------------------------------------------

static cairn_status add_token(beside *b, const crn_added_token *token) {
  for (size_t i = 0; i < b->tokens.size; i++) {
    crn_added_token *old = &b->tokens.items[i];
    if (old->content.bytes != token->content.bytes || memcmp(old->content.text, token->content.text, token->content.bytes)) continue;
    *old = *token;
    return CAIRN_OK;
  }
  return crn_vec_push(b->build->allocator, &b->tokens, *token);
}

static cairn_status add_pieces(beside *b, const uint8_t *types) {
  const crn_vocab *v = &b->build->tokenizer->vocab;
  for (int32_t i = 0; i < v->n_ids; i++) {
    if (types[i] != CRN_TOKEN_CONTROL && types[i] != CRN_TOKEN_UNKNOWN) continue;
    CRN_TRY(crn_vec_push(b->build->allocator, &b->tokens, ((crn_added_token){.content = v->tokens[i], .id = i, .special = true})));
  }
  return CAIRN_OK;
}

static bool flag(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

static cairn_status check_id(const beside *b, long long id, const char *content) {
  if (id >= 0 && id <= CRN_MAX_TOKEN_ID) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: added token '%.80s' has id %lld, 0 to %d expected", b->build->what, content, id, CRN_MAX_TOKEN_ID);
}

// {"32000": {"content": …}}
static cairn_status add_decoder_tokens(beside *b) {
  const char *key;
  json_t *item;
  json_object_foreach(json_object_get(b->config, "added_tokens_decoder"), key, item) {
    crn_added_token token = {.special = flag(item, "special"), .lstrip = flag(item, "lstrip"), .rstrip = flag(item, "rstrip")};
    token.single_word = flag(item, "single_word");
    CRN_TRY(crn_build_view(b->build, item, b->build->what, "content", true, &token.content));
    char *end;
    long long id = strtoll(key, &end, 10);
    CRN_TRY(check_id(b, *end || end == key ? -1 : id, token.content.text));
    token.id = (int32_t)id;
    CRN_TRY(add_token(b, &token));
  }
  return CAIRN_OK;
}

// {"<pad>": 32000}
static cairn_status add_named_tokens(beside *b) {
  const char *content;
  size_t bytes;
  json_t *id;
  json_object_keylen_foreach(b->added, content, bytes, id) {
    crn_added_token token = {.content.bytes = bytes, .special = true};
    CRN_TRY(check_id(b, json_is_integer(id) ? json_integer_value(id) : -1, content));
    CRN_TRY(crn_arena_strndup(&b->build->tokenizer->arena, content, bytes, &token.content.text));
    token.id = (int32_t)json_integer_value(id);
    bool known = false;
    for (size_t i = 0; i < b->tokens.size; i++) known = known || b->tokens.items[i].id == token.id;
    if (!known) CRN_TRY(add_token(b, &token));
  }
  return CAIRN_OK;
}

static int compare_tokens(const void *x, const void *y) {
  const crn_added_token *a = x, *b = y;
  return (a->id > b->id) - (a->id < b->id);
}

static cairn_status set_tokens(beside *b) {
  const crn_added *added = &b->build->tokenizer->added;
  if (b->tokens.size) qsort(b->tokens.items, b->tokens.size, sizeof *b->tokens.items, compare_tokens);
  CRN_TRY(crn_added_set(b->build, b->tokens.items, b->tokens.size));
  for (size_t i = 0; i < b->tokens.size; i++) {
    const crn_added_token *token = &b->tokens.items[i];
    uint64_t index;
    if (!crn_map_get(&added->by_content, token->content.text, token->content.bytes, &index)) continue;
    int32_t id = added->tokens[index].id;
    if (id != token->id) {
      return CRN_FAIL(UNSUPPORTED, "%s: added token '%.80s' has id %d, only %d can be given to it", b->build->what, token->content.text,
                      (int)token->id, (int)id);
    }
  }
  return CAIRN_OK;
}

// --- what is put around a text ----------------------------------------------------------------------------------------------------

static cairn_status add_frame(beside *b, int32_t bos_id, int32_t eos_id) {
  const char *class_name = json_string_value(json_object_get(b->config, "tokenizer_class"));
  CRN_TRY(check_class(b->build, class_name));
  bool is_t5 = class_name && (crn_starts_with(class_name, "T5") || crn_starts_with(class_name, "MT5"));
  bool is_llama = class_name && (strstr(class_name, "Llama") || strstr(class_name, "Gemma"));
  bool bos = is_llama, eos = is_t5;
  const json_t *add_bos = json_object_get(b->config, "add_bos_token"), *add_eos = json_object_get(b->config, "add_eos_token");
  if (json_is_boolean(add_bos)) bos = json_is_true(add_bos);
  if (json_is_boolean(add_eos)) eos = json_is_true(add_eos);
  if (!bos || bos_id < 0) bos_id = -1;
  if (!eos || eos_id < 0) eos_id = -1;
  return bos_id < 0 && eos_id < 0 ? CAIRN_OK : crn_processors_add_bos_eos(b->build, bos_id, eos_id);
}

// The names the configuration has for the two tokens win over those of the model.
static int32_t named_id(const beside *b, const char *key, int32_t otherwise) {
  const json_t *v = json_object_get(b->config, key);
  if (json_is_object(v)) v = json_object_get(v, "content");
  int32_t id = json_is_string(v) ? crn_vocab_id(&b->build->tokenizer->vocab, json_string_value(v), json_string_length(v)) : -1;
  return id >= 0 ? id : otherwise;
}

cairn_status crn_sentencepiece_load_beside(crn_build *build, const char *folder, const uint8_t *types, int32_t bos_id, int32_t eos_id,
                                           bool *out_beside) {
  beside b = {.build = build};
  cairn_status status;
  CRN_TRY_GOTO(read_optional(build, folder, "tokenizer_config.json", &b.config));
  *out_beside = json_is_object(b.config);
  if (!*out_beside) goto done;
  CRN_TRY_GOTO(read_optional(build, folder, "added_tokens.json", &b.added));
  CRN_TRY_GOTO(add_frame(&b, named_id(&b, "bos_token", bos_id), named_id(&b, "eos_token", eos_id)));
  CRN_TRY_GOTO(add_pieces(&b, types));
  CRN_TRY_GOTO(add_decoder_tokens(&b));
  CRN_TRY_GOTO(add_named_tokens(&b));
  status = set_tokens(&b);
done:
  crn_vec_free(build->allocator, &b.tokens);
  json_decref(b.config);
  json_decref(b.added);
  return status;
}
