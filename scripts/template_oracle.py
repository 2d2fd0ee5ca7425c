#!/usr/bin/env python3
"""Compares cairn's chat-template interpreter with jinja2, set up as Hugging Face Transformers sets it up.

    template_oracle.py check [--program CAIRN]   the committed cases, against jinja2 and against `cairn template`
    template_oracle.py add FILE                  appends a case for each line of FILE: a template, or a JSON case
    template_oracle.py fuzz --program CAIRN [--count N] [--seed S]
                                                 random templates, until one differs

Needs jinja2. Cases are lines of tests/data/template/cases.jsonl: {"source" or "template", "variables", and "expected" or
"error": "compile" | "render"}. Variables that a case does not name are those of variables.json beside it.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data", "template")
CASES = os.path.join(DATA, "cases.jsonl")


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: the body, run as a call block."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return env


ENV = environment()


def by_jinja(source, variables):
    """("expected", text) or ("error", "compile" | "render")."""
    try:
        template = ENV.from_string(source)
    except Exception:
        return "error", "compile"
    try:
        return "expected", template.render(**variables)
    except Exception:
        return "error", "render"


def by_program(program, source, variables):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.jinja")
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(source)
        done = subprocess.run([program, "template", path, "--input", "-"], input=json.dumps({"messages": [], "variables": variables}).encode(),
                              capture_output=True, timeout=60, check=False)
    if done.returncode < 0:
        return "crash", done.returncode
    return ("expected", done.stdout.decode()) if done.returncode == 0 else ("error", done.stderr.decode())


def agree(ours, theirs):
    """The program does not say in which phase it failed."""
    return ours[0] == theirs[0] and (ours[0] == "error" or ours[1] == theirs[1])


def default_variables():
    with open(os.path.join(DATA, "variables.json"), encoding="utf-8") as f:
        return json.load(f)


def read_source(case):
    if "source" in case:
        return case["source"]
    with open(os.path.join(DATA, case["template"]), encoding="utf-8", newline="") as f:
        return f.read()


def check(args):
    wrong = n = 0
    for number, line in enumerate(open(CASES, encoding="utf-8"), 1):
        case = json.loads(line)
        source, variables = read_source(case), {**default_variables(), **case.get("variables", {})}
        wanted = ("expected", case["expected"]) if "expected" in case else ("error", case["error"])
        n += 1
        if by_jinja(source, variables) != wanted:
            wrong += 1
            print(f"{CASES}:{number}: jinja2 gives {by_jinja(source, variables)!r}")
        if args.program and not agree(by_program(args.program, source, variables), wanted):
            wrong += 1
            print(f"{CASES}:{number}: {args.program} gives {by_program(args.program, source, variables)!r}, wanted {wanted!r}")
    print(f"{n} cases, {wrong} wrong")
    return 1 if wrong else 0


def add(args):
    known = {json.dumps([c.get("source"), c.get("template"), c.get("variables")]) for c in map(json.loads, open(CASES, encoding="utf-8"))}
    with open(CASES, "a", encoding="utf-8") as out:
        for line in open(args.file, encoding="utf-8"):
            line = line.rstrip("\n")
            case = json.loads(line) if line.startswith('{"') else {"source": line}
            kind, value = by_jinja(read_source(case), {**default_variables(), **case.get("variables", {})})
            key = json.dumps([case.get("source"), case.get("template"), case.get("variables")])
            if re.search(r"object .*at 0x", str(value)) or key in known:
                continue
            known.add(key)
            out.write(json.dumps({**case, kind: value}, ensure_ascii=False, separators=(",", ":")) + "\n")
    return 0


class Writer:
    """Writes random templates that often compile and often fail, as real ones under development do."""

    NAMES = ["a", "b", "c", "x", "ns", "items", "m"]

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *choices):
        return self.r.choice(choices)

    def space(self):
        return self.pick("", "", " ", "\n", "\n  ", " \n", "\t", "text", "x\n", "  y", "{# c #}", "{#- c -#}\n")

    def tag(self, text):
        return f"{self.pick('{%', '{%', '{%-', '{%+')} {text} {self.pick('%}', '%}', '-%}', '+%}')}"

    def atom(self):
        loop = self.pick("index", "first", "length", "previtem", "last", "nextitem", "revindex", "depth", "cycle('o', 'e')")
        return self.pick(self.pick(*self.NAMES), self.pick(*self.NAMES), str(self.r.randrange(5)), repr(self.pick("p", "q ", "")), "none",
                         "true", "nowhere", "[1, 2]", "m.k", "varargs", "kwargs", "(caller() if caller)", f"(loop.{loop} if loop is defined)")

    def expression(self, depth=0):
        e = lambda: self.expression(depth + 1)  # noqa: E731
        if depth > 2 or self.r.random() < 0.4:
            return self.atom()
        return self.pick(lambda: f"{e()} ~ {e()}", lambda: f"({e()})|default('D')", lambda: f"{e()} if {e()} else {e()}",
                         lambda: f"({e()}) is {self.pick('defined', 'none', 'string', 'iterable')}", lambda: f"{e()} == {e()}",
                         lambda: f"{self.pick('f', 'g')}({self.pick('', e(), f'{e()}, x={e()}')})", lambda: f"not {e()}",
                         lambda: f"({e()}) {self.pick('and', 'or')} ({e()})", lambda: f"[{e()}, {e()}]",
                         lambda: f"({e()})|string|{self.pick('upper', 'list', 'length', 'first', 'trim', 'title', 'tojson')}")()

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.r.randrange(1, 4))) + self.space()

    def loop(self, depth):
        target = self.pick("a", "x", "i", "a, b")
        over = self.pick("items", "[1, 2, 3]", "m.items()", "range(3)", "'xy'", "[]", "[[1, 2], [3, 4]]", "items|map('string')")
        head = f"for {target} in {over}{self.pick('', '', ' if ' + self.expression())}{self.pick('', '', ' recursive')}"
        stop = self.pick("", "", self.tag("if " + self.expression()) + self.tag(self.pick("break", "continue")) + self.tag("endif"))
        return self.tag(head) + self.body(depth) + stop + self.pick("", self.tag("else") + self.body(depth)) + self.tag("endfor")

    def statement(self, depth):
        b = lambda: self.body(depth + 1)  # noqa: E731
        name = self.pick("a", "b", "x")
        plain = f"{self.pick('{{', '{{-')} {self.expression()} {self.pick('}}', '-}}')}"
        if depth > 3 or self.r.random() < 0.35:
            return plain
        return self.pick(lambda: self.tag(f"set {self.pick(name, 'a, b', 'ns.v')} = {self.expression()}"), lambda: self.loop(depth + 1),
                         lambda: self.tag(f"set {name}{self.pick('', '|upper')}") + b() + self.tag("endset"),
                         lambda: self.tag("if " + self.expression()) + b() + self.pick("", self.tag("else") + b()) + self.tag("endif"),
                         lambda: self.tag(f"macro {self.pick('f', 'g')}({self.pick('', 'a, b=1', 'a=x, b=a')})") + b() + self.tag("endmacro"),
                         lambda: self.tag(f"call{self.pick('', ' (x)')} {self.pick('f', 'g')}()") + b() + self.tag("endcall"),
                         lambda: self.tag(f"filter {self.pick('upper', 'trim')}") + b() + self.tag("endfilter"),
                         lambda: self.tag(f"with a={self.expression()}") + b() + self.tag("endwith"),
                         lambda: self.tag("generation") + b() + self.tag("endgeneration"))()

    def template(self):
        return ("{% set ns = namespace(v=0) %}{% macro g(p=1, x=2) %}[{{ varargs }}{{ kwargs }}{{ x }}]{% endmacro %}"
                "{% macro f(p='P', x=none) %}[{{ p }}{{ x }}{{ caller() if caller else '' }}]{% endmacro %}\n" + self.body(0))


def fuzz(args):
    warnings.simplefilter("ignore")
    writer, outcomes = Writer(args.seed), {}
    variables = {"a": "A", "b": 2, "items": [3, 1, 2], "m": {"k": "v", "j": None}}
    for _ in range(args.count):
        source = writer.template()
        wanted, got = by_jinja(source, variables), by_program(args.program, source, variables)
        outcomes[wanted[0]] = outcomes.get(wanted[0], 0) + 1
        if not agree(got, wanted):
            print(f"{source!r}\njinja2: {wanted!r}\n{args.program}: {got!r}")
            return 1
    print(f"{args.count} templates agree: {outcomes}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("--program")
    one.set_defaults(run=check)
    one = commands.add_parser("add")
    one.add_argument("file")
    one.set_defaults(run=add)
    one = commands.add_parser("fuzz")
    one.add_argument("--program", required=True)
    one.add_argument("--count", type=int, default=500)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=fuzz)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
