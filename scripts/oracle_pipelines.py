"""Random tokenizer.json files: every kind of normalizer, pre-tokenizer, model, decoder and post-processor with random options."""

import base64
import struct

BYTE_CHARS = [chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 256)]] + [chr(256 + i) for i in range(68)]
BASE = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789.,!?'-_<>#") + list("éàüßøñçÅΣσςжЖאبक한日本語語々。、「」½²ﬁ̀́\u2581\u0120 \n\t")
WORDS = [
    "the",
    "he",
    "hello",
    "world",
    "ing",
    "er",
    "in",
    "an",
    "on",
    "re",
    "at",
    "is",
    "or",
    "12",
    "34",
    "123",
    "日本",
    "été",
    "'t",
    "'s",
    "!!",
]
SPECIALS = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "<|im_end|>",
    "mask",
    "the",
    " x",
    "A B",
    "é",
    "日",
    "\u2581t",
    "<a",
    "<a>b",
]
PATTERNS = [
    "\\s+",
    " ",
    "\\d",
    "\\d{1,3}",
    "\\w+",
    "\\w+|[^\\w\\s]+",
    "[aeiou]",
    "\\p{L}+|\\p{N}+",
    "(?i)the",
    "\\p{Lu}",
    "[^\\s]+",
    "\\n",
    "a|b|c",
    "(?<=a)b",
    "\\b",
    "(?=[A-Z])",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "\\s+(?!\\S)",
    ".",
    "[[:punct:]]",
    "\\h",
    "x*",
    "^.",
    ".$",
    "\\A\\s",
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[\\p{Han}\\p{Hiragana}]+",
    "[a-z&&[^aeiou]]+",
]
LITERALS = [" ", "  ", "a", "the", "\u2581", "é", "\n", "!", "aa", "'", "日", "<", "l"]


def charsmap(rules):
    """A SentencePiece charsmap: a double array over the bytes of the keys, and the texts."""
    texts, keys = b"", {}
    for key, value in rules.items():
        keys[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units, used = {0: 0}, {0}

    def place(prefix, node):
        children = sorted({k[len(prefix)] for k in keys if k.startswith(prefix) and len(k) > len(prefix)})
        labels = ([0] if prefix in keys else []) + children
        if not labels:
            return
        base = 1
        while any((node ^ base ^ label) in used or (base ^ node) == 0 for label in labels) or base >= 1 << 21:
            base += 1
        units[node] = units.get(node, 0) | (base << 10) | (0x100 if prefix in keys else 0)
        spots = {label: node ^ base ^ label for label in labels}
        used.update(spots.values())
        for label, spot in spots.items():
            units[spot] = (1 << 31 | keys[prefix]) if label == 0 else label
        for label in children:
            place(prefix + bytes([label]), spots[label])

    place(b"", 0)
    data = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(used) | 255) + 1))
    return base64.b64encode(struct.pack("<I", len(data)) + data + texts).decode()


