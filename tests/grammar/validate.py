#!/usr/bin/env python3
"""Random documents of every schema of tests/data/grammar/schemas.json, and documents a model writes, against an independent validator:

    validate.py [--count N] [--seeds N]

RANDOM_DOCUMENTS names the program that makes them, CAIRN_PROGRAM and MODEL (both may be missing) a model. The validator is the PyPI package
jsonschema, from the interpreter or from a venv in VENV, which is made when it is not there. Exit 77 when it cannot be had.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "data", "grammar")


def with_validator(script):
    """Runs a script again with an interpreter that has jsonschema."""
    venv = os.environ.get("VENV", "")
    python = os.path.join(venv, "bin", "python")
    if not venv or os.environ.get("IN_VENV"):
        return 77
    if not os.path.exists(os.path.join(venv, "ready")):
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, timeout=120)
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
            subprocess.run(pip + ["jsonschema==4.26.0"], check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError):
            print("jsonschema cannot be installed here")
            return 77
        open(os.path.join(venv, "ready"), "w").close()
    return subprocess.call([python, "-B", script] + sys.argv[1:], env=dict(os.environ, IN_VENV="1"))


def random_documents(schema, count, seed, compact):
    command = [os.environ["RANDOM_DOCUMENTS"], os.path.join(DATA, "tokenizer.json"), str(count), str(seed), str(int(compact))]
    result = subprocess.run(command, input=json.dumps(schema).encode(), capture_output=True, timeout=600)
    if result.returncode == 77:
        return None
    if result.returncode:
        raise SystemExit(f"{json.dumps(schema)}: exit {result.returncode}: {result.stderr.decode()}")
    lines = [json.loads(line) for line in result.stdout.decode().splitlines()]
    return [line["document"] for line in lines if line["ended"]]


def model_documents(schema, seeds):
    program, model = os.environ.get("CAIRN_PROGRAM"), os.environ.get("MODEL")
    for seed in seeds if program and model and os.path.exists(model) else ():
        command = [program, "generate", model, "--prompt", "Write a JSON document.", "--json-schema", json.dumps(schema), "--json", "-q"]
        command += ["--max-tokens", "120", "--temperature", "1", "--seed", str(seed), "--compact-json"]
        result = subprocess.run(command, capture_output=True, timeout=600)
        if result.returncode:
            raise SystemExit(f"{json.dumps(schema)}: {result.stderr.decode()}")
        answer = json.loads(result.stdout)
        if answer["guide"]["complete"]:
            yield answer["text"]


def main():
    try:
        import jsonschema
    except ImportError:
        return with_validator(os.path.abspath(__file__))
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    count, seeds = int(arguments.get("--count", 40)), int(arguments.get("--seeds", 1))
    schemas = json.load(open(os.path.join(DATA, "schemas.json"), encoding="utf-8"))
    bad, checked, by_model = 0, 0, 0
    for name, schema in schemas.items():
        default = jsonschema.Draft202012Validator
        kind = jsonschema.validators.validator_for(schema, default=default) if isinstance(schema, dict) else default
        validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
        documents = []
        for compact in (False, True):
            made = random_documents(schema, count, 7 + compact, compact)
            if made is None:
                print("this build has no guided generation")
                return 77
            documents += made
        written = list(model_documents(schema, range(seeds)))
        by_model += len(written)
        for text in documents + written:
            checked += 1
            try:
                errors = [e.message for e in validator.iter_errors(json.loads(text))]
            except ValueError as e:
                errors = [str(e)]
            if errors:
                bad += 1
                print(f"{name}: {text!r}: {errors[0]}")
        if not documents:
            bad += 1
            print(f"{name}: no document came to an end")
    print(f"{checked} documents of {len(schemas)} schemas, {by_model} of them by a model, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
