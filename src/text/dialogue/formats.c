#include "text/dialogue/formats.h"

#include <string.h>

#include "base/status.h"

const crn_xml_dialect crn_xml_functions = {.call = "<function=",
                                           .call_rest = ">",
                                           .parameter = "<parameter=",
                                           .parameter_rest = ">",
                                           .parameter_end = "</parameter>",
                                           .call_end = "</function>",
                                           .strip_newlines = true};
const crn_xml_dialect crn_xml_atem = {.call = "<atem:invoke name=\"",
                                      .call_rest = "\">",
                                      .parameter = "<atem:parameter name=\"",
                                      .parameter_rest = "\">",
                                      .parameter_end = "</atem:parameter>",
                                      .call_end = "</atem:invoke>"};
const crn_xml_dialect crn_xml_invoke = {.call = "<invoke name=\"",
                                        .call_rest = "\">",
                                        .parameter = "<parameter name=\"",
                                        .parameter_rest = "\">",
                                        .parameter_end = "</parameter>",
                                        .call_end = "</invoke>"};

// --- markers --------------------------------------------------------------------------------------------------------

#define CALL(marker, form, end_marker, tags, quote)                                                                         \
  {                                                                                                                         \
    .text = marker, .action = CRN_MARKER_CALL, .kind = CRN_CALL_##form, .end = end_marker, .xml = tags, .delimiter = quote, \
    .in_content = true                                                                                                      \
  }
