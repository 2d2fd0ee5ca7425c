"""Assets on disk: metadata, summary, running."""

import asyncio
import json
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np
from data import INTERFACES, STATEFUL

import cairn
from cairn import AIModelAsset, AIModelAssetMetadata


class Metadata(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "copy.aimodel"
        shutil.copytree(STATEFUL, self.path)

    def test_update(self):
        asset = AIModelAsset.load(self.path)
        before = json.loads((self.path / "metadata.json").read_text())

        def change(metadata):
            metadata.author = "A"
            metadata.license = "L"
            metadata.model_description = "D"
            metadata.creation_date = 1795954304.5
            metadata.set_custom("list", [1, {"a": 2.5, "b": True}])
            metadata.set_custom("gone", "x")
            metadata.remove_custom("gone")

        asset.update_metadata(change)
        values = json.loads((self.path / "metadata.json").read_text())
        self.assertEqual(values["author"], "A")
        self.assertEqual(values["license"], "L")
        self.assertEqual(values["description"], "D")
        self.assertEqual(values["creationDate"], "20261129T121144Z")
        self.assertEqual(values["creatorDefinedMetadata"], {"list": [1, {"a": 2.5, "b": True}]})
        self.assertEqual(values["assetVersion"], before["assetVersion"])
        self.assertEqual(values.get("producer"), before.get("producer"))
        again = AIModelAsset.load(self.path).metadata
        self.assertEqual((again.author, again.custom_metadata["list"]), ("A", [1, {"a": 2.5, "b": True}]))
        self.assertEqual(again.creation_date, 1795954304.0)
        self.assertEqual(sorted(p.name for p in self.path.iterdir()), sorted(p.name for p in STATEFUL.iterdir()))
        self.assertEqual(cairn.AIModel.load_sync(self.path).function_names, ["main"])

    def test_a_failed_update_changes_nothing(self):
        before = (self.path / "metadata.json").read_text()

        def change(metadata):
            metadata.author = "A"
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            AIModelAsset.load(self.path).update_metadata(change)
        self.assertEqual((self.path / "metadata.json").read_text(), before)

    def test_wrong_values(self):
        for wrong in (None, object(), {1: 2}, [None]):
            with self.assertRaises(TypeError):
                AIModelAssetMetadata().set_custom("key", wrong)

    def test_malformed(self):
        (self.path / "metadata.json").write_text("{")
        with self.assertRaises(cairn.CorruptError):
            AIModelAsset.load(self.path)

    def test_wrong_hash_is_a_warning(self):
        if (self.path / "main.hash").exists():
            (self.path / "main.hash").write_bytes(bytes(32))
            self.assertTrue(cairn.AIModel.load_sync(self.path).warnings)


class Assets(unittest.TestCase):
    def test_summary(self):
        summary = AIModelAsset.load(STATEFUL).summary()
        self.assertEqual(summary.function_names, ["main"])
        self.assertEqual(summary.function_inputs("main"), [("x", "NDArray (Float32, 4)")])
        self.assertEqual(summary.function_states("main"), [("state", "NDArray (Float32, 4)")])
        self.assertEqual([name for name, _ in summary.function_outputs("main")], ["doubled", "plus_one"])
        self.assertIn(("read_handle", 2), summary.operation_distribution)
        self.assertEqual(AIModelAsset.load(STATEFUL).summary(include_statistics=False).operation_distribution, [])
        with self.assertRaises(KeyError):
            summary.function_inputs("absent")
        self.assertIn("plain", AIModelAsset.load(INTERFACES).summary().function_names)

    def test_is_valid(self):
        self.assertTrue(AIModelAsset.is_valid(STATEFUL))
        self.assertFalse(AIModelAsset.is_valid(STATEFUL.parent))
        self.assertFalse(AIModelAsset.is_valid("/there/is/nothing.aimodel"))
        with self.assertRaises(cairn.NotFoundError):
            AIModelAsset.load("/there/is/nothing.aimodel")
        with self.assertRaises(RuntimeError):
            AIModelAsset()

    def test_executable(self):
        async def main():
            async with AIModelAsset.load(STATEFUL).executable() as model:
                function = model.load_function("main")
                return await function({"x": np.ones(4, np.float32)}, function.make_state())

        self.assertEqual(asyncio.run(main())["doubled"].tolist(), [2, 2, 2, 2])


if __name__ == "__main__":
    unittest.main()
