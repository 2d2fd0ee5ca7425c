#include "tools/source.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "import/synthetic/synthetic.h"
#include "tools/import_report.h"

enum { PATH_GUESS = 512 };

cairn_status crn_source_locate(crn_tool *t, const char *name, const char *search, const char **out_path) {
  size_t bytes = 0;
  // What exists as written is meant as written, whatever folders are searched.
  if (crn_file_exists(name) || crn_synthetic_is(name)) {
    *out_path = name;
    return CAIRN_OK;
  }
  char *path = NULL;
  CRN_TRY(crn_arena_alloc(t->arena, PATH_GUESS, &path));
  CRN_TRY(cairn_model_find(name, search, path, PATH_GUESS, &bytes));
  if (bytes >= PATH_GUESS) {
    CRN_TRY(crn_arena_alloc(t->arena, bytes + 1, &path));
    CRN_TRY(cairn_model_find(name, search, path, bytes + 1, &bytes));
  }
  *out_path = path;
  return CAIRN_OK;
}

cairn_status crn_source_no_component(const cairn_bundle *bundle, const char *role) {
  crn_str names;
  const int n = cairn_bundle_asset_count(bundle);
  crn_str_initialize(&names, NULL);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < n && status == CAIRN_OK; i++)
    status = crn_str_printf(&names, "%s%s", i ? ", " : "", cairn_bundle_asset_role(bundle, i));
  if (status == CAIRN_OK) status = CRN_FAIL(NOT_FOUND, "the bundle has no component '%s'; it has %s", role, n ? names.data : "none");
  crn_str_deinitialize(&names);
  return status;
}

cairn_status crn_source_component(crn_tool *t, const cairn_bundle *bundle, const char *role, const char **out_path) {
  size_t bytes = 0;
  char *path = NULL;
  // A bundle without a main asset is a broken one, and the library says so.
  if (strcmp(role, "main") != 0 && !cairn_bundle_asset_file(bundle, role)) return crn_source_no_component(bundle, role);
  CRN_TRY(crn_arena_alloc(t->arena, PATH_GUESS, &path));
  CRN_TRY(cairn_bundle_asset_path(bundle, role, path, PATH_GUESS, &bytes));
  if (bytes >= PATH_GUESS) {
    CRN_TRY(crn_arena_alloc(t->arena, bytes + 1, &path));
    CRN_TRY(cairn_bundle_asset_path(bundle, role, path, bytes + 1, &bytes));
  }
  *out_path = path;
  return CAIRN_OK;
}

static bool holds(const char *directory, const char *name) {
  crn_str path;
  crn_str_initialize(&path, NULL);
  bool found = crn_path_join(&path, directory, name) == CAIRN_OK && crn_file_exists(path.data);
  crn_str_deinitialize(&path);
  return found;
}

static bool ends_as(const char *path, const char *suffix) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t m = strlen(suffix);
  return n >= m && !strncasecmp(path + n - m, suffix, m);
}

// A folder that only wraps an asset is a common mistake; the message then names the asset.
static cairn_status refuse_folder(const char *path, const char *accepted) {
  DIR *directory = opendir(path);
  char inside[256] = "";
  for (const struct dirent *e; directory && (e = readdir(directory));)
    if (ends_as(e->d_name, ".aimodel") && (!inside[0] || strcmp(e->d_name, inside) < 0)) snprintf(inside, sizeof inside, "%s", e->d_name);
  if (directory) closedir(directory);
  if (inside[0])
    return CRN_FAIL(INVALID_ARGUMENT, "'%s' has no metadata.json, so it is no bundle; did you mean the asset in it, '%s%s%s'?", path, path,
                    path[strlen(path) - 1] == '/' ? "" : "/", inside);
  return CRN_FAIL(INVALID_ARGUMENT, "'%s' is no model: it holds neither main.mlirb nor metadata.json; %s", path, accepted);
}

// The content decides; names decide only where there is none to look at, so that the message fits what was meant.
static cairn_status recognise(const char *path, crn_source_kind *out_kind) {
  static const char accepted[] = "accepted are an .aimodel folder, its main.mlirb, a bundle folder (with metadata.json) and a .gguf file";
  if (crn_is_directory(path)) {
    bool compiled = ends_as(path, ".aimodelc");
    *out_kind = CRN_SOURCE_ASSET;
    if (compiled && holds(path, "compiled.json")) return CAIRN_OK;
    if (compiled && !holds(path, "main.mlirb"))
      return CRN_FAIL(UNSUPPORTED,
                      "'%s' holds no compiled.json: its compilation was not finished, or it is for another machine and cannot run here; "
                      "use the .aimodel it was made from",
                      path);
    if (holds(path, "main.mlirb") || ends_as(path, ".aimodel")) return CAIRN_OK;
    *out_kind = CRN_SOURCE_BUNDLE;
    if (holds(path, "metadata.json")) return CAIRN_OK;
    return refuse_folder(path, accepted);
  }
  *out_kind = CRN_SOURCE_FILE;
  if (crn_synthetic_is(path)) return CAIRN_OK;
  *out_kind = CRN_SOURCE_ASSET;
  if (crn_file_begins_with(path, "ML\xefR", 4) || ends_as(path, ".mlirb")) return CAIRN_OK;
  *out_kind = CRN_SOURCE_FILE;
  if (crn_file_begins_with(path, "GGUF", 4) || ends_as(path, ".gguf")) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "'%s' is no model; %s", path, accepted);
}

cairn_status crn_source_find(crn_tool *t, const char *name, const char *search, crn_source *out_source) {
  CRN_TRY(crn_source_locate(t, name, search, &out_source->path));
  return recognise(out_source->path, &out_source->kind);
}

static cairn_status load_component(crn_tool *t, const char *path, const char *role, const cairn_model_options *options,
                                   cairn_model **out_model) {
  cairn_bundle *bundle = NULL;
  const char *asset = NULL;
  CRN_TRY(cairn_bundle_open(t->context, path, &bundle));
  cairn_status status = crn_source_component(t, bundle, role ? role : "main", &asset);
  cairn_bundle_release(bundle);
  CRN_TRY(status);
  return cairn_model_load(t->context, asset, options, out_model);
}

static cairn_status load_import(crn_tool *t, const char *path, const cairn_model_options *options, cairn_model **out_model) {
  crn_import_report report;
  CRN_TRY(crn_import_report_open(t, path, options, &report));
  cairn_model_retain(report.model);
  *out_model = report.model;
  crn_import_report_close(&report);
  return CAIRN_OK;
}

cairn_status crn_source_load(crn_tool *t, const crn_source *source, const char *role, const cairn_model_options *options,
                             cairn_model **out_model) {
  switch (source->kind) {
    case CRN_SOURCE_BUNDLE:
      return load_component(t, source->path, role, options, out_model);
    case CRN_SOURCE_FILE:
      if (!role) return load_import(t, source->path, options, out_model);
      break;
    case CRN_SOURCE_ASSET:
      break;
  }
  if (role) return CRN_FAIL(INVALID_ARGUMENT, "'%s' is one model, not a bundle; it has no component '%s'", source->path, role);
  return cairn_model_load(t->context, source->path, options, out_model);
}
