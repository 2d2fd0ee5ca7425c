#!/usr/bin/env python3
"""Writes an asset that holds at least one of every attribute and type record, with random content.

    make_records.py SHARED OUT.aimodel [SEED]

The operations are of the kind `serialization.opaque`, which carries any attributes. Records of the builtin dialect and
text entries are put in by rewriting the tables of a finished file.
"""
import os
import random
import sys


def load_tools(shared):
    sys.path.insert(0, os.path.join(shared, 'tools'))
    import decode
    import encode_min
    return decode, encode_min


class Maker:
    def __init__(self, D, E, seed):
        self.D, self.E, self.w, self.rng = D, E, E.Writer(), random.Random(seed)
        w = self.w
        self.attrs = [w.string('leaf'), w.unit(), w.integer(7, 32)]
        self.types = [w.scalar(n) for n in E.T_SCALAR]
        self.builtin, self.text = [], []

    def word(self):
        return self.rng.choice(['', 'x', 'a b', 'quote"back\\', 'tab\t\n', '\u00e9\u4e2d', 'name_%d' % self.rng.randrange(50)])

    def number(self):
        return self.rng.choice([0, 1, 2, 3, 5, 16, 255, 300, 70000, 1 << 40, (1 << 64) - 1])

    def signed(self):
        return self.rng.choice([0, 1, -1, 63, -64, 64, 1 << 40, -(1 << 63), (1 << 63) - 1])

    def several(self, make):
        return [make() for _ in range(self.rng.choice([0, 1, 1, 2, 3]))]

    def enum(self, kind):
        tables = {k: t for k, (_, t) in self.D.ENUM.items()}
        tables.update(sparse=self.D.SCHEME, hw_constraints=self.D.BACKING, image_constraints=self.D.IMGBACK)
        return self.rng.choice(list(tables[kind])) if kind in tables and self.rng.random() < 0.9 else self.number()

    def field(self, kind, name, reader):
        D, E = self.D, self.E
        attr, typ = (lambda: self.rng.choice(self.attrs)), (lambda: self.rng.choice(self.types))
        text = lambda: ('s', self.word())
        signed = lambda: E.svi(self.signed())
        as_list = lambda items: [len(items), *items]
        special = {'tag': D.TAG, 'encoding': D.DWENC}
        if reader is D._u:
            if name in special:
                return [self.rng.choice(list(special[name]) + [99])]
            if name == 'flags' and kind != 'di_cu':
                return [self.rng.choice([0, 1, 4, 8, 12, 256, 2048 + 16, 1 << 20, 1 << 30])]
            return [self.enum(kind) if name in ('value', 'scheme', 'backing') else self.number()]
        simple = {D._a: lambda: [attr()], D._t: lambda: [typ()], D._s: lambda: [text()], D._i: lambda: [signed()],
                  D._b: lambda: [bytes([self.rng.choice([0, 1])])], D._al: lambda: as_list(self.several(attr)),
                  D._tl: lambda: as_list(self.several(typ)), D._sl: lambda: as_list(self.several(text)),
                  D._ul: lambda: as_list(self.several(self.number)), D._il: lambda: as_list(self.several(signed)),
                  D._res: lambda: [self.resource()], 'opt_u': lambda: self.rng.choice([[b'\0'], [b'\1', self.number()]])}
        if reader in simple:
            return simple[reader]()
        assert reader is D._blob
        data = self.rng.randbytes(self.rng.choice([0, 1, 2, 3, 63, 64, 65, 100]))
        return [len(data), data]

    def resource(self):
        key = 'resource_%d' % self.rng.randrange(4)
        self.w.res.setdefault(key, (self.rng.randbytes(self.rng.randrange(40)), self.rng.choice([1, 16])))
        return ('r', key)

    def integer(self):
        width = self.rng.choice([0, 1, 2, 7, 8, 9, 16, 31, 32, 33, 63, 64, 65, 100, 128, 200, 1000])
        value = self.rng.choice([0, 1, (1 << width) - 1, 1 << max(width - 1, 0), self.rng.getrandbits(width) if width else 0])
        value &= (1 << width) - 1
        zigzag = lambda v: self.E.svi(v - (1 << 64) if v >> 63 else v)
        if width <= 8:
            body = bytes([value])
        elif width < 64:
            body = self.E.svi(value)
        elif width == 64:
            body = zigzag(value)
        else:
            n = (width + 63) // 64
            body = self.E.vi(n) + b''.join(zigzag(value >> 64 * k & (1 << 64) - 1) for k in range(n))
        return self.w.A(2, width, bytes([self.rng.choice([0, 1])]), body)

    def floating(self):
        width = self.rng.choice([16, 32, 64])
        e, m = {16: (5, 10), 32: (8, 23), 64: (11, 52)}[width]
        exponent = self.rng.choice([0, 1, (1 << e) - 1, (1 << e - 1) - 1, self.rng.getrandbits(e)])
        bits = self.rng.getrandbits(1) << width - 1 | exponent << m | self.rng.choice([0, 1 << m - 1, self.rng.getrandbits(m)])
        body = self.E.svi(bits if width < 64 or not bits >> 63 else bits - (1 << 64))
        return self.w.A(3, width, body)

    def record(self, code, is_type):
        kind, fields = (self.D.TYPE if is_type else self.D.ATTR)[code]
        if callable(fields):
            return self.integer() if code == 2 else self.floating()
        parts = [code]
        for name, reader in fields:
            parts += self.field(kind, name, reader)
        return self.w.T(*parts) if is_type else self.w.A(*parts)

    def builtin_entry(self, code):
        s = lambda: ('s', self.word())
        a = lambda: self.rng.choice(self.attrs)
        name = self.builtin_string or self.w.A(2, s())
        self.builtin_string = name
        parts = {0: [2, a(), a()], 1: [1, name, a()], 2: [s()], 3: [s(), self.types[0]], 4: [name], 6: [self.rng.choice(self.types)], 7: [],
                 11: [name, 12, 34], 14: [name, a()], 15: []}[code]
        return self.w.A(code, *parts, b'')  # the empty part keeps it apart from an equal record of the main dialect

    def make(self):
        w, E = self.w, self.E
        w.defloc = w.loc(w.src(w.file('-')), w.unit())
        codes = [(c, False) for c in self.D.ATTR] + [(c, True) for c in self.D.TYPE]
        self.rng.shuffle(codes)
        made = []
        for code, is_type in codes + codes:
            r = self.record(code, is_type)
            (self.types if is_type else self.attrs).append(r)
            made.append(w.typeattr(r) if is_type else r)
        self.builtin_string = None
        for code in (2, 0, 1, 3, 4, 6, 7, 11, 14, 15):
            r = self.builtin_entry(code)
            self.builtin += [x for x in (self.builtin_string, r) if x not in self.builtin]
            made.append(r)
        for text in ('#aicode.unit_v1', '#other.thing<1 : "x">'):
            r = w.A(b'text', text.encode() + b'\0')
            self.text.append(r)
            made.append(r)
        props = lambda attrs: [E.req(w.array(attrs)), E.req(w.string('any'))]
        op = lambda attrs: E.Op('serialization.opaque', props=props(attrs), loc=self.rng.choice(self.attrs))
        ops = [op(made[i:i + 8]) for i in range(0, len(made), 8)]
        w.string('builtin')
        asset = E.Op('serialization.asset', props=[E.opt(None), E.opt(w.integer(20260409, 32))], regions=[[([], ops)]], isolated=True)
        return self.rewrite(w.write(asset))

    def rewrite(self, data):
        """Moves the builtin entries to their dialect and makes the text entries plain, by rewriting sections 1, 2 and 3."""
        D, E = self.D, self.E
        r = D.R(memoryview(data), 4)
        version, producer = r.vi(), r.cstr()
        sections = []
        while r.p < r.e:
            sid, p, n = D.read_section(r)
            sections.append((sid, data[p:p + n]))
        body = dict(sections)
        strings = self.w.strs
        dialects = D.R(memoryview(body[1]))
        dialects.vi()
        head_end = dialects.p
        dialects.vi()
        D.read_section(dialects)
        first = body[1][head_end:dialects.p]
        new_dialects = E.vi(3) + first + E.vi(strings['builtin'] << 1) + E.vi(strings['name_1'] << 1) if 'name_1' in strings else \
            E.vi(2) + first + E.vi(strings['builtin'] << 1)
        new_dialects += body[1][dialects.p:]
        table = D.R(memoryview(body[3]))
        n_attrs, n_types = table.vi(), table.vi()
        sizes = []
        while table.p < table.e:
            table.vi()
            sizes += [table.vi() >> 1 for _ in range(table.vi())]
        builtin, text = {x.idx for x in self.builtin}, {x.idx for x in self.text}
        offsets, records, at = E.vi(n_attrs) + E.vi(n_types), b'', 0
        for i, size in enumerate(sizes):
            record = body[2][at:at + size]
            at += size
            if i in text:
                record = record[len(b'text'):]
            offsets += E.vi(1 if i in builtin else 0) + E.vi(1) + E.vi(len(record) << 1 | (i not in text))
            records += record
        body[1], body[2], body[3] = new_dialects, records, offsets
        out = b'ML\xefR' + E.vi(version) + producer.encode() + b'\0'
        for sid, _ in sections:
            out += E.Writer.sec(sid, body[sid], 16 if sid == 5 and self.w.res else 0, len(out))
        return out


def main(argv):
    D, E = load_tools(argv[1])
    seed = int(argv[3]) if len(argv) > 3 else 1
    E.write_asset(argv[2], Maker(D, E, seed).make(),
                  {'assetVersion': '2.0', 'creationDate': '20260101T000000Z', 'producer': 'cairn tests'})


if __name__ == '__main__':
    main(sys.argv)
