"""The plugin for an installed coreai-core. What it gives Apple's files is tested without them, too."""

import asyncio
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from data import STATEFUL

from cairn import _coreai_native

HAS_COREAI = importlib.util.find_spec("coreai") is not None

PROGRAM = """
import asyncio, sys
import cairn.coreai_plugin
cairn.coreai_plugin.install()
cairn.coreai_plugin.install()
import numpy as np
from coreai.authoring import AIModelAsset
from coreai.runtime import AIModel, NDArray
async def main():
    asset = AIModelAsset.load(sys.argv[1])
    async with asset.executable() as model:
        function = model.load_function("main")
        state = {"state": NDArray(np.zeros(4, np.float32))}
        out = await function({"x": NDArray(np.ones(4, np.float32))}, state)
        print(out["doubled"].numpy().tolist(), state["state"].numpy().tolist(), type(out["doubled"]).__module__)
asyncio.run(main())
assert not any("_coreai_runtime.cpython" in line for line in open("/proc/self/maps"))
"""


class Native(unittest.TestCase):
    def test_array_copies(self):
        x = np.ones(3, np.float32)
        array = _coreai_native._NDArray(x, "bytes")
        x[0] = 9
        self.assertEqual(array.numpy().tolist(), [1, 1, 1])
        with self.assertRaises(TypeError):
            _coreai_native._NDArray("text", "bytes")
        with self.assertRaises(RuntimeError):
            _coreai_native._NDArray(x, "metal")

    def test_model(self):
        async def main():
            model = await _coreai_native._AIModel.load(STATEFUL)
            self.assertIsNone(model.load_function("absent"))
            function = model.load_function("main")
            state = _coreai_native._NDArray(np.zeros(4, np.float32))
            out = await function(inputs={"x": _coreai_native._NDArray(np.ones(4, np.float32))}, state={"state": state})
            self.assertIsInstance(out["doubled"], _coreai_native._NDArray)
            self.assertEqual(state.numpy().tolist(), [1, 1, 1, 1])

        asyncio.run(main())

    def test_asset(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new.aimodel"
            asset = _coreai_native._AIModelAsset._create(path)
            self.assertEqual(asset._program_bytecode_path, path / "main.mlirb")
            self.assertIsNone(asset.summary(include_statistics=True))
            asset.update_metadata(updates=lambda metadata: setattr(metadata, "_producer", "test 1"))
            self.assertEqual(asset.metadata._producer, "test 1")
        self.assertIsInstance(_coreai_native._AIModelAsset._dialect_version_for_os("v27"), int)
        with self.assertRaises(RuntimeError):
            _coreai_native._AIModelAsset("/there/is/nothing")


@unittest.skipUnless(HAS_COREAI, "coreai-core is not installed")
class Installed(unittest.TestCase):
    def test_apples_files_run_on_cairn(self):
        command = [sys.executable, "-c", PROGRAM, str(STATEFUL)]
        result = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), "[2.0, 2.0, 2.0, 2.0] [1.0, 1.0, 1.0, 1.0] coreai.runtime._ndarray")


if __name__ == "__main__":
    unittest.main()
