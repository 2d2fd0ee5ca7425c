// The files of an asset: `main.mlirb`, beside it an optional `metadata.json` and an optional `main.hash`.
#include <stdlib.h>
#include <string.h>

#include "asset/compiled.h"
#include "asset/program_hash.h"
#include "base/context.h"
#include "base/json.h"

enum { SUPPORTED_MAJOR = 2, MAX_METADATA_BYTES = 16 << 20, MAX_HASH_FILE_BYTES = 1 << 16 };

static const char k_program_name[] = "main.mlirb";

// Gives the path of the program and the folder of the files beside it ("" when the program stands alone).
static cairn_status locate(const char *path, crn_str *program, crn_str *folder) {
  if (crn_is_directory(path)) {
    CRN_TRY(crn_str_puts(folder, path));
    CRN_TRY(crn_path_join(program, path, k_program_name));
    if (crn_file_exists(program->data)) return CAIRN_OK;
    return CRN_FAIL(NOT_FOUND, "'%s' holds no %s, so it is no .aimodel directory", path, k_program_name);
  }
  CRN_TRY(crn_str_puts(program, path));
  const char *slash = strrchr(path, '/');
  if (strcmp(slash ? slash + 1 : path, k_program_name) != 0) return CAIRN_OK;
  return slash ? crn_str_append(folder, path, (size_t)(slash - path) + 1) : crn_str_puts(folder, ".");
}

static cairn_status check_version(const json_t *metadata, const char *what) {
  if (!json_is_object(metadata)) return CRN_FAIL(CORRUPT, "%s: a JSON object is expected", what);
  const char *version = NULL;
  CRN_TRY(crn_json_string(metadata, what, "assetVersion", true, &version));
  char *end;
  long major = strtol(version, &end, 10);
  bool has_major = end != version && version[0] >= '0' && version[0] <= '9' && (*end == '.' || !*end);
  if (!has_major || major != SUPPORTED_MAJOR) {
    return CRN_FAIL(INCOMPATIBLE, "%s: asset version '%s' is not supported, expected %d.x", what, version, SUPPORTED_MAJOR);
  }
  return CAIRN_OK;
}

static cairn_status read_metadata(cairn_asset *asset, const crn_str *folder, crn_str *path, crn_str *text) {
  asset->metadata = "{}";
  CRN_TRY(crn_path_join(path, folder->data, "metadata.json"));
  if (!crn_file_exists(path->data)) return CAIRN_OK;
  CRN_TRY(crn_file_read(path->data, MAX_METADATA_BYTES, text));
  json_t *metadata;
  CRN_TRY(crn_json_parse(text->data, text->size, path->data, &metadata));
  cairn_status status = check_version(metadata, path->data);
  json_decref(metadata);
  CRN_TRY(status);
  return crn_arena_strndup(&asset->arena, text->data, text->size, &asset->metadata);
}

static void to_hex(const unsigned char *bytes, size_t n, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * n] = 0;
}

// A stored hash that differs is worth a warning: other loaders do not look at it, so assets with a stale one are about.
static cairn_status check_hash(cairn_asset *asset, const unsigned char *digest, const crn_str *folder, bool strict, crn_str *path,
                               crn_str *text) {
  CRN_TRY(crn_path_join(path, folder->data, "main.hash"));
  if (!crn_file_exists(path->data)) return CAIRN_OK;
  CRN_TRY(crn_file_read(path->data, MAX_HASH_FILE_BYTES, text));
  if (text->size == CRN_SHA256_BYTES && !memcmp(text->data, digest, CRN_SHA256_BYTES)) return CAIRN_OK;
  char stored[2 * CRN_SHA256_BYTES + 1];
  to_hex((const unsigned char *)text->data, text->size < CRN_SHA256_BYTES ? text->size : CRN_SHA256_BYTES, stored);
  const char *form = "%s (%zu bytes, %s) is not the SHA-256 of the program, %s";
  if (strict) return CRN_FAIL(CORRUPT, form, path->data, text->size, stored, asset->hash);
  return crn_asset_warn(asset, form, path->data, text->size, stored, asset->hash);
}

static cairn_status read_files(cairn_asset *asset, const char *given, const cairn_asset_options *options, crn_str *program, crn_str *folder,
                               crn_str *path, crn_str *text) {
  CRN_TRY(locate(given, program, folder));
  CRN_TRY(crn_arena_strndup(&asset->arena, given, strlen(given), &asset->path));
  asset->metadata = "{}";
  if (folder->size) CRN_TRY(read_metadata(asset, folder, path, text));
  CRN_TRY(crn_file_map_open(program->data, &asset->map));
  if (options->skip_hash) return CAIRN_OK;
  unsigned char digest[CRN_SHA256_BYTES];
  CRN_TRY(crn_program_hash(program->data, &asset->map, options->strict_hash, digest));
  to_hex(digest, sizeof digest, asset->hash);
  return folder->size ? check_hash(asset, digest, folder, options->strict_hash, path, text) : CAIRN_OK;
}

cairn_status crn_asset_open_package(cairn_asset *asset, const char *given, const cairn_asset_options *options) {
  enum { N_TEXTS = 4 };
  if (crn_is_compiled(given)) return crn_compiled_read(asset, given);
  crn_str texts[N_TEXTS];
  for (int i = 0; i < N_TEXTS; i++) crn_str_initialize(&texts[i], &asset->context->allocator);
  cairn_status status = read_files(asset, given, options, &texts[0], &texts[1], &texts[2], &texts[3]);
  for (int i = 0; i < N_TEXTS; i++) crn_str_deinitialize(&texts[i]);
  return status;
}
