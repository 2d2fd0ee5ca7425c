#!/usr/bin/env python3
"""Makes assets that must be refused while loading, each for one reason: tests/data/refused/attributes/NAME.aimodel.

    make_refused_cases.py --tools FOLDER --out FOLDER

FOLDER of --tools holds encode_min.py. src/execute/refused_test.c knows what each asset must be told.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_op_cases import Graph, region_of

BIG = 1 << 40


class Raw(Graph):
    """Graph whose types and constants need not be possible."""

    def typed(self, elem, shape):
        return self.w.tensor(list(shape), elem)

    def raw(self, elem, shape, data, splat=False):
        (v,) = self.op("primitive.constant_v1", [], [], [self.em.req(self.w.dense(data, splat))], types=[self.typed(elem, shape)])
        return v

    def numbers(self, elem, numpy_type, values):
        return self.raw(elem, [len(values)], np.array(values, numpy_type).tobytes())

    def give(self, value):
        value.np, value.elem = np.zeros(1, np.float32), "f32"
        self.output("y", value)


def one_op(name, operands, out_shape, out_elem="f32", props=None, regions=(), n_out=1):
    def build(g):
        x = g.input("x", "f32", np.zeros((2, 3)))
        values = operands(g, x)
        results = g.op(name, values, [], props(g) if props else None, regions(g) if regions else (), types=[g.typed(out_elem, out_shape)] * n_out)
        g.give(results[0])
    return build


def constant(shape, data, splat=False, elem="f32"):
    return lambda g: g.give(g.raw(elem, shape, data, splat))


DYN = -2**63
CASES = {
    "huge_constant": constant([BIG, BIG], bytes(8)),
    "long_constant": constant([BIG], bytes(8)),
    "overflowing_splat": constant([BIG, BIG, 4], bytes(4), True),
    "negative_constant": constant([-5], bytes(4), True),
    "short_bits": constant([17], bytes(2), False, "ui1"),
    "overflowing_tile": one_op("tile_v2", lambda g, x: [x, g.numbers("ui64", np.uint64, [1 << 62, 1 << 40])], [DYN, DYN],
                               regions=lambda g: [[([], [g.em.Op("dataflow.yield_v1", [], [])])]]),
    "overflowing_pad": one_op("primitive.pad_v1", lambda g, x: [x, g.numbers("ui64", np.uint64, [(1 << 63) - 2, 9, 0, 0]), g.constant("f32", 0)],
                              [DYN, DYN], props=lambda g: [g.em.req(g.w.A(17, 1))]),
    "overflowing_reshape": one_op("primitive.reshape_v2", lambda g, x: [x, g.numbers("si64", np.int64, [BIG, BIG, -1])], [DYN] * 3),
    "negative_reshape": one_op("primitive.reshape_v2", lambda g, x: [x, g.numbers("si64", np.int64, [-2, 3])], [DYN] * 2),
    "overflowing_broadcast": one_op("primitive.broadcast_to_v1", lambda g, x: [x, g.numbers("si64", np.int64, [BIG, BIG, 2, 3])], [DYN] * 4),
    "negative_split": one_op("primitive.split_v1", lambda g, x: [x, g.numbers("si32", np.int32, [-1, 3]), g.constant("si32", 0)], [DYN, 3],
                             n_out=2),
    "overflowing_split": one_op("primitive.split_v1",
                                lambda g, x: [x, g.numbers("si64", np.int64, [(1 << 63) - 1, (1 << 63) - 1]), g.constant("si32", 0)], [DYN, 3],
                                n_out=2),
    "split_of_nothing": one_op("primitive.split_v1", lambda g, x: [x, g.constant("si32", 0), g.constant("si32", 0)], [DYN, 3], n_out=2),
    "axis_outside": one_op("softmax_v1", lambda g, x: [x, g.constant("si32", 2)], [2, 3],
                           regions=lambda g: [[([], [g.em.Op("dataflow.yield_v1", [], [])])]]),
    "step_of_zero": one_op("primitive.slice_v1", lambda g, x: [x, g.numbers("si32", np.int32, [0, 0]), g.numbers("si32", np.int32, [2, 3]),
                                                                g.numbers("si32", np.int32, [1, 0])], [DYN, DYN]),
    "wrong_result_size": one_op("primitive.add_v1", lambda g, x: [x, x], [2, 4]),
    "wrong_result_type": one_op("primitive.add_v1", lambda g, x: [x, x], [2, 3], "f16"),
    "combining_scatter": one_op("primitive.scatter_nd_v1", lambda g, x: [x, g.raw("si32", [1, 1], bytes(4)), g.raw("f32", [1, 3], bytes(12))],
                                [2, 3], regions=lambda g: region_of(g, "f32", "f32", lambda p, q, op: op("primitive.add_v1", [p, q]))),
    "scatter_of_the_old": one_op("primitive.scatter_nd_v1", lambda g, x: [x, g.raw("si32", [1, 1], bytes(4)), g.raw("f32", [1, 3], bytes(12))],
                                 [2, 3], regions=lambda g: region_of(g, "f32", "f32", lambda p, q, op: p)),
    "unknown_padding": one_op("primitive.pad_v1", lambda g, x: [x, g.numbers("ui32", np.uint32, [0, 0, 0, 0]), g.constant("f32", 0)], [2, 3],
                              props=lambda g: [g.em.req(g.w.A(17, 9))]),
    "huge_window": one_op("primitive.sum_pool_2d_v1",
                          lambda g, x: [g.raw("f32", [1, 1, 2, 3], bytes(24)), g.numbers("ui64", np.uint64, [1 << 62, 1 << 62]),
                                        g.numbers("ui32", np.uint32, [1, 1]), g.numbers("ui64", np.uint64, [1 << 62, 4])], [1, 1, DYN, DYN]),
}


def big_input(g):
    x = g.input("x", "f32", np.zeros(1))
    x.type = g.typed("f32", [BIG, BIG])
    g.give(x)


def big_image(g):
    x = g.input("x", "ui8", np.zeros(1))
    x.type = g.w.T(39, g.w.A(27, 32), (1 << 31) - 1, (1 << 31) - 1)
    g.give(x)


CASES["huge_input"] = big_input
CASES["huge_image"] = big_image


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tools", required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    sys.path.insert(0, args.tools)
    import encode_min
    for name, build in CASES.items():
        g = Raw(encode_min)
        build(g)
        path = os.path.join(args.out, name + ".aimodel")
        os.makedirs(path, exist_ok=True)
        g.write_asset(path)


if __name__ == "__main__":
    main()
