// The vocabulary of the model: texts to ids and back.
#include <string.h>

#include "text/tokenizer/internal.h"

int32_t crn_vocab_id(const crn_vocab *vocab, const char *text, size_t bytes) {
  uint64_t id;
  return crn_map_get(&vocab->ids, text, bytes, &id) ? (int32_t)id : -1;
}

// Tables are indexed by id, so a short file must not be able to ask for a long one.
static json_int_t largest_allowed(size_t n_tokens) {
  return n_tokens >= CRN_MAX_TOKEN_ID / 16 ? CRN_MAX_TOKEN_ID : (1 << 20) + 16 * (json_int_t)n_tokens;
}

static cairn_status check_id(const crn_build *build, const char *text, const json_t *id, json_int_t allowed) {
  if (!json_is_integer(id) || json_integer_value(id) < 0) {
    return CRN_FAIL(CORRUPT, "%s: the id of token '%.80s' must be a whole number from 0 on", build->what, text);
  }
  if (json_integer_value(id) > allowed) {
    return CRN_FAIL(UNSUPPORTED, "%s: token '%.80s' has id %lld, at most %lld is supported for as many tokens", build->what, text,
                    (long long)json_integer_value(id), (long long)allowed);
  }
  return CAIRN_OK;
}

static cairn_status add(crn_build *build, const char *text, size_t bytes, int32_t id) {
  cairn_tokenizer *t = build->tokenizer;
  crn_vocab *v = &t->vocab;
  if (bytes > INT32_MAX) return CRN_FAIL(CORRUPT, "%s: a token of %zu bytes is too long", build->what, bytes);
  CRN_TRY(crn_arena_strndup(&t->arena, text, bytes, &v->tokens[id].text));
  v->tokens[id].bytes = bytes;
  if ((int32_t)bytes > v->max_bytes) v->max_bytes = (int32_t)bytes;
  return crn_map_set(&v->ids, text, bytes, (uint64_t)id);
}

cairn_status crn_vocab_load_map(crn_build *build, const json_t *json) {
  crn_vocab *v = &build->tokenizer->vocab;
  const char *text;
  json_t *id;
  json_int_t largest = -1;
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s: 'vocab' must be an object of token ids", build->what);
  json_int_t allowed = largest_allowed(json_object_size(json));
  json_object_foreach((json_t *)json, text, id) {
    CRN_TRY(check_id(build, text, id, allowed));
    if (json_integer_value(id) > largest) largest = json_integer_value(id);
  }
  v->n_ids = (int32_t)largest + 1;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, (size_t)v->n_ids, sizeof *v->tokens, &v->tokens));
  json_object_foreach((json_t *)json, text, id) CRN_TRY(add(build, text, strlen(text), (int32_t)json_integer_value(id)));
  v->n_tokens = v->ids.size;
  return CAIRN_OK;
}

cairn_status crn_vocab_load_list(crn_build *build, const crn_view *texts, size_t n) {
  crn_vocab *v = &build->tokenizer->vocab;
  if (n > CRN_MAX_TOKEN_ID) return CRN_FAIL(UNSUPPORTED, "%s: %zu tokens, at most %d are supported", build->what, n, CRN_MAX_TOKEN_ID);
  v->n_ids = (int32_t)n;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, n, sizeof *v->tokens, &v->tokens));
  for (size_t i = 0; i < n; i++) CRN_TRY(add(build, texts[i].text, texts[i].bytes, (int32_t)i));
  v->n_tokens = n;
  return CAIRN_OK;
}
