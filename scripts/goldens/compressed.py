"""Compressed weights and activations: every stored form, every element type it allows."""

import numpy as np
from coreai._compiler.dialects import coreai as ops

from .authored import Case, bits_constant, constant, s32, scalar
from .element_types import BITS, NUMPY, allowed_types, is_int, limits, sample, to_type, to_wide

FEW_BITS = ["si8", "ui8", "si4", "ui4", "si2", "ui2", "f8E5M2", "f8E4M3FN", "f4E2M1FN"]


def codes(rng, t, shape):
    """Data of a compressed weight: over the whole range of a few bits, small otherwise."""
    if t == "f4E2M1FN":
        return rng.choice([-6, -3, -1, -0.5, 0, 0.5, 1, 1.5, 2, 4, 6], shape).astype(NUMPY[t])
    if t == "f8E8M0FN":
        return rng.choice([0.25, 0.5, 1, 2, 4], shape).astype(NUMPY[t])
    if is_int(t) and BITS[t] <= 8:
        return sample(rng, t, shape, *limits(t))
    return sample(rng, t, shape, -9, 9)


def expanded(a, shape):
    """Repeats block parameters over their blocks."""
    for axis, (n, full) in enumerate(zip(a.shape, shape)):
        a = np.repeat(a, full // n, axis)
    return a


def shift_scale(data, scale, offset1, offset2, t):
    """offset2 - offset1 * scale is the bias, data * scale + bias the result; each step rounds to f32 and f16 results."""
    step = {"f64": np.float64, "f16": np.float16}.get(t, np.float32)
    d, s, o1, o2 = (
        np.asarray(expanded(a, data.shape) if a.ndim else a).astype(np.float64).astype(step) for a in (data, scale, offset1, offset2)
    )
    bias = o2 - (o1 * s).astype(step)
    return to_type(((d * s).astype(step) + bias).astype(step), t)


def shift_scale_cases(rng):
    grids = {"tensor": (1, 1), "channel": (4, 1), "block": (4, 3), "columns": (2, 6)}
    for data in allowed_types()["coreai.blockwise_shift_scale"]:
        for result in ("f32", "f16", "bf16"):
            if data == "f4E2M1FN" and result == "f32":
                continue
            for label, grid in grids.items():
                if label in ("columns", "tensor") and data not in FEW_BITS:
                    continue
                shape = (4, 6)
                q, o1 = codes(rng, data, shape), codes(rng, data, grid)
                s, o2 = sample(rng, result, grid, 0.01, 0.2), sample(rng, result, grid, -1, 1)
                if data in ("f8E5M2", "f8E4M3FN", "f4E2M1FN"):
                    o1, o2 = np.zeros(grid, NUMPY[data]), np.zeros(grid, NUMPY[result])  # the format allows no other
                yield Case(
                    f"shift_scale_{data}_to_{result}_{label}",
                    [(data, shape)],
                    lambda x, s=s, a=o1, b=o2: ops.blockwise_shift_scale(x, constant(s), constant(a), constant(b)),
                    [[q]],
                    lambda x, s=s, a=o1, b=o2, t=result: shift_scale(x, s, a, b, t),
                )
                if label == "block":
                    yield Case(
                        f"shift_scale_constant_{data}_to_{result}",
                        [(result, (1,))],
                        lambda x, q=q, s=s, a=o1, b=o2: [
                            ops.blockwise_shift_scale(constant(q), constant(s), constant(a), constant(b)),
                            ops.add(x, x),
                        ],
                        [[np.ones(1, NUMPY[result])]],
                        lambda x, q=q, s=s, a=o1, b=o2, t=result: [shift_scale(q, s, a, b, t), x + x],
                    )
    # Odd rows: a packed row begins inside a byte. Scales that are powers of two.
    for data in ("si4", "ui4", "si2", "ui2", "f4E2M1FN"):
        q, o1 = codes(rng, data, (3, 5)), codes(rng, data, (3, 1)) if data != "f4E2M1FN" else np.zeros((3, 1), NUMPY[data])
        s, o2 = sample(rng, "f16", (3, 1), 0.1, 0.2), np.zeros((3, 1), np.float16)
        yield Case(
            f"shift_scale_odd_rows_{data}",
            [("f16", (1,))],
            lambda x, q=q, s=s, a=o1, b=o2: [ops.blockwise_shift_scale(constant(q), constant(s), constant(a), constant(b)), ops.add(x, x)],
            [[np.ones(1, np.float16)]],
            lambda x, q=q, s=s, a=o1, b=o2: [shift_scale(q, s, a, b, "f16"), x + x],
        )
    for data in ("f4E2M1FN", "f8E5M2", "f8E4M3FN"):
        for result in ("f32", "f16", "bf16"):
            q, o1 = codes(rng, data, (4, 6)), np.zeros((4, 2), NUMPY[data])
            s, o2 = codes(rng, "f8E8M0FN", (4, 2)), np.zeros((4, 2), NUMPY[result])
            yield Case(
                f"shift_scale_e8m0_{data}_to_{result}",
                [(data, (4, 6))],
                lambda x, s=s, a=o1, b=o2: ops.blockwise_shift_scale(x, constant(s), constant(a), constant(b)),
                [[q]],
                lambda x, s=s, a=o1, b=o2, t=result: shift_scale(x, s, a, b, t),
            )


def along(a, ndim, axis):
    """A vector of parameters shaped to broadcast along an axis; scalars as they are."""
    a = to_wide(a).astype(np.float64)
    return a.reshape([-1 if i == axis else 1 for i in range(ndim)]) if a.ndim else a


def quantized(x, scale, o1, o2, axis, t):
    q = (to_wide(x).astype(np.float64) - along(o2, x.ndim, axis)) / along(scale, x.ndim, axis)
    if is_int(t):
        lo, hi = limits(t)
        return to_type(np.clip(np.rint(q) + along(o1, x.ndim, axis), lo, hi), t)
    return to_type(q + along(o1, x.ndim, axis), t)


def quantize_cases(rng):
    for target in ("si8", "ui8", "si4", "ui4", "f8E5M2", "f8E4M3FN"):
        for source in ("f32", "f16", "bf16"):
            for label, axis, shape in (("channel", 1, (4,)), ("last", -1, (3,)), ("scalar", 1, ()), ("tensor", None, ())):
                s, o2 = sample(rng, source, shape, 0.25, 0.75), sample(rng, source, shape, -1, 1)
                o1 = sample(rng, target, shape, 0, 2)
                at = axis % 3 if axis is not None else 0

                def parameter(a):
                    return s32(0, 1, 2) if a is None else scalar("si32", a)

                def build(x, s=s, a=o1, b=o2, axis=axis):
                    return ops.quantize(x, constant(s), constant(a), constant(b), parameter(axis))

                x = sample(rng, source, (2, 4, 3), -6, 6)
                # Ties depend on the width they are computed in: keep away from them.
                ratio = (to_wide(x) - along(o2, 3, at)) / along(s, 3, at)
                near = np.abs(ratio - np.floor(ratio) - 0.5) < 0.15
                x = np.where(near, to_type(to_wide(x) + 0.3 * along(s, 3, at), source), x).astype(x.dtype)
                slack = (0.26, 0.07) if target.startswith("f8") else None
                yield Case(
                    f"quantize_{source}_to_{target}_{label}",
                    [(source, (2, 4, 3))],
                    build,
                    [[x]],
                    lambda x, s=s, a=o1, b=o2, at=at, t=target: quantized(x, s, a, b, at, t),
                    tolerance=slack,
                )

                def undo(x, s=s, a=o1, b=o2, axis=axis):
                    return ops.dequantize(x, constant(s), constant(a), constant(b), parameter(axis))

                q = codes(rng, target, (2, 4, 3))
                yield Case(
                    f"dequantize_{target}_to_{source}_{label}",
                    [(target, (2, 4, 3))],
                    undo,
                    [[q]],
                    lambda x, s=s, a=o1, b=o2, at=at, t=source: to_type(
                        (to_wide(x).astype(np.float64) - along(a, 3, at)) * along(s, 3, at) + along(b, 3, at), t
                    ),
                )
    edges = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, 127.5, np.inf, -np.inf, np.nan], np.float32)
    for target in ("si8", "ui8", "si4"):
        one = lambda v, t: scalar(t, v)
        yield Case(
            f"quantize_edges_{target}",
            [("f32", (11,))],
            lambda x, t=target: ops.quantize(x, one(1, "f32"), one(0, t), one(0, "f32"), scalar("si32", 0)),
            [[edges]],
            lambda x, t=target: to_type(np.nan_to_num(np.clip(np.rint(np.where(np.isnan(x), 0, x).astype(np.float64)), *limits(t))), t),
        )


