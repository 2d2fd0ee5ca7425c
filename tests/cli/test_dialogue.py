"""Reasoning and tool calls of cairn generate and cairn chat, with models that say what a script tells them."""

import json
import os
import unittest

import cli
import scripted_model

TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]
ASK = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ tools | tojson if tools }}"
# Qwen's way. The template refuses a conversation that is not as it should be, and asks differently once there are results.
CALLS = (
    "<tool_call>{# the form #}"
    "{% set n = messages | length %}{% set last = messages[-1] %}"
    "{% if last.role == 'tool' %}"
    "{% set call = messages[-2].tool_calls[0] %}"
    "{% if call.function.arguments.a != 'x\\ny' or call.id != last.tool_call_id or last.name != 'f' %}{{ raise_exception('wrong call') }}{% endif %}"
    "{% if messages[-2].reasoning_content != 'hm' or messages[-2].content != 'Wait.' %}{{ raise_exception('wrong reply') }}{% endif %}"
    "{% endif %}"
    "{{ last.content }}{{ '<|after|>' if last.role == 'tool' else '<|ask|>' }}"
)
QWEN = {
    "<|ask|>": ["<think>", "\nh", "m\n", "</think>", "\n\nWa", "it.", "\n<tool_", "call>\n", '{"name": "f", ', '"arguments": {"a": "x', "\\n", 'y"}', "}\n</tool_call>"],
    "<|after|>": ["Do", "ne."],
}
HARMONY_TEMPLATE = "{# <|channel|> #}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant<|go|>"
HARMONY = {"<|go|>": ["<|channel|>", "analysis", "<|message|>", "We ", "think", "<|stop|>"]}


class Dialogue(cli.CliTest):
    def qwen(self):
        path = self.path("qwen.gguf")
        scripted_model.make(path, QWEN, CALLS)
        return path

    def tools(self):
        return self.write("tools.json", json.dumps({"tools": TOOLS}))

    def test_document(self):
        document = self.json("generate", self.qwen(), "--prompt", "Hi", "--tools", self.tools(), "--json")
        self.assertEqual(document["text"], "".join(QWEN["<|ask|>"]))
        self.assertEqual((document["content"], document["reasoning"], document["stop_reason"]), ("Wait.", "hm", "eos"))
        self.assertEqual(document["tool_calls"], [{"type": "function", "function": {"name": "f", "arguments": '{"a":"x\\ny"}'}}])
        self.assertIn({"what": "tool_format", "chosen": "hermes", "why": "the chat template or the vocabulary shows it"}, document["decisions"])

    def test_document_without_parts(self):
        document = self.json("generate", cli.BUNDLE, "--prompt", "Hi", "--max-tokens", "3", "--json")
        self.assertFalse({"content", "reasoning", "tool_calls"} & set(document))

    def test_text(self):
        model, raw = self.qwen(), "".join(QWEN["<|ask|>"])
        call = 'tool call: {"name":"f","arguments":{"a":"x\\ny"}}\n'
        self.assertEqual(self.cairn("generate", model, "--prompt", "Hi", "-q")[0], raw + "\n")
        for how, out, err in (
            ("show", "<think>\nhm\n</think>\n\nWait.\n" + call, ""),
            ("hide", "Wait.\n" + call, ""),
            ("separate", "Wait.\n" + call, "hm\n"),
        ):
            got = self.cairn("generate", model, "--prompt", "Hi", "--reasoning", how)
            self.assertEqual((got[0], got[1].split("[")[0]), (out, err), how)
        self.assertEqual(self.cairn("generate", model, "--prompt", "Hi", "--reasoning", "separate", "-q")[1], "")

    def test_format_by_name(self):
        document = self.json("generate", self.qwen(), "--prompt", "Hi", "--tool-format", "none", "--json")
        self.assertEqual((document["reasoning"], "tool_calls" in document), ("hm", False))
        self.assertIn("<tool_call>", document["content"])
        self.assertIn("hermes", self.fails("generate", self.qwen(), "--prompt", "Hi", "--tool-format", "json", code=64))

    def test_malformed_call_is_told(self):
        path = self.path("bad.gguf")
        scripted_model.make(path, {"<|ask|>": ["<tool_call>", "{bad}", "</tool_call>"]}, ASK + "{# <tool_call> #}<|ask|>")
        out, err = self.cairn("generate", path, "--prompt", "Hi", "--tools", self.tools(), "-q")
        self.assertEqual(out, "<tool_call>{bad}</tool_call>\n")
        self.assertIn("no readable tool call: <tool_call>{", err)
        document = self.json("generate", path, "--prompt", "Hi", "--json")
        self.assertEqual((document["malformed_tool_calls"], document["content"]), (1, "<tool_call>{bad}</tool_call>"))

    def test_special_tokens_frame_channels(self):
        path = self.path("harmony.gguf")
        scripted_model.make(path, HARMONY, HARMONY_TEMPLATE, special=("<|channel|>", "<|message|>", "<|stop|>"))
        document = self.json("generate", path, "--prompt", "Hi", "--json")
        self.assertEqual((document["text"], document["content"], document["reasoning"]), ("analysisWe think", "", "We think"))
        self.assertEqual(self.cairn("generate", path, "--prompt", "Hi", "-q")[0], "analysisWe think\n")
        self.assertEqual(self.cairn("generate", path, "--prompt", "Hi", "-q", "--reasoning", "hide")[0], "\n")

    def test_prompt_leaves_reasoning_open(self):
        path = self.path("open.gguf")
        scripted_model.make(path, {"<think>": ["ho", "w</think>", "So"]}, ASK + "<|assistant|><think>")
        document = self.json("generate", path, "--prompt", "Hi", "--json")
        self.assertEqual((document["text"], document["content"], document["reasoning"]), ("how</think>So", "So", "how"))

    def test_chat(self):
        call = 'tool call: {"name":"f","arguments":{"a":"x\\ny"}}\n'
        out, err = self.cairn("chat", self.qwen(), "--tools", self.tools(), stdin="Hi\n/tool 20 degrees\n")
        self.assertEqual(out, "Wait.\n" + call + "Done.\n")
        # The template of this model says nothing of tools; that is told once.
        self.assertEqual(err.count("does not use tools"), 1)
        self.assertTrue(err.endswith("\nhm\n"))
        out, err = self.cairn("chat", self.qwen(), "--reasoning", "hide", stdin="Hi\n/tool a\n/tool b\n", code=1)
        self.assertEqual(out, "Wait.\n" + call + "Done.\n")
        self.assertIn("no tool call waits for a result", err)

    def test_arguments_as_text(self):
        """A template that adds arguments to a text gets them as a text."""
        template = CALLS.replace("call.function.arguments.a != 'x\\ny'", "'' + call.function.arguments != '{\"a\":\"x\\\\ny\"}'")
        self.assertNotEqual(template, CALLS)
        path = self.path("text.gguf")
        scripted_model.make(path, QWEN, template)
        out, _ = self.cairn("chat", path, "--reasoning", "hide", stdin="Hi\n/tool a\n")
        self.assertTrue(out.endswith("Done.\n"), out)

    def test_refusals(self):
        model = self.qwen()
        for arguments, part, code in (
            (["--tools", self.path("nothing.json")], "nothing.json", 1),
            (["--tools", self.write("bad.json", "3")], "expected an array of tools", 1),
            (["--tools", self.write("number.json", "[5]")], "#/0 is no tool", 1),
            (["--tools", self.write("nameless.json", '[{"type": "function", "function": {}}]')], "#/0 has no name", 1),
            (["--tools", self.write("five.json", '[{"name": "f", "parameters": 5}]')], "parameters of the tool 'f'", 1),
            (["--tools", self.write("two.json", '[{"name": "f"}, {"function": {"name": "f"}}]')], "two tools have the name 'f'", 1),
            (["--tools", self.tools(), "--no-template"], "--no-template", 64),
            (["--template", "rag"], "there is no chat template called 'rag'", 1),
            (["--reasoning", "loud"], "--reasoning", 64),
        ):
            self.assertIn(part, self.fails("generate", model, "--prompt", "Hi", *arguments, code=code))


