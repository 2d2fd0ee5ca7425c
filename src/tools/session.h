/// --session FILE of cairn generate and cairn chat: a sequence that goes on in the next call of the program.
///
/// FILE is what cairn_llm_save writes. FILE.json beside it has the conversation, which the tokens do not tell, and the tokens of the
/// whole text, of which the last is not in the states yet. The states only save work: what the next prompt has in common with them is
/// not computed again. So it does no harm when only one of both files was written before the machine stopped.
#ifndef CRN_TOOLS_SESSION_H
#define CRN_TOOLS_SESSION_H

#include <jansson.h>

#include "base/file.h"
#include "cairn/llm.h"
#include "tools/generation.h"
#include "tools/json_writer.h"

#define CRN_SESSION_OPTION(type, group_text)                                                                                  \
  {                                                                                                                           \
    .name = "session", .kind = OPTION_TEXT, .offset = offsetof(type, session), .argument = "FILE", .group = group_text,       \
    .help = "go on where the last call with this file ended (a new one is made when it is not there), and save it at the end" \
  }

typedef struct crn_session {
  const char *path;    ///< NULL = none
  crn_file_lock lock;  ///< held from crn_session_claim to crn_session_close
  bool is_restored;    ///< the file was there
  int64_t n_restored;  ///< tokens
  bool is_saved;
  int64_t n_saved;
  json_t *messages;  ///< of the conversation that was restored; NULL = none
  const int32_t *tokens;
  size_t n_tokens;  ///< of the whole text that was restored
} crn_session;

/// Refuses flags that contradict each other. TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_session_check(crn_tool *t, const char *path, const crn_generation_values *generation);
/// Whether the files can be written and are none of those that are read. Errors: as crn_output_check_file and crn_output_check_apart;
/// UNSUPPORTED (a model that comes from no file).
cairn_status crn_session_check_place(const char *path, const char *model, const char *const *inputs, int n_inputs);

/// Keeps the session to this process until crn_session_close; nothing without a path. Before anything large is read.
/// Errors: BUSY (another process has it), FAILED_PRECONDITION (a conversation without its session, which would be written over), IO.
cairn_status crn_session_claim(const char *path, crn_session *out_session);
/// Restores the claimed session when its file is there. Errors: those of cairn_llm_restore; CORRUPT (the file of the conversation).
cairn_status crn_session_open(crn_tool *t, cairn_llm *llm, crn_session *s);
/// Saves it. `messages` NULL = no conversation; `tokens` are the whole text, none when that is not known.
/// Errors: those of cairn_llm_save; OUT_OF_MEMORY, IO.
cairn_status crn_session_save(crn_session *s, cairn_llm *llm, const json_t *messages, const int32_t *tokens, size_t n_tokens);
/// Of a claimed session, or one that is zeros.
void crn_session_close(crn_session *s);

/// The member "session" of a document; nothing without a session.
void crn_session_write(crn_json_writer *w, const crn_session *s);

#endif
