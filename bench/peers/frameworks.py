#!/usr/bin/env python3
"""Language models of known shapes in torch and onnxruntime beside cairn: prefill and decode, the same threads, runs in turn.

    bench/peers/frameworks.py [--python PYTHON] [--cairn PROGRAM] [--threads N] [--rounds N] SHAPE...

PYTHON is one with torch and, for the second peer, onnxruntime, onnx and onnxscript (a virtual environment). Weights are random; the
frameworks keep them in f32 or bf16, for neither has 4-bit kernels for a processor in its plain packages, and cairn runs the same shape
with f16 and with 4-bit weights (`synthetic:SHAPE:TYPE`). Caches grow by concatenation, as the usual model code does. Prints a table in Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# layers, width, inner, heads, cache heads, head size, vocabulary, norms of queries and keys
SHAPES = {
    "smollm2-135m": (30, 576, 1536, 9, 3, 64, 49152, False),
    "qwen3-0.6b": (28, 1024, 3072, 16, 8, 128, 151936, True),
    "llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256, False),
}


def build(shape):
    """The decoder as a torch module: (ids, past length as a tensor's shape, caches) -> (last row of logits, caches)."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    layers, width, inner, heads, kv, size, vocabulary, has_norms = SHAPES[shape]

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.k, self.v = (nn.Linear(width, n * size, bias=False) for n in (heads, kv, kv))
            self.o = nn.Linear(heads * size, width, bias=False)
            self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
            self.down = nn.Linear(inner, width, bias=False)
            self.q_norm, self.k_norm = (nn.RMSNorm(size), nn.RMSNorm(size)) if has_norms else (nn.Identity(), nn.Identity())

        def forward(self, x, cos, sin, mask, k_past, v_past):
            n, t, _ = x.shape
            y = self.first(x)
            q = rotate(self.q_norm(self.q(y).view(n, t, heads, size)).transpose(1, 2), cos, sin)
            k = rotate(self.k_norm(self.k(y).view(n, t, kv, size)).transpose(1, 2), cos, sin)
            k, v = torch.cat((k_past, k), 2), torch.cat((v_past, self.v(y).view(n, t, kv, size).transpose(1, 2)), 2)
            repeat = lambda c: c[:, :, None].expand(n, kv, heads // kv, c.shape[2], size).reshape(n, heads, c.shape[2], size)
            a = F.scaled_dot_product_attention(q, repeat(k), repeat(v), attn_mask=mask)
            x = x + self.o(a.transpose(1, 2).reshape(n, t, heads * size))
            y = self.second(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = nn.RMSNorm(width)

        def forward(self, ids, positions, *caches):
            x = self.words(ids)
            inverse = 1e5 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
            angle = positions[:, None].float() * inverse
            cos, sin = (torch.cat((f(angle), f(angle)), -1).to(x.dtype) for f in (torch.cos, torch.sin))
            seen = torch.arange(caches[0].shape[2] + ids.shape[1])
            mask = seen[None, :] <= positions[:, None]
            new = []
            for i, layer in enumerate(self.layers):
                x, k, v = layer(x, cos, sin, mask, caches[2 * i], caches[2 * i + 1])
                new += [k, v]
            return F.linear(self.norm(x[:, -1:]), self.words.weight), *new

    torch.manual_seed(0)
    return Decoder().eval()


def empty_caches(shape, dtype):
    import torch

    layers, _, _, _, kv, size, _, _ = SHAPES[shape]
    return [torch.zeros(1, kv, 0, size, dtype=dtype) for _ in range(2 * layers)]


def measure(step, caches, prompt, tokens):
    """Tokens a second of the prompt and behind it. `step` takes ids and positions as torch tensors, and caches."""
    import torch

    start = time.perf_counter()
    row, *caches = step(torch.arange(prompt)[None], torch.arange(prompt), caches)
    middle = time.perf_counter()
    for i in range(tokens):
        row, *caches = step(torch.tensor([[i]]), torch.tensor([prompt + i]), caches)
    return prompt / (middle - start), tokens / (time.perf_counter() - middle)


def onnx_session(model, shape, threads, folder):
    import onnxruntime
    import torch

    path = os.path.join(folder, "model.onnx")
    caches = [torch.zeros(1, *c.shape[1:2], 4, c.shape[3]) for c in empty_caches(shape, torch.float32)]
    new, past = torch.export.Dim("new", min=1, max=1 << 16), torch.export.Dim("past", min=0, max=1 << 16)
    dims = ({1: new}, {0: new}, tuple({2: past} for _ in caches))
    names = [f"past{i}" for i in range(len(caches))]
    torch.onnx.export(model, (torch.zeros(1, 3, dtype=torch.int64), torch.arange(4, 7), *caches), path, dynamo=True, dynamic_shapes=dims,
                      input_names=["ids", "positions", *names], output_names=["row", *(f"new{i}" for i in range(len(caches)))], verbose=False)  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def step(ids, positions, given):
        arrays = [c if not isinstance(c, torch.Tensor) else c.numpy() for c in given]
        return session.run(None, {"ids": ids.numpy(), "positions": positions.numpy(), **dict(zip(names, arrays))})

    return step


def serve(args):
    """The side of PYTHON: reads a line for every measurement that is wanted, writes one with the result."""
    import importlib.util

    import torch

    torch.set_num_threads(args.threads)
    shape, sides = args.shapes[0], {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        model = build(shape)
        if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnxscript"):
            sides["onnxruntime f32"] = onnx_session(model, shape, args.threads, folder), torch.float32
        sides["torch f32"] = (lambda i, p, c: model(i, p, *c)), torch.float32
        narrow = build(shape).to(torch.bfloat16)
        sides["torch bf16"] = (lambda i, p, c: narrow(i, p, *c)), torch.bfloat16
        print(json.dumps(list(sides)), flush=True)
        for line in sys.stdin:
            step, dtype = sides[line.strip()]
            print(json.dumps(measure(step, empty_caches(shape, dtype), args.prompt, args.tokens)), flush=True)


def ours(args, shape, kind):
    command = [args.cairn, "bench", f"synthetic:{shape}:{kind}", "-q", "--json", "-p", str(args.prompt), "-g", str(args.tokens), "-n", "1"]
    command += ["--threads", str(args.threads)]
    averages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["averages"]
    return averages["prompt_tps"], averages["generation_tps"]


def compare(args, shape):
    command = [args.python, __file__, "--serve", "--threads", str(args.threads), "--prompt", str(args.prompt), "--tokens", str(args.tokens)]
    with subprocess.Popen([*command, shape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        lines = (line for line in child.stdout if line.startswith("["))
        names = json.loads(next(lines, "[]")) or sys.exit(f"{args.python} cannot run torch")
        results = {name: [] for name in ["cairn f16", "cairn q4", *names]}
        for _ in range(args.rounds):
            for kind in ("f16", "q4"):
                results[f"cairn {kind}"].append(ours(args, shape, kind))
            for name in names:
                print(name, file=child.stdin, flush=True)
                results[name].append(json.loads(next(lines)))
        child.stdin.close()
    prefill, decode = ({n: statistics.median(r[i] for r in rows) for n, rows in results.items()} for i in range(2))
    best = [max(v for n, v in side.items() if not n.startswith("cairn")) for side in (prefill, decode)]
    for name in results:
        ratios = [f"{v / b:.2f}" if name.startswith("cairn") else "" for v, b in zip((prefill[name], decode[name]), best)]
        print(f"| {shape} | {name} | {prefill[name]:.1f} | {ratios[0]} | {decode[name]:.2f} | {ratios[1]} |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("shapes", nargs="+", choices=SHAPES, metavar="SHAPE")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--cairn", default=os.path.join(ROOT, "build", "release", "cairn"))
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.serve:
        return serve(args)
    print("| shape | program | prefill tokens/s | to the best peer | decode tokens/s | to the best peer |\n|---|---|---|---|---|---|")
    for shape in args.shapes:
        compare(args, shape)
    print(f"\nLoad average {os.getloadavg()[0]:.1f} (figures of a machine with other work say little).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
