#!/usr/bin/env python3
"""Makes the small models of this folder and their logits.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy gguf safetensors
    /tmp/v/bin/python tests/data/gguf/make.py [NAME...]

Every NAME.gguf has a NAME.safetensors: `ids` and the `logits` of all positions, computed in float64 from the weights as
the file stores them (dequantized by the gguf package, which is the oracle here). The models differ in more than their
element type, so that each option of the importer is met by at least one of them.
"""

import os
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
T = gguf.GGMLQuantizationType


class Model:
    """One file: sizes, options and the element type of each kind of tensor."""

    def __init__(self, name, matrix, embedding=None, tied=True, hidden=32, heads=4, kv_heads=2, head_dim=None, layers=2, inner=64,
                 vocab=48, base=10000.0, rope_dims=None, scaling=None, freqs=False, bias=False, attention_scale=None, window=0,
                 tokenizer=None, version=3, seed=0, arch="llama", experts=0, chosen=0, expert_inner=32, normalize=None, kinds=None):
        self.__dict__.update(locals())
        self.embedding = matrix if embedding is None else embedding
        self.explicit_head_dim = head_dim
        self.head_dim = head_dim or hidden // heads
        self.rope_dims = rope_dims or self.head_dim
        self.eps = 1e-5
        self.random = np.random.default_rng(seed)
        self.tensors = {}  # name -> float64 values as stored
        self.stored = {}  # name -> (array, type)

    def add(self, name, shape, kind, scale):
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        if name.endswith("norm.weight"):
            values = 1 + values
        if kind == T.F32:
            self.stored[name] = (values, kind)
            self.tensors[name] = values.astype(np.float64)
            return
        data = gguf.quants.quantize(values, kind)
        self.stored[name] = (data, kind)
        self.tensors[name] = gguf.quants.dequantize(data, kind).astype(np.float64).reshape(shape)

    def fill(self):
        m, k = self, self.matrix
        q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
        self.add("token_embd.weight", (m.vocab, m.hidden), m.embedding, 1.0)
        for i in range(m.layers):
            p = f"blk.{i}."
            self.add(p + "attn_norm.weight", (m.hidden,), T.F32, 0.2)
            for part, rows in (("q", q), ("k", kv), ("v", kv)):
                self.add(f"{p}attn_{part}.weight", (rows, m.hidden), (m.kinds or {}).get(part, k), 1.5 * m.hidden**-0.5)
                if m.bias:
                    self.add(f"{p}attn_{part}.bias", (rows,), T.F32, 0.5)
            self.add(p + "attn_output.weight", (m.hidden, q), k, q**-0.5)
            self.add(p + "ffn_norm.weight", (m.hidden,), T.F32, 0.2)
            if m.arch.startswith("qwen3"):
                self.add(p + "attn_q_norm.weight", (m.head_dim,), T.F32, 0.3)
                self.add(p + "attn_k_norm.weight", (m.head_dim,), T.F32, 0.3)
            if m.experts:
                self.add(p + "ffn_gate_inp.weight", (m.experts, m.hidden), T.F32, 3 * m.hidden**-0.5)
                self.add(p + "ffn_gate_exps.weight", (m.experts, m.expert_inner, m.hidden), k, m.hidden**-0.5)
                self.add(p + "ffn_up_exps.weight", (m.experts, m.expert_inner, m.hidden), k, m.hidden**-0.5)
                self.add(p + "ffn_down_exps.weight", (m.experts, m.hidden, m.expert_inner), k, m.expert_inner**-0.5)
                continue
            self.add(p + "ffn_gate.weight", (m.inner, m.hidden), k, m.hidden**-0.5)
            self.add(p + "ffn_up.weight", (m.inner, m.hidden), k, m.hidden**-0.5)
            self.add(p + "ffn_down.weight", (m.hidden, m.inner), k, m.inner**-0.5)
        self.add("output_norm.weight", (m.hidden,), T.F32, 0.2)
        if not m.tied:
            self.add("output.weight", (m.vocab, m.hidden), k, m.hidden**-0.5)
        if m.freqs:
            divisors = np.linspace(1, 8, m.rope_dims // 2).astype(np.float32)
            self.stored["rope_freqs.weight"] = (divisors, T.F32)
            self.tensors["rope_freqs.weight"] = divisors.astype(np.float64)

    # --- float64 reference ------------------------------------------------------------------------------------------

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.tensors[name + ".weight"]

    def linear(self, x, name):
        y = x @ self.tensors[name + ".weight"].T
        bias = self.tensors.get(name + ".bias")
        return y if bias is None else y + bias

    def rope(self, x):  # [tokens, heads, head_dim]; neighbours form a pair in llama files, halves in the others
        n = self.rope_dims
        theta = self.base ** (-np.arange(0, n, 2) / n)
        if self.freqs:
            theta = theta / self.tensors["rope_freqs.weight"]
        if self.scaling:
            theta = theta / self.scaling
        angle = np.arange(x.shape[0])[:, None] * theta
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        out = x.copy()
        first, second = (slice(0, n, 2), slice(1, n, 2)) if self.arch == "llama" else (slice(0, n // 2), slice(n // 2, n))
        a, b = x[..., first], x[..., second]
        out[..., first] = a * c - b * s
        out[..., second] = a * s + b * c
        return out

    def head_norm(self, x, name):
        return self.norm(x, name) if name + ".weight" in self.tensors else x

    def feed_forward(self, x, p):
        if not self.experts:
            gate = self.linear(x, p + "ffn_gate")
            return self.linear(gate / (1 + np.exp(-gate)) * self.linear(x, p + "ffn_up"), p + "ffn_down")
        scores = self.linear(x, p + "ffn_gate_inp")
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        out = np.zeros_like(x)
        for i, row in enumerate(scores):
            best = np.argsort(-row, kind="stable")[: self.chosen]
            weights = row[best] if self.normalize is False else row[best] / row[best].sum()
            for e, w in zip(best, weights):
                gate, up, down = (self.tensors[f"{p}ffn_{part}_exps.weight"][e] for part in ("gate", "up", "down"))
                g = gate @ x[i]
                out[i] += w * (down @ (g / (1 + np.exp(-g)) * (up @ x[i])))
        return out

    def attend(self, x, p):
        n, d = x.shape[0], self.head_dim
        q = self.rope(self.head_norm(self.linear(x, p + "attn_q").reshape(n, self.heads, d), p + "attn_q_norm"))
        k = self.rope(self.head_norm(self.linear(x, p + "attn_k").reshape(n, self.kv_heads, d), p + "attn_k_norm"))
        v = self.linear(x, p + "attn_v").reshape(n, self.kv_heads, d)
        k, v = (np.repeat(t, self.heads // self.kv_heads, axis=1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) * (self.attention_scale or d**-0.5)
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        seen = j <= i
        if self.window:
            seen &= j > i - self.window
        scores = np.where(seen, scores, -np.inf)
        w = np.exp(scores - scores.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return self.linear(np.einsum("hij,jhd->ihd", w, v).reshape(n, -1), p + "attn_output")

    def logits(self, ids):
        h = self.tensors["token_embd.weight"][ids]
        for i in range(self.layers):
            p = f"blk.{i}."
            h = h + self.attend(self.norm(h, p + "attn_norm"), p)
            h = h + self.feed_forward(self.norm(h, p + "ffn_norm"), p)
        return self.linear(self.norm(h, "output_norm"), "token_embd" if self.tied else "output")

    # --- writing ---------------------------------------------------------------------------------------------------------

    def write(self):
        self.fill()
        path = os.path.join(HERE, self.name + ".gguf")
        w = gguf.GGUFWriter(path, self.arch)
        w.add_name("tiny " + self.name)
        w.add_block_count(self.layers)
        w.add_context_length(64)
        w.add_embedding_length(self.hidden)
        w.add_feed_forward_length(self.inner)
        w.add_head_count(self.heads)
        if self.kv_heads != self.heads:
            w.add_head_count_kv(self.kv_heads)
        if self.explicit_head_dim:
            w.add_key_length(self.head_dim)
            w.add_value_length(self.head_dim)
        w.add_layer_norm_rms_eps(self.eps)
        if self.base != 10000.0:
            w.add_rope_freq_base(self.base)
        if self.rope_dims != self.head_dim:
            w.add_rope_dimension_count(self.rope_dims)
        if self.scaling:
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(self.scaling)
        if self.attention_scale:
            w.add_attention_scale(self.attention_scale)
        if self.window:
            w.add_sliding_window(self.window)
        if self.experts:
            w.add_expert_count(self.experts)
            w.add_expert_used_count(self.chosen)
            w.add_expert_feed_forward_length(self.expert_inner)
        if self.normalize is not None:
            w.add_expert_weights_norm(self.normalize)
        if self.tokenizer:
            self.tokenizer(w, self.vocab)
        for name, (data, kind) in self.stored.items():
            w.add_tensor(name, data, raw_dtype=kind)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        if self.version != 3:  # versions 2 and 3 differ in the number alone
            with open(path, "r+b") as f:
                f.seek(4)
                f.write(int(self.version).to_bytes(4, "little"))
        ids = self.random.integers(0, self.vocab, 14)
        golden = {"ids": ids.astype(np.int32), "logits": self.logits(ids).astype(np.float32)}
        target = os.path.join(HERE, self.name + ".safetensors")
        save_file(golden, target)
        os.chmod(target, 0o644)
        print(f"{self.name}: {os.path.getsize(path)} bytes, logits std {golden['logits'].std():.3f}")


def byte_alphabet():
    """The printable stand-ins of the 256 bytes in byte-level vocabularies."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(rest)) for b in range(256)]


def bpe(w, vocab):
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("l", "d"), ("Ġwor", "ld")]
    tokens = byte_alphabet() + ["".join(m) for m in merges]
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokens += special
    types = [gguf.TokenType.NORMAL] * (len(tokens) - len(special)) + [gguf.TokenType.CONTROL] * len(special)
    while len(tokens) < vocab:
        tokens.append(f"<|reserved_{len(tokens)}|>")
        types.append(gguf.TokenType.UNUSED)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges([" ".join(m) for m in merges])
    w.add_bos_token_id(tokens.index("<|begin_of_text|>"))
    w.add_eos_token_id(tokens.index("<|end_of_text|>"))
    w.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|eot_id|>{% endfor %}")


def spm(w, vocab):
    words = ["▁", "h", "e", "l", "o", "▁h", "ll", "▁he", "llo", "▁hello"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(words)
    scores = [0.0] * 259 + [-float(i) for i in range(len(words), 0, -1)]
    while len(tokens) < vocab:
        tokens.append(f"<extra_{len(tokens)}>")
        types.append(gguf.TokenType.USER_DEFINED)
        scores.append(-1000.0)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_scores(scores)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)


MODELS = [
    Model("f32", T.F32, vocab=280, base=500000.0, freqs=True, tokenizer=bpe, seed=1),
    Model("f16", T.F16, tied=False, kv_heads=1, head_dim=16, layers=1, inner=48, vocab=272, bias=True, window=5, tokenizer=spm, seed=2),
    Model("bf16", T.BF16, kv_heads=4, rope_dims=4, scaling=2.0, attention_scale=0.5, version=2, seed=3),
    Model("q8_0", T.Q8_0, hidden=64, inner=96, base=50000.0, seed=4),
    Model("q4_0", T.Q4_0, embedding=T.F16, tied=False, hidden=64, inner=96, seed=5),
    Model("q4_1", T.Q4_1, embedding=T.Q8_0, hidden=64, inner=96, kv_heads=1, seed=6),
    Model("qwen2", T.Q4_0, arch="qwen2", hidden=64, inner=96, bias=True, base=1e6, seed=7),
    Model("qwen2_mixed", T.Q8_0, arch="qwen2", hidden=64, inner=96, bias=True, kinds={"v": T.Q4_1}, tied=False, seed=8),
    Model("qwen3_q8_0", T.Q8_0, arch="qwen3", hidden=64, inner=96, head_dim=24, base=1e6, seed=9),
    Model("qwen3_f32", T.F32, arch="qwen3", head_dim=16, kv_heads=1, base=1e6, seed=10),
    Model("qwen3moe_q4_0", T.Q4_0, arch="qwen3moe", hidden=64, head_dim=32, experts=8, chosen=3, base=1e6, seed=11),
    Model("qwen3moe_f16", T.F16, arch="qwen3moe", experts=4, chosen=2, expert_inner=24, normalize=False, layers=1, seed=12),
    Model("mixtral", T.Q8_0, hidden=64, experts=4, chosen=2, expert_inner=32, seed=13),
]

if __name__ == "__main__":
    for model in MODELS:
        if not sys.argv[1:] or model.name in sys.argv[1:]:
            model.write()
