"""cairn generate and cairn chat on a tiny bundle with random weights."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import time

import cli
import safetensors_io as st

PROMPT = [119, 362, 267, 138, 52, 301, 153, 227, 238]
GREEDY = [238] * 12  # what the converter's own torch module gives for this prompt
VOCABULARY = 384


class GenerateTest(cli.CliTest):
    def tokens(self, ids, name="tokens.json"):
        return self.write(name, json.dumps({"tokens": ids}))

    def generate(self, *arguments, **options):
        return self.json("generate", cli.BUNDLE, "--json", *arguments, **options)


class Generate(GenerateTest):
    def test_document(self):
        document = self.generate("--raw-tokens", self.tokens(PROMPT), "--max-tokens", "12")
        self.assertEqual(document["prompt_tokens"], PROMPT)
        self.assertEqual(document["tokens"], GREEDY)
        self.assertEqual(document["stop_reason"], "max_tokens")
        self.assertEqual(document["prefix_hit"], 0)
        self.assertEqual(
            (document["engine"], document["precision"], document["prompt_form"]), ("sequential", "exact", "tokens")
        )
        timing = document["timing"]
        self.assertEqual(set(timing), {"load_s", "prefill_s", "prefill_tokens", "decode_s", "decode_tokens"})
        self.assertEqual((timing["prefill_tokens"], timing["decode_tokens"]), (9, 11))
        self.assertIn("engine", [d["what"] for d in document["decisions"]])
        self.assertEqual(
            document["text"], self.cairn("tokenize", cli.BUNDLE, "-d", "--skip-special-tokens", *map(str, GREEDY))[0]
        )

    def test_text_is_streamed_to_stdout(self):
        tokens = self.tokens(PROMPT)
        text = self.generate("--raw-tokens", tokens, "--max-tokens", "12")["text"]
        out, err = self.cairn("generate", cli.BUNDLE, "--raw-tokens", tokens, "--max-tokens", "12", "-q")
        self.assertEqual((out, err), (text + "\n", ""))
        out, err = self.cairn("generate", cli.BUNDLE, "--raw-tokens", tokens, "--max-tokens", "12")
        self.assertEqual(out, text + "\n")
        self.assertRegex(err, r"^\[9 prompt tokens, [\d.]+ tokens/s; 12 generated, [\d.]+ tokens/s; max_tokens\]\n$")

    def test_prompts(self):
        with_template = self.generate("--prompt", "Hi", "--max-tokens", "1")
        rendered = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual(
            with_template["prompt_tokens"],
            self.json("tokenize", cli.BUNDLE, "--json", "--no-special-tokens", stdin=rendered)["ids"],
        )
        self.assertEqual(with_template["prompt_form"], "template")
        plain = self.generate("--prompt", "Hi", "--max-tokens", "1", "--no-template")
        self.assertEqual(plain["prompt_tokens"], self.json("tokenize", cli.BUNDLE, "Hi", "--json")["ids"])
        by_file = self.generate("--prompt-file", self.write("prompt.txt", "Hi"), "--max-tokens", "1", "--no-template")
        self.assertEqual(by_file["prompt_tokens"], plain["prompt_tokens"])
        by_stdin = self.generate("--prompt-file", "-", "--max-tokens", "1", "--no-template", stdin="Hi")
        self.assertEqual(by_stdin["prompt_tokens"], plain["prompt_tokens"])

    def test_asset_without_a_tokenizer(self):
        asset = cli.BUNDLE + "/tiny-qwen3-macos-4bit.aimodel"
        out, _ = self.cairn("generate", asset, "--raw-tokens", self.tokens(PROMPT), "--max-tokens", "12")
        self.assertEqual(out, " ".join(map(str, GREEDY)) + "\n")
        self.assertIn("tokenizer", self.fails("generate", asset, "--prompt", "Hi", "-q", code=1))

    def test_gguf(self):
        document = self.json(
            "generate", "data/gguf/f16.gguf", "--raw-tokens", self.tokens([1, 2, 3]), "--max-tokens", "4", "--json"
        )
        self.assertEqual(len(document["tokens"]), 4)
        again = self.json(
            "generate",
            "data/gguf/f16.gguf",
            "--raw-tokens",
            self.tokens([1, 2, 3]),
            "--max-tokens",
            "4",
            "--json",
            "--prefill-chunk",
            "2",
        )
        self.assertEqual(again["tokens"], document["tokens"])

    def test_max_tokens_zero(self):
        document = self.generate("--raw-tokens", self.tokens(PROMPT), "--max-tokens", "0")
        self.assertEqual((document["tokens"], document["stop_reason"]), ([], "max_tokens"))

    def test_sampling(self):
        tokens = self.tokens(PROMPT)
        flags = ["--raw-tokens", tokens, "--max-tokens", "12", "--temperature", "5"]
        first, again = (self.generate(*flags, "--seed", "1") for _ in range(2))
        self.assertEqual(first["tokens"], again["tokens"])
        self.assertEqual(first["seed"], 1)
        self.assertNotEqual(first["tokens"], self.generate(*flags, "--seed", "2")["tokens"])
        self.assertNotEqual(first["tokens"], GREEDY)
        for greedy in (["--greedy"], ["--temperature", "0"], ["--temperature", "3", "--top-k", "1"]):
            self.assertEqual(
                self.generate("--raw-tokens", tokens, "--max-tokens", "12", *greedy)["tokens"], GREEDY, greedy
            )
        # Filters alone ask for sampling.
        self.assertEqual(
            self.generate("--raw-tokens", tokens, "--max-tokens", "2", "--top-k", "300", "--seed", "7")["seed"], 7
        )
        self.assertEqual(self.generate("--raw-tokens", tokens, "--max-tokens", "2", "--seed", "7")["seed"], 0)
        penalised = self.generate("--raw-tokens", tokens, "--max-tokens", "12", "--repetition-penalty", "1000")[
            "tokens"
        ]
        self.assertEqual(len(set(penalised)), 12)

    def test_stop(self):
        # Sampled text that contains a stop text ends before it.
        flags = [
            "--raw-tokens",
            self.tokens(PROMPT),
            "--max-tokens",
            "30",
            "--temperature",
            "3",
            "--seed",
            "3",
            "--ignore-eos",
        ]
        whole = self.generate(*flags)["text"]
        stop = next(
            whole[i : i + 2]
            for i in range(4, len(whole) - 2)
            if whole.isprintable() or "\ufffd" not in whole[i : i + 2]
        )
        cut = self.generate(*flags, "--stop", stop)
        self.assertEqual(cut["stop_reason"], "stop_sequence")
        self.assertEqual(cut["text"], whole[: whole.index(stop)])
        self.assertEqual(cut["stop_text"], stop)

    def test_context(self):
        document = self.generate("--raw-tokens", self.tokens(PROMPT), "--max-tokens", "100", "--max-context", "16")
        self.assertEqual(document["stop_reason"], "context_full")
        self.assertLessEqual(len(document["tokens"]), 8)
        err = self.fails("generate", cli.BUNDLE, "--raw-tokens", self.tokens(PROMPT * 3), "--max-context", "16", code=1)
        self.assertIn("16", err)

    def test_kv(self):
        tokens = self.tokens(PROMPT)
        for kv in (
            ["auto"],
            ["growing", "--kv-capacity", "4"],
            ["fixed", "--kv-capacity", "64"],
            ["paged", "--kv-page", "64"],
            ["paged", "--kv-page", "256"],
            ["chunked", "--kv-window", "128", "--kv-sinks", "0"],
        ):
            self.assertEqual(
                self.generate("--raw-tokens", tokens, "--max-tokens", "12", "--kv", *kv)["tokens"], GREEDY, kv
            )
        self.assertEqual(
            self.generate("--raw-tokens", tokens, "--max-tokens", "12", "--prefill-chunk", "4")["tokens"], GREEDY
        )


class Sessions(GenerateTest):
    def test_prompt_cache(self):
        prompt, cache = [i % 300 for i in range(3, 203)], self.path("prompt-cache")
        arguments = ["--raw-tokens", self.tokens(prompt), "--max-tokens", "6", "--ignore-eos"]
        cold = self.generate(*arguments)
        first = self.generate(*arguments, "--prompt-cache", cache)
        again = self.generate(*arguments, "--prompt-cache", cache)
        self.assertEqual((first["prefix_hit"], again["prefix_hit"], again["prefix_from_disk"]), (0, 192, 192))
        self.assertEqual((first["tokens"], again["tokens"]), (cold["tokens"], cold["tokens"]))
        self.assertNotIn("prefix_from_disk", first)

    def test_overflow(self):
        arguments = ["--raw-tokens", self.tokens(PROMPT), "--max-tokens", "60", "--ignore-eos", "--max-context", "40"]
        refused, slid = self.generate(*arguments), self.generate(*arguments, "--overflow", "slide")
        self.assertEqual((refused["stop_reason"], len(refused["tokens"])), ("context_full", 31))
        self.assertNotIn("overflow", refused)
        self.assertEqual((slid["stop_reason"], len(slid["tokens"])), ("max_tokens", 60))
        self.assertEqual(slid["overflow"], {"kind": "slide", "times": 3, "dropped": 30})
        self.assertEqual(slid["tokens"][:31], refused["tokens"])


class Logits(GenerateTest):
    def rows(self, arguments):
        path = self.path("logits.safetensors")
        document = self.generate(*arguments, "--logits", path)
        arrays = st.load(path)
        self.assertEqual({k: v[0] for k, v in arrays.items()}, {"prefill": "F32", "decode": "F32"})
        rows = {}
        for name, (_, shape, values) in arrays.items():
            self.assertEqual(shape[1], VOCABULARY)
            rows[name] = [values[i * VOCABULARY : (i + 1) * VOCABULARY] for i in range(shape[0])]
        return document, rows["prefill"], rows["decode"]

    def best(self, row):
        return max(range(VOCABULARY), key=row.__getitem__)

    def test_free_generation(self):
        document, prefill, decode = self.rows(["--raw-tokens", self.tokens(PROMPT), "--max-tokens", "12"])
        self.assertEqual((len(prefill), len(decode)), (9, 11))
        self.assertEqual([self.best(prefill[-1])] + [self.best(row) for row in decode], document["tokens"])

    def test_forced_tokens(self):
        forced = [5, 17, 300]
        document, prefill, decode = self.rows(
            ["--raw-tokens", self.tokens(PROMPT), "--force", self.tokens(forced, "forced.json")]
        )
        self.assertEqual(document["tokens"], forced)
        self.assertEqual((len(prefill), len(decode)), (9, 3))
        # The same tokens as a prompt give the same rows.
        _, whole, _ = self.rows(["--raw-tokens", self.tokens(PROMPT + forced), "--max-tokens", "1"])
        for a, b in zip(whole[9:], decode):
            self.assertTrue(all(abs(x - y) < 0.02 for x, y in zip(a, b)))


class Mistakes(GenerateTest):
    def test_usage(self):
        tokens = self.tokens(PROMPT)
        for arguments in (
            [],
            ["--prompt", "a", "--raw-tokens", tokens],
            ["--prompt", "a", "--prompt-file", "b"],
            ["--raw-tokens", tokens, "--no-template"],
            ["--prompt", "a", "--greedy", "--top-k", "3"],
            ["--prompt", "a", "--greedy", "--temperature", "1"],
            ["--prompt", "a", "--repetition-penalty-window", "3"],
            ["--prompt", "a", "--repetition-penalty", "0.5"],
            ["--prompt", "a", "--engine", "warp"],
            ["--prompt", "a", "--kv", "big"],
            ["--prompt", "a", "--max-tokens", "-1"],
            ["--prompt", "a", "--temperature", "-1"],
            ["--prompt", "a", "--top-p", "0"],
            ["--prompt", "a", "--stop", ""],
            ["--raw-tokens", tokens, "--force", tokens, "--temperature", "1"],
            ["--raw-tokens", tokens, "--force", tokens, "--stop", "a"],
            ["--raw-tokens", tokens, "--force", tokens, "--seed", "1"],
            ["--prompt", "a", "--kv-page", "4"],
            ["--prompt", "a", "--kv", "fixed", "--kv-page", "4"],
            ["--prompt", "a", "--kv-window", "4"],
            ["--prompt", "a", "--kv", "paged", "--kv-sinks", "4"],
            ["--prompt", "a", "--kv-type", "int8"],
        ):
            self.fails("generate", cli.BUNDLE, *arguments, code=64)
        self.assertIn("--stop", self.fails("chat", cli.BUNDLE, "--stop", "", code=64))

    def test_raw_token_files(self):
        for text in ('{"x":1}', '{"tokens":[1,"a"]}', '{"tokens":3}', "[1]", "nonsense"):
            err = self.fails("generate", cli.BUNDLE, "--raw-tokens", self.write("bad.json", text), code=1)
            self.assertIn("bad.json", err)
        self.assertIn(
            '{"tokens": [1, 2, 3]}',
            self.fails("generate", cli.BUNDLE, "--raw-tokens", self.write("bad.json", '{"x":1}'), code=1),
        )
        self.assertIn("empty", self.fails("generate", cli.BUNDLE, "--raw-tokens", self.tokens([]), code=1))
        self.assertIn("9999", self.fails("generate", cli.BUNDLE, "--raw-tokens", self.tokens([1, 9999]), code=1))
        out, _ = self.cairn(
            "generate",
            cli.BUNDLE,
            "--raw-tokens",
            "/dev/stdin",
            "--max-tokens",
            "1",
            "-q",
            stdin=json.dumps({"tokens": PROMPT}),
        )
        self.assertNotEqual(out, "")
        self.assertIn("missing.json", self.fails("generate", cli.BUNDLE, "--raw-tokens", "missing.json", code=1))

    def test_what_is_not_there_is_refused_by_name(self):
        tokens = self.tokens(PROMPT)
        for flags in (["--engine", "static-shape"],):
            self.assertIn(flags[1], self.fails("generate", cli.BUNDLE, "--raw-tokens", tokens, *flags, code=1))
        for flags, text in (
            (["--kv", "paged", "--kv-page", "16"], "64, 128 or 256 expected"),
            (["--kv", "chunked", "--kv-window", "99999"], "1 to 4096 expected"),
            (["--kv", "chunked", "--kv-window", "8", "--kv-sinks", "8"], "8 sinks leave nothing"),
        ):
            self.assertIn(text, self.fails("generate", cli.BUNDLE, "--raw-tokens", tokens, *flags, code=1))

    def test_token_tables(self):
        form = "data/llm-forms/lm_extra_input"
        arguments = ["generate", form, "--raw-tokens", self.tokens([1, 2, 3]), "--max-tokens", "2", "--json", "--token-table"]
        table = self.path("table.safetensors")
        st.save(table, {"per_layer_inputs": ("F32", [48, 2, 4], [0.25] * 384)})
        self.assertEqual(len(self.json(*arguments, "per_layer_inputs=" + table)["tokens"]), 2)
        self.assertIn("'other'", self.fails(*arguments, "other=" + table, code=1))
        self.assertIn("INPUT=FILE", self.fails(*arguments, table, code=1))
        self.assertIn("per_layer_inputs", self.fails(*arguments[:-1], code=1))

    def test_kv_capacity_above_the_context(self):
        arguments = ["generate", cli.BUNDLE, "--raw-tokens", self.tokens(PROMPT), "--max-tokens", "2", "--kv-capacity"]
        for kv in ("auto", "fixed", "growing"):
            out, err = self.cairn(*arguments, "999999999999", "--kv", kv)
            self.assertIn("note: --kv-capacity 999999999999 is more than the 4096 tokens", err, kv)
            self.assertNotIn("note", self.cairn(*arguments, "4096", "--kv", kv)[1], kv)
        self.assertEqual(self.cairn(*arguments, "999999999999", "-q")[1], "")

    def test_folder_around_an_asset(self):
        for command in (["generate", "--raw-tokens", self.tokens(PROMPT)], ["chat"]):
            err = self.fails(command[0], "cli/data", *command[1:], code=1)
            self.assertIn("did you mean the asset in it, 'cli/data/types.aimodel'", err)

    def test_tokenizer(self):
        asset, folder = cli.BUNDLE + "/tiny-qwen3-macos-4bit.aimodel", cli.BUNDLE + "/tokenizer"
        own = self.generate("--prompt", "Hi", "--max-tokens", "2")
        for path in (folder, folder + "/tokenizer.json", cli.BUNDLE, cli.BUNDLE + "/"):
            document = self.json(
                "generate", asset, "--prompt", "Hi", "--max-tokens", "2", "--json", "--tokenizer", path
            )
            self.assertEqual((document["prompt_tokens"], document["text"]), (own["prompt_tokens"], own["text"]), path)
        for path, why in (
            ("/nope", "no such file"),
            ("cli/expected", "cannot be used"),
            ("cli/cli.py", "cannot be used"),
            (self.write("x.gguf", "GGUF"), "is a GGUF file"),
        ):
            for command in (
                ["generate", "--prompt", "Hi"],
                ["generate", "--raw-tokens", self.tokens(PROMPT)],
                ["chat"],
            ):
                err = self.fails(command[0], cli.BUNDLE, *command[1:], "--tokenizer", path, code=1)
                self.assertIn("tokenizer '%s'" % path, err)
                self.assertIn(why, err)
                self.assertEqual(len(err.splitlines()), 1, err)

    def test_a_missing_tokenizer_is_told_once(self):
        copy = self.path("mute")
        shutil.copytree(os.path.join(cli.TESTS, cli.BUNDLE), copy)
        shutil.rmtree(copy + "/tokenizer")
        for command in (["generate", "--prompt", "Hi"], ["chat"]):
            err = self.fails(command[0], copy, *command[1:], code=1)
            self.assertEqual(err.count("tokenizer/tokenizer.json is missing"), 1, err)
        # Token ids do without one, so there it is a warning.
        _, err = self.cairn("generate", copy, "--raw-tokens", self.tokens(PROMPT), "--max-tokens", "2", "-q")
        self.assertIn("warning: no tokenizer: ", err)

    def test_logits_go_to_a_good_place(self):
        tokens = self.tokens(PROMPT)
        for place, why in (
            (self.path("missing/l.safetensors"), "does not exist"),
            (tokens, "that is read"),
            (cli.BUNDLE + "/l.safetensors", "inside of"),
        ):
            # Text would have been printed if the generation had begun.
            err = self.fails("generate", cli.BUNDLE, "--raw-tokens", tokens, "--logits", place, code=1)
            self.assertIn("--logits " + place, err)
            self.assertIn(why, err)

    def test_seeds_of_64_bits(self):
        flags = ["--raw-tokens", self.tokens(PROMPT), "--max-tokens", "2", "--temperature", "1", "--seed"]
        for seed in (0, 2**63 - 1, 2**63, 2**64 - 1):
            self.assertEqual(self.generate(*flags, str(seed))["seed"], seed)

    def test_strict_hash(self):
        copy = self.path("changed")
        shutil.copytree(os.path.join(cli.TESTS, cli.BUNDLE), copy)
        with open(copy + "/tiny-qwen3-macos-4bit.aimodel/main.hash", "r+b") as f:
            first = f.read(1)
            f.seek(0)
            f.write(bytes([first[0] ^ 1]))
        arguments = ["generate", copy, "--raw-tokens", self.tokens(PROMPT), "--max-tokens", "1"]
        self.assertIn("hash", self.cairn(*arguments)[1])
        self.assertIn("hash", self.fails(*arguments, "--strict-hash", code=1))
        self.assertIn("hash", self.fails("chat", copy, "--strict-hash", code=1))

    def test_chunk_threshold_of_the_environment(self):
        arguments = ["generate", cli.BUNDLE, "--raw-tokens", self.tokens(PROMPT), "--max-tokens", "1", "-q"]
        for bad in ("abc", "0", "-5", "1x", "99999999999"):
            _, err = self.cairn(*arguments, environment={"CAIRN_CHUNK_THRESHOLD": bad})
            self.assertIn("warning: CAIRN_CHUNK_THRESHOLD is '%s'" % bad, err)
            self.assertEqual(self.cairn(*arguments, environment={"COREAI_CHUNK_THRESHOLD": bad})[1], "")
        for good in ("4", ""):
            self.assertEqual(self.cairn(*arguments, environment={"CAIRN_CHUNK_THRESHOLD": good})[1], "")

    def test_too_much_context(self):
        self.assertIn(
            "4096",
            self.fails("generate", cli.BUNDLE, "--raw-tokens", self.tokens(PROMPT), "--max-context", "100000", code=1),
        )


class Interruption(GenerateTest):
    def start(self, *arguments, first=None):
        return subprocess.Popen(
            [
                cli.PROGRAM,
                "generate",
                cli.BUNDLE,
                "--raw-tokens",
                self.tokens(PROMPT),
                "--ignore-eos",
                "--max-tokens",
                "4000",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cli.TESTS,
            preexec_fn=first,
        )

    def test_text(self):
        process = self.start()
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertTrue(first)
        self.assertTrue((first + out).endswith(b"\n"))
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"cancelled", err)

    def test_a_script_may_have_it_ignored(self):
        process = self.start("--max-tokens", "200", first=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)

    def test_json(self):
        process = self.start("--json")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        if process.returncode == -signal.SIGINT:
            self.skipTest("the signal came before the generation began")
        self.assertEqual(process.returncode, 0)
        self.assertIn(json.loads(out)["stop_reason"], ("cancelled", "max_tokens"))


class Chat(GenerateTest):
    def chat(self, text, *arguments, code=0):
        return self.cairn("chat", cli.BUNDLE, "--max-tokens", "5", *arguments, stdin=text, code=code)

    def first_reply(self, prompt):
        return self.generate("--prompt", prompt, "--max-tokens", "5")["text"]

    def test_pipe(self):
        out, err = self.chat("Hi\n")
        self.assertEqual((out, err), (self.first_reply("Hi") + "\n", ""))

    def test_history(self):
        out, _ = self.chat("Hi\nAgain\n")
        first = self.first_reply("Hi")
        self.assertTrue(out.startswith(first + "\n"))
        # The second reply answers the whole conversation.
        conversation = (
            "<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n%s<|im_end|>\n<|im_start|>user\nAgain<|im_end|>\n<|im_start|>assistant\n" % first
        )
        ids = self.json("tokenize", cli.BUNDLE, "--json", "--no-special-tokens", stdin=conversation)["ids"]
        second = self.generate("--raw-tokens", self.tokens(ids), "--max-tokens", "5")["text"]
        self.assertEqual(out, first + "\n" + second + "\n")

    def test_reset_and_quit(self):
        out, err = self.chat("Hi\n/reset\nHi\n/quit\nnever read\n")
        self.assertEqual((out, err), ((self.first_reply("Hi") + "\n") * 2, ""))

    def test_system(self):
        self.assertNotEqual(self.chat("Hi\n", "--system", "Be brief.")[0], "")
        self.assertEqual(self.chat("\n  \n"), ("", ""))

    def test_help_and_unknown_commands(self):
        out, err = self.chat("/help\n")
        self.assertEqual(out, "")
        self.assertIn("/reset", err)
        out, err = self.chat("/halp\n")
        self.assertEqual(out, "")
        self.assertIn("'/halp' is no command", err)
        self.assertEqual(self.chat("//Hi\n")[0], self.first_reply("/Hi") + "\n")

    def test_context_overflow_ends_a_pipe(self):
        out, err = self.chat("Hi " * 40 + "\nHi\n", "--max-context", "32", code=1)
        self.assertEqual(out, "")
        self.assertIn("32", err)

    def test_without_a_template(self):
        copy = self.path("bundle")
        shutil.copytree(os.path.join(cli.TESTS, cli.BUNDLE), copy)
        os.remove(copy + "/tokenizer/chat_template.jinja")
        self.assertIn("chat_template", self.fails("chat", copy, code=1, stdin="Hi\n"))

    def test_gguf(self):
        out, err = self.cairn("chat", "data/gguf/f32.gguf", "--max-tokens", "3", stdin="Hi\n")
        self.assertEqual(err, "")
        self.assertTrue(out.endswith("\n"))
        document = self.json("generate", "data/gguf/f32.gguf", "--prompt", "Hi", "--max-tokens", "3", "--json")
        self.assertEqual((out, document["prompt_form"]), (document["text"] + "\n", "template"))

    def test_terminal(self):
        """On a terminal there is a prompt, and the conversation goes on after a mistake."""
        try:
            pid, fd = pty.fork()
        except OSError as e:
            self.skipTest(f"no terminal can be made here: {e}")
        if pid == 0:
            os.chdir(cli.TESTS)
            os.environ["TERM"] = "dumb"
            os.execv(cli.PROGRAM, [cli.PROGRAM, "chat", cli.BUNDLE, "--max-tokens", "3", "--max-context", "32"])
        seen = b""

        def wait_for(text, count=1):
            nonlocal seen
            deadline = time.time() + 60
            while seen.count(text) < count and time.time() < deadline:
                if select.select([fd], [], [], 1)[0]:
                    try:
                        seen += os.read(fd, 4096)
                    except OSError:
                        break
            self.assertGreaterEqual(seen.count(text), count, seen)

        wait_for(b"> ")
        os.write(fd, b"Hi " * 40 + b"\n")
        wait_for(b"cairn chat: ")
        wait_for(b"> ", 2)
        os.write(fd, b"/quit\n")
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertIn(b"/help", seen)


if __name__ == "__main__":
    cli.main()
