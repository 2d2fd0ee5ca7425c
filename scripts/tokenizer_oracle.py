#!/usr/bin/env python3
"""Compares cairn's tokenizers with the `tokenizers` package on random texts: ids, types, places, decoded and streamed text.

    tokenizer_oracle.py check  [--count 20000] [--seed S] [PATH ...]   tokenizer.json files or folders of them
    tokenizer_oracle.py random [--count 500] [--texts 40] [--seed S]   random configurations of every kind of part

Both need --library libcairn.so (or CAIRN_LIBRARY) and the package. Without PATH all tokenizers of tests/data and of the
shared corpora are taken. Texts mix scripts, white space, control characters, emoji and pieces of the vocabulary; every
eighth holds malformed UTF-8, which both get as U+FFFD. The first differences are printed with what reproduces them.
"""

import argparse
import glob
import json
import os
import random
import sys

import tokenizers

import oracle_cairn
import oracle_pipelines
import oracle_texts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = [
    "tests/data/tokenizer/*/tokenizer.json",
    "../shared/corpus/tokenizer/*/tokenizer.json",
    "../shared/models/*/tokenizer/tokenizer.json",
]


class Tally:
    """Counts comparisons and prints the first differences of each kind."""

    def __init__(self):
        self.n, self.wrong, self.both_fail, self.panics = 0, 0, 0, 0
        self.shown = {}
        self.places = True

    def same(self, what, wanted, got, *where):
        self.n += 1
        if wanted == got:
            return True
        self.wrong += 1
        kind = (what, where[0])
        self.shown[kind] = self.shown.get(kind, 0) + 1
        if self.shown[kind] <= 2 and len(self.shown) <= 40:
            print(f"{what}: {' '.join(map(repr, where))[:1500]}\n  wanted {str(wanted)[:600]}\n  got    {str(got)[:600]}")
        return False


