/// Opening whatever a path names: a bundle, a bare asset, or a file an importer reads. The only file of the engines that
/// sees the importers and the executor's way to run what they build.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "asset/program_hash.h"
#include "base/file.h"
#include "engines/llm/bundle_internal.h"
#include "engines/llm/internal.h"
#include "execute/model.h"
#include "import/registry.h"
#include "import/synthetic/synthetic.h"

static bool has_extension(const char *path, size_t n, const char *extension) {
  size_t m = strlen(extension);
  return n >= m && strncasecmp(path + n - m, extension, m) == 0;
}

static cairn_status no_compiled_assets(const char *path) {
  return CRN_FAIL(UNSUPPORTED, "'%s' was compiled ahead of time, which this build cannot run: the `.aimodel` it was made from is needed",
                  path);
}

// Compiled by cairn; whether for this machine is checked when it is loaded.
static bool is_own_compiled(const char *path) {
  char file[PATH_MAX];
  return (size_t)snprintf(file, sizeof file, "%s/compiled.json", path) < sizeof file && crn_file_exists(file);
}

// The last part of a path without its extension.
static cairn_status name_of(const char *path, size_t n, crn_arena *arena, const char **out_name) {
  const char *slash = memrchr(path, '/', n), *start = slash ? slash + 1 : path;
  const char *dot = memrchr(start, '.', n - (size_t)(start - path));
  return crn_arena_strndup(arena, start, dot && dot > start ? (size_t)(dot - start) : n - (size_t)(start - path), out_name);
}

// --- bundles --------------------------------------------------------------------------------------------------------

static cairn_status load_asset(cairn_context *context, const crn_llm_source *s, const char *role, const cairn_model_options *options,
                               cairn_model **out) {
  char asset[PATH_MAX];
  size_t bytes;
  CRN_TRY(cairn_bundle_asset_path(s->bundle, role, asset, sizeof asset, &bytes));
  if (bytes >= sizeof asset)
    return CRN_FAIL(INVALID_ARGUMENT, "the path of the asset has %zu bytes, at most %zu are possible", bytes, sizeof asset - 1);
  if (has_extension(asset, bytes, ".aimodelc") && !is_own_compiled(asset)) return no_compiled_assets(asset);
  return cairn_model_load(context, asset, options, out);
}

// A bundle of kind vlm is complete or refused: what it lacks is told now, not with the first image.
static cairn_status load_vlm(cairn_context *context, const cairn_model_options *options, crn_llm_source *s) {
  cairn_bundle_vision vision;
  if (cairn_bundle_get_kind(s->bundle) != CAIRN_BUNDLE_VLM) return CAIRN_OK;
  CRN_TRY(cairn_bundle_get_vision(s->bundle, &vision));
  CRN_TRY(load_asset(context, s, "embedding", options, &s->embedding));
  return load_asset(context, s, "vision", options, &s->vision);
}

static cairn_status open_bundle(cairn_context *context, const char *path, const cairn_model_options *options, crn_llm_source *s) {
  s->kind = "bundle";
  CRN_TRY(cairn_bundle_open(context, path, &s->bundle));
  s->name = cairn_bundle_name(s->bundle);
  CRN_TRY(cairn_bundle_get_language(s->bundle, &s->language));
  s->context_length = s->language.max_context_length;
  s->vocab_size = s->language.vocab_size;
  if (cairn_bundle_has_function(s->bundle, "main")) s->function = cairn_bundle_function(s->bundle, "main");
  CRN_TRY(load_vlm(context, options, s));
  return load_asset(context, s, "main", options, &s->model);
}

// --- imported files -------------------------------------------------------------------------------------------------

