"""cairn tokenize and cairn template."""

import json
import os

import cli

TOKENIZER = cli.BUNDLE + "/tokenizer"


class Tokenize(cli.CliTest):
    def test_ids(self):
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "Hello there"), ("45 74 270 84 329\n", ""))
        # Folder, file and bundle are the same tokenizer; stdin and --file the same text.
        self.assertEqual(self.cairn("tokenize", TOKENIZER, stdin="Hello there")[0], "45 74 270 84 329\n")
        text = self.write("text.txt", "Hello there")
        self.assertEqual(self.cairn("tokenize", TOKENIZER + "/tokenizer.json", "--file", text)[0], "45 74 270 84 329\n")
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "Hello", "there")[0], "45 74 270 84 329\n")
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, stdin="")[0], "\n")

    def test_show(self):
        self.expect("tokenize-show.txt", self.cairn("tokenize", cli.BUNDLE, "Hello <|im_end|>", "--show")[0])

    def test_offsets(self):
        out = self.cairn("tokenize", cli.BUNDLE, "Hell\u00f6 <|im_end|>", "--offsets")[0]
        rows = [line.split() for line in out.split("\n")[:-1]]
        self.assertEqual([row[1] for row in rows], ["0-1", "1-2", "2-4", "4-6", "4-6", "6-7", "7-17"])
        out = self.json("tokenize", cli.BUNDLE, "Hello", "--json", "--offsets")
        self.assertEqual(out["offsets"], [[0, 1], [1, 2], [2, 4], [4, 5]])
        out, _ = self.lines([{"text": "Hello"}, {"text": ""}], "--offsets")
        self.assertEqual([line["offsets"] for line in out], [[[0, 1], [1, 2], [2, 4], [4, 5]], []])
        self.fails("tokenize", cli.BUNDLE, "-d", "--offsets", code=64, stdin="1")

    def test_sentencepiece(self):
        model = "data/tokenizer/sentencepiece/bpe_bytes.model"
        ids = self.cairn("tokenize", model, "Hello \u65e5 <s>")[0]
        self.assertEqual(self.cairn("tokenize", model, "--decode", ids)[0], "Hello \u65e5 <s>")
        os.mkdir(self.path("folder"))
        tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with open(os.path.join(tests, model), "rb") as source, open(self.path("folder/tokenizer.model"), "wb") as target:
            target.write(source.read())
        self.assertEqual(self.cairn("tokenize", self.path("folder"), "Hello \u65e5 <s>")[0], ids)
        self.write("folder/tokenizer_config.json", '{"tokenizer_class":"LlamaTokenizer"}')
        ids = self.cairn("tokenize", self.path("folder"), "Hello</s>")[0].split()
        self.assertEqual((ids[0], ids[-1]), ("1", "2"))

    def test_json(self):
        self.assertEqual(
            self.json("tokenize", cli.BUNDLE, "Hello", "--json"),
            {"ids": [45, 74, 270, 84], "tokens": ["H", "e", "ll", "o"], "text": "Hello"},
        )

    def test_decode(self):
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "--decode", "45", "74", "270", "84")[0], "Hello")
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "-d", stdin="[45, 74,\n270,84 2]")[0], "Hello<|im_end|>")
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "-d", "--skip-special-tokens", stdin="84 2")[0], "o")

    def test_what_is_no_id(self):
        for arguments in (["1", "x"], ["abc"], ["-1"], ["1", "-12"], ["--", "-1"], ["1 -1"], ["99999999999"]):
            err = self.fails("tokenize", cli.BUNDLE, "--decode", *arguments, code=64)
            bad = arguments[-1].split()[-1]
            self.assertIn("cairn tokenize: '%s' is no token id; ids are 0 or more\n" % bad, err)
        # In a text that is data, not usage.
        self.assertIn("'-1' is no token id", self.fails("tokenize", cli.BUNDLE, "-d", code=1, stdin="45 -1"))
        self.assertIn("unknown option -x", self.fails("tokenize", cli.BUNDLE, "-d", "-x", code=64))

    def test_ids_outside_of_the_vocabulary(self):
        out, err = self.cairn("tokenize", cli.BUNDLE, "--decode", "45", "99999", "84")
        self.assertEqual((out, err), ("Ho", "note: id 99999 is not in the vocabulary and gives no text\n"))
        out, err = self.cairn("tokenize", cli.BUNDLE, "--decode", "70000", "45", "99999")
        self.assertEqual(
            (out, err), ("H", "note: 2 ids are not in the vocabulary and give no text, the first is 70000\n")
        )
        self.assertEqual(self.cairn("tokenize", cli.BUNDLE, "--decode", "-q", "99999", "45"), ("H", ""))

    def test_gguf(self):
        for file in ("data/gguf/f16.gguf", "data/gguf/f32.gguf"):
            document = self.json("tokenize", file, "Hello there", "--json")
            bare = self.json("tokenize", file, "Hello there", "--json", "--no-special-tokens")["ids"]
            self.assertEqual(document["ids"][1:], bare)
            self.assertEqual(
                self.cairn("tokenize", file, "-d", "--skip-special-tokens", *map(str, document["ids"]))[0],
                "Hello there",
            )

    def lines(self, objects, *arguments, code=0):
        out, err = self.cairn(
            "tokenize",
            cli.BUNDLE,
            "--json-lines",
            *arguments,
            stdin="".join(json.dumps(o) + "\n" for o in objects),
            code=code
        )
        return [json.loads(line) for line in out.split("\n")[:-1]], err

    def test_json_lines(self):
        out, _ = self.lines(
            [
                {"text": "Hello"},
                {"text": "", "add_special_tokens": False},
                {"text": "a\0\nb\u2028", "add_special_tokens": True},
            ]
        )
        self.assertEqual(out[:2], [{"ids": [45, 74, 270, 84]}, {"ids": []}])
        back, _ = self.lines([{"ids": out[2]["ids"]}], "--decode")
        self.assertEqual(back, [{"text": "a\0\nb\u2028"}])

    def test_json_lines_stay_on_their_lines(self):
        ids = self.lines([{"text": "a\u0085b\u2029c"}])[0][0]["ids"]
        out, _ = self.cairn("tokenize", cli.BUNDLE, "--json-lines", "-d", stdin=json.dumps({"ids": ids}))
        self.assertEqual(len(out.splitlines()), 1)

    def test_decode_json_lines(self):
        out, _ = self.lines(
            [{"ids": [45, 2]}, {"ids": [45, 2], "skip_special_tokens": True}, {"ids": [133]}], "--decode"
        )
        self.assertEqual(out, [{"text": "H<|im_end|>"}, {"text": "H"}, {"text": "\ufffd"}])

    def test_json_lines_mistakes(self):
        out, err = self.lines([{"text": "Hello"}, {"txt": "x"}], code=1)
        self.assertEqual(len(out), 1)
        self.assertIn("line 2", err)
        self.assertIn("line 1", self.lines([{"ids": ["x"]}], "--decode", code=1)[1])
        self.assertIn("line 1", self.lines([{"ids": [2**40]}], "--decode", code=1)[1])
        self.assertIn("add_special_tokens", self.lines([{"text": "x", "add_special_tokens": 1}], code=1)[1])

    def test_usage(self):
        self.fails("tokenize", cli.BUNDLE, "--json", "--json-lines", code=64)
        self.fails("tokenize", cli.BUNDLE, "--skip-special-tokens", code=64)
        self.fails("tokenize", cli.BUNDLE, "x", "--json-lines", code=64)

    def test_without_a_tokenizer(self):
        self.assertIn("has no tokenizer", self.fails("tokenize", "data/gguf/q4_0.gguf", "x", code=1))
        self.assertIn("has no chat template", self.fails("template", "data/gguf/q4_0.gguf", code=1, stdin="{}"))
        self.fails("tokenize", "cli/expected", "x", code=1)


