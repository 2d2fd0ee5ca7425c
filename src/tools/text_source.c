#include "tools/text_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "import/gguf/vocabulary.h"
#include "import/registry.h"
#include "import/synthetic/synthetic.h"

enum { MAX_TEXT_BYTES = 1 << 30 };

// --- opening ----------------------------------------------------------------------------------------------------------

// Whether `path` is a file an importer reads (a folder never is).
static cairn_status is_importable(const char *path, bool *out) {
  const crn_importer *importer = NULL;
  *out = false;
  if (crn_is_directory(path)) return CAIRN_OK;
  CRN_TRY(crn_importer_find(path, &importer));
  *out = importer != NULL;
  return CAIRN_OK;
}

// The folder the tokenizer lies in: a bundle keeps it in a folder of its own.
static cairn_status tokenizer_folder(const char *path, crn_str *out) {
  CRN_TRY(crn_path_join(out, path, "tokenizer"));
  if (crn_is_directory(path) && crn_is_directory(out->data)) return CAIRN_OK;
  crn_str_clear(out);
  return crn_str_puts(out, path);
}

// The text side of a file alone: its weights may be of types or an architecture that cannot run.
static cairn_status import_text(crn_tool *t, const char *path, crn_imported_model *out) {
  crn_gguf *file = NULL;
  if (crn_synthetic_is(path)) return CRN_FAIL(NOT_FOUND, "%s has no tokenizer: its weights are random", path);
  CRN_TRY(crn_gguf_open(NULL, path, &file));
  crn_imported_model_initialize(out, t->context);
  cairn_status status = crn_gguf_read_vocabulary(file, false, out);
  crn_gguf_close(file);
  if (status != CAIRN_OK) crn_imported_model_destroy(out);
  return status;
}

static cairn_status open_imported_tokenizer(crn_tool *t, const char *path, cairn_tokenizer **out) {
  crn_imported_model model;
  CRN_TRY(import_text(t, path, &model));
  cairn_status status = CAIRN_OK;
  if (model.tokenizer) {
    cairn_tokenizer_retain(model.tokenizer);
    *out = model.tokenizer;
  } else {
    status = CRN_FAIL(NOT_FOUND, "%s has no tokenizer", path);
  }
  crn_imported_model_destroy(&model);
  return status;
}

cairn_status crn_tool_open_tokenizer(crn_tool *t, const char *path, cairn_tokenizer **out) {
  bool importable;
  CRN_TRY(is_importable(path, &importable));
  if (importable) return open_imported_tokenizer(t, path, out);
  crn_str folder;
  crn_str_initialize(&folder, NULL);
  cairn_status status = tokenizer_folder(path, &folder);
  if (status == CAIRN_OK) status = cairn_tokenizer_open(t->context, folder.data, out);
  crn_str_deinitialize(&folder);
  return status;
}

// --- templates --------------------------------------------------------------------------------------------------------

static cairn_status set_token(json_t *tokens, const char *key, const char *text) {
  json_t *value = json_string(text);
  // json_string refuses what is not UTF-8; such a name cannot be used in a template anyway.
  if (!value) return CAIRN_OK;
  return json_object_set_new(tokens, key, value) ? CRN_FAIL(OUT_OF_MEMORY, "no memory for the special tokens") : CAIRN_OK;
}

// "bos_token": "<s>" or {"content": "<s>", …}; other members of the file do not name tokens.
static cairn_status take_tokens(json_t *tokens, const json_t *config) {
  static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const json_t *v = json_object_get(config, names[i]);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (json_is_string(v)) CRN_TRY(set_token(tokens, names[i], json_string_value(v)));
  }
  return CAIRN_OK;
}

// Reads a JSON file of the folder; NULL in `*out` when it does not exist.
static cairn_status read_optional(const char *folder, const char *name, json_t **out) {
  crn_str path;
  *out = NULL;
  crn_str_initialize(&path, NULL);
  cairn_status status = crn_path_join(&path, folder, name);
  if (status == CAIRN_OK && crn_file_exists(path.data)) status = crn_json_read(path.data, out);
  crn_str_deinitialize(&path);
  return status;
}

