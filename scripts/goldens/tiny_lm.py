"""Tiny language models in the contracts that bundles have: caches as states or as plain values, several functions, …"""

import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from . import torch_cases

VOCAB, WIDTH, HEADS, GROUPS, HEAD, LAYERS, CAPACITY = 48, 16, 2, 1, 8, 2, 80


def rotate(t, positions):
    half = HEAD // 2
    angle = positions[:, None].to(t.dtype) * (1.0 / 10 ** (torch.arange(half) / half)).to(t.dtype)
    a, b = t[..., :half], t[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, HEADS * HEAD), nn.Linear(HEADS * HEAD, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, GROUPS * HEAD), nn.Linear(WIDTH, GROUPS * HEAD)

    def forward(self, x, positions, store):
        """store(key, value) keeps the new columns and returns all of them."""
        n = x.shape[1]
        head = lambda t, k: t.reshape(1, n, k, HEAD).transpose(1, 2)
        new = positions[positions.shape[0] - n :]
        q, k = rotate(head(self.query(x), HEADS), new), rotate(head(self.key(x), GROUPS), new)
        keys, values = store(k, head(self.value(x), GROUPS))
        keys, values = keys.repeat_interleave(HEADS // GROUPS, 1), values.repeat_interleave(HEADS // GROUPS, 1)
        scores = q @ keys.transpose(2, 3) / HEAD**0.5
        seen = torch.arange(keys.shape[2])[None, :] <= new[:, None]
        scores = scores.masked_fill(~seen[None, None], -1e4)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).reshape(1, n, HEADS * HEAD))


class Model(nn.Module):
    """kind: growing, host, quantized, extra, hybrid; `chunk` is the number of tokens of a call when it is fixed."""

    def __init__(self, kind="growing"):
        super().__init__()
        torch.manual_seed(3)
        self.kind = kind
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.attention = nn.ModuleList(Attention() for _ in range(1 if kind == "hybrid" else LAYERS))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2 * LAYERS + 1))
        self.up, self.down = (nn.ModuleList(nn.Linear(a, b) for _ in range(LAYERS)) for a, b in ((WIDTH, 24), (24, WIDTH)))
        if kind == "extra":
            self.gate, self.project = (nn.ModuleList(nn.Linear(a, b) for _ in range(LAYERS)) for a, b in ((WIDTH, 4), (4, WIDTH)))
        if kind == "hybrid":
            self.window = nn.Parameter(torch.randn(WIDTH, 4) * 0.4)
            self.mix = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def store_in(self, layer, states, e):
        """Writes the last columns of caches [layers, 1, heads, capacity, width] and reads those there are."""

        def store(k, v):
            if self.kind == "quantized":
                return self.quantized(layer, states, e, k, 0), self.quantized(layer, states, e, v, 2)
            for cache, new in zip(states[:2], (k, v)):
                cache[layer, :, :, e - new.shape[2] : e] = new
            return states[0][layer, :, :, :e], states[1][layer, :, :, :e]

        return store

    def quantized(self, layer, states, e, new, first):
        """int8 columns with a scale each."""
        values, scales = states[first], states[first + 1]
        scale = new.abs().amax(-1, keepdim=True) / 127 + 1e-6
        values[layer, :, :, e - new.shape[2] : e] = torch.round(new / scale).to(torch.int8)
        scales[layer, :, :, e - new.shape[2] : e] = scale
        return values[layer, :, :, :e].to(new.dtype) * scales[layer, :, :, :e]

    def recurrent(self, x, window, memory):
        """A short convolution over the last inputs, then a decayed outer-product memory."""
        q, k, v, decay, _ = (m(x) for m in self.mix)
        window.copy_(torch.cat([window[:, :, 1:], v.transpose(1, 2)], 2))
        v = (window * self.window).sum(2)
        memory.copy_(memory * torch.sigmoid(decay)[:, 0, :, None] + k[:, 0, :, None] * v[:, None, :])
        return q @ memory

    def forward(self, input_ids, position_ids, *rest):
        states = rest[1:] if self.kind == "extra" else rest
        positions, e = position_ids[0], position_ids.shape[1]
        x, kept = self.embed(input_ids), []
        for i in range(LAYERS):
            y = self.norms[2 * i](x)
            if self.kind == "host":

                def store(k, v, i=i):
                    kept.append((torch.cat([rest[0][i], k], 2), torch.cat([rest[1][i], v], 2)))
                    return kept[-1]

                x = x + self.attention[i](y, positions, store)
            elif self.kind == "hybrid" and i == 0:
                x = x + self.recurrent(y, states[2], states[3])
            else:
                x = x + self.attention[0 if self.kind == "hybrid" else i](
                    y, positions, self.store_in(0 if self.kind == "hybrid" else i, states, e)
                )
            x = x + self.down[i](F.silu(self.up[i](self.norms[2 * i + 1](x))))
            if self.kind == "extra":
                x = x + self.project[i](F.silu(self.gate[i](x)) * rest[0][:, :, i])
        logits = self.head(self.norms[-1](x))
        return (logits, torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])) if self.kind == "host" else logits


