// Reading tokenizer.json.
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/sentencepiece.h"

static cairn_status load_root(crn_build *build, const json_t *root) {
  const char *version = NULL;
  if (!json_is_object(root)) return CRN_FAIL(CORRUPT, "%s: a tokenizer must be a JSON object", build->what);
  CRN_TRY(crn_json_string(root, build->what, "version", false, &version));
  if (version && strcmp(version, "1.0")) return CRN_FAIL(UNSUPPORTED, "%s: version '%.40s', expected 1.0", build->what, version);
  if (!json_object_get(root, "model")) return CRN_FAIL(CORRUPT, "%s: 'model' is missing; is this a tokenizer.json?", build->what);
  CRN_TRY(crn_limits_load(build, root));
  CRN_TRY(crn_normalizers_load(build, json_object_get(root, "normalizer")));
  CRN_TRY(crn_pretokenizers_load(build, json_object_get(root, "pre_tokenizer")));
  CRN_TRY(crn_processors_load(build, json_object_get(root, "post_processor")));
  CRN_TRY(crn_decoders_load(build, json_object_get(root, "decoder")));
  CRN_TRY(crn_model_load(build, json_object_get(root, "model")));
  CRN_TRY(crn_added_load(build, json_object_get(root, "added_tokens")));
  return crn_tokenizer_finish(build);
}

static cairn_status create_from_root(cairn_context *context, const json_t *root, const char *what, cairn_tokenizer **out_tokenizer) {
  cairn_tokenizer *t;
  CRN_TRY(crn_tokenizer_create_empty(context, &t));
  crn_build build = {.context = context, .allocator = t->allocator, .tokenizer = t, .what = what};
  cairn_status status = load_root(&build, root);
  if (status != CAIRN_OK) {
    cairn_tokenizer_release(t);
    return status;
  }
  *out_tokenizer = t;
  return CAIRN_OK;
}

cairn_status cairn_tokenizer_create_from_json(cairn_context *context, const char *json, size_t json_bytes, const char *what,
                                              cairn_tokenizer **out_tokenizer) {
  CRN_REQUIRE(out_tokenizer);
  *out_tokenizer = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_SOME(json, json_bytes);
  json_t *root;
  if (!what) what = "tokenizer.json";
  CRN_TRY(crn_json_parse_nul(json, json_bytes, what, &root));
  cairn_status status = create_from_root(context, root, what, out_tokenizer);
  json_decref(root);
  return status;
}

static cairn_status open_file(cairn_context *context, const char *path, const char *folder, cairn_tokenizer **out_tokenizer) {
  crn_file_map map = {0};
  CRN_TRY(crn_file_map_open(path, &map));
  cairn_status status = crn_ends_with(path, ".model")
                            ? crn_sentencepiece_create(context, map.data, map.bytes, path, folder, out_tokenizer)
                            : cairn_tokenizer_create_from_json(context, (const char *)map.data, map.bytes, path, out_tokenizer);
  crn_file_map_close(&map);
  return status;
}

// The tokenizer.json of a folder, else its SentencePiece model. When there is none the path is that of the former, which
// then is the one that is missed.
static cairn_status find_file(crn_str *out_path, const char *folder) {
  static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CRN_TRY(crn_path_join(out_path, folder, names[i]));
    if (crn_file_exists(out_path->data)) return CAIRN_OK;
  }
  return crn_path_join(out_path, folder, names[0]);
}

cairn_status cairn_tokenizer_open(cairn_context *context, const char *path, cairn_tokenizer **out_tokenizer) {
  CRN_REQUIRE(out_tokenizer);
  *out_tokenizer = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE(path);
  crn_str file, folder;
  cairn_tokenizer *t = NULL;
  cairn_status status;
  crn_str_initialize(&file, &context->allocator);
  crn_str_initialize(&folder, &context->allocator);
  if (crn_is_directory(path)) {
    CRN_TRY_GOTO(crn_str_puts(&folder, path));
    CRN_TRY_GOTO(find_file(&file, path));
  } else {
    const char *slash = strrchr(path, '/');
    CRN_TRY_GOTO(slash ? crn_str_append(&folder, path, (size_t)(slash - path + 1)) : crn_str_puts(&folder, "."));
    CRN_TRY_GOTO(crn_str_puts(&file, path));
  }
  CRN_TRY_GOTO(open_file(context, file.data, folder.data, &t));
  CRN_TRY_GOTO(crn_roles_load(t, folder.data));
  *out_tokenizer = t;
  t = NULL;
done:
  cairn_tokenizer_release(t);
  crn_str_deinitialize(&file);
  crn_str_deinitialize(&folder);
  return status;
}