static cairn_status open_folder(crn_tool *t, const char *folder, crn_template_source *s) {
  json_t *config = NULL, *map = NULL;
  cairn_status status;
  CRN_TRY_GOTO(read_optional(folder, "special_tokens_map.json", &map));
  CRN_TRY_GOTO(read_optional(folder, "tokenizer_config.json", &config));
  CRN_TRY_GOTO(take_tokens(s->tokens, map));
  CRN_TRY_GOTO(take_tokens(s->tokens, config));
  status = cairn_template_set_open(t->context, folder, &s->set);
  if (status == CAIRN_NOT_FOUND)
    status = CRN_FAIL(NOT_FOUND, "%s has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)", folder);
done:
  json_decref(config);
  json_decref(map);
  return status;
}

static cairn_status open_imported(crn_tool *t, const char *path, crn_template_source *s) {
  crn_imported_model m;
  CRN_TRY(import_text(t, path, &m));
  cairn_status status = m.chat_template ? cairn_template_set_create(t->context, m.chat_template, strlen(m.chat_template), path, &s->set)
                                        : CRN_FAIL(NOT_FOUND, "%s has no chat template", path);
  const struct {
    const char *key;
    int32_t id;
  } tokens[] = {{"bos_token", m.bos_id}, {"eos_token", m.eos_id}};
  for (size_t i = 0; i < 2 && status == CAIRN_OK; i++) {
    const char *token = m.tokenizer && tokens[i].id >= 0 ? cairn_tokenizer_token(m.tokenizer, tokens[i].id) : NULL;
    if (token) status = set_token(s->tokens, tokens[i].key, token);
  }
  crn_imported_model_destroy(&m);
  return status;
}

static cairn_status open_file(crn_tool *t, const char *path, crn_template_source *s) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status = crn_tool_read(path, &text);
  if (status == CAIRN_OK) status = cairn_template_set_create(t->context, text.data, text.size, path, &s->set);
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_template_source_open(crn_tool *t, const char *path, crn_template_source *s) {
  bool importable;
  *s = (crn_template_source){.tokens = json_object()};
  if (!s->tokens) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the special tokens");
  CRN_TRY(is_importable(path, &importable));
  if (importable) return open_imported(t, path, s);
  if (!crn_is_directory(path)) return open_file(t, path, s);
  crn_str folder;
  crn_str_initialize(&folder, NULL);
  cairn_status status = tokenizer_folder(path, &folder);
  if (status == CAIRN_OK) status = open_folder(t, folder.data, s);
  crn_str_deinitialize(&folder);
  return status;
}

void crn_template_source_close(crn_template_source *s) {
  cairn_template_set_release(s->set);
  json_decref(s->tokens);
  *s = (crn_template_source){0};
}

// --- text and ids -----------------------------------------------------------------------------------------------------

cairn_status crn_tool_encode(const cairn_tokenizer *tokenizer, const char *text, size_t bytes, bool special, crn_arena *arena,
                             int32_t **out_ids, size_t *out_n) {
  // Few tokenizers give more ids than bytes; when one does, the second call has the room.
  size_t capacity = bytes + 16;
  CRN_TRY(crn_arena_array(arena, capacity, sizeof **out_ids, out_ids));
  CRN_TRY(cairn_tokenizer_encode(tokenizer, text, bytes, special, *out_ids, capacity, out_n));
  if (*out_n <= capacity) return CAIRN_OK;
  capacity = *out_n;
  CRN_TRY(crn_arena_array(arena, capacity, sizeof **out_ids, out_ids));
  return cairn_tokenizer_encode(tokenizer, text, bytes, special, *out_ids, capacity, out_n);
}

cairn_status crn_tool_encode_offsets(const cairn_tokenizer *tokenizer, const char *text, size_t bytes, bool special, crn_arena *arena,
                                     cairn_token_span **out_spans, size_t *out_n) {
  size_t n;
  CRN_TRY(cairn_tokenizer_encode_offsets(tokenizer, text, bytes, NULL, 0, special, NULL, 0, &n));
  CRN_TRY(crn_arena_array(arena, n, sizeof **out_spans, out_spans));
  return cairn_tokenizer_encode_offsets(tokenizer, text, bytes, NULL, 0, special, *out_spans, n, out_n);
}

