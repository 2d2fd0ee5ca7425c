"""Guided text on the command line: --json-schema, --grammar, --regex and --any-json of cairn generate, chat and llm-runner."""

import json
import os
import pty
import re
import unittest

import cli

MODEL = os.path.join(os.environ.get("CAIRN_SHARED_DATA", ""), "models", "tiny-qwen3-macos")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
}


@unittest.skipUnless(os.path.isdir(MODEL), "the public model is not there (CAIRN_SHARED_DATA)")
class GuidedTest(cli.CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cli.subprocess.run([cli.PROGRAM, "generate", MODEL, "--prompt", "hi", "--regex", "a", "-n", "3"], capture_output=True)
        if b"this build has none" in done.stderr:
            raise unittest.SkipTest("this build has no guided generation")

    def test_schema(self):
        path = self.write("schema.json", json.dumps(SCHEMA))
        for schema in (path, json.dumps(SCHEMA)):
            for more in ((), ("--temperature", "1", "--seed", "3"), ("--engine", "pipelined"), ("--compact-json",)):
                out = self.json("generate", MODEL, "--prompt", "hi", "--json-schema", schema, "--json", *more)
                document = json.loads(out["text"])
                self.assertEqual(list(document), ["a", "b"])
                self.assertIn(document["a"], range(10))
                self.assertIn(document["b"], ("x", "y"))
                self.assertTrue(out["guide"]["complete"])
                if more == ("--compact-json",):
                    self.assertNotIn(" ", out["text"])

    def test_grammar_and_regex(self):
        path = self.write("rules.gbnf", 'root ::= word (" " word){2}\nword ::= "a" | "bc"\n')
        text, _ = self.cairn("generate", MODEL, "--prompt", "hi", "--grammar", path, "-q")
        self.assertRegex(text, r"^(a|bc) (a|bc) (a|bc)\n$")
        text, _ = self.cairn("generate", MODEL, "--prompt", "hi", "--regex", "[0-9]{3}-[A-F]", "-q")
        self.assertRegex(text, r"^[0-9]{3}-[A-F]\n$")

    def test_tool_choice(self):
        tools = self.write("tools.json", json.dumps([{"type": "function", "function": {"name": "get_it", "parameters": SCHEMA}}, {"name": "other"}]))
        start = ("generate", MODEL, "--prompt", "hi", "--tools", tools)
        for form in ("hermes", "qwen-coder", "llama3", "mistral", "gemma", "functiongemma", "deepseek", "harmony", "agentic"):
            for more in (("--engine", "pipelined"), ("--temperature", "1", "--seed", "3")):
                out = self.json(*start, "--tool-choice", "get_it", "--tool-format", form, "--json", "-q", *more)
                (call,) = (c["function"] for c in out["tool_calls"])
                self.assertEqual(call["name"], "get_it", form)
                arguments = json.loads(call["arguments"])
                self.assertEqual(sorted(arguments), ["a", "b"], form)
                self.assertIn(arguments["a"], range(10))
                self.assertIn(arguments["b"], ("x", "y"))
                self.assertTrue(out["guide"]["complete"])
        self.assertIn("no tool has that name", self.fails(*start, "--tool-choice", "nobody", code=1))
        self.assertIn("--tools", self.fails("generate", MODEL, "--prompt", "hi", "--tool-choice", "auto", code=64))
        rules = self.write("tool.gbnf", 'root ::= "a"')
        for flag in (("--regex", "a"), ("--json-schema", "{}"), ("--grammar", rules), ("--any-json",)):
            for command in (start, ("chat", MODEL, "--tools", tools)):
                self.assertIn(f"--tool-choice and {flag[0]} cannot be given together", self.fails(*command, "--tool-choice", "auto", *flag, code=64))
        tokens = self.write("tool-tokens.json", '{"tokens":[1]}')
        self.assertIn("--force gives the tokens that --tool-choice", self.fails(*start, "--tool-choice", "auto", "--force", tokens, code=64))

    def on_terminal(self, *arguments):
        """What is seen on a terminal, where text and messages meet."""
        try:
            here, there = pty.openpty()
        except OSError as e:
            self.skipTest(f"no terminal can be made here: {e}")
        done = cli.subprocess.Popen(
            [cli.PROGRAM, *arguments],
            stdout=there,
            stderr=there,
            stdin=cli.subprocess.DEVNULL,
        )
        os.close(there)
        seen = b""
        try:
            while part := os.read(here, 4096):
                seen += part
        except OSError:
            pass  # the other end is closed
        os.close(here)
        self.assertEqual(done.wait(), 0)
        return re.sub(rb"\x1b\[K", b"", seen).replace(b"\r\n", b"\n").decode()

    def test_warnings_have_lines_of_their_own(self):
        tools = self.write("cut.json", json.dumps([{"name": "get_it", "parameters": {"properties": {"place": {"type": "string"}}, "required": ["place"]}}]))
        start = ("generate", MODEL, "--prompt", "hi", "-q")
        text = self.on_terminal(*start, "--tools", tools, "--tool-choice", "required", "-n", "30")
        warnings = [line for line in re.split("[\n\r]", text) if "no readable tool call" in line]
        self.assertEqual(len(warnings), 1, text)
        self.assertTrue(warnings[0].startswith("cairn generate: warning: no readable tool call: <tool_call>\\n{"), text)
        self.assertIn("\ncairn generate: the guided text is not complete", text)

    def test_slow_masks_are_told(self):
        """A text that can be read in ever more ways: there is a warning, on a line of its own, while the text is written."""
        rules = 'root ::= x{1,3000} "END"\nx ::= y{1,120} [ -~]?\ny ::= z{1,100} | "(" root ")"\nz ::= [ -~]{1,50}'
        rules = self.write("ambiguous.gbnf", rules)
        text = self.on_terminal("generate", MODEL, "--prompt", "Hello", "--no-template", "-q", "--grammar", rules, "-n", "42")
        self.assertEqual(text.count("the grammar makes masks slow"), 1, text)
        self.assertIn("\ncairn generate: warning: the grammar makes masks slow", text)

    def test_incomplete_is_told(self):
        _, err = self.cairn("generate", MODEL, "--prompt", "hi", "--json-schema", json.dumps(SCHEMA), "-n", "2", "-q")
        self.assertIn("the guided text is not complete (max_tokens)", err)
        out = self.json("generate", MODEL, "--prompt", "hi", "--json-schema", json.dumps(SCHEMA), "-n", "2", "--json", "-q")
        self.assertFalse(out["guide"]["complete"])

    def test_refusals(self):
        start = ("generate", MODEL, "--prompt", "hi")
        self.assertIn("'[' without ']' at byte 1", self.fails(*start, "--regex", "[", code=1))
        self.assertIn("#/uniqueItems", self.fails(*start, "--json-schema", '{"type":"array","uniqueItems":true}', code=1))
        self.assertIn("line 1", self.fails(*start, "--json-schema", "{", code=1))
        self.assertIn("line 1, column 10", self.fails(*start, "--grammar", self.write("bad.gbnf", 'root ::= "a'), code=1))
        self.assertIn("no-such-file", self.fails(*start, "--json-schema", "no-such-file", code=1))
        self.assertIn("only one of", self.fails(*start, "--regex", "a", "--any-json", code=64))
        self.assertIn("--compact-json belongs to", self.fails(*start, "--regex", "a", "--compact-json", code=64))
        tokens = self.write("tokens.json", '{"tokens":[1]}')
        self.assertIn("--force gives the tokens that --regex chooses", self.fails(*start, "--regex", "a", "--force", tokens, code=64))

    def test_chat(self):
        out, _ = self.cairn("chat", MODEL, "--regex", "(yes|no)", "--reasoning", "show", stdin="one\ntwo\n")
        self.assertRegex(out, r"^(yes|no)\n(yes|no)\n$")

    def test_llm_runner(self):
        runner = os.path.join(os.path.dirname(cli.PROGRAM), "llm-runner")
        if not os.path.exists(runner):
            self.skipTest("llm-runner is not beside the program")
        out, _ = self.cairn("--model", MODEL, "--prompt", "hi", "--json-schema", json.dumps(SCHEMA), "--max-tokens", "60", program=runner)
        found = re.search(r"\{\s*\"a\".*?\}", out, re.S)
        self.assertIsNotNone(found, out)
        self.assertEqual(list(json.loads(found.group())), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
