"""cairn bench, the llm-benchmark alias, cairn cache, and models with random weights."""

import json
import os
import unittest

import cli

TINY = "synthetic:tiny"
COUNTS = ("-p", "6", "-g", "5", "-n", "3")
# What Apple's program writes, in its order.
APPLE = [
    "averages",
    "cache_hit",
    "generation_tokens",
    "model",
    "num_trials",
    "prepare_seconds",
    "prompt_tokens",
    "trials",
    "warmup_seconds",
]
OURS = ["provenance"]


class Bench(cli.CliTest):
    def test_json(self):
        report = self.json("bench", TINY, *COUNTS, "--json", "-q")
        self.assertEqual(list(report), sorted(APPLE + OURS))
        self.assertEqual(list(report["averages"]), ["generation_tps", "prompt_tps"])
        self.assertEqual(
            (report["model"], report["prompt_tokens"], report["generation_tokens"], report["num_trials"]),
            (TINY, 6, 5, 3),
        )
        self.assertIs(report["cache_hit"], False)
        self.assertEqual(len(report["trials"]), 3)
        for trial in report["trials"]:
            self.assertEqual(list(trial), ["first_token_s", "gen_tps", "prompt_tps", "token_p50_s", "token_p95_s"])
            self.assertGreater(trial["gen_tps"], 0)
            self.assertGreaterEqual(trial["token_p95_s"], trial["token_p50_s"])
        self.assertGreater(report["warmup_seconds"], 0)
        provenance = report["provenance"]
        self.assertEqual(
            (provenance["protocol"], provenance["summary"], provenance["device"]), ("apple", "means", "cpu")
        )
        self.assertGreater(provenance["peak_memory_bytes"], 1 << 20)
        self.assertGreater(provenance["threads"], 0)

    def check_summary(self, report, middle):
        for average, one in (("prompt_tps", "prompt_tps"), ("generation_tps", "gen_tps")):
            self.assertAlmostEqual(
                report["averages"][average] / middle([t[one] for t in report["trials"]]), 1, places=5
            )

    def test_means(self):
        self.check_summary(self.json("bench", TINY, *COUNTS, "--json", "-q"), lambda values: sum(values) / len(values))

    def test_medians(self):
        report = self.json("bench", TINY, *COUNTS, "--json", "-q", "--protocol", "pb-random-v1")
        self.check_summary(report, lambda values: sorted(values)[1])
        self.assertEqual(report["provenance"]["summary"], "medians")
        report = self.json(
            "bench", TINY, "-p", "4", "-g", "2", "-n", "80", "--json", "-q", "--protocol", "pb-random-v1"
        )
        self.check_summary(report, lambda values: (sorted(values)[39] + sorted(values)[40]) / 2)

    def test_protocol_sizes(self):
        report = self.json("bench", TINY, "-n", "1", "--json", "-q", "--protocol", "pb-random-v1")
        self.assertEqual((report["prompt_tokens"], report["generation_tokens"]), (128, 256))
        report = self.json("bench", TINY, "-n", "1", "-g", "2", "--json", "-q")
        self.assertEqual((report["prompt_tokens"], report["generation_tokens"]), (512, 2))

    def test_one_token_has_no_speed(self):
        report = self.json("bench", TINY, "-p", "4", "-g", "1", "-n", "1", "--json", "-q")
        self.assertEqual(report["averages"]["generation_tps"], 0)

    def test_bundle_and_file(self):
        out, _ = self.cairn("bench", cli.BUNDLE, *COUNTS, "--output-json", self.path("report.json"))
        with open(self.path("report.json"), encoding="utf-8") as f:
            self.assertEqual(list(json.load(f)), sorted(APPLE + OURS))
        self.assertEqual(out.count("🧪 Trial "), 3)
        self.assertIn("📊 Benchmark Summary:", out)
        self.assertIn("Wrote: " + self.path("report.json"), out)
        for name in "qwen2", "qwen3_q8_0", "qwen3moe_q4_0", "mixtral", "f32":
            report = self.json("bench", f"data/gguf/{name}.gguf", *COUNTS, "--json", "-q")
            self.assertGreater(report["averages"]["generation_tps"], 0)

    def test_batch(self):
        report = self.json("bench", TINY, "--batch", "3", "-p", "30", "-g", "4", "--json", "-q")
        self.assertEqual(list(report), sorted(APPLE + OURS + ["batch", "batch_arrival"]))
        self.assertEqual([p["sequences"] for p in report["batch"]], [1, 2, 3])
        self.assertEqual(report["batch"][0]["ratio"], 1)
        for point in report["batch"]:
            self.assertAlmostEqual(point["generation_tps"] / report["batch"][0]["generation_tps"] / point["ratio"], 1, places=5)
            self.assertGreaterEqual(point["step_p95_s"], point["step_p50_s"])
        arrival = report["batch_arrival"]
        self.assertEqual(arrival["allowed_step_s"], 0.1)
        self.assertGreaterEqual(arrival["first_token_s"], arrival["longest_step_s"])
        self.assertGreater(arrival["steps"], 0)
        out, _ = self.cairn("bench", TINY, "--batch", "2", "-p", "3", "-g", "2", "--batch-step", "0.5")
        self.assertIn("  2 sequences", out)
        self.assertIn("beside 1 sequences", out)

    def test_batch_refused(self):
        self.assertIn("--batch", self.fails("bench", TINY, "--batch", "0", code=64))
        self.assertIn("belongs to --batch", self.fails("bench", TINY, "--batch-step", "1", code=64))
        self.assertIn("32768", self.fails("bench", TINY, "--batch", "2", "-p", "32768", code=1))

    def test_refused(self):
        self.assertIn("--num-trials", self.fails("bench", TINY, "-n", "0", code=64))
        self.assertIn("MODEL is missing", self.fails("bench", code=64))
        self.assertIn("32768", self.fails("bench", TINY, "-p", "32768", "-g", "1", code=1))
        self.assertIn("not found", self.fails("bench", "nowhere.gguf", code=1))
        self.assertIn(
            "does not exist", self.fails("bench", TINY, "--output-json", self.path("no/folder/x.json"), code=1)
        )


