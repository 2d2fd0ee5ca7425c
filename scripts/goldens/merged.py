"""The cases of single operations side by side in few graphs: every (operation, element type) in a small part of the files."""

import importlib
import os
import re
import shutil

from . import authored

GROUPS = ["elementwise", "reduce", "move", "index", "window", "compressed", "control"]
# Element types written out in names: what is left of a name without them is its form.
TYPE = r"(f64|f32|f16|bf16|f8E5M2|f8E4M3FN|f8E8M0FN|f4E2M1FN|si64|si32|si16|si8|si4|si2|ui64|ui32|ui16|ui8|ui6|ui4|ui3|ui2|ui1|i1|c64)"


def stem_of(name):
    return re.sub(rf"_{TYPE}(?=_|$)", "", name).replace("_to", "")


def operation_of(stem):
    """The part of a form's name that says which operation it is: forms of one operation share a file."""
    for long in (
        "scatter_along_axis",
        "gather_along_axis",
        "scatter_nd",
        "gather_nd",
        "conv_transpose2d",
        "conv_transpose3d",
        "shift_scale_e8m0",
        "shift_scale_constant",
        "shift_scale",
        "lut_to_dense",
        "lut_to_sparse",
        "max_pool_2d",
        "max_pool_3d",
        "sum_pool_2d",
        "sum_pool_3d",
        "interpolate_coordinates",
        "interpolate",
        "batch_matmul",
        "broadcasting_batch_matmul",
        "region",
        "reduce_index",
        "layout_copy",
        "cast_edges",
        "cast",
        "pad",
        "scan",
        "quantize",
        "dequantize",
        "symmetric_statistics",
        "asymmetric_statistics",
    ):
        if stem.startswith(long):
            return long
    return stem


def is_kept(case, stem, seen):
    """All forms in the common types, of the other types the first of each operation; `seen` collects those."""
    if not case.can_merge:
        return False
    found = re.findall(TYPE, case.name)
    if stem.startswith("cast") and not stem.startswith("cast_edges"):
        return "f32" in found or "si32" in found and bool({"i1", "f16", "si8", "ui8"} & set(found))
    key = (operation_of(stem), found[0] if found else case.name)
    is_new = key not in seen
    seen.add(key)
    return is_new or found[:1] == ["f32"] or not found


def trimmed(case):
    """The first and the last call are enough here."""
    case.calls = case.calls[:1] + case.calls[-1:] if len(case.calls) > 1 else case.calls
    return case


def write(out, seeded):
    """Writes the merged cases; a case that its library refuses is left out of its file."""
    n_files = n_merged = 0
    for group in GROUPS:
        files, seen = {}, set()
        for case in importlib.import_module(f"goldens.{group}").cases(seeded(group)):
            stem = stem_of(case.name)
            if is_kept(case, stem, seen):
                files.setdefault(operation_of(stem), []).append(trimmed(case))
        for name, cases in files.items():
            for k in range(0, len(cases), 48):
                n_merged += write_part(out, f"all_{name}" + (f"_{k // 48}" if len(cases) > 48 else ""), cases[k : k + 48])
                n_files += 1
    print(f"{n_merged} cases in {n_files} files")
    return 0 if n_files else 1


def write_part(out, name, cases):
    """One file; when it is refused, each case is tried alone to find the good ones."""
    try:
        authored.write_authored(out, authored.merge(name, cases))
        return len(cases)
    except Exception:
        good = [c for c in cases if is_accepted(out, c)]
        if good:
            authored.write_authored(out, authored.merge(name, good))
        return len(good)


def is_accepted(out, case):
    alone = os.path.join(out, ".alone")
    try:
        authored.write_authored(alone, case)
        return True
    except Exception:
        return False
    finally:
        shutil.rmtree(alone, ignore_errors=True)
