"""Elementwise operations of every allowed element type, several ranks and shapes each."""

import math

import numpy as np
from coreai._compiler.dialects import coreai as ops

from .authored import Case, scalar
from .element_types import allowed_types, is_float, is_int, limits, sample, to_type, to_wide

_erf = np.vectorize(math.erf, otypes=[np.float64])
# Values every operation on floats meets besides random ones; each type rounds them its own way.
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -1.5]


def gelu(x, form):
    if form == "none":
        return 0.5 * x * (1 + _erf(x / np.sqrt(2)))
    if form == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-1.702 * x))


# name: (function of the dialect, NumPy, smallest and largest sample, are the special values tried?)
UNARY = {
    "abs": (ops.abs_, np.abs, -9, 9, True),
    "acos": (ops.acos, np.arccos, -1, 1, True),
    "acosh": (ops.acosh, np.arccosh, 1, 9, True),
    "asin": (ops.asin, np.arcsin, -1, 1, True),
    "asinh": (ops.asinh, np.arcsinh, -9, 9, True),
    "atan": (ops.atan, np.arctan, -9, 9, True),
    "atanh": (ops.atanh, np.arctanh, -0.9, 0.9, True),
    "cos": (ops.cos, np.cos, -7, 7, False),
    "cosh": (ops.cosh, np.cosh, -3, 3, False),
    "sin": (ops.sin, np.sin, -7, 7, False),
    "sinh": (ops.sinh, np.sinh, -3, 3, False),
    "tan": (ops.tan, np.tan, -1.2, 1.2, False),
    "tanh": (ops.tanh, np.tanh, -4, 4, True),
    "exp": (ops.exp, np.exp, -4, 4, True),
    "log": (ops.log, np.log, 0.1, 9, True),
    "erf": (ops.erf, _erf, -3, 3, False),
    "sqrt": (ops.sqrt, np.sqrt, 0, 9, True),
    "rsqrt": (ops.rsqrt, lambda x: 1 / np.sqrt(x), 0.1, 9, True),
    "sigmoid": (ops.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -5, 5, False),
    "silu": (ops.silu, lambda x: x / (1 + np.exp(-x)), -5, 5, False),
    "relu": (ops.relu, lambda x: np.where(x != x, x, np.maximum(x, 0)), -9, 9, True),
    "round": (ops.round_, np.rint, -9, 9, True),
    "not": (ops.not_, np.logical_not, 0, 1, False),
}
SHAPES = [(4, 3), (1, 3), (7, 3)]  # first dim dynamic


def unary_cases(rng):
    table = allowed_types()
    for op, (make, numpy, lo, hi, has_special) in UNARY.items():
        for t in table["coreai." + op]:
            calls = [[sample(rng, t, s, lo, hi)] for s in SHAPES]
            if has_special and t in ("f64", "f32", "f16", "bf16"):
                calls.append([np.array(SPECIAL).reshape(3, 3).astype(calls[0][0].dtype)])
            if is_int(t):
                calls.append([np.array([limits(t)[0], limits(t)[1], 0] * 2, dtype=calls[0][0].dtype).reshape(2, 3)])
            if op == "round" and is_float(t):
                calls.append([np.array([[0.5, 1.5, 2.5], [-0.5, -1.5, -2.5]]).astype(calls[0][0].dtype)])
            yield Case(
                f"{op}_{t}", [(t, (-1, 3))], make, calls, lambda x, f=numpy, t=t: to_type(x if op_is_same(f, t) else f(to_wide(x)), t)
            )
        first = table["coreai." + op][0] if op == "not" else "f32"
        for shape in ((), (5,), (2, 1, 3), (2, 1, 3, 2), (1, 2, 1, 3, 2)):
            x = sample(rng, first, shape, lo, hi)
            yield Case(
                f"{op}_{first}_rank{len(shape)}",
                [(first, shape)],
                make,
                [[x]],
                lambda x, f=numpy, t=first: to_type(f(to_wide(x)), t),
                can_merge=False,
            )
    for form in ("none", "tanh", "sigmoid"):
        for t in table["coreai.gelu"]:
            calls = [[sample(rng, t, s, -5, 5)] for s in SHAPES]
            yield Case(
                f"gelu_{form}_{t}",
                [(t, (-1, 3))],
                lambda x, form=form: ops.gelu(x, approximate=form),
                calls,
                lambda x, form=form, t=t: to_type(gelu(to_wide(x), form), t),
            )


