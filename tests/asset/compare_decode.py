#!/usr/bin/env python3
"""Compares what cairn prints of assets with the text of the reference reader, byte for byte.

    compare_decode.py PRINT_ASSET SHARED        every asset below SHARED, against SHARED/tools/decode.py
    compare_decode.py PRINT_ASSET --expected D  the assets below D, against the .txt file beside each

Exit status 77 means that the folder is absent (a skipped test).
"""
import concurrent.futures
import hashlib
import os
import subprocess
import sys

SKIPPED = 77


def run(program, flags, path):
    done = subprocess.run([program, *flags, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout if done.returncode == 0 else b'failed: ' + done.stderr


def first_difference(expected, got):
    a, b = expected.split(b'\n'), got.split(b'\n')
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return 'line %d\n  expected %r\n  got      %r' % (i + 1, x[:400], y[:400])
    return '%d lines expected, %d found' % (len(a), len(b))


def assets_below(*roots):
    found = []
    for root in roots:
        for folder, _, files in os.walk(root):
            if 'main.mlirb' in files:
                found.append(folder)
    return sorted(found)


def compare_one(job):
    program, tools, path = job
    sys.path.insert(0, tools)
    import decode
    sys.setrecursionlimit(10000)
    module = decode.Module(open(os.path.join(path, 'main.mlirb'), 'rb').read())
    problems = []
    for flags, locations, data in ((['--large-data', '--bodies'], False, True), (['--large-data', '--bodies', '--locations'], True, True),
                                   (['--bodies'], False, False)):
        for op in module.walk():  # the reference numbers values only once
            for v in op.results:
                v.id = None
            for region in op.regions:
                for block in region:
                    for v in block.args:
                        v.id = None
        expected = module.dump(locations, data).encode('utf-8', 'surrogateescape')
        got = run(program, flags, path)
        if got != expected:
            problems.append('%s %s: %s' % (path, ' '.join(flags), first_difference(expected, got)))
    lines = ['%s %d %s' % (r['key'], r.get('align', 0), hashlib.sha256(bytes(r.get('data', b''))).hexdigest()) for r in module.res_list]
    expected = ''.join(line + '\n' for line in lines).encode('utf-8', 'surrogateescape')
    got = run(program, ['--resources'], path)
    if got != expected:
        problems.append('%s resources: %s' % (path, first_difference(expected, got)))
    return problems


def compare_all(program, shared):
    tools = os.path.join(shared, 'tools')
    roots = [os.path.join(shared, part) for part in ('corpus/ops', 'corpus/probes', 'models')]
    if not os.path.isdir(tools):
        return SKIPPED
    jobs = [(program, tools, path) for path in assets_below(*roots)]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        problems = [p for found in pool.map(compare_one, jobs, chunksize=8) for p in found]
    for p in problems[:20]:
        print(p)
    print('%d assets compared, %d differences' % (len(jobs), len(problems)))
    return 0 if jobs and not problems else 1


def compare_expected(program, folder):
    assets = assets_below(folder)
    failed = 0
    for path in assets:
        with open(path[:-len('.aimodel')] + '.txt', 'rb') as f:
            expected = f.read()
        got = run(program, ['--large-data', '--bodies', '--locations'], path)
        if got != expected:
            failed += 1
            print('%s: %s' % (path, first_difference(expected, got)))
    print('%d assets compared, %d differences' % (len(assets), failed))
    return 0 if assets and not failed else 1


def main(argv):
    if len(argv) == 4 and argv[2] == '--expected':
        return compare_expected(argv[1], argv[3])
    return compare_all(argv[1], argv[2])


if __name__ == '__main__':
    sys.exit(main(sys.argv))
