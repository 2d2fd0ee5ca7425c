#include "tools/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tools/json_writer.h"
#include "tools/text_source.h"

#define FORMAT "cairn-conversation"
enum { VERSION = 2 };

static cairn_status digest_of(const char *text, size_t bytes, char *out) {
  unsigned char digest[CRN_SHA256_BYTES];
  CRN_TRY(crn_sha256(text, bytes, digest));
  crn_sha256_hex(digest, out);
  return CAIRN_OK;
}

// --- reading ------------------------------------------------------------------------------------------------------------

// What write_all puts behind the part that the digest is of.
static int tail_of(const char *digest, char *out, size_t capacity) {
  return snprintf(out, capacity, ",\n  \"digest\": \"%s\"\n}\n", digest);
}

static cairn_status check_digest(const char *name, const crn_str *text, const json_t *json, crn_conversation *c) {
  const char *told = NULL;
  char tail[128];
  CRN_TRY(crn_json_string(json, name, "digest", true, &told));
  const size_t n = strlen(told) == CRN_CONVERSATION_DIGEST_BYTES ? (size_t)tail_of(told, tail, sizeof tail) : 0;
  bool is_whole = n && text->size > n && memcmp(text->data + text->size - n, tail, n) == 0;
  if (is_whole) {
    CRN_TRY(digest_of(text->data, text->size - n, c->digest));
    is_whole = strcmp(told, c->digest) == 0;
  }
  return is_whole ? CAIRN_OK : CRN_FAIL(CORRUPT, "%s: its digest does not match: the file was damaged or changed", name);
}

static cairn_status take_before(const char *name, const json_t *json, crn_conversation *c) {
  const char *before = NULL, *model = NULL;
  CRN_TRY(crn_json_string(json, name, "before", false, &before));
  CRN_TRY(crn_json_string(json, name, "model", false, &model));
  if (before) snprintf(c->before, sizeof c->before, "%s", before);
  if (model) snprintf(c->model, sizeof c->model, "%s", model);
  return CAIRN_OK;
}

static cairn_status take_all(crn_tool *t, const char *name, const crn_str *text, const json_t *json, crn_conversation *c) {
  const char *format = NULL;
  int64_t version = 0;
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s: an object is expected", name);
  CRN_TRY(crn_json_string(json, name, "format", true, &format));
  CRN_TRY(crn_json_int(json, name, "version", true, &version));
  if (strcmp(format, FORMAT) != 0 || version < 1 || version > VERSION)
    return CRN_FAIL(CORRUPT, "%s: no conversation of a version from 1 to %d", name, VERSION);
  if (version > 1) CRN_TRY(check_digest(name, text, json, c));
  if (version > 1) CRN_TRY(take_before(name, json, c));
  json_t *messages = json_object_get(json, "messages"), *tokens = json_object_get(json, "tokens");
  if (messages && !json_is_array(messages)) return CRN_FAIL(CORRUPT, "%s: 'messages' must be an array", name);
  if (tokens) {
    int32_t *ids;
    CRN_TRY(crn_tool_ids(tokens, name, t->arena, &ids, &c->n_tokens));
    c->tokens = ids;
  }
  c->messages = json_incref(messages);
  return CAIRN_OK;
}

cairn_status crn_conversation_read(crn_tool *t, const char *path, crn_conversation *c) {
  crn_str text;
  json_t *json = NULL;
  *c = (crn_conversation){0};
  crn_str_initialize(&text, NULL);
  cairn_status status = crn_file_read(path, SIZE_MAX, &text);
  if (status == CAIRN_OK) status = crn_tool_parse_json(text.data, text.size, path, &json);
  if (status == CAIRN_OK) status = take_all(t, path, &text, json, c);
  json_decref(json);
  crn_str_deinitialize(&text);
  return status;
}

// --- writing ------------------------------------------------------------------------------------------------------------

static void write_all(crn_json_writer *w, const char *messages, crn_conversation *c) {
  crn_jw_open_object(w);
  crn_jw_put_text(w, "format", FORMAT);
  crn_jw_put_integer(w, "version", VERSION);
  if (c->before[0]) crn_jw_put_text(w, "before", c->before);
  if (c->model[0]) crn_jw_put_text(w, "model", c->model);
  if (messages) {
    crn_jw_key(w, "messages");
    crn_jw_raw(w, messages);
  }
  if (c->n_tokens) {
    crn_jw_key(w, "tokens");
    crn_jw_open_array(w, true);
    for (size_t i = 0; i < c->n_tokens; i++) crn_jw_integer(w, c->tokens[i]);
    crn_jw_close_array(w);
  }
  if (w->status == CAIRN_OK) w->status = digest_of(w->text.data, w->text.size, c->digest);
  crn_jw_put_text(w, "digest", c->digest);
  crn_jw_close_object(w);
}

cairn_status crn_conversation_write(const char *path, crn_conversation *c) {
  crn_json_writer w;
  char *text = c->messages ? json_dumps(c->messages, JSON_COMPACT) : NULL;
  if (c->messages && !text) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the conversation");
  crn_jw_initialize(&w, true);
  write_all(&w, text, c);
  cairn_status status = crn_jw_save(&w, path);
  crn_jw_deinitialize(&w);
  free(text);
  return status;
}

void crn_conversation_release(crn_conversation *c) {
  json_decref(c->messages);
  *c = (crn_conversation){0};
}