class Template(cli.CliTest):
    def render(self, path, input, code=0):
        return self.cairn("template", path, "--input", self.write("input.json", json.dumps(input)), code=code)

    def test_bundle(self):
        conversation = {"messages": [{"role": "user", "content": "Hi\n"}], "add_generation_prompt": True}
        expected = "<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual(self.render(cli.BUNDLE, conversation), (expected, ""))
        self.assertEqual(self.render(TOKENIZER, conversation)[0], expected)
        self.assertEqual(self.render(TOKENIZER + "/chat_template.jinja", conversation)[0], expected)
        self.assertEqual(self.cairn("template", cli.BUNDLE, stdin=json.dumps(conversation))[0], expected)
        conversation["add_generation_prompt"] = False
        self.assertNotIn("assistant", self.render(cli.BUNDLE, conversation)[0])

    def test_gguf(self):
        out, _ = self.render(
            "data/gguf/f32.gguf", {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
        )
        self.assertIn("Hi", out)

    def template(self, source):
        return self.write("template.jinja", source)

    def test_variables(self):
        source = self.template(
            "{{ a }}{{ tools is none }}{{ messages | length }}{{ add_generation_prompt }}{{ bos_token is defined }}"
        )
        out, _ = self.render(source, {"messages": [], "variables": {"a": "x", "bos_token": "<s>"}})
        self.assertEqual(out, "xTrue0FalseTrue")

    def test_special_tokens_come_from_the_tokenizer(self):
        os.mkdir(self.path("folder"))
        self.write(
            "folder/tokenizer_config.json",
            json.dumps(
                {
                    "bos_token": {"content": "<s>"},
                    "eos_token": "</s>",
                    "chat_template": [
                        {"name": "default", "template": "{{ bos_token }}plain{{ eos_token }}"},
                        {"name": "tool_use", "template": "{{ bos_token }}tools{{ eos_token }}"},
                    ],
                }
            ),
        )
        self.assertEqual(self.render(self.path("folder"), {"messages": []})[0], "<s>plain</s>")
        self.assertEqual(
            self.render(self.path("folder"), {"messages": [], "tools": [{"name": "f"}]})[0], "<s>tools</s>"
        )
        self.assertEqual(
            self.render(self.path("folder"), {"messages": [], "variables": {"bos_token": "B"}})[0], "Bplain</s>"
        )

    def test_nothing_is_added(self):
        self.assertEqual(self.render(self.template("a\n\n"), {"messages": []})[0], "a\n")
        self.assertEqual(self.render(self.template(""), {"messages": []})[0], "")

    def test_long_output(self):
        out, _ = self.render(self.template("{% for i in range(20000) %}0123456789{% endfor %}"), {"messages": []})
        self.assertEqual(len(out), 200000)

    def test_failures(self):
        self.assertIn(
            "no system role",
            self.fails(
                "template", self.template("{{ raise_exception('no system role') }}"), code=1, stdin='{"messages":[]}'
            ),
        )
        self.assertIn(
            "template.jinja", self.fails("template", self.template("{% if %}"), code=1, stdin='{"messages":[]}')
        )
        for text in ("{}", '{"tools":[]}', '{"messages":null}', '{"messages":{}}', '{"message":[]}'):
            err = self.fails("template", self.template("plain"), code=1, stdin=text)
            self.assertIn("'messages' must be an array", err)
        self.assertIn("line 1", self.fails("template", cli.BUNDLE, code=1, stdin="{"))
        self.assertIn("JSON object", self.fails("template", cli.BUNDLE, code=1, stdin="[]"))
        self.assertIn(
            "'variables' must be an object", self.fails("template", cli.BUNDLE, code=1, stdin='{"variables":[]}')
        )
        self.assertIn("no chat template", self.fails("template", "cli/expected", code=1, stdin="{}"))


if __name__ == "__main__":
    cli.main()
