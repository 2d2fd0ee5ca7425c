/// The `language` and `vision` blocks of bundles.
#include <math.h>
#include <string.h>

#include "engines/llm/bundle_internal.h"

enum { MAX_TOKENS = INT32_MAX };

const char *cairn_state_kind_text(cairn_state_kind kind) {
  switch (kind) {
    case CAIRN_STATE_KV_CACHE:
      return "kv_cache";
    case CAIRN_STATE_SLIDING_CACHE:
      return "sliding_cache";
    case CAIRN_STATE_FIXED:
      return "fixed";
    default:
      return "unknown";
  }
}

static cairn_state_kind state_kind_of_text(const char *text) {
  for (int k = CAIRN_STATE_KV_CACHE; k <= CAIRN_STATE_FIXED; k++) {
    if (text && strcmp(text, cairn_state_kind_text((cairn_state_kind)k)) == 0) return (cairn_state_kind)k;
  }
  return CAIRN_STATE_UNKNOWN;
}

// An integer of [low, MAX_TOKENS]; absent and optional keeps `*out`.
static cairn_status get_count(const cairn_bundle *b, const json_t *block, const char *prefix, const char *key, bool required, int64_t low,
                              int64_t *out) {
  json_t *v;
  CRN_TRY(crn_bundle_field(b, block, prefix, key, JSON_INTEGER, required, &v));
  if (!v) return CAIRN_OK;
  *out = json_integer_value(v);
  if (*out < low || *out > MAX_TOKENS) {
    return CRN_BUNDLE_MALFORMED(b, "'%s%s' is %lld; accepted are %lld to %d", prefix, key, (long long)*out, (long long)low,
                                (int)MAX_TOKENS);
  }
  return CAIRN_OK;
}

static cairn_status get_bool(const cairn_bundle *b, const json_t *block, const char *prefix, const char *key, bool *out) {
  json_t *v;
  CRN_TRY(crn_bundle_field(b, block, prefix, key, JSON_TRUE, false, &v));
  if (v) *out = json_is_true(v);
  return CAIRN_OK;
}

static cairn_status check_function_map(const cairn_bundle *b, const json_t *language) {
  json_t *map, *names, *name;
  const char *role;
  size_t i;
  CRN_TRY(crn_bundle_field(b, language, "language.", "function_map", JSON_OBJECT, false, &map));
  json_object_foreach(map, role, names) {
    if (!json_is_array(names)) return CRN_BUNDLE_MALFORMED(b, "'language.function_map.%s' must be an array of function names", role);
    json_array_foreach(names, i, name) {
      if (!json_is_string(name)) return CRN_BUNDLE_MALFORMED(b, "'language.function_map.%s' must hold function names only", role);
    }
  }
  return CAIRN_OK;
}

static cairn_status check_states(const cairn_bundle *b, const json_t *language) {
  json_t *map, *kind;
  const char *state;
  CRN_TRY(crn_bundle_field(b, language, "language.", "states", JSON_OBJECT, false, &map));
  json_object_foreach(map, state, kind) {
    if (state_kind_of_text(json_string_value(kind)) != CAIRN_STATE_UNKNOWN) continue;
    return CRN_BUNDLE_MALFORMED(b, "'language.states.%s' must be kv_cache, sliding_cache or fixed%s%s", state,
                                json_is_string(kind) ? ", found " : "", json_is_string(kind) ? json_string_value(kind) : "");
  }
  return CAIRN_OK;
}

cairn_status cairn_bundle_get_language(const cairn_bundle *bundle, cairn_bundle_language *out_language) {
  CRN_REQUIRE(bundle);
  CRN_REQUIRE(out_language);
  *out_language = (cairn_bundle_language){.embedded_tokenizer = true};
  if (bundle->kind != CAIRN_BUNDLE_LLM && bundle->kind != CAIRN_BUNDLE_VLM) {
    return CRN_FAIL(INCOMPATIBLE, "%s: expected a bundle of kind llm or vlm, got %s", bundle->path.data,
                    cairn_bundle_kind_text(bundle->kind));
  }
  json_t *language, *tokenizer;
  CRN_TRY(crn_bundle_field(bundle, bundle->root, "", "language", JSON_OBJECT, true, &language));
  CRN_TRY(crn_bundle_field(bundle, language, "language.", "tokenizer", JSON_STRING, true, &tokenizer));
  out_language->tokenizer = json_string_value(tokenizer);
  CRN_TRY(get_count(bundle, language, "language.", "vocab_size", true, 1, &out_language->vocab_size));
  CRN_TRY(get_count(bundle, language, "language.", "max_context_length", true, 1, &out_language->max_context_length));
  CRN_TRY(get_bool(bundle, language, "language.", "embedded_tokenizer", &out_language->embedded_tokenizer));
  CRN_TRY(check_function_map(bundle, language));
  return check_states(bundle, language);
}

const char *crn_bundle_function_at(const cairn_bundle *bundle, const char *role, size_t i) {
  json_t *map = json_object_get(json_object_get(bundle->root, "language"), "function_map");
  return json_string_value(json_array_get(json_object_get(map, role), i));
}

