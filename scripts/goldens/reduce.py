"""Reductions, prefix scans, sorting, softmax, matrix products: several axes and shapes each."""

import numpy as np
from coreai._compiler.dialects import coreai as ops
from coreai._compiler.dialects._coreai_ops_gen import ReduceIndexOp, ReduceOp
from coreai._compiler.ir import InsertionPoint, RankedTensorType

from .authored import Case, s32, scalar, tensor
from .element_types import allowed_types, is_float, limits, sample, to_type, to_wide

SHAPES = [(2, 4, 3), (2, 1, 3), (2, 9, 3)]  # middle dim dynamic


def kept(f):
    return lambda x, axes: f(x, axis=tuple(axes), keepdims=True)


REDUCTIONS = {
    "reduce_sum": (ops.reduce_sum, kept(np.sum), -5, 5),
    "reduce_mean": (ops.reduce_mean, kept(np.mean), -5, 5),
    "reduce_max": (ops.reduce_max, kept(np.max), -9, 9),
    "reduce_min": (ops.reduce_min, kept(np.min), -9, 9),
    "reduce_product": (ops.reduce_product, kept(np.prod), -2, 2),
    "all": (ops.all_, kept(np.all), 0, 1),
    "any": (ops.any_, kept(np.any), 0, 1),
}


def wide_enough(x):
    """What expected results are computed in: Python's integers, which never overflow, or f64."""
    return to_wide(x).astype(object) if x.dtype.kind in "iu" or x.dtype.name.startswith(("int", "uint")) else to_wide(x)


def reduction_cases(rng):
    table = allowed_types()
    for op, (make, numpy, lo, hi) in REDUCTIONS.items():
        for t in table["coreai." + op]:
            for label, axes in (("last", [-1]), ("several", [0, 1])):
                # A product of many 8-bit floats leaves their range.
                shapes = SHAPES if not (op == "reduce_product" and t.startswith("f8")) else [(2, 2, 3), (2, 1, 3)]
                yield Case(
                    f"{op}_{t}_{label}",
                    [(t, (2, -1, 3))],
                    lambda x, m=make, a=axes: m(x, s32(*a)),
                    [[sample(rng, t, s, lo, hi)] for s in shapes],
                    lambda x, f=numpy, a=axes, t=t: to_type(f(wide_enough(x), a), t),
                )
        t = table["coreai." + op][0 if op in ("all", "any") else 1]
        for shape, axes in (((5,), [0]), ((3, 4), [1, 0]), ((2, 3, 2, 2), [-3, 3]), ((2, 2, 1, 3, 2), [0, 2, 4])):
            yield Case(
                f"{op}_{t}_rank{len(shape)}",
                [(t, shape)],
                lambda x, m=make, a=axes: m(x, s32(*a)),
                [[sample(rng, t, shape, lo, hi)]],
                lambda x, f=numpy, a=axes, t=t: to_type(f(wide_enough(x), a), t),
                can_merge=False,
            )
    for op in ("reduce_max", "reduce_min"):
        x = np.array([[1, np.nan, 3], [-np.inf, 2, np.inf]], np.float32)
        yield Case(
            f"{op}_nan", [("f32", (2, 3))], lambda x, m=REDUCTIONS[op][0]: m(x, s32(1)), [[x]], lambda x, f=REDUCTIONS[op][1]: f(x, [1])
        )
    # 2048 + 1 + 1 + … : lost when 16-bit floats are summed in 16 bits.
    for op, make in (("reduce_sum", ops.reduce_sum), ("reduce_mean", ops.reduce_mean)):
        for t in ("f16", "bf16"):
            x = np.ones((1, 513), np.float32)
            x[0, 0] = 2048
            yield Case(
                f"{op}_{t}_wide",
                [(t, (1, 513))],
                lambda x, m=make: m(x, s32(1)),
                [[x.astype(sample(rng, t, ()).dtype)]],
                lambda x, f=REDUCTIONS[op][1], t=t: to_type(f(to_wide(x), [1]), t),
            )


def argmax(x, axis):
    wide = to_wide(x)
    if wide.dtype.kind == "f":
        wide = np.where(np.isnan(wide), -np.inf, wide)
    return np.argmax(wide, axis=axis, keepdims=True).astype(np.uint32)


def order(x, axis, descending):
    """Indices of a stable sort; NaN comes last in both directions."""
    wide = to_wide(x)

    def one(line):
        keys = [(v != v, 0 if v != v else -v if descending else v) for v in line.tolist()]
        return np.array(sorted(range(len(keys)), key=lambda i: keys[i]), np.int64)

    return np.apply_along_axis(one, axis, wide if wide.dtype != object else wide.astype(np.float64))


