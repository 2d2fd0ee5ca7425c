/// --session FILE of cairn generate and cairn chat: a sequence that goes on in the next call of the program.
///
/// FILE is what cairn_llm_save writes. FILE.json beside it has the conversation, which the tokens do not tell, and the tokens of the
/// whole text, of which the last is not in the states yet. The states only save work: what the next prompt has in common with them is
/// not computed again. So it does no harm when only FILE.json was written before the process ended; anything else that does not fit
/// together was changed by others, and is refused (tools/conversation.h tells how it is seen).
#ifndef CRN_TOOLS_SESSION_H
#define CRN_TOOLS_SESSION_H

#include <jansson.h>

#include "base/file.h"
#include "cairn/session.h"
#include "tools/conversation.h"
#include "tools/generation.h"
#include "tools/json_writer.h"

#define CRN_SESSION_OPTION(type, group_text)                                                                                  \
  {                                                                                                                           \
    .name = "session", .kind = OPTION_TEXT, .offset = offsetof(type, session), .argument = "FILE", .place = PLACE_SESSION,    \
    .group = group_text,                                                                                                      \
    .help = "go on where the last call with this file ended (a new one is made when it is not there), and save it at the end" \
  }

typedef struct crn_session {
  const char *path;    ///< NULL = none
  const char *beside;  ///< the file of the conversation
  crn_file_lock lock;  ///< held from crn_session_claim to crn_session_close
  bool is_restored;    ///< the file was there
  int64_t n_restored;  ///< tokens
  bool is_saved;
  int64_t n_saved;
  crn_conversation conversation;                 ///< that was restored: zeros = none
  char note[CRN_CONVERSATION_DIGEST_BYTES + 1];  ///< of FILE as it is now; "" = none
} crn_session;

/// Refuses flags that contradict each other. TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_session_check(crn_tool *t, const char *path, const crn_generation_values *generation);
/// The name of the file of the conversation: FILE.json, where FILE itself lies whatever links lead to it.
cairn_status crn_session_companion(crn_arena *arena, const char *path, const char **out_beside);

/// Keeps the session to this process until crn_session_close, and reads its conversation; nothing without a path. Before anything large is
/// read. Errors: UNSUPPORTED (a model that comes from no file), BUSY (another process has it), FAILED_PRECONDITION (a file in the place of
/// its conversation, which would be written over), CORRUPT, IO.
cairn_status crn_session_claim(crn_tool *t, const char *path, crn_session *out_session);
/// Restores the claimed session when its file is there. Errors: those of cairn_llm_restore; FAILED_PRECONDITION (the conversation is
/// missing); CORRUPT (it is that of another session).
cairn_status crn_session_open(crn_tool *t, cairn_llm *llm, crn_session *s);
/// Whether it goes on with a text: there are tokens and no messages.
bool crn_session_is_text(const crn_session *s);
/// Puts the name of the session in front of the message of a failure, and returns `status`.
cairn_status crn_session_blame(const crn_session *s, cairn_status status);
/// Saves it. `messages` NULL = no conversation; `tokens` are the whole text, none when that is not known.
/// Errors: those of cairn_llm_save; OUT_OF_MEMORY, IO.
cairn_status crn_session_save(crn_session *s, cairn_llm *llm, json_t *messages, const int32_t *tokens, size_t n_tokens);
/// Of a claimed session, or one that is zeros.
void crn_session_close(crn_session *s);

/// The member "session" of a document; nothing without a session.
void crn_session_write(crn_json_writer *w, const crn_session *s);

#endif
