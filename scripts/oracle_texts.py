"""Random texts for comparing tokenizers."""

import random

RANGES = [
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0xA0, 0x17F),
    (0x300, 0x36F),
    (0x370, 0x3FF),
    (0x400, 0x45F),
    (0x5D0, 0x5EA),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0xE00, 0xE5B),
    (0x1100, 0x11FF),
    (0x1E00, 0x1EFF),
    (0x1F00, 0x1FFF),
    (0x2000, 0x206F),
    (0x2070, 0x218F),
    (0x3000, 0x30FF),
    (0x4E00, 0x4FFF),
    (0xAC00, 0xACFF),
    (0xFB00, 0xFB06),
    (0xFB50, 0xFDFF),
    (0xFF00, 0xFFEF),
    (0x1D400, 0x1D4FF),
    (0x1F300, 0x1F64F),
    (0x1F1E6, 0x1F1FF),
    (0x20000, 0x20040),
    (0xE000, 0xE010),
    (0x1D00, 0x1D7F),
    (0xA640, 0xA69F),
    (0x10400, 0x1044F),
    (0, 0x1F),
    (0x7F, 0x9F),
]
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u2028",
    "\x0b",
    "\x0c",
    "\u0085",
    "\u1680",
    "\u200b",
    "\ufeff",
    " \n",
    "\n ",
    "        ",
]
CHUNKS = [
    "Hello",
    "world",
    "the",
    "don't",
    "I'M",
    "they'LL",
    "can't",
    "E=mc\u00b2",
    "3.14159",
    "1234567",
    "12,345",
    "100%",
    "foo_bar",
    "CamelCase",
    "http://x.y/z?q=1",
    "\u2581",
    "\u2581\u2581",
    "##",
    "##ing",
    "<0x41>",
    "<s>",
    "</s>",
    "<unk>",
    "[CLS]",
    "[MASK]",
    "\u0120",
    "\u010a",
    "na\u00efve",
    "cafe\u0301",
    "\ufb01n",
    "\uff28\uff49",
    "\u0130stanbul",
    "stra\u00dfe",
    "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3",
    "\u65e5\u672c\u8a9e",
    "\ud55c\uad6d\uc5b4",
    "\u1112\u1161\u11ab",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0645\u0631\u062d\u0628\u0627",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f",
    "...",
    "!!!",
    "--",
    "a\u0300\u0323b",
    "\u00bd",
    "\u2167",
    "\u00b2",
    "\u00e0" * 3,
    "!" * 9,
    "=" * 20,
    "0" * 12,
    "if (x) {\n\treturn y;\n}",
    "\ufffd",
    "\x00",
    "\x1b[0m",
    "aaaaaaaaaa",
]


def as_text(text):
    """What a malformed text counts as."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


class Maker:
    def __init__(self, seed, tokenizer=None):
        self.r = random.Random(seed)
        self.tokens = []
        if tokenizer is not None:
            ids = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
            self.tokens = [text for text, _ in self.r.sample(ids, min(len(ids), 3000))]
            self.tokens += 40 * [t.content for t in tokenizer.get_added_tokens_decoder().values()][:50]

    def piece(self):
        r = self.r
        kind = r.random()
        if kind < 0.25:
            return r.choice(SPACES)
        if kind < 0.5:
            return r.choice(CHUNKS)
        if kind < 0.6 and self.tokens:
            return r.choice(self.tokens)
        if kind < 0.63:
            code = r.choice([r.randrange(0x80), r.randrange(0x3000), r.randrange(0x110000)])
            return "" if 0xD800 <= code < 0xE000 else chr(code)
        low, high = r.choice(RANGES)
        return "".join(chr(r.randrange(low, high + 1)) for _ in range(r.randrange(1, 6)))

    def text(self):
        r = self.r
        text = "".join(self.piece() + (" " if r.random() < 0.2 else "") for _ in range(r.choice([0, 1, 2, 3, 5, 8, 14])))
        if r.random() > 1 / 8:
            return text
        data = bytearray(text.encode("utf-8"))
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(len(data) + 1)
            data[at : at + r.randrange(2)] = bytes([r.choice([r.randrange(256), 0x80, 0xC0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF])])
        return bytes(data)