def sorting_cases(rng):
    table = allowed_types()
    for t in table["coreai.argmax"]:
        for axis in (0, 2, -2):
            yield Case(
                f"argmax_{t}_axis{axis}",
                [(t, (2, -1, 3))],
                lambda x, a=axis: ops.argmax(x, scalar("si32", a)),
                [[sample(rng, t, s, -9, 9)] for s in SHAPES],
                lambda x, a=axis: argmax(x, a),
            )
    x = np.array([[1, np.nan, 3, 3], [np.nan, -1, -2, -1]], np.float32)
    yield Case("argmax_nan_ties", [("f32", (2, 4))], lambda x: ops.argmax(x, scalar("si32", 1)), [[x]], lambda x: argmax(x, 1))
    for op, make in (("sort", ops.sort), ("argsort", ops.argsort)):
        for t in table["coreai." + op]:
            for descending in (False, True):

                def build(x, m=make, d=descending):
                    return m(x, scalar("si32", 1), scalar("i1", d), scalar("i1", True))

                def expect(x, op=op, d=descending):
                    i = order(x, 1, d)
                    return i.astype(np.int32) if op == "argsort" else np.take_along_axis(x, i, 1)

                calls = [[sample(rng, t, s, -4, 4)] for s in SHAPES]
                if is_float(t):
                    calls.append(
                        [
                            np.where(rng.random((2, 4, 3)) < 0.3, np.nan, sample(rng, t, (2, 4, 3)).astype(np.float64)).astype(
                                calls[0][0].dtype
                            )
                        ]
                    )
                yield Case(f"{op}_{t}_{'descending' if descending else 'ascending'}", [(t, (2, -1, 3))], build, calls, expect)


SCANS = {
    "sum": (np.cumsum, -5, 5),
    "product": (np.cumprod, -2, 2),
    "min": (np.minimum.accumulate, -9, 9),
    "max": (np.maximum.accumulate, -9, 9),
}


def scan_cases(rng):
    for t in allowed_types()["coreai.scan"]:
        for mode, (numpy, lo, hi) in SCANS.items():
            for reverse in (False, True):
                # Long products of 8-bit floats leave their range; the steps round, so short lines there.
                shapes = SHAPES if not t.startswith("f8") else [(2, 2, 3), (2, 1, 3)]

                def expect(x, f=numpy, r=reverse, t=t):
                    wide = wide_enough(x)
                    wide = wide[:, ::-1] if r else wide
                    out = f(wide, axis=1)
                    return to_type(out[:, ::-1] if r else out, t)

                yield Case(
                    f"scan_{mode}_{t}{'_reverse' if reverse else ''}",
                    [(t, (2, -1, 3))],
                    lambda x, m=mode, r=reverse: ops.scan(x, scalar("ui32", 1), scalar("i1", r), m),
                    [[sample(rng, t, s, lo, hi)] for s in shapes],
                    expect,
                )
    x = np.array([2048] + [1] * 9, np.float16)
    yield Case(
        "scan_sum_f16_wide",
        [("f16", (10,))],
        lambda x: ops.scan(x, scalar("ui32", 0), scalar("i1", False), "sum"),
        [[x]],
        lambda x: np.cumsum(x.astype(np.float64)).astype(np.float16),
        tolerance=(1e-3, 0),
    )


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_cases(rng):
    for t in allowed_types()["coreai.softmax"]:
        for axis in (-1, 0, 1):
            calls = [[sample(rng, t, s, -6, 6)] for s in SHAPES]
            yield Case(
                f"softmax_{t}_axis{axis}",
                [(t, (2, -1, 3))],
                lambda x, a=axis: ops.softmax(x, scalar("si32", a)),
                calls,
                lambda x, a=axis, t=t: to_type(softmax(to_wide(x), a), t),
            )
    for name, t, x in (("large", "f16", [[60000, 60000, 0]]), ("infinite", "f32", [[-np.inf, 0, -np.inf], [-np.inf, -np.inf, -np.inf]])):
        yield Case(
            f"softmax_{name}",
            [(t, np.shape(x))],
            lambda x: ops.softmax(x, scalar("si32", 1)),
            [[np.array(x, np.float16 if t == "f16" else np.float32)]],
            lambda x, t=t: to_type(softmax(to_wide(x), 1), t),
        )


