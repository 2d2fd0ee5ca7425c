#!/usr/bin/env python3
"""Writes a GGUF file with random weights at the shape of a known model, for cairn and llama.cpp alike.

    bench/peers/make_gguf.py SHAPE FILE [--type q4_0|q8_0|f16]

Needs the package gguf (PyPI). The values are noise with the usual spread, so that speed is that of the real model and texts
mean nothing. The tokenizer is a small byte vocabulary filled up to the size of the model's.
"""
import argparse

import gguf
import numpy as np

# layers, width, feed-forward, heads, KV heads, head size, vocabulary, tied head, rope base, (experts, chosen, expert width)
SHAPES = {
    "qwen3-0.6b": ("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, True, 1e6, None),
    "llama-3.2-1b": ("llama", 16, 2048, 8192, 32, 8, 64, 128256, True, 5e5, None),
    "qwen3-4b": ("qwen3", 36, 2560, 9728, 32, 8, 128, 151936, True, 1e6, None),
    "smollm2-135m": ("llama", 30, 576, 1536, 9, 3, 64, 49152, True, 1e5, None),
    "moe-32x4": ("qwen3moe", 24, 1024, 2048, 16, 8, 128, 151936, True, 1e6, (32, 4, 1024)),
}
TYPES = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0, "f16": gguf.GGMLQuantizationType.F16}


def random_tensor(rng, shape, kind):
    n = int(np.prod(shape))
    if kind == "f16":
        return (rng.standard_normal(n, dtype=np.float32) * 0.02).astype(np.float16).reshape(shape)
    blocks = n // 32
    scale = np.full((blocks, 1), 0.02 / (3 if kind == "q4_0" else 50), np.float16) * rng.uniform(0.8, 1.2, (blocks, 1)).astype(np.float16)
    if kind == "q4_0":
        codes = np.clip(np.round(rng.standard_normal((blocks, 32), dtype=np.float32) * 3 + 8), 0, 15).astype(np.uint8)
        quants = codes[:, :16] | codes[:, 16:] << 4
    else:
        quants = np.clip(np.round(rng.standard_normal((blocks, 32), dtype=np.float32) * 50), -127, 127).astype(np.int8).view(np.uint8)
    data = np.concatenate([scale.view(np.uint8).reshape(blocks, 2), quants], axis=1)
    return data.reshape(*shape[:-1], -1)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("file")
    p.add_argument("--type", choices=TYPES, default="q4_0")
    args = p.parse_args()
    arch, layers, width, ff, heads, kv, head, vocab, tied, base, moe = SHAPES[args.shape]
    rng = np.random.default_rng(0)
    w = gguf.GGUFWriter(args.file, arch)
    w.add_name(args.shape)
    w.add_context_length(32768)
    w.add_embedding_length(width)
    w.add_block_count(layers)
    w.add_feed_forward_length(ff)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    w.add_rope_freq_base(base)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_vocab_size(vocab)
    if moe:
        w.add_expert_count(moe[0])
        w.add_expert_used_count(moe[1])
        w.add_expert_feed_forward_length(moe[2])
    visible = [c for c in range(256) if 33 <= c <= 126 or 161 <= c <= 172 or c >= 174]
    letters = {c: chr(c) for c in visible}
    letters.update({c: chr(256 + i) for i, c in enumerate(c for c in range(256) if c not in letters)})
    tokens = [letters[c] for c in range(256)] + [f"<t{i}>" for i in range(256, vocab)]
    tokens[258] = "ab"
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([1] * 256 + [4] * (vocab - 256))
    w.add_token_merges([f"{letters[97]} {letters[98]}"])
    w.add_bos_token_id(256)
    w.add_eos_token_id(257)

    def matrix(name, *shape):
        w.add_tensor(name, random_tensor(rng, shape, args.type), raw_dtype=TYPES[args.type])

    def ones(name, n):
        w.add_tensor(name, np.ones(n, np.float32))

    matrix("token_embd.weight", vocab, width)
    ones("output_norm.weight", width)
    if not tied:
        matrix("output.weight", vocab, width)
    for i in range(layers):
        b = f"blk.{i}."
        ones(b + "attn_norm.weight", width)
        ones(b + "ffn_norm.weight", width)
        matrix(b + "attn_q.weight", heads * head, width)
        matrix(b + "attn_k.weight", kv * head, width)
        matrix(b + "attn_v.weight", kv * head, width)
        matrix(b + "attn_output.weight", width, heads * head)
        if arch.startswith("qwen3"):
            ones(b + "attn_q_norm.weight", head)
            ones(b + "attn_k_norm.weight", head)
        if moe:
            w.add_tensor(b + "ffn_gate_inp.weight", rng.standard_normal((moe[0], width), dtype=np.float32) * 0.02)
            for part, shape in (("gate", (moe[0], moe[2], width)), ("up", (moe[0], moe[2], width)), ("down", (moe[0], width, moe[2]))):
                matrix(f"{b}ffn_{part}_exps.weight", *shape)
        else:
            matrix(b + "ffn_gate.weight", ff, width)
            matrix(b + "ffn_up.weight", ff, width)
            matrix(b + "ffn_down.weight", width, ff)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
