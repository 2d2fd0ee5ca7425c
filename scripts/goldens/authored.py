"""Cases of single operations: graphs built through the authoring API of coreai-core, expected values from NumPy."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from coreai._compiler.dialects import coreai as ops
from coreai._compiler.ir import DenseElementsAttr, DenseResourceElementsAttr, FloatAttr, IntegerType, RankedTensorType
from coreai.authoring import AIProgram, Module, TensorType

from . import element_types as types
from . import write


@dataclass
class Case:
    """
    One graph and its calls.

    inputs: (element type, dims with -1 for a dynamic one) of each argument. build(*values) makes the results inside the
    graph. calls: the arguments of each call. expect(*arrays) gives the expected results of a call, one array each.
    """

    name: str
    inputs: list
    build: object
    calls: list
    expect: object
    tolerance: object = None  # (rtol, atol), a list of those, or None for that of each result's type
    source: str = field(default_factory=lambda: f"numpy {np.__version__}")
    can_merge: bool = True


def tensor(t, dims):
    """The IR's tensor type."""
    return TensorType(tuple(dims), types.NUMPY[t])._to_mlir_type()


def element(t):
    """The IR's element type, also of the types NumPy lacks (ui1, ui3, ui6)."""
    if t in types.NUMPY:
        return RankedTensorType(tensor(t, ())).element_type
    return IntegerType.get_unsigned(types.BITS[t])


def pack_bits(values, bits):
    """A little-endian bit stream of the lowest bits of each value."""
    flat = np.asarray(values).reshape(-1).astype(np.int64) & ((1 << bits) - 1)
    stream = ((flat[:, None] >> np.arange(bits)) & 1).astype(np.uint8)
    return np.packbits(stream.reshape(-1), bitorder="little")


def bits_constant(t, values):
    """A constant of a type below 8 bits, packed as the format stores it; values are integers (codes for f4E2M1FN)."""
    values = np.asarray(values)
    packed = pack_bits(values, 4 if t == "f4E2M1FN" else types.BITS[t])
    attr = DenseResourceElementsAttr.get_from_buffer(packed, "packed", RankedTensorType.get(list(values.shape), element(t)))
    return ops.ConstantOp(value=attr).result


def constant(array):
    a = np.asarray(array)
    t = types.name_of(a)
    if t == "f4E2M1FN" and not np.any(a.astype(np.float32)):
        zero = FloatAttr.get(element(t), 0.0)
        return ops.ConstantOp(value=DenseElementsAttr.get_splat(tensor(t, a.shape), zero)).result
    if t == "f4E2M1FN":
        return bits_constant(t, a.view(np.uint8) & 15)
    if types.BITS.get(t, 8) < 8:
        return bits_constant(t, a.astype(np.int8))
    return ops.constant(a)


def u32(*values):
    return constant(np.array(values, np.uint32))


def s32(*values):
    return constant(np.array(values, np.int32))


def scalar(t, value):
    return constant(np.array(value, types.NUMPY[t]))


def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def save_program(path, functions):
    """
    Saves an asset with the given functions: (name, input names, input types, body, output names or None).

    An input type is (element type, dims) or a function that makes one. A body receives the arguments and returns the results.
    """
    module = Module.create()
    with module:
        for name, input_names, input_types, body, output_names in functions:
            made = [t() if callable(t) else tensor(*t) for t in input_types]
            graph = ops.GraphOp(name, made, [], input_names, [])
            with graph.block:
                results = as_list(body(*graph.arguments))
            graph.outputs_spec = list(zip(output_names or [f"o{i}" for i in range(len(results))], results))
    if Path(path).exists():
        shutil.rmtree(path)
    AIProgram(module).save_asset(Path(path))
    strip_dates(path)


def strip_dates(path):
    """The date of making is not part of a case: the same generator gives the same files."""
    file = os.path.join(path, "metadata.json")
    with open(file) as f:
        meta = json.load(f)
    meta["creationDate"] = "20260101T000000Z"
    with open(file, "w") as f:
        json.dump(meta, f)


def write_authored(out, case):
    """Writes the case as a folder below out; returns its path."""
    folder = os.path.join(out, case.name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = [f"x{i}" for i in range(len(case.inputs))]
    try:
        save_program(os.path.join(folder, "model.aimodel"), [("main", names, case.inputs, case.build, None)])
        calls = []
        for arrays in case.calls:
            with np.errstate(all="ignore"):
                results = as_list(case.expect(*arrays))
            calls.append({"inputs": dict(zip(names, arrays)), "outputs": {f"o{i}": r for i, r in enumerate(results)}})
        write.write_case(folder, case.name, calls, case.source, tolerance=case.tolerance)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


def merge(name, cases):
    """One case whose graph does what the given ones do side by side: few files with everything, for the repository."""
    n_calls = max(len(c.calls) for c in cases)
    starts = np.cumsum([0] + [len(c.inputs) for c in cases])

    def build(*values):
        return [r for c, s in zip(cases, starts) for r in as_list(c.build(*values[s : s + len(c.inputs)]))]

    def expect(*arrays):
        return [r for c, s in zip(cases, starts) for r in as_list(c.expect(*arrays[s : s + len(c.inputs)]))]

    calls = [[a for c in cases for a in c.calls[min(k, len(c.calls) - 1)]] for k in range(n_calls)]
    tolerances = []
    for c in cases:
        with np.errstate(all="ignore"):
            n_results = len(as_list(c.expect(*c.calls[0])))
        tolerances += c.tolerance if isinstance(c.tolerance, list) else [c.tolerance] * n_results
    return Case(name, [i for c in cases for i in c.inputs], build, calls, expect, tolerance=tolerances)
