"""Places to write to: limits of file sizes, leftovers, names that are none; flags and variables that would change nothing."""

import json
import os
import re
import resource
import shutil
import subprocess
import unittest

import cli

BUNDLE = cli.BUNDLE
ASSET = BUNDLE + "/tiny-qwen3-macos-4bit.aimodel"
TINY = "synthetic:tiny"
SHARED = os.path.join(os.environ.get("CAIRN_SHARED_DATA", ""), "models")
VLM = os.path.join(SHARED, "tiny-qwen3_vl-vlm")


class FileSizes(cli.CliTest):
    """A limit of file sizes sends a signal whose default ends the program without a word (subprocess sets that default again)."""

    def limited(self, limit, *arguments, environment=None, program=cli.PROGRAM):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")} | (environment or {})

        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=cli.TESTS,
            env=variables,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            timeout=240,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def ids(self):
        return self.write("ids.json", json.dumps({"tokens": [i % 300 for i in range(3, 203)]}))

    def test_outputs_fail_by_name(self):
        generate = ("generate", BUNDLE, "--raw-tokens", self.ids(), "-n", "4")
        out = self.path("out.bin")
        for arguments in (
            (*generate, "--logits", out),
            (*generate, "--session", out),
            (*generate, "--trace", out),
            ("import", "--synthetic", "tiny", "-o", out + ".gguf"),
            ("compile", ASSET, "-o", self.path("limited.aimodelc")),
            ("inspect", BUNDLE, "--save-contract", out),
        ):
            code, _, err = self.limited(300, *arguments, environment={"CAIRN_CACHE": "off"})
            self.assertEqual(code, 1, (arguments, err))
            self.assertIn("File too large", err)
            self.assertIn(self.temporary, err)
        left = [f for _, _, files in os.walk(self.temporary) for f in files if ".tmp-" in f or f == "out.bin"]
        self.assertEqual(left, [])
        self.assertFalse(os.path.exists(self.path("limited.aimodelc")))

    def test_a_failed_compilation_leaves_what_was_there(self):
        model = self.path("kept.aimodelc")
        self.cairn("compile", ASSET, "-o", model)
        code, _, err = self.limited(300, "compile", ASSET, "-o", model, environment={"CAIRN_CACHE": "off"})
        self.assertEqual(code, 1, err)
        self.cairn("generate", BUNDLE, "--raw-tokens", self.ids(), "-n", "1")
        self.assertEqual(len(os.listdir(model)), 4)

    def test_logits_of_the_alias(self):
        link, out = self.path("llm-runner"), self.path("logits.json")
        os.symlink(cli.PROGRAM, link)
        self.write("logits.json", "what was there")
        arguments = ("--model", BUNDLE, "--prompt", "Hi", "--max-tokens", "9", "--save-logits", out, "--save-logits-length", "full")
        code, _, err = self.limited(3000, *arguments, program=link, environment={"CAIRN_CACHE": "off"})
        self.assertEqual(code, 1, err)
        self.assertIn("cannot write '%s': File too large" % out, err)
        with open(out, encoding="utf-8") as f:
            self.assertEqual(f.read(), "what was there")

    def test_standard_output(self):
        with open(self.path("stdout"), "wb") as out:
            done = subprocess.run(
                [cli.PROGRAM, "help", "--json"],
                stdout=out,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)),
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the output: File too large", done.stderr)

    def test_caches_are_left_out(self):
        folder = self.path("prompts")
        arguments = ("generate", BUNDLE, "--raw-tokens", self.ids(), "-n", "4", "--json", "-q")
        expected = json.loads(self.cairn(*arguments)[0])["tokens"]
        code, out, err = self.limited(2000, *arguments, "--prompt-cache", folder)
        self.assertEqual((code, json.loads(out)["tokens"]), (0, expected))
        self.assertIn("File too large", err)
        self.assertEqual(os.listdir(folder), [])
        # Packed weights: a model that is large enough to be kept.
        model = "synthetic:smollm2-135m:q4"
        path = self.path("large.gguf")
        self.cairn("import", "--synthetic", model[10:], "-o", path)
        packed = {"CAIRN_CACHE_DIR": self.path("packed")}
        code, out, err = self.limited(100 * 512, "generate", path, "--raw-tokens", self.ids(), "-n", "2", environment=packed)
        self.assertEqual(code, 0, err)
        self.assertIn("packed weights are not kept for the next load", err)
        self.assertIn("File too large", err)
        self.assertEqual([f for f in os.listdir(self.path("packed")) if "packed" in f], [])


