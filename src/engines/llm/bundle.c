#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/context.h"
#include "base/file.h"
#include "engines/llm/bundle_internal.h"

enum { MAX_METADATA_BYTES = 16 << 20 };

// --- reading fields -------------------------------------------------------------------------------------------------

static bool is_type(const json_t *v, json_type type) {
  if (type == JSON_REAL) return json_is_number(v);
  if (type == JSON_TRUE) return json_is_boolean(v);
  return json_typeof(v) == type;
}

static const char *type_text(json_type type) {
  switch (type) {
    case JSON_OBJECT:
      return "an object";
    case JSON_ARRAY:
      return "an array";
    case JSON_STRING:
      return "a string";
    case JSON_INTEGER:
      return "an integer";
    case JSON_REAL:
      return "a number";
    case JSON_NULL:
      return "null";
    default:
      return "true or false";
  }
}

cairn_status crn_bundle_field(const cairn_bundle *bundle, const json_t *object, const char *block, const char *key, json_type type,
                              bool required, json_t **out_value) {
  json_t *v = json_object_get(object, key);
  *out_value = NULL;
  if (!v || (json_is_null(v) && !required)) {
    if (!required) return CAIRN_OK;
    return CRN_FAIL(CORRUPT, "metadata.json of %s is missing the required field '%s%s'", bundle->path.data, block, key);
  }
  if (!is_type(v, type)) {
    return CRN_BUNDLE_MALFORMED(bundle, "'%s%s' must be %s, found %s", block, key, type_text(type), type_text(json_typeof(v)));
  }
  *out_value = v;
  return CAIRN_OK;
}

// --- paths ----------------------------------------------------------------------------------------------------------

void crn_give_text(const crn_str *text, char *out_text, size_t capacity, size_t *out_bytes) {
  if (capacity && out_text) {
    size_t n = text->size < capacity ? text->size : capacity - 1;
    memcpy(out_text, text->data, n);
    out_text[n] = 0;
  }
  if (out_bytes) *out_bytes = text->size;
}

cairn_status crn_path_expand(crn_str *out, const char *path) {
  if (path[0] != '~' || (path[1] && path[1] != '/')) return crn_str_puts(out, path);
  const char *home = getenv("HOME");
  if (!home || !*home) return CRN_FAIL(NOT_FOUND, "'%s' starts with '~' but HOME is not set", path);
  CRN_TRY(crn_str_puts(out, home));
  return crn_str_puts(out, path + 1);
}

bool crn_path_is_inside(const char *root, const char *path) {
  char real_root[PATH_MAX], real_path[PATH_MAX];
  if (!realpath(root, real_root) || !realpath(path, real_path)) return false;
  size_t n = strlen(real_root);
  if (n == 1) return true;  // the root of the file system
  return strncmp(real_root, real_path, n) == 0 && (real_path[n] == '/' || real_path[n] == 0);
}

// A component name may name a folder below the bundle and nothing else.
static bool is_safe_relative(const char *file) {
  if (!*file || *file == '/' || *file == '~') return false;
  for (const char *part = file; part;) {
    const char *slash = strchr(part, '/');
    size_t n = slash ? (size_t)(slash - part) : strlen(part);
    if (n == 2 && part[0] == '.' && part[1] == '.') return false;
    part = slash ? slash + 1 : NULL;
  }
  return strcmp(file, ".") != 0;
}

static bool ends_with_ignoring_case(const char *text, size_t n, const char *suffix) {
  size_t m = strlen(suffix);
  return n >= m && strncasecmp(text + n - m, suffix, m) == 0;
}

// --- opening --------------------------------------------------------------------------------------------------------

static cairn_status check_version(const cairn_bundle *b) {
  json_t *v = json_object_get(b->root, "metadata_version");
  if (!v) {
    bool foreign = !json_object_get(b->root, "kind") && !json_object_get(b->root, "assets");
    return CRN_FAIL(INCOMPATIBLE, "%s: unsupported metadata_version '0.1' (metadata.json names none%s); known: 0.2", b->path.data,
                    foreign ? ", and it is not a model bundle's" : "");
  }
  if (!json_is_string(v)) return CRN_BUNDLE_MALFORMED(b, "'metadata_version' must be a string, found %s", type_text(json_typeof(v)));
  if (strcmp(json_string_value(v), "0.2") != 0) {
    return CRN_FAIL(INCOMPATIBLE, "%s: unsupported metadata_version '%s'; known: 0.2", b->path.data, json_string_value(v));
  }
  return CAIRN_OK;
}

