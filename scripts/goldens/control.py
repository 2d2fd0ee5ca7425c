"""Control flow, calls of graphs, several functions in an asset, layout copies, images."""

import os
import shutil

import numpy as np
from coreai._compiler.dialects import coreai as ops
from coreai._compiler.dialects import coreaix
from coreai._compiler.dialects._coreai_ops_gen import TensorToImageOp
from coreai.authoring import AllocationType, HardwareConstraints, ImageType

from . import write
from .authored import Case, as_list, save_program, scalar, tensor, u32, write_authored
from .element_types import NUMPY, allowed_types, sample

TYPES = ("f32", "f16", "bf16", "si32", "ui8", "i1")


def all_results(made):
    """The results of an operation in a list, however many the builder returned them as."""
    operation = getattr(made, "owner", made)
    return list(operation.results)


def branch(condition, result_types, then, otherwise):
    """An `if` with two bodies that return its results."""
    results, regions = ops.if_(results=result_types, condition=condition)
    for region, body in zip(regions, (then, otherwise)):
        with region:
            ops.yield_(as_list(body()))
    return all_results(results)


def loop(initial, keep_going, step):
    """A `while` over loop values; returns their last values."""
    results, (before, after) = ops.while_(results=[v.type for v in initial], inits=initial)
    with before:
        values = list(before.arguments)
        ops.condition(keep_going(*values), *values)
    with after:
        ops.yield_(as_list(step(*after.arguments)))
    return all_results(results)


def if_cases(rng):
    for t in TYPES:
        flip = ops.not_ if t == "i1" else (lambda v: ops.maximum(v, v)) if t == "ui8" else ops.abs_

        def build(c, x, y, flip=flip):
            return branch(c, [x.type], lambda: flip(x), lambda: y)

        def expect(c, x, y, t=t):
            return (np.logical_not(x) if t == "i1" else np.abs(x)).astype(x.dtype) if c else y

        calls = [
            [np.array(c), sample(rng, t, s), sample(rng, t, s)]
            for c, s in ((True, (3, 2)), (False, (3, 2)), (True, (1, 2)), (False, (5, 2)))
        ]
        yield Case(f"if_{t}", [("i1", ()), (t, (-1, 2)), (t, (-1, 2))], build, calls, expect)

    def nested(x):
        total = ops.shrink_dims(ops.reduce_sum(x, constant_axes(0)), constant_axes(0))
        positive = ops.greater(total, scalar("f32", 0))
        big = ops.greater(total, scalar("f32", 5))
        return branch(
            positive,
            [x.type, total.type],
            lambda: branch(big, [x.type], lambda: ops.exp(x), lambda: ops.abs_(x)) + [total],
            lambda: [ops.add(x, x), ops.mul(total, total)],
        )

    def nested_value(x):
        s = np.float32(x.sum())
        return [(np.exp(x) if s > 5 else np.abs(x)) if s > 0 else x + x, s if s > 0 else s * s]

    calls = [[np.array(v, np.float32)] for v in ([3, 1, 2], [1, 0.5, -0.25], [-3, 1, 0], [0.5])]
    yield Case("if_nested", [("f32", (-1,))], nested, calls, nested_value, tolerance=(1e-5, 1e-5))


def constant_axes(*axes):
    return ops.constant(np.array(axes, np.int32))


def while_cases(rng):
    for t in ("f32", "f16", "si32", "si64"):

        def build(n, x, t=t):
            def step(i, v):
                return ops.add(i, scalar("si32", 1)), ops.add(v, x)

            return loop([scalar("si32", 0), x], lambda i, v: ops.greater(n, i), step)

        def expect(n, x):
            return [np.int32(max(int(n), 0)), (x * (1 + max(int(n), 0))).astype(x.dtype)]

        calls = [[np.array(n, np.int32), sample(rng, t, s)] for n, s in ((3, (2,)), (0, (3,)), (7, (1,)), (-1, (2,)))]
        yield Case(f"while_{t}", [("si32", ()), (t, (-1,))], build, calls, expect, tolerance=(4e-3, 2e-3) if t == "f16" else None)

    def nested(x):
        # v doubles until its sum passes 100; inside, a second loop counts the doublings in pairs.
        def step(v, n):
            inner = loop(
                [scalar("si32", 0), n],
                lambda i, m: ops.greater(scalar("si32", 2), i),
                lambda i, m: [ops.add(i, scalar("si32", 1)), ops.add(m, scalar("si32", 1))],
            )
            return ops.add(v, v), inner[1]

        def go(v, n):
            return ops.greater(scalar("f32", 100), ops.shrink_dims(ops.reduce_sum(v, constant_axes(0)), constant_axes(0)))

        return loop([x, scalar("si32", 0)], go, step)

    def nested_value(x):
        n = 0
        while x.sum() < 100:
            x, n = x + x, n + 2
        return [x, np.int32(n)]

    yield Case("while_nested", [("f32", (-1,))], nested, [[np.array(v, np.float32)] for v in ([1, 2], [200, 1], [0.5])], nested_value)


def copy_cases(rng):
    """Into a laid-out tensor and back: dims that divide into groups and dims that do not."""
    for t in allowed_types()["coreaix.copy_with_constraints"]:
        for label, dims, interleave, alignments in (
            ("groups", (2, 16, 3), (1, 8, 1), (1, 1, 1, 1)),
            ("last", (2, 5, 8), (1, 1, 4), (1, 1, 1, 1)),
            ("aligned", (2, 3, 5), (1, 1, 1), (1, 1, 64, 1)),
        ):
            layout = HardwareConstraints(AllocationType.Heap, alignments, interleave)

            def build(x, layout=layout):
                return coreaix.copy_discarding_constraints(coreaix.copy_with_constraints(x, layout))

            yield Case(f"layout_copy_{label}_{t}", [(t, dims)], build, [[sample(rng, t, dims)]], lambda x: x, can_merge=label == "groups")


def image_cases(rng):
    for label, code, dims in (
        ("rgb", ops.FourCC.RGB24, (4, 6, 3)),
        ("argb", ops.FourCC.ARGB32, (2, 5, 4)),
        ("bgra", ops.FourCC.BGRA32, (3, 2, 4)),
    ):

        def build(x, code=code, dims=dims):
            image = TensorToImageOp(ImageType(code, dims[0], dims[1])._to_mlir(), x).result
            return ops.image_to_tensor(image)

        yield Case(f"image_{label}", [("ui8", dims)], build, [[sample(rng, "ui8", dims, 0, 255)]], lambda x: x, can_merge=False)


def single_cases(rng):
    for make in (if_cases, while_cases, copy_cases, image_cases):
        yield from make(rng)


cases = single_cases


def write_functions(out):
    """Two functions that share nothing but the file, and one that calls a private graph twice: a case for each function."""
    made = []
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    bodies = {"main": (lambda v: ops.add(v, v), lambda v: v + v), "other": (lambda v: ops.mul(v, v), lambda v: v * v)}
    for name, (_, value) in bodies.items():
        case = f"functions_{name}"
        folder = os.path.join(out, case)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        save_program(os.path.join(folder, "model.aimodel"), [(n, ["x"], [("f32", (-1, 3))], b, ["y"]) for n, (b, _) in bodies.items()])
        write.write_case(folder, case, [{"inputs": {"x": a}, "outputs": {"y": value(a)}} for a in (x, x[:1])], "numpy", function=name)
        made.append(case)
    return len(made)
