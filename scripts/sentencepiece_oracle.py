#!/usr/bin/env python3
"""Compares cairn with the `sentencepiece` package on small models trained with random options.

    sentencepiece_oracle.py --library libcairn.so [--count 60] [--texts 300] [--seed S] [--keep FOLDER]

Each model is trained on a mixed corpus, then its file is changed at random (pieces marked unused, options of the normalizer)
and both read it: ids, decoded and streamed text must be equal. Needs the packages sentencepiece and protobuf. --keep stores
the models.
"""

import argparse
import os
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

import oracle_cairn
import oracle_texts

RULES = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Hello world, hello there! 12345 67,890",
    "naïve café déjà vu — Straße",
    "日本語のテキストと漢字。",
    "Привет, как дела?",
    "def f(x):\n\treturn x + 1",
    "  two  spaces   three ",
    "안녕하세요 세계",
    "aaaa bbbb abab baba",
    "URL http://example.org/a?b=c&d=e",
    "ﬁne ½ ² Ⅷ ＡＢＣ",
]


class Collect:
    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data


def train(r):
    maker = oracle_texts.Maker(r.randrange(1 << 30))
    lines = [" ".join(r.choice(SENTENCES).split(" ")[r.randrange(3) :]) for _ in range(400)] + [
        oracle_texts.as_text(maker.text()).replace("\n", " ") for _ in range(100)
    ]
    kind = r.choice(["unigram", "unigram", "bpe", "bpe", "word", "char"])
    options = {
        "model_type": kind,
        "vocab_size": r.choice([900, 1100, 1500]) if kind not in ("char", "word") else r.choice([60, 150]),
        "hard_vocab_limit": False,
        "character_coverage": r.choice([0.98, 0.99, 1.0]),
        "byte_fallback": kind in ("unigram", "bpe") and r.random() < 0.5,
        "normalization_rule_name": r.choice(RULES),
        "add_dummy_prefix": r.random() < 0.7,
        "remove_extra_whitespaces": r.random() < 0.5,
        "treat_whitespace_as_suffix": kind not in ("word",) and r.random() < 0.3,
        "split_digits": r.random() < 0.3,
        "split_by_whitespace": r.random() < 0.8,
        "allow_whitespace_only_pieces": r.random() < 0.3,
        "user_defined_symbols": r.sample(["<sep>", "ab", " x", "日本", "the", "<0x41>", "▁q", "  ", "ﬁ"], r.randrange(5)),
        "control_symbols": r.sample(["<ctl>", "[INST]"], r.randrange(3)),
        "pad_id": r.choice([-1, 3]),
        "unk_surface": r.choice([" \u2047 ", "?", "<unk>", ""]),
    }
    if options["byte_fallback"] and "<0x41>" in options["user_defined_symbols"]:
        options["user_defined_symbols"].remove("<0x41>")
    out = Collect()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, minloglevel=2, num_threads=1, **options)
    return out.data


def change(r, data):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(data)
    if r.random() < 0.3:
        for piece in proto.pieces:
            if piece.type == 1 and r.random() < 0.15:
                piece.type = 5
    for name in ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        if r.random() < 0.15:
            setattr(proto.normalizer_spec, name, not getattr(proto.normalizer_spec, name))
    if r.random() < 0.2:
        for piece in proto.pieces:
            piece.score = float(round(piece.score))
    return proto.SerializeToString()


def compare(r, theirs, ours, texts, name):
    """Comparisons and differences."""
    n = wrong = 0
    size = theirs.get_piece_size()
    maker = oracle_texts.Maker(r.randrange(1 << 30))
    maker.tokens = [theirs.id_to_piece(i).replace("▁", " ") for i in range(size)]
    for i in range(texts):
        text = maker.text()
        wanted, got = theirs.encode(oracle_texts.as_text(text)), ours.ids(text, i % 2 == 0)
        pairs = [("ids", text, wanted, got)]
        ids = wanted if i % 2 else [r.randrange(size) for _ in range(r.randrange(20))]
        decoded = theirs.decode(ids)
        pairs += [("decoded", ids, decoded, ours.decode(ids, False)), ("streamed", ids, decoded, ours.stream(ids, False))]
        for what, where, one, other in pairs:
            n += 1
            if one != other:
                wrong += 1
                if wrong <= 3:
                    print(f"{name}: {what} of {where!r}\n  wanted {str(one)[:400]!r}\n  got    {str(other)[:400]!r}")
    return n, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.environ.get("CAIRN_LIBRARY", "libcairn.so"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    args = parser.parse_args()
    library, total, bad, models = oracle_cairn.Library(args.library), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            r = random.Random(seed)
            try:
                data = change(r, train(r))
                theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
            except RuntimeError as error:
                print(f"seed {seed}: {str(error)[:200]}")
                continue
            path = os.path.join(args.keep or folder, f"{seed}.model")
            with open(path, "wb") as f:
                f.write(data)
            ours = library.open(path)
            if isinstance(ours, str):
                bad += 1
                print(f"seed {seed}: {ours}")
                continue
            n, wrong = compare(r, theirs, ours, args.texts, f"seed {seed}")
            ours.close()
            models, total, bad = models + 1, total + n, bad + wrong
    print(f"{models} models, {total} comparisons, {bad} differ")
    return 1 if bad or not total else 0


if __name__ == "__main__":
    sys.exit(main())