class Templates(cli.CliTest):
    CONVERSATION = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a, b "}]}

    def folder(self, **files):
        path = self.path("t" + str(len(os.listdir(self.temporary))))
        for name, content in files.items():
            target = os.path.join(path, name.replace("__", "/").replace("_jinja", ".jinja").replace("_json", ".json"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as f:
                f.write(content)
        return path

    def render(self, path, *arguments, code=0, **variables):
        return self.cairn("template", path, *arguments, stdin=json.dumps({**self.CONVERSATION, **variables}), code=code)[code != 0]

    def test_names(self):
        listed = json.dumps({"chat_template": [{"name": n, "template": n + "!"} for n in ("default", "tool_use", "rag")]})
        named = self.folder(chat_template_jinja="default!", additional_chat_templates__tool_use_jinja="tool_use!", additional_chat_templates__rag_jinja="rag!")
        for path in (self.folder(tokenizer_config_json=listed), named):
            self.assertEqual(self.render(path), "default!")
            self.assertEqual(self.render(path, tools=TOOLS), "tool_use!")
            self.assertEqual(self.render(path, "--template", "rag", tools=TOOLS), "rag!")
            self.assertIn("default, ", self.render(path, "--template", "other", code=1))

    def test_files_replace_the_configuration(self):
        config = json.dumps({"chat_template": [{"name": "default", "template": "config"}, {"name": "tool_use", "template": "config tools"}]})
        path = self.folder(tokenizer_config_json=config, chat_template_jinja="file")
        self.assertEqual(self.render(path, tools=TOOLS), "file")

    def test_no_default(self):
        path = self.folder(additional_chat_templates__rag_jinja="rag!")
        self.assertIn("name one of: rag", self.render(path, code=1))

    def test_continue(self):
        text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
        self.assertEqual(self.render(self.folder(chat_template_jinja=text), continue_final_message=True), "<user>q<end><assistant>a, b ")
        trimmed = text.replace("m.content", "m.content | trim")
        self.assertEqual(self.render(self.folder(chat_template_jinja=trimmed), continue_final_message=True), "<user>q<end><assistant>a, b")
        without = "{{ messages[0].content }}"
        self.assertIn("does not appear", self.render(self.folder(chat_template_jinja=without), continue_final_message=True, code=1))
        self.assertIn(
            "only one of the two", self.render(self.folder(chat_template_jinja=text), continue_final_message=True, add_generation_prompt=True, code=1)
        )


if __name__ == "__main__":
    unittest.main()
