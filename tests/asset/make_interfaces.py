#!/usr/bin/env python3
"""Writes an asset whose functions show every form of interface.

    make_interfaces.py SHARED OUT.aimodel
    make_interfaces.py SHARED OUT.aimodel rank        one function of rank 40, which is too many
    make_interfaces.py SHARED OUT.aimodel body        a function type with far more values than the body of its graph

Graphs: `plain`; `unnamed` (no names at all, named by position); `cache` (a state with an interleaved layout, the older key
of names); `picture` (an image); `inline` (regions not isolated); `scope.inner.nested` (inside of namespaces); and three that
are not offered: private, external and the body of a composite.
"""
import os
import sys


class Maker:
    def __init__(self, E):
        self.E, self.w = E, E.Writer()
        self.w.defloc = self.w.loc(self.w.src(self.w.file('-')), self.w.unit())

    def names(self, names, key='aicode.name'):
        w = self.w
        return w.array([w.array([w.opaque(key, [w.string(n)])]) for n in names])

    def graph(self, name, inputs, outputs, arg_attrs, res_attrs, private=0, external=0, composite=None, isolated=True,
              values=None):
        """A graph that returns its first arguments, which have the types of its results."""
        w, E = self.w, self.E
        values = [E.Value(t) for t in inputs] if values is None else values
        flag = lambda v: w.integer(v, 1)
        return E.Op('dataflow.graph_v1', props=[
            E.req(arg_attrs), E.opt(composite), E.req(flag(external)), E.req(w.typeattr(w.function(inputs, outputs))), E.req(flag(private)),
            E.req(w.string(name)), E.req(flag(0)), E.req(w.array([])), E.req(res_attrs)],
            regions=[[(values, [E.Op('dataflow.output_v1', values[:len(outputs)])])]], isolated=isolated)

    def cache(self):
        w, E = self.w, self.E
        constraints = w.A(12, 4, *[E.svi(v) for v in (1, 1, 64, 1)], 3, *[E.svi(v) for v in (1, 8, 1)], 1)
        tensor = w.T(3, 3, E.svi(2), E.svi(16), E.svi(E.DYN), w.scalar('f16'), constraints)
        handle, token, step = w.handle(tensor), w.scalar('token'), w.tensor([1], 'si32')
        x, state = E.Value(step), E.Value(handle)
        root = E.Op('dataflow.create_token_v1', [], [token])
        read = E.Op('dataflow.read_handle_v1', [state, root.results[0]], [tensor, token])
        write = E.Op('dataflow.write_handle_v1', [state, read.results[0], read.results[1]], [token])
        end = E.Op('dataflow.output_v1', [write.results[0], x])
        flag = w.integer(0, 1)
        return E.Op('dataflow.graph_v1', props=[
            E.req(self.names(['kv', 'step'], 'coreai.name')), E.opt(None), E.req(flag),
            E.req(w.typeattr(w.function([handle, step], [token, step]))), E.req(flag), E.req(w.string('cache')), E.req(flag),
            E.req(w.array([])), E.req(self.names(['kv', 'next'], 'coreai.name'))],
            regions=[[([state, x], [root, read, write, end])]], isolated=True)

    def namespace(self, name, ops):
        w, E = self.w, self.E
        return E.Op('dataflow.namespace_v1', props=[E.req(w.string(name)), E.req(w.array([]))], regions=[[([], ops)]], isolated=True)

    def refused(self, kind):
        w, E = self.w, self.E
        if kind == 'rank':
            t = w.tensor([1] * 40, 'f32')
            return self.asset([self.graph('deep', [t], [t], self.names(['big']), self.names(['y']))])
        t = w.tensor([], 'f32')
        return self.asset([self.graph('empty', [t] * 200, [], w.array([]), w.array([]), values=[])])

    def asset(self, graphs):
        w, E = self.w, self.E
        return w.write(E.Op('serialization.asset', props=[E.opt(w.string('made by hand')), E.opt(w.integer(20260409, 32))],
                            regions=[[([], graphs)]], isolated=True))

    def make(self):
        w, E = self.w, self.E
        t = w.tensor([E.DYN, 3], 'f32')
        none = w.array([])
        image = w.T(39, w.A(27, 0x42475241), 480, 640)
        ui8 = w.tensor([480, 640, 4], 'ui8')
        graphs = [
            self.graph('plain', [t, w.tensor([], 'bool')], [t], self.names(['x', 'flag']), self.names(['y'])),
            self.graph('unnamed', [t, t], [t, t], none, none),
            self.cache(),
            self.graph('picture', [ui8, image], [ui8], self.names(['pixels', 'image']), self.names(['out'])),
            self.graph('hidden', [t], [t], self.names(['x']), self.names(['y']), private=1),
            self.graph('declared', [t], [t], self.names(['x']), self.names(['y']), external=1),
            self.graph('helper', [t], [t], self.names(['x']), self.names(['y']), composite=w.opaque('rope', [w.string('v')])),
            self.graph('inline', [t], [t], self.names(['x']), self.names(['y']), isolated=False),
            self.namespace('scope', [self.namespace('inner', [self.graph('nested', [t], [t], self.names(['x']), self.names(['y']))])]),
        ]
        return self.asset(graphs)


def main(argv):
    sys.path.insert(0, os.path.join(argv[1], 'tools'))
    import encode_min as E
    maker = Maker(E)
    data = maker.refused(argv[3]) if argv[3:] else maker.make()
    E.write_asset(argv[2], data, {'assetVersion': '2.1', 'creationDate': '20260101T000000Z', 'producer': 'cairn tests'})


if __name__ == '__main__':
    main(sys.argv)
