#!/usr/bin/env python3
"""Writes data/types.aimodel: one function per element type, which gives back its input of that type.

    make_types.py SHARED OUT.aimodel    SHARED holds tools/encode_min.py

It shows how cairn run carries types that files cannot hold as they are: sub-byte integers, complex numbers, float4.
"""

import os
import sys

TYPES = {
    "bool": 4,
    "float64": 5,
    "bfloat16": 8,
    "float8_e5m2": 9,
    "float8_e4m3fn": 10,
    "complex128": 11,
    "complex64": 12,
    "complex32": 13,
    "complex_bfloat16": 14,
    "complex_float8_e5m2": 15,
    "int64": 17,
    "int4": 21,
    "int2": 22,
    "uint64": 23,
    "uint32": 24,
    "uint16": 25,
    "uint4": 27,
    "uint2": 28,
    "uint1": 29,
    "uint6": 36,
    "uint3": 37,
    "tfloat32": 38,
    "float4_e2m1fn": 46,
    "float8_e8m0fnu": 47,
}


def main(argv):
    sys.path.insert(0, os.path.join(argv[1], "tools"))
    import encode_min as E

    w = E.Writer()
    w.defloc = w.loc(w.src(w.file("-")), w.unit())
    flag, names = w.integer(0, 1), lambda n: w.array([w.array([w.opaque("coreai.name", [w.string(n)])])])
    graphs = []
    for name, code in TYPES.items():
        t = w.T(2, 2, E.svi(E.DYN), E.svi(2), w.T(code))
        x = E.Value(t)
        graphs.append(
            E.Op(
                "dataflow.graph_v1",
                props=[
                    E.req(names("x")),
                    E.opt(None),
                    E.req(flag),
                    E.req(w.typeattr(w.function([t], [t]))),
                    E.req(flag),
                    E.req(w.string(name)),
                    E.req(flag),
                    E.req(w.array([])),
                    E.req(names("y")),
                ],
                regions=[[([x], [E.Op("dataflow.output_v1", [x])])]],
                isolated=True,
            )
        )
    asset = E.Op(
        "serialization.asset",
        props=[E.opt(w.string("made by hand")), E.opt(w.integer(20260409, 32))],
        regions=[[([], graphs)]],
        isolated=True,
    )
    E.write_asset(
        argv[2], w.write(asset), {"assetVersion": "2.1", "creationDate": "20260101T000000Z", "producer": "cairn tests"}
    )


if __name__ == "__main__":
    main(sys.argv)
