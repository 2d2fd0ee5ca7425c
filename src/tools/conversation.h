/// FILE.json of a session: what was said, and the tokens of the whole text.
///
/// Its last member, `digest`, is the SHA-256 of all that stands in front of it. FILE carries that digest as its note, so that each of both
/// knows the other. `before` is the note that FILE had when FILE.json was written: it is written first, so a process that is killed between
/// the two leaves a FILE that is known all the same. Files of version 1 have neither member.
#ifndef CRN_TOOLS_CONVERSATION_H
#define CRN_TOOLS_CONVERSATION_H

#include <jansson.h>

#include "base/hash.h"
#include "cairn/session.h"
#include "tools/tool.h"

enum { CRN_CONVERSATION_DIGEST_BYTES = 2 * CRN_SHA256_BYTES };

typedef struct crn_conversation {
  json_t *messages;  ///< NULL = none: a text
  const int32_t *tokens;
  size_t n_tokens;
  char digest[CRN_CONVERSATION_DIGEST_BYTES + 1];  ///< hex; "" = none
  char before[CRN_CONVERSATION_DIGEST_BYTES + 1];
  char model[CAIRN_LLM_IDENTITY_BYTES];  ///< "" = not known: of an older version
} crn_conversation;

/// Tokens live in the tool's arena. Errors: NOT_FOUND, IO; CORRUPT naming the file.
cairn_status crn_conversation_read(crn_tool *t, const char *path, crn_conversation *out_conversation);
/// Writes messages (none when NULL), tokens, `before` and `model` of `c`, and stores the digest in it. Errors: OUT_OF_MEMORY, IO.
cairn_status crn_conversation_write(const char *path, crn_conversation *c);
void crn_conversation_release(crn_conversation *c);

#endif
