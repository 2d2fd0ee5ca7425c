"""Element types: their names in the format, NumPy's types for them, sample values, and the tolerance results are held to."""

import os

import ml_dtypes
import numpy as np

NUMPY = {
    "i1": np.bool_,
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E8M0FN": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "si64": np.int64,
    "si32": np.int32,
    "si16": np.int16,
    "si8": np.int8,
    "si4": ml_dtypes.int4,
    "si2": ml_dtypes.int2,
    "ui64": np.uint64,
    "ui32": np.uint32,
    "ui16": np.uint16,
    "ui8": np.uint8,
    "ui4": ml_dtypes.uint4,
    "ui2": ml_dtypes.uint2,
    "c64": np.complex64,
}
NAME = {np.dtype(t): n for n, t in NUMPY.items()}
GROUPS = {
    "F": ["f64", "f32", "f16", "bf16"],
    "F8": ["f8E5M2", "f8E4M3FN"],
    "S": ["si64", "si32", "si16", "si8"],
    "U": ["ui64", "ui32", "ui16", "ui8"],
    "Q": ["si4", "si2", "ui4", "ui2"],
}
# (rtol, atol) of results; integers are always compared exactly. The 8-bit floats get one unit in the last place.
TOLERANCE = {
    "f64": (1e-9, 1e-12),
    "f32": (1e-4, 1e-5),
    "f16": (4e-3, 2e-3),
    "bf16": (2e-2, 1e-2),
    "f8E5M2": (0.26, 0.01),
    "f8E4M3FN": (0.13, 0.01),
    "f8E8M0FN": (0, 0),
    "f4E2M1FN": (0, 0),
    "c64": (1e-4, 1e-5),
}
BITS = {
    "si64": 64,
    "si32": 32,
    "si16": 16,
    "si8": 8,
    "si4": 4,
    "si2": 2,
    "ui64": 64,
    "ui32": 32,
    "ui16": 16,
    "ui8": 8,
    "ui6": 6,
    "ui4": 4,
    "ui3": 3,
    "ui2": 2,
    "ui1": 1,
}


def is_float(t):
    return t[0] in "fb"


def is_int(t):
    return t[:2] in ("si", "ui")


def limits(t):
    """Smallest and largest value of an integer type."""
    bits = BITS[t]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t.startswith("si") else (0, (1 << bits) - 1)


def name_of(array):
    return NAME[np.asarray(array).dtype]


def tolerance_of(t):
    return TOLERANCE.get(t, (0, 0))


def allowed_types():
    """operation -> the element types the format's verifier lets its data operand have (tests/golden/op_types.txt)."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    table = {}
    for line in open(os.path.join(here, "tests/golden/op_types.txt")):
        if line.strip() and not line.startswith("#"):
            name, _, *groups = line.split()
            table[name] = [t for g in groups for t in GROUPS.get(g, [g])]
    return table


def to_wide(array):
    """The value to compute expected results with: f64, complex128, or Python-sized integers that cannot overflow."""
    a = np.asarray(array)
    t = NAME[a.dtype]
    if t == "c64":
        return a.astype(np.complex128)
    if t == "i1":
        return a
    return a.astype(np.float64) if is_float(t) else a.astype(np.int64 if t != "ui64" else object)


def to_type(wide, t):
    """Rounds or wraps an expected result to its element type."""
    a = np.asarray(wide)
    if t == "i1" or t == "c64" or t == "f64":
        return a.astype(NUMPY[t])
    if is_float(t):
        with np.errstate(all="ignore"):
            return a.astype(np.float64).astype(NUMPY[t])
    lo, hi = limits(t)
    span = hi - lo + 1
    wrapped = np.asarray([(int(v) - lo) % span + lo for v in a.reshape(-1)], dtype=object).reshape(a.shape)
    if BITS[t] < 8:
        return wrapped.astype(np.int8 if lo else np.uint8).astype(NUMPY[t])
    return wrapped.astype(NUMPY[t])


def sample(rng, t, shape, lo=-3.0, hi=3.0):
    """Random values between lo and hi; integers are spread over the part of that range which their type has."""
    shape = tuple(shape)
    if t == "i1":
        return rng.random(shape) > 0.5
    if t == "c64":
        return (rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)).astype(np.complex64)
    if is_int(t):
        a, b = limits(t)
        low, high = max(a, int(np.ceil(lo))), min(b, int(np.floor(hi)))
        wide = rng.integers(low, max(low, high) + 1, shape)
        return wide.astype(np.int8 if t in ("si4", "si2") else np.uint8).astype(NUMPY[t]) if BITS[t] < 8 else wide.astype(NUMPY[t])
    return np.asarray(rng.uniform(lo, hi, shape)).astype(NUMPY[t])