// All but the tokenizer.
static cairn_status take_parts(crn_arena *arena, const crn_imported_model *m, crn_llm_source *s) {
  int32_t *ids;
  s->context_length = m->context_length;
  s->vocab_size = m->vocab_size;
  s->parts = (crn_llm_text_parts){.bos_id = m->bos_id, .eos_id = m->eos_id, .vocab_size = m->vocab_size};
  if (m->name && *m->name) CRN_TRY(crn_arena_strndup(arena, m->name, strlen(m->name), &s->name));
  if (m->chat_template) CRN_TRY(crn_arena_strndup(arena, m->chat_template, strlen(m->chat_template), &s->parts.chat_template));
  CRN_TRY(crn_arena_array(arena, m->n_eos_ids, sizeof *ids, &ids));
  if (m->n_eos_ids) memcpy(ids, m->eos_ids, m->n_eos_ids * sizeof *ids);
  s->parts.stop_ids = ids;
  s->parts.n_stop_ids = m->n_eos_ids;
  return CAIRN_OK;
}

static cairn_status open_imported(cairn_context *context, const char *path, const crn_importer *importer,
                                  const cairn_model_options *options, crn_arena *arena, crn_llm_source *s) {
  crn_imported_model *m;
  s->kind = importer->name;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *m, &m));
  cairn_status status = importer->import(context, path, m);
  if (status != CAIRN_OK) {
    crn_free(&context->allocator, m, sizeof *m);
    return status;
  }
  // From here on the source has it, which is released on failure.
  s->text = m;
  crn_program *program = m->program;
  m->program = NULL;
  CRN_TRY(crn_model_create_from_program(context, program, options, &s->model));
  return take_parts(arena, m, s);
}

static void drop_text(crn_llm_source *s) {
  crn_imported_model *m = s->text;
  if (!m) return;
  cairn_context *context = m->context;
  s->text = NULL;
  crn_imported_model_destroy(m);
  crn_free(&context->allocator, m, sizeof *m);
}

cairn_status crn_llm_source_finish_text(crn_llm_source *s) {
  if (!s->text) return CAIRN_OK;
  cairn_status status = crn_imported_model_wait(s->text);
  s->parts.tokenizer = s->text->tokenizer;  // taken over
  s->text->tokenizer = NULL;
  drop_text(s);
  return status;
}

// --- which it is ----------------------------------------------------------------------------------------------------

static bool holds(crn_str *room, const char *folder, const char *file, cairn_status *status) {
  if (*status == CAIRN_OK) *status = crn_path_join(room, folder, file);
  return *status == CAIRN_OK && crn_file_exists(room->data);
}

static cairn_status open_kind(cairn_context *context, crn_str *path, const cairn_model_options *options, crn_arena *arena,
                              crn_llm_source *s) {
  const crn_importer *importer = NULL;
  crn_str room;
  crn_str_initialize(&room, &context->allocator);
  cairn_status status = CAIRN_OK;
  bool is_bundle = holds(&room, path->data, "metadata.json", &status), is_asset = holds(&room, path->data, "main.mlirb", &status);
  crn_str_deinitialize(&room);
  CRN_TRY(status);
  // An asset has a metadata.json of its own, so its extension and its program decide first.
  if (has_extension(path->data, path->size, ".aimodelc") && !is_own_compiled(path->data)) return no_compiled_assets(path->data);
  is_asset |= has_extension(path->data, path->size, ".aimodelc");
  if (is_asset || has_extension(path->data, path->size, ".aimodel") || has_extension(path->data, path->size, ".mlirb")) {
    s->kind = "aimodel";
    return cairn_model_load(context, path->data, options, &s->model);
  }
  if (is_bundle) return open_bundle(context, path->data, options, s);
  CRN_TRY(crn_importer_find(path->data, &importer));
  if (importer) return open_imported(context, path->data, importer, options, arena, s);
  if (crn_is_directory(path->data)) return open_bundle(context, path->data, options, s);  // says what a bundle lacks
  return CRN_FAIL(UNSUPPORTED, "'%s' is no model this build knows: expected a bundle folder, an `.aimodel` folder or a GGUF file",
                  path->data);
}

