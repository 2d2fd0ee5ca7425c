"""Gathers, scatters and non_zero."""

import numpy as np
from coreai._compiler.dialects import coreai as ops
from coreai._compiler.ir import Attribute

from .authored import Case, scalar
from .element_types import NUMPY, allowed_types, is_float, sample, to_type, to_wide


def picks(rng, n, shape, t="si32"):
    """Indices in -n … n-1."""
    return rng.integers(-n, n, shape).astype(NUMPY[t])


def gather_cases(rng):
    table = allowed_types()
    for t in table["coreai.gather_along_axis"]:
        for index in ("si32", "si16"):
            calls = [[sample(rng, t, (2, n, 3)), picks(rng, n, (2, m, 3), index)] for n, m in ((4, 2), (1, 5), (6, 6))]
            yield Case(
                f"gather_along_axis_{t}_{index}",
                [(t, (2, -1, 3)), (index, (2, -1, 3))],
                lambda x, i: ops.gather_along_axis(x, i, scalar("si32", -2)),
                calls,
                lambda x, i: np.take_along_axis(x, i.astype(np.int64), 1),
            )
    for t in table["coreai.gather_nd"]:
        for depth in (1, 2, 3):

            def expect(x, i, q=depth):
                flat = i.reshape(-1, q).astype(np.int64)
                return np.stack([x[tuple(row)] for row in flat]).reshape(i.shape[:-1] + x.shape[q:]).astype(x.dtype)

            calls = []
            for n, m in ((4, 2), (1, 3), (5, 1)):
                sizes = (2, n, 3)[:depth]
                calls.append([sample(rng, t, (2, n, 3)), np.stack([picks(rng, s, (m, 2)) for s in sizes], -1)])
            yield Case(f"gather_nd_{t}_depth{depth}", [(t, (2, -1, 3)), ("si32", (-1, 2, depth))], ops.gather_nd, calls, expect)


def scatter(x, indices, updates, mode):
    return ops.scatter_along_axis(
        x.type, x, indices, updates, scalar("si32", 1), scatter_mode=Attribute.parse(f"#coreai.scatter_mode<{mode}>")
    )


COMBINE = {
    "update": lambda a, b: b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": None,
    "max": max,
    "min": min,
}


def combined(mode, t):
    if mode != "div":
        return COMBINE[mode]
    if is_float(t):
        return lambda a, b: a / b
    return lambda a, b: int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def scatter_cases(rng):
    table = allowed_types()
    for mode in COMBINE:
        for t in table["coreai.scatter_along_axis"]:
            if mode != "update" and t in ("i1", "si4", "si2", "ui4", "ui2"):
                continue

            def expect(x, i, u, mode=mode, t=t):
                f = combined(mode, t)
                out = to_wide(x).astype(object) if t != "i1" else x.astype(object)
                wide = to_wide(u) if t != "i1" else u
                for p in np.ndindex(*i.shape):
                    at = (p[0], int(i[p]) % x.shape[1], p[2])
                    out[at] = f(out[at], wide[p])
                return to_type(out, t)

            calls = []
            for n in (4, 3, 6):
                # Every place at most once, so that the order of updates is not asked for.
                i = np.stack([np.stack([rng.permutation(n)[:3] for _ in range(3)], -1) for _ in range(2)]).astype(np.int32)
                i = np.where(rng.random(i.shape) < 0.5, i - n, i).astype(np.int32)
                u = sample(rng, t, i.shape, 1, 3)
                calls.append([sample(rng, t, (2, n, 3), -8, 8), i, u])

            def build(x, i, u, mode=mode):
                return scatter(x, i, u, mode)

            yield Case(f"scatter_along_axis_{mode}_{t}", [(t, (2, -1, 3)), ("si32", (2, 3, 3)), (t, (2, 3, 3))], build, calls, expect)
    x = np.zeros((1, 4), np.float32)
    yield Case(
        "scatter_along_axis_out_of_range",
        [("f32", (1, 4)), ("si32", (1, 3)), ("f32", (1, 3))],
        lambda x, i, u: scatter(x, i, u, "add"),
        [[x, np.array([[0, 9, -9]], np.int32), np.array([[1, 2, 3]], np.float32)]],
        lambda x, i, u: np.array([[1, 0, 0, 0]], np.float32),
    )
    for t in table["coreai.scatter_nd"]:
        for depth in (1, 2):

            def expect(x, i, u, q=depth):
                out = x.copy()
                for row, value in zip(i.reshape(-1, q).astype(np.int64), u.reshape((-1,) + x.shape[q:])):
                    out[tuple(row)] = value
                return out

            calls = []
            for n in (4, 3, 7):
                rows = rng.permutation(n)[:3] - np.where(rng.random(3) < 0.5, n, 0)
                i = rows[:, None] if depth == 1 else np.stack([rows, picks(rng, 2, 3)], -1)
                calls.append([sample(rng, t, (n, 2, 3)), i.astype(np.int32), sample(rng, t, (3, 2, 3) if depth == 1 else (3, 3))])
            yield Case(
                f"scatter_nd_{t}_depth{depth}",
                [(t, (-1, 2, 3)), ("si32", (3, depth)), (t, (3, 2, 3)[:1] + (2, 3)[depth - 1 :])],
                ops.scatter_nd,
                calls,
                expect,
            )


def non_zero_cases(rng):
    for t in allowed_types()["coreai.non_zero"]:
        calls = [
            [np.where(rng.random(s) < 0.5, np.zeros(s), sample(rng, t, s, 0, 3).astype(np.float64)).astype(NUMPY[t])]
            for s in ((3, 4), (1, 4), (6, 4))
        ]
        calls.append([np.zeros((2, 4), NUMPY[t])])
        yield Case(f"non_zero_{t}", [(t, (-1, 4))], ops.non_zero, calls, lambda x: np.argwhere(x != 0).astype(np.int32))
    x = np.array([np.nan, -0.0, 0.0, 1], np.float32)
    yield Case("non_zero_nan", [("f32", (4,))], ops.non_zero, [[x]], lambda x: np.array([[0], [3]], np.int32))
    for t, shape in (("f32", (5,)), ("f32", (2, 2, 3)), ("i1", (2, 1, 2, 3))):
        yield Case(
            f"non_zero_{t}_rank{len(shape)}",
            [(t, shape)],
            ops.non_zero,
            [[sample(rng, t, shape, -1, 1)]],
            lambda x: np.argwhere(x != 0).astype(np.int32),
            can_merge=False,
        )


def cases(rng):
    for make in (gather_cases, scatter_cases, non_zero_cases):
        yield from make(rng)
