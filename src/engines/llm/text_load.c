/// Finding and reading the tokenizer folder of a model.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/log.h"
#include "engines/llm/bundle_internal.h"
#include "engines/llm/stop_ids.h"

// Reads an optional JSON file. Absent or broken: NULL, the latter with a warning.
static cairn_status read_optional(crn_llm_text *text, const char *folder, const char *name, json_t **out) {
  crn_str path;
  *out = NULL;
  crn_str_initialize(&path, &text->context->allocator);
  cairn_status status = crn_path_join(&path, folder, name);
  if (status == CAIRN_OK && crn_file_exists(path.data)) status = crn_json_read_nul(path.data, out);
  crn_str_deinitialize(&path);
  if (status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY) return status;
  CRN_WARN(text->context, "left out: %s", cairn_last_error()->message);
  return CAIRN_OK;
}

// --- special tokens for the template --------------------------------------------------------------------------------

// Copies the names of special tokens that are texts (or objects with a text) and not set yet.
static cairn_status copy_specials(crn_llm_text *text, const json_t *config) {
  static const char *const kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    json_t *v = json_object_get(config, kNames[i]);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (!json_is_string(v) || json_object_get(text->specials, kNames[i])) continue;
    if (json_object_set(text->specials, kNames[i], v)) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the names of the special tokens");
  }
  return CAIRN_OK;
}

// --- chat template --------------------------------------------------------------------------------------------------

static cairn_status load_templates(crn_llm_text *text, const char *folder) {
  cairn_status status = cairn_template_set_open(text->context, folder, &text->templates);
  if (status == CAIRN_OUT_OF_MEMORY) return status;
  if (status == CAIRN_OK) return crn_llm_text_check_templates(text);
  crn_str_clear(&text->no_template);
  return crn_str_puts(&text->no_template, cairn_last_error()->message);
}

// --- a folder -------------------------------------------------------------------------------------------------------

static cairn_status load_configs(crn_llm_text *text, const char *folder, const char *beside, int64_t vocab_size) {
  json_t *config = NULL, *map = NULL, *generation = NULL, *outer = NULL;
  cairn_status status;
  CRN_TRY_GOTO(read_optional(text, folder, "tokenizer_config.json", &config));
  CRN_TRY_GOTO(read_optional(text, folder, "special_tokens_map.json", &map));
  CRN_TRY_GOTO(read_optional(text, folder, "generation_config.json", &generation));
  if (beside) CRN_TRY_GOTO(read_optional(text, beside, "generation_config.json", &outer));
  CRN_TRY_GOTO(copy_specials(text, config));
  CRN_TRY_GOTO(copy_specials(text, map));
  CRN_TRY_GOTO(crn_stop_ids_from_config(text, config, vocab_size));
  CRN_TRY_GOTO(crn_stop_ids_from_config(text, map, vocab_size));
  CRN_TRY_GOTO(crn_stop_ids_from_generation(text, generation, vocab_size));
  CRN_TRY_GOTO(crn_stop_ids_from_generation(text, outer, vocab_size));
  CRN_TRY_GOTO(load_templates(text, folder));
  CRN_TRY_GOTO(crn_stop_ids_finish(text, vocab_size));
done:
  json_decref(config);
  json_decref(map);
  json_decref(generation);
  json_decref(outer);
  return status;
}

cairn_status crn_llm_text_load(crn_llm_text *text, const char *folder, const char *beside, int64_t vocab_size) {
  cairn_status status = cairn_tokenizer_open(text->context, folder, &text->tokenizer);
  if (status == CAIRN_OUT_OF_MEMORY) return status;
  crn_str_clear(&text->no_tokenizer);
  if (status != CAIRN_OK) return crn_str_printf(&text->no_tokenizer, "%s", cairn_last_error()->message);
  crn_str_clear(&text->folder);
  CRN_TRY(crn_str_puts(&text->folder, folder));
  if (!crn_is_directory(folder)) {
    char *slash = strrchr(text->folder.data, '/');
    text->folder.size = slash ? (size_t)(slash - text->folder.data) : 0;
    text->folder.data[text->folder.size] = 0;
    if (!slash) CRN_TRY(crn_str_puts(&text->folder, "."));
  }
  text->specials = json_object();
  if (!text->specials) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the names of the special tokens");
  return load_configs(text, text->folder.data, beside, vocab_size);
}

