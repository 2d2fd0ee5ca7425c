#include "asset/compiled.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/json.h"

enum { FORMAT_VERSION = 1, MAX_JSON_BYTES = 1 << 16, MAX_METADATA_BYTES = 16 << 20, MAX_RANGES = 1 << 20 };

static const char k_magic[16] = "cairn program 1";

typedef struct program_header {
  char magic[16];
  uint64_t file_bytes;  ///< of the program it was made from
  uint64_t n_ranges;
  unsigned char digest[CRN_SHA256_BYTES];  ///< of the table and the data behind it
} program_header;

const char *crn_architecture(void) {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

static cairn_status join(const cairn_asset *asset, const char *folder, const char *name, crn_str *out) {
  crn_str_initialize(out, &asset->context->allocator);
  return crn_path_join(out, folder, name);
}

bool crn_is_compiled(const char *folder) {
  crn_str path;
  crn_str_initialize(&path, crn_default_allocator());
  bool is = crn_path_join(&path, folder, "compiled.json") == CAIRN_OK && crn_file_exists(path.data);
  crn_str_deinitialize(&path);
  return is;
}

// --- writing ------------------------------------------------------------------------------------------------------------------

static cairn_status fill_program(const cairn_asset *asset, const crn_byte_range *kept, size_t n, crn_str *out) {
  program_header h = {.file_bytes = asset->map.bytes, .n_ranges = n};
  memcpy(h.magic, k_magic, sizeof h.magic);
  CRN_TRY(crn_str_append(out, (const char *)&h, sizeof h));
  CRN_TRY(crn_str_append(out, (const char *)kept, n * sizeof *kept));
  for (size_t i = 0; i < n; i++) CRN_TRY(crn_str_append(out, (const char *)asset->map.data + kept[i].offset, kept[i].bytes));
  return crn_sha256(out->data + sizeof h, out->size - sizeof h, (unsigned char *)out->data + offsetof(program_header, digest));
}

static cairn_status write_file(const cairn_asset *asset, const char *folder, const char *name, const void *data, size_t bytes) {
  crn_str path;
  cairn_status status = join(asset, folder, name, &path);
  if (status == CAIRN_OK) status = crn_file_replace(path.data, data, bytes);
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status write_description(const cairn_asset *asset, const char *folder, const char *precision) {
  crn_str text;
  crn_str_initialize(&text, &asset->context->allocator);
  cairn_status status =
      crn_str_printf(&text,
                     "{\n  \"format\": \"cairn-compiled\",\n  \"version\": %d,\n  \"architecture\": \"%s\",\n  \"layout\": \"%s\",\n"
                     "  \"hash\": \"%s\",\n  \"precision\": \"%s\"\n}\n",
                     FORMAT_VERSION, crn_architecture(), CRN_PACKED_LAYOUT, asset->hash, precision);
  if (status == CAIRN_OK) status = write_file(asset, folder, "compiled.json", text.data, text.size);
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_compiled_write(const cairn_asset *asset, const char *folder, const char *precision, const crn_byte_range *kept,
                                size_t n_kept) {
  crn_str program;
  crn_str_initialize(&program, &asset->context->allocator);
  cairn_status status = fill_program(asset, kept, n_kept, &program);
  if (status == CAIRN_OK) status = write_file(asset, folder, "program.cairn", program.data, program.size);
  crn_str_deinitialize(&program);
  CRN_TRY(status);
  CRN_TRY(write_file(asset, folder, "metadata.json", asset->metadata, strlen(asset->metadata)));
  // What makes the folder a compiled asset comes last.
  return write_description(asset, folder, precision);
}

// --- reading ------------------------------------------------------------------------------------------------------------------

static cairn_status check_text(const json_t *json, const char *path, const char *key, const char *expected) {
  const char *text = NULL;
  CRN_TRY(crn_json_string(json, path, key, true, &text));
  if (strcmp(text, expected) == 0) return CAIRN_OK;
  return CRN_FAIL(INCOMPATIBLE, "%s: %s is '%s', this build runs '%s'; compile the asset again", path, key, text, expected);
}

static cairn_status read_fields(cairn_asset *asset, const json_t *json, const char *path, struct crn_compiled *c) {
  const char *hash = NULL, *precision = NULL;
  CRN_TRY(check_text(json, path, "format", "cairn-compiled"));
  if (json_integer_value(json_object_get(json, "version")) != FORMAT_VERSION)
    return CRN_FAIL(INCOMPATIBLE, "%s: version %d is expected; compile the asset again", path, FORMAT_VERSION);
  CRN_TRY(check_text(json, path, "architecture", crn_architecture()));
  CRN_TRY(check_text(json, path, "layout", CRN_PACKED_LAYOUT));
  CRN_TRY(crn_json_string(json, path, "hash", true, &hash));
  CRN_TRY(crn_json_string(json, path, "precision", true, &precision));
  if (strlen(hash) != 2 * CRN_SHA256_BYTES) return CRN_FAIL(CORRUPT, "%s: the hash is no SHA-256", path);
  memcpy(asset->hash, hash, sizeof asset->hash);
  return crn_arena_strndup(&asset->arena, precision, strlen(precision), &c->precision);
}

static cairn_status read_description(cairn_asset *asset, const char *folder, struct crn_compiled *c) {
  crn_str path, text;
  json_t *json = NULL;
  crn_str_initialize(&text, &asset->context->allocator);
  cairn_status status = join(asset, folder, "compiled.json", &path);
  if (status == CAIRN_OK) status = crn_file_read(path.data, MAX_JSON_BYTES, &text);
  if (status == CAIRN_OK) status = crn_json_parse(text.data, text.size, path.data, &json);
  if (status == CAIRN_OK && !json_is_object(json)) status = CRN_FAIL(CORRUPT, "%s: a JSON object is expected", path.data);
  if (status == CAIRN_OK) status = read_fields(asset, json, path.data, c);
  json_decref(json);
  crn_str_deinitialize(&text);
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status corrupt(const char *path) { return CRN_FAIL(CORRUPT, "'%s' is damaged; compile the asset again", path); }

// Puts the kept parts to their places in fresh memory of the program's size.
static cairn_status restore(cairn_asset *asset, const char *path, const crn_file_map *file, struct crn_compiled *c) {
  program_header h;
  unsigned char digest[CRN_SHA256_BYTES];
  size_t table_bytes;
  if (file->bytes < sizeof h) return corrupt(path);
  memcpy(&h, file->data, sizeof h);
  if (memcmp(h.magic, k_magic, sizeof h.magic) || h.n_ranges > MAX_RANGES ||
      !crn_mul_size(h.n_ranges, sizeof(crn_byte_range), &table_bytes) || !crn_range_inside(sizeof h, table_bytes, file->bytes) ||
      h.file_bytes == 0 || h.file_bytes > (uint64_t)1 << 46)
    return corrupt(path);
  CRN_TRY(crn_sha256(file->data + sizeof h, file->bytes - sizeof h, digest));
  if (memcmp(digest, h.digest, sizeof digest)) return corrupt(path);
  crn_byte_range *kept;
  CRN_TRY(crn_arena_array(&asset->arena, h.n_ranges, sizeof *kept, &kept));
  memcpy(kept, file->data + sizeof h, table_bytes);
  void *memory = mmap(NULL, h.file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CRN_FAIL(OUT_OF_MEMORY, "no memory for a program of %llu bytes", (unsigned long long)h.file_bytes);
  asset->map = (crn_file_map){memory, h.file_bytes};
  size_t at = sizeof h + table_bytes;
  uint64_t end = 0;
  for (uint64_t i = 0; i < h.n_ranges; i++) {
    if (kept[i].offset < end || !crn_range_inside(kept[i].offset, kept[i].bytes, h.file_bytes) ||
        !crn_range_inside(at, kept[i].bytes, file->bytes))
      return corrupt(path);
    memcpy((char *)memory + kept[i].offset, file->data + at, kept[i].bytes);
    at += kept[i].bytes;
    end = kept[i].offset + kept[i].bytes;
  }
  mprotect(memory, h.file_bytes, PROT_READ);
  c->kept = kept;
  c->n_kept = h.n_ranges;
  return CAIRN_OK;
}

static cairn_status read_program(cairn_asset *asset, const char *folder, struct crn_compiled *c) {
  crn_str path;
  crn_file_map file = {0};
  cairn_status status = join(asset, folder, "program.cairn", &path);
  if (status == CAIRN_OK) status = crn_file_map_open(path.data, &file);
  if (status == CAIRN_OK) status = restore(asset, path.data, &file, c);
  crn_file_map_close(&file);
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status read_metadata(cairn_asset *asset, const char *folder) {
  crn_str path, text;
  crn_str_initialize(&text, &asset->context->allocator);
  cairn_status status = join(asset, folder, "metadata.json", &path);
  if (status == CAIRN_OK) status = crn_file_read(path.data, MAX_METADATA_BYTES, &text);
  if (status == CAIRN_OK) status = crn_arena_strndup(&asset->arena, text.data, text.size, &asset->metadata);
  crn_str_deinitialize(&text);
  crn_str_deinitialize(&path);
  return status;
}

cairn_status crn_compiled_read(cairn_asset *asset, const char *folder) {
  struct crn_compiled *c;
  crn_str path;
  CRN_TRY(crn_arena_alloc(&asset->arena, sizeof *c, &c));
  CRN_TRY(crn_arena_strndup(&asset->arena, folder, strlen(folder), &asset->path));
  CRN_TRY(read_description(asset, folder, c));
  CRN_TRY(read_metadata(asset, folder));
  cairn_status status = join(asset, folder, "weights.packed", &path);
  if (status == CAIRN_OK) status = crn_arena_strndup(&asset->arena, path.data, path.size, &c->weights_path);
  crn_str_deinitialize(&path);
  CRN_TRY(status);
  CRN_TRY(read_program(asset, folder, c));
  asset->compiled = c;
  return CAIRN_OK;
}

bool crn_compiled_covers(const cairn_asset *asset, const void *data, size_t bytes) {
  uintptr_t at = (uintptr_t)data, base = (uintptr_t)asset->map.data;
  if (!asset->compiled || at < base || at >= base + asset->map.bytes || !bytes) return true;
  uint64_t offset = at - base;
  for (size_t i = 0; i < asset->compiled->n_kept; i++) {
    const crn_byte_range *r = &asset->compiled->kept[i];
    if (offset >= r->offset && offset - r->offset < r->bytes) return bytes <= r->bytes - (offset - r->offset);
  }
  return false;
}
