"""One attention cell whose cache is written in every formulation and with every source of the index that producers use."""

import torch
import torch.nn as nn

from . import torch_cases

CAPACITY, HEADS, WIDTH, STEPS, FIXED = 64, 2, 4, 64, 5
FORMS = ("slice_update", "mask_blend", "mask_where", "shift_append", "packed", "one_hot_blend", "one_hot_where")
SOURCES = ("input", "shape", "constant")


class Cell(nn.Module):
    """
    x [1, n, 8] and what the source needs: `position` [1] or `position_ids` [1, e], or a mask over the columns.

    The column is `position`, e - 1, or always the same one; every output reads the whole cache.
    """

    def __init__(self, form, source, dtype, first=None):
        super().__init__()
        torch.manual_seed(len(form) * 7 + len(source))
        self.form, self.source = form, source
        self.key, self.value, self.query = (nn.Linear(8, HEADS * WIDTH) for _ in range(3))
        shape = (2 * HEADS, CAPACITY, WIDTH) if form == "packed" else (1, HEADS, CAPACITY, WIDTH)
        fill = torch.zeros(shape) if first is None else first.clone()
        self.register_buffer("cache" if form == "packed" else "key_cache", fill)
        if form != "packed":
            self.register_buffer("value_cache", fill.clone())
        if form.startswith("mask") and source != "input":
            self.register_buffer("masks", torch.eye(CAPACITY) if source == "shape" else torch.eye(CAPACITY)[FIXED : FIXED + 1])
        self.to(dtype)

    def split(self, x):
        return x.reshape(1, x.shape[1], HEADS, WIDTH).transpose(1, 2)

    def column(self, index):
        """The column to write, as a Python number or a symbolic one."""
        if self.source == "constant":
            return FIXED
        if self.source == "shape":
            return index.shape[1] - 1
        at = index.item()
        torch._check(at >= 0)
        torch._check(at <= CAPACITY - 1)
        return at

    def mask(self, index, dtype):
        """[C, 1]: one at the column to write."""
        if self.form.startswith("one_hot"):
            if self.source == "input":
                return (torch.arange(CAPACITY) == index).to(dtype)[:, None]
            return (torch.arange(CAPACITY) == self.column(index)).to(dtype)[:, None]
        if self.source == "input":
            return index[:, None]
        if self.source == "constant":
            return self.masks[0][:, None]
        e = index.shape[1]
        return self.masks[e - 1 : e].reshape(CAPACITY, 1)

    def write(self, cache, new, index):
        if self.form == "slice_update":
            at = self.column(index)
            cache[:, :, at : at + 1] = new
        elif self.form.endswith("blend"):
            m = self.mask(index, new.dtype)
            cache.copy_(cache * (1 - m) + new * m)
        elif self.form.endswith("where"):
            cache.copy_(torch.where(self.mask(index, new.dtype) > 0.5, new, cache))
        elif self.source == "constant":
            cache.copy_(torch.cat([cache[:, :, 1:], new], 2))
        elif self.source == "shape":
            n = new.shape[2]
            cache.copy_(torch.cat([cache, new], 2)[:, :, n:])
        else:
            # As many columns are dropped as the input says: 1 or 0.
            both = torch.cat([cache, new], 2)
            cache.copy_(both.index_select(2, torch.arange(CAPACITY) + index))

    def forward(self, x, index=None):
        key, value, query = self.split(self.key(x)), self.split(self.value(x)), self.split(self.query(x))
        if self.form == "packed":
            at = self.column(index)
            rows = torch.cat([key[0], value[0]], 0)
            for slot in range(2 * HEADS):
                self.cache[slot : slot + 1, at : at + 1] = rows[slot : slot + 1]
            keys, values = self.cache[None, :HEADS], self.cache[None, HEADS:]
        else:
            self.write(self.key_cache, key, index)
            self.write(self.value_cache, value, index)
            keys, values = self.key_cache, self.value_cache
        scores = (query @ keys.transpose(2, 3)) * 0.5
        return (scores.softmax(-1) @ values).transpose(1, 2).reshape(1, x.shape[1], HEADS * WIDTH)


def arguments(form, source, dtype, generator):
    """The arguments of every step."""
    calls = []
    for k in range(STEPS):
        n = 1 + k % 3 if (form, source) == ("shift_append", "shape") else 1
        x = torch.randn(1, n, 8, generator=generator).to(dtype)
        if source == "constant" or (form, source) == ("shift_append", "shape"):
            calls.append((x,))
        elif source == "shape":
            calls.append((x, torch.arange(k + 1, dtype=torch.int32)[None]))
        elif form.startswith("mask"):
            calls.append((x, torch.eye(CAPACITY)[k].to(dtype)))
        elif form == "shift_append":
            calls.append((x, torch.tensor([0 if k % 5 == 4 else 1], dtype=torch.int32)))
        else:
            calls.append((x, torch.tensor([k * 7 % CAPACITY], dtype=torch.int32)))
    return calls


def write_cell(out, form, source, label, dtype, poisoned=False):
    generator = torch.Generator().manual_seed(FORMS.index(form) * 3 + SOURCES.index(source))
    calls = arguments(form, source, dtype, generator)
    first = None
    if poisoned:
        # A column that is not a number: the blend keeps it whatever it writes, `where` replaces it.
        first = torch.zeros(1, HEADS, CAPACITY, WIDTH)
        first[:, :, FIXED] = float("nan")
        calls = calls[:8]
    cell = Cell(form, source, dtype, first)
    dims = None
    if source == "shape" and form != "shift_append":
        dims = (None, {1: torch.export.Dim("e", min=1, max=CAPACITY)})
        order = [calls[2]] + calls
    elif source == "shape":
        dims = ({1: torch.export.Dim("n", min=1, max=8)},)
        order = [calls[2]] + calls
    else:
        order = calls
    name = f"kv_{form}_{source}" + ("_nan" if poisoned else "") + ("" if label == "f32" else f"_{label}")
    # The example of the export is not a step: dims of 1 would be taken for constants.
    inputs = ["x", "index"][: len(calls[0])]
    return torch_cases.make_case(
        out, name, cell, calls, dims=dims, example=order[0], inputs=inputs, outputs=["y"], every=32, slack=4 if label == "f16" else 1
    )


def cells():
    for form in FORMS:
        for source in SOURCES:
            yield form, source, "f32", torch.float32, False
    for form in ("slice_update", "one_hot_blend", "shift_append", "packed"):
        yield form, "shape" if form != "shift_append" else "constant", "f16", torch.float16, False
    for form in ("one_hot_blend", "one_hot_where"):
        yield form, "constant", "f32", torch.float32, True