static cairn_status read_kind(cairn_bundle *b) {
  json_t *kind;
  CRN_TRY(crn_bundle_field(b, b->root, "", "kind", JSON_STRING, true, &kind));
  const char *text = json_string_value(kind);
#define KIND_OF_TEXT(NAME, value, spelling) \
  if (strcmp(text, spelling) == 0) b->kind = CAIRN_BUNDLE_##NAME;
  CAIRN_BUNDLE_KIND_LIST(KIND_OF_TEXT)
#undef KIND_OF_TEXT
  if (b->kind) return CAIRN_OK;
  return CRN_BUNDLE_MALFORMED(b, "unknown kind '%s'; known: llm, vlm, diffusion, segmenter, speech_recognizer", text);
}

static int compare_texts(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static cairn_status read_assets(cairn_bundle *b) {
  json_t *assets;
  CRN_TRY(crn_bundle_field(b, b->root, "", "assets", JSON_OBJECT, false, &assets));
  size_t n = assets ? json_object_size(assets) : 0;
  if (n > INT_MAX) return CRN_BUNDLE_MALFORMED(b, "%zu assets", n);
  CRN_TRY(crn_alloc_array(&b->context->allocator, n ? n : 1, sizeof *b->roles, &b->roles));
  const char *role;
  json_t *file;
  json_object_foreach(assets, role, file) {
    b->roles[b->n_roles++] = role;
    if (!json_is_string(file)) return CRN_BUNDLE_MALFORMED(b, "'assets.%s' must be a string", role);
    if (!is_safe_relative(json_string_value(file))) {
      return CRN_BUNDLE_MALFORMED(b, "'assets.%s' is '%s', which does not name something inside of the bundle", role,
                                  json_string_value(file));
    }
  }
  qsort(b->roles, (size_t)b->n_roles, sizeof *b->roles, compare_texts);
  return CAIRN_OK;
}

static cairn_status read_envelope(cairn_bundle *b) {
  json_t *name, *user_data, *value;
  const char *key;
  if (!json_is_object(b->root)) return CRN_BUNDLE_MALFORMED(b, "the file must hold an object, found %s", type_text(json_typeof(b->root)));
  CRN_TRY(check_version(b));
  CRN_TRY(read_kind(b));
  CRN_TRY(crn_bundle_field(b, b->root, "", "name", JSON_STRING, true, &name));
  b->name = json_string_value(name);
  CRN_TRY(read_assets(b));
  CRN_TRY(crn_bundle_field(b, b->root, "", "user_data", JSON_OBJECT, false, &user_data));
  json_object_foreach(user_data, key, value) {
    if (!json_is_string(value))
      return CRN_BUNDLE_MALFORMED(b, "'user_data.%s' must be a string, found %s", key, type_text(json_typeof(value)));
  }
  return CAIRN_OK;
}

static cairn_status read_metadata(cairn_bundle *b) {
  crn_str file;
  crn_str_initialize(&file, &b->context->allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_join(&file, b->path.data, "metadata.json"));
  if (!crn_file_exists(file.data)) {
    crn_str old;
    crn_str_initialize(&old, &b->context->allocator);
    status = crn_path_join(&old, b->path.data, "pipeline.json");
    bool deprecated = status == CAIRN_OK && crn_file_exists(old.data);
    crn_str_deinitialize(&old);
    if (status == CAIRN_OK) {
      status = CRN_FAIL(NOT_FOUND, "metadata.json not found at %s%s", file.data,
                        deprecated ? " (the folder holds a pipeline.json of the deprecated bundle format)" : "");
    }
    goto done;
  }
  CRN_TRY_GOTO(crn_file_read(file.data, MAX_METADATA_BYTES, &b->metadata));
  status = crn_json_parse(b->metadata.data, b->metadata.size, file.data, &b->root);
  if (status == CAIRN_CORRUPT) status = crn_note(status, "malformed metadata.json");
  if (status == CAIRN_OK) status = read_envelope(b);
done:
  crn_str_deinitialize(&file);
  return status;
}

cairn_status cairn_bundle_open(cairn_context *context, const char *path, cairn_bundle **out_bundle) {
  CRN_REQUIRE(out_bundle);
  *out_bundle = NULL;
  CRN_REQUIRE(context);
  if (!path || !*path) return CRN_FAIL(INVALID_ARGUMENT, "the path of a bundle is empty");
  cairn_bundle *b;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *b, &b));
  atomic_init(&b->references, 1);
  b->context = context;
  cairn_context_retain(context);
  crn_str_initialize(&b->path, &context->allocator);
  crn_str_initialize(&b->metadata, &context->allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_expand(&b->path, path));
  while (b->path.size > 1 && b->path.data[b->path.size - 1] == '/') b->path.data[--b->path.size] = 0;
  // Assets carry a metadata.json of their own, so their extension is looked at before any file is.
  if (ends_with_ignoring_case(b->path.data, b->path.size, ".aimodel") || ends_with_ignoring_case(b->path.data, b->path.size, ".aimodelc")) {
    status =
        CRN_FAIL(INVALID_ARGUMENT,
                 "'%s' is a model asset, not a bundle: a bundle is a folder with metadata.json, a tokenizer and the asset", b->path.data);
    goto done;
  }
  CRN_TRY_GOTO(read_metadata(b));
