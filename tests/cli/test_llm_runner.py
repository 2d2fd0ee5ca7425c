"""llm-runner: the alias with the flags of Apple's program of that name."""

import base64
import json
import math
import os
import struct
import subprocess

import cli

PROMPT = [119, 362, 267, 138, 52, 301, 153, 227, 238]


class Runner(cli.CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alias = os.path.join(cls.temporary, "llm-runner")
        os.symlink(cli.PROGRAM, cls.alias)

    def runner(self, *arguments, code=0, model=cli.BUNDLE, environment=None):
        return self.cairn(
            *(["--model", model] if model else []), *arguments, code=code, program=self.alias, environment=environment
        )

    def message(self, *arguments, code, **options):
        return self.runner(*arguments, code=code, **options)[1].splitlines()

    def tokens(self, ids):
        return self.write("tokens.json", json.dumps({"tokens": ids}))

    def saved(self, *arguments):
        path = self.path("logits.json")
        self.runner("--save-logits", path, *arguments)
        with open(path, encoding="utf-8") as f:
            return json.load(f)


class Usage(Runner):
    def test_bad_usage(self):
        for arguments, text in (
            (["--warmup", "exact"], "--warmup exact requires --warmup-length N"),
            (["--warmup-length", "3"], "--warmup-length can only be used with --warmup exact"),
            (["--bucket-size", "-1"], "--bucket-size must be >= 0"),
            (["--chunk-size", "0"], "--chunk-size must be > 0"),
            (["--image", "a", "--video", "b"], "--image and --video cannot be used together"),
            (["--video-frames", "0"], "--video-frames must be >= 1"),
            (["--repetition-penalty", "0.5"], "--repetition-penalty must be >= 1.0"),
            (["--repetition-penalty-window", "5"], "--repetition-penalty-window requires --repetition-penalty"),
            (
                ["--repetition-penalty", "2", "--json-schema", "{}"],
                "--repetition-penalty cannot be used with --json-schema",
            ),
            (["--save-logits-length", "21"], "--save-logits-length must be 1 to 20, or full"),
            (["--save-logits-length", "some"], "--save-logits-length must be 1 to 20, or full"),
            (["--max-tokens", "many"], "--max-tokens must be a whole number"),
            (["--apply-chat-template", "maybe"], "--apply-chat-template must be true or false"),
            (["--nonsense"], "unknown option --nonsense"),
        ):
            lines = self.message(*arguments, code=64)
            self.assertTrue(lines[0].startswith("Error: " + text), lines)
            self.assertIn("usage: llm-runner", lines[1])

    def test_failures(self):
        self.assertEqual(self.message("--prompt", "x", code=1, model=None), ["Error: --model is required"])
        tokens = self.tokens(PROMPT)
        self.assertEqual(
            self.message("--prompt", "a", "--raw-tokens", tokens, code=1),
            ["Error: Only one of --prompt, --prompt-file, or --raw-tokens may be specified"],
        )
        lines = self.message("--raw-tokens", self.write("bad.json", '{"x":1}'), code=1)
        self.assertTrue(lines[0].startswith("Error: "))
        self.assertEqual(lines[1], 'Expected format: {"tokens": [1, 2, 3, ...]}')
        lines = self.message("--sampling-strategy", "greedy", "--top-k", "5", code=1)
        self.assertEqual(
            lines[0], "Error: --top-k, --top-p, and --min-p cannot be used with --sampling-strategy greedy"
        )
        self.assertEqual(len(lines), 2)
        self.assertEqual(
            self.message("--sampling-strategy", "foo", code=1),
            ["Error: Unknown sampling strategy 'foo'", "Valid options: 'temperature', 'greedy'"],
        )
        self.assertEqual(self.message("--prompt-file", "missing.txt", code=1), ["Error: File not found: missing.txt"])
        self.assertIn("no-such-model", self.message(code=1, model="no-such-model")[0])
        self.assertIn("encodes to 0 tokens", self.message("--stop-tokens", "", code=1)[0])
        self.assertIn("--image requires a vision-language model", self.message("--image", "a.png", code=1)[0])
        self.assertIn("line 1", self.message("--json-schema", "{", code=1)[0])

    def test_continuation_rules_in_order(self):
        c = ["--continuation", ""]
        self.assertEqual(self.message(*c, code=1), ["Error: --continuation requires --apply-chat-template=false"])
        c.append("--apply-chat-template=false")
        self.assertEqual(self.message(*c, code=1), ["Error: --continuation requires --print-logits or --save-logits"])
        c.append("--print-logits")
        self.assertEqual(self.message(*c, code=1), ["Error: Continuation string cannot be empty"])
        self.assertIn(
            "not --raw-tokens", self.message("--continuation", "x", "--raw-tokens", self.tokens(PROMPT), code=1)[0]
        )

    def test_help(self):
        out, _ = self.runner("--help", model=None)
        self.assertTrue(out.startswith("usage: llm-runner --model PATH"))
        self.assertNotIn("--bucket-size", out)


class Generation(Runner):
    def test_plain(self):
        out, err = self.runner("--prompt", "Hi", "--max-tokens", "5", "--temperature", "0")
        self.assertEqual(err, "")
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^⏳ Preparing AI asset from source\.\.\. done in \d+\.\d{3}s$")
        self.assertIn("Generating...", lines)
        self.assertIn("⏱️  Performance Summary:", lines)
        self.assertIn("=" * 50, lines)
        for start in ("Model Load: ", "Prompt:     ", "Generation: ", "Total:      "):
            self.assertTrue(any(line.startswith(start) for line in lines), start)
        text = self.json("generate", cli.BUNDLE, "--prompt", "Hi", "--max-tokens", "5", "--json")["text"]
        self.assertIn("Generating...\n" + text + "\n", out)

    def test_quiet_prints_the_text_only(self):
        text = self.json("generate", cli.BUNDLE, "--prompt", "Hi", "--max-tokens", "5", "--json", "--no-template")[
            "text"
        ]
        out, _ = self.runner(
            "--prompt",
            "Hi",
            "--max-tokens",
            "5",
            "--sampling-strategy",
            "greedy",
            "--apply-chat-template",
            "false",
            "-q",
        )
        self.assertEqual(out, text + "\n")

    def test_no_tokens(self):
        out, _ = self.runner("--max-tokens", "0", "-q")
        self.assertEqual(out, "\n")

    def test_warm_up(self):
        for how in (["default"], ["off"], ["none"], ["exact", "--warmup-length", "64"]):
            self.runner("--prompt", "Hi", "--max-tokens", "1", "--warmup", *how)

    def test_accepted_flags(self):
        out, _ = self.runner(
            "--prompt",
            "Hi",
            "--max-tokens",
            "2",
            "--synchronous-sampling",
            "--clear-coreai-cache",
            "--bucket-size",
            "0",
            "--chunk-size",
            "4",
            "--kv-cache-strategy",
            "growing",
            "--kv-cache-initial-capacity",
            "8",
            "--inference-engine-variant",
            "coreai-sequential",
            "--stop-tokens",
            "<|im_end|>",
            "--stop-tokens",
            "xyz",
            "--top-k",
            "3",
            "--top-p",
            "0.9",
            "--min-p",
            "0.1",
            "--repetition-penalty",
            "1.2",
            "--repetition-penalty-window",
            "8",
            "--verbose",
        )
        self.assertIn("Cleared specialization cache for cli/data/bundle (0 component(s))", out)
        self.assertIn("Detailed statistics:", out)
        self.assertIn("ModelLoad", out)
        self.assertIn("Added stop token '<|im_end|>'", out)
        self.assertIn("Added stop sequence 'xyz'", out)

    def test_raw_tokens_preview(self):
        out, _ = self.runner("--raw-tokens", self.tokens(PROMPT * 20), "--max-tokens", "1")
        preview = next(line for line in out.split("\n") if line.startswith("Prompt: ("))
        self.assertTrue(preview.startswith("Prompt: (180 tokens) "))

    def test_found_by_name(self):
        done = subprocess.run(
            [self.alias, "--model", "bundle", "--prompt", "Hi", "--max-tokens", "1", "-q"],
            capture_output=True,
            cwd=self.temporary,
            env={"COREAI_MODEL_PATH": "/nowhere:" + os.path.join(cli.TESTS, "cli/data")},
        )
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(
            "/nowhere", self.message(code=1, model="no-such-model", environment={"COREAI_MODEL_PATH": "/nowhere"})[0]
        )


class LogitsFiles(Runner):
    def test_generation(self):
        document = self.saved("--prompt", "Hi", "--max-tokens", "4", "--temperature", "0")
        self.assertEqual(len(document["tokens"]), 4)
        for token in document["tokens"]:
            self.assertEqual(set(token), {"token_id", "incremental_text", "top_logits"})
            self.assertEqual(len(token["top_logits"]), 5)
            self.assertEqual(set(token["top_logits"][0]), {"token_id", "incremental_text", "logit"})
            self.assertEqual(token["top_logits"][0]["token_id"], token["token_id"])  # greedy
            logits = [c["logit"] for c in token["top_logits"]]
            self.assertEqual(logits, sorted(logits, reverse=True))

    def test_whole_rows_are_half_floats(self):
        document = self.saved(
            "--prompt", "Hi", "--max-tokens", "2", "--temperature", "0", "--save-logits-length", "full"
        )
        for token in document["tokens"]:
            self.assertEqual(set(token), {"token_id", "incremental_text", "logits_base64"})
            self.assertEqual(len(token["logits_base64"]), -(-2 * 384 // 3) * 4)
            row = struct.unpack("<384e", base64.b64decode(token["logits_base64"]))
            self.assertEqual(max(range(384), key=row.__getitem__), token["token_id"])

    def test_print(self):
        out, _ = self.runner("--prompt", "Hi", "--max-tokens", "2", "--temperature", "0", "--print-logits")
        self.assertRegex(out, r'Token 1: ".*" \(id: \d+\)\n  Top candidates:\n +1\. ".*" \(\d+\): -?\d+\.\d\d\n')
        self.assertEqual(out.count("Top candidates:"), 2)

    def check_evaluation(self, document, n):
        self.assertEqual(len(document["positions"]), n)
        self.assertEqual(len(document["continuation_tokens"]), n)
        total = sum(p["log_probability"] for p in document["positions"])
        self.assertAlmostEqual(document["total_log_probability"], total, places=4)
        self.assertAlmostEqual(document["average_log_probability"], total / n, places=4)
        self.assertAlmostEqual(document["perplexity"] / math.exp(-total / n), 1, places=4)
        for i, position in enumerate(document["positions"]):
            self.assertEqual(position["index"], i)
            self.assertEqual(position["target_token"], document["continuation_tokens"][i])
            self.assertGreater(position["target_probability"], 0)
            self.assertEqual(len(position["top_k"]), 5)
            self.assertEqual(set(position["top_k"][0]), {"token", "text", "probability", "log_prob"})

    def test_place_of_the_logits(self):
        for place, why in (
            (self.path("missing/l.json"), "does not exist"),
            (cli.BUNDLE + "/l.json", "inside of"),
            (self.tokens(PROMPT), "that is read"),
        ):
            arguments = ["--raw-tokens", self.tokens(PROMPT), "--save-logits", place]
            out, err = self.runner(*arguments, code=1)
            self.assertNotIn("Preparing", out)
            self.assertIn("--save-logits " + place, err)
            self.assertIn(why, err)

    def test_a_missing_tokenizer_is_told_once(self):
        asset = cli.BUNDLE + "/tiny-qwen3-macos-4bit.aimodel"
        _, err = self.runner("--prompt", "Hi", model=asset, code=1)
        self.assertEqual(err.count("a bare asset carries none"), 1, err)

    def test_huge_numbers(self):
        huge = "99999999999999999999"
        lines = self.message("--max-tokens", huge, code=64)
        self.assertIn(
            "--max-tokens %s is too large: it must be from -9223372036854775808 to 9223372036854775807" % huge, lines[0]
        )
        # More candidates than tokens are as good as all: nothing wraps around to a small number.
        self.runner("--raw-tokens", self.tokens(PROMPT), "--max-tokens", "1", "--top-k", str(2**32 + 1))

    def test_continuation(self):
        document = self.saved("--prompt", "Hello", "--continuation", " there", "--apply-chat-template=false")
        whole = self.json("tokenize", cli.BUNDLE, "Hello there", "--json")["ids"]
        self.assertEqual(document["context_tokens"] + document["continuation_tokens"], whole)
        self.assertEqual((document["context"], document["continuation"]), ("Hello", " there"))
        self.check_evaluation(document, len(whole) - len(document["context_tokens"]))

    def test_raw_tokens(self):
        document = self.saved("--raw-tokens", self.tokens(PROMPT))
        self.assertEqual(document["context_tokens"], PROMPT[:1])
        self.check_evaluation(document, 8)
        self.assertIn("at least 2 tokens", self.message("--raw-tokens", self.tokens([1]), "--print-logits", code=1)[0])
        full = self.saved("--raw-tokens", self.tokens(PROMPT), "--save-logits-length", "full")
        self.assertIn("logits_base64", full["positions"][0])


if __name__ == "__main__":
    cli.main()
