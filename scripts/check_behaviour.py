#!/usr/bin/env python3
"""Checks that every test docs/behaviour.md names exists. Exit 1 with a list otherwise."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# What programs of a folder are called in the document: FOLDER_NAME for the test NAME_test.c.
FOLDERS = {
    "lm": "tests/lm",
    "llm": "src/engines/llm",
    "vision": "src/engines/vision",
    "execute": "src/execute",
    "specialize": "src/specialize",
    "tensor": "src/tensor",
    "ref": "src/backend/cpu/ref",
    "grammar": "src/text/grammar",
    "dialogue": "src/text/dialogue",
}


def source_of(program):
    layer, _, name = program.partition("_")
    return os.path.join(ROOT, FOLDERS[layer], name + "_test.c") if layer in FOLDERS else None


def main():
    with open(os.path.join(ROOT, "docs/behaviour.md"), encoding="utf-8") as f:
        named = sorted(set(re.findall(r"\b([a-z_]+[a-z]): (test_\w+)", f.read())))
    bad = []
    for program, test in named:
        path = source_of(program)
        if not path or not os.path.exists(path):
            bad.append(f"{program}: there is no such test program")
            continue
        with open(path, encoding="utf-8") as f:
            if not re.search(rf"\bcmocka_unit_test\({test}\)|\bTEST\({test}\)|, {test}, NULL", f.read()):
                bad.append(f"{program}: {test} is not run by {os.path.relpath(path, ROOT)}")
    print("\n".join(bad) if bad else f"behaviour: {len(named)} tests are there")
    return 1 if bad or not named else 0


if __name__ == "__main__":
    sys.exit(main())