class Alias(cli.CliTest):
    """The program as llm-benchmark: a link of that name."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.temporary, "llm-benchmark")
        os.symlink(cli.PROGRAM, cls.program)

    def test_keys(self):
        path = self.path("made/on/the/way.json")
        out, _ = self.cairn("--model", TINY, *COUNTS, "--seed", "7", "--output-json", path, program=self.program)
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        self.assertEqual(list(report), APPLE)
        for trial in report["trials"]:
            self.assertEqual(list(trial), ["gen_tps", "prompt_tps"])
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^⚙️  Warming up engine\.\.\. done in \d+\.\d{3} seconds$")
        self.assertEqual(lines[1], "🔄 Benchmarking with 6 prompt tokens, 5 generation tokens")
        self.assertEqual(lines[2], "🧪 Trial 1")
        self.assertRegex(lines[3], r"^⚡ Prompt:  \d+\.\d{3} tokens/sec$")
        self.assertRegex(lines[4], r"^🏃 Generation: \d+\.\d{3} tokens/sec$")
        summary = lines.index("📊 Benchmark Summary:")
        self.assertEqual((lines[summary - 1], lines[summary + 1]), ("=" * 50, "=" * 50))
        self.assertEqual(
            [line.split(":")[0] for line in lines[summary + 2 :]],
            ["Prepare", "Warmup", "Prompt", "Generation", "Wrote"],
        )

    def test_clear_cache(self):
        folder = self.path("cache")
        os.mkdir(folder)
        model = os.path.realpath(os.path.join(cli.TESTS, "data/gguf/f16.gguf"))
        for i, path in enumerate((model, "/another.gguf")):
            name = "%032x-2.packed" % i
            self.write("cache/" + name, "12345")
            self.write("cache/" + name + ".txt", path)
        arguments = ("--model", "data/gguf/f16.gguf", *COUNTS, "--clear-coreai-cache")
        for n in (1, 0):
            out, _ = self.cairn(*arguments, program=self.program, environment={"CAIRN_CACHE_DIR": folder})
            self.assertEqual(out.splitlines()[0], "🗑️  Cleared specialization cache for data/gguf/f16.gguf (%d component(s))" % n)
        self.assertEqual(len(os.listdir(folder)), 2)

    def test_refused(self):
        self.assertIn(
            "Error: Model path not found: /no/model", self.fails("--model", "/no/model", code=1, program=self.program)
        )
        self.assertIn("--model", self.fails(code=64, program=self.program))
        for option in "prompt-tokens", "generation-tokens", "num-trials":
            message = self.fails("--model", TINY, "--" + option, "0", code=64, program=self.program)
            self.assertIn(f"Error: --{option} must be >= 1", message)


class Cache(cli.CliTest):
    def test_list_and_clear(self):
        folder = self.path("cache")
        os.mkdir(folder)
        environment = {"CAIRN_CACHE_DIR": folder}
        self.assertEqual(
            self.json("cache", "list", "--json", environment=environment), {"directory": folder, "entries": []}
        )
        a, b = ("%032x-1.packed" % i for i in (10, 11))
        for name, size in ((a, 10), (b, 20)):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(bytes(size))
        with open(os.path.join(folder, a + ".txt"), "w", encoding="utf-8") as f:
            f.write("/some/model.aimodel")
        self.write("cache/other.txt", "not an entry")
        self.write("cache/mine.packed", "not one either")
        listed = self.json("cache", "--json", environment=environment)["entries"]
        self.assertEqual(
            {(os.path.basename(e["path"]), e["model"], e["bytes"]) for e in listed},
            {(a, "/some/model.aimodel", 10), (b, "", 20)},
        )
        self.assertEqual([e["options"] for e in listed], ["", ""])
        out, _ = self.cairn("cache", environment=environment)
        self.assertIn("2 entries, 0.0 MB in " + folder, out)
        self.assertEqual(self.json("cache", "clear", "--json", environment=environment), {"removed": 2, "bytes": 30})
        self.assertEqual(sorted(os.listdir(folder)), ["mine.packed", "other.txt"])
        self.assertIn("removed 0 entries", self.cairn("cache", "clear", environment=environment)[0])

    def test_clear_one_model(self):
        folder = self.path("cache-of-models")
        os.mkdir(folder)
        environment = {"CAIRN_CACHE_DIR": folder}
        models = ["/models/a.aimodel", "/models/a.aimodel", "/models/ab.aimodel", "/models/deep/c.gguf"]
        for i, model in enumerate(models):
            name = "%032x-2%s.packed" % (i, "-reshapes" if i == 1 else "")
            self.write("cache-of-models/" + name, "12345")
            self.write("cache-of-models/" + name + ".txt", model)
        listed = self.json("cache", "--json", environment=environment)["entries"]
        self.assertEqual(sorted(e["options"] for e in listed), ["", "", "", "frequent reshapes"])
        self.assertIn("/models/a.aimodel (frequent reshapes)", self.cairn("cache", environment=environment)[0])
        for model, n in (("/models/a.aimode", 0), ("/models/a.aimodel", 2), ("/models/deep", 1), ("/models/deep", 0)):
            cleared = self.json("cache", "clear", model, "--json", environment=environment)
            self.assertEqual(cleared, {"removed": n, "bytes": 5 * n}, model)
            # What was deleted may have entries; a path with neither file nor entries is told, and is no failure.
            err = self.cairn("cache", "clear", model, environment=environment)[1]
            self.assertIn(f"warning: '{model}': there is no such file or folder", err)
        self.assertEqual(self.cairn("cache", "clear", "data/gguf/f16.gguf", environment=environment)[1], "")
        self.assertEqual([e["model"] for e in self.json("cache", "--json", environment=environment)["entries"]], [models[2]])
        # A path that is relative, through a link, or has a slash at its end stands for the same model, also when that is gone.
        os.symlink(self.temporary, self.path("link"))
        real = os.path.realpath(self.temporary)
        for i, spelled in enumerate((self.path("gone/x.gguf"), self.path("gone/x.gguf/"), self.path("link/gone//x.gguf"),
                                     os.path.relpath(self.path("gone/x.gguf"), cli.TESTS), self.path("link/gone"))):
            name = "%032x-2.packed" % (i + 100)
            self.write("cache-of-models/" + name, "12345")
            self.write("cache-of-models/" + name + ".txt", real + "/gone/x.gguf")
            out, err = self.cairn("cache", "clear", spelled, environment=environment)
            self.assertIn("removed 1 entries", out, spelled)
            self.assertEqual(err, "")
        self.assertIn("list takes no model", self.fails("cache", "list", "x", code=64))
        self.assertIn("names no model", self.fails("cache", "clear", "", code=1, environment=environment))

    def test_no_place(self):
        self.assertIn("is no action", self.fails("cache", "burn", code=64))
        nowhere = {"CAIRN_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": ""}
        self.assertIn("CAIRN_CACHE_DIR", self.fails("cache", "--json", code=1, environment=nowhere))


class Synthetic(cli.CliTest):
    def test_import(self):
        for arguments in (("import", TINY), ("import", "--synthetic", "tiny"), ("import", "--synthetic", "tiny:q4")):
            report = self.json(*arguments, "--json")
            self.assertEqual(
                (report["importer"], report["architecture"], report["vocab_size"]), ("synthetic", "qwen3", 320)
            )

    def generate(self, model):
        ids = self.write("ids.json", '{"tokens": [5, 9, 77, 3]}')
        return self.json("generate", model, "--raw-tokens", ids, "--max-tokens", "6", "--ignore-eos", "--json", "-q")[
            "tokens"
        ]

    def test_the_same_everywhere(self):
        for name in "tiny", "tiny:q8", "tiny:f16", "tiny-moe", "tiny-moe:q8", "tiny-moe:f16":
            path = self.path(name.replace(":", "-") + ".gguf")
            self.cairn("import", "--synthetic", name, "-o", path)
            tokens = self.generate("synthetic:" + name)
            self.assertEqual(len(tokens), 6)
            self.assertEqual(tokens, self.generate(path))

    def test_plan(self):
        out, _ = self.cairn("inspect", "synthetic:tiny-moe", "--plan")
        self.assertIn("gather_linear+gate(", out)
        self.assertIn("gather_linear+sum+add(", out)
        self.assertIn("linear+add(", out)
        out, _ = self.cairn("inspect", TINY, "--plan")
        self.assertIn("linear+gate(", out)
        self.assertIn("lookup(", out)
        # One matrix for queries, keys and values: (4 + 2 * 2) heads of 16.
        self.assertIn("128x64 4-bit", out)

    def test_inspect(self):
        self.assertIn("tiny-moe q8 (random weights)", self.cairn("inspect", "synthetic:tiny-moe:q8")[0])

    def test_refused(self):
        message = self.fails("bench", "synthetic:huge", code=1)
        self.assertIn("qwen3-0.6b, llama-3.2-1b, qwen3-4b, smollm2-135m, moe-32x4", message)
        self.assertIn("q4, q8, f16", self.fails("inspect", "synthetic:tiny:q3", code=1))
        self.assertIn("no tokenizer", self.fails("tokenize", TINY, "text", code=1))
        self.assertIn("SOURCE", self.fails("import", code=64))
        self.fails("import", TINY, "--synthetic", "tiny", code=64)
        self.assertIn(
            "cannot write .aimodel", self.fails("import", "--synthetic", "tiny", "-o", self.path("x.aimodel"), code=1)
        )


if __name__ == "__main__":
    unittest.main()
