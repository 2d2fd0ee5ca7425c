"""The examples of docs/python.md about language models do what they say: they are run as they stand, one after another."""

import asyncio
import contextlib
import inspect
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

from data import GGUF

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def examples():
    section = PAGE.read_text().split("\n## Language models\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


class Examples(unittest.TestCase):
    def test_run(self):
        found, names, home = examples(), {}, Path.cwd()
        self.assertGreater(len(found), 7)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("model.gguf", "smaller.gguf"):
                (Path(folder) / name).symlink_to(GGUF)
            os.chdir(folder)
            try:
                for source in found:
                    with self.subTest(source), contextlib.redirect_stdout(io.StringIO()):
                        self.run_one(source, names)
                self.assertGreater(Path("trace.json").stat().st_size, 1000)
            finally:
                os.chdir(home)

    @staticmethod
    def run_one(source, names):
        exec(compile(source, "example", "exec"), names)
        main = names.pop("main", None)
        if inspect.iscoroutinefunction(main):
            asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
