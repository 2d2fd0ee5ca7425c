/// Finding models by name in a list of folders.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "engines/llm/bundle_internal.h"

static const char kDefaultSearch[] = ".:./exports:~/.coreai-models";

static const char *search_list(const char *search) {
  static const char *const kVariables[] = {"CAIRN_MODEL_PATH", "COREAI_MODEL_PATH"};
  if (search && *search) return search;
  for (int i = 0; i < 2; i++) {
    const char *value = getenv(kVariables[i]);
    if (value && *value) return value;
  }
  return kDefaultSearch;
}

// A name that says itself where it is.
static bool stands_for_itself(const char *name) {
  return *name == '/' || *name == '~' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || crn_starts_with(name, "./") ||
         crn_starts_with(name, "../");
}

// Looks into each folder of `list`. `searched` collects the expanded folders for the message.
static cairn_status look_around(const char *list, const char *name, crn_str *path, crn_str *searched, bool *out_found) {
  crn_str folder, expanded;
  crn_str_initialize(&folder, NULL);
  crn_str_initialize(&expanded, NULL);
  cairn_status status = CAIRN_OK;
  for (const char *p = list; p && !*out_found;) {
    const char *colon = strchr(p, ':');
    size_t n = colon ? (size_t)(colon - p) : strlen(p);
    if (n) {
      crn_str_clear(&folder);
      crn_str_clear(&expanded);
      CRN_TRY_GOTO(crn_str_append(&folder, p, n));
      CRN_TRY_GOTO(crn_path_expand(&expanded, folder.data));
      CRN_TRY_GOTO(crn_str_printf(searched, "%s%s", searched->size ? ", " : "", expanded.data));
      CRN_TRY_GOTO(crn_path_join(path, expanded.data, name));
      *out_found = crn_file_exists(path->data);
    }
    p = colon ? colon + 1 : NULL;
  }
done:
  crn_str_deinitialize(&folder);
  crn_str_deinitialize(&expanded);
  return status;
}

cairn_status cairn_model_find(const char *name, const char *search, char *out_path, size_t capacity, size_t *out_bytes) {
  CRN_REQUIRE_SOME(out_path, capacity);
  if (!name || !*name) return CRN_FAIL(INVALID_ARGUMENT, "the name of a model is empty");
  crn_str path, searched;
  crn_str_initialize(&path, NULL);
  crn_str_initialize(&searched, NULL);
  cairn_status status;
  bool found = false;
  if (stands_for_itself(name)) {
    CRN_TRY_GOTO(crn_path_expand(&path, name));
    CRN_TRY_GOTO(crn_str_puts(&searched, path.data));
    found = crn_file_exists(path.data);
  } else {
    CRN_TRY_GOTO(look_around(search_list(search), name, &path, &searched, &found));
  }
  if (found) {
    crn_give_text(&path, out_path, capacity, out_bytes);
  } else {
    status = CRN_FAIL(NOT_FOUND, "model '%s' not found; searched: %s", name, searched.data);
  }
done:
  crn_str_deinitialize(&path);
  crn_str_deinitialize(&searched);
  return status;
}
