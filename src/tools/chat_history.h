/// The messages of a conversation as chat templates take them, replies with reasoning and tool calls included.
#ifndef CRN_TOOLS_CHAT_HISTORY_H
#define CRN_TOOLS_CHAT_HISTORY_H

#include <jansson.h>

#include "tools/dialogue.h"
#include "tools/images.h"

typedef struct crn_chat_history {
  json_t *messages;
  json_t *tools;              ///< NULL = none
  const char *template_name;  ///< NULL = chosen by the tools
  bool arguments_as_text;     ///< the template wants them so
  int n_calls;                ///< in the whole conversation, for their ids
} crn_chat_history;

cairn_status crn_chat_history_initialize(crn_chat_history *h, const char *template_name);
/// Goes on with the messages of another conversation.
cairn_status crn_chat_history_restore(crn_chat_history *h, const json_t *messages);
void crn_chat_history_deinitialize(crn_chat_history *h);
void crn_chat_history_clear(crn_chat_history *h);
size_t crn_chat_history_size(const crn_chat_history *h);
/// Cuts the conversation back to `n` messages.
void crn_chat_history_cut(crn_chat_history *h, size_t n);

cairn_status crn_chat_history_add(crn_chat_history *h, const char *role, const char *text);
/// The same of a text that a model wrote, which may have any bytes: those no template takes become U+FFFD.
cairn_status crn_chat_history_add_bytes(crn_chat_history *h, const char *role, const char *text, size_t n);
/// As crn_chat_history_add with pictures before the text. Of each the whole path and the digest of the file are kept. Errors: also
/// NOT_FOUND, IO (a picture that cannot be read).
cairn_status crn_chat_history_add_with_images(crn_chat_history *h, const char *role, const char *text, const char *const *paths, size_t n);
/// Whether the pictures of the whole conversation are there and still those that were shown. Errors: NOT_FOUND, IO; FAILED_PRECONDITION
/// naming one that has changed.
cairn_status crn_chat_history_check_images(crn_tool *t, const crn_chat_history *h);
/// Makes `images` these pictures. Errors: as crn_chat_history_check_images and crn_images_add.
cairn_status crn_chat_history_take_images(crn_tool *t, const crn_chat_history *h, crn_images *images);
/// Adds what a reply says, thinks and calls.
cairn_status crn_chat_history_add_reply(crn_chat_history *h, const crn_reply *reply);
/// Adds the result of the first tool call of the last reply that has none yet, and tells how many still have none.
/// Errors: FAILED_PRECONDITION when there is no such call.
cairn_status crn_chat_history_add_result(crn_chat_history *h, const char *text, int *out_n_open);

/// The conversation as cairn_llm_generate takes it. The caller frees it. Templates disagree whether arguments are objects or
/// texts; when `llm`'s template cannot render one, it gets the other.
cairn_status crn_chat_history_text(crn_chat_history *h, const cairn_llm *llm, char **out_text);

#endif
