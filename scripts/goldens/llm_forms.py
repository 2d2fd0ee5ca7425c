"""Small assets of every form language models come in, for the engines and for in-place writes."""

from . import kv_cells, tiny_lm


def write_cases(out, wanted):
    written = refused = 0
    jobs = [(f"kv_{c[0]}_{c[1]}", lambda c=c: kv_cells.write_cell(out, *c)) for c in kv_cells.cells()] + tiny_lm.jobs(out)
    for name, job in jobs:
        if wanted and wanted not in name:
            continue
        try:
            job()
            written += 1
        except Exception as e:
            refused += 1
            print(f"refused {name}: {(str(e).strip().splitlines() or [type(e).__name__])[0][:300]}")
    return written, refused
