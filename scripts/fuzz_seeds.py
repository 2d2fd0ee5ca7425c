#!/usr/bin/env python3
"""Puts seeds for one fuzz target into a corpus folder:  fuzz_seeds.py TARGET FOLDER

Seeds come from tests/data, and from the full corpora when they lie beside the checkout. Files above 128 KiB are left out:
a fuzzer gets nowhere with them.
"""
import glob
import json
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.join(ROOT, "..", "shared")
PATTERNS = {
    "mlirbc": ["tests/data/**/main.mlirb", "../shared/corpus/probes/*/model.aimodel/main.mlirb"],
    "gguf": ["tests/data/gguf/**/*.gguf"],
    "safetensors": ["tests/data/**/*.safetensors"],
    "tokenizer": ["tests/data/tokenizer/**/*.json"],
    "sentencepiece": ["tests/data/tokenizer/**/*.model"],
    "template": ["tests/data/template/**/*.jinja", "../shared/corpus/chat_template/templates/*.jinja"],
    "bundle": ["tests/data/**/metadata.json", "../shared/models/*/metadata.json"],
}


def dialogue_seeds(folder):
    """The cases of the unit test: a byte for the format, one for options and cuts, the text."""
    header = open(os.path.join(ROOT, "include/cairn/dialogue.h"), encoding="utf-8").read()
    formats = {name: int(value) for name, value in re.findall(r"X\((\w+), (\d+), \"", header)}
    source = open(os.path.join(ROOT, "src/text/dialogue/dialogue_cases.h"), encoding="utf-8").read()
    count = 0
    for name, literals in re.findall(r'CASE\(\s*(\w+),\s*((?:"(?:\\.|[^"\\])*"\s*)+),', source):
        text = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', literals))
        escapes = text.encode("utf-8").decode("latin-1").encode("latin-1").decode("unicode_escape")
        with open(os.path.join(folder, f"seed{count:04d}"), "wb") as f:
            f.write(bytes([formats[name], count * 8 & 0xFF]) + escapes.encode("latin-1"))
        count += 1
    return count


def grammar_seeds(folder):
    """The cases and schemas of the unit test behind a byte for the kind."""
    kinds = {"json": 0, "schema": 1, "regex": 2, "ebnf": 3}
    base = os.path.join(ROOT, "tests/data/grammar")
    cases = json.load(open(os.path.join(base, "cases.json"), encoding="utf-8"))
    texts = [(kinds[c["kind"]], c["text"]) for c in cases["cases"] + cases["refused"]]
    texts += [(kinds["schema"], json.dumps(s)) for s in json.load(open(os.path.join(base, "schemas.json"), encoding="utf-8")).values()]
    for i, (kind, text) in enumerate(texts):
        with open(os.path.join(folder, f"seed{i:04d}"), "wb") as f:
            f.write(bytes([kind]) + text.encode("utf-8"))
    return len(texts)


# What a target expects in front of the file: here a text and its length.
PREFIXES = {"sentencepiece": b"\x12\x00 Hello  w\xc3\xb6rld <s>"}


def put_in_front(path, prefix):
    with open(path, "rb") as f:
        data = f.read()
    if prefix:
        with open(path, "wb") as f:
            f.write(prefix + data)


def main():
    target, folder = sys.argv[1:]
    makers = {"dialogue": dialogue_seeds, "grammar": grammar_seeds}
    count = makers[target](folder) if target in makers else 0
    for pattern in PATTERNS.get(target, []):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            if os.path.isfile(path) and os.path.getsize(path) <= 1 << 17:
                seed = os.path.join(folder, f"seed{count:04d}")
                shutil.copyfile(path, seed)
                put_in_front(seed, PREFIXES.get(target, b""))
                count += 1
    print(f"{count} seeds for {target}")


if __name__ == "__main__":
    main()