#define BARE(marker, form) \
  { .text = marker, .action = CRN_MARKER_CALL, .kind = CRN_CALL_##form, .only_at_start = true, .in_content = true }
#define FRAME(marker, what) \
  { .text = marker, .action = CRN_MARKER_##what, .in_content = true, .in_reasoning = true }
#define RECIPIENT(marker) \
  { .text = marker, .action = CRN_MARKER_RECIPIENT, .only_at_start = true, .in_content = true, .in_reasoning = true }

static const crn_marker g_hermes[] = {CALL("<tool_call>", TAGGED, "</tool_call>", &crn_xml_functions, NULL)};
static const crn_marker g_generic[] = {CALL("<tool_call>", TAGGED, "</tool_call>", &crn_xml_functions, NULL),
                                       CALL("<function_calls>", TAGGED, "</function_calls>", &crn_xml_invoke, NULL),
                                       CALL("<minimax:tool_call>", TAGGED, "</minimax:tool_call>", &crn_xml_invoke, NULL),
                                       CALL("[TOOL_CALLS]", MISTRAL, NULL, NULL, NULL)};
static const crn_marker g_qwen_coder[] = {CALL("<tool_call>", TAGGED, "</tool_call>", &crn_xml_functions, NULL),
                                          CALL("<seed:tool_call>", TAGGED, "</seed:tool_call>", &crn_xml_functions, NULL),
                                          CALL("<function=", XML, "</tool_call>", &crn_xml_functions, NULL)};
static const crn_marker g_llama3[] = {CALL("<|python_tag|>", PYTHON_TAG, NULL, NULL, NULL),
                                      CALL("<function=", XML, NULL, &crn_xml_functions, NULL)};
static const crn_marker g_llama3_bare[] = {BARE("{", BARE), BARE("[", BARE_LIST)};
static const crn_marker g_mistral[] = {CALL("[TOOL_CALLS]", MISTRAL, NULL, NULL, NULL)};
static const crn_marker g_gemma[] = {CALL("```tool_code", PYTHON_BLOCK, "```", NULL, NULL)};
static const crn_marker g_functiongemma[] = {CALL("<start_function_call>", GEMMA, "<end_function_call>", NULL, "<escape>")};
static const crn_marker g_gemma4[] = {CALL("<|tool_call>", GEMMA, "<tool_call|>", NULL, "<|\"|>")};
static const crn_marker g_deepseek[] = {CALL("<｜tool▁calls▁begin｜>", DEEPSEEK, NULL, NULL, NULL),
                                        CALL("<｜tool▁call▁begin｜>", DEEPSEEK_ITEM, NULL, NULL, NULL)};
static const crn_marker g_harmony[] = {FRAME("<|start|>", HEADER), FRAME("<|channel|>", HEADER),  RECIPIENT(" to="),
                                       RECIPIENT("to="),           FRAME("<|message|>", CONTENT), FRAME("<|constrain|>", CONTENT),
                                       FRAME("<|end|>", END),      FRAME("<|return|>", END),      FRAME("<|call|>", END)};
static const crn_marker g_agentic[] = {FRAME("<|start|>", HEADER),
                                       FRAME("<|eom|>", HEADER),
                                       FRAME("<|eot|>", END),
                                       FRAME("to=self<|message|>", REASONING),
                                       FRAME("to=user<|message|>", CONTENT),
                                       FRAME("<|message|>", CONTENT),
                                       RECIPIENT(" to="),
                                       RECIPIENT("to="),
                                       // An answer may quote a call; a message to a tool starts with it.
                                       {.text = "<atem:function_calls>",
                                        .action = CRN_MARKER_CALL,
                                        .kind = CRN_CALL_TAGGED,
                                        .end = "</atem:function_calls>",
                                        .xml = &crn_xml_atem,
                                        .only_at_start = true,
                                        .in_content = true}};

static const struct {
  cairn_dialogue_format format;
  bool is_bare;
  const crn_marker *markers;
  size_t n;
} g_formats[] = {
#define ROW(format, bare, list) \
  { CAIRN_DIALOGUE_##format, bare, list, sizeof(list) / sizeof *(list) }
    ROW(GENERIC, false, g_generic),       ROW(HERMES, false, g_hermes),
    ROW(QWEN_CODER, false, g_qwen_coder), ROW(LLAMA3, false, g_llama3),
    ROW(LLAMA3, true, g_llama3_bare),     ROW(MISTRAL, false, g_mistral),
    ROW(GEMMA, false, g_gemma),           ROW(FUNCTIONGEMMA, false, g_functiongemma),
    ROW(GEMMA4, false, g_gemma4),         ROW(DEEPSEEK, false, g_deepseek),
    ROW(HARMONY, false, g_harmony),       ROW(AGENTIC, false, g_agentic),
#undef ROW
};

cairn_status crn_format_markers(const cairn_allocator *a, cairn_dialogue_format format, bool bare, crn_marker_vec *markers) {
  for (size_t i = 0; i < sizeof g_formats / sizeof *g_formats; i++) {
    if (g_formats[i].format != format || (g_formats[i].is_bare && !bare)) continue;
    for (size_t k = 0; k < g_formats[i].n; k++) CRN_TRY(crn_vec_push(a, markers, g_formats[i].markers[k]));
  }
  return CAIRN_OK;
}

// --- names ----------------------------------------------------------------------------------------------------------

static const char *const g_names[] = {
#define NAME(name, value, text) [value] = text,
    CAIRN_DIALOGUE_FORMAT_LIST(NAME)
#undef NAME
};
enum { N_NAMES = sizeof g_names / sizeof *g_names };

const char *cairn_dialogue_format_text(cairn_dialogue_format format) { return (unsigned)format < N_NAMES ? g_names[format] : "unknown"; }

cairn_status cairn_dialogue_format_parse(const char *text, cairn_dialogue_format *out_format) {
  CRN_REQUIRE(text);
  CRN_REQUIRE(out_format);
  for (int i = 0; i < N_NAMES; i++) {
    *out_format = (cairn_dialogue_format)i;
    if (strcmp(text, g_names[i]) == 0) return CAIRN_OK;
  }
  *out_format = CAIRN_DIALOGUE_AUTO;
  return CRN_FAIL(INVALID_ARGUMENT,
                  "'%s' is no dialogue format; there are auto, none, generic, hermes, qwen-coder, llama3, mistral, gemma, functiongemma, "
                  "gemma4, deepseek, harmony and agentic",
                  text);
}

// --- recognition ----------------------------------------------------------------------------------------------------

// A format is that of the first row whose texts are all there.
typedef struct evidence {
  cairn_dialogue_format format;
  const char *texts[3];
} evidence;

static const evidence g_in_template[] = {
    {CAIRN_DIALOGUE_AGENTIC, {"<atem:function_calls>"}},
    {CAIRN_DIALOGUE_AGENTIC, {"<|eom|>", "<|eot|>", "<|message|>"}},
    {CAIRN_DIALOGUE_HARMONY, {"<|channel|>", "<|message|>"}},
    {CAIRN_DIALOGUE_DEEPSEEK, {"<｜tool▁call▁begin｜>"}},
    {CAIRN_DIALOGUE_DEEPSEEK, {"<｜tool▁calls▁begin｜>"}},
    {CAIRN_DIALOGUE_MISTRAL, {"[TOOL_CALLS]"}},
    {CAIRN_DIALOGUE_GEMMA4, {"<|tool_call>call:"}},
    {CAIRN_DIALOGUE_FUNCTIONGEMMA, {"<start_function_call>"}},
    {CAIRN_DIALOGUE_QWEN_CODER, {"<function=", "<parameter="}},
    {CAIRN_DIALOGUE_HERMES, {"<tool_call>"}},
    {CAIRN_DIALOGUE_LLAMA3, {"<|python_tag|>"}},
    {CAIRN_DIALOGUE_LLAMA3, {"Environment: ipython"}},
    {CAIRN_DIALOGUE_LLAMA3, {"<|start_header_id|>ipython"}},
    {CAIRN_DIALOGUE_GEMMA, {"<start_of_turn>"}},
};

static const evidence g_in_vocabulary[] = {
    {CAIRN_DIALOGUE_AGENTIC, {"<|eom|>", "<|eot|>", "<|message|>"}},
    {CAIRN_DIALOGUE_HARMONY, {"<|channel|>", "<|message|>", "<|call|>"}},
    {CAIRN_DIALOGUE_DEEPSEEK, {"<｜tool▁calls▁begin｜>"}},
    {CAIRN_DIALOGUE_HERMES, {"<tool_call>", "</tool_call>"}},
    {CAIRN_DIALOGUE_MISTRAL, {"[TOOL_CALLS]"}},
    {CAIRN_DIALOGUE_GEMMA4, {"<|tool_call>", "<tool_call|>"}},
    {CAIRN_DIALOGUE_FUNCTIONGEMMA, {"<start_function_call>"}},
    {CAIRN_DIALOGUE_LLAMA3, {"<|python_tag|>"}},
    {CAIRN_DIALOGUE_GEMMA, {"<start_of_turn>"}},
};

static bool template_has(const char *source, size_t n, const char *text) { return n && memmem(source, n, text, strlen(text)) != NULL; }

static bool vocabulary_has(const cairn_tokenizer *t, const char *text) { return t && cairn_tokenizer_id(t, text) >= 0; }

cairn_dialogue_format cairn_dialogue_detect(const char *chat_template, size_t chat_template_bytes, const cairn_tokenizer *tokenizer) {
  for (size_t i = 0; i < sizeof g_in_template / sizeof *g_in_template; i++) {
    bool all = true;
    for (int k = 0; k < 3 && g_in_template[i].texts[k]; k++) {
      all = all && template_has(chat_template, chat_template ? chat_template_bytes : 0, g_in_template[i].texts[k]);
    }
    if (all) return g_in_template[i].format;
  }
  for (size_t i = 0; i < sizeof g_in_vocabulary / sizeof *g_in_vocabulary; i++) {
    bool all = true;
    for (int k = 0; k < 3 && g_in_vocabulary[i].texts[k]; k++) all = all && vocabulary_has(tokenizer, g_in_vocabulary[i].texts[k]);
    if (all) return g_in_vocabulary[i].format;
  }
  return CAIRN_DIALOGUE_GENERIC;
}

void crn_format_reasoning(cairn_dialogue_format format, const char *chat_template, size_t n, const cairn_tokenizer *tokenizer,
                          const char **out_open, const char **out_close) {
  static const char *const kPairs[][2] = {
      {"<think>", "</think>"},           {"<|reasoning_start|>", "<|reasoning_end|>"}, {"[THINK]", "[/THINK]"},
      {"<seed:think>", "</seed:think>"}, {"<|START_THINKING|>", "<|END_THINKING|>"},   {"<|channel>thought", "<channel|>"}};
  enum { N = sizeof kPairs / sizeof *kPairs };
  bool found = format == CAIRN_DIALOGUE_GEMMA4;  // has one way only
  int chosen = found ? N - 1 : 0;
  for (int i = 0; i < N && !found; i++) {
    found = vocabulary_has(tokenizer, kPairs[i][0]) && vocabulary_has(tokenizer, kPairs[i][1]);
    found = found || template_has(chat_template, chat_template ? n : 0, kPairs[i][0]);
    if (found) chosen = i;
  }
  *out_open = kPairs[chosen][0];
  *out_close = kPairs[chosen][1];
}