class Pipeline:
    def __init__(self, r):
        self.r = r
        self.pick = r.choice

    def flag(self, chance=0.5):
        return self.r.random() < chance

    def several(self, make, most):
        return [make() for _ in range(self.r.randrange(1, most + 1))]

    def pattern(self):
        return {"String": self.pick(LITERALS)} if self.flag() else {"Regex": self.pick(PATTERNS)}

    # --- normalizers ---

    def normalizer(self, depth=0):
        kind = self.pick(
            [
                "NFC",
                "NFD",
                "NFKC",
                "NFKD",
                "Lowercase",
                "StripAccents",
                "Strip",
                "Replace",
                "Prepend",
                "Precompiled",
                "BertNormalizer",
                "Nmt",
                "ByteLevel",
                "Sequence",
                "Sequence",
                "Replace",
            ]
        )
        n = {"type": kind}
        if kind == "Strip":
            n.update(strip_left=self.flag(), strip_right=self.flag())
        elif kind == "Replace":
            n.update(pattern=self.pattern(), content=self.pick(["", " ", "\u2581", "x", "é!", "ab"]))
        elif kind == "Prepend":
            # An empty text leaves the package with a first character that comes from nowhere, and broken splits.
            n.update(prepend=self.pick(["\u2581", " ", "xy", "é"]))
        elif kind == "Precompiled":
            n.update(
                precompiled_charsmap=charsmap(
                    {
                        k: self.pick(["", " ", "a", "bc", "é", "\u2581"])
                        for k in self.r.sample(["é", "ﬁ", "A", "ab", "½", "日", "\u3000", "e\u0301", "한", "\n"], 5)
                    }
                )
            )
        elif kind == "BertNormalizer":
            n.update(
                clean_text=self.flag(),
                handle_chinese_chars=self.flag(),
                strip_accents=self.pick([None, True, False]),
                lowercase=self.flag(),
            )
        elif kind == "Sequence":
            n.update(normalizers=self.several(lambda: self.normalizer(depth + 1), 3) if depth < 2 else [])
        return n

    # --- pre-tokenizers ---

    def behavior(self):
        return self.pick(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])

    def pretokenizer(self, depth=0):
        kind = self.pick(
            [
                "ByteLevel",
                "ByteLevel",
                "Split",
                "Split",
                "Metaspace",
                "Metaspace",
                "Whitespace",
                "WhitespaceSplit",
                "BertPreTokenizer",
                "Punctuation",
                "Digits",
                "UnicodeScripts",
                "CharDelimiterSplit",
                "FixedLength",
                "Sequence",
                "Sequence",
            ]
        )
        p = {"type": kind}
        if kind == "ByteLevel":
            p.update(add_prefix_space=self.flag(), trim_offsets=self.flag(), use_regex=self.flag())
        elif kind == "Split":
            p.update(pattern=self.pattern(), behavior=self.behavior(), invert=self.flag(0.3))
        elif kind == "Metaspace":
            p.update(replacement=self.pick(["\u2581", "_", "é"]), prepend_scheme=self.pick(["first", "never", "always"]), split=self.flag())
        elif kind == "Punctuation":
            p.update(behavior=self.behavior())
        elif kind == "Digits":
            p.update(individual_digits=self.flag())
        elif kind == "CharDelimiterSplit":
            p.update(delimiter=self.pick([" ", "a", "é", ","]))
        elif kind == "FixedLength":
            p.update(length=self.r.randrange(1, 6))
        elif kind == "Sequence":
            p.update(pretokenizers=self.several(lambda: self.pretokenizer(depth + 1), 3) if depth < 2 else [])
        return p

    # --- models ---

    def base(self):
        chars = set(self.r.sample(BASE, self.r.randrange(20, len(BASE))))
        return sorted(chars | set(BYTE_CHARS)) if self.flag(0.6) else sorted(chars)

    def bytes_tokens(self):
        return [f"<0x{b:02X}>" for b in range(256) if self.flag(0.999)] if self.flag(0.4) else []

    def numbered(self, tokens):
        tokens = list(dict.fromkeys(tokens))
        self.r.shuffle(tokens)
        return {t: i for i, t in enumerate(tokens)}

    def bpe(self):
        prefix, suffix = self.pick([None, None, None, "##", ""]), self.pick([None, None, None, "</w>", ""])
        tokens, chars = [], self.base()
        for c in chars:
            tokens += (
                [c]
                + ([prefix + c] if prefix else [])
                + ([c + suffix] if suffix else [])
                + ([prefix + c + suffix] if prefix and suffix else [])
            )
        merges = []
        for _ in range(self.r.randrange(200)):
            left, right = self.pick(tokens[-400:]), self.pick(tokens[-400:])
            if (prefix and not right.startswith(prefix)) or (suffix and left.endswith(suffix)):
                continue
            joined = left + (right[len(prefix) :] if prefix else right)
            merges.append([left, right])
            tokens.append(joined)
        for word in WORDS:
            row = list(word)
            if not prefix and not suffix and all(c in chars for c in row):
                while len(row) > 1:
                    merges.append([row[0], row[1]])
                    row[:2] = [row[0] + row[1]]
                    tokens.append(row[0])
        self.r.shuffle(merges)
        unk = self.pick([None, "<unk>", "<unk>"])
        tokens += self.bytes_tokens() + ([unk] if unk else [])
        if self.flag(0.3) and not any(" " in part for m in merges for part in m):
            merges = [" ".join(m) for m in merges]
        return {
            "type": "BPE",
            "dropout": self.pick([None, None, 0.0]),
            "unk_token": unk,
            "continuing_subword_prefix": prefix,
            "end_of_word_suffix": suffix,
            "fuse_unk": self.flag(),
            "byte_fallback": self.flag(),
            "ignore_merges": self.flag(0.3),
            "vocab": self.numbered(tokens),
            "merges": merges,
        }

    def unigram(self):
        tokens = ["<unk>"] + self.base() + WORDS + ["\u2581" + w for w in WORDS] + self.bytes_tokens()
        chars = self.base()
        tokens += ["".join(self.pick(chars) for _ in range(self.r.randrange(2, 4))) for _ in range(60)]
        tokens = list(dict.fromkeys(tokens))
        scores = [round(-self.r.random() * self.pick([1, 10, 10]), self.pick([1, 3, 14])) for _ in tokens]
        return {
            "type": "Unigram",
            "unk_id": self.pick([0, 0, 0, None]),
            "vocab": [[t, s] for t, s in zip(tokens, scores)],
            "byte_fallback": self.flag(),
        }

    def wordpiece(self):
        prefix = self.pick(["##", "##", "", "é"])
        tokens = ["[UNK]"] + [t for c in self.base() + WORDS for t in ([c, prefix + c] if self.flag(0.9) else [c])]
        return {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": prefix,
            "max_input_chars_per_word": self.pick([100, 100, 5, 1]),
            "vocab": self.numbered(tokens),
        }

    def wordlevel(self):
        return {"type": "WordLevel", "vocab": self.numbered(["<unk>"] + WORDS + self.base()), "unk_token": "<unk>"}

    # --- decoders and post-processors ---

    def decoder(self, depth=0):
        kind = self.pick(
            [
                "ByteLevel",
                "ByteFallback",
                "Fuse",
                "Strip",
                "Replace",
                "Metaspace",
                "WordPiece",
                "CTC",
                "BPEDecoder",
                "Sequence",
                "Sequence",
                "Sequence",
            ]
        )
        d = {"type": kind}
        if kind == "ByteLevel":
            d.update(add_prefix_space=True, trim_offsets=True, use_regex=True)
        elif kind == "Strip":
            d.update(content=self.pick([" ", "a", "\u2581", "é"]), start=self.r.randrange(3), stop=self.r.randrange(3))
        elif kind == "Replace":
            d.update(pattern=self.pattern(), content=self.pick(["", " ", "x", "é!"]))
        elif kind == "Metaspace":
            d.update(replacement=self.pick(["\u2581", "_", "é"]), prepend_scheme=self.pick(["first", "never", "always"]), split=self.flag())
        elif kind == "WordPiece":
            d.update(prefix=self.pick(["##", "a"]), cleanup=self.flag())
        elif kind == "CTC":
            d.update(pad_token=self.pick(["<pad>", "a"]), word_delimiter_token=self.pick(["|", "!"]), cleanup=self.flag())
        elif kind == "BPEDecoder":
            d.update(suffix=self.pick(["</w>", "a", ""]))
        elif kind == "Sequence":
            d.update(decoders=self.several(lambda: self.decoder(depth + 1), 3) if depth < 2 else [])
        return d

    def template_part(self, name):
        return (
            {"Sequence": {"id": name, "type_id": self.r.randrange(3)}}
            if name in "AB"
            else {"SpecialToken": {"id": name, "type_id": self.r.randrange(3)}}
        )

    def postprocessor(self, depth=0):
        kind = self.pick(["TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"])
        p, one = {"type": kind}, self.r.randrange
        if kind == "TemplateProcessing":
            names = ["<s>", "</s>"]
            single = self.pick([["A"], ["<s>", "A"], ["<s>", "A", "</s>"], ["A", "</s>", "</s>"]])
            pair = self.pick([["A", "B"], ["<s>", "A", "</s>", "B", "</s>"], ["B", "<s>", "A"]])
            p.update(
                single=[self.template_part(n) for n in single],
                pair=[self.template_part(n) for n in pair],
                special_tokens={n: {"id": n, "ids": [one(9) for _ in range(self.pick([1, 1, 2]))], "tokens": [n]} for n in names},
            )
            for n in names:
                p["special_tokens"][n]["tokens"] = [n] * len(p["special_tokens"][n]["ids"])
        elif kind == "BertProcessing":
            p.update(sep=["[SEP]", one(9)], cls=["[CLS]", one(9)])
        elif kind == "RobertaProcessing":
            p.update(sep=["</s>", one(9)], cls=["<s>", one(9)], trim_offsets=self.flag(), add_prefix_space=self.flag())
        elif kind == "ByteLevel":
            p.update(add_prefix_space=self.flag(), trim_offsets=self.flag(), use_regex=self.flag())
        else:
            p.update(processors=self.several(lambda: self.postprocessor(depth + 1), 2) if depth < 1 else [])
        return p

    # --- the whole ---

    def added_tokens(self, vocab):
        rows, size = [], len(vocab)
        for content in self.r.sample(SPECIALS, self.r.randrange(6)):
            known = vocab.get(content) if isinstance(vocab, dict) else None
            rows.append(
                {
                    "id": known if known is not None else size,
                    "content": content,
                    "single_word": self.flag(0.2),
                    "lstrip": self.flag(0.3),
                    "rstrip": self.flag(0.3),
                    "normalized": self.flag(),
                    "special": self.flag(),
                }
            )
            size += known is None
        return sorted(rows, key=lambda row: row["id"])

    def truncation(self):
        return {
            "direction": self.pick(["Left", "Right"]),
            "max_length": self.r.randrange(3, 24),
            "strategy": self.pick(["LongestFirst", "LongestFirst", "OnlyFirst", "OnlySecond"]),
            "stride": self.pick([0, 0, 1]),
        }

    def padding(self):
        return {
            "strategy": self.pick(["BatchLongest", {"Fixed": self.r.randrange(20)}]),
            "direction": self.pick(["Left", "Right"]),
            "pad_to_multiple_of": self.pick([None, 8, 3]),
            "pad_id": self.r.randrange(9),
            "pad_type_id": self.r.randrange(3),
            "pad_token": "<pad>",
        }

    def tokenizer(self):
        model = self.pick([self.bpe, self.bpe, self.bpe, self.unigram, self.wordpiece, self.wordlevel])()
        vocab = model["vocab"] if isinstance(model["vocab"], dict) else {t: i for i, (t, _) in enumerate(model["vocab"])}
        maybe = lambda make, chance: make() if self.flag(chance) else None  # noqa: E731
        return {
            "version": "1.0",
            "truncation": maybe(self.truncation, 0.15),
            "padding": maybe(self.padding, 0.15),
            "added_tokens": self.added_tokens(vocab),
            "normalizer": maybe(self.normalizer, 0.7),
            "pre_tokenizer": maybe(self.pretokenizer, 0.8),
            "post_processor": maybe(self.postprocessor, 0.6),
            "decoder": maybe(self.decoder, 0.8),
            "model": model,
        }
