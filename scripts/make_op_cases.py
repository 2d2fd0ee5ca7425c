#!/usr/bin/env python3
"""Makes the golden cases of ops that no converted asset holds: plain (unbroadcast) forms, token joins, layout copies.

    make_op_cases.py --tools FOLDER --out FOLDER

FOLDER of --tools holds encode_min.py, the reference writer of main.mlirb. Expected values are computed by NumPy. Needs
numpy and safetensors.
"""
import argparse
import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file

DTYPE = {"f32": np.float32, "f16": np.float16, "si8": np.int8, "si32": np.int32, "ui32": np.uint32, "bool": np.bool_}


class Graph:
    """A function `main` under construction: inputs, ops and the NumPy value of everything."""

    def __init__(self, em):
        self.em = em
        self.w = em.Writer()
        self.w.defloc = self.w.loc(self.w.src(self.w.file("-")), self.w.unit())
        self.ops, self.inputs, self.outputs, self.tokens = [], [], [], []

    def input(self, name, elem, value):
        value = np.asarray(value, DTYPE[elem])
        v = self.em.Value(self.w.tensor(list(value.shape), elem))
        v.np, v.elem = value, elem
        self.inputs.append((name, v))
        return v

    def constant(self, elem, value):
        value = np.asarray(value, DTYPE[elem])
        (v,) = self.op("primitive.constant_v1", [], [(elem, value)], [self.em.req(self.w.dense(value.tobytes()))])
        return v

    def op(self, name, operands, results, props=None, regions=(), types=None):
        types = types or [self.w.tensor(list(np.asarray(r[1]).shape), r[0]) for r in results]
        op = self.em.Op(name, operands, types, props, regions, isolated=bool(regions))
        for value, (elem, array) in zip(op.results, results):
            value.np, value.elem = np.asarray(array, DTYPE[elem]), elem
        self.ops.append(op)
        return op.results

    def output(self, name, value):
        self.outputs.append((name, value))

    def write(self, folder, case):
        em, w = self.em, self.w
        label = lambda n: w.array([w.opaque("aicode.name", [w.string(n)])])
        self.ops.append(em.Op("dataflow.output_v1", self.tokens + [v for _, v in self.outputs], []))
        no = w.integer(0, 1)
        function = w.function([v.type for _, v in self.inputs], [v.type for _, v in self.outputs])
        graph = em.Op("dataflow.graph_v1", props=[
            em.req(w.array([label(n) for n, _ in self.inputs])), em.opt(None), em.req(no), em.req(w.typeattr(function)), em.req(no),
            em.req(w.string("main")), em.req(no), em.req(w.array([])), em.req(w.array([label(n) for n, _ in self.outputs]))],
            regions=[[([v for _, v in self.inputs], self.ops)]], isolated=True)
        asset = em.Op("serialization.asset", props=[em.opt(None), em.opt(w.integer(20260409, 32))], regions=[[([], [graph])]], isolated=True)
        path = os.path.join(folder, case)
        os.makedirs(path, exist_ok=True)
        meta = {"assetVersion": "2.0", "creationDate": "20260101T000000Z", "producer": "cairn make_op_cases"}
        em.write_asset(os.path.join(path, "model.aimodel"), w.write(asset), meta)
        tensors, entry = {}, {"index": 0, "inputs": [], "states_in": [], "states_out": [], "outputs": []}
        for kind, values in (("inputs", self.inputs), ("outputs", self.outputs)):
            for i, (name, v) in enumerate(values):
                key = f"c0_{kind[:-1]}{i}"
                tensors[key] = np.ascontiguousarray(v.np)
                entry[kind].append({"name": name, "key": key, "dtype": str(v.np.dtype), "shape": list(v.np.shape)})
        save_file(tensors, os.path.join(path, "golden.safetensors"))
        manifest = {"format": 1, "id": f"cairn::{case}", "case": case, "function": "main", "expected_source": f"numpy {np.__version__}",
                    "tolerance": {"rtol": 1e-5, "atol": 1e-6}, "calls": [entry]}
        with open(os.path.join(path, "manifest.json"), "w") as f:
            json.dump(manifest, f, indent=1)


