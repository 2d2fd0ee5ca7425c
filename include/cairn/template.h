/// Chat templates: Jinja as Hugging Face Transformers configures it (trim_blocks, lstrip_blocks, break and continue,
/// `raise_exception`, `strftime_now`, `tojson`, generation tags).
///
/// Templates come from files nobody checked, so rendering is bounded: steps, output bytes and nesting have limits, and
/// nothing outside of the given variables can be reached.
#ifndef CAIRN_TEMPLATE_H
#define CAIRN_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A compiled template. Owner: shared and counted. Thread: safe (immutable after creation).
typedef struct cairn_template cairn_template;

typedef struct cairn_template_limits {
  uint64_t max_steps;       ///< evaluated nodes, default 20 million
  size_t max_output_bytes;  ///< default 64 MiB
  int max_depth;            ///< nesting of expressions, blocks and macro calls, default 200
} cairn_template_limits;

/// Compiles `source`. `what` names it in messages (may be NULL). Errors: CORRUPT with the line, UNSUPPORTED, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_template_create(cairn_context *context, const char *source, size_t source_bytes, const char *what,
                                             cairn_template **out_template);
CAIRN_API void cairn_template_retain(cairn_template *t);
CAIRN_API void cairn_template_release(cairn_template *t);

/// Renders with the variables of a JSON object (`messages`, `tools`, `add_generation_prompt`, `bos_token`, …).
/// `limits` NULL = defaults. The clock of `strftime_now` is local time.
/// Writes up to `capacity` bytes (no NUL) and stores the full size in `*out_bytes`; a full size above the capacity
/// means the buffer was too small (not an error).
/// Errors: INVALID_ARGUMENT (variables are no JSON object; the template called raise_exception, with its text in the
/// record), FAILED_PRECONDITION (an operation the values do not allow, with the line), OUT_OF_RANGE (a limit).
CAIRN_API cairn_status cairn_template_render(const cairn_template *t, const char *variables_json, size_t variables_bytes,
                                             const cairn_template_limits *limits, char *out_text, size_t capacity, size_t *out_bytes);

// --- the templates of a tokenizer -----------------------------------------------------------------------------------

/// The chat templates that belong to a tokenizer: one, or several by name ("default", "tool_use", "rag", …).
/// Owner: shared and counted. Thread: safe (immutable after creation).
typedef struct cairn_template_set cairn_template_set;

/// Reads the templates of a tokenizer's folder, as Transformers does: `chat_template.jinja` ("default") and
/// `additional_chat_templates/NAME.jinja`; without any of them `chat_template` of `tokenizer_config.json`, then of
/// `chat_template.json`: a text, or a list of {"name","template"}. A template that does not compile is refused when it is used.
/// Errors: NOT_FOUND when there are none, IO, CORRUPT (a file is no JSON), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_template_set_open(cairn_context *context, const char *folder, cairn_template_set **out_set);

/// A set of one template; arguments as those of cairn_template_create. Errors: OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_template_set_create(cairn_context *context, const char *source, size_t source_bytes, const char *what,
                                                 cairn_template_set **out_set);
CAIRN_API void cairn_template_set_retain(cairn_template_set *set);
/// NULL is allowed.
CAIRN_API void cairn_template_set_release(cairn_template_set *set);

/// The names, in the order of the files. Owner: borrowed; NULL for an index that is none.
CAIRN_API int cairn_template_set_count(const cairn_template_set *set);
CAIRN_API const char *cairn_template_set_name(const cairn_template_set *set, int index);

/// Chooses a template: the only one; else the one called `name`; without a name "tool_use" when there are tools and such a
/// template, else "default". A set of one takes no other name than its own. The source (not NUL-terminated) and the template
/// are borrowed from the set; out-pointers may be NULL.
/// Errors: NOT_FOUND listing the names, and those of compiling the template when it is asked for.
CAIRN_API cairn_status cairn_template_set_pick(const cairn_template_set *set, const char *name, bool has_tools,
                                               const cairn_template **out_template, const char **out_source, size_t *out_source_bytes);

/// Renders a conversation as Transformers' apply_chat_template does. `conversation_json` is an array of messages, or an object
/// of variables with `messages` and any of
///   - `tools`, `documents` (null when absent) and `add_generation_prompt` (false when absent),
///   - `continue_final_message`: true, or the name of a member of the last message ("content" for true): the text ends where
///     that member's text ends, so that the model goes on with it,
///   - `chat_template`: the name of the template to use.
/// `tokens_json` (may be NULL) is an object of variables that hold unless the conversation says otherwise: the special tokens.
/// The last two members are no variables. Output as cairn_template_render.
/// Errors: as cairn_template_set_pick and cairn_template_render; INVALID_ARGUMENT for a conversation that is none, and where
/// the last message cannot be continued.
CAIRN_API cairn_status cairn_template_set_render(const cairn_template_set *set, const char *conversation_json, size_t conversation_bytes,
                                                 const char *tokens_json, const cairn_template_limits *limits, char *out_text,
                                                 size_t capacity, size_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