class LeftOvers(cli.CliTest):
    def test_of_compilations(self):
        model = self.path("m.aimodelc")
        self.cairn("compile", ASSET, "-o", model)
        files = sorted(os.listdir(model))
        for name in ("weights.packed.tmp-a1B2c3", "compiled.json.tmp-XyZ123", "mine.tmp-a1B2c3", "weights.packed.tmp-other-thing"):
            self.write("m.aimodelc/" + name, "half")
        self.cairn("compile", ASSET, "-o", model)
        self.assertEqual(sorted(os.listdir(model)), sorted([*files, "mine.tmp-a1B2c3", "weights.packed.tmp-other-thing"]))

    def test_of_the_cache(self):
        folder = self.path("cache")
        os.mkdir(folder)
        environment = {"CAIRN_CACHE_DIR": folder}
        name = "%032x-2.packed" % 5
        left = [name + ".tmp-a1B2c3", name + ".txt.tmp-a1B2c3", "%032x-2-reshapes.packed.tmp-zzzzzz" % 6]
        for file, text in [(f, "half") for f in left] + [(left[0][:-1] + "0", ""), (name, "whole"), ("notes.tmp-a1B2c3", "mine")]:
            self.write("cache/" + file, text)
        self.assertEqual(self.json("cache", "clear", "--json", environment=environment), {"removed": 1, "bytes": 5})
        self.assertEqual(os.listdir(folder), ["notes.tmp-a1B2c3"])

    def test_of_a_program_that_is_writing(self):
        # The writer holds a lock on what it writes; when it is gone, so is the lock.
        import fcntl

        folder = self.path("busy")
        os.mkdir(folder)
        environment = {"CAIRN_CACHE_DIR": folder}
        file = self.write("busy/%032x-2.packed.tmp-a1B2c3" % 5, "half")
        with open(file, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.cairn("cache", "clear", environment=environment)
            self.assertTrue(os.path.exists(file))
        self.cairn("cache", "clear", environment=environment)
        self.assertFalse(os.path.exists(file))


class Names(cli.CliTest):
    def test_a_dash_is_no_file(self):
        ids = self.write("ids.json", '{"tokens": [5, 9]}')
        generate = ("generate", BUNDLE, "--raw-tokens", ids, "-n", "1")
        for option, arguments in (
            ("--trace", generate),
            ("--logits", generate),
            ("--session", generate),
            ("--out", ("run", ASSET)),
            ("--npy-dir", ("run", ASSET)),
            ("--dump-intermediates", ("run", ASSET)),
            ("--save-contract", ("inspect", BUNDLE)),
            ("--output-json", ("bench", TINY)),
        ):
            err = self.fails(*arguments, option, "-", code=1)
            self.assertIn(option + " -: the name of a file is expected; /dev/stdout is the standard output", err)
            self.assertFalse(os.path.exists(os.path.join(cli.TESTS, "-")))
        out, _ = self.cairn(*generate, "-q", "--trace", "/dev/stdout")
        self.assertIn("traceEvents", out)

    def test_two_options_for_one_file(self):
        ids = self.write("ids.json", '{"tokens": [5, 9]}')
        generate = ("generate", BUNDLE, "--raw-tokens", ids, "-n", "1")
        there, other = self.write("there", "kept"), self.path("other")
        os.symlink(there, self.path("symlink"))
        os.link(there, self.path("hardlink"))
        os.symlink("new", self.path("dangling"))
        session = self.path("one")
        self.cairn(*generate, "--session", session)
        for command, a, b in (
            (generate, ("--logits", other), ("--trace", other)),
            (generate, ("--logits", there), ("--trace", self.path("symlink"))),
            (generate, ("--logits", there), ("--trace", self.path("hardlink"))),
            (generate, ("--logits", self.path("dangling")), ("--trace", self.path("new"))),
            (generate, ("--logits", other), ("--trace", self.temporary + "/../" + os.path.basename(self.temporary) + "/other")),
            (generate, ("--session", session), ("--trace", session + ".json")),
            (generate, ("--logits", session + ".json"), ("--session", session)),
            (generate, ("--logits", session), ("--session", session)),
            (generate, ("--logits", other + ".json"), ("--session", other)),
            (("chat", BUNDLE), ("--session", other), ("--trace", other)),
            (("run", ASSET), ("--out", other), ("--trace", other)),
            (("run", ASSET), ("--npy-dir", other), ("--dump-intermediates", other)),
            (("run", ASSET), ("--npy-dir", other), ("--out", other)),
            (("bench", BUNDLE, "-p", "4", "-g", "2"), ("--output-json", other), ("--trace", other)),
            (generate, ("--prompt-cache", other), ("--logits", other)),
        ):
            for first, second in ((a, b), (b, a)):
                err = self.fails(*command, *first, *second, code=1, stdin="Hi\n")
                self.assertIn("both write to", err)
                for option, place in (a, b):
                    self.assertIn(f"{option} {place}", err)
        for name in ("there", "hardlink"):
            with open(self.path(name), encoding="utf-8") as f:
                self.assertEqual(f.read(), "kept")
        self.assertFalse(os.path.exists(other))
        self.assertFalse(os.path.exists(other + ".json"))
        # What is no file takes what it is given, and a folder any number of files.
        self.cairn(*generate, "--logits", "/dev/null", "--trace", "/dev/null")
        self.cairn(*generate, "--prompt-cache", self.path("cache"), "--logits", self.path("l.safetensors"))
        self.cairn(*generate, "--session", session, "--trace", self.path("one.trace"))

    def test_outputs_that_are_read(self):
        ids = self.write("ids.json", '{"tokens": [5, 9]}')
        copy = self.path("copy.aimodel")
        shutil.copytree(os.path.join(cli.TESTS, ASSET), copy)
        inner = copy + "/main.mlirb"
        grammar, tools, contract = self.write("g.gbnf", 'root ::= "a"'), self.write("tools.json", "[]"), self.path("c.json")
        self.cairn("inspect", copy, "--save-contract", contract)
        generate = ("generate", BUNDLE, "-p", "x", "-n", "1")
        for arguments, option, place in (
            (("generate", copy, "--raw-tokens", ids, "-n", "1", "--trace", inner), "--trace", inner),
            (("generate", BUNDLE, "--raw-tokens", ids, "-n", "1", "--trace", ids), "--trace", ids),
            ((*generate, "--grammar", grammar, "--trace", grammar), "--trace", grammar),
            ((*generate, "--tools", tools, "--logits", tools), "--logits", tools),
            ((*generate, "--tools", tools, "--session", tools), "--session", tools),
            (("run", copy, "--trace", inner), "--trace", inner),
            (("run", inner, "--out", inner), "--out", inner),
            (("inspect", inner, "--save-contract", inner), "--save-contract", inner),
            (("inspect", copy, "--expect", contract, "--save-contract", contract), "--save-contract", contract),
            (("bench", copy, "--output-json", inner), "--output-json", inner),
        ):
            err = self.fails(*arguments, code=1)
            self.assertIn(f"{option} {place}: that is", err)
            self.assertIn("read", err)
        self.assertEqual(self.json("inspect", copy, "--json")["kind"], "aimodel")

    def test_compile(self):
        self.assertIn("the folder '/nonexist' does not exist", self.fails("compile", ASSET, "-o", "/nonexist/a.aimodelc", code=1))
        deep = self.path("no/such/a.aimodelc")
        self.assertIn("does not exist", self.fails("compile", ASSET, "-o", deep, code=1))
        self.assertFalse(os.path.exists(self.path("no")))
        file = self.write("file.aimodelc", "")
        self.assertIn("that is a file, a folder is to be written", self.fails("compile", ASSET, "-o", file, code=1))
        self.cairn("compile", ASSET, "-o", self.path("slash.aimodelc") + "/")
        # Not into what is read, but beside it in its bundle.
        bundle = self.path("bundle")
        shutil.copytree(os.path.join(cli.TESTS, BUNDLE), bundle)
        asset = os.path.join(bundle, os.path.basename(ASSET))
        own = self.path("own.aimodelc")
        shutil.copytree(asset, own)
        for model, out in ((own, own), (asset, asset + "/x.aimodelc"), (bundle, asset + "/x.aimodelc")):
            self.assertIn("which is read", self.fails("compile", model, "-o", out, code=1))
        self.cairn("compile", bundle, "-o", bundle + "/x.aimodelc")
        err = self.fails("generate", bundle, "-p", "x", "-n", "1", "--prompt-cache", bundle + "/cache", code=1)
        self.assertIn("which is read", err)

    def test_import(self):
        out = self.path("t.gguf")
        for name in ("tiny", "tiny-moe:q8"):
            report = self.json("import", "--synthetic", name, "--json", "-o", out)
            self.assertEqual((report["output"], report["importer"], report["vocab_size"]), (out, "synthetic", 320))
            self.assertTrue(report["source"].startswith("synthetic:" + name))
            self.assertEqual(self.json("import", out, "--json")["functions"], report["functions"])
        self.assertEqual(self.cairn("import", "--synthetic", "tiny", "-o", out), ("", ""))
        err = self.fails("import", "--synthetic", "tiny", "-o", self.path("foo.bar"), code=64)
        self.assertIn("the name of the file ends in .gguf", err)

    def test_folders_that_are_files(self):
        file = self.write("file", "")
        ids = self.write("ids.json", '{"tokens": [5, 9]}')
        err = self.fails("generate", BUNDLE, "--raw-tokens", ids, "-n", "1", "--prompt-cache", file, code=1)
        self.assertIn("'%s' is a file, a folder is needed" % file, err)
        err = self.fails("generate", BUNDLE, "--raw-tokens", ids, "-n", "1", "--prompt-cache", file + "/below", code=1)
        self.assertIn("'%s' is a file, a folder is needed" % file, err)
        path = self.path("large.gguf")
        self.cairn("import", "--synthetic", "smollm2-135m", "-o", path)
        _, err = self.cairn("generate", path, "--raw-tokens", ids, "-n", "1", environment={"CAIRN_CACHE_DIR": file})
        self.assertIn("'%s' is a file, a folder is needed" % file, err)

    @unittest.skipUnless(os.path.isdir(VLM), "the public model is not there (CAIRN_SHARED_DATA)")
    def test_components(self):
        for arguments in (("compile", VLM, "-o", self.path("c.aimodelc")), ("run", VLM), ("inspect", VLM), ("inspect", VLM, "--plan")):
            err = self.fails(*arguments, "--component", "foo", code=1)
            self.assertRegex(err, r"the bundle has no component 'foo'; it has .*\bmain\b.*\bvision\b|it has .*\bvision\b.*\bmain\b")


class Ignored(cli.CliTest):
    """What would change nothing is refused by name."""

    def test_flags(self):
        batch = ("bench", TINY, "--batch", "2", "-p", "3", "-g", "2")
        self.assertIn("--num-trials and --protocol", self.fails(*batch, "-n", "7", code=64))
        self.assertIn("--num-trials and --protocol", self.fails(*batch, "--protocol", "pb-random-v1", code=64))
        self.assertIn("--num-trials and --protocol", self.fails(*batch, "--protocol", "apple", code=64))
        # The texts of bench have the lengths it was given: no context is ever full.
        for more in ((), ("--batch", "2")):
            self.assertIn("unknown option --overflow", self.fails("bench", TINY, *more, "--overflow", "slide", code=64))
        provenance = self.json(*batch, "--json", "-q")["provenance"]
        self.assertEqual(provenance["protocol"], "batch")
        self.assertNotIn("kv_bytes", provenance)
        trials = self.json("bench", TINY, "-p", "3", "-g", "2", "-n", "1", "--json", "-q")["provenance"]
        self.assertEqual(trials["protocol"], "apple")
        self.assertGreater(trials["kv_bytes"], 0)
        for command in (("generate", BUNDLE, "--prompt", "a"), ("chat", BUNDLE), ("bench", TINY)):
            for engine in ((), ("--engine", "sequential"), ("--engine", "auto")):
                err = self.fails(*command, "--pipeline-depth", "3", *engine, code=64)
                self.assertIn("--pipeline-depth belongs to --engine pipelined", err)

    def test_variables(self):
        ids = self.write("ids.json", '{"tokens": [5, 9]}')
        for name, values in (("CAIRN_CACHE_LIMIT", ("abc", "-1", " 5", "+5", "1e9", "99999999999999999999", "5M")), ("CAIRN_CACHE", ("foo", "OFF", "0"))):
            for value in values:
                for arguments in (("generate", BUNDLE, "--raw-tokens", ids, "-n", "1"), ("cache", "list"), ("inspect", BUNDLE)):
                    err = self.fails(*arguments, code=1, environment={name: value, "CAIRN_CACHE_DIR": self.path("cache")})
                    self.assertIn("%s is '%s'" % (name, value), err)
        for good in ({"CAIRN_CACHE": "on"}, {"CAIRN_CACHE": "off"}, {"CAIRN_CACHE": "", "CAIRN_CACHE_LIMIT": ""}, {"CAIRN_CACHE_LIMIT": "0"}):
            self.cairn("inspect", BUNDLE, environment=good)


class Messages(cli.CliTest):
    def test_least_context(self):
        arguments = ("generate", BUNDLE, "--prompt", "Hi", "--no-template", "--overflow", "slide", "-n", "2", "--max-context")
        self.assertIn("a context of 6 tokens is too short to make room in; it must have 8 or more", self.fails(*arguments, "6", code=1))
        self.cairn(*arguments, "8")

    def test_what_holds_too_little(self):
        bench = ("bench", BUNDLE, "-p", "16", "-g", "8")
        err = self.fails(*bench, "--kv", "fixed", "--kv-capacity", "8", code=1)
        self.assertIn("are more than the 8 the cache holds, see --kv-capacity", err)
        self.assertIn("are more than the 12 that --max-context allows", self.fails(*bench, "--max-context", "12", code=1))
        self.assertRegex(self.fails("bench", BUNDLE, "-p", "100000", code=1), r"are more than the \d+ the model takes")


class Manual(cli.CliTest):
    def test_every_option_is_in_the_manual(self):
        with open(os.path.join(cli.TESTS, "..", "docs", "cli.md"), encoding="utf-8") as f:
            manual = f.read()
        commands = self.json("help", "--json")["commands"]
        self.assertGreater(len(commands), 10)
        missing = [
            "%s --%s" % (c["name"], o["name"])
            for c in commands
            for o in c["options"]
            if not re.search(r"--%s(?![\w-])" % re.escape(o["name"]), manual)
        ]
        self.assertEqual(missing, [])

    def test_aliases_show_what_they_demand(self):
        link = self.path("llm-runner")
        os.symlink(cli.PROGRAM, link)
        out, _ = self.cairn("--help", program=link)
        self.assertIn("--warmup-length", out)
        self.assertIn("--warmup-length", self.cairn("--model", "x", "--warmup", "exact", program=link, code=64)[1])


if __name__ == "__main__":
    unittest.main()
