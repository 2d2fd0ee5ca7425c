"""cairn inspect: text and JSON of assets, bundles and GGUF files; the contract lock."""

import json
import os
import shutil

import cli

STATEFUL = "data/golden/test_stateful--TestStatefulCornerCases--test_no_non_state_outputs/model.aimodel"
DYNAMIC = "data/golden/ops.test_ops--test_max-shape4--1-False-dtype4-True/model.aimodel"


class Assets(cli.CliTest):
    def test_text(self):
        out, err = self.cairn("inspect", STATEFUL)
        self.assertEqual(err, "")
        self.expect("inspect-stateful.txt", out)

    def test_json(self):
        self.expect("inspect-stateful.json", self.cairn("inspect", STATEFUL, "--json")[0])

    def test_dynamic_dims_are_null(self):
        (f,) = self.json("inspect", DYNAMIC, "--json")["functions"]
        self.assertEqual(f["inputs"], [{"name": "x", "dtype": "float16", "shape": [None, None, None]}])
        self.assertEqual([o["dtype"] for o in f["outputs"]], ["float16", "int32"])
        self.assertIn("float16 [?,?,?]", self.cairn("inspect", DYNAMIC)[0])

    def test_program_file(self):
        by_file = self.json("inspect", STATEFUL + "/main.mlirb", "--json")
        self.assertEqual(by_file["functions"], self.json("inspect", STATEFUL, "--json")["functions"])

    def test_images_and_several_functions(self):
        self.expect("inspect-interfaces.json", self.cairn("inspect", "data/assets/interfaces.aimodel", "--json")[0])

    def test_ir(self):
        with open(os.path.join(cli.TESTS, "data/assets/composite.txt"), encoding="utf-8") as f:
            whole = f.read()
        out = self.cairn("inspect", "data/assets/composite.aimodel", "--ir", "--bodies", "--locations", "--large-data")[
            0
        ]
        self.assertEqual(out.strip(), whole.strip())
        short = self.cairn("inspect", "data/assets/composite.aimodel", "--ir")[0]
        self.assertLess(len(short), len(whole))

    def test_weights(self):
        w = self.json("inspect", cli.BUNDLE, "--weights", "--json")["assets"][0]["weights"]
        self.assertEqual(len(w["list"]), w["arrays"])
        self.assertEqual(sum(x["stored_bytes"] for x in w["list"]), w["stored_bytes"])
        self.assertEqual(sum(d["arrays"] for d in w["dtypes"].values()), w["arrays"])

    def test_wrong_hash_is_a_warning(self):
        copy = self.path("changed.aimodel")
        shutil.copytree(os.path.join(cli.TESTS, STATEFUL), copy)
        with open(copy + "/main.hash", "wb") as f:
            f.write(b"0" * 64)
        warnings = self.json("inspect", copy, "--json")["warnings"]
        self.assertEqual(len(warnings), 1)
        self.assertIn("main.hash", warnings[0])

    def test_damaged_program(self):
        copy = self.path("damaged.aimodel")
        shutil.copytree(os.path.join(cli.TESTS, STATEFUL), copy)
        with open(copy + "/main.mlirb", "r+b") as f:
            f.truncate(300)
        err = self.fails("inspect", copy, code=1)
        self.assertIn("damaged.aimodel", err)
        self.assertNotIn("warning", err)

    def test_refusals(self):
        os.mkdir(self.path("model.h18p.aimodelc"))
        self.assertIn("another machine", self.fails("inspect", self.path("model.h18p.aimodelc"), code=1))
        self.fails("inspect", STATEFUL, "--bodies", code=64)
        self.fails("inspect", STATEFUL, "--ir", "--json", code=64)
        self.assertIn("no component", self.fails("inspect", STATEFUL, "--component", "vision", code=1))


class Bundles(cli.CliTest):
    def test_text(self):
        self.expect("inspect-bundle.txt", self.cairn("inspect", cli.BUNDLE)[0])

    def test_json(self):
        document = self.json("inspect", cli.BUNDLE, "--json")
        self.assertEqual(document["kind"], "bundle")
        self.assertEqual(document["bundle_kind"], "llm")
        self.assertEqual(document["metadata"]["language"]["vocab_size"], 384)
        self.assertEqual([a["role"] for a in document["assets"]], ["main"])
        self.assertEqual(document["functions"], document["assets"][0]["functions"])
        (f,) = document["functions"]
        self.assertEqual([s["name"] for s in f["states"]], ["keyCache", "valueCache"])
        self.assertEqual(f["states"][0]["shape"], [2, 1, 2, None, 32])
        self.assertEqual(document["ops"]["coreai.graph"], document["assets"][0]["ops"]["coreai.graph"])

    def test_missing_component(self):
        copy = self.path("bundle")
        shutil.copytree(os.path.join(cli.TESTS, cli.BUNDLE), copy)
        with open(copy + "/metadata.json", encoding="utf-8") as f:
            metadata = json.load(f)
        metadata["assets"]["vision"] = "vision.aimodel"
        with open(copy + "/metadata.json", "w", encoding="utf-8") as f:
            json.dump(metadata, f)
        out, err = self.cairn("inspect", copy, "--json", code=1)
        self.assertEqual([a["role"] for a in json.loads(out)["assets"]], ["main"])
        self.assertIn("vision", err)