cairn_status crn_llm_source_open(cairn_context *context, const char *path, const cairn_model_options *options, crn_arena *arena,
                                 crn_llm_source *out_source) {
  crn_str expanded;
  *out_source = (crn_llm_source){.kind = "", .parts = {.bos_id = -1, .eos_id = -1}};
  if (!path || !*path) return CRN_FAIL(INVALID_ARGUMENT, "the path of a model is empty");
  crn_str_initialize(&expanded, &context->allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_expand(&expanded, path));
  while (expanded.size > 1 && expanded.data[expanded.size - 1] == '/') expanded.data[--expanded.size] = 0;
  CRN_TRY_GOTO(name_of(expanded.data, expanded.size, arena, &out_source->name));
  CRN_TRY_GOTO(crn_arena_strndup(arena, expanded.data, expanded.size, &out_source->path));
  if (!crn_file_exists(expanded.data) && !crn_synthetic_is(expanded.data)) {
    status = CRN_FAIL(NOT_FOUND, "model not found at %s", expanded.data);
    goto done;
  }
  CRN_TRY_GOTO(open_kind(context, &expanded, options, arena, out_source));
done:
  crn_str_deinitialize(&expanded);
  if (status != CAIRN_OK) crn_llm_source_release(out_source);
  return status;
}

void crn_llm_source_release(crn_llm_source *source) {
  cairn_model *const models[] = {source->model, source->embedding, source->vision};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    if (models[i]) cairn_model_release(models[i]);
  }
  cairn_bundle_release(source->bundle);
  drop_text(source);
  cairn_tokenizer_release(source->parts.tokenizer);
  *source = (crn_llm_source){0};
}

// --- identity ---------------------------------------------------------------------------------------------------------

static cairn_status add_asset(cairn_context *context, const char *path, crn_hasher *h) {
  cairn_asset *asset;
  CRN_TRY(cairn_asset_open(context, path, NULL, &asset));
  const char *hash = cairn_asset_hash(asset);
  cairn_status status = crn_hasher_add(h, hash, strlen(hash) + 1);
  cairn_asset_release(asset);
  return status;
}

static cairn_status add_bundle(cairn_context *context, const crn_llm_source *s, crn_hasher *h) {
  static const char *const kRoles[] = {"main", "embedding", "vision"};
  const bool is_there[] = {true, s->embedding != NULL, s->vision != NULL};
  for (int i = 0; i < 3; i++) {
    char path[PATH_MAX];
    size_t bytes;
    if (!is_there[i]) continue;
    CRN_TRY(cairn_bundle_asset_path(s->bundle, kRoles[i], path, sizeof path, &bytes));
    CRN_TRY(add_asset(context, path, h));
  }
  return CAIRN_OK;
}

static cairn_status add_file(const char *path, crn_hasher *h) {
  unsigned char digest[CRN_SHA256_BYTES];
  crn_file_map map;
  CRN_TRY(crn_file_map_open(path, &map));
  cairn_status status = crn_program_hash(path, &map, false, digest);
  crn_file_map_close(&map);
  return status == CAIRN_OK ? crn_hasher_add(h, digest, sizeof digest) : status;
}

cairn_status crn_llm_source_identify(cairn_context *context, const crn_llm_source *s, unsigned char out_digest[CRN_SHA256_BYTES]) {
  crn_hasher h;
  if (!s->path) return CRN_FAIL(UNSUPPORTED, "the model came from no file, so nothing can be kept for it");
  CRN_TRY(crn_hasher_begin(&h));
  cairn_status status = crn_hasher_add(&h, s->kind, strlen(s->kind) + 1);
  if (status == CAIRN_OK) {
    status = crn_synthetic_is(s->path)         ? crn_hasher_add(&h, s->path, strlen(s->path) + 1)
             : s->bundle                       ? add_bundle(context, s, &h)
             : strcmp(s->kind, "aimodel") == 0 ? add_asset(context, s->path, &h)
                                               : add_file(s->path, &h);
  }
  if (status == CAIRN_OK) return crn_hasher_end(&h, out_digest);
  crn_hasher_discard(&h);
  return status;
}
