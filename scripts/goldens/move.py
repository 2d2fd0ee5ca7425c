"""Operations that move elements: every element type, constants and run-time shapes as parameters."""

import numpy as np
from coreai._compiler.dialects import coreai as ops

from .authored import Case, constant, s32, scalar, u32
from .element_types import NUMPY, allowed_types, is_float, is_int, limits, sample

SHAPES = [(2, 4, 3), (2, 1, 3), (2, 6, 3)]  # middle dim dynamic


def flip(x, axes):
    return np.ascontiguousarray(np.flip(x, axes))


# name: list of (label, build, NumPy) on an input of dims (2, ?, 3)
MOVES = {
    "broadcast_to": [
        (
            "front",
            lambda x: ops.broadcast_to(ops.slice_(x, s32(0, 0, 0), s32(9, 1, 9), s32(1, 1, 1)), u32(4, 2, 5, 3)),
            lambda x: np.ascontiguousarray(np.broadcast_to(x[:, :1], (4, 2, 5, 3))),
        )
    ],
    "broadcast_in_dims": [
        (
            "middle",
            lambda x: ops.broadcast_in_dims(ops.slice_(x, s32(0, 0, 0), s32(9, 1, 9), s32(1, 1, 1)), u32(5), s32(1)),
            lambda x: np.ascontiguousarray(np.broadcast_to(x[:, :1], (2, 5, 3))),
        ),
        (
            "two",
            lambda x: ops.broadcast_in_dims(ops.slice_(x, s32(0, 0, 0), s32(1, 1, 9), s32(1, 1, 1)), u32(4, 3), s32(0, -2)),
            lambda x: np.ascontiguousarray(np.broadcast_to(x[:1, :1], (4, 3, 3))),
        ),
    ],
    "expand_dims": [
        ("ends", lambda x: ops.expand_dims(x, s32(0, -1)), lambda x: x[None, ..., None]),
        ("inner", lambda x: ops.expand_dims(x, s32(3, 1)), lambda x: x[:, None, :, None, :]),
    ],
    "get_shape": [("all", ops.get_shape, lambda x: np.array(x.shape, np.uint32))],
    "reshape": [
        ("merge", lambda x: ops.reshape(x, s32(-1, 3)), lambda x: x.reshape(-1, 3)),
        ("split", lambda x: ops.reshape(x, s32(2, -1)), lambda x: x.reshape(2, -1)),
        (
            "run_time",
            lambda x: ops.reshape(x, ops.concat(scalar("si32", 0), [u32(6), ops.slice_(ops.get_shape(x), s32(1), s32(2), s32(1))])),
            lambda x: x.reshape(6, x.shape[1]),
        ),
    ],
    "reverse": [
        ("one", lambda x: ops.reverse(x, s32(1)), lambda x: flip(x, 1)),
        ("two", lambda x: ops.reverse(x, s32(0, -1)), lambda x: flip(x, (0, 2))),
    ],
    "shrink_dims": [
        ("one", lambda x: ops.shrink_dims(ops.expand_dims(x, s32(1)), s32(1)), lambda x: x),
        (
            "negative",
            lambda x: ops.shrink_dims(ops.slice_(x, s32(0, 0, 0), s32(1, 99, 1), s32(1, 1, 1)), s32(-1, 0)),
            lambda x: x[0, :, 0].copy(),
        ),
    ],
    "slice": [
        ("strides", lambda x: ops.slice_(x, s32(0, 0, 1), s32(2, 99, 3), s32(1, 2, 1)), lambda x: x[:, ::2, 1:3].copy()),
        ("negative", lambda x: ops.slice_(x, s32(-1, -1, 0), s32(9, 99, -1), s32(1, 1, 1)), lambda x: x[-1:, -1:, :-1].copy()),
        ("backward", lambda x: ops.slice_(x, s32(0, -1, 2), s32(2, -99, 0), s32(1, -1, -2)), lambda x: x[:, ::-1, 2:0:-2].copy()),
        ("empty", lambda x: ops.slice_(x, s32(0, 0, 3), s32(2, 99, 1), s32(1, 1, 1)), lambda x: x[:, :, 3:1].copy()),
    ],
    "split": [
        ("sizes", lambda x: list(ops.split(x, u32(1, 2), scalar("si32", -1))), lambda x: [x[..., :1].copy(), x[..., 1:].copy()]),
        ("chunks", lambda x: list(ops.split(x, scalar("ui32", 2), scalar("si32", 2))), lambda x: [x[..., :2].copy(), x[..., 2:].copy()]),
    ],
    "tile": [
        ("same_rank", lambda x: ops.tile(x, u32(2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        ("short", lambda x: ops.tile(x, u32(2, 2)), lambda x: np.tile(x, (2, 2))),
    ],
    "transpose": [
        ("rotate", lambda x: ops.transpose(x, u32(2, 0, 1)), lambda x: np.ascontiguousarray(x.transpose(2, 0, 1))),
        ("swap", lambda x: ops.transpose(x, u32(0, 2, 1)), lambda x: np.ascontiguousarray(x.transpose(0, 2, 1))),
    ],
    "concat": [
        ("self", lambda x: ops.concat(scalar("si32", -2), [x, x]), lambda x: np.concatenate([x, x], 1)),
        (
            "three",
            lambda x: ops.concat(scalar("si32", 0), [x, ops.slice_(x, s32(0, 0, 0), s32(1, 99, 9), s32(1, 1, 1)), x]),
            lambda x: np.concatenate([x, x[:1], x], 0),
        ),
    ],
}


def move_cases(rng):
    table = allowed_types()
    for op, forms in MOVES.items():
        for label, build, numpy in forms:
            for t in table["coreai." + op]:
                values = [[x] for x in (exact(rng, t, s) for s in SHAPES)]
                yield Case(f"{op}_{label}_{t}", [(t, (2, -1, 3))], build, values, numpy)


def exact(rng, t, shape):
    """Values that the few-bit floats have too."""
    if t in ("f4E2M1FN", "f8E8M0FN"):
        return rng.choice([0.5, 1, 2, 4], shape).astype(NUMPY[t])
    return sample(rng, t, shape)


def rank_cases(rng):
    """The same moves at other ranks."""
    forms = [
        (
            "transpose_rank5",
            (2, 1, 3, 2, 2),
            lambda x: ops.transpose(x, u32(4, 2, 0, 1, 3)),
            lambda x: np.ascontiguousarray(x.transpose(4, 2, 0, 1, 3)),
        ),
        ("transpose_rank2", (3, 5), lambda x: ops.transpose(x, u32(1, 0)), lambda x: np.ascontiguousarray(x.T)),
        ("reshape_rank0", (1, 1), lambda x: ops.reshape(x, constant(np.zeros((0,), np.int32))), lambda x: x.reshape(())),
        ("expand_rank0", (), lambda x: ops.expand_dims(x, s32(0, 1)), lambda x: x[None, None]),
        ("slice_rank1", (7,), lambda x: ops.slice_(x, s32(-5), s32(-1), s32(2)), lambda x: x[-5:-1:2].copy()),
        (
            "slice_rank6",
            (2, 1, 2, 3, 1, 2),
            lambda x: ops.slice_(x, s32(0, 0, 1, 0, 0, 0), s32(2, 1, 2, 2, 1, 2), s32(1, 1, 1, 1, 1, 1)),
            lambda x: x[:, :, 1:2, :2].copy(),
        ),
        ("tile_rank1", (3,), lambda x: ops.tile(x, u32(3)), lambda x: np.tile(x, 3)),
        ("reverse_rank4", (2, 3, 2, 2), lambda x: ops.reverse(x, s32(1, 3)), lambda x: flip(x, (1, 3))),
        ("concat_rank1", (4,), lambda x: ops.concat(scalar("si32", 0), [x, x, x]), lambda x: np.concatenate([x, x, x])),
        ("broadcast_rank0", (), lambda x: ops.broadcast_to(x, u32(2, 3)), lambda x: np.full((2, 3), x)),
    ]
    for name, shape, build, numpy in forms:
        for t in ("f32", "f16", "si32", "i1"):
            yield Case(f"{name}_{t}", [(t, shape)], build, [[sample(rng, t, shape)]], numpy, can_merge=False)


def padded(x, mode, amounts, value):
    pairs = [(amounts[2 * i], amounts[2 * i + 1]) for i in range(x.ndim)]
    if mode == "constant":
        return np.pad(x, pairs, constant_values=value)
    return np.pad(x, pairs, mode={"reflect": "reflect", "replicate": "edge", "symmetric": "symmetric", "circular": "wrap"}[mode])


def pad_cases(rng):
    for mode in ("constant", "reflect", "replicate", "symmetric", "circular"):
        for t in allowed_types()["coreai.pad"]:
            amounts = (0, 0, 1, 2, 1, 0)
            value = sample(rng, t, (), 1, 3)

            def build(x, m=mode, a=amounts, v=value):
                return ops.pad(x, u32(*a), constant(v), m)

            calls = [[sample(rng, t, s)] for s in ((2, 4, 3), (2, 3, 3), (2, 6, 3))]
            yield Case(f"pad_{mode}_{t}", [(t, (2, -1, 3))], build, calls, lambda x, m=mode, a=amounts, v=value: padded(x, m, a, v))
    for shape, amounts in (
        ((4,), (2, 3)),
        ((2, 3), (0, 2, 1, 0)),
        ((2, 2, 3, 4), (0, 0, 0, 0, 1, 1, 2, 0)),
        ((1, 2, 2, 3, 3), (0, 0, 1, 0, 0, 1, 1, 1, 2, 2)),
    ):
        yield Case(
            f"pad_constant_f32_rank{len(shape)}",
            [("f32", shape)],
            lambda x, a=amounts: ops.pad(x, u32(*a), scalar("f32", 0.5), "constant"),
            [[sample(rng, "f32", shape)]],
            lambda x, a=amounts: padded(x, "constant", a, 0.5),
            can_merge=False,
        )


def shape_cases(rng):
    """Shape vectors: broadcasting of shapes, slice_update, range."""
    for t in ("ui32", "ui16"):
        for a, b in (((2, 1, 3), (4, 1)), ((5,), (3, 1)), ((1,), (7,))):
            x, y = np.array(a, NUMPY[t]), np.array(b, NUMPY[t])
            yield Case(
                f"broadcast_shapes_{t}_{len(a)}_{len(b)}",
                [(t, (len(a),)), (t, (len(b),))],
                ops.broadcast_shapes,
                [[x, y]],
                lambda x, y, t=t: np.array(np.broadcast_shapes(tuple(int(v) for v in x), tuple(int(v) for v in y)), NUMPY[t]),
            )
    for t in allowed_types()["coreai.slice_update"]:

        def build(x, u):
            return ops.slice_update(x, s32(0, -3, 0), s32(2, 99, 3), s32(1, 2, 1), u)

        def expect(x, u):
            y = x.copy()
            y[:, max(x.shape[1] - 3, 0) :: 2] = u
            return y

        calls = [[sample(rng, t, s), sample(rng, t, (2, (min(s[1], 3) + 1) // 2, 3))] for s in SHAPES]
        yield Case(f"slice_update_{t}", [(t, (2, -1, 3)), (t, (2, -1, 3))], build, calls, expect)
    for t in allowed_types()["coreai.range"]:
        spans = (
            [(0, 5, 1), (1, 10, 3), (3, 3, 1)]
            + ([(6, -3, -2)] if is_float(t) or limits(t)[0] < 0 else [])
            + ([(0.5, 2, 0.25)] if is_float(t) else [])
        )
        calls = [[np.array(v, NUMPY[t]) for v in span] for span in spans]
        yield Case(
            f"range_{t}", [(t, ())] * 3, ops.range_, calls, lambda a, b, c, t=t: np.arange(float(a), float(b), float(c)).astype(NUMPY[t])
        )


def constant_cases(rng):
    """Constants of every type: dense and splat, large enough for a resource as well as inline."""
    table = allowed_types()["coreai.cast"]
    for t in table:
        small, big = exact(rng, t, (3, 5)), exact(rng, t, (7, 13))
        yield Case(
            f"constant_{t}",
            [("f32", (1,))],
            lambda x, a=small, b=big: [constant(a), constant(b), ops.add(x, x)],
            [[np.ones(1, np.float32)]],
            lambda x, a=small, b=big: [a, b, x + x],
        )


def cases(rng):
    for make in (move_cases, rank_cases, pad_cases, shape_cases, constant_cases):
        yield from make(rng)
