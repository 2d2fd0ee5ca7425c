"""safetensors files with the standard library only: small arrays as nested-free lists of Python numbers.

An array is (dtype, shape, values): dtype is the format's name ("F32", "I32", ...), values a flat list. F16 and BF16 values
are floats; BOOL values are True/False.
"""

import json
import struct

_CODES = {
    "F64": "d",
    "F32": "f",
    "F16": "e",
    "I64": "q",
    "I32": "i",
    "I16": "h",
    "I8": "b",
    "U64": "Q",
    "U32": "I",
    "U16": "H",
    "U8": "B",
    "BOOL": "?",
}


def _pack(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), _CODES.get(dtype, "B")), *values)  # float8 types stay bytes


def _unpack(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    code = _CODES.get(dtype, "B")  # float8 types stay bytes
    return list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(code), code), data))


def save(path, arrays):
    """Writes {name: (dtype, shape, values)}."""
    header, blobs, at = {}, [], 0
    for name, (dtype, shape, values) in arrays.items():
        blob = _pack(dtype, values)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load(path):
    """Reads {name: (dtype, shape, values)}."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    out = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        out[name] = (info["dtype"], info["shape"], _unpack(info["dtype"], data[8 + n + begin : 8 + n + end]))
    return out
