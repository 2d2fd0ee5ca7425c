/// Dialogues: generated text taken apart into what is said, what is thought and which tools are called.
///
/// A parser takes the text of one reply as it comes, with the special tokens that frame it (see cairn_dialogue_markers)
/// visible, and tells what it is made of. Text is held back only while it can still become a marker. How the text is cut
/// into pieces changes nothing but the lengths of the deltas.
#ifndef CAIRN_DIALOGUE_H
#define CAIRN_DIALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How a model writes tool calls and reasoning. X(NAME, value, "text"). Values are ABI.
///
/// HERMES         `<tool_call>{"name":…,"arguments":…}</tool_call>` (Qwen, Hermes); inside also the tags of QWEN_CODER
/// QWEN_CODER     `<tool_call><function=f><parameter=k>v</parameter></function></tool_call>`, the outer pair may be missing
///                (Qwen3-Coder, Seed-OSS)
/// LLAMA3         `{"name":…,"parameters":…}` as the whole message or behind `<|python_tag|>`, `name.call(k=v)`, `[f(k=v)]`,
///                `<function=f>{…}</function>`
/// MISTRAL        `[TOOL_CALLS][{…}]`, `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`
/// GEMMA          a block of ```tool_code with Python calls
/// FUNCTIONGEMMA  `<start_function_call>call:name{k:<escape>v<escape>}<end_function_call>`
/// GEMMA4         `<|tool_call>call:name{k:<|"|>v<|"|>}<tool_call|>`
/// DEEPSEEK       `<｜tool▁calls▁begin｜>…`, of V3 and R1 as well as of V3.1
/// HARMONY        channels of gpt-oss: analysis, commentary to=functions.name, final
/// AGENTIC        segments `to=self`, `to=user`, `to=tool` ended by `<|eom|>`, calls in `<atem:function_calls>`
/// GENERIC        `<tool_call>`, `<function_calls>` and `[TOOL_CALLS]` with JSON, `<invoke name="f">` in the second
/// NONE           no tool calls, only reasoning
#define CAIRN_DIALOGUE_FORMAT_LIST(X)  \
  X(AUTO, 0, "auto")                   \
  X(NONE, 1, "none")                   \
  X(GENERIC, 2, "generic")             \
  X(HERMES, 3, "hermes")               \
  X(QWEN_CODER, 4, "qwen-coder")       \
  X(LLAMA3, 5, "llama3")               \
  X(MISTRAL, 6, "mistral")             \
  X(GEMMA, 7, "gemma")                 \
  X(FUNCTIONGEMMA, 8, "functiongemma") \
  X(GEMMA4, 9, "gemma4")               \
  X(DEEPSEEK, 10, "deepseek")          \
  X(HARMONY, 11, "harmony")            \
  X(AGENTIC, 12, "agentic")

typedef enum cairn_dialogue_format {
#define CAIRN_DIALOGUE_FORMAT_ENUM(name, value, text) CAIRN_DIALOGUE_##name = value,
  CAIRN_DIALOGUE_FORMAT_LIST(CAIRN_DIALOGUE_FORMAT_ENUM)
#undef CAIRN_DIALOGUE_FORMAT_ENUM
} cairn_dialogue_format;

/// "auto", "hermes", …; "unknown" for a value that is none.
CAIRN_API const char *cairn_dialogue_format_text(cairn_dialogue_format format);
/// The format with that text. Errors: INVALID_ARGUMENT listing the formats there are.
CAIRN_API cairn_status cairn_dialogue_format_parse(const char *text, cairn_dialogue_format *out_format);

/// The format AUTO stands for: what the source of the chat template shows, else what the vocabulary has, else GENERIC.
/// Both may be NULL. Thread: safe.
CAIRN_API cairn_dialogue_format cairn_dialogue_detect(const char *chat_template, size_t chat_template_bytes,
                                                      const cairn_tokenizer *tokenizer);

typedef enum cairn_dialogue_event_kind {
  CAIRN_DIALOGUE_CONTENT = 0,         ///< `text` goes to the user
  CAIRN_DIALOGUE_REASONING = 1,       ///< `text` is thought
  CAIRN_DIALOGUE_TOOL_BEGIN = 2,      ///< call `index` of `name` starts
  CAIRN_DIALOGUE_TOOL_ARGUMENTS = 3,  ///< `text` follows in the arguments of call `index`: JSON without spaces
  CAIRN_DIALOGUE_TOOL_END = 4,        ///< call `index` is complete
  CAIRN_DIALOGUE_TOOL_CANCEL = 5      ///< call `index` turned out malformed: forget it. Its text comes as content, its index is given again
} cairn_dialogue_event_kind;