def op_is_same(function, t):
    """Rounding an integer is the integer."""
    return function is np.rint and is_int(t)


def first_of_equal(pick):
    """maximum / minimum as the format defines them: NaN from either side, of equal values the first."""

    def f(a, b):
        return np.where(a != a, a, np.where(b != b, b, np.where(pick(b, a), b, a)))

    return f


def truncated(a, b):
    if a.dtype.kind == "f" or a.dtype.kind == "c":
        return a / b
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q)


def remainder(a, b):
    return np.fmod(a, b) if a.dtype.kind == "f" else a - truncated(a, b) * b


def power(a, b):
    if a.dtype.kind in "fc":
        return np.power(a, b)
    flat = []
    for x, y in zip(a.reshape(-1), np.broadcast_to(b, a.shape).reshape(-1)):
        x, y = int(x), int(y)
        flat.append(x**y if y >= 0 else (1 if x == 1 else (-1 if y % 2 else 1) if x == -1 else 0))
    return np.array(flat, dtype=object).reshape(a.shape)


def add(a, b):
    return a | b if a.dtype == bool else a + b


def mul(a, b):
    return a & b if a.dtype == bool else a * b


# name: (NumPy, smallest and largest first operand, of the second, is the result a truth value?)
BINARY = {
    "add": (add, -9, 9, -9, 9, False),
    "sub": (lambda a, b: a - b, -9, 9, -9, 9, False),
    "mul": (mul, -9, 9, -9, 9, False),
    "divide": (truncated, -20, 20, 1, 5, False),
    "floor_divide": (lambda a, b: a // b, -20, 20, 1, 5, False),
    "modulo": (remainder, -20, 20, 1, 5, False),
    "pow": (power, 0.2, 3, -2, 3, False),
    "maximum": (first_of_equal(lambda b, a: b > a), -9, 9, -9, 9, False),
    "minimum": (first_of_equal(lambda b, a: b < a), -9, 9, -9, 9, False),
    "equal": (lambda a, b: a == b, -2, 2, -2, 2, True),
    "not_equal": (lambda a, b: a != b, -2, 2, -2, 2, True),
    "greater": (lambda a, b: a > b, -2, 2, -2, 2, True),
    "and": (np.logical_and, 0, 1, 0, 1, False),
    "or": (np.logical_or, 0, 1, 0, 1, False),
    "xor": (np.logical_xor, 0, 1, 0, 1, False),
    "bitwise_and": (lambda a, b: a & b, -9, 9, -9, 9, False),
    "bitwise_or": (lambda a, b: a | b, -9, 9, -9, 9, False),
    "bitwise_xor": (lambda a, b: a ^ b, -9, 9, -9, 9, False),
}
PYTHON = {"and": "and_", "or": "or_", "xor": "xor_", "pow": "pow_"}


def second_operand(rng, t, shape, op, lo, hi):
    y = sample(rng, t, shape, lo, hi)
    # Divisors of both signs, never 0.
    if op in ("divide", "floor_divide", "modulo") and (is_float(t) or t.startswith("si") or t == "c64"):
        flip = rng.random(shape) > 0.5
        y = np.where(flip, (-y.astype(np.complex64 if t == "c64" else np.float64)).astype(y.dtype), y)
    return y


def special_pairs(t, op):
    """Pairs of special floats, or of the largest and smallest integers."""
    dtype = sample(np.random.default_rng(0), t, (1,)).dtype
    if t in ("f64", "f32", "f16", "bf16"):
        if op in ("pow", "modulo", "floor_divide"):
            return [[np.array([[1, np.nan, 0], [4, -8, np.inf]]).astype(dtype), np.array([[np.nan, 0, 0], [0.5, 3, 2]]).astype(dtype)]]
        return [[np.array(SPECIAL).reshape(3, 3).astype(dtype), np.array(SPECIAL[1:] + [2.0]).reshape(3, 3).astype(dtype)]]
    if is_int(t) and op in (
        "add",
        "sub",
        "mul",
        "maximum",
        "minimum",
        "greater",
        "equal",
        "not_equal",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ):
        lo, hi = limits(t)
        return [[np.array([[hi, lo, hi], [1, 0, lo]], dtype), np.array([[1, hi, hi], [hi, lo, 1]], dtype)]]
    return []


def binary_cases(rng):
    table = allowed_types()
    for op, (numpy, lo, hi, lo2, hi2, is_truth) in BINARY.items():
        for family in ("coreai.", "coreai.decomposable.broadcasting_"):
            make = getattr(ops, PYTHON.get(op, op) if family == "coreai." else "broadcasting_" + op)
            plain = family == "coreai."
            for t in table[family + op]:
                shapes = [(s, s if plain else (1, 3) if i == 1 else (3,)) for i, s in enumerate(SHAPES)]
                calls = [[sample(rng, t, a, lo, hi), second_operand(rng, t, a if plain else (3,), op, lo2, hi2)] for a, b in shapes]
                second = (-1, 3) if plain else (3,)
                if plain:
                    calls += special_pairs(t, op)

                def expect(x, y, f=numpy, t=t, truth=is_truth):
                    a, b = np.broadcast_arrays(to_wide(x), to_wide(y))
                    if x.dtype.kind == "u" and x.dtype.itemsize == 8:
                        a, b = a.astype(object), b.astype(object)
                    return to_type(f(a, b), "i1" if truth else t)

                yield Case(f"{'' if plain else 'broadcasting_'}{op}_{t}", [(t, (-1, 3)), (t, second)], make, calls, expect)
            if not plain:
                yield from broadcast_shapes_of(rng, op, make, numpy, table[family + op], is_truth, (lo, hi, lo2, hi2))


def broadcast_shapes_of(rng, op, make, numpy, allowed, is_truth, bounds):
    """Ranks that differ, dims of 1 on either side, dims that are dynamic on both sides."""
    t = "f32" if "f32" in allowed else "i1" if allowed == ["i1"] else "si32"
    lo, hi, lo2, hi2 = bounds
    forms = {
        "outer": ((-1, 1), (1, -1), [((2, 1), (1, 5)), ((4, 1), (1, 1))]),
        "ranks": ((3,), (2, -1, 3), [((3,), (2, 4, 3)), ((3,), (2, 1, 3))]),
        "scalar": ((), (-1, 2), [((), (3, 2)), ((), (1, 2))]),
        "both": ((-1, -1), (-1, -1), [((2, 1), (1, 3)), ((1, 4), (5, 4)), ((3, 2), (3, 2))]),
        "rank5": ((2, 1, 3, 1, 2), (1, 4, 1, 2, 2), [((2, 1, 3, 1, 2), (1, 4, 1, 2, 2))]),
    }
    for name, (a, b, shapes) in forms.items():
        calls = [[sample(rng, t, x, lo, hi), second_operand(rng, t, y, op, lo2, hi2)] for x, y in shapes]

        def expect(x, y):
            return to_type(numpy(*np.broadcast_arrays(to_wide(x), to_wide(y))), "i1" if is_truth else t)

        yield Case(f"broadcasting_{op}_{t}_{name}", [(t, a), (t, b)], make, calls, expect, can_merge=False)


def where_cases(rng):
    table = allowed_types()
    for name, make in (("where", ops.where), ("broadcasting_where", ops.broadcasting_where)):
        plain = name == "where"
        for t in table["coreai.where" if plain else "coreai.decomposable.broadcasting_where"]:
            calls = [
                [sample(rng, "i1", s if plain else s[:1] + (1,)), sample(rng, t, s), sample(rng, t, s if plain else (3,))] for s in SHAPES
            ]
            yield Case(
                f"{name}_{t}",
                [("i1", (-1, 3) if plain else (-1, 1)), (t, (-1, 3)), (t, (-1, 3) if plain else (3,))],
                make,
                calls,
                lambda c, a, b: np.where(c, a, b).astype(a.dtype),
            )
    poison = [np.array([True, False, True]), np.array([1, np.nan, np.inf], np.float32), np.array([np.nan, 2, np.nan], np.float32)]
    yield Case("where_unselected_nan", [("i1", (3,)), ("f32", (3,)), ("f32", (3,))], ops.where, [poison], lambda c, a, b: np.where(c, a, b))


def complex_cases(rng):
    part = lambda s: sample(rng, "f32", s)
    yield Case(
        "create_complex_c64",
        [("f32", (-1, 2)), ("f32", (-1, 2))],
        ops.create_complex,
        [[part((n, 2)), part((n, 2))] for n in (3, 1)],
        lambda a, b: (a + 1j * b).astype(np.complex64),
    )
    for name, make, numpy in (("real_part", ops.real_part, np.real), ("imaginary_part", ops.imaginary_part, np.imag)):
        yield Case(
            f"{name}_c64",
            [("c64", (-1, 2))],
            make,
            [[sample(rng, "c64", (n, 2))] for n in (3, 1)],
            lambda x, f=numpy: f(x).astype(np.float32),
        )


# Every conversion there is, of values both types have: what lies outside is tested by its own cases.
CAST_VALUES = {"si2": [-2, -1, 0, 1], "ui2": [0, 1, 2, 3], "i1": [0, 1, 1, 0], "f4E2M1FN": [0.5, 1, 1.5, 6], "f8E8M0FN": [0.5, 1, 2, 64]}


def cast_value(value, source, target):
    """One number converted: floats round to nearest even, to integers they truncate and saturate; NaN becomes 0."""
    if target == "i1":
        return bool(value != 0)
    if is_int(target):
        lo, hi = limits(target)
        v = complex(value).real
        return 0 if v != v else lo if v < lo else hi if v > hi else int(v)
    return value


def cast_cases(rng):
    types = allowed_types()["coreai.cast"]
    from .element_types import NUMPY

    for source in types:
        for target in types:
            if source == target:
                continue
            values = CAST_VALUES.get(source, [0, 1, 2, 3] if source[0] == "u" else [-2, -1, 0, 3])
            if target == "f8E8M0FN":  # powers of two only
                values = [v if v > 0 and np.log2(v) % 1 == 0 else 1 for v in values]
            x = np.array(values, np.int8 if is_int(source) and source[0] == "s" else np.uint8 if is_int(source) else np.float32).astype(
                NUMPY[source]
            )

            def expect(x, s=source, t=target):
                wide = [complex(v) if s == "c64" else int(v) if is_int(s) else float(v) for v in x]
                out = [cast_value(v, s, t) for v in wide]
                out = [v.real if isinstance(v, complex) and t != "c64" else v for v in out]
                return to_type(np.array(out), t)

            yield Case(f"cast_{source}_to_{target}", [(source, (4,))], lambda x, t=target: ops.cast(x, NUMPY[t]), [[x]], expect)
    edge = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300, -300, -1, 2.5, -2.5, 0.49, -0.99], np.float32)
    for target in ("si32", "ui32", "si16", "ui16", "si8", "ui8", "i1"):
        yield Case(
            f"cast_edges_f32_to_{target}",
            [("f32", (12,))],
            lambda x, t=target: ops.cast(x, NUMPY[t]),
            [[edge]],
            lambda x, t=target: np.array([cast_value(float(v), "f32", t) for v in x]).astype(NUMPY[t]),
        )
    wide = np.array([300, -300, 70000, -70000, -5, 2147483647], np.int32)
    for target in ("ui32", "si16", "ui16", "si8", "ui8", "si4", "ui4", "f16", "f64"):
        yield Case(
            f"cast_edges_si32_to_{target}",
            [("si32", (6,))],
            lambda x, t=target: ops.cast(x, NUMPY[t]),
            [[wide]],
            lambda x, t=target: to_type(np.array([cast_value(int(v), "si32", t) for v in x]), t),
        )


def cases(rng):
    for make in (unary_cases, binary_cases, where_cases, complex_cases, cast_cases):
        yield from make(rng)
