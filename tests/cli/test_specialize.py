"""cairn inspect --plan, cairn compile and what loads its results."""

import json
import os
import shutil
import unittest
from pathlib import Path

import cli
import safetensors_io as st

BUNDLE = cli.BUNDLE
ASSET = BUNDLE + "/tiny-qwen3-macos-4bit.aimodel"
IDS = '{"tokens": [5, 9, 77, 3]}'


class Plans(cli.CliTest):
    def test_text(self):
        out, _ = self.cairn("inspect", ASSET, "--plan", "--precision", "int8")
        self.assertTrue(out.startswith("function 'main': precision int8, "))
        self.assertIn("state 'keyCache': 2 writes, 2 of them update the changed part in place", out)
        self.assertIn("linear+gate(", out)
        self.assertIn("lookup(", out)

    def test_json(self):
        document = self.json("inspect", BUNDLE, "--plan", "--json")
        self.assertEqual([f["name"] for f in document["functions"]], ["main"])
        self.assertEqual(document["functions"][0]["precision"], "exact")
        self.assertGreater(len(document["functions"][0]["plan"]), 10)

    def test_usage(self):
        self.fails("inspect", ASSET, "--plan", "--ir", code=64)
        self.fails("inspect", ASSET, "--precision", "int8", code=64)


class Options(cli.CliTest):
    """The options of a specialization reach the library from every command that loads a model."""

    FIXED = os.path.join(os.environ.get("CAIRN_SHARED_DATA", ""), "models", "tiny-qwen3-ios")
    WARNING = "warning: frequent reshapes are expected, but all shapes of function"

    def test_reshapes_of_a_function(self):
        model = "data/assets/state_only.aimodel"
        st.save(self.path("x.safetensors"), {"x": ("F32", [4], [1, 2, 3, 4])})
        arguments = ("run", model, "--io", self.path("x.safetensors"))
        self.assertNotIn(self.WARNING, self.cairn(*arguments, "--device", "cpu")[1])
        self.assertIn(self.WARNING + " 'main' are fixed", self.cairn(*arguments, "--expect-frequent-reshapes")[1])

    @unittest.skipUnless(os.path.isdir(FIXED), "the public model is not there (CAIRN_SHARED_DATA)")
    def test_reshapes_of_a_language_model(self):
        ids = self.write("ids.json", IDS)
        for command in (
            ("generate", self.FIXED, "--raw-tokens", ids, "--max-tokens", "2"),
            ("chat", self.FIXED, "--max-tokens", "2"),
            ("bench", self.FIXED, "-p", "4", "-g", "2", "-n", "1"),
        ):
            self.assertNotIn(self.WARNING, self.cairn(*command, stdin="Hi\n")[1])
            self.assertIn(self.WARNING, self.cairn(*command, "--device", "cpu", "--expect-frequent-reshapes", stdin="Hi\n")[1])
        # Shapes that are open are no reason for a word, nor is a change of the result.
        plain = self.json("generate", BUNDLE, "--raw-tokens", ids, "--max-tokens", "4", "--json")
        out, err = self.cairn("generate", BUNDLE, "--raw-tokens", ids, "--max-tokens", "4", "--json", "--expect-frequent-reshapes")
        self.assertEqual(json.loads(out)["tokens"], plain["tokens"])
        self.assertEqual(err, "")

    def test_other_devices_are_refused_by_name(self):
        ids = self.write("ids.json", IDS)
        for device in ("gpu", "neural-engine"):
            for command in (
                ("run", ASSET),
                ("generate", BUNDLE, "--raw-tokens", ids),
                ("chat", BUNDLE),
                ("bench", BUNDLE),
                ("compile", ASSET, "-o", self.path("no.aimodelc")),
            ):
                err = self.fails(*command, "--device", device, code=64)
                self.assertIn(f"--device must be one of cpu, not '{device}'", err)
        self.cairn("compile", ASSET, "-o", self.path("cpu.aimodelc"), "--device", "cpu")