done:
  if (status != CAIRN_OK) {
    cairn_bundle_release(b);
    return status;
  }
  *out_bundle = b;
  return CAIRN_OK;
}

void cairn_bundle_retain(cairn_bundle *bundle) {
  if (!bundle) return;
  atomic_fetch_add_explicit(&bundle->references, 1, memory_order_relaxed);
}

void cairn_bundle_release(cairn_bundle *bundle) {
  if (!bundle || atomic_fetch_sub_explicit(&bundle->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = bundle->context;
  size_t n_roles = json_object_size(json_object_get(bundle->root, "assets"));
  if (bundle->roles) crn_free(&context->allocator, bundle->roles, (n_roles ? n_roles : 1) * sizeof *bundle->roles);
  json_decref(bundle->root);
  crn_str_deinitialize(&bundle->metadata);
  crn_str_deinitialize(&bundle->path);
  crn_free(&context->allocator, bundle, sizeof *bundle);
  cairn_context_release(context);
}

// --- what it says ---------------------------------------------------------------------------------------------------

const char *cairn_bundle_path(const cairn_bundle *bundle) { return bundle ? bundle->path.data : NULL; }
const char *cairn_bundle_name(const cairn_bundle *bundle) { return bundle ? bundle->name : NULL; }
cairn_bundle_kind cairn_bundle_get_kind(const cairn_bundle *bundle) { return bundle ? bundle->kind : (cairn_bundle_kind)0; }
const char *cairn_bundle_metadata_json(const cairn_bundle *bundle) { return bundle ? bundle->metadata.data : NULL; }

const char *cairn_bundle_kind_text(cairn_bundle_kind kind) {
  switch (kind) {
#define TEXT_OF_KIND(NAME, value, spelling) \
  case CAIRN_BUNDLE_##NAME:                 \
    return spelling;
    CAIRN_BUNDLE_KIND_LIST(TEXT_OF_KIND)
#undef TEXT_OF_KIND
  }
  return "unknown";
}

int cairn_bundle_asset_count(const cairn_bundle *bundle) { return bundle ? bundle->n_roles : 0; }

const char *cairn_bundle_asset_role(const cairn_bundle *bundle, int i) {
  if (!bundle) return NULL;
  return i < 0 || i >= bundle->n_roles ? NULL : bundle->roles[i];
}

const char *cairn_bundle_asset_file(const cairn_bundle *bundle, const char *role) {
  return bundle ? json_string_value(json_object_get(json_object_get(bundle->root, "assets"), role)) : NULL;
}

int cairn_bundle_user_data_count(const cairn_bundle *bundle) {
  return bundle ? (int)json_object_size(json_object_get(bundle->root, "user_data")) : 0;
}

const char *cairn_bundle_user_data_key(const cairn_bundle *bundle, int i) {
  if (!bundle) return NULL;
  json_t *data = json_object_get(bundle->root, "user_data");
  void *it = json_object_iter(data);
  while (it && i-- > 0) it = json_object_iter_next(data, it);
  return it ? json_object_iter_key(it) : NULL;
}

const char *cairn_bundle_user_data(const cairn_bundle *bundle, const char *key) {
  return bundle ? json_string_value(json_object_get(json_object_get(bundle->root, "user_data"), key)) : NULL;
}

// --- components -----------------------------------------------------------------------------------------------------

// Architecture names a compiled asset may carry for this machine ("" ends the list).
static void machine_names(const char *out_names[3], struct utsname *storage) {
  int n = 0;
  if (uname(storage) == 0) out_names[n++] = storage->machine;
#if defined(__aarch64__)
  out_names[n++] = "arm64";
#endif
  out_names[n] = NULL;
}

// Tries `stem` + `suffix` below the bundle. `*out_found` tells whether it exists; leading out of the bundle is a failure.
static cairn_status try_path(const cairn_bundle *b, const char *role, const char *stem, size_t stem_bytes, const char *suffix,
                             crn_str *path, bool *out_found) {
  *out_found = false;
  CRN_TRY(crn_path_join(path, b->path.data, ""));
  CRN_TRY(crn_str_append(path, stem, stem_bytes));
  CRN_TRY(crn_str_puts(path, suffix));
  if (!crn_file_exists(path->data)) return CAIRN_OK;
  if (!crn_path_is_inside(b->path.data, path->data)) {
    return CRN_FAIL(CORRUPT, "assets.%s of %s leads out of the bundle through a link: %s", role, b->path.data, path->data);
  }
  size_t bytes = path->size;
  CRN_TRY(crn_str_puts(path, "/main.mlirb"));
  if (crn_file_exists(path->data) && !crn_path_is_inside(b->path.data, path->data)) {
    return CRN_FAIL(CORRUPT, "%s leads out of the bundle through a link", path->data);
  }
  path->size = bytes;
  path->data[bytes] = 0;
  *out_found = true;
  return CAIRN_OK;
}

static cairn_status resolve(const cairn_bundle *b, const char *role, crn_str *path) {
  const char *file = cairn_bundle_asset_file(b, role);
  if (!file) return CRN_FAIL(CORRUPT, "metadata.json of %s is missing the required field 'assets.%s'", b->path.data, role);
  size_t n = strlen(file);
  bool found;
  CRN_TRY(try_path(b, role, file, n, "", path, &found));
  if (!found && crn_ends_with(file, ".aimodel")) {
    CRN_TRY(try_path(b, role, file, n, "c", path, &found));
    struct utsname storage;
    const char *names[3];
    machine_names(names, &storage);
    for (int i = 0; !found && names[i]; i++) {
      char suffix[sizeof storage.machine + 16];
      snprintf(suffix, sizeof suffix, ".%s.aimodelc", names[i]);
      CRN_TRY(try_path(b, role, file, n - strlen(".aimodel"), suffix, path, &found));
    }
  }
  if (found) return CAIRN_OK;
  return CRN_FAIL(NOT_FOUND,
                  "asset '%s' not found at %s/%s; a model compiled ahead of time must be named in metadata.json \"assets\" by its own "
                  "file name",
                  role, b->path.data, file);
}

cairn_status cairn_bundle_asset_path(const cairn_bundle *bundle, const char *role, char *out_path, size_t capacity, size_t *out_bytes) {
  CRN_REQUIRE(bundle);
  CRN_REQUIRE(role);
  CRN_REQUIRE_SOME(out_path, capacity);
  crn_str path;
  crn_str_initialize(&path, &bundle->context->allocator);
  cairn_status status = resolve(bundle, role, &path);
  if (status == CAIRN_OK) crn_give_text(&path, out_path, capacity, out_bytes);
  crn_str_deinitialize(&path);
  return status;
}

cairn_status cairn_bundle_verify(const cairn_bundle *bundle) {
  CRN_REQUIRE(bundle);
  crn_str path;
  crn_str_initialize(&path, &bundle->context->allocator);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < bundle->n_roles && status == CAIRN_OK; i++) {
    // A digest that one producer writes beside its contract file is no path.
    if (!crn_ends_with(bundle->roles[i], "_sha256")) status = resolve(bundle, bundle->roles[i], &path);
  }
  crn_str_deinitialize(&path);
  return status;
}
