#include "tools/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/path.h"
#include "import/synthetic/synthetic.h"

#define OPTION "--session"

int crn_session_check(crn_tool *t, const char *path, const crn_generation_values *generation) {
  if (path && generation->kv && strcmp(generation->kv, "chunked") == 0)
    return crn_tool_usage_error(t, OPTION " keeps the whole sequence, --kv chunked drops rows of it");
  return TOOL_CONTINUE;
}

// A name in the words of who gave it, unless it is a link.
static cairn_status place_of(const char *path, crn_str *out) {
  struct stat st;
  const bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
  return is_link ? crn_path_resolve(path, out) : crn_str_puts(out, path);
}

cairn_status crn_session_companion(crn_arena *arena, const char *path, const char **out_beside) {
  crn_str name;
  crn_str_initialize(&name, NULL);
  cairn_status status = place_of(path, &name);
  if (status == CAIRN_OK) status = crn_str_puts(&name, ".json");
  if (status == CAIRN_OK) status = crn_arena_strndup(arena, name.data, name.size, out_beside);
  crn_str_deinitialize(&name);
  return status;
}

cairn_status crn_session_blame(const crn_session *s, cairn_status status) {
  return status == CAIRN_OK ? status : crn_fail(status, __FILE__, __LINE__, "the session '%s': %s", s->path, cairn_last_error()->message);
}

// A file of another kind in the place of the conversation of a session that begins would be lost.
static cairn_status read_conversation(crn_tool *t, crn_session *s) {
  if (!crn_file_exists(s->beside)) return CAIRN_OK;
  cairn_status status = crn_conversation_read(t, s->beside, &s->conversation);
  if (status == CAIRN_OK || crn_file_exists(s->path)) return crn_session_blame(s, status);
  return CRN_FAIL(FAILED_PRECONDITION,
                  OPTION " %s: there is no such session, and a new one would write over '%s'; move that away or choose another file",
                  s->path, s->beside);
}

cairn_status crn_session_claim(crn_tool *t, const char *path, crn_session *s) {
  *s = (crn_session){.lock.fd = -1};
  if (!path) return CAIRN_OK;
  if (crn_synthetic_is(t->positionals[0]))
    return CRN_FAIL(UNSUPPORTED, OPTION ": a session is recognised by the file of its model, and %s comes from none", t->positionals[0]);
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return CRN_FAIL(INVALID_ARGUMENT, OPTION " %s: that is no regular file", path);
  CRN_TRY(crn_session_companion(t->arena, path, &s->beside));
  CRN_TRY_NOTE(crn_file_lock_take(path, &s->lock), OPTION ": two processes cannot go on with one session; wait, or choose another file");
  s->path = path;
  return read_conversation(t, s);
}

// --- restoring ----------------------------------------------------------------------------------------------------------

// Without a note FILE is of the library, or of a version that wrote none.
static cairn_status check_pair(crn_tool *t, const crn_session *s) {
  const crn_conversation *c = &s->conversation;
  if (s->note[0] && !crn_file_exists(s->beside))
    return CRN_FAIL(FAILED_PRECONDITION, "the session '%s': its conversation '%s' is missing; put it back, or choose another file", s->path,
                    s->beside);
  if (strcmp(s->note, c->digest) == 0) return CAIRN_OK;
  if (strcmp(s->note, c->before) != 0)
    return CRN_FAIL(CORRUPT, "the session '%s': '%s' is not its conversation: one of both was changed or comes from another session",
                    s->path, s->beside);
  crn_tool_note(t, "(saving the session '%s' was cut short; its conversation is whole, the last part of it is computed again)", s->path);
  return CAIRN_OK;
}

static cairn_status take_history(crn_tool *t, cairn_llm *llm, crn_session *s) {
  int32_t *copy;
  const int32_t *history = cairn_llm_history(llm, &s->n_restored);
  if (s->conversation.n_tokens || !s->n_restored) return CAIRN_OK;
  CRN_TRY(crn_arena_array(t->arena, (size_t)s->n_restored, sizeof *copy, &copy));
  memcpy(copy, history, (size_t)s->n_restored * sizeof *copy);
  s->conversation.tokens = copy;
  s->conversation.n_tokens = (size_t)s->n_restored;
  return CAIRN_OK;
}

// FILE knows its model; where it is not there, its conversation must.
static cairn_status check_model(const cairn_llm *llm, const crn_session *s) {
  char own[CAIRN_LLM_IDENTITY_BYTES];
  if (!s->conversation.model[0]) return CAIRN_OK;
  CRN_TRY(cairn_llm_identify(llm, own));
  if (strcmp(own, s->conversation.model) == 0) return CAIRN_OK;
  return CRN_FAIL(INCOMPATIBLE, "the session '%s': its conversation '%s' was had with another model ('%.12s...', this one is '%.12s...')",
                  s->path, s->beside, s->conversation.model, own);
}

cairn_status crn_session_open(crn_tool *t, cairn_llm *llm, crn_session *s) {
  unsigned char note[CAIRN_SESSION_NOTE_BYTES];
  size_t n = 0;
  if (!s->path) return CAIRN_OK;
  if (!crn_file_exists(s->path)) {
    CRN_TRY(check_model(llm, s));
    if (crn_file_exists(s->beside))
      crn_tool_note(t, "(the session '%s' has no states: its conversation '%s' is computed again)", s->path, s->beside);
    return CAIRN_OK;
  }
  CRN_TRY(cairn_llm_restore_with_note(llm, s->path, note, &n));
  s->is_restored = true;
  // The note of another program is none of a conversation.
  if (n == CRN_CONVERSATION_DIGEST_BYTES) memcpy(s->note, note, n);
  CRN_TRY(check_pair(t, s));
  return take_history(t, llm, s);
}

bool crn_session_is_text(const crn_session *s) { return !s->conversation.messages && (s->n_restored || s->conversation.n_tokens); }

void crn_session_close(crn_session *s) {
  crn_conversation_release(&s->conversation);
  if (s->path) crn_file_lock_give(&s->lock);
  *s = (crn_session){0};
}

// --- saving -------------------------------------------------------------------------------------------------------------

// The conversation comes first: with the states of before it is still all that was said.
cairn_status crn_session_save(crn_session *s, cairn_llm *llm, json_t *messages, const int32_t *tokens, size_t n_tokens) {
  crn_conversation c = {.messages = messages, .tokens = tokens, .n_tokens = n_tokens};
  if (!s->path) return CAIRN_OK;
  s->is_saved = false;
  memcpy(c.before, s->note, sizeof c.before);
  CRN_TRY(cairn_llm_identify(llm, c.model));
  CRN_TRY(crn_conversation_write(s->beside, &c));
  CRN_TRY_NOTE(cairn_llm_save_with_note(llm, s->path, c.digest, CRN_CONVERSATION_DIGEST_BYTES),
               "what was said is kept in '%s' all the same, and computed again with the next call", s->beside);
  memcpy(s->note, c.digest, sizeof s->note);
  s->is_saved = true;
  cairn_llm_history(llm, &s->n_saved);
  crn_file_remove_leftovers(s->beside);
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