/// Everything is valid during the call only. Texts are whole characters when the text that was pushed is valid UTF-8.
typedef struct cairn_dialogue_event {
  cairn_dialogue_event_kind kind;
  int index;         ///< of the tool call, from 0
  const char *id;    ///< of the tool call, NULL when the model gave none (yet)
  const char *name;  ///< of the tool; NULL for content and reasoning
  const char *text;
  size_t text_bytes;
} cairn_dialogue_event;

typedef void (*cairn_dialogue_fn)(void *user, const cairn_dialogue_event *event);

/// Zero-initialise for the defaults. Only read during the call, except `on_event` and `user`.
typedef struct cairn_dialogue_options {
  cairn_dialogue_format format;
  const char *chat_template;  ///< source, for AUTO and the reasoning tags; may be NULL
  size_t chat_template_bytes;
  const cairn_tokenizer *tokenizer;  ///< for the same; may be NULL
  /// The prompt, or its end: a reasoning tag or a channel that is open there is open at the start of the reply. May be NULL.
  const char *prompt;
  size_t prompt_bytes;
  const char *reasoning_open, *reasoning_close;  ///< tags of reasoning; NULL = found, `<think>` when nothing else is
  bool starts_in_reasoning;                      ///< whatever the prompt says
  bool trim;  ///< white space next to reasoning tags and tool calls is left out, as templates do when they show a reply again
  /// The tools as templates get them: an array of {"type":"function","function":{"name","parameters"}} or of the inner
  /// objects. Types of parameters tell texts from numbers where the format does not. With AUTO, messages that only look like a
  /// call (LLAMA3) are taken as one when there are tools. May be NULL.
  const char *tools;
  size_t tools_bytes;
  size_t max_call_bytes;       ///< of the text of one tool call; 0 = 1 MiB
  int max_depth;               ///< of nested arguments, at most 250; 0 = 100
  int max_calls;               ///< in one reply; 0 = 128
  cairn_dialogue_fn on_event;  ///< may be NULL
  void *user;
} cairn_dialogue_options;

/// Owner: unique. Thread: one user at a time.
typedef struct cairn_dialogue cairn_dialogue;

/// `options` NULL = defaults. Errors: INVALID_ARGUMENT (format, tags, limits, tools that are no array), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_dialogue_create(cairn_context *context, const cairn_dialogue_options *options, cairn_dialogue **out_dialogue);
CAIRN_API void cairn_dialogue_destroy(cairn_dialogue *dialogue);

/// Takes the next piece of text. Errors: OUT_OF_RANGE naming the limit that was exceeded, OUT_OF_MEMORY;
/// FAILED_PRECONDITION after a failure and after cairn_dialogue_finish.
CAIRN_API cairn_status cairn_dialogue_push(cairn_dialogue *dialogue, const char *text, size_t bytes);
/// Gives out what was held back. Errors: as cairn_dialogue_push.
CAIRN_API cairn_status cairn_dialogue_finish(cairn_dialogue *dialogue);

/// A tool call. Texts are NUL-terminated.
typedef struct cairn_dialogue_call {
  const char *id;  ///< NULL when the model gave none
  const char *name;
  const char *arguments;  ///< JSON without spaces, members in the order of the model
  size_t arguments_bytes;
} cairn_dialogue_call;

/// Borrowed until the next call on the dialogue.
typedef struct cairn_dialogue_result {
  cairn_dialogue_format format;  ///< AUTO resolved
  const char *content, *reasoning;
  size_t content_bytes, reasoning_bytes;
  int n_calls;
  const cairn_dialogue_call *calls;
  int n_malformed;  ///< tool calls that could not be read: their text is part of the content
  int n_warnings;
  const char *const *warnings;  ///< what was wrong with them, and calls that lack their end
} cairn_dialogue_result;

/// What there is so far. Complete after cairn_dialogue_finish.
CAIRN_API void cairn_dialogue_get(const cairn_dialogue *dialogue, cairn_dialogue_result *out_result);

/// The markers the parser looks for. Those which are special tokens must be visible in the text that is pushed.
/// Owner: borrowed.
CAIRN_API const char *const *cairn_dialogue_markers(const cairn_dialogue *dialogue, int *out_n);

#ifdef __cplusplus
}
#endif
#endif