class Compiled(cli.CliTest):
    def compile(self, name, *options):
        self.cairn("compile", ASSET, "-o", self.path(name), *options)
        return self.path(name)

    def generate(self, model, *options):
        ids = self.write("ids.json", IDS)
        arguments = ("generate", model, "--raw-tokens", ids, "--max-tokens", "6", "--ignore-eos", "--json", "-q", *options)
        return self.json(*arguments)["tokens"]

    def test_same_tokens(self):
        for precision in ("auto", "exact", "bf16", "int8"):
            model = self.compile(precision + ".aimodelc", "--precision", precision)
            expected = self.generate(ASSET, "--precision", precision)
            self.assertEqual(self.generate(model), expected)
            self.assertEqual(json.loads(Path(model, "compiled.json").read_text())["precision"], precision)
            self.assertRegex(self.cairn("inspect", model)[0], rf"compiled +for \w+, precision {precision}")
            self.assertEqual(self.json("inspect", model, "--json")["compiled_precision"], precision)

    def test_defaults_go_together(self):
        model = self.compile("defaults.aimodelc")
        st.save(
            self.path("in.safetensors"),
            {"input_ids": ("I32", [1, 2], [5, 9]), "position_ids": ("I32", [1, 2], [0, 1])},
        )
        shapes = ["--state-shape", "keyCache=2,1,2,8,32", "--state-shape", "valueCache=2,1,2,8,32"]
        self.cairn("run", model, "--io", self.path("in.safetensors"), *shapes)
        # Nothing of a compiled asset depends on this one.
        self.cairn("run", model, "--io", self.path("in.safetensors"), *shapes, "--expect-frequent-reshapes")

    def test_unfinished(self):
        os.mkdir(self.path("unfinished.aimodelc"))
        self.assertIn("not finished", self.fails("inspect", self.path("unfinished.aimodelc"), code=1))

    def test_stands_alone(self):
        copy = self.path("copy.aimodel")
        shutil.copytree(os.path.join(cli.TESTS, ASSET), copy)
        self.cairn("compile", copy, "-o", self.path("alone.aimodelc"))
        expected = self.generate(copy)
        shutil.rmtree(copy)
        self.assertEqual(self.generate(self.path("alone.aimodelc")), expected)

    def test_in_a_bundle(self):
        bundle = self.path("bundle")
        shutil.copytree(os.path.join(cli.TESTS, BUNDLE), bundle)
        self.cairn("compile", bundle, "-o", bundle + "/tiny-qwen3-macos-4bit.aimodelc")
        shutil.rmtree(bundle + "/tiny-qwen3-macos-4bit.aimodel")
        self.assertEqual(self.generate(bundle), self.generate(BUNDLE))

    def test_runs_as_an_asset(self):
        model = self.compile("asset.aimodelc", "--precision", "exact")
        st.save(
            self.path("in.safetensors"),
            {"input_ids": ("I32", [1, 2], [5, 9]), "position_ids": ("I32", [1, 2], [0, 1])},
        )
        shapes = ["--state-shape", "keyCache=2,1,2,8,32", "--state-shape", "valueCache=2,1,2,8,32"]
        for source, out in ((ASSET, "a.safetensors"), (model, "b.safetensors")):
            self.cairn("run", source, "--io", self.path("in.safetensors"), "--out", self.path(out), *shapes)
        self.assertEqual(Path(self.path("a.safetensors")).read_bytes(), Path(self.path("b.safetensors")).read_bytes())

    def test_inspect(self):
        model = self.compile("inspect.aimodelc")
        self.assertEqual(self.json("inspect", model, "--json")["functions"], self.json("inspect", ASSET, "--json")["functions"])

    def test_refusals(self):
        model = self.compile("refused.aimodelc", "--precision", "int8")
        ids = self.write("ids.json", IDS)
        generate = ("generate", model, "--raw-tokens", ids, "--max-tokens", "2")
        self.assertIn("compiled for int8", self.fails(*generate, "--precision", "exact", code=1))
        body = {"CAIRN_COMPOSITES": "body"}
        self.assertIn("compiled", self.fails(*generate, code=1, environment=body))
        description = json.loads(Path(model, "compiled.json").read_text())
        for key, value in (("architecture", "riscv64"), ("layout", "0"), ("format", "other"), ("version", 2)):
            Path(model, "compiled.json").write_text(json.dumps({**description, key: value}))
            self.assertIn("compile the asset again", self.fails(*generate, code=1))
        Path(model, "compiled.json").write_text(json.dumps(description))
        self.assertIn("already", self.fails("compile", model, "-o", self.path("twice.aimodelc"), code=1))
        self.fails("compile", ASSET, code=64)
        self.fails("compile", ASSET, "-o", self.path("wrong.name"), code=64)

    def test_damage(self):
        model = self.compile("damaged.aimodelc")
        ids = self.write("ids.json", IDS)
        generate = ("generate", model, "--raw-tokens", ids, "--max-tokens", "2")
        for name in ("program.cairn", "weights.packed"):
            file = Path(model, name)
            whole = file.read_bytes()
            for at in (3, len(whole) // 2 - len(whole) // 2 % 4096, len(whole) - 1):
                damaged = bytearray(whole)
                damaged[at] ^= 0x40
                file.write_bytes(damaged)
                self.assertIn("compile the asset again", self.fails(*generate, code=1))
            for cut in (0, 10, len(whole) // 3):
                file.write_bytes(whole[:cut])
                self.assertIn("compile the asset again", self.fails(*generate, code=1))
            file.write_bytes(whole)


if __name__ == "__main__":
    unittest.main()
