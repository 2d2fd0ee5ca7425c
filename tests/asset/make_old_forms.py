#!/usr/bin/env python3
"""Writes tiny assets with the superseded forms of operations, which a loader has to bring up to date.

    make_old_forms.py SHARED OUT_FOLDER

Every function is called main, takes x and gives y; all other operands are constants.
"""
import os
import struct
import sys

CREATED = {'assetVersion': '2.0', 'creationDate': '20260101T000000Z', 'producer': 'cairn tests'}


class Graph:
    """One function with one input x and one output y around one operation."""

    def __init__(self, E):
        self.E, self.w, self.ops = E, E.Writer(), []
        self.w.defloc = self.w.loc(self.w.src(self.w.file('-')), self.w.unit())

    def add(self, op):
        self.ops.append(op)
        return op.results[0]

    def constant(self, shape, elem, data):
        w, E = self.w, self.E
        value = w.dense(data, splat=len(shape) == 0)
        return self.add(E.Op('primitive.constant_v1', [], [w.tensor(shape, elem)], [E.req(value)]))

    def body(self):
        """The smallest decomposition body that loaders accept: it ends at once."""
        return [[([], [self.E.Op('dataflow.yield_v1')])]]

    def asset(self, x_type, make, y_type, has_body=False):
        w, E = self.w, self.E
        x = E.Value(x_type)
        name, operands = make(x)
        y = self.add(E.Op(name, operands, [y_type], regions=self.body() if has_body else (), isolated=has_body))
        self.ops.append(E.Op('dataflow.output_v1', [y]))
        names = lambda n: w.array([w.array([w.opaque('aicode.name', [w.string(n)])])])
        no = w.integer(0, 1)
        graph = E.Op('dataflow.graph_v1', props=[
            E.req(names('x')), E.opt(None), E.req(no), E.req(w.typeattr(w.function([x_type], [y_type]))), E.req(no),
            E.req(w.string('main')), E.req(no), E.req(w.array([])), E.req(names('y'))],
            regions=[[([x], self.ops)]], isolated=True)
        top = E.Op('serialization.asset', props=[E.opt(None), E.opt(w.integer(20250819, 32))], regions=[[([], [graph])]], isolated=True)
        return w.write(top)


def old_forms(E):
    f32, i32 = lambda *v: struct.pack('<%df' % len(v), *v), lambda *v: struct.pack('<%di' % len(v), *v)
    i8 = lambda *v: struct.pack('<%db' % len(v), *v)

    g = Graph(E)
    t = g.w.tensor
    yield 'get_shape_v1', g.asset(t([E.DYN, 3], 'f32'), lambda x: ('primitive.get_shape_v1', [x]), t([2], 'si32'))
    g = Graph(E)
    t = g.w.tensor
    yield 'reshape_v1', g.asset(
        t([2, 6], 'f32'), lambda x: ('primitive.reshape_v1', [x, g.constant([2], 'ui32', i32(3, 4))]), t([3, 4], 'f32'))
    g = Graph(E)
    t = g.w.tensor
    yield 'tile_v1', g.asset(t([2, 3], 'f32'), lambda x: ('tile_v1', [x, g.constant([2], 'si32', i32(2, 1))]), t([4, 3], 'f32'), True)
    g = Graph(E)
    t = g.w.tensor
    yield 'dequantize_v1', g.asset(
        t([2, 3], 'si8'), lambda x: ('dequantize_v1', [x, g.constant([3], 'f32', f32(0.5, 0.25, 2)), g.constant([3], 'si8', i8(0, 1, -2)),
                                                       g.constant([], 'si32', i32(1))]), t([2, 3], 'f32'), True)
    g = Graph(E)
    t = g.w.tensor
    yield 'quantize_v1', g.asset(
        t([2, 3], 'f32'), lambda x: ('quantize_v1', [x, g.constant([3], 'f32', f32(0.5, 0.25, 2)), g.constant([3], 'si8', i8(0, 1, -2)),
                                                     g.constant([], 'si32', i32(1))]), t([2, 3], 'si8'), True)
    g = Graph(E)
    t = g.w.tensor
    yield 'blockwise_shift_scale_v1', g.asset(
        t([2, 4], 'si8'), lambda x: ('primitive.blockwise_shift_scale_v1', [
            x, g.constant([2, 2], 'f32', f32(0.5, 0.25, 2, -1)), g.constant([2, 2], 'si8', i8(0, 1, -2, 3))]), t([2, 4], 'f32'))


def main(argv):
    sys.path.insert(0, os.path.join(argv[1], 'tools'))
    import encode_min as E
    for name, data in old_forms(E):
        E.write_asset(os.path.join(argv[2], name + '.aimodel'), data, CREATED)


if __name__ == '__main__':
    main(sys.argv)
