#!/usr/bin/env python3
"""Makes docs/ops.md from src/program/ops.def:  make_ops_doc.py [--check]   (--check: fail when the page is out of date)"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = {"READY": "ready", "EXEC": "ready (executor)", "LATER": "later"}


def page():
    rows = []
    for line in open(os.path.join(ROOT, "src/program/ops.def")):
        m = re.match(r'OP_(READY|EXEC|LATER)\((\w+), "([\w.]+)", (-?\d+), (-?\d+), ([^,)]+)', line)
        if m:
            kind, _, name, n_in, n_out, traits = m.groups()
            traits = [t.strip().replace("CRN_", "").lower() for t in traits.split("|") if t.strip() != "0"]
            count = lambda n, least: n if int(n) >= 0 else f"{-int(n) - 1} or more" if least else "any"
            state = "needs Apple's software" if "apple_only" in traits else STATE[kind]
            rows.append((name, state, count(n_in, True), count(n_out, False), ", ".join(t for t in traits if t != "apple_only")))
    totals = {}
    for r in rows:
        totals[r[1]] = totals.get(r[1], 0) + 1
    out = ["# Operations", "", "Made from `src/program/ops.def` by `scripts/make_ops_doc.py`; do not edit.", "",
           ", ".join(f"{n} {s}" for s, n in sorted(totals.items())) + ".", "",
           "| operation | state | operands | results | traits |", "|---|---|---|---|---|"]
    out += [f"| `{a}` | {b} | {c} | {d} | {e} |" for a, b, c, d, e in rows]
    return "\n".join(out) + "\n"


def main():
    path = os.path.join(ROOT, "docs/ops.md")
    text = page()
    if "--check" in sys.argv[1:]:
        if open(path).read() != text:
            print("docs/ops.md is out of date: run scripts/make_ops_doc.py")
            return 1
        print("docs/ops.md is current")
        return 0
    open(path, "w").write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