static const char *mapped_function(const cairn_bundle *bundle, const char *role) { return crn_bundle_function_at(bundle, role, 0); }

bool cairn_bundle_has_function(const cairn_bundle *bundle, const char *role) { return bundle && mapped_function(bundle, role) != NULL; }

const char *cairn_bundle_function(const cairn_bundle *bundle, const char *role) {
  if (!bundle) return NULL;
  const char *name = mapped_function(bundle, role);
  return name ? name : "main";
}

cairn_state_kind cairn_bundle_state_kind(const cairn_bundle *bundle, const char *state) {
  if (!bundle) return CAIRN_STATE_UNKNOWN;
  json_t *map = json_object_get(json_object_get(bundle->root, "language"), "states");
  return state_kind_of_text(json_string_value(json_object_get(map, state)));
}

// --- vision ---------------------------------------------------------------------------------------------------------

static cairn_status get_rgb(const cairn_bundle *b, const json_t *vision, const char *key, bool is_divisor, double out[3]) {
  json_t *values;
  CRN_TRY(crn_bundle_field(b, vision, "vision.", key, JSON_ARRAY, false, &values));
  if (!values) return CAIRN_OK;
  if (json_array_size(values) != 3)
    return CRN_BUNDLE_MALFORMED(b, "'vision.%s' must hold 3 numbers, found %zu", key, json_array_size(values));
  for (size_t i = 0; i < 3; i++) {
    const json_t *v = json_array_get(values, i);
    out[i] = json_number_value(v);
    if (!json_is_number(v) || !isfinite(out[i]) || (is_divisor && out[i] == 0)) {
      return CRN_BUNDLE_MALFORMED(b, "'vision.%s' must hold finite%s numbers", key, is_divisor ? " non-zero" : "");
    }
  }
  return CAIRN_OK;
}

static cairn_status get_strategy(const cairn_bundle *b, const json_t *vision, cairn_image_strategy *out) {
  static const char *const kNames[] = {"stretch", "center_crop", "pad"};
  json_t *v;
  CRN_TRY(crn_bundle_field(b, vision, "vision.", "image_strategy", JSON_STRING, false, &v));
  if (!v) return CAIRN_OK;
  for (int i = 0; i < 3; i++) {
    if (strcmp(json_string_value(v), kNames[i]) == 0) {
      *out = (cairn_image_strategy)i;
      return CAIRN_OK;
    }
  }
  return CRN_BUNDLE_MALFORMED(b, "'vision.image_strategy' must be stretch, center_crop or pad, found '%s'", json_string_value(v));
}

cairn_status cairn_bundle_get_vision(const cairn_bundle *bundle, cairn_bundle_vision *out_vision) {
  CRN_REQUIRE(bundle);
  CRN_REQUIRE(out_vision);
  *out_vision = (cairn_bundle_vision){
      .image_mean = {0.48145466, 0.4578275, 0.40821073}, .image_std = {0.26862954, 0.26130258, 0.27577711}, .rescale_factor = 1};
  json_t *vision, *rescale;
  CRN_TRY(crn_bundle_field(bundle, bundle->root, "", "vision", JSON_OBJECT, true, &vision));
  CRN_TRY(get_count(bundle, vision, "vision.", "image_size", true, 1, &out_vision->image_size));
  CRN_TRY(get_count(bundle, vision, "vision.", "patch_size", true, 1, &out_vision->patch_size));
  CRN_TRY(get_count(bundle, vision, "vision.", "image_token_count", true, 1, &out_vision->image_token_count));
  CRN_TRY(get_count(bundle, vision, "vision.", "image_token_id", true, 0, &out_vision->image_token_id));
  if (out_vision->image_size % out_vision->patch_size) {
    return CRN_BUNDLE_MALFORMED(bundle, "'vision.patch_size' %lld does not divide 'vision.image_size' %lld",
                                (long long)out_vision->patch_size, (long long)out_vision->image_size);
  }
  CRN_TRY(get_rgb(bundle, vision, "image_mean", false, out_vision->image_mean));
  CRN_TRY(get_rgb(bundle, vision, "image_std", true, out_vision->image_std));
  CRN_TRY(crn_bundle_field(bundle, vision, "vision.", "rescale_factor", JSON_REAL, false, &rescale));
  if (rescale) out_vision->rescale_factor = json_number_value(rescale);
  if (!isfinite(out_vision->rescale_factor)) return CRN_BUNDLE_MALFORMED(bundle, "'vision.%s' must be finite", "rescale_factor");
  CRN_TRY(get_strategy(bundle, vision, &out_vision->image_strategy));
  CRN_TRY(get_bool(bundle, vision, "vision.", "include_image_info", &out_vision->include_image_info));
  CRN_TRY(get_count(bundle, vision, "vision.", "max_video_frames", false, 1, &out_vision->max_video_frames));
  out_vision->tokens_per_frame = out_vision->image_token_count;
  return get_count(bundle, vision, "vision.", "tokens_per_frame", false, 1, &out_vision->tokens_per_frame);
}
