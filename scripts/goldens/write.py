"""Writes the files of a golden case beside its asset: golden.safetensors and manifest.json."""

import json
import os
import struct

import numpy as np

from . import element_types as types

STORED = {
    "i1": "BOOL",
    "f64": "F64",
    "f32": "F32",
    "f16": "F16",
    "bf16": "BF16",
    "f8E5M2": "F8_E5M2",
    "f8E4M3FN": "F8_E4M3",
    "f8E8M0FN": "F8_E8M0",
    "si64": "I64",
    "si32": "I32",
    "si16": "I16",
    "si8": "I8",
    "ui64": "U64",
    "ui32": "U32",
    "ui16": "U16",
    "ui8": "U8",
}
LABEL = {"i1": "bool", "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "c64": "complex64"}


def stored_form(array):
    """Type name and bytes in the file: types it lacks take a wider one, complex numbers pairs of f32."""
    a = np.ascontiguousarray(array).reshape(np.shape(array))
    t = types.name_of(a)
    if t == "c64":
        a = np.stack([a.real, a.imag], -1).astype(np.float32)
        t = "f32"
    elif t == "f4E2M1FN":
        a, t = a.astype(np.float32), "f32"
    elif types.is_int(t) and types.BITS[t] < 8:
        t = "si8" if t[0] == "s" else "ui8"
        a = a.astype(types.NUMPY[t])
    return STORED[t], list(a.shape), a.tobytes()


def write_safetensors(path, arrays):
    header, blob = {}, b""
    for name, array in arrays.items():
        dtype, shape, data = stored_form(array)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)


def describe(name, key, array):
    t = types.name_of(array)
    return {"name": name, "key": key, "dtype": LABEL.get(t, t), "shape": list(np.shape(array))}


def write_case(folder, case, calls, source, function="main", tolerance=None):
    """
    Writes manifest and values of a case whose asset is (or will be) folder/model.aimodel.

    calls: a list of {"inputs": {name: array}, "outputs": {...}, "states_in": {...}, "states_out": {...}} (and "function"
    for a call of another function than the case's); states of a call
    without states_in are those the last call left. tolerance: (rtol, atol), a list of those (outputs, then states), or
    None for that of each result's type; a call's own "tolerances" win.
    """
    arrays, entries = {}, []
    for index, call in enumerate(calls):
        entry, n_out = {"index": index, **({"function": call["function"]} if "function" in call else {})}, 0
        own = call.get("tolerances", tolerance)
        for kind in ("inputs", "states_in", "outputs", "states_out"):
            entry[kind] = []
            for i, (name, array) in enumerate(call.get(kind, {}).items()):
                key = f"c{index}_{kind}{i}"
                arrays[key] = array
                row = describe(name, key, array)
                if "out" in kind:
                    bound = own[n_out] if isinstance(own, list) else own
                    row["tolerance"] = [float(f"{v:.4g}") for v in bound or types.tolerance_of(types.name_of(array))]
                    n_out += 1
                entry[kind].append(row)
        entries.append(entry)
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, "golden.safetensors"), arrays)
    manifest = {
        "format": 1,
        "id": f"cairn::{case}",
        "case": case,
        "function": function,
        "expected_source": source,
        "tolerance": {"rtol": 1e-4, "atol": 1e-5},
        "calls": entries,
    }
    with open(os.path.join(folder, "manifest.json"), "w") as f:
        json.dump(manifest, f, separators=(",", ":"))