def quantize_other_types(rng):
    """The remaining types the format lets quantize and dequantize have, one plain form each."""
    table = allowed_types()
    for source in table["coreai.quantize"]:
        if source in ("f64", "f32", "f16", "bf16"):
            continue
        x = codes(rng, source, (3, 4)) if not is_int(source) else sample(rng, source, (3, 4), 0, 3)
        yield Case(
            f"quantize_{source}_to_si8_plain",
            [(source, (3, 4))],
            lambda x, t=source: ops.quantize(x, scalar("f32", 0.5), scalar("si8", 1), scalar(t, 1), scalar("si32", 0)),
            [[x]],
            lambda x: to_type(np.clip(np.rint((to_wide(x).astype(np.float64) - 1) / 0.5) + 1, -128, 127), "si8"),
        )
    for source in table["coreai.dequantize"]:
        yield Case(
            f"dequantize_{source}_to_f32_plain",
            [(source, (3, 4))],
            lambda x, t=source: ops.dequantize(x, scalar("f32", 0.5), scalar(t, 1), scalar("f32", 0.25), scalar("si32", 0)),
            [[codes(rng, source, (3, 4))]],
            lambda x: to_type((to_wide(x).astype(np.float64) - 1) * 0.5 + 0.25, "f32"),
        )


