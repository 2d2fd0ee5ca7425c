#!/usr/bin/env python3
"""
Makes docs/ops.md from src/program/ops.def and the results of the golden tests:  make_ops_doc.py [--check]

The results are tests/golden/op_results.txt, which the golden runner writes (golden --results FILE FOLDER...). --check
fails when the page is out of date.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = {"READY": "ready", "EXEC": "ready (executor)", "APPLE": "needs Apple's hardware or software"}


COLUMNS = "f64 f32 f16 bf16 f8E5M2 f8E4M3FN si64 si32 si16 si8 si4 si2 ui64 ui32 ui16 ui8 ui4 ui2 i1 c64".split()


def read_results():
    """operation -> {element type: passed cases}"""
    table = {}
    for line in open(os.path.join(ROOT, "tests/golden/op_results.txt")):
        if line.strip() and not line.startswith("#"):
            name, *counts = line.split()
            table[name] = {t: int(n) for t, n in (c.split("=") for c in counts)}
    return table


def wanted_types():
    """operation -> the types it has to be tested with"""
    groups = {"F": COLUMNS[:4], "F8": COLUMNS[4:6], "S": COLUMNS[6:10], "U": COLUMNS[12:16], "Q": ["si4", "si2", "ui4", "ui2"]}
    table = {}
    for line in open(os.path.join(ROOT, "tests/golden/op_types.txt")):
        if line.strip() and not line.startswith("#"):
            name, _, *words = line.split()
            table[name] = {t for w in words for t in groups.get(w, [w])}
    return table


def type_table(names):
    results, wanted = read_results(), wanted_types()
    out = ["", "## Element types", "",
           "Passed golden cases by operation and element type of its data operand: the corpora, everything `scripts/make_goldens`",
           "makes, and the selection under `tests/data`. A dash marks a type the format does not let the operation have;",
           "`golden_selection` fails when a type it does have is not covered by the selection.", "",
           "| operation | " + " | ".join(COLUMNS) + " | others |", "|---|" + "---|" * (len(COLUMNS) + 1)]
    for name in names:
        row = results.get(name)
        if not row:
            continue
        cells = [str(row[t]) if t in row else "-" if t not in wanted.get(name, {t}) else "" for t in COLUMNS]
        others = ", ".join(f"{t} {n}" for t, n in row.items() if t not in COLUMNS)
        out.append(f"| `{name}` | " + " | ".join(cells) + f" | {others} |")
    return out


def page():
    rows = []
    for line in open(os.path.join(ROOT, "src/program/ops.def")):
        m = re.match(r'OP_(READY|EXEC|APPLE)\((\w+), "([\w.]+)", (-?\d+), (-?\d+), ([^,)]+)', line)
        if m:
            kind, _, name, n_in, n_out, traits = m.groups()
            traits = [t.strip().replace("CRN_", "").lower() for t in traits.split("|") if t.strip() != "0"]
            count = lambda n, least: n if int(n) >= 0 else f"{-int(n) - 1} or more" if least else "any"
            state = STATE[kind]
            rows.append((name, state, count(n_in, True), count(n_out, False), ", ".join(traits)))
    totals = {}
    for r in rows:
        totals[r[1]] = totals.get(r[1], 0) + 1
    out = ["# Operations", "",
           "Made from `src/program/ops.def` and the results of the golden tests by `scripts/make_ops_doc.py`; do not edit.", "",
           ", ".join(f"{n} {s}" for s, n in sorted(totals.items())) + ".", "",
           "| operation | state | operands | results | traits |", "|---|---|---|---|---|"]
    out += [f"| `{a}` | {b} | {c} | {d} | {e} |" for a, b, c, d, e in rows]
    out += type_table([r[0] for r in rows])
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