class Gguf(cli.CliTest):
    def test_json(self):
        document = self.json("inspect", "data/gguf/q4_0.gguf", "--json")
        self.assertEqual(document["kind"], "gguf")
        self.assertEqual(document["architecture"], "llama")
        (f,) = document["functions"]
        self.assertEqual(f["name"], "main")
        self.assertEqual([i["name"] for i in f["inputs"]], ["input_ids", "position_ids"])
        self.assertEqual([s["shape"][3] for s in f["states"]], [None, None])
        self.assertEqual(document["metadata"]["general.architecture"], "llama")
        self.assertGreater(document["tensors"]["types"]["Q4_0"]["tensors"], 0)
        self.assertGreater(sum(document["ops"].values()), 10)

    def test_text(self):
        out = self.cairn("inspect", "data/gguf/f16.gguf")[0]
        for text in ("general.architecture", "F16", "function main", "input_ids", "tokenizer"):
            self.assertIn(text, out)

    def test_import_reports_the_same(self):
        report = self.json("import", "data/gguf/q4_0.gguf", "--check", "--json")
        self.assertEqual(report["functions"], self.json("inspect", "data/gguf/q4_0.gguf", "--json")["functions"])
        self.assertEqual(report["importer"], "gguf")
        self.assertIn("function main", self.cairn("import", "data/gguf/q4_0.gguf")[0])

    def test_import_writes_nothing_yet(self):
        err = self.fails("import", "data/gguf/q4_0.gguf", "-o", self.path("out"), code=1)
        self.assertIn("cannot write", err)
        self.assertFalse(os.path.exists(self.path("out")))


class Contract(cli.CliTest):
    def test_place_of_a_contract(self):
        # A model that cannot be opened shows that the place is looked at first.
        self.write("broken.mlirb", "nothing")
        for place, why in ((self.path("missing/c.json"), "does not exist"), (self.temporary, "that is a folder")):
            err = self.fails("inspect", self.path("broken.mlirb"), "--save-contract", place, code=1)
            self.assertIn("--save-contract " + place, err)
            self.assertIn(why, err)

    def saved(self, model):
        path = self.path("contract.json")
        self.assertEqual(self.cairn("inspect", model, "--save-contract", path)[0], "")
        with open(path, encoding="utf-8") as f:
            return path, json.load(f)

    def changed(self, change):
        """The diff after the function of a saved contract was edited."""
        path, contract = self.saved(cli.BUNDLE)
        change(contract["assets"][0]["functions"][0], contract)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(contract, f)
        out, err = self.cairn("inspect", cli.BUNDLE, "--expect", path, code=1)
        self.assertEqual(err, "")
        return out

    def test_file(self):
        path, contract = self.saved(cli.BUNDLE)
        self.assertEqual((contract["format"], contract["version"]), ("cairn-contract", 1))
        with open(path, encoding="utf-8") as f:
            self.expect("contract.json", f.read())

    def test_kept(self):
        for model in (cli.BUNDLE, STATEFUL, DYNAMIC, "data/assets/interfaces.aimodel", "data/gguf/f16.gguf"):
            path, _ = self.saved(model)
            out, _ = self.cairn("inspect", model, "--expect", path)
            self.assertEqual(out, "the contract of %s is kept\n" % path)
            self.assertEqual(
                self.json("inspect", model, "--expect", path, "--json"),
                {"contract": {"file": path, "matches": True, "differences": []}},
            )

    def test_dtype(self):
        def change(f, _):
            f["inputs"][0]["dtype"] = "int64"

        self.assertEqual(
            self.changed(change), "main/main: input 'input_ids': expected int64 [1,?], found int32 [1,?]\n"
        )

    def test_dims(self):
        def change(f, _):
            f["states"][1]["shape"][3] = 2048
            f["outputs"][0]["shape"][2] = None

        self.assertEqual(
            self.changed(change),
            "main/main: output 'logits': expected float16 [1,?,?], found float16 [1,?,384]\n"
            "main/main: state 'valueCache': expected float16 [2,1,2,2048,32], found float16 [2,1,2,?,32]\n",
        )

    def test_names(self):
        def change(f, _):
            f["inputs"][1]["name"] = "positions"
            f["outputs"].append({"name": "hidden", "dtype": "float32", "shape": []})

        self.assertEqual(
            self.changed(change),
            "main/main: input 'positions' is gone (expected int32 [1,?])\n"
            "main/main: input 'position_ids' is new (int32 [1,?])\n"
            "main/main: output 'hidden' is gone (expected float32 [])\n",
        )

    def test_order(self):
        def change(f, _):
            f["states"].reverse()

        self.assertEqual(
            self.changed(change),
            "main/main: order of the states: expected valueCache, keyCache; found keyCache, valueCache\n",
        )

    def test_functions_and_assets(self):
        def change(f, contract):
            f["name"] = "decode"
            contract["assets"].append({"role": "vision", "functions": []})

        self.assertEqual(
            self.changed(change),
            "main/decode: the function is gone\nmain/main: the function is new\nvision: the asset is gone\n",
        )

    def test_broken_files(self):
        self.assertIn(
            "'format' is missing", self.fails("inspect", cli.BUNDLE, "--expect", self.write("a.json", "{}"), code=1)
        )
        newer = self.write("b.json", '{"format":"cairn-contract","version":2,"assets":[]}')
        self.assertIn("version 2", self.fails("inspect", cli.BUNDLE, "--expect", newer, code=1))
        self.assertIn("line 1", self.fails("inspect", cli.BUNDLE, "--expect", self.write("c.json", "{"), code=1))


if __name__ == "__main__":
    cli.main()
