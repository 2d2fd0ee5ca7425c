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

DTYPE = {"f32": np.float32, "f16": np.float16, "si8": np.int8, "si32": np.int32, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32,
         "bool": np.bool_, "ui1": np.uint8, "ui2": np.uint8}


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

    def packed(self, elem, bits, value):
        """A constant of a type below a byte, kept as a bit stream."""
        value = np.asarray(value, np.uint8)
        stream = np.unpackbits(value.reshape(-1, 1), axis=1, bitorder="little")[:, :bits].reshape(-1)
        data = self.w.resource(f"resource_{len(self.w.res)}", np.packbits(stream, bitorder="little").tobytes())
        (v,) = self.op("primitive.constant_v1", [], [(elem, value)], [self.em.req(data)])
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

    def write_asset(self, path):
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
        meta = {"assetVersion": "2.0", "creationDate": "20260101T000000Z", "producer": "cairn make_op_cases"}
        em.write_asset(path, w.write(asset), meta)

    def write(self, folder, case):
        path = os.path.join(folder, case)
        os.makedirs(path, exist_ok=True)
        self.write_asset(os.path.join(path, "model.aimodel"))
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


def statistics(em):
    """Scales and zero points: the scale in f64, the quotient by the stored scale in f32."""
    g = Graph(em)
    x = g.input("x", "f32", [[-100, -1000, 1.57, 0.5], [100, 1000, 10.5, 2]])
    axis = g.constant("si32", 1)
    body = lambda: [[([], [em.Op("dataflow.yield_v1", [], [])])]]
    low, high = np.minimum(x.np.min(0), 0).astype(np.float64), np.maximum(x.np.max(0), 0).astype(np.float64)
    for name, elem, span in (("si8", "si8", (-128, 127)), ("ui8", "ui8", (0, 255)), ("f32", "f32", (-8, 7))):
        scale = ((high - low) / (span[1] - span[0])).astype(np.float32)
        zero = low.astype(np.float32) / scale
        zero = np.clip(span[0] - (zero if elem == "f32" else np.rint(zero)), *span)
        s, z = g.op("asymmetric_quantization_statistics_v1", [x, g.constant(elem, list(span)), axis], [("f32", scale), (elem, zero)],
                    regions=body())
        g.output(f"scale_{name}", s)
        g.output(f"zero_{name}", z)
    (s,) = g.op("symmetric_quantization_statistics_v1", [x, g.constant("f32", [-128, 127]), g.constant("si32", 0)],
                [("f32", 2 * np.abs(x.np.astype(np.float64)).max(1) / 255)], regions=body())
    g.output("scale_symmetric", s)
    return g


def region_of(g, elem, result, build):
    """A region over two scalars; build(p, q, op) makes its ops and returns the value it yields."""
    scalar = g.w.tensor([], elem)
    p, q, ops = g.em.Value(scalar), g.em.Value(scalar), []

    def op(name, operands, to=elem, props=None):
        ops.append(g.em.Op(name, operands, [g.w.tensor([], to)], props))
        return ops[-1].results[0]

    ops.append(g.em.Op("dataflow.yield_v1", [build(p, q, op)], []))
    return [[([p, q], ops)]]


def region_reductions(em):
    g = Graph(em)
    x = g.input("x", "f32", [[[1, 5, -3], [2, 5, 0.5]], [[-7, 4, 9], [9, 9, -0.25]]])
    axes = g.constant("si32", [0, -1])
    start = g.constant("f32", 10)
    (r,) = g.op("primitive.reduce_v1", [x, axes, start], [("f32", x.np.sum((0, 2), keepdims=True) + 10)],
                regions=region_of(g, "f32", "f32", lambda p, q, op: op("primitive.add_v1", [q, p])))
    g.output("sum", r)
    # acc * 0.5 + element: the order of the elements matters.
    value = np.full((1, 2, 1), 10, np.float32)
    for i in range(2):
        for k in range(3):
            value[0, :, 0] = value[0, :, 0] * np.float32(0.5) + x.np[i, :, k]

    def decaying(p, q, op):
        half = op("primitive.constant_v1", [], props=[em.req(g.w.dense(np.float32(0.5).tobytes()))])
        return op("primitive.add_v1", [op("primitive.mul_v1", [p, half]), q])

    (r,) = g.op("primitive.reduce_v1", [x, axes, start], [("f32", value)], regions=region_of(g, "f32", "f32", decaying))
    g.output("decaying", r)
    (h,) = g.op("primitive.cast_v1", [x], [("f16", x.np)])
    (r,) = g.op("primitive.reduce_v1", [h, axes, g.constant("f16", 2048)], [("f16", x.np.sum((0, 2), keepdims=True) + 2048)],
                regions=region_of(g, "f16", "f16", lambda p, q, op: op("primitive.add_v1", [p, q])))
    g.output("wide", r)
    # The first largest, and the last smallest below 3.
    last = g.constant("si32", -1)
    (r,) = g.op("primitive.reduce_index_v1", [x, last, g.constant("f32", -3e38), g.constant("ui32", 0)],
                [("ui32", x.np.argmax(-1, keepdims=True))],
                regions=region_of(g, "f32", "bool", lambda p, q, op: op("primitive.greater_v1", [q, p], "bool")))
    g.output("largest", r)
    places = np.zeros((2, 2, 1), np.uint16)
    for i in range(2):
        for k in range(2):
            best, places[i, k] = 3, 77
            for n, v in enumerate(x.np[i, k]):
                if not v > best:
                    best, places[i, k] = v, n
    not_above = lambda p, q, op: op("primitive.not_v1", [op("primitive.greater_v1", [q, p], "bool")], "bool")
    (r,) = g.op("primitive.reduce_index_v1", [x, last, g.constant("f32", 3), g.constant("ui16", 77)], [("ui16", places)],
                regions=region_of(g, "f32", "bool", not_above))
    g.output("smallest", r)
    group = em.Value(g.w.tensor([2, 2, 3], "f32"))
    twice = em.Op("primitive.add_v1", [group, group], [g.w.tensor([2, 2, 3], "f32")])
    props = [em.req(g.w.array([])), em.req(g.w.string("somebody")), em.req(g.w.array([]))]
    (r,) = g.op("dataflow.isolated_group_v1", [x], [("f32", 2 * x.np)], props,
                regions=[[([group], [twice, em.Op("dataflow.yield_v1", twice.results, [])])]])
    g.output("group", r)
    return g