cairn_status crn_llm_text_load_chosen(crn_llm_text *text, const char *path, int64_t vocab_size) {
  crn_str folder;
  if (!crn_file_exists(path)) return CRN_FAIL(NOT_FOUND, "tokenizer '%s': no such file or folder", path);
  crn_str_initialize(&folder, &text->context->allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_join(&folder, path, "tokenizer"));
  bool is_bundle = crn_is_directory(path) && crn_is_directory(folder.data);
  CRN_TRY_GOTO(crn_llm_text_load(text, is_bundle ? folder.data : path, is_bundle ? path : NULL, vocab_size));
  const bool is_gguf = crn_file_begins_with(path, "GGUF", 4);
  if (!text->tokenizer && is_gguf) {
    status = CRN_FAIL(INVALID_ARGUMENT, "tokenizer '%s' is a GGUF file; a tokenizer's folder or file, or a bundle is expected", path);
  } else if (!text->tokenizer) {
    status = CRN_FAIL(INVALID_ARGUMENT, "tokenizer '%s' cannot be used: %s", path, text->no_tokenizer.data);
  }
done:
  crn_str_deinitialize(&folder);
  return status;
}

// --- a bundle -------------------------------------------------------------------------------------------------------

// Whether `folder` holds a file cairn_tokenizer_open takes.
static cairn_status has_tokenizer(crn_str *room, const char *folder, bool *out_has) {
  static const char *const kNames[] = {"tokenizer.json", "tokenizer.model", "spiece.model"};
  *out_has = false;
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames && !*out_has; i++) {
    CRN_TRY(crn_path_join(room, folder, kNames[i]));
    *out_has = crn_file_exists(room->data);
  }
  return CAIRN_OK;
}

static cairn_status check_inside(const cairn_bundle *bundle, const char *file) {
  if (!crn_file_exists(file) || crn_path_is_inside(cairn_bundle_path(bundle), file)) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s leads out of the bundle through a link", file);
}

// The files of a folder whose names nobody knows beforehand.
static cairn_status check_files_inside(const cairn_bundle *bundle, const char *folder, crn_str *file) {
  DIR *directory = opendir(folder);
  cairn_status status = CAIRN_OK;
  for (const struct dirent *e; status == CAIRN_OK && directory && (e = readdir(directory));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    status = crn_path_join(file, folder, e->d_name);
    if (status == CAIRN_OK) status = check_inside(bundle, file->data);
  }
  if (directory) closedir(directory);
  return status;
}

static cairn_status try_embedded(crn_llm_text *text, const cairn_bundle *bundle, int64_t vocab_size, bool *out_found) {
  static const char *const kFiles[] = {"",
                                       "/tokenizer.json",
                                       "/tokenizer.model",
                                       "/spiece.model",
                                       "/added_tokens.json",
                                       "/tokenizer_config.json",
                                       "/special_tokens_map.json",
                                       "/generation_config.json",
                                       "/chat_template.jinja",
                                       "/chat_template.json",
                                       "/additional_chat_templates"};
  crn_str folder, file;
  crn_str_initialize(&folder, &text->context->allocator);
  crn_str_initialize(&file, &text->context->allocator);
  cairn_status status;
  *out_found = false;
  CRN_TRY_GOTO(crn_path_join(&folder, cairn_bundle_path(bundle), "tokenizer"));
  for (size_t i = 0; i < sizeof kFiles / sizeof *kFiles; i++) {
    crn_str_clear(&file);
    CRN_TRY_GOTO(crn_str_printf(&file, "%s%s", folder.data, kFiles[i]));
    CRN_TRY_GOTO(check_inside(bundle, file.data));
  }
  // The last one is a folder.
  crn_str_clear(&folder);
  CRN_TRY_GOTO(crn_str_puts(&folder, file.data));
  CRN_TRY_GOTO(check_files_inside(bundle, folder.data, &file));
  CRN_TRY_GOTO(crn_path_join(&folder, cairn_bundle_path(bundle), "tokenizer"));
  CRN_TRY_GOTO(has_tokenizer(&file, folder.data, out_found));
  if (*out_found) CRN_TRY_GOTO(crn_llm_text_load(text, folder.data, cairn_bundle_path(bundle), vocab_size));
done:
  crn_str_deinitialize(&folder);
  crn_str_deinitialize(&file);
  return status;
}