def statistics_cases(rng):
    table = allowed_types()
    spans = {"si8": (-128, 127), "ui8": (0, 255), "si16": (-32768, 32767), "f32": (-100, 100)}
    for t in table["coreai.symmetric_quantization_statistics"]:
        for target, (lo, hi) in spans.items():
            if target != "si8" and t not in ("f32", "f16") or t == "f16" and target == "si16" or is_int(t) or t.startswith("f8"):
                continue  # integers have a function of their own; a span of 65535 is not a finite f16
            for axis in (1, -1, 0):

                def others(x, a=axis):
                    return tuple(i for i in range(3) if i != a % 3)

                span = np.array([lo, hi], np.int64 if is_int(target) else np.float32)
                span = to_type(span, target)

                def symmetric(x, t=t, lo=lo, hi=hi, others=others):
                    return to_type(2 * np.abs(to_wide(x).astype(np.float64)).max(axis=others(x)) / (hi - lo), t)

                def asymmetric(x, t=t, lo=lo, hi=hi, target=target, others=others):
                    wide = to_wide(x).astype(np.float64)
                    high, low = np.maximum(wide.max(axis=others(x)), 0), np.minimum(wide.min(axis=others(x)), 0)
                    scale = to_wide(to_type((high - low) / (hi - lo), t)).astype(np.float64)
                    # The quotient is a value of the input's type, which matters where it is nearly half way between two integers.
                    ratio = to_wide(to_type(low / scale, t)).astype(np.float64)
                    zero = lo - (np.rint(ratio) if is_int(target) else ratio)
                    return [to_type(scale, t), to_type(np.clip(zero, lo, hi), target)]

                x = [sample(rng, t, s, -100, 100) for s in ((2, 4, 3), (2, 1, 3))]
                yield Case(
                    f"symmetric_statistics_{t}_{target}_axis{axis}",
                    [(t, (2, -1, 3))],
                    lambda x, s=span, a=axis: ops.symmetric_quant_stats(x, constant(s), scalar("si32", a)),
                    [[v] for v in x],
                    symmetric,
                )
                yield Case(
                    f"asymmetric_statistics_{t}_{target}_axis{axis}",
                    [(t, (2, -1, 3))],
                    lambda x, s=span, a=axis: list(ops.asymmetric_quant_stats(x, constant(s), scalar("si32", a))),
                    [[v] for v in x],
                    asymmetric,
                    tolerance=[None, (1e-2, 5e-2)] if t == "f16" else None,
                )


