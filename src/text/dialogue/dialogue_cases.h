/// Texts of models and what they are made of, for the tests. Calls are written "name(id)arguments;".
#ifndef CRN_TEXT_DIALOGUE_DIALOGUE_CASES_H
#define CRN_TEXT_DIALOGUE_DIALOGUE_CASES_H

#include "cairn/dialogue.h"

typedef struct dialogue_case {
  cairn_dialogue_format format;
  const char *text, *content, *reasoning, *calls;
  int n_malformed;
  bool trim;
  const char *prompt, *tools;
} dialogue_case;

#define TOOLS                                                                                                         \
  "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"}," \
  "\"n\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"}}}}},{\"name\":\"g\"}]"

// Further members may follow the calls.
#define CASE(form, said, wanted_content, wanted_reasoning, ...) \
  { .format = CAIRN_DIALOGUE_##form, .text = said, .content = wanted_content, .reasoning = wanted_reasoning, .calls = __VA_ARGS__ }

static const dialogue_case g_cases[] = {
    // Reasoning.
    CASE(NONE, "plain <b>text</b> & more", "plain <b>text</b> & more", "", ""),
    CASE(NONE, "a<think>b</think>c", "ac", "b", ""),
    CASE(NONE, "a<think>b", "a", "b", ""),
    CASE(NONE, "b</think>c", "c", "b", "", .prompt = "<|im_start|>assistant\n<think>\n"),
    CASE(NONE, "only an end</think>", "only an end</think>", "", ""),
    CASE(NONE, "<think>\n hm \n</think>\n\nHi \n", "Hi \n", "hm", "", .trim = true),
    CASE(NONE, "<think>\n hm \n</think>\n\nHi", "\n\nHi", "\n hm \n", ""),
    CASE(NONE, "<think>a<think>b</think>c</think>d<think>e</think>", "c</think>d", "a<think>be", ""),
    CASE(NONE, "<think>one</think>x <think>two</think> y", "x\ny", "one\ntwo", "", .trim = true),
    CASE(NONE, "<tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>{\"name\":\"f\"}</tool_call>", "", ""),
    CASE(NONE, "<<think>x<</think>>", "<>", "x<", ""),
    // Hermes and Qwen.
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>", "", "", "f(){\"a\":1};"),
    CASE(HERMES,
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5e-3, true, null, \"x\\u00e9\\ud83d\\ude00\\n\"]}}\n</tool_call>", "",
         "", "f(){\"a\":[1,2.5e-3,true,null,\"xé😀\\n\"]};"),
    CASE(HERMES, "a <tool_call>{\"name\":\"f\"}</tool_call> b", "a  b", "", "f(){};"),
    CASE(HERMES, "a <tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"arguments\":{\"k\":\"v\"},\"name\":\"g\"}</tool_call>\n", "a",
         "", "f(){};g(){\"k\":\"v\"};", .trim = true),
    CASE(HERMES,
         "<tool_call>[{\"name\":\"f\",\"arguments\":{}},{\"id\":\"c1\",\"name\":\"g\",\"arguments\":\"{\\\"a\\\": 1}\"}]</tool_call>", "",
         "", "f(){};g(c1){\"a\":1};"),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"not json\"}</tool_call>", "", "", "f()\"not json\";"),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>", "", "", "f(){};"),
    CASE(HERMES, "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"a\":1}},\"id\":7}</tool_call>", "", "",
         "f(7){\"a\":1};"),
    CASE(HERMES, "<think>x <tool_call></think><tool_call>{\"name\":\"f\"}</tool_call>", "", "x <tool_call>", "f(){};"),
    CASE(HERMES, "x<tool_call>{bad}</tool_call>y", "x<tool_call>{bad}</tool_call>y", "", "", .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"arguments\":{}}</tool_call>", "<tool_call>{\"arguments\":{}}</tool_call>", "", "", .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":tru}}</tool_call>",
         "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":tru}}</tool_call>", "", "", .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"argu", "<tool_call>{\"name\":\"f\",\"argu", "", "", .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}}\n</tool", "", "", "f(){};"),
    CASE(HERMES, "<tool_call>{\"name\":\"f\"} junk</tool_call>", " junk</tool_call>", "", "f(){};", .n_malformed = 1),
    CASE(HERMES, "<tool_call>\n<tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>\n<tool_call>{\"name\":\"f\"}</tool_call>", "", "",
         .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":01}}</tool_call>",
         "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":01}}</tool_call>", "", "", .n_malformed = 1),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"line\nbreak\ttab\"}}</tool_call>", "", "",
         "f(){\"a\":\"line\\nbreak\\ttab\"};"),
    CASE(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\ud800x\\udc00\xff\"}}</tool_call>", "", "",
         "f(){\"a\":\"\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\"};"),
    CASE(GENERIC, "<function_calls>[{\"name\":\"f\",\"arguments\":{\"a\":1}}]</function_calls>", "", "", "f(){\"a\":1};"),
    CASE(GENERIC, "<function_calls>\n<invoke name=\"f\">\n<parameter name=\"a\">1</parameter>\n</invoke>\n</function_calls>", "", "",
         "f(){\"a\":1};"),
    CASE(GENERIC, "[TOOL_CALLS][{\"name\":\"f\"}]", "", "", "f(){};"),
    // Qwen3-Coder.
    CASE(
        QWEN_CODER,
        "Ok\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=b>True</parameter>\n</"
        "function>\n</tool_call>",
        "Ok\n", "", "f(){\"s\":\"12\",\"n\":12,\"b\":true};", .tools = TOOLS),
    CASE(QWEN_CODER,
         "<function=f>\n<parameter=s>\n a <b> \"q\"\n\n</parameter>\n<parameter=x>[1, {\"k\": 2}]</parameter>\n</function>\n</tool_call>",
         "", "", "f(){\"s\":\" a <b> \\\"q\\\"\\n\",\"x\":[1,{\"k\":2}]};"),
    CASE(QWEN_CODER, "<function=f></function> done", " done", "", "f(){};"),
    CASE(QWEN_CODER, "<function=f>{\"a\": 1}</function>", "", "", "f(){\"a\":1};"),
    CASE(QWEN_CODER, "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>", "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>",
         "", "", .n_malformed = 1),
    CASE(QWEN_CODER, "<tool_call><b>bold</b>", "<tool_call><b>bold</b>", "", "", .n_malformed = 1),
    CASE(QWEN_CODER, "<tool_call>{\"name\":\"f\"}</tool_call>", "", "", "f(){};"),
    CASE(QWEN_CODER, "<tool_call><function=f></function><function=g></function></tool_call>x", "x", "", "f(){};g(){};"),
    // Llama 3.
    CASE(LLAMA3, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "", "", "f(){\"a\":\"b\"};"),
    CASE(LLAMA3, "\n {\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\":\"g\",\"parameters\":{}}", "\n ", "",
         "f(){};g(){};"),
    CASE(LLAMA3, "{\"title\": \"f\", \"name\": 1}", "{\"title\": \"f\", \"name\": 1}", "", ""),
    CASE(LLAMA3, "{\"name\": \"nobody\", \"parameters\": {}}", "{\"name\": \"nobody\", \"parameters\": {}}", "", "", .tools = TOOLS),
    CASE(LLAMA3, "See {\"name\": \"f\", \"parameters\": {}}", "See {\"name\": \"f\", \"parameters\": {}}", "", ""),
    CASE(LLAMA3, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "", "f(){\"a\":1};"),
    CASE(LLAMA3, "<|python_tag|>brave_search.call(query=\"x 'y'\", n=3)", "", "", "brave_search(){\"query\":\"x 'y'\",\"n\":3};"),
    CASE(LLAMA3, "<|python_tag|>print(1 + 2)", "<|python_tag|>print(1 + 2)", "", "", .n_malformed = 1),
    CASE(LLAMA3, "[f(a=1, b='x'), g()]", "", "", "f(){\"a\":1,\"b\":\"x\"};g(){};"),
    CASE(LLAMA3, "[1] see [f](x)", "[1] see [f](x)", "", ""),
    CASE(LLAMA3, "[link](http://x)", "[link](http://x)", "", ""),
    // Mistral.
    CASE(MISTRAL,
         "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}, \"id\": \"abc123def\"}, {\"name\": \"g\", \"arguments\": {}}]", "",
         "", "f(abc123def){\"a\":\"b\"};g(){};"),
    CASE(MISTRAL, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}", "", "", "f(){\"a\":1};g(123456789){};"),
    CASE(MISTRAL, "Hi[TOOL_CALLS]f{\"a\": 1} ok", "Hi ok", "", "f(){\"a\":1};"),
    CASE(MISTRAL, "[TOOL_CALLS][{\"name\":\"f\"},{\"nam", ",{\"nam", "", "f(){};", .n_malformed = 1),
    CASE(MISTRAL, "[TOOL_CALLS]two words{\"a\":1}", "[TOOL_CALLS]two words{\"a\":1}", "", "", .n_malformed = 1),
    CASE(MISTRAL, "[TOOL_CALLS][]", "[TOOL_CALLS][]", "", "", .n_malformed = 1),
    CASE(MISTRAL, "[TOOL_CALL]", "[TOOL_CALL]", "", ""),
    // Gemma.
    CASE(GEMMA, "Sure:\n```tool_code\nf(a=1.5, b=\"EUR\", c=[1, 'x', None, True], d={'k': -2})\n```", "Sure:\n", "",
         "f(){\"a\":1.5,\"b\":\"EUR\",\"c\":[1,\"x\",null,true],\"d\":{\"k\":-2}};"),
    CASE(GEMMA, "```tool_code\nprint(default_api.f(a='''x\n'y' ''', b='', c=\"\"\"\"\"\"))\n```\nnext", "\nnext", "",
         "f(){\"a\":\"x\\n'y' \",\"b\":\"\",\"c\":\"\"};"),
    CASE(GEMMA, "```tool_code\n[f(a=.5,), g(b=(1, 2), c=1_000, d=5.)]\n```", "", "",
         "f(){\"a\":0.5};g(){\"b\":[1,2],\"c\":1000,\"d\":5.0};"),
    CASE(GEMMA, "```tool_code\nf()\ng(x='\\x41\\u00e9\\q')\n```", "", "", "f(){};g(){\"x\":\"Aé\\\\q\"};"),
    CASE(GEMMA, "```tool_code\nx = f(1)\n```", "```tool_code\nx = f(1)\n```", "", "", .n_malformed = 1),
    CASE(GEMMA, "```tool_code\nf(1)\n```", "```tool_code\nf(1)\n```", "", "", .n_malformed = 1),
    CASE(GEMMA, "```python\nf(a=1)\n```", "```python\nf(a=1)\n```", "", ""),
    CASE(FUNCTIONGEMMA,
         "<start_function_call>call:f{a:<escape>To {x}, <y><escape>,n:5,l:[1,<escape>z<escape>],o:{k:true}}<end_function_call>", "", "",
         "f(){\"a\":\"To {x}, <y>\",\"n\":5,\"l\":[1,\"z\"],\"o\":{\"k\":true}};"),
    CASE(FUNCTIONGEMMA, "<start_function_call>call:f{}<end_function_call><start_function_call>call:g{a:Tokyo, b:\"q\"}<end_function_call>",
         "", "", "f(){};g(){\"a\":\"Tokyo\",\"b\":\"q\"};"),
    CASE(FUNCTIONGEMMA, "<start_function_call>f{}<end_function_call>", "<start_function_call>f{}<end_function_call>", "", "",
         .n_malformed = 1),
    CASE(GEMMA4, "<|tool_call>call:f{a:<|\"|>x\"y<|\"|>,b:1}<tool_call|>", "", "", "f(){\"a\":\"x\\\"y\",\"b\":1};"),
    // DeepSeek.
    CASE(
        DEEPSEEK,
        "<think>t</think>a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n"
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "a", "t", "f(){\"a\":1};g(){};"),
    CASE(DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>x", "x", "",
         "f(){\"a\":1};"),
    CASE(DEEPSEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "", "", "f(){};"),
    CASE(DEEPSEEK, "<｜tool▁calls▁begin｜>oh<｜tool▁calls▁end｜>", "<｜tool▁calls▁begin｜>oh<｜tool▁calls▁end｜>", "", "",
         .n_malformed = 1),
    CASE(DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1", "", "", .n_malformed = 1),
    // Harmony.
    CASE(HARMONY, "<|channel|>analysis<|message|>We think.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>", "Hi.",
         "We think.", "", .prompt = "<|start|>user<|message|>x<|end|><|start|>assistant"),
    CASE(HARMONY, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>", "", "", "f(){\"a\":1};"),
    CASE(HARMONY, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "", "", "f(){};"),
    CASE(HARMONY,
         "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|><|call|>",
         "", "a", "f(){};"),
    CASE(HARMONY, "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>final<|message|>Yes", "Let me see.\nYes",
         "", "", .trim = true),
    CASE(HARMONY, "still thinking<|end|><|start|>assistant<|channel|>final<|message|>x", "x", "still thinking", "",
         .prompt = "<|start|>assistant<|channel|>analysis<|message|>I am "),
    CASE(HARMONY, "plain text", "plain text", "", ""),
    CASE(HARMONY, "<|channel|>commentary to=functions.f<|message|>{\"a\":oops}<|call|>",
         "<|channel|>commentary to=functions.f<|message|>{\"a\":oops}", "", "", .n_malformed = 1),
    CASE(HARMONY, "<|channel|>final", "<|channel|>final", "", "", .n_malformed = 1),
    // Agentic.
    CASE(AGENTIC, "plan<|eom|>to=user<|message|>hi<|eot|>", "hi", "plan", ""),
    CASE(AGENTIC, "plan to=user<|message|>hi", "hi", "plan ", ""),
    CASE(AGENTIC, "a<|eom|><|eom|>to=self<|message|>b<|eom|>to=user<|message|>c<|eot|>", "c", "ab", ""),
    CASE(AGENTIC, " to=self<|message|>plan<|eom|><|start|>assistant to=user<|message|>hi<|eot|>", "hi", "plan", "",
         .prompt = "<|start|>assistant"),
    CASE(AGENTIC,
         " to=ns.f<|message|><atem:function_calls>\n<atem:invoke name=\"ns.f\">\n<atem:parameter name=\"a\">two words</atem:parameter>\n"
         "<atem:parameter name=\"n\">3</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>",
         "", "", "ns.f(){\"a\":\"two words\",\"n\":3};"),
    CASE(AGENTIC, " to=user<|message|>Like <atem:function_calls>\n<atem:invoke name=\"f\">\n</atem:invoke>\n</atem:function_calls><|eot|>",
         "Like <atem:function_calls>\n<atem:invoke name=\"f\">\n</atem:invoke>\n</atem:function_calls>", "", ""),
    CASE(AGENTIC,
         " to=user<|message|>One moment.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n<atem:invoke "
         "name=\"f\">\n</atem:invoke>\n"
         "</atem:function_calls>",
         "One moment.", "", "f(){};"),
    CASE(HARMONY,
         "<|channel|>commentary to=assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final "
         "<|constrain|>json<|message|>{\"x\":1}",
         "{\"x\":1}", "a", ""),
    CASE(HARMONY, "<|start|>assistant<|channel|>commentary to=python <|constrain|>code<|message|>print(1)<|call|>",
         "<|start|>assistant<|channel|>commentary to=python <|constrain|>code<|message|>print(1)", "", "", .n_malformed = 1),
    CASE(
        DEEPSEEK,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "", "", "f(){\"a\":1};"),
    CASE(GEMMA4,
         "<|channel>thought\nI am\nthinking<channel|>Hello<|tool_call>call:f{t:[<|\"|>buy "
         "milk<|\"|>],c:{},n:1.5e10,z:null,m:-7}<tool_call|>",
         "Hello", "\nI am\nthinking", "f(){\"t\":[\"buy milk\"],\"c\":{},\"n\":1.5e10,\"z\":null,\"m\":-7};"),
    CASE(LLAMA3, "<function=f>{\"a\": 1}</function>", "", "", "f(){\"a\":1};"),
    CASE(QWEN_CODER, "<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>", "", "", "f(){\"a\":1};"),
    CASE(GENERIC, "<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>", "", "", "f(){};"),
};

#endif
