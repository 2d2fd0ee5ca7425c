"""--trace: the file that the commands which run models write."""

import json
import os

import cli
import safetensors_io as st

STATEFUL = "data/execute/stateful.aimodel"


class Trace(cli.CliTest):
    def trace(self, *arguments, **options):
        path = self.path("trace.json")
        if os.path.exists(path):
            os.remove(path)
        self.cairn(*arguments, "--trace", path, **options)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(document["otherData"]["dropped_events"], 0)
        spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 and e["pid"] > 0 and e["tid"] > 0 for e in spans))
        return spans

    def count(self, spans, category, prefix):
        return sum(e["cat"] == category and e["name"].startswith(prefix) for e in spans)

    def test_run(self):
        io = self.path("in.safetensors")
        st.save(io, {"x": ("F32", [4], [1.0, 2.0, 3.0, 4.0])})
        spans = self.trace("run", STATEFUL, "--io", io)
        self.assertEqual(self.count(spans, "load", "Open asset"), 1)
        self.assertEqual(self.count(spans, "load", "Load model"), 1)
        self.assertEqual(self.count(spans, "specialization", "Specialize main"), 1)
        self.assertEqual(self.count(spans, "setup", "Setup for main"), 1)
        self.assertEqual(self.count(spans, "inference", "Run main"), 1)
        self.assertEqual(self.count(spans, "engine", ""), 0)

    def test_generate(self):
        tokens = self.write("tokens.json", "{\"tokens\": [119, 362, 267, 138]}")
        spans = self.trace("generate", cli.BUNDLE, "--raw-tokens", tokens, "--max-tokens", "5", "-q")
        self.assertEqual(self.count(spans, "engine", "Prompt 0+4"), 1)
        self.assertEqual(self.count(spans, "engine", "Decode step"), 4)
        self.assertGreaterEqual(self.count(spans, "inference", "Run "), 5)
        runs = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["cat"] == "engine")
        self.assertTrue(all(a[1] <= b[0] + 0.002 for a, b in zip(runs, runs[1:])), "steps follow each other")

    def test_pipelined(self):
        # Steps are encoded and waited for on the caller's thread, run and chosen on that of the stream.
        tokens = self.write("tokens.json", "{\"tokens\": [119, 362, 267, 138]}")
        spans = self.trace(
            "generate", cli.BUNDLE, "--raw-tokens", tokens, "--max-tokens", "5", "--ignore-eos", "-q", "--engine", "pipelined", "--kv-capacity", "4",
            "--kv", "growing"
        )  # fmt: skip
        for name, n in (("Tokenization 4", 1), ("Prompt 0+4", 1), ("Encode step", 5), ("Wait for token", 5), ("Sample", 5), ("Give out", 5), ("Drain", 1)):
            self.assertEqual(self.count(spans, "engine", name), n, name)
        self.assertEqual(self.count(spans, "engine", "Grow to"), 1)
        self.assertEqual(self.count(spans, "engine", "Wait to grow"), 1)
        self.assertEqual(self.count(spans, "load", "Load engine pipelined"), 1)
        self.assertEqual(self.count(spans, "stream", "Call choose"), 5)
        thread = {name: {e["tid"] for e in spans if e["name"].startswith(name)} for name in ("Encode step", "Give out", "Sample", "Call choose")}
        self.assertEqual(thread["Encode step"], thread["Give out"])
        self.assertEqual(thread["Sample"], thread["Call choose"])
        self.assertTrue(thread["Sample"].isdisjoint(thread["Give out"]))

    def test_life(self):
        tokens = self.write("tokens.json", "{\"tokens\": [119, 362, 267, 138]}")
        spans = self.trace("bench", cli.BUNDLE, "-p", "4", "-g", "2", "-n", "1", "-q")
        self.assertGreaterEqual(self.count(spans, "engine", "Reset to 0"), 1)
        self.assertGreaterEqual(self.count(spans, "engine", "Clean up"), 1)
        spans = self.trace("generate", cli.BUNDLE, "--raw-tokens", tokens, "--max-tokens", "2", "-q", "--session", self.path("a.session"))
        self.assertEqual(self.count(spans, "engine", "Save session"), 1)

    def test_wrong_places(self):
        io = self.path("in.safetensors")
        st.save(io, {"x": ("F32", [4], [1.0, 2.0, 3.0, 4.0])})
        err = self.fails("run", STATEFUL, "--io", io, "--trace", self.path("none/trace.json"), code=1)
        self.assertIn("--trace", err)
        # Commands that run nothing do not take it.
        self.assertIn("unknown option --trace", self.fails("inspect", STATEFUL, "--trace", "x.json", code=64))

    def test_failing_run_is_traced(self):
        # What was done before a failure is what one wants to see.
        io = self.path("bad.safetensors")
        st.save(io, {"x": ("F32", [3], [1.0, 2.0, 3.0])})
        spans = self.trace("run", STATEFUL, "--io", io, code=1)
        self.assertEqual(self.count(spans, "load", "Open asset"), 1)
        self.assertEqual(self.count(spans, "inference", ""), 0)


if __name__ == "__main__":
    cli.main()
