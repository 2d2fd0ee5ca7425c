#include "tools/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cairn/session.h"
#include "import/synthetic/synthetic.h"
#include "tools/outputs.h"
#include "tools/text_source.h"

#define OPTION "--session"
#define FORMAT "cairn-conversation"

int crn_session_check(crn_tool *t, const char *path, const crn_generation_values *generation) {
  if (path && generation->kv && strcmp(generation->kv, "chunked") == 0)
    return crn_tool_usage_error(t, OPTION " keeps the whole sequence, --kv chunked drops rows of it");
  return TOOL_CONTINUE;
}

static cairn_status companion(const char *path, crn_str *out) { return crn_str_printf(out, "%s.json", path); }

static cairn_status check_file(const char *path, const char *const *inputs, int n_inputs) {
  CRN_TRY(crn_output_check_file(OPTION, path));
  for (int i = 0; i < n_inputs; i++) CRN_TRY(crn_output_check_apart(OPTION, path, inputs[i]));
  return CAIRN_OK;
}

cairn_status crn_session_check_place(const char *path, const char *model, const char *const *inputs, int n_inputs) {
  crn_str beside;
  if (!path) return CAIRN_OK;
  if (crn_synthetic_is(model))
    return CRN_FAIL(UNSUPPORTED, OPTION ": a session is recognised by the file of its model, and %s comes from none", model);
  CRN_TRY(crn_output_check_apart(OPTION, path, model));
  CRN_TRY(check_file(path, inputs, n_inputs));
  crn_str_initialize(&beside, NULL);
  cairn_status status = companion(path, &beside);
  if (status == CAIRN_OK) status = check_file(beside.data, inputs, n_inputs);
  crn_str_deinitialize(&beside);
  return status;
}

// A session that goes on has both files, or that of the states alone; one that begins has neither.
static cairn_status check_orphan(const char *path) {
  crn_str beside;
  if (crn_file_exists(path)) return CAIRN_OK;
  crn_str_initialize(&beside, NULL);
  cairn_status status = companion(path, &beside);
  if (status == CAIRN_OK && crn_file_exists(beside.data))
    status = CRN_FAIL(FAILED_PRECONDITION,
                      OPTION " %s: there is no such session, and a new one would write over '%s'; move that away or choose another file",
                      path, beside.data);
  crn_str_deinitialize(&beside);
  return status;
}

cairn_status crn_session_claim(const char *path, crn_session *s) {
  *s = (crn_session){.lock.fd = -1};
  if (!path) return CAIRN_OK;
  CRN_TRY_NOTE(crn_file_lock_take(path, &s->lock), OPTION ": two processes cannot go on with one session; wait, or choose another file");
  s->path = path;
  return check_orphan(path);
}

// --- restoring ----------------------------------------------------------------------------------------------------------

static cairn_status take_conversation(crn_tool *t, const char *name, const json_t *json, crn_session *s) {
  const char *format = NULL;
  int64_t version = 0;
  CRN_TRY(crn_json_string(json, name, "format", true, &format));
  CRN_TRY(crn_json_int(json, name, "version", true, &version));
  if (strcmp(format, FORMAT) != 0 || version != 1) return CRN_FAIL(CORRUPT, "%s: no conversation of version 1", name);
  json_t *messages = json_object_get(json, "messages"), *tokens = json_object_get(json, "tokens");
  if (messages && !json_is_array(messages)) return CRN_FAIL(CORRUPT, "%s: 'messages' must be an array", name);
  if (tokens) {
    int32_t *ids;
    CRN_TRY(crn_tool_ids(tokens, name, t->arena, &ids, &s->n_tokens));
    s->tokens = ids;
  }
  s->messages = json_incref(messages);
  return CAIRN_OK;
}