def statistics_of_integers(rng):
    """Integer inputs have integer scales; a range as wide as the values leaves no room for how they round."""
    for t in allowed_types()["coreai.symmetric_quantization_statistics"]:
        if not is_int(t):
            continue
        x = np.array([[0, 7, 14], [7, 3, 5]]).astype(NUMPY[t])
        span = np.array([0, 7]).astype(NUMPY["si8"])
        yield Case(
            f"symmetric_statistics_{t}",
            [(t, (2, 3))],
            lambda x, s=span: ops.symmetric_quant_stats(x, constant(s), scalar("si32", 0)),
            [[x]],
            lambda x, t=t: np.array([4, 2]).astype(NUMPY[t]),
        )
        yield Case(
            f"asymmetric_statistics_{t}",
            [(t, (2, 3))],
            lambda x, s=span: list(ops.asymmetric_quant_stats(x, constant(s), scalar("si32", 0))),
            [[x]],
            lambda x, t=t: [np.array([2, 1]).astype(NUMPY[t]), np.zeros(2, np.int8)],
        )


def looked_up(indices, lut, axis):
    size = [n // g for n, g in zip(indices.shape, lut.shape)]
    v = lut.shape[-1]
    out = np.zeros(indices.shape + (v,), lut.dtype)
    for p in np.ndindex(*indices.shape):
        out[p] = lut[tuple(i // s for i, s in zip(p, size)) + (int(indices[p]),)]
    out = np.moveaxis(out, -1, axis + 1)
    shape = list(indices.shape)
    shape[axis] *= v
    return out.reshape(shape)


def lut_cases(rng):
    luts = allowed_types()["coreai.lut_to_dense"]
    for bits in (1, 2, 4, 6, 8):
        for t in luts if bits == 4 else ("f32", "f16", "si8"):
            for label, shape, grid, vector, axis in (
                ("one", (3, 5), (1, 1), 1, 0),
                ("rows", (4, 6), (2, 1), 1, 0),
                ("blocks", (4, 6), (2, 3), 1, 1),
                ("vector0", (2, 3), (1, 1), 2, 0),
                ("vector1", (2, 3, 4), (2, 1, 1), 3, 1),
            ):
                if bits in (6, 8) and label not in ("one", "rows"):
                    continue
                index, table = rng.integers(0, 1 << bits, shape), sample(rng, t, grid + (1 << bits, vector), -20, 20)

                def build(x, i=index, l=table, a=axis, b=bits):
                    indices = bits_constant(f"ui{b}", i) if b < 8 else constant(i.astype(np.uint8))
                    return [ops.lut_to_dense(indices, constant(l), scalar("si16", a)), ops.add(x, x)]

                yield Case(
                    f"lut_to_dense_{bits}bit_{t}_{label}",
                    [("f32", (1,))],
                    build,
                    [[np.ones(1, np.float32)]],
                    lambda x, i=index, l=table, a=axis: [looked_up(i, l, a), x + x],
                )


def dense_of(mask, values):
    out = np.zeros(mask.shape, values.dtype)
    out[mask] = values
    return out


def sparse_cases(rng):
    for t in (
        "f64",
        "f32",
        "f16",
        "bf16",
        "f8E5M2",
        "f8E4M3FN",
        "si64",
        "si32",
        "si16",
        "si8",
        "ui64",
        "ui32",
        "ui16",
        "ui8",
        "ui4",
        "ui2",
        "i1",
    ):
        for label, shape, density in (("some", (3, 5), 0.4), ("none", (2, 3), 0.0), ("every", (2, 2, 3), 1.1), ("line", (19,), 0.5)):
            mask = rng.random(shape) < density
            values = sample(rng, t, (int(mask.sum()),), -9, 9)

            def build(x, m=mask, v=values):
                sparse = ops.build_sparse_with_bitmask(constant(v), bits_constant("ui1", m.astype(np.uint8)))
                return [ops.sparse_with_bitmask_to_dense(sparse), ops.add(x, x)]

            yield Case(
                f"sparse_{label}_{t}",
                [("f32", (1,))],
                build,
                [[np.ones(1, np.float32)]],
                lambda x, m=mask, v=values: [dense_of(m, v), x + x],
            )
    for t in ("ui6", "ui3", "ui1"):
        mask = rng.random((3, 7)) < 0.5
        values = rng.integers(0, 1 << BITS[t], int(mask.sum())).astype(np.uint8)

        def build(x, m=mask, v=values, t=t):
            sparse = ops.build_sparse_with_bitmask(bits_constant(t, v), bits_constant("ui1", m.astype(np.uint8)))
            return [ops.sparse_with_bitmask_to_dense(sparse), ops.add(x, x)]

        yield Case(
            f"sparse_some_{t}", [("f32", (1,))], build, [[np.ones(1, np.float32)]], lambda x, m=mask, v=values: [dense_of(m, v), x + x]
        )


def sparse_lut_cases(rng):
    for bits in (1, 2, 4, 6, 8):
        for t in ("f32", "f16", "bf16", "f8E5M2", "f8E4M3FN", "si8", "ui8"):
            for label, shape, grid, vector, axis in (
                ("one", (4, 6), (1, 1), 1, 0),
                ("rows", (4, 6), (2, 1), 1, 0),
                ("vector0", (4, 6), (1, 1), 2, 0),
                ("vector1", (4, 6), (1, 1), 2, 1),
            ):
                if bits in (6, 8) and label != "one":
                    continue
                mask = rng.random(shape) < 0.5
                index = rng.integers(0, 1 << bits, int(mask.sum()))
                table = sample(rng, t, grid + (1 << bits, vector), -20, 20)

                def build(x, m=mask, i=index, l=table, a=axis, b=bits):
                    stored = bits_constant(f"ui{b}", i) if b < 8 else constant(i.astype(np.uint8))
                    sparse = ops.build_sparse_with_bitmask(stored, bits_constant("ui1", m.astype(np.uint8)))
                    dense = ops.sparse_with_bitmask_to_dense(ops.lut_to_sparse_with_bitmask(sparse, constant(l), scalar("si16", a)))
                    return [dense, ops.add(x, x)]

                def expect(x, m=mask, i=index, l=table, a=axis):
                    full = looked_up(dense_of(m, i.astype(np.int64)), l, a)
                    return [np.where(np.repeat(m, l.shape[-1], a), full, np.zeros((), l.dtype)).astype(l.dtype), x + x]

                yield Case(f"lut_to_sparse_{bits}bit_{t}_{label}", [("f32", (1,))], build, [[np.ones(1, np.float32)]], expect)


def joint_cases(rng):
    """Forms on top of each other, as the compression tools write them, in front of a matrix product."""
    for t in ("f32", "f16"):
        x = sample(rng, t, (3, 8))
        index, table, scale = rng.integers(0, 16, (4, 8)), sample(rng, "si8", (1, 1, 16, 1), -127, 127), sample(rng, t, (4, 1), 0.01, 0.02)
        zero, none = np.zeros((4, 1), np.int8), np.zeros((4, 1), NUMPY[t])

        def from_lut(v, i=index, l=table, s=scale, z=zero, n=none):
            q = ops.lut_to_dense(bits_constant("ui4", i), constant(l), scalar("si16", 0))
            w = ops.blockwise_shift_scale(q, constant(s), constant(z), constant(n))
            return ops.broadcasting_batch_matmul(v, ops.transpose(w, constant(np.array([1, 0], np.uint32))))

        def expect(v, i=index, l=table, s=scale, z=zero, n=none, t=t):
            return to_type(to_wide(v) @ to_wide(shift_scale(looked_up(i, l, 0), s, z, n, t)).T, t)

        yield Case(f"joint_lut_scale_{t}", [(t, (-1, 8))], from_lut, [[x], [x[:1]]], expect)
        mask = rng.random((4, 8)) < 0.5
        values = sample(rng, "si8", (int(mask.sum()),), -127, 127)

        def from_sparse(v, m=mask, a=values, s=scale, z=zero, n=none):
            q = ops.sparse_with_bitmask_to_dense(ops.build_sparse_with_bitmask(constant(a), bits_constant("ui1", m.astype(np.uint8))))
            w = ops.blockwise_shift_scale(q, constant(s), constant(z), constant(n))
            return ops.broadcasting_batch_matmul(v, ops.transpose(w, constant(np.array([1, 0], np.uint32))))

        yield Case(
            f"joint_sparse_scale_{t}",
            [(t, (-1, 8))],
            from_sparse,
            [[x], [x[:1]]],
            lambda v, m=mask, a=values, s=scale, z=zero, n=none, t=t: to_type(
                to_wide(v) @ to_wide(shift_scale(dense_of(m, a), s, z, n, t)).T, t
            ),
        )


def cases(rng):
    for make in (
        shift_scale_cases,
        quantize_cases,
        quantize_other_types,
        statistics_cases,
        statistics_of_integers,
        lut_cases,
        sparse_cases,
        sparse_lut_cases,
        joint_cases,
    ):
        yield from make(rng)