def images(em):
    """An image is its pixels: in as BGRA, out as RGB24 of a slice."""
    g = Graph(em)
    w = g.w
    image = lambda fourcc, h, k: w.T(39, w.A(27, fourcc), h, k)
    pixels = np.arange(3 * 5 * 4).reshape(3, 5, 4) * 4 % 256
    x = g.input("picture", "ui8", pixels)
    x.type = image(0x42475241, 3, 5)
    (t,) = g.op("primitive.image_to_tensor_v1", [x], [("ui8", pixels)])
    bounds = [g.constant("si32", list(v)) for v in ((0, 0, 0), (3, 5, 3), (1, 1, 1))]
    (s,) = g.op("primitive.slice_v1", [t] + bounds, [("ui8", pixels[:, :, :3])])
    (y,) = g.op("primitive.tensor_to_image_v1", [s], [("ui8", pixels[:, :, :3])], types=[image(24, 3, 5)])
    g.output("pixels", t)
    g.output("image", y)
    (plane,) = g.op("primitive.reshape_v2", [g.input("yuv", "ui8", np.arange(4 * 2 * 3 // 2).reshape(2, 6)), g.constant("si32", [12])],
                    [("ui8", np.arange(12))])
    (y,) = g.op("primitive.tensor_to_image_v1", [plane], [("ui8", np.arange(12))], types=[image(0x79343230, 4, 2)])
    (t,) = g.op("primitive.image_to_tensor_v1", [y], [("ui8", np.arange(12))])
    g.output("planes", t)
    return g


def sparse_palettes(em):
    """Palettes and scales over the stored values of a sparse tensor: what is absent stays zero, whatever entry 0 is."""
    g = Graph(em)
    w = g.w
    mask = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0]], np.uint8)
    codes = np.array([0, 1, 1, 0, 3, 1, 2, 0, 1], np.uint8)
    dense = np.zeros(mask.shape, np.uint8)
    dense[mask == 1] = codes
    m = g.packed("ui1", 1, mask)
    sparse = lambda shape, elem, n: w.T(3, len(shape), *[em.svi(d) for d in shape], w.scalar(elem), w.A(21, 0, 1, 1, bytes([1]), n))
    (indices,) = g.op("primitive.build_sparse_with_bitmask_v1", [g.packed("ui2", 2, codes), m], [("ui2", dense)],
                      types=[sparse([4, 6], "ui2", 9)])
    plain = np.array([2, 3, 5, 7], np.float16)
    table = g.constant("f16", plain.reshape(1, 1, 4, 1))
    axis = w.tensor([], "si16")
    (at,) = g.op("primitive.constant_v1", [], [("si32", 0)], [em.req(w.dense(np.int16(0).tobytes()))], types=[axis])
    value = plain[dense] * mask
    (s,) = g.op("primitive.lut_to_sparse_with_bitmask_v1", [indices, table, at], [("f16", value)], types=[sparse([4, 6], "f16", 9)])
    (y,) = g.op("primitive.sparse_with_bitmask_to_dense_v1", [s], [("f16", value)])
    g.output("scalar", y)
    # Entries of two along axis 0, and a palette for each half of the columns.
    entries = np.arange(16, dtype=np.float32).reshape(1, 2, 4, 2) + 1
    value = np.zeros((8, 6), np.float32)
    for i in range(4):
        for k in range(6):
            value[2 * i:2 * i + 2, k] = entries[0, k // 3, dense[i, k]] * mask[i, k]
    (s,) = g.op("primitive.lut_to_sparse_with_bitmask_v1", [indices, g.constant("f32", entries), at], [("f32", value)],
                types=[sparse([8, 6], "f32", 18)])
    (y,) = g.op("primitive.sparse_with_bitmask_to_dense_v1", [s], [("f32", value)])
    g.output("vectors", y)
    bytes_ = np.zeros(mask.shape, np.int8)
    bytes_[mask == 1] = [-5, 1, 2, -128, 127, 0, 9, 8, 7]
    (b,) = g.op("primitive.build_sparse_with_bitmask_v1", [g.constant("si8", bytes_[mask == 1]), m], [("si8", bytes_)],
                types=[sparse([4, 6], "si8", 9)])
    value = (bytes_.astype(np.float32) * 0.5 - 3 * 0.5) * mask
    (s,) = g.op("primitive.sparse_with_bitmask_blockwise_shift_scale_v1", [b, g.constant("f32", [[0.5]]), g.constant("si8", [[3]])],
                [("f32", value)], types=[sparse([4, 6], "f32", 9)])
    (y,) = g.op("primitive.sparse_with_bitmask_to_dense_v1", [s], [("f32", value)])
    g.output("scaled", y)
    return g


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tools", required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    sys.path.insert(0, args.tools)
    import encode_min
    for case in (plain_float, plain_int, plain_bool, tokens_and_layouts, windows, scalar_scale, statistics, region_reductions, images,
                 sparse_palettes):
        case(encode_min).write(args.out, "made_" + case.__name__)


if __name__ == "__main__":
    main()
