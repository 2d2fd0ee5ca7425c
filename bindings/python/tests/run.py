"""Runs the tests of the Python module.

    run.py                     with this interpreter and its numpy
    run.py SPEC...             in an environment of its own with these packages, e.g. "numpy==1.26.*"
    run.py --wheel SOURCE      builds the wheel of the source tree with pip, installs it and uses it

Exit status 77 says that something that is needed cannot be had (numpy, the packages of an environment): skipped.
"""

import os
import re
import subprocess
import sys
import unittest
import venv
from pathlib import Path

SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run_tests():
    try:
        import numpy
    except ImportError:
        skip("there is no numpy")
    print(f"Python {sys.version.split()[0]}, numpy {numpy.__version__}", flush=True)
    suite = unittest.defaultTestLoader.discover(str(Path(__file__).parent), pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    if result.testsRun == 0:
        sys.exit("no tests were found")
    sys.exit(0 if result.wasSuccessful() else 1)


def make_environment(name):
    folder = Path(os.environ.get("CAIRN_PYTHON_ENVIRONMENTS", "python-environments")) / name
    python = folder / "bin" / "python"
    if not python.exists():
        try:
            venv.create(folder, with_pip=True, clear=True)
        except (subprocess.CalledProcessError, OSError) as error:
            skip(f"no environment can be made: {error}")
    return python


def install(python, packages):
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run([*pip, "--only-binary", ":all:", *packages], **quiet).returncode != 0:
        skip(f"{' '.join(packages)} cannot be installed here")


def run_in_environment(packages):
    python = make_environment(re.sub(r"[^a-z0-9.]+", "-", "_".join(packages)))
    install(python, packages)
    sys.exit(subprocess.run([str(python), "-B", __file__]).returncode)


def run_wheel(source):
    python = make_environment("wheel")
    install(python, ["scikit-build-core>=0.10", "numpy", "ninja"])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]
    build = ["--no-build-isolation", "--config-settings", f"build-dir={python.parent.parent / 'build'}"]
    # On a machine that is busy cmake takes its time to answer; scikit-build-core waits longer where it believes in CI.
    subprocess.run([*pip, *build, source], check=True, env={**os.environ, "CI": "1"})
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    check = "import cairn, pathlib; f = pathlib.Path(cairn.__file__).parent; print(cairn.__version__, f)"
    check += "; assert (f / '_native.abi3.so').is_file() and (f / 'py.typed').is_file()"
    # What is linked in brings its licence along.
    check += "; n = {str(p.parent.name) + '/' + p.name for p in f.parent.glob('cairn-*.dist-info/licenses/*/*') if p.stat().st_size}"
    check += "; assert not cairn.has_guides() or n >= {'xgrammar/LICENSE', 'xgrammar/NOTICE', 'picojson/LICENSE'}, n"
    subprocess.run([str(python), "-c", check], check=True, env=environment)
    sys.exit(subprocess.run([str(python), "-B", __file__], env=environment).returncode)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--wheel"]:
        run_wheel(sys.argv[2])
    elif len(sys.argv) > 1:
        run_in_environment(sys.argv[1:])
    else:
        run_tests()
