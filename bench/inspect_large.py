#!/usr/bin/env python3
"""Time and memory of inspecting a large asset: a 270 MB one is written, then inspected.

    bench/inspect_large.py --tools FOLDER [--cairn PROGRAM] [--runs N]

FOLDER of --tools holds encode_min.py, the reference writer of main.mlirb.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

K, N = 8192, 8240  # 8192 x 8240 f32 weights


def write(tools, asset):
    sys.path.insert(0, tools)
    import encode_min
    noise = os.urandom(1 << 20)
    weights = (noise * (K * N * 4 // len(noise) + 1))[:K * N * 4]
    encode_min.write_asset(asset, encode_min.simple_module(encode_min.Writer(), weights, weights[:N * 4], K, N, weights="resource"))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tools", required=True)
    p.add_argument("--cairn", default="build/release/cairn")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--write", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.write:
        return write(args.tools, args.write)
    with tempfile.TemporaryDirectory() as folder:
        asset = os.path.join(folder, "large.aimodel")
        # Written by a process of its own: a child starts with the resident size of its parent, which must stay small.
        subprocess.run([sys.executable, __file__, "--tools", args.tools, "--write", asset], check=True)
        size = os.path.getsize(os.path.join(asset, "main.mlirb"))
        times, peak = [], 0
        for _ in range(args.runs):
            start = time.perf_counter()
            child = subprocess.Popen([args.cairn, "inspect", asset], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            times.append(time.perf_counter() - start)
            peak = max(peak, usage.ru_maxrss * 1024)
            if status:
                sys.exit(f"cairn inspect failed: {status}")
        print(f"{size / 1e6:.0f} MB: median {statistics.median(times):.2f} s, resident {peak / 1e6:.0f} MB, above the mapped file {(peak - size) / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
