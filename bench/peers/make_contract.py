#!/usr/bin/env python3
"""Bundles of genuine size with random weights, by Apple's own exporters: for contracts that no GGUF file has.

    make_contract.py --models CHECKOUT --platform iOS --context 32768 --out FOLDER

CHECKOUT is apple/coreai-models. Needs torch, coreai-core, coreai-torch, coreai-opt and transformers (versions: scripts/make_goldens). The shape is that
of qwen3-0.6b with fewer layers and a smaller vocabulary, so that what depends on the cache is a larger part of a step than it is in
the whole model.
"""

import argparse
import asyncio
import json
import os
import sys


def configuration(args):
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Config

    return Qwen3Config(
        vocab_size=args.vocab,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=args.layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=args.context,
        tie_word_embeddings=not args.untied,
        rms_norm_eps=1e-6,
    )


def fill(model):
    """Small random weights; norms stay at one."""
    import torch

    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.is_floating_point() and p.dim() > 1:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.02)
            elif p.dtype == torch.int8 and p.dim() > 1:
                p.copy_(torch.randint(-100, 100, p.shape, generator=generator))
            elif p.dtype == torch.float16 and p.dim() == 0:
                p.fill_(0.0004)


def use_newer_packages(program_class):
    """What the exporters ask of coreai-core 1.0.0b2 in the terms of 1.0.0b3, which replaces a function by those of its shapes at once."""
    program_class.optimize = lambda self: None
    shapes, constraints = program_class.set_static_shape_config, program_class.set_hardware_constraints
    made = {}

    def set_shapes(self, name, by_label):
        made[name] = [f"{name}_{label.strip(chr(34))}" for label in by_label]
        return shapes(self, name, by_label)

    def set_constraints(self, name, by_input):
        for each in made.get(name, [name]):
            constraints(self, each, by_input)

    program_class.set_static_shape_config, program_class.set_hardware_constraints = set_shapes, set_constraints


def export(args):
    import torch
    from coreai.authoring import AIProgram

    use_newer_packages(AIProgram)
    config = configuration(args)
    args.max_context_length, args.include_debug_info = args.context, False
    if args.platform == "iOS":
        from coreai_models.export.ios import export_ios_model
        from coreai_models.models.ios.qwen3 import Qwen3ForCausalLMForiOS

        model = Qwen3ForCausalLMForiOS(config, model_device="cpu", disable_embedding_quantization=not args.int8_table)
        if args.least:
            type(model).IOS_STATIC_MIN_CACHE_LEN = args.least
    else:
        from coreai_models.export.macos import export_macos_model
        from coreai_models.models.macos.qwen3 import Qwen3ForCausalLM

        model = Qwen3ForCausalLM(config, model_device="cpu")
    model = model.to(dtype=torch.float16).eval()
    fill(model)
    if args.platform == "iOS":
        return asyncio.run(export_ios_model(model, config, args))
    return export_macos_model(model, config, args)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", required=True)
    p.add_argument("--platform", choices=["iOS", "macOS"], default="iOS")
    p.add_argument("--context", type=int, default=32768)
    p.add_argument("--least", type=int, help="iOS: the shortest cache of the ladder (256)")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--vocab", type=int, default=32768)
    p.add_argument("--int8-table", action="store_true", help="iOS: the embedding table in 8 bits, as exporters make it by default")
    p.add_argument("--untied", action="store_true", help="iOS: a head of its own instead of the embedding table, which is an input")
    p.add_argument("--out", required=True)
    args = p.parse_args()
    sys.path.insert(0, os.path.join(args.models, "python", "src"))
    program = export(args)
    os.makedirs(args.out, exist_ok=True)
    asset = os.path.join(args.out, "model.aimodel")
    from pathlib import Path

    program.save_asset(Path(asset))
    language = {
        "tokenizer": "none",
        "vocab_size": args.vocab,
        "max_context_length": args.context,
        "embedded_tokenizer": False,
        "function_map": {"main": ["main"]},
    }
    document = {
        "metadata_version": "0.2",
        "kind": "llm",
        "name": os.path.basename(args.out.rstrip("/")),
        "assets": {"main": "model.aimodel"},
        "language": language,
        "source": {"model_definition": "torch"},
        "compression": None,
    }
    with open(os.path.join(args.out, "metadata.json"), "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