def matmul_cases(rng):
    table = allowed_types()
    forms = {
        "rank2": ((-1, 4), (4, 3), [((2, 4), (4, 3)), ((1, 4), (4, 3)), ((9, 4), (4, 3))]),
        "rank3": ((2, -1, 4), (2, 4, 5), [((2, 3, 4), (2, 4, 5)), ((2, 1, 4), (2, 4, 5))]),
        "rank4": ((2, 3, 2, -1), (2, 3, -1, 2), [((2, 3, 2, 5), (2, 3, 5, 2)), ((2, 3, 2, 1), (2, 3, 1, 2))]),
    }
    broadcast = {
        "vector_batch": ((2, 1, -1, 4), (3, 4, 2), [((2, 1, 5, 4), (3, 4, 2)), ((2, 1, 1, 4), (3, 4, 2))]),
        "shared": ((2, -1, 4), (4, 3), [((2, 3, 4), (4, 3)), ((2, 1, 4), (4, 3))]),
    }
    for op, make in (("batch_matmul", ops.batch_matmul), ("broadcasting_batch_matmul", ops.broadcasting_batch_matmul)):
        key = "coreai." + ("decomposable." if op.startswith("broad") else "") + op
        for name, (a, b, shapes) in (forms if op == "batch_matmul" else {**forms, **broadcast}).items():
            for t in table[key]:
                # The dynamic dim that both share is one size on each call.
                calls = [[sample(rng, t, x, -2, 2), sample(rng, t, y, -2, 2)] for x, y in shapes]
                yield Case(f"{op}_{t}_{name}", [(t, a), (t, b)], make, calls, lambda x, y, t=t: to_type(wide_enough(x) @ wide_enough(y), t))
        for t in ("f16", "bf16"):
            x, y = np.ones((1, 601), np.float32), np.ones((601, 1), np.float32)
            x[0, 0] = 2048
            dtype = sample(rng, t, ()).dtype
            yield Case(
                f"{op}_{t}_wide",
                [(t, (1, 601)), (t, (601, 1))],
                make,
                [[x.astype(dtype), y.astype(dtype)]],
                lambda x, y, t=t: to_type(to_wide(x) @ to_wide(y), t),
                tolerance=(1e-3 if t == "f16" else 8e-3, 0),
            )


def with_region(op, make_body):
    """Gives a region operation its body of two scalars."""
    element = tensor_of_element(op.operands[0])
    block = op.regions[0].blocks.append(element, element)
    with InsertionPoint.at_block_begin(block):
        ops.yield_([make_body(*block.arguments)])
    return op.result


def tensor_of_element(value):
    return RankedTensorType.get([], RankedTensorType(value.type).element_type)


BODIES = {"sum": (ops.add, np.sum, 0, -5, 5), "product": (ops.mul, np.prod, 1, -2, 2), "maximum": (ops.maximum, np.max, None, -9, 9)}


def region_cases(rng):
    table = allowed_types()
    for name, (body, numpy, start, lo, hi) in BODIES.items():
        for t in table["coreai.reduce"]:
            if name == "maximum" and t in ("c64", "i1") or name == "product" and t.startswith("f8"):
                continue
            first = start if start is not None else -9 if is_float(t) else max(limits(t)[0], -9)

            def build(x, t=t, body=body, first=first):
                return with_region(ReduceOp(tensor(t, (2, 1, 3)), x, s32(1), scalar(t, first)), body)

            def expect(x, f=numpy, t=t, first=first):
                wide = wide_enough(x)
                f = {np.sum: np.any, np.prod: np.all}[f] if t == "i1" else f
                return to_type(f(np.concatenate([np.full((2, 1, 3), first, wide.dtype), wide], 1), axis=1, keepdims=True), t)

            yield Case(f"region_{name}_{t}", [(t, (2, -1, 3))], build, [[sample(rng, t, s, lo, hi)] for s in SHAPES], expect)
    for t in table["coreai.reduce_index"]:
        for name, body, numpy, start in (
            ("greatest", lambda best, c: ops.greater(c, best), np.argmax, -9),
            ("least", lambda best, c: ops.greater(best, c), np.argmin, 9),
        ):
            first = start if is_float(t) else min(max(limits(t)[0], start), limits(t)[1])

            def build(x, t=t, body=body, first=first):
                return with_region(
                    ReduceIndexOp(tensor("ui32", (2, 1, 3)), x, scalar("si32", 1), scalar(t, first), scalar("ui32", 0)), body
                )

            yield Case(
                f"reduce_index_{name}_{t}",
                [(t, (2, -1, 3))],
                build,
                [[sample(rng, t, s, -8, 8)] for s in SHAPES],
                lambda x, f=numpy: f(to_wide(x), axis=1, keepdims=True).astype(np.uint32),
            )


def cases(rng):
    for make in (reduction_cases, sorting_cases, scan_cases, softmax_cases, matmul_cases, region_cases):
        yield from make(rng)
