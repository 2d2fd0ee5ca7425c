// The names of special tokens, which tokenizer.json does not say but the files beside it do.
#include <string.h>

#include "base/file.h"
#include "text/tokenizer/internal.h"

const char *const crn_role_names[CRN_N_ROLES] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                 "sep_token", "cls_token", "mask_token"};

// A name is a plain string or an added token with its content; the first file that has one decides.
static cairn_status take_roles(cairn_tokenizer *t, const json_t *json) {
  for (int i = 0; i < CRN_N_ROLES; i++) {
    const json_t *v = json_object_get(json, crn_role_names[i]);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (t->roles[i] || !json_is_string(v)) continue;
    CRN_TRY(crn_arena_strndup(&t->arena, json_string_value(v), json_string_length(v), &t->roles[i]));
  }
  return CAIRN_OK;
}

static cairn_status read_file(cairn_tokenizer *t, const char *folder, const char *name) {
  crn_str path;
  json_t *json = NULL;
  cairn_status status;
  crn_str_initialize(&path, t->allocator);
  CRN_TRY_GOTO(crn_path_join(&path, folder, name));
  if (crn_file_exists(path.data)) {
    CRN_TRY_GOTO(crn_json_read_nul(path.data, &json));
    status = take_roles(t, json);
  }
done:
  json_decref(json);
  crn_str_deinitialize(&path);
  return status;
}

cairn_status crn_roles_load(cairn_tokenizer *t, const char *folder) {
  CRN_TRY(read_file(t, folder, "tokenizer_config.json"));
  return read_file(t, folder, "special_tokens_map.json");
}

const char *cairn_tokenizer_role(const cairn_tokenizer *t, const char *role) {
  for (int i = 0; role && i < CRN_N_ROLES; i++) {
    if (!strcmp(role, crn_role_names[i])) return t->roles[i];
  }
  return NULL;
}
