#!/usr/bin/env python3
"""Checks that every #include "..." under src/ is one that layers.txt allows. Exit 1 with a list otherwise."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def rules():
    table = {}
    for line in open(os.path.join(ROOT, "layers.txt")):
        line = line.split("#")[0].strip()
        if line:
            name, _, allowed = line.partition(":")
            table[name.strip()] = set(allowed.split())
    return table


def rule_for(path, table):
    """The longest entry that is the file itself or a folder above it."""
    best = max((n for n in table if path == n or path.startswith(n + "/")), key=len, default=None)
    return best


def main():
    table, bad, seen = rules(), [], set()
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(files):
            if not name.endswith((".c", ".h", ".def")) or name.endswith("_test.c"):
                continue
            path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "src"))
            rule = rule_for(path, table)
            if rule is None:
                bad.append(f"{path}: its folder is not in layers.txt")
                continue
            seen.add(rule)
            home = path.split("/")[0]
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            for number, line in enumerate(text.splitlines(), 1):
                m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                if not m or m.group(1).startswith("cairn/") or "/" not in m.group(1):
                    continue
                target = m.group(1)
                # A folder sees itself and its sub-folders; a file with a rule of its own also sees the folder it lies in.
                own = rule if os.path.isdir(os.path.join(ROOT, "src", rule)) else home
                inside = target.startswith(own + "/")
                if not inside and not any(target.startswith(a + "/") for a in table[rule]):
                    bad.append(f"{path}:{number}: may not include {target} (allowed: {' '.join(sorted(table[rule])) or 'nothing'})")
    for entry in sorted(set(table) - seen):
        if os.path.exists(os.path.join(ROOT, "src", entry)) is False and "/" not in entry:
            bad.append(f"layers.txt names {entry}, which does not exist")
    print("\n".join(bad) if bad else f"layers: {len(seen)} rules hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
