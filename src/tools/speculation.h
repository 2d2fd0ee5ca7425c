/// What cairn generate and chat share about drafts: the flags, the draft model, what is told in the end.
#ifndef CRN_TOOLS_SPECULATION_H
#define CRN_TOOLS_SPECULATION_H

#include "cairn/llm.h"
#include "tools/generation.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

/// Values of the options below.
typedef struct crn_speculation_values {
  const char *mode, *draft;
  crn_option_integer max_draft;
} crn_speculation_values;

#define CRN_GROUP_SPECULATION "Drafts (the text stays the same; it comes faster where they are right)"
#define CRN_SPECULATION_AT(type, member) (offsetof(type, speculation) + offsetof(crn_speculation_values, member))

/// Rows of an option table for a struct `type` that has a member `speculation`.
// clang-format off
#define CRN_SPECULATION_OPTIONS(type) \
    {.name = "speculate", .kind = OPTION_TEXT, .offset = CRN_SPECULATION_AT(type, mode), .argument = "HOW", \
     .group = CRN_GROUP_SPECULATION, .choices = "off|auto|lookup|draft", \
     .help = "guess the next tokens and check several at once: lookup from the text so far, draft from a smaller model, auto what " \
     "there is"}, \
    {.name = "draft", .kind = OPTION_TEXT, .offset = CRN_SPECULATION_AT(type, draft), .argument = "PATH", .place = PLACE_MODEL, \
     .group = CRN_GROUP_SPECULATION, .help = "the smaller model, with the same vocabulary"}, \
    {.name = "max-draft", .kind = OPTION_INTEGER, .offset = CRN_SPECULATION_AT(type, max_draft), .argument = "N", \
     .group = CRN_GROUP_SPECULATION, .help = "at most N tokens at a time", .minimum = 1, .maximum = 16}
// clang-format on

/// Checks combinations of options. TOOL_CONTINUE, or TOOL_USAGE after a message.
int crn_speculation_check(crn_tool *t, const crn_speculation_values *v);
/// Opens the draft model, if there is one, with the precision of the other; NULL when there is none. The caller closes it.
cairn_status crn_speculation_open(crn_tool *t, const crn_speculation_values *v, const crn_generation_values *generation,
                                  cairn_llm **out_draft);
void crn_speculation_fill(const crn_speculation_values *v, cairn_llm *draft, cairn_generate_options *out_options);
/// A line on stderr about drafts; nothing when none were asked for. Silent with -q.
void crn_speculation_note(crn_tool *t, const cairn_generation_info *info);
/// The key "speculation" of a document; nothing when none was asked for.
void crn_speculation_write(crn_json_writer *w, const cairn_generation_info *info);

#endif