cairn_status crn_tool_decode(const cairn_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip, crn_arena *arena, char **out_text,
                             size_t *out_bytes) {
  CRN_TRY(cairn_tokenizer_decode(tokenizer, ids, n, skip, NULL, 0, out_bytes));
  CRN_TRY(crn_arena_alloc(arena, *out_bytes + 1, out_text));
  return cairn_tokenizer_decode(tokenizer, ids, n, skip, *out_text, *out_bytes, out_bytes);
}

static cairn_status read_stream(int fd, const char *what, crn_str *out) {
  char block[1 << 16];
  crn_str_clear(out);
  for (;;) {
    ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CRN_FAIL(IO, "cannot read %s: %s", what, strerror(errno));
    if (n == 0) return CAIRN_OK;
    if (out->size + (size_t)n > MAX_TEXT_BYTES) return CRN_FAIL(OUT_OF_RANGE, "%s has more than %d bytes", what, MAX_TEXT_BYTES);
    CRN_TRY(crn_str_append(out, block, (size_t)n));
  }
}

// Pipes are welcome too: --input <(make-conversation).
cairn_status crn_tool_read(const char *path, crn_str *out) {
  if (!path || !strcmp(path, "-")) return read_stream(STDIN_FILENO, "stdin", out);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT || errno == ENOTDIR ? CRN_FAIL(NOT_FOUND, "%s: no such file or directory", path)
                                               : CRN_FAIL(IO, "cannot open '%s': %s", path, strerror(errno));
  cairn_status status = read_stream(fd, path, out);
  close(fd);
  return status;
}

cairn_status crn_tool_read_message(const char *path, crn_str *out) {
  CRN_TRY(crn_tool_read(path, out));
  const char *nul = memchr(out->data, 0, out->size);
  return nul ? crn_tool_refuse_nul(!path || !strcmp(path, "-") ? "stdin" : path, (size_t)(nul - out->data)) : CAIRN_OK;
}

cairn_status crn_tool_refuse_nul(const char *what, size_t at) {
  return CRN_FAIL(INVALID_ARGUMENT, "%s: byte %zu is NUL, which no text for a model has", what, at + 1);
}

cairn_status crn_tool_parse_json(const char *text, size_t bytes, const char *what, json_t **out_json) {
  json_error_t e;
  *out_json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
  if (*out_json) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: line %d column %d: %s", what, e.line, e.column, e.text);
}

cairn_status crn_tool_ids(const json_t *array, const char *what, crn_arena *arena, int32_t **out_ids, size_t *out_n) {
  if (!json_is_array(array)) return CRN_FAIL(CORRUPT, "%s must be an array of token ids", what);
  *out_n = json_array_size(array);
  CRN_TRY(crn_arena_array(arena, *out_n, sizeof **out_ids, out_ids));
  for (size_t i = 0; i < *out_n; i++) {
    const json_t *v = json_array_get(array, i);
    if (!json_is_integer(v) || json_integer_value(v) < INT32_MIN || json_integer_value(v) > INT32_MAX)
      return CRN_FAIL(CORRUPT, "%s: item %zu is no token id", what, i);
    (*out_ids)[i] = (int32_t)json_integer_value(v);
  }
  return CAIRN_OK;
}

static cairn_status parse_tokens(const crn_str *text, crn_arena *arena, int32_t **out_ids, size_t *out_n) {
  json_t *root = NULL;
  CRN_TRY(crn_json_parse(text->data, text->size, "JSON", &root));
  const json_t *tokens = json_object_get(root, "tokens");
  cairn_status status = tokens ? crn_tool_ids(tokens, "tokens", arena, out_ids, out_n) : CRN_FAIL(CORRUPT, "'tokens' is missing");
  json_decref(root);
  return status;
}

cairn_status crn_tool_read_tokens(const char *path, crn_arena *arena, int32_t **out_ids, size_t *out_n) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status = crn_tool_read(path, &text);
  if (status == CAIRN_OK) {
    status = parse_tokens(&text, arena, out_ids, out_n);
    if (status != CAIRN_OK) crn_note(status, "%s: expected format: {\"tokens\": [1, 2, 3]}", path);
  }
  crn_str_deinitialize(&text);
  return status;
}
