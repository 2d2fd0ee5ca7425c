#!/usr/bin/env python3
"""Picks the golden cases that a clone carries: few, small, and together using every (op, element type) of the corpora.

    select_goldens.py [--shared FOLDER] [--more FOLDER ...] --out FOLDER [--max-bytes N]

Of the corpora of --shared by greedy set cover: the case that adds most new pairs per byte comes first. Folders of --more
are small already (make_goldens --merged makes one) and are taken whole.
"""
import argparse
import os
import shutil
import sys


def features(decode, folder):
    module = decode.Module(open(os.path.join(folder, "model.aimodel", "main.mlirb"), "rb").read())
    found = set()

    def walk(block):
        for op in block.ops:
            name = op.name.split(".", 1)[1]
            kinds = {r.type.f["elem"].kind for r in op.results if r.type.kind == "tensor"} or {""}
            found.update((name, k) for k in kinds)
            if name == "dataflow.graph_v1" and "compositeDecl" in op.props:
                found.add(("composite", op.props["compositeDecl"].f["name"]))
            if name.startswith(("dataflow", "serialization", "controlflow", "primitive.scatter", "primitive.reduce")):
                for region in op.regions:
                    for b in region:
                        walk(b)

    walk(module.top)
    return found


def size(folder):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def take(folder, out):
    """Copies every case of a folder, in place of those of the same name."""
    names = [n for n in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, n, "manifest.json"))]
    for name in names:
        shutil.rmtree(os.path.join(out, name), ignore_errors=True)
        shutil.copytree(os.path.join(folder, name), os.path.join(out, name))
    print(f"{len(names)} cases, {sum(size(os.path.join(folder, n)) for n in names)} bytes from {folder}")


def select(args):
    sys.path.insert(0, os.path.join(args.shared, "tools"))
    import decode
    cases = {}
    for corpus in ("ops", "probes"):
        root = os.path.join(args.shared, "corpus", corpus)
        for name in sorted(os.listdir(root)):
            folder = os.path.join(root, name)
            if os.path.exists(os.path.join(folder, "manifest.json")):
                cases[name] = (folder, features(decode, folder), size(folder))
    missing = set().union(*(f for _, f, _ in cases.values()))
    total, chosen = 0, []
    while missing:
        name = max(cases, key=lambda n: (len(cases[n][1] & missing) / (cases[n][2] + 4096), n))
        folder, found, bytes_ = cases.pop(name)
        if not found & missing:
            break
        if total + bytes_ > args.max_bytes:
            continue
        missing -= found
        total += bytes_
        chosen.append(name)
        shutil.copytree(folder, os.path.join(args.out, name), dirs_exist_ok=True)
    print(f"{len(chosen)} cases, {total} bytes, {len(missing)} pairs left out: {sorted(missing)[:10]}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--shared")
    p.add_argument("--more", action="append", default=[])
    p.add_argument("--out", required=True)
    p.add_argument("--max-bytes", type=int, default=4 << 20)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.shared:
        select(args)
    for folder in args.more:
        take(folder, args.out)


if __name__ == "__main__":
    main()