// An id such as "org/name" may become part of a path only when no part of it climbs.
static bool is_plain_id(const char *id) { return *id && *id != '/' && *id != '~' && !strstr(id, ".."); }

// Looks where tokenizers fetched by id are kept. Nothing is ever downloaded.
static cairn_status try_by_id(crn_llm_text *text, const char *id, int64_t vocab_size, bool *out_found) {
  if (!is_plain_id(id)) return CAIRN_OK;
  const char *last = strrchr(id, '/');
  const char *const kFolders[] = {"~/Documents/huggingface/models/", id, "~/.coreai-models/tokenizers/", last ? last + 1 : id};
  crn_str folder, file, expanded;
  crn_str_initialize(&folder, &text->context->allocator);
  crn_str_initialize(&file, &text->context->allocator);
  crn_str_initialize(&expanded, &text->context->allocator);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < 4 && !*out_found && getenv("HOME"); i += 2) {
    crn_str_clear(&folder);
    crn_str_clear(&expanded);
    CRN_TRY_GOTO(crn_str_printf(&folder, "%s%s", kFolders[i], kFolders[i + 1]));
    CRN_TRY_GOTO(crn_path_expand(&expanded, folder.data));
    CRN_TRY_GOTO(has_tokenizer(&file, expanded.data, out_found));
    if (*out_found) CRN_TRY_GOTO(crn_llm_text_load(text, expanded.data, NULL, vocab_size));
  }
done:
  crn_str_deinitialize(&folder);
  crn_str_deinitialize(&file);
  crn_str_deinitialize(&expanded);
  return status;
}

// Says what was looked for, and the likely cause when the folder was flattened on its way.
static cairn_status explain_absence(crn_llm_text *text, const cairn_bundle *bundle, const char *id, bool embedded) {
  crn_str file;
  bool flattened = false;
  crn_str_initialize(&file, &text->context->allocator);
  cairn_status status = has_tokenizer(&file, cairn_bundle_path(bundle), &flattened);
  crn_str_deinitialize(&file);
  CRN_TRY(status);
  crn_str_clear(&text->no_tokenizer);
  if (embedded) CRN_TRY(crn_str_printf(&text->no_tokenizer, "%s/tokenizer/tokenizer.json is missing", cairn_bundle_path(bundle)));
  if (embedded && flattened) {
    CRN_TRY(crn_str_puts(&text->no_tokenizer,
                         " (there is a tokenizer.json in the bundle itself: its folders seem to have been flattened; "
                         "move it into tokenizer/)"));
  }
  return crn_str_printf(&text->no_tokenizer, "%sno tokenizer '%s' in ~/Documents/huggingface/models or ~/.coreai-models/tokenizers",
                        embedded ? ", and " : "", id);
}

cairn_status crn_llm_text_load_bundle(crn_llm_text *text, const cairn_bundle *bundle, const char *id, bool embedded, int64_t vocab_size) {
  bool found = false;
  if (embedded) CRN_TRY(try_embedded(text, bundle, vocab_size, &found));
  if (!found) CRN_TRY(try_by_id(text, id, vocab_size, &found));
  return found ? CAIRN_OK : explain_absence(text, bundle, id, embedded);
}
