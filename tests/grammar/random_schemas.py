#!/usr/bin/env python3
"""Random JSON Schemas: what is not refused must give only documents that the validator takes.

    random_schemas.py [--seed N] [--count N]

Environment and exit codes are those of validate.py.
"""
import json
import os
import random
import subprocess
import sys

import validate

NAMES = ["p", "q", "r", "pq", "kind"]
PATTERNS = ["^[a-c]+$", "[0-9]", "^a|b$", "^(ab|cd){1,3}$", "^.{2,4}$", '^[^"]*$', "\\d-\\w", "^x?y*z+$", "^\\S+$", "^\\D?\\W$", "[^\\w]\\s"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def maybe(self, schema, chance, key, make):
        if self.r.random() < chance:
            schema[key] = make()

    def number(self):
        r = self.r
        s = {"type": r.choice(["integer", "number"])}
        self.maybe(s, 0.6, "minimum", lambda: r.choice([-100, -3.5, -1, 0, 0.25, 2, 17, 99.99]))
        self.maybe(s, 0.6, "maximum", lambda: r.choice([-2, -0.5, 0, 1, 1.5, 12, 100, 1000.001, 99999]))
        self.maybe(s, 0.2, "exclusiveMinimum", lambda: r.choice([-5, 0, 1.5]))
        self.maybe(s, 0.2, "exclusiveMaximum", lambda: r.choice([3, 5.25, 50]))
        self.maybe(s, 0.15, "multipleOf", lambda: r.choice([2, 3, 5, 10]))
        return s

    def string(self):
        r = self.r
        s = {"type": "string"}
        self.maybe(s, 0.4, "minLength", lambda: r.randint(0, 4))
        self.maybe(s, 0.5, "maxLength", lambda: r.randint(2, 7))
        self.maybe(s, 0.4, "pattern", lambda: r.choice(PATTERNS))
        self.maybe(s, 0.15, "format", lambda: r.choice(["date", "uuid", "ipv4", "time"]))
        return s

    def leaf(self):
        r = self.r
        values = [1, 2, "a", "b", None, True, [1], {"p": 1}, 2.5]
        fixed = [{"type": "boolean"}, {"type": "null"}, {"enum": r.sample(values, r.randint(1, 4))}, {"const": r.choice(values)}, True, {}]
        fixed.append({"type": r.sample(["integer", "string", "null", "boolean"], 2)})
        return r.choice([self.number, self.string, lambda: r.choice(fixed), lambda: r.choice(fixed)])()

    def object(self, depth):
        r = self.r
        s = {"type": "object"} if r.random() < 0.85 else {}
        names = r.sample(NAMES, r.randint(0, 4))
        if names:
            s["properties"] = {name: self.schema(depth - 1) for name in names}
        self.maybe(s, 0.6, "required", lambda: r.sample(NAMES, r.randint(0, 2)))
        self.maybe(s, 0.5, "additionalProperties", lambda: r.choice([False, True, self.leaf()]))
        self.maybe(s, 0.2, "patternProperties", lambda: {r.choice(["^p", "q$", "[a-z]"]): self.leaf()})
        self.maybe(s, 0.2, "minProperties", lambda: r.randint(0, 3))
        self.maybe(s, 0.2, "maxProperties", lambda: r.randint(1, 4))
        self.maybe(s, 0.1, "propertyNames", lambda: {"maxLength": r.randint(2, 5)})
        self.maybe(s, 0.1, "dependentRequired", lambda: {"p": ["q"]})
        self.maybe(s, 0.08, "dependentSchemas", lambda: {"q": {"required": ["p"]}})
        if r.random() < 0.1:
            s.update({"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["p"]}, "else": {"required": ["q"]}})
        return s

    def array(self, depth):
        r = self.r
        s = {"type": "array"}
        self.maybe(s, 0.8, "items", lambda: self.schema(depth - 1))
        self.maybe(s, 0.3, "prefixItems", lambda: [self.leaf() for _ in range(r.randint(1, 3))])
        self.maybe(s, 0.5, "minItems", lambda: r.randint(0, 2))
        self.maybe(s, 0.6, "maxItems", lambda: r.randint(1, 4))
        self.maybe(s, 0.15, "contains", self.leaf)
        self.maybe(s, 0.1, "uniqueItems", lambda: True)
        return s

    def negated(self, depth):
        s = self.schema(depth - 1)
        nots = [{"type": "null"}, {"enum": [1, "a"]}, {"required": ["p"]}, {"type": ["string", "array"]}, {"const": None}]
        nots.append({"properties": {"p": {"const": 1}}, "required": ["p"]})
        return dict(s, **{"not": self.r.choice(nots)}) if isinstance(s, dict) else s

    def schema(self, depth):
        k = self.r.random()
        several = lambda: [self.schema(depth - 1) for _ in range(self.r.randint(1, 3))]
        if depth <= 0 or k < 0.35:
            return self.leaf()
        if k < 0.6:
            return self.object(depth)
        if k < 0.72:
            return self.array(depth)
        if k < 0.92:
            return {"anyOf" if k < 0.8 else "oneOf" if k < 0.86 else "allOf": several()}
        return {"$ref": "#/$defs/" + self.r.choice("ab")} if k < 0.95 else self.negated(depth)

    def whole(self):
        s = self.schema(3)
        if isinstance(s, dict):
            b = {"type": "object", "properties": {"n": {"$ref": "#/$defs/b"}, "v": self.leaf()}}
            s = dict(s, **{"$defs": {"a": self.schema(1), "b": b}})
        return s


def check(schema, seed, compact, validator):
    """(documents, wrong ones, refused) of one schema; None without guided generation."""
    command = [os.environ["RANDOM_DOCUMENTS"], os.path.join(validate.DATA, "tokenizer.json"), "8", str(seed), str(compact)]
    result = subprocess.run(command, input=json.dumps(schema).encode(), capture_output=True, timeout=120)
    if result.returncode == 77:
        return None
    if result.returncode:
        # Refused is well; anything else is not.
        return (0, int(result.returncode != 1), 1)
    documents = [line["document"] for line in map(json.loads, result.stdout.decode().splitlines()) if line["ended"]]
    wrong = 0
    for text in documents:
        try:
            errors = [e.message for e in validator.iter_errors(json.loads(text))]
        except ValueError as e:
            errors = [str(e)]
        except RecursionError:
            errors = []
        if errors:
            wrong += 1
            print(f"{json.dumps(schema)}: {text!r}: {errors[0]}")
    return (len(documents), wrong, 0)


def main():
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return validate.with_validator(os.path.abspath(__file__))
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    maker, totals = Maker(int(arguments.get("--seed", 1))), [0, 0, 0]
    count = int(arguments.get("--count", 300))
    for i in range(count):
        schema = maker.whole()
        found = check(schema, i, i % 2, Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER))
        if found is None:
            return 77
        totals = [a + b for a, b in zip(totals, found)]
    print(f"{count} schemas, {totals[2]} refused, {totals[0]} documents, {totals[1]} wrong")
    return 1 if totals[1] or totals[2] > count // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
