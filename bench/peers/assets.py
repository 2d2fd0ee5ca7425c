#!/usr/bin/env python3
"""Decoding of a Core AI bundle beside Apple's interpreter of the package coreai-core, which runs assets on Linux.

    bench/peers/assets.py [--python PYTHON] [--cairn PROGRAM] [--tokens N] BUNDLE...

PYTHON is one that has coreai-core and numpy (a virtual environment). The interpreter takes seconds for a token, so one or two
are enough; the first call is not counted. Nothing else at hand runs these assets: torch and onnxruntime need the model they were
made from. Prints a table in Markdown.
"""

import argparse
import glob
import json
import os
import resource
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def asset_of(bundle):
    found = sorted(glob.glob(os.path.join(bundle, "*.aimodel")))
    if bundle.rstrip("/").endswith(".aimodel"):
        return bundle
    if not found:
        sys.exit(f"{bundle} holds no .aimodel")
    return found[0]


async def interpret(asset, tokens):
    """Prints seconds and CPU seconds of a decode step as JSON. Runs inside of PYTHON."""
    import numpy as np
    from coreai.authoring import AIModelAsset
    from coreai.runtime import NDArray

    walls, cpus = [], []
    async with AIModelAsset.load(asset).executable() as model:
        function = model.load_function("main")
        state = {}
        for name in function.desc.state_names:
            # Caches without a fixed length get one that is long enough; f16 is what these bundles have.
            shape = [n if 0 < n < 1 << 40 else 64 for n in function.desc.state_descriptor(name).shape]
            state[name] = NDArray(np.zeros(shape, np.float16))
        for step in range(tokens + 1):
            positions = np.arange(step + 1, dtype=np.int32)[None]
            inputs = {"input_ids": NDArray(np.array([[step + 1]], np.int32)), "position_ids": NDArray(positions)}
            wall, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
            await function(inputs, state)
            after = resource.getrusage(resource.RUSAGE_SELF)
            if step:
                walls.append(time.perf_counter() - wall)
                cpus.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
    print(json.dumps({"seconds": min(walls), "cpu_seconds": min(cpus)}))


def ours(args, bundle):
    """Seconds a token, and CPU seconds: the difference of two runs, so that loading does not count."""
    results = []
    for n in (8, 40):
        command = [args.cairn, "bench", bundle, "-q", "--json", "-p", "8", "-g", str(n), "-n", "1"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(command)} failed")
        results.append((json.loads(out)["averages"]["generation_tps"], usage.ru_utime + usage.ru_stime))
    return 1 / results[1][0], (results[1][1] - results[0][1]) / (2 * 32)  # a warm-up and a trial


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("bundles", nargs="+", metavar="BUNDLE")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--cairn", default=os.path.join(ROOT, "build", "release", "cairn"))
    p.add_argument("--tokens", type=int, default=2)
    p.add_argument("--interpret", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.interpret:
        import asyncio

        return asyncio.run(interpret(asset_of(args.bundles[0]), args.tokens))
    print("| bundle | program | seconds a token | CPU seconds a token | cairn is faster by |\n|---|---|---|---|---|")
    for bundle in args.bundles:
        command = [args.python, __file__, "--interpret", "--tokens", str(args.tokens), bundle]
        peer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        seconds, cpu = ours(args, bundle)
        name = os.path.basename(bundle.rstrip("/"))
        print(f"| {name} | cairn | {seconds:.3g} | {cpu:.3g} | |")
        wall, used = peer["seconds"], peer["cpu_seconds"]
        print(f"| | coreai-core | {wall:.3g} | {used:.3g} | {wall / seconds:.0f} times ({used / cpu:.0f} in CPU time) |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
