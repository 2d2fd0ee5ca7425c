#!/usr/bin/env python3
"""Speed of encoding and decoding against the PyPI package `tokenizers`, one thread each, runs interleaved, medians.

    bench/tokenizer.py [--library libcairn.so] [--mb N] [--runs N] [--long] TOKENIZER.json...

Both sides get the same text and their ids are compared: the whole text in one call, and its first 2 MB as documents of
10,000 characters, which suits the package better. Times are CPU times of the one thread, so that other work on the machine
matters less; of the package's two functions (encode and encode_batch_fast, which leaves the offsets out) both are shown for
the whole text and the faster one for documents. The text is mixed: English prose, source code, the messages of many
languages, numbers, emoji and white space, made from files of this machine (documentation, Python's library, message
catalogues) and a seeded generator, so it is the same from run to run on one machine. `--long` adds texts without a single
space, whose time must grow no faster than n log n.
"""
import argparse
import ctypes
import gettext
import glob
import os
import random
import statistics
import sys
import sysconfig
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402  (reads the variables above)

LANGUAGES = "ru el uk bg ar he fa hi bn ta te th ka hy ko ja zh_CN zh_TW de fr es pl cs tr vi fi hu".split()


# --- the text ----------------------------------------------------------------------------------------------------------

def read_texts(paths, enough):
    parts, size = [], 0
    for path in paths:
        if size >= enough:
            break
        try:
            with open(path, encoding="utf-8") as f:
                parts.append(f.read(200_000))
        except (OSError, UnicodeDecodeError):
            continue
        size += len(parts[-1].encode())
    return "".join(parts)


def prose(enough):
    paths = [p for pattern in ("/usr/share/common-licenses/*", "/usr/share/vim/*/doc/*.txt", "/usr/share/perl/*/pod/*.pod",
                               "/usr/share/perl/*/**/*.pod", "/usr/share/doc/*/*.txt", "/usr/share/doc/*/README*",
                               "/usr/share/doc/*/copyright") for p in sorted(glob.glob(pattern, recursive=True))]
    return read_texts(paths, enough)


def code(enough):
    return read_texts(sorted(glob.glob(sysconfig.get_path("stdlib") + "/**/*.py", recursive=True)), enough)


def messages(enough):
    share, parts = enough // len(LANGUAGES), []
    for language in LANGUAGES:
        size, lines = 0, []
        for path in sorted(glob.glob(f"/usr/share/locale/{language}/LC_MESSAGES/*.mo")):
            try:
                with open(path, "rb") as f:
                    catalog = gettext.GNUTranslations(f)._catalog
            except (OSError, UnicodeDecodeError, ValueError):
                continue
            for key, value in catalog.items():
                if key and size < share:
                    lines.append(value)
                    size += len(value.encode()) + 1
        parts.append("\n".join(lines))
    return "\n".join(parts)


def invented(enough, rng):
    """What files have little of: numbers, emoji, white space, and words of many scripts."""
    starts = [0x41, 0xC0, 0x391, 0x410, 0x5D0, 0x627, 0x905, 0xE01, 0x10D0, 0x3041, 0x4E00, 0xAC00]
    words = ["".join(chr(s + rng.randrange(24)) for _ in range(rng.randrange(1, 9))) for s in starts for _ in range(200)]
    emoji = "😀😂🥰👍🏽🎉🚀❤️👩‍💻🇩🇪🇯🇵✅⚠️"
    kinds = [
        lambda: f"{rng.randrange(10 ** rng.randrange(1, 12))}",
        lambda: f"{rng.random() * 1000:.3f}, {rng.randrange(1900, 2100)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        lambda: " " * rng.randrange(1, 20) + "\n" * rng.randrange(3) + "\t" * rng.randrange(4),
        lambda: "".join(rng.choice(emoji) for _ in range(rng.randrange(1, 5))),
        lambda: " ".join(rng.choices(words, k=rng.randrange(1, 12))),
    ]
    parts, size = [], 0
    while size < enough:
        parts.append(rng.choice(kinds)() + rng.choice((" ", ", ", "\n", ". ")))
        size += len(parts[-1].encode())
    return "".join(parts)