def plain_float(em):
    g = Graph(em)
    x = g.input("x", "f32", [[-7, 2.5, 0.0], [3, -0.5, 9]])
    y = g.input("y", "f32", [[2, -2.5, 4], [3, 2, -4]])
    a, b = x.np, y.np
    for name, value in (("add", a + b), ("sub", a - b), ("mul", a * b), ("divide", a / b), ("floor_divide", np.floor(a / b)), ("modulo", np.fmod(a, b)),
                        ("maximum", np.maximum(a, b)), ("minimum", np.minimum(a, b))):
        (r,) = g.op(f"primitive.{name}_v1", [x, y], [("f32", value)])
        g.output(name, r)
    (p,) = g.op("primitive.pow_v1", [y, x], [("f32", pow_real(b, a))])
    g.output("pow", p)
    for name, value in (("equal", a == b), ("not_equal", a != b), ("greater", a > b)):
        (r,) = g.op(f"primitive.{name}_v1", [x, y], [("bool", value)])
        g.output(name, r)
    (w,) = g.op("primitive.where_v1", [r, x, y], [("f32", np.where(a > b, a, b))])
    g.output("where", w)
    t = g.input("t", "f32", [[1, -1], [0.5, 2], [3, 0.25]])
    (m,) = g.op("primitive.batch_matmul_v1", [x, t], [("f32", a @ t.np)])
    g.output("batch_matmul", m)
    return g


def pow_real(base, exponent):
    with np.errstate(invalid="ignore"):
        return np.power(base, exponent).astype(np.float32)


def plain_int(em):
    g = Graph(em)
    x = g.input("x", "si32", [-7, 7, 2147483647, -8, 12])
    y = g.input("y", "si32", [2, -2, 1, 3, 5])
    a, b = x.np, y.np
    with np.errstate(over="ignore"):
        values = (("add", a + b), ("sub", a - b), ("mul", a * b), ("divide", np.trunc(a / b)), ("floor_divide", np.floor(a / b)),
                  ("modulo", np.fmod(a, b)), ("maximum", np.maximum(a, b)), ("minimum", np.minimum(a, b)),
                  ("bitwise_and", a & b), ("bitwise_or", a | b), ("bitwise_xor", a ^ b))
    for name, value in values:
        (r,) = g.op(f"primitive.{name}_v1", [x, y], [("si32", value)])
        g.output(name, r)
    return g


def plain_bool(em):
    g = Graph(em)
    x = g.input("x", "bool", [[True, True, False], [False, True, True]])
    y = g.input("y", "bool", [[True, False, False], [True, True, False]])
    for name, value in (("and", x.np & y.np), ("or", x.np | y.np), ("xor", x.np ^ y.np)):
        (r,) = g.op(f"primitive.logical_{name}_v1", [x, y], [("bool", value)])
        g.output(name, r)
    axes = g.constant("si32", [1])
    for name, value in (("all", x.np.all(1, keepdims=True)), ("any", x.np.any(1, keepdims=True))):
        body = [[([], [em.Op("dataflow.yield_v1", [], [])])]]
        (r,) = g.op(f"{name}_v1", [x, axes], [("bool", value)], regions=body)
        g.output(name, r)
    return g


def tokens_and_layouts(em):
    g = Graph(em)
    w = g.w
    x = g.input("x", "f16", np.arange(2 * 16 * 3).reshape(2, 16, 3) / 8)
    token = w.scalar("token")
    (a,) = g.op("dataflow.create_token_v1", [], [("f32", 0)], types=[token])
    (b,) = g.op("dataflow.create_token_v1", [], [("f32", 0)], types=[token])
    g.op("dataflow.join_token_v1", [a, b], [("f32", 0)], types=[token])
    g.op("debuginfo.record_v1", [x], [], [em.req(w.integer(7, 64))])
    scope = w.A(37, w.scalar("f32"), ("s", "x"), w.src(w.file("-")), w.unit(), 0, 0)
    g.op("debuginfo.value_v1", [x], [], [em.req(scope)])
    # A layout constraint of interleave 8 over the second dimension, on the heap.
    constraint = w.A(12, 4, *[em.svi(v) for v in (1, 1, 1, 1)], 3, *[em.svi(v) for v in (1, 8, 1)], 3)
    laid_out = w.T(3, 3, *[em.svi(d) for d in x.np.shape], w.scalar("f16"), constraint)
    (c,) = g.op("ax.copy_with_constraints_v1", [x], [("f16", x.np)], types=[laid_out])
    (d,) = g.op("ax.copy_discarding_constraints_v1", [c], [("f16", x.np)])
    g.output("y", d)
    return g


