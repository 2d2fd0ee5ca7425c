#!/usr/bin/env python3
"""Load, prefill and decode speed of language models, one thread against all, runs interleaved, medians.

    bench/decode.py [--cairn PROGRAM] [--runs N] [--prompt N] [--tokens N] MODEL...

Prints, per model, medians and the ratio to the one-thread baseline of the same run. The prompt is the one of Apple's
benchmark (TOOLS.md §2: splitmix64 with a pre-advanced state, seed 0).
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

MASK = (1 << 64) - 1


def prompt(n, vocab):
    state, tokens = 0x9E3779B97F4A7C15, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        tokens.append((z ^ z >> 31) % vocab)
    return tokens


def vocabulary(args, model):
    shape = json.loads(subprocess.run([args.cairn, "inspect", model, "--json"], check=True, capture_output=True, text=True).stdout)
    functions = shape.get("functions") or shape["assets"][0]["functions"]
    return functions[0]["outputs"][0]["shape"][-1]


def run(args, model, tokens_file, threads):
    env = dict(os.environ, CAIRN_THREADS=str(threads))
    command = [args.cairn, "generate", model, "--raw-tokens", tokens_file, "--max-tokens", str(args.tokens), "--ignore-eos", "--json", "-q"]
    t = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)["timing"]
    return t["load_s"], t["prefill_tokens"] / t["prefill_s"], t["decode_tokens"] / t["decode_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cairn", default="build/release/cairn")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--prompt", type=int, default=64)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{'model':40} {'threads':>7} {'load s':>8} {'prefill t/s':>12} {'decode t/s':>11} {'ratio':>6}   (load average {os.getloadavg()[0]:.1f})")
    for model in args.models:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump({"tokens": prompt(args.prompt, vocabulary(args, model))}, f)
            f.flush()
            results = {t: [] for t in dict.fromkeys((1, cores))}
            for _ in range(args.runs):
                for threads in results:
                    results[threads].append(run(args, model, f.name, threads))
        base = statistics.median(r[2] for r in results[1])
        for threads, rows in results.items():
            load, prefill, decode = (statistics.median(r[i] for r in rows) for i in range(3))
            print(f"{os.path.basename(model.rstrip('/')):40} {threads:7} {load:8.2f} {prefill:12.1f} {decode:11.1f} {decode / base:6.2f}")


if __name__ == "__main__":
    main()
