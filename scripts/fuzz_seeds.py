#!/usr/bin/env python3
"""Puts seeds for one fuzz target into a corpus folder:  fuzz_seeds.py TARGET FOLDER

Seeds come from tests/data, and from the full corpora when they lie beside the checkout. Files above 128 KiB are left out:
a fuzzer gets nowhere with them.
"""
import glob
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.join(ROOT, "..", "shared")
PATTERNS = {
    "mlirbc": ["tests/data/**/main.mlirb", "../shared/corpus/probes/*/model.aimodel/main.mlirb"],
    "gguf": ["tests/data/gguf/**/*.gguf"],
    "safetensors": ["tests/data/**/*.safetensors"],
    "tokenizer": ["tests/data/tokenizer/**/*.json"],
    "template": ["tests/data/template/**/*.jinja", "../shared/corpus/chat_template/templates/*.jinja"],
    "bundle": ["tests/data/**/metadata.json", "../shared/models/*/metadata.json"],
}


def main():
    target, folder = sys.argv[1:]
    count = 0
    for pattern in PATTERNS.get(target, []):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            if os.path.isfile(path) and os.path.getsize(path) <= 1 << 17:
                shutil.copyfile(path, os.path.join(folder, f"seed{count:04d}"))
                count += 1
    print(f"{count} seeds for {target}")


if __name__ == "__main__":
    main()