def has_sane_places(source):
    """The package counts the bytes of an affix that falls back to bytes as bytes of the text, and points anywhere then."""
    model = json.loads(source).get("model", {})
    return not (model.get("byte_fallback") and (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")))


def is_settled(source, theirs):
    """Of added tokens that read the same when normalized the package finds one at random."""
    texts = [t["content"] for t in json.loads(source)["added_tokens"] if t["normalized"]]
    normal = [theirs.normalizer.normalize_str(t) if theirs.normalizer else t for t in texts]
    return len(set(normal)) == len(normal)


def byte_places(text, encoding, tokens):
    """Places in bytes, and what cairn says for the same tokens. Places the package puts outside of the text are left out."""
    texts = [oracle_texts.as_text(t) for t in text]
    starts = []
    for t in texts:
        at, row = 0, []
        for c in t:
            row.append(at)
            at += len(c.encode("utf-8"))
        starts.append(row + [at])
    wanted, got = [], []
    for (begin, end), token in zip(encoding.offsets, tokens):
        row = starts[token[2]] if token[2] >= 0 else [0]
        if begin >= len(row) or end >= len(row):
            continue
        wanted.append((row[begin], row[end]))
        got.append(token[3:])
    return wanted, got


def compare_text(tally, theirs, ours, text, special, name):
    """`text` is one text or a pair, as str or bytes."""
    plain = [oracle_texts.as_text(t) for t in text]
    try:
        encoding = theirs.encode(*plain, add_special_tokens=special)
    except BaseException as error:  # pylint: disable=broad-except
        # A panic of the package is no answer; an error should be one here as well.
        if type(error).__name__ == "PanicException":
            tally.panics += 1
        else:
            tally.both_fail += 1
            tally.same("error", "a failure", "a failure" if isinstance(ours.encode(text, special), str) else "ids", name, text)
        return None
    tokens = ours.encode(text, special)
    if isinstance(tokens, str):
        return tally.same("encode", encoding.ids, tokens, name, text) and None
    where = (name, text, special)
    tally.same("ids", encoding.ids, [t[0] for t in tokens], *where)
    tally.same("types", encoding.type_ids, [t[1] for t in tokens], *where)
    tally.same("plain", [t[0] for t in tokens], ours.ids(text[0], special) if len(text) == 1 else [t[0] for t in tokens], *where)
    if tally.places and encoding.ids == [t[0] for t in tokens] and all(isinstance(t, str) for t in text):
        wanted, got = byte_places(text, encoding, tokens)
        tally.same("places", wanted, got, *where)
    return encoding.ids


def compare_ids(tally, theirs, ours, ids, skip, name):
    try:
        wanted = theirs.decode(ids, skip_special_tokens=skip)
    except BaseException:  # pylint: disable=broad-except
        tally.panics += 1
        return
    tally.same("decoded", wanted, ours.decode(ids, skip), name, ids, skip)
    tally.same("streamed", wanted, ours.stream(ids, skip), name, ids, skip)


def compare(tally, theirs, ours, maker, count, name):
    size = max(theirs.get_vocab_size(), 1)
    for i in range(count):
        texts = [maker.text()] if i % 16 else [maker.text(), maker.text()]
        ids = compare_text(tally, theirs, ours, texts, i % 3 > 0, name)
        if ids is not None:
            compare_ids(tally, theirs, ours, ids, i % 2 == 0, name)
        if i % 4 == 0:
            compare_ids(tally, theirs, ours, [maker.r.randrange(size + 2) for _ in range(maker.r.randrange(24))], i % 8 == 0, name)


def find_files(paths):
    if not paths:
        paths = sorted(p for pattern in FOLDERS for p in glob.glob(os.path.join(ROOT, pattern)))
    return [os.path.join(p, "tokenizer.json") if os.path.isdir(p) else p for p in paths]


def check(args, library):
    total = Tally()
    for path in find_files(args.paths):
        name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as f:
            source = f.read()
        try:
            theirs = tokenizers.Tokenizer.from_str(source)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"{name:60} refused by the package: {error}")
            continue
        ours = library.load(source)
        if isinstance(ours, str):
            total.same("load", "a tokenizer", ours, name)
            continue
        before, wrong = total.n, total.wrong
        compare(total, theirs, ours, oracle_texts.Maker(args.seed, theirs), args.count, name)
        ours.close()
        print(f"{name:60} {args.count} texts, {total.n - before} comparisons, {total.wrong - wrong} differ", flush=True)
    print(f"{total.n} comparisons, {total.wrong} differ, {total.both_fail} fail in both, {total.panics} panics of the package")
    return 1 if total.wrong or not total.n else 0


def random_pipelines(args, library):
    total, loaded, refused = Tally(), 0, {}
    for i in range(args.count):
        seed = args.seed + i
        source = json.dumps(oracle_pipelines.Pipeline(random.Random(seed)).tokenizer())
        try:
            theirs = tokenizers.Tokenizer.from_str(source)
        except BaseException as error:  # pylint: disable=broad-except
            reason = str(error).split(" at line")[0][:60]
            refused[reason] = refused.get(reason, 0) + 1
            continue
        if not is_settled(source, theirs):
            continue
        loaded += 1
        total.places = has_sane_places(source)
        ours = library.load(source)
        if isinstance(ours, str):
            total.same("load", "a tokenizer", ours, f"--seed {seed} --count 1")
            continue
        compare(total, theirs, ours, oracle_texts.Maker(seed, theirs), args.texts, f"--seed {seed} --count 1")
        ours.close()
    print(f"{loaded} configurations, refused by the package: {refused}")
    print(f"{total.n} comparisons, {total.wrong} differ, {total.both_fail} fail in both, {total.panics} panics of the package")
    return 1 if total.wrong or not total.n else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.environ.get("CAIRN_LIBRARY", "libcairn.so"))
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("--count", type=int, default=20000)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("paths", nargs="*")
    one.set_defaults(run=check)
    one = commands.add_parser("random")
    one.add_argument("--count", type=int, default=500)
    one.add_argument("--texts", type=int, default=40)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=random_pipelines)
    args = parser.parse_args()
    return args.run(args, oracle_cairn.Library(args.library))


if __name__ == "__main__":
    sys.exit(main())
