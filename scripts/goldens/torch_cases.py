"""Golden cases from any torch module: converted by coreai-torch, expected values from torch itself in f32 or wider."""

import contextlib
import copy
import importlib.util
import io
import logging
import os
import shutil
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

from . import element_types as types
from . import write
from .authored import strip_dates

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("TQDM_DISABLE", "1")
torch.set_num_threads(1)
NARROW = {torch.float16: 1, torch.bfloat16: 1}


class Function(torch.nn.Module):
    """A module of a plain function; keyword arguments become buffers (tensors) or submodules, given to it first as `m`."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function, self.has_parts = function, bool(parts)
        for name, part in parts.items():
            self.register_buffer(name, part) if isinstance(part, torch.Tensor) else setattr(self, name, part)

    def forward(self, *arguments):
        return self.function(self, *arguments) if self.has_parts else self.function(*arguments)


def to_numpy(t):
    t = t.detach().cpu().resolve_conj().contiguous().clone()  # later steps change states in place
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16).reshape(tuple(t.shape))
    for torch_type, name in ((torch.float8_e4m3fn, "f8E4M3FN"), (torch.float8_e5m2, "f8E5M2")):
        if t.dtype == torch_type:
            return t.view(torch.uint8).numpy().view(types.NUMPY[name])
    a = t.numpy()
    return a.astype(np.complex64) if a.dtype == np.complex128 else a


def leaves(value):
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def widen(value):
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in NARROW else value


def dynamic_dims(module, calls, given):
    """The dims that differ between calls, in the form torch.export wants."""
    if given is not None:
        return given
    spec = []
    for i, first in enumerate(calls[0]):
        varying = {d: torch.export.Dim.AUTO for d in range(first.dim()) if len({c[i].shape[d] for c in calls}) > 1}
        spec.append(varying or None)
    if not any(spec):
        return None
    return (tuple(spec),) if isinstance(module, Function) else tuple(spec)


def export(module, call, dims):
    import coreai_torch

    with torch.no_grad():
        return torch.export.export(module, tuple(call), dynamic_shapes=dims, strict=False).run_decompositions(
            coreai_torch.get_decomp_table()
        )


def convert(path, functions):
    """
    Saves an asset of (entrypoint name, module, example call, dynamic dims, input names, output names, state names,
    externalized modules); state names of a function None = its mutated buffers by their own names. Returns the state names.
    """
    from coreai_torch import TorchConverter

    converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
    states = []
    for name, module, call, dims, inputs, outputs, state_names, external in functions:
        program = export(module, call, dims)
        mutated = set(program.graph_signature.buffers_to_mutate.values())
        names = state_names or [b.replace(".", "_") for b in program.graph_signature.buffers if b in mutated]
        states.append([b for b in program.graph_signature.buffers if b in mutated])
        options = {"input_names": inputs, "output_names": outputs, "state_names": names, "entrypoint_name": name}
        if external:
            converter.add_pytorch_module(
                module, export_fn=lambda m, c=call, d=dims: export(m, c, d), externalize_modules=external, **options
            )
        else:
            converter.add_exported_program(program, **options)
    shutil.rmtree(path, ignore_errors=True)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        converter.to_coreai().save_asset(Path(path))
    strip_dates(path)
    return states


def tolerance_for(expected, declared, slack):
    """Of the type the model computes in; atol follows the size of the values, for sums cancel."""
    if not expected.is_floating_point() and not expected.is_complex():
        return (0, 0)
    rtol, atol = types.tolerance_of({torch.float16: "f16", torch.bfloat16: "bf16"}.get(declared, "f32"))
    finite = expected.abs()[torch.isfinite(expected.abs())]
    return (rtol * slack, atol * slack * max(1.0, float(finite.max()) if finite.numel() else 1.0))


def run_calls(module, calls, state_names, inputs, outputs, slack, carries, every):
    """Runs the module over the calls; returns the calls of the case. The oracle computes 16-bit floats in f32."""
    wide = copy.deepcopy(module)
    is_narrow = any(p.dtype in NARROW for p in list(module.parameters()) + list(module.buffers())) or any(
        t.dtype in NARROW for c in calls for t in c
    )
    declared = dict(module.named_buffers())
    wide = wide.float() if is_narrow else wide
    start = {b: v.clone() for b, v in wide.named_buffers()}
    made = []
    for k, call in enumerate(calls):
        with torch.no_grad():
            narrow = leaves(copy.deepcopy(module)(*[v.clone() for v in call]))
            if not carries:
                for b, v in wide.named_buffers():
                    v.copy_(start[b])
            entry = {"inputs": {n: to_numpy(v) for n, v in zip(inputs, call)}}
            if state_names and (k == 0 or not carries):
                entry["states_in"] = {b.replace(".", "_"): to_numpy(declared[b]) for b in state_names}
            results = leaves(wide(*[widen(v.clone()) for v in call]))
            entry["outputs"] = {n: to_numpy(v) for n, v in zip(outputs, results)}
            entry["tolerances"] = [
                tolerance_for(v, narrow[i].dtype if v.is_floating_point() else v.dtype, slack) for i, v in enumerate(results)
            ]
            if state_names and ((k + 1) % every == 0 or k + 1 == len(calls)):
                now = dict(wide.named_buffers())
                entry["states_out"] = {b.replace(".", "_"): to_numpy(now[b]) for b in state_names}
                entry["tolerances"] += [tolerance_for(now[b], declared[b].dtype, slack) for b in state_names]
        made.append(entry)
    return made


def make_stateful(out, name, functions, state_values, calls, outputs, slack=1.0, every=16, files=None):
    """
    Writes a case whose states are arguments that the modules change in place (they may have dynamic dims then).

    functions: (entrypoint, module, example arguments without states, dims as torch.export takes them, input names); all
    take the same states last. state_values: {name: first value}. calls: (entrypoint, arguments). States are compared after
    every `every` calls and at the end. files: {name: text} written beside the case, for bundles.
    """
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    modules = {f: m.eval() for f, m, *_ in functions}
    try:
        spec = [
            (f, m, tuple(call) + tuple(v.clone() for v in state_values.values()), dims, names, outputs, list(state_values), None)
            for f, m, call, dims, names in functions
        ]
        convert(os.path.join(folder, "model.aimodel"), spec)
        names = {f: n for f, _, _, _, n in functions}
        wide = {f: copy.deepcopy(m).float() for f, m in modules.items()}
        states = {n: widen(v.clone()) for n, v in state_values.items()}
        entries = []
        for k, (f, call) in enumerate(calls):
            with torch.no_grad():
                entry = {"inputs": {n: to_numpy(v) for n, v in zip(names[f], call)}}
                if k == 0:
                    entry["states_in"] = {n: to_numpy(v) for n, v in state_values.items()}
                if f != functions[0][0] or any(g != functions[0][0] for g, _ in calls):
                    entry["function"] = f
                results = leaves(wide[f](*[widen(v.clone()) for v in call], *states.values()))
                entry["outputs"] = {n: to_numpy(v) for n, v in zip(outputs, results)}
                dtype = next(iter(modules[f].parameters())).dtype
                entry["tolerances"] = [tolerance_for(v, dtype if v.is_floating_point() else v.dtype, slack) for v in results]
                if (k + 1) % every == 0 or k + 1 == len(calls):
                    entry["states_out"] = {n: to_numpy(v) for n, v in states.items()}
                    entry["tolerances"] += [tolerance_for(v, state_values[n].dtype, slack) for n, v in states.items()]
            entries.append(entry)
        write.write_case(folder, name, entries, f"torch {torch.__version__}", function=functions[0][0])
        for file, text in (files or {}).items():
            with open(os.path.join(folder, file), "w") as f:
                f.write(text)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def make_case(
    out, name, module, calls, *, dims=None, carries=True, slack=1.0, inputs=None, outputs=None, externalize=None, every=1, example=None
):
    """
    Writes one case below `out`; returns its folder.

    module: a torch module or a function of tensors. calls: a list of argument tuples. Mutated buffers become states; with
    carries they go on from call to call, else each call begins with their first values; they are compared after every
    `every` calls and at the end. example: the arguments to export with (the first call's). dims: as torch.export takes
    them, None = what differs between the calls. slack: factor on the tolerances, for long chains of 16-bit operations.
    """
    if not isinstance(module, torch.nn.Module):
        module = Function(module)
    module = module.eval()
    calls = [tuple(c) for c in calls]
    folder = os.path.join(out, name)
    inputs = inputs or [f"x{i}" for i in range(len(calls[0]))]
    with torch.no_grad():
        n_results = len(leaves(copy.deepcopy(module)(*[v.clone() for v in calls[0]])))
    outputs = outputs or [f"o{i}" for i in range(n_results)]
    try:
        os.makedirs(folder, exist_ok=True)
        spec = dynamic_dims(module, calls, dims)
        (states,) = convert(
            os.path.join(folder, "model.aimodel"), [("main", module, example or calls[0], spec, inputs, outputs, None, externalize)]
        )
        entries = run_calls(module, calls, states, inputs, outputs, slack, carries, every)
        write.write_case(folder, name, entries, f"torch {torch.__version__}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def make_from_file(out, target):
    """The command line's FILE.py:NAME."""
    path, _, name = target.rpartition(":")
    spec = importlib.util.spec_from_file_location("given", path)
    given = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(given)
    made = getattr(given, name)()
    if isinstance(made, dict):
        return make_case(out, made.pop("name", name), made.pop("module"), made.pop("calls"), **made)
    module, calls = made
    return make_case(out, name, module, calls)
