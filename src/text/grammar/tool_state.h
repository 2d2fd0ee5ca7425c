/// Inside of grammars of tool calls: what tool_grammar.c makes and tool_matcher.c walks through.
#ifndef CRN_TEXT_GRAMMAR_TOOL_STATE_H
#define CRN_TEXT_GRAMMAR_TOOL_STATE_H

#include <pthread.h>

#include "text/dialogue/internal.h"
#include "text/grammar/tool_grammar.h"
#include "text/grammar/tools.h"

typedef enum crn_tool_choice { CRN_TOOLS_AUTO, CRN_TOOLS_REQUIRED, CRN_TOOLS_NONE, CRN_TOOLS_NAMED } crn_tool_choice;

/// A text that begins a call, and what stands there.
typedef struct crn_tool_trigger {
  const char *text;
  size_t n;
  crn_tool_place place;
} crn_tool_trigger;

typedef struct crn_tool_compiled {
  crn_tool_place place;
  bool with_opening;
  crn_xg_grammar *xg;
} crn_tool_compiled;

typedef struct crn_tool_grammar {
  crn_arena arena;
  json_t *tools;
  cairn_dialogue_options dialogue;  ///< texts of the arena; the tokenizer is retained
  cairn_tokenizer *tokenizer;
  cairn_dialogue_format format;
  crn_tool_choice choice;
  const char *tool;  ///< of NAMED
  CRN_VEC(crn_tool_trigger) triggers;
  crn_tool_markers whole;  ///< tokens that have a trigger in them
  pthread_mutex_t lock;    ///< guards what follows
  bool has_lock;
  CRN_VEC(crn_tool_compiled) compiled;
} crn_tool_grammar;

/// The grammar of what follows at a place, made when it is first needed. Owner: borrowed. Thread: safe.
cairn_status crn_tool_grammar_at(cairn_grammar *g, const crn_tool_place *place, bool with_opening, crn_xg_grammar **out);

#endif
