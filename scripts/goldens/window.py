"""Convolution, transposed convolution, pooling, interpolation: 2-D and 3-D, strides, dilations, groups."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from coreai._compiler.dialects import coreai as ops
from coreai._compiler.ir import Attribute

from .authored import Case, constant, s32, scalar, tensor, u32
from .element_types import allowed_types, is_float, limits, sample, to_type, to_wide


def via_torch(function, t, *arrays):
    out = function(*[torch.from_numpy(np.array(to_wide(a))) for a in arrays])
    return to_type(out.numpy(), t)


# label: (input, weight, stride, dilation, groups, dims of the calls); the last dim is dynamic
CONV = {
    "conv2d": {
        "plain": ((2, 3, 5, -1), (4, 3, 3, 2), (1, 1), (1, 1), 1, [(2, 3, 5, 6), (2, 3, 5, 2), (2, 3, 5, 9)]),
        "strided": ((1, 4, 7, -1), (6, 2, 3, 3), (2, 3), (1, 2), 2, [(1, 4, 7, 8), (1, 4, 7, 11)]),
        "depthwise": ((1, 3, 4, -1), (3, 1, 2, 2), (1, 1), (2, 1), 3, [(1, 3, 4, 5), (1, 3, 4, 2)]),
        "pointwise": ((2, 3, 2, -1), (5, 3, 1, 1), (1, 1), (1, 1), 1, [(2, 3, 2, 4), (2, 3, 2, 1)]),
    },
    "conv3d": {
        "plain": ((1, 2, 3, 4, -1), (3, 2, 2, 2, 2), (1, 1, 1), (1, 1, 1), 1, [(1, 2, 3, 4, 4), (1, 2, 3, 4, 2)]),
        "strided": ((1, 4, 4, 5, -1), (4, 2, 2, 3, 1), (2, 1, 2), (1, 2, 1), 2, [(1, 4, 4, 5, 3), (1, 4, 4, 5, 5)]),
    },
}
# label: (input, weight, stride, padding, dilation, output padding, groups, dims of the calls)
TRANSPOSED = {
    "conv_transpose2d": {
        "plain": ((1, 3, 3, -1), (3, 4, 3, 2), (1, 1), (0, 0), (1, 1), (0, 0), 1, [(1, 3, 3, 4), (1, 3, 3, 1)]),
        "strided": ((2, 4, 3, -1), (4, 3, 3, 3), (2, 3), (1, 0), (1, 2), (1, 2), 2, [(2, 4, 3, 3), (2, 4, 3, 5)]),
    },
    "conv_transpose3d": {
        "plain": ((1, 2, 2, 3, -1), (2, 3, 2, 2, 1), (1, 2, 1), (0, 0, 0), (1, 1, 1), (0, 0, 0), 1, [(1, 2, 2, 3, 3), (1, 2, 2, 3, 1)]),
        "strided": ((1, 4, 2, 2, -1), (4, 1, 2, 3, 2), (2, 2, 2), (1, 0, 1), (1, 1, 2), (1, 0, 1), 2, [(1, 4, 2, 2, 3), (1, 4, 2, 2, 2)]),
    },
}


def conv_cases(rng):
    table = allowed_types()
    for op, forms in CONV.items():
        torch_conv = {"conv2d": F.conv2d, "conv3d": F.conv3d}[op]
        for label, (dims, weight, stride, dilation, groups, shapes) in forms.items():
            for t in table["coreai." + op]:

                def build(x, w, make=getattr(ops, op), s=stride, d=dilation, g=groups):
                    return make(x, w, u32(*s), u32(*d), scalar("ui32", g))

                def expect(x, w, f=torch_conv, s=stride, d=dilation, g=groups, t=t):
                    return via_torch(lambda a, b: f(a, b, stride=s, dilation=d, groups=g), t, x, w)

                yield Case(
                    f"{op}_{label}_{t}",
                    [(t, dims), (t, weight)],
                    build,
                    [[sample(rng, t, s, -1, 1), sample(rng, t, weight, -1, 1)] for s in shapes],
                    expect,
                )
    for op, forms in TRANSPOSED.items():
        torch_conv = {"conv_transpose2d": F.conv_transpose2d, "conv_transpose3d": F.conv_transpose3d}[op]
        for label, (dims, weight, stride, padding, dilation, extra, groups, shapes) in forms.items():
            for t in table["coreai." + op]:

                def build(x, w, make=getattr(ops, op), s=stride, p=padding, d=dilation, e=extra, g=groups):
                    return make(x, w, u32(*s), u32(*p), u32(*d), u32(*e), scalar("ui32", g))

                def expect(x, w, f=torch_conv, s=stride, p=padding, d=dilation, e=extra, g=groups, t=t):
                    return via_torch(lambda a, b: f(a, b, stride=s, padding=p, output_padding=e, groups=g, dilation=d), t, x, w)

                yield Case(
                    f"{op}_{label}_{t}",
                    [(t, dims), (t, weight)],
                    build,
                    [[sample(rng, t, s, -1, 1), sample(rng, t, weight, -1, 1)] for s in shapes],
                    expect,
                )


def pooled(x, kernel, stride, dilation, ceil_mode, combine, start):
    """Pooling written out: every offset of the window is a strided slice of the (end-padded) input."""
    n = len(kernel)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    size = [
        -(-(x.shape[2 + i] - spans[i]) // stride[i]) + 1 if ceil_mode else (x.shape[2 + i] - spans[i]) // stride[i] + 1 for i in range(n)
    ]
    need = [(size[i] - 1) * stride[i] + spans[i] for i in range(n)]
    wide = np.full(x.shape[:2] + tuple(max(a, b) for a, b in zip(need, x.shape[2:])), start, x.dtype)
    wide[tuple(slice(0, s) for s in x.shape)] = x
    out = None
    for at in itertools.product(*[range(k) for k in kernel]):
        part = wide[
            (slice(None), slice(None)) + tuple(slice(a * d, a * d + (m - 1) * s + 1, s) for a, d, m, s in zip(at, dilation, size, stride))
        ]
        out = part if out is None else combine(out, part)
    return out


def pool_cases(rng):
    table = allowed_types()
    forms2 = {"plain": ((2, 2), (1, 1), (1, 1), False), "strided": ((3, 2), (2, 2), (1, 2), False), "ceil": ((2, 2), (2, 3), (1, 1), True)}
    forms3 = {
        "plain": ((2, 2, 2), (1, 1, 1), (1, 1, 1), False),
        "strided": ((2, 1, 3), (1, 2, 2), (2, 1, 1), False),
        "ceil": ((2, 2, 2), (2, 2, 3), (1, 1, 1), True),
    }
    for n, forms, dims, shapes in (
        (2, forms2, (1, 2, 6, -1), [(1, 2, 6, 7), (1, 2, 6, 5)]),
        (3, forms3, (1, 2, 4, 5, -1), [(1, 2, 4, 5, 6), (1, 2, 4, 5, 4)]),
    ):
        for label, (kernel, stride, dilation, ceil_mode) in forms.items():
            for kind in ("max", "sum"):
                if kind == "sum" and ceil_mode:
                    continue
                for t in table[f"coreai.{kind}_pool_{n}d"]:

                    def build(x, kind=kind, n=n, dims=dims, k=kernel, s=stride, d=dilation, c=ceil_mode, t=t):
                        if kind == "sum":
                            return getattr(ops, f"sumpool{n}d")(x, u32(*k), u32(*s), u32(*d))
                        size = [
                            (
                                -1
                                if dims[2 + i] < 0
                                else (
                                    -(-(dims[2 + i] - d[i] * (k[i] - 1) - 1) // s[i]) + 1
                                    if c
                                    else (dims[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1
                                )
                            )
                            for i in range(n)
                        ]
                        return getattr(ops, f"maxpool{n}d")(tensor(t, (1, 2, *size)), x, u32(*k), u32(*s), u32(*d), scalar("i1", c))

                    def expect(x, kind=kind, k=kernel, s=stride, d=dilation, c=ceil_mode, t=t):
                        wide = to_wide(x)
                        low = -np.inf if is_float(t) else limits(t)[0]
                        return to_type(pooled(wide, k, s, d, c, np.maximum if kind == "max" else np.add, low if kind == "max" else 0), t)

                    yield Case(f"{kind}_pool_{n}d_{label}_{t}", [(t, dims)], build, [[sample(rng, t, s, -5, 5)] for s in shapes], expect)
    x = np.array([[[[1, np.nan, 2, 3], [0, 1, -np.inf, 5]]]], np.float32)
    yield Case(
        "max_pool_2d_nan",
        [("f32", (1, 1, 2, 4))],
        lambda x: ops.maxpool2d(tensor("f32", (1, 1, 1, 3)), x, u32(2, 2), u32(1, 1), u32(1, 1), scalar("i1", False)),
        [[x]],
        lambda x: np.array([[[[np.nan, np.nan, 5]]]], np.float32),
    )


def sampled(x, coordinates, mode):
    """x at one point, coordinates clamped to it."""
    at = [min(max(c, 0.0), n - 1.0) for c, n in zip(coordinates, x.shape)]
    if mode == "nearest_neighbor":
        return x[tuple(int(np.rint(c)) for c in at)]
    total = 0.0
    for corner in itertools.product((0, 1), repeat=x.ndim):
        weight, place = 1.0, []
        for c, up, n in zip(at, corner, x.shape):
            low = int(np.floor(c))
            weight *= c - low if up else 1 - (c - low)
            place.append(min(low + up, n - 1))
        total = total + weight * x[tuple(place)] if weight else total
    return total


def interpolate_cases(rng):
    table = allowed_types()
    # label: (dims, output dims, scale, offset)
    forms = {
        "half_pixel": ((1, 2, 3, 4), (1, 2, 6, 6), (1, 1, 2, 1.5), (0, 0, 0, 0)),
        "corners": ((1, 1, 3, 3), (1, 1, 5, 7), (1, 1, 2, 3), (0, 0, -0.5, -1)),
        "smaller": ((2, 1, 6, 4), (2, 1, 3, 3), (1, 1, 0.5, 0.75), (0, 0, 0, 0)),
        "plane": ((3, 4), (4, 7), (1.25, 1.75), (0.25, 0)),
        "volume": ((2, 3, 2), (3, 5, 4), (1.5, 1.7, 2), (0, 0, 0.1)),
        "line": ((4,), (9,), (2.25,), (0,)),
    }
    for mode in ("linear", "nearest_neighbor"):
        attribute = f"#coreai.interpolation_mode<{mode}>"
        for label, (dims, out, scale, offset) in forms.items():
            for t in table["coreai.interpolate"]:
                # Of integers only the nearest form has one meaning: no rounding is defined for the others.
                if not is_float(t) and (mode == "linear" or label in ("volume", "line")):
                    continue

                def build(x, o=out, s=scale, f=offset, a=attribute):
                    return ops.interpolate(
                        x, s32(*o), constant(np.array(s, np.float32)), constant(np.array(f, np.float32)), Attribute.parse(a)
                    )

                def expect(x, o=out, s=scale, f=offset, m=mode, t=t):
                    wide, result = to_wide(x), np.zeros(o)
                    s, f = np.array(s, np.float32).astype(np.float64), np.array(f, np.float32).astype(np.float64)
                    for p in np.ndindex(*o):
                        result[p] = sampled(wide, [(p[i] + 0.5 - f[i]) / s[i] - 0.5 for i in range(len(o))], m)
                    return to_type(result, t)

                yield Case(f"interpolate_{label}_{mode}_{t}", [(t, dims)], build, [[sample(rng, t, dims, -9, 9)]], expect)
        for shape in ((5,), (3, 4), (2, 3, 4)):
            for t in table["coreai.interpolate_coordinates"]:
                if not is_float(t) and mode == "linear":
                    continue
                points = rng.uniform(-1, 5, (6, len(shape))).astype(np.float32)
                points[0], points[1] = 0.5, 1.5
                yield Case(
                    f"interpolate_coordinates_{mode}_{t}_rank{len(shape)}",
                    [(t, shape), ("f32", (-1, len(shape)))],
                    lambda x, c, a=attribute: ops.interpolate_coordinates(x, c, Attribute.parse(a)),
                    [[sample(rng, t, shape, -9, 9), points], [sample(rng, t, shape, -9, 9), points[:1]]],
                    lambda x, c, m=mode, t=t: to_type(np.array([sampled(to_wide(x), [float(v) for v in p], m) for p in c]), t),
                )


def cases(rng):
    for make in (conv_cases, pool_cases, interpolate_cases):
        yield from make(rng)
