#!/usr/bin/env python3
"""Runs the cases that come with the vocabularies of real models through `cairn tokenize`.

    vocab_oracle.py [--program CAIRN] [--cached] [NAME ...]     NAME: parts of file names; default: all

The vocabularies are those of scripts/fetch_llama_models. Every case of a .inp file must give exactly the ids of its line in
the .out file; a vocabulary without cases must load, and text must come back as it was. --cached fetches nothing and ends
with code 77 (skipped) when the files are not there.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEPARATOR = "\n__ggml_vocab_test__(?:\n|$)"
SKIPPED = 77


def find_folder(cached):
    command = [os.path.join(ROOT, "scripts", "fetch_llama_models")] + (["--cached"] if cached else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def read_cases(path):
    """Pairs of text and ids; none when the vocabulary comes without."""
    if not os.path.exists(path + ".inp"):
        return []
    with open(path + ".inp", encoding="utf-8", newline="") as f:
        texts = re.split(SEPARATOR, f.read())
    with open(path + ".out", encoding="utf-8") as f:
        ids = [[int(word) for word in line.split()] for line in f.read().split("\n")]
    # Nothing behind the last separator, and behind the last line end, is no case.
    if texts[-1] == "":
        texts.pop()
    if not ids[-1]:
        ids.pop()
    if len(texts) != len(ids):
        sys.exit(f"{path}: {len(texts)} texts, {len(ids)} lines of ids")
    return list(zip(texts, ids))


def convert(program, path, objects, *arguments):
    """One answer per object, or a message."""
    lines = "".join(json.dumps(o) + "\n" for o in objects)
    done = subprocess.run([program, "tokenize", path, "--json-lines", *arguments], input=lines.encode(), capture_output=True, check=False)
    if done.returncode:
        return done.stderr.decode(errors="replace").strip()
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def check(program, path, texts):
    name, cases = os.path.basename(path), read_cases(path)
    wanted = [ids for _, ids in cases]
    inputs = [text for text, _ in cases] or texts
    answers = convert(program, path, [{"text": text, "add_special_tokens": False} for text in inputs])
    if isinstance(answers, str):
        print(f"{name:40} {answers}")
        return 0, 1
    wrong = 0
    for i, answer in enumerate(answers):
        if wanted and answer["ids"] != wanted[i]:
            wrong += 1
            print(f"{name}: {inputs[i]!r}\n  wanted {wanted[i]}\n  got    {answer['ids']}")
    print(f"{name:40} {len(wanted):4} cases, {wrong} wrong" + ("" if wanted else f" ({len(inputs)} texts encoded, no ids to compare)"))
    return len(wanted), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("CAIRN_PROGRAM", "cairn"))
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    folder = find_folder(args.cached)
    if not folder:
        print("the vocabularies are not in the cache (scripts/fetch_llama_models)")
        return SKIPPED if args.cached else 1
    paths = sorted(p for p in glob.glob(os.path.join(folder, "ggml-vocab-*.gguf")) if not args.names or any(n in p for n in args.names))
    texts = [text for path in paths for text, _ in read_cases(path)][:64]
    total = wrong = 0
    for path in paths:
        n, bad = check(args.program, path, texts)
        total, wrong = total + n, wrong + bad
    print(f"{len(paths)} vocabularies, {total} cases, {wrong} wrong")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