def tokens(n, seed=5):
    return torch.randint(0, VOCAB, (1, n), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def steps(lengths, function="main", extra=False):
    """Calls of the dynamic contract: new tokens and all positions up to them."""
    ids, at, calls = tokens(sum(lengths)), 0, []
    generator = torch.Generator().manual_seed(9)
    for n in lengths:
        call = (ids[:, at : at + n], torch.arange(at + n, dtype=torch.int32)[None])
        calls.append((function, call + ((torch.randn(1, n, LAYERS, 4, generator=generator),) if extra else ())))
        at += n
    return calls


def caches(n_layers=LAYERS):
    shape = (n_layers, 1, GROUPS, CAPACITY, HEAD)
    return {"keyCache": torch.zeros(shape), "valueCache": torch.zeros(shape)}


def growing(n, least=2):
    """Dims of n caches whose fourth dim is dynamic, the same in all."""
    c = Dim("c", min=least, max=4096)
    return [{3: c}] * n


def bundle(name, functions):
    """The manifest that makes a folder a bundle."""
    language = {
        "tokenizer": "none",
        "vocab_size": VOCAB,
        "max_context_length": CAPACITY,
        "embedded_tokenizer": False,
        "function_map": {f: [f] for f in functions},
    }
    document = {
        "metadata_version": "0.2",
        "kind": "llm",
        "name": name,
        "assets": {"main": "model.aimodel"},
        "language": language,
        "source": {"model_definition": "torch"},
        "compression": None,
    }
    return {"metadata.json": json.dumps(document, indent=1)}


NAMES = ["input_ids", "position_ids"]
E = Dim("e", min=1, max=4096)
T = Dim("t", min=1, max=4096)


def example(n, e, extra=False):
    return (tokens(n), torch.arange(e, dtype=torch.int32)[None]) + ((torch.zeros(1, n, LAYERS, 4),) if extra else ())


def write(out, name, functions, states, calls, slack=1.0):
    return torch_cases.make_stateful(
        out, name, functions, states, calls, ["logits"], slack=slack, every=64, files=bundle(name, [f for f, *_ in functions])
    )


def static_one(out):
    dims = (None, {1: E}, tuple(growing(2)))
    write(out, "lm_static_one", [("main", Model(), example(1, 3), dims, NAMES)], caches(), steps([1] * 64))


def dynamic(out):
    dims = ({1: T}, {1: E}, tuple(growing(2)))
    write(out, "lm_dynamic", [("main", Model(), example(4, 9), dims, NAMES)], caches(), steps([5, 1, 1, 3] + [1] * 60))


def two_functions(out):
    model = Model()
    main = ("main", model, example(1, 3), (None, {1: E}, tuple(growing(2))), NAMES)
    prefill = ("prefill", model, example(8, 11), (None, {1: Dim("p", min=8, max=4096)}, tuple(growing(2, 8))), NAMES)
    lengths = [8, 8] + [1] * 20 + [8] + [1] * 36
    calls = [("prefill" if c[0].shape[1] == 8 else "main", c) for _, c in steps(lengths)]
    write(out, "lm_two_functions", [main, prefill], caches(), calls)


def four_states(out):
    values, scales = (LAYERS, 1, GROUPS, CAPACITY, HEAD), (LAYERS, 1, GROUPS, CAPACITY, 1)
    states = {
        "keyCache": torch.zeros(values, dtype=torch.int8),
        "keyScale": torch.zeros(scales),
        "valueCache": torch.zeros(values, dtype=torch.int8),
        "valueScale": torch.zeros(scales),
    }
    dims = (None, {1: E}, tuple(growing(4)))
    write(out, "lm_four_states", [("main", Model("quantized"), example(1, 3), dims, NAMES)], states, steps([1] * 64))


def extra_input(out):
    dims = ({1: T}, {1: E}, ({1: T}, *growing(2)))
    write(
        out,
        "lm_extra_input",
        [("main", Model("extra"), example(4, 9, True), dims, NAMES + ["per_layer_inputs"])],
        caches(),
        steps([5, 1, 2] + [1] * 61, extra=True),
    )


def hybrid(out):
    states = {**caches(1), "convState": torch.zeros(1, WIDTH, 4), "recState": torch.zeros(1, WIDTH, WIDTH)}
    dims = (None, {1: E}, (*growing(2), None, None))
    write(out, "lm_hybrid", [("main", Model("hybrid"), example(1, 3), dims, NAMES)], states, steps([1] * 64))


def host_cache(out):
    """No states: the caller keeps the cache and gives it back with the next call."""
    model, generator = Model("host").eval(), torch.Generator().manual_seed(1)
    past = [torch.randn(LAYERS, 1, GROUPS, 2, HEAD, generator=generator) * 0.5 for _ in range(2)]
    calls, ids = [], tokens(64)
    with torch.no_grad():
        for k in range(24):
            n = 4 if k == 0 else 1
            call = (ids[:, k : k + n], torch.arange(past[0].shape[3] + n, dtype=torch.int32)[None], *past)
            calls.append(call)
            past = list(model(*call)[1:])
    p = Dim("p", min=1, max=4096)
    torch_cases.make_case(
        out,
        "lm_host_cache",
        model,
        calls,
        dims=({1: Dim.AUTO}, {1: Dim.AUTO}, ({3: p}, {3: p})),
        inputs=NAMES + ["past_k", "past_v"],
        outputs=["logits", "present_k", "present_v"],
    )


def jobs(out):
    return [
        (f"lm_{f.__name__}", lambda f=f: f(out)) for f in (static_one, dynamic, two_functions, four_states, extra_input, hybrid, host_cache)
    ]