def windows(em):
    """3-D pooling and transposed convolution, and sampling at coordinates: loops written out in NumPy."""
    g = Graph(em)
    w = g.w
    u32 = lambda *v: g.constant("ui32", list(v))
    x = g.input("x", "f32", np.sin(np.arange(2 * 3 * 4 * 5).reshape(1, 2, 3, 4, 5) * 1.7))
    pooled = np.full((1, 2, 2, 3, 2), -np.inf, np.float32)
    for d in range(2):
        for h in range(3):
            for k in range(2):
                pooled[:, :, d, h, k] = x.np[:, :, d:d + 2, h:h + 2, 2 * k:2 * k + 2].max(axis=(2, 3, 4))
    (p,) = g.op("primitive.max_pool_3d_v1", [x, u32(2, 2, 2), u32(1, 1, 2), u32(1, 1, 1), g.constant("bool", False)], [("f32", pooled)])
    g.output("max_pool_3d", p)
    weight = g.input("weight", "f32", np.cos(np.arange(2 * 3 * 2 * 2 * 1).reshape(2, 3, 2, 2, 1)))
    full = np.zeros((1, 3, 4, 8, 5), np.float32)  # stride 1, 2, 1
    for d in range(3):
        for h in range(4):
            for k in range(5):
                full[0, :, d:d + 2, 2 * h:2 * h + 2, k:k + 1] += np.einsum("i,iodhw->odhw", x.np[0, :, d, h, k], weight.np)
    operands = [x, weight, u32(1, 2, 1), u32(0, 0, 0), u32(1, 1, 1), u32(0, 0, 0), g.constant("ui32", 1)]
    (c,) = g.op("primitive.conv_transpose3d_v1", operands, [("f32", full)])
    g.output("conv_transpose3d", c)
    image = g.input("image", "f32", np.arange(12).reshape(3, 4) ** 1.5)
    points = np.array([[0, 0], [1.5, 2.25], [-1, 9], [2, 0.75]], np.float32)
    at = g.input("points", "f32", points)
    values = []
    for py, px in points:
        py, px = min(max(py, 0), 2), min(max(px, 0), 3)
        y0, x0 = int(py), int(px)
        y1, x1, fy, fx = min(y0 + 1, 2), min(x0 + 1, 3), py - int(py), px - int(px)
        a = image.np
        values.append((a[y0, x0] * (1 - fx) + a[y0, x1] * fx) * (1 - fy) + (a[y1, x0] * (1 - fx) + a[y1, x1] * fx) * fy)
    (s,) = g.op("primitive.interpolate_coordinates_v1", [image, at], [("f32", np.array(values))], [em.req(w.A(43, 0))])
    g.output("sampled", s)
    return g


def scalar_scale(em):
    """A weight with one scale for the whole tensor, all three parameters scalars: static exports store embeddings so."""
    g = Graph(em)
    x = g.input("x", "si8", [[-128, -1, 0], [5, 64, 127]])
    operands = [x, g.constant("f16", 0.25), g.constant("si8", 3), g.constant("f16", 1.5)]
    (y,) = g.op("primitive.blockwise_shift_scale_v2", operands, [("f16", (x.np.astype(np.float32) - 3) * 0.25 + 1.5)])
    g.output("y", y)
    return g


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tools", required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    sys.path.insert(0, args.tools)
    import encode_min
    for case in (plain_float, plain_int, plain_bool, tokens_and_layouts, windows, scalar_scale):
        case(encode_min).write(args.out, "made_" + case.__name__)


if __name__ == "__main__":
    main()