static cairn_status read_conversation(crn_tool *t, crn_session *s) {
  crn_str name;
  json_t *json = NULL;
  crn_str_initialize(&name, NULL);
  cairn_status status = companion(s->path, &name);
  // A file that a program saved through the library has none.
  if (status == CAIRN_OK && crn_file_exists(name.data)) {
    status = crn_json_read_nul(name.data, &json);
    if (status == CAIRN_OK) status = take_conversation(t, name.data, json, s);
  }
  json_decref(json);
  crn_str_deinitialize(&name);
  return status;
}

cairn_status crn_session_open(crn_tool *t, cairn_llm *llm, crn_session *s) {
  const char *path = s->path;
  if (!path) return CAIRN_OK;
  if (!crn_file_exists(path)) return CAIRN_OK;
  CRN_TRY(cairn_llm_restore(llm, path));
  const int32_t *history = cairn_llm_history(llm, &s->n_restored);
  s->is_restored = true;
  CRN_TRY(read_conversation(t, s));
  if (s->tokens || !s->n_restored) return CAIRN_OK;
  int32_t *copy;
  CRN_TRY(crn_arena_array(t->arena, (size_t)s->n_restored, sizeof *copy, &copy));
  memcpy(copy, history, (size_t)s->n_restored * sizeof *copy);
  s->tokens = copy;
  s->n_tokens = (size_t)s->n_restored;
  return CAIRN_OK;
}

void crn_session_close(crn_session *s) {
  json_decref(s->messages);
  if (s->path) crn_file_lock_give(&s->lock);
  *s = (crn_session){0};
}

// --- saving -------------------------------------------------------------------------------------------------------------

static void write_conversation(crn_json_writer *w, const char *messages, const int32_t *tokens, size_t n) {
  crn_jw_open_object(w);
  crn_jw_put_text(w, "format", FORMAT);
  crn_jw_put_integer(w, "version", 1);
  if (messages) {
    crn_jw_key(w, "messages");
    crn_jw_raw(w, messages);
  }
  if (n) {
    crn_jw_key(w, "tokens");
    crn_jw_open_array(w, true);
    for (size_t i = 0; i < n; i++) crn_jw_integer(w, tokens[i]);
    crn_jw_close_array(w);
  }
  crn_jw_close_object(w);
}

static cairn_status save_conversation(const crn_session *s, const json_t *messages, const int32_t *tokens, size_t n) {
  crn_str name;
  crn_json_writer w;
  char *text = messages ? json_dumps(messages, JSON_COMPACT) : NULL;
  if (messages && !text) return CRN_FAIL(OUT_OF_MEMORY, "no memory for the conversation");
  crn_str_initialize(&name, NULL);
  crn_jw_initialize(&w, true);
  write_conversation(&w, text, tokens, n);
  cairn_status status = w.status;
  if (status == CAIRN_OK) status = companion(s->path, &name);
  if (status == CAIRN_OK) status = crn_jw_save(&w, name.data);
  if (status == CAIRN_OK) crn_file_remove_leftovers(name.data);
  crn_jw_deinitialize(&w);
  crn_str_deinitialize(&name);
  free(text);
  return status;
}

cairn_status crn_session_save(crn_session *s, cairn_llm *llm, const json_t *messages, const int32_t *tokens, size_t n_tokens) {
  if (!s->path) return CAIRN_OK;
  s->is_saved = false;
  CRN_TRY(cairn_llm_save(llm, s->path));
  CRN_TRY(save_conversation(s, messages, tokens, n_tokens));
  s->is_saved = true;
  cairn_llm_history(llm, &s->n_saved);
  crn_file_remove_leftovers(s->path);
  return CAIRN_OK;
}

void crn_session_write(crn_json_writer *w, const crn_session *s) {
  if (!s || !s->path) return;
  crn_jw_key(w, "session");
  crn_jw_open_inline_object(w);
  crn_jw_put_text(w, "file", s->path);
  crn_jw_put_integer(w, "restored_tokens", s->n_restored);
  crn_jw_put_boolean(w, "saved", s->is_saved);
  crn_jw_put_integer(w, "saved_tokens", s->n_saved);
  crn_jw_close_object(w);
}