def mixed_text(n_bytes):
    rng = random.Random(1)
    parts = []
    for share, make in ((45, prose), (30, code), (17, messages)):
        parts.append(make(n_bytes * share // 100))
    parts.append(invented(max(0, n_bytes - sum(len(p.encode()) for p in parts)), rng))
    pieces = [p[i:i + 3000] for p in parts for i in range(0, len(p), 3000)]
    rng.shuffle(pieces)
    return "".join(pieces).encode()[:n_bytes].decode(errors="ignore")


# --- cairn ---------------------------------------------------------------------------------------------------------------

class Cairn:
    def __init__(self, library, path):
        self.c = ctypes.CDLL(library)
        context, self.tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.c.cairn_context_create(None, ctypes.byref(context)))
        self.check(self.c.cairn_tokenizer_open(context, path.encode(), ctypes.byref(self.tokenizer)))

    @staticmethod
    def check(status):
        if status:
            sys.exit(f"cairn: status {status}")

    def encode(self, text, room):
        """Seconds and ids; `text` is bytes and `room` a buffer of ids that is large enough."""
        n = ctypes.c_size_t()
        begin = time.thread_time()
        self.check(self.c.cairn_tokenizer_encode(self.tokenizer, text, ctypes.c_size_t(len(text)), False, room,
                                                 ctypes.c_size_t(len(room)), ctypes.byref(n)))
        return time.thread_time() - begin, n.value

    def decode(self, ids, n, room):
        size = ctypes.c_size_t()
        begin = time.thread_time()
        self.check(self.c.cairn_tokenizer_decode(self.tokenizer, ids, ctypes.c_size_t(n), False, room, ctypes.c_size_t(len(room)),
                                                 ctypes.byref(size)))
        return time.thread_time() - begin, size.value


def stream_seconds(library, path, ids, n):
    """Streaming is measured by a small C loop: calls from Python cost more than the work."""
    source = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "cairn/tokenizer.h"
int main(int argc, char **argv) {
  cairn_context *context;
  cairn_tokenizer *t;
  cairn_detokenizer *d;
  struct timespec a, b;
  size_t n = strtoull(argv[3], NULL, 10), bytes, total = 0;
  int32_t *ids = malloc(n * sizeof *ids);
  FILE *f = fopen(argv[2], "rb");
  const char *text;
  if (argc != 4 || !f || fread(ids, sizeof *ids, n, f) != n) return 1;
  if (cairn_context_create(NULL, &context) || cairn_tokenizer_open(context, argv[1], &t) || cairn_detokenizer_create(t, false, &d)) return 1;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  for (size_t i = 0; i < n; i++) {
    if (cairn_detokenizer_push(d, ids[i], &text, &bytes)) return 1;
    total += bytes;
  }
  if (cairn_detokenizer_finish(d, &text, &bytes)) return 1;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  printf("%.9f %zu\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9, total + bytes);
  return 0;
}
"""
    import subprocess
    import tempfile
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include")
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/ids", "wb") as f:
            f.write(bytes(memoryview(ids).cast("B")[:4 * n]))
        subprocess.run(["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-I", include, "-x", "c", "-", "-x", "none", "-o", folder + "/stream",
                        os.path.abspath(library), "-Wl,-rpath," + os.path.dirname(os.path.abspath(library))],
                       input=source, text=True, check=True)
        out = [subprocess.run([folder + "/stream", path, folder + "/ids", str(n)], check=True, capture_output=True, text=True).stdout.split()
               for _ in range(3)]
    return statistics.median(float(o[0]) for o in out), int(out[0][1])


# --- measuring -------------------------------------------------------------------------------------------------------------

def timed(call):
    begin = time.thread_time()
    result = call()
    return time.thread_time() - begin, result


def measure_documents(peer, ours, text, room):
    """MB/s of both sides."""
    documents = [text[i:i + 10_000] for i in range(0, min(len(text), 2_000_000), 10_000)]
    data = [d.encode() for d in documents]
    mb = sum(map(len, data)) / 1e6
    ours_s = statistics.median(sum(ours.encode(d, room)[0] for d in data) for _ in range(3))
    peer_s, encodings = timed(lambda: peer.encode_batch_fast(documents, add_special_tokens=False))
    for d, e in zip(data, encodings):
        if list(room[:ours.encode(d, room)[1]]) != e.ids:
            sys.exit("the ids of a document differ")
    return mb / ours_s, mb / peer_s


def measure(args, path, text):
    peer = tokenizers.Tokenizer.from_file(path)
    ours = Cairn(args.library, path)
    data = text.encode()
    room = (ctypes.c_int32 * (len(data) + 16))()
    times = {"encode": [], "fast": [], "cairn": []}
    for _ in range(args.runs):
        seconds, n = ours.encode(data, room)
        times["cairn"].append(seconds)
        seconds, full = timed(lambda: peer.encode(text, add_special_tokens=False))
        times["encode"].append(seconds)
        seconds, fast = timed(lambda: peer.encode_batch_fast([text], add_special_tokens=False))
        times["fast"].append(seconds)
        del fast
        equal = n == len(full.ids) and list(room[:n]) == full.ids
        if not equal:
            sys.exit(f"{path}: the ids differ")
    mb = len(data) / 1e6
    cairn, encode, fast = (statistics.median(times[k]) for k in ("cairn", "encode", "fast"))
    documents, peer_documents = measure_documents(peer, ours, text, room)
    _, n = ours.encode(data, room)
    text_room = ctypes.create_string_buffer(2 * len(data) + 64)
    decode = statistics.median(ours.decode(room, n, text_room)[0] for _ in range(args.runs))
    decoded = text_room.raw[:ours.decode(room, n, text_room)[1]].decode()
    peer_decode, peer_text = timed(lambda: peer.decode(full.ids, skip_special_tokens=False))
    if decoded != peer_text:
        sys.exit(f"{path}: the decoded texts differ")
    stream, total = stream_seconds(args.library, path, room, n)
    if total != len(decoded.encode()):
        sys.exit(f"{path}: the streamed text has {total} bytes, {len(decoded.encode())} expected")
    name = os.path.basename(os.path.dirname(os.path.abspath(path)))
    print(f"{name:16} {mb / cairn:9.1f} {mb / encode:9.2f} {mb / fast:9.2f} {encode / cairn:7.1f} {fast / cairn:7.1f} "
          f"{documents:9.1f} {peer_documents:9.2f} {documents / peer_documents:7.1f} "
          f"{n / decode / 1e6:9.1f} {n / stream / 1e6:9.1f} {n / peer_decode / 1e6:9.1f}   {n} ids equal", flush=True)
    if args.long:
        for character in "a", "é", "漢", " ":
            row = []
            for size in (1 << 18, 1 << 19, 1 << 20, 1 << 21):
                row.append(f"{statistics.median(ours.encode(character.encode() * (size // len(character.encode())), room)[0] for _ in range(3)):.3f}")
            print(f"    {character!r} repeated to 0.25, 0.5, 1, 2 MiB: {', '.join(row)} s", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--library", default="build/release/libcairn.so")
    p.add_argument("--mb", type=float, default=10)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--long", action="store_true")
    p.add_argument("tokenizers", nargs="+")
    args = p.parse_args()
    text = mixed_text(int(args.mb * 1e6))
    print(f"{len(text.encode()) / 1e6:.1f} MB, {len(text)} characters, tokenizers {tokenizers.__version__}, load average {os.getloadavg()[0]:.1f}")
    print(f"{'tokenizer':16} {'cairn':>9} {'encode':>9} {'fast':>9} {'ratio':>7} {'to fast':>7} {'cairn':>9} {'fast':>9} {'ratio':>7} {'decode':>9} {'stream':>9} {'peer':>9}")
    print(f"{'':16} {'MB/s':>9} {'MB/s':>9} {'MB/s':>9} {'':7} {'':7} {'docs MB/s':>9} {'docs MB/s':>9} {'':7} {'M ids/s':>9} {'M ids/s':>9} {'M ids/s':>9}")
    for path in args.tokenizers:
        measure(args, path, text)


if __name__ == "__main__":
    main()
