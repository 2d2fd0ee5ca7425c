"""Running the cairn program and comparing what it says with files under expected/.

Every test module runs alone: python3 test_run.py. CAIRN_PROGRAM names the program (default: cairn of the build folder).
With UPDATE_EXPECTED=1 the expected files are rewritten instead of compared; look at the difference before keeping it.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
PROGRAM = os.path.abspath(os.environ.get("CAIRN_PROGRAM", os.path.join(TESTS, "..", "build", "cairn")))
BUNDLE = "cli/data/bundle"


class CliTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.mkdtemp(prefix="cairn-cli-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temporary)

    def path(self, name):
        """A path in the test's own folder."""
        return os.path.join(self.temporary, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def cairn(self, *arguments, code=0, stdin="", program=PROGRAM, environment=None):
        """Runs the program in the tests folder. Checks the exit code, returns (stdout, stderr)."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("CAIRN_", "COREAI_"))}
        variables.update(environment or {}, LC_ALL="C.UTF-8")
        done = subprocess.run(
            [program, *arguments], input=stdin.encode(), capture_output=True, cwd=TESTS, env=variables, timeout=240
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(
            done.returncode, code, "%s\nstdout: %s\nstderr: %s" % (" ".join(arguments), out[-2000:], err[-2000:])
        )
        return out, err

    def json(self, *arguments, **options):
        return json.loads(self.cairn(*arguments, **options)[0])

    def fails(self, *arguments, code, **options):
        """Runs something that must fail without output on stdout. Returns the message."""
        out, err = self.cairn(*arguments, code=code, **options)
        self.assertEqual(out, "")
        return err

    def expect(self, name, text):
        """Compares a text with expected/NAME."""
        path = os.path.join(HERE, "expected", name)
        if os.environ.get("UPDATE_EXPECTED"):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(text, f.read(), "differs from expected/" + name)


def main():
    unittest.main()
