#include "asset/asset.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "asset/compiled.h"
#include "base/context.h"
#include "base/log.h"

static void destroy(cairn_asset *asset) {
  cairn_context *context = asset->context;
  const cairn_allocator *a = &context->allocator;
  crn_vec_free(a, &asset->warnings);
  crn_vec_free(a, &asset->functions);
  crn_arena_deinitialize(&asset->arena);
  if (!asset->borrowed) crn_file_map_close(&asset->map);
  crn_free(a, asset, sizeof *asset);
  cairn_context_release(context);
}

static cairn_status read_version_stamp(cairn_asset *asset, const crn_bc_module *module) {
  const crn_bc_attr *version = crn_bc_op_property(crn_bc_module_top(module), "version");
  return version ? crn_bc_get_int(version, "property 'version' of the asset", &asset->version_stamp) : CAIRN_OK;
}

// The program is decoded once, as far as the functions need, to be sure that the asset can be read at all.
static cairn_status describe(cairn_asset *asset) {
  crn_bc_module *module;
  CRN_TRY(crn_asset_open_module(asset, &module));
  cairn_status status = read_version_stamp(asset, module);
  if (status == CAIRN_OK) status = crn_asset_describe_functions(asset, module);
  crn_bc_module_close(module);
  return status;
}

static cairn_status create(cairn_context *context, cairn_asset **out_asset) {
  cairn_asset *asset;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *asset, &asset));
  atomic_init(&asset->references, 1);
  cairn_context_retain(context);
  asset->context = context;
  crn_arena_initialize(&asset->arena, &context->allocator);
  *out_asset = asset;
  return CAIRN_OK;
}

cairn_status cairn_asset_open(cairn_context *context, const char *path, const cairn_asset_options *options, cairn_asset **out_asset) {
  CRN_REQUIRE(out_asset);
  static const cairn_asset_options defaults;
  *out_asset = NULL;
  if (!context || !path) return CRN_FAIL(INVALID_ARGUMENT, "opening an asset needs a context and a path");
  if (!options) options = &defaults;
  if (options->strict_hash && options->skip_hash) {
    return CRN_FAIL(INVALID_ARGUMENT, "strict_hash and skip_hash exclude each other");
  }
  cairn_asset *asset;
  CRN_TRY(create(context, &asset));
  cairn_status status = crn_asset_open_package(asset, path, options);
  if (status == CAIRN_OK) status = describe(asset);
  if (status != CAIRN_OK) {
    destroy(asset);
    return crn_note(status, "opening '%s'", path);
  }
  *out_asset = asset;
  return CAIRN_OK;
}

cairn_status crn_asset_open_memory(cairn_context *context, const void *data, size_t bytes, cairn_asset **out_asset) {
  *out_asset = NULL;
  cairn_asset *asset;
  CRN_TRY(create(context, &asset));
  asset->borrowed = true;
  asset->map = (crn_file_map){data, bytes};
  asset->path = "";
  asset->metadata = "{}";
  cairn_status status = describe(asset);
  if (status != CAIRN_OK) {
    destroy(asset);
    return status;
  }
  *out_asset = asset;
  return CAIRN_OK;
}

void cairn_asset_retain(cairn_asset *asset) {
  if (!asset) return;
  atomic_fetch_add_explicit(&asset->references, 1, memory_order_relaxed);
}

void cairn_asset_release(cairn_asset *asset) {
  if (asset && atomic_fetch_sub_explicit(&asset->references, 1, memory_order_acq_rel) == 1) destroy(asset);
}

cairn_status crn_asset_open_module(const cairn_asset *asset, crn_bc_module **out_module) {
  return crn_bc_module_open(&asset->context->allocator, asset->map.data, asset->map.bytes, out_module);
}

cairn_status crn_asset_warn(cairn_asset *asset, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  CRN_WARN(asset->context, "%s", text);
  const char *kept;
  CRN_TRY(crn_arena_strndup(&asset->arena, text, strlen(text), &kept));
  return crn_vec_push(&asset->context->allocator, &asset->warnings, kept);
}

const char *cairn_asset_path(const cairn_asset *asset) { return asset ? asset->path : NULL; }
const char *cairn_asset_metadata_json(const cairn_asset *asset) { return asset ? asset->metadata : NULL; }
const char *cairn_asset_hash(const cairn_asset *asset) { return asset ? asset->hash : NULL; }
bool cairn_asset_is_compiled(const cairn_asset *asset, const char **out_architecture, const char **out_precision) {
  if (!asset) return false;
  // One of another family was refused when it was opened.
  if (out_architecture) *out_architecture = asset->compiled ? crn_architecture() : "";
  if (out_precision) *out_precision = asset->compiled ? asset->compiled->precision : "";
  return asset->compiled != NULL;
}

int64_t cairn_asset_version_stamp(const cairn_asset *asset) { return asset ? asset->version_stamp : 0; }
int cairn_asset_warning_count(const cairn_asset *asset) { return asset ? (int)asset->warnings.size : 0; }
int cairn_asset_function_count(const cairn_asset *asset) { return asset ? (int)asset->functions.size : 0; }

const char *cairn_asset_warning(const cairn_asset *asset, int i) {
  if (!asset) return NULL;
  return i >= 0 && (size_t)i < asset->warnings.size ? asset->warnings.items[i] : NULL;
}

const cairn_function_info *cairn_asset_function(const cairn_asset *asset, int i) {
  if (!asset) return NULL;
  return i >= 0 && (size_t)i < asset->functions.size ? &asset->functions.items[i] : NULL;
}

const cairn_function_info *cairn_asset_find_function(const cairn_asset *asset, const char *name) {
  if (!asset || !name) return NULL;
  for (size_t i = 0; i < asset->functions.size; i++) {
    if (!strcmp(asset->functions.items[i].name, name)) return &asset->functions.items[i];
  }
  return NULL;
}
