"""Models and functions, with the names of Apple's ``coreai.runtime``."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._errors import NotFoundError, Status, fail
from cairn._ndarray import NDArray, as_ndarray
from cairn._observe import CompileIdentifiers, make_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

    from cairn._observe import IntermediateLogger, Profiler

NDArrayDescriptor = _native.NDArrayDescriptor

# Images are arrays of uint8; those of Pillow are taken as they are.
HAS_IMAGE_SUPPORT = True


class ImageDescriptor:
    """Describes an image value."""

    __slots__ = ("height", "pixel_format_type", "width")

    def __init__(self, pixel_format_type: int, width: int, height: int) -> None:
        self.pixel_format_type = pixel_format_type
        self.width = width
        self.height = height

    def __str__(self) -> str:
        return f"image {self.width}x{self.height}"


class InferenceFunctionDescriptor:
    """What a function takes, gives and keeps."""

    __slots__ = ("_info", "_inputs", "_outputs", "_states")

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._info = info
        self._inputs = {each.name: each for each in info["inputs"]}
        self._outputs = {each.name: each for each in info["outputs"]}
        self._states = {each.name: each for each in info["states"]}

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(self._info["name"])

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return list(self._outputs)

    @property
    def state_names(self) -> list[str]:
        """Names of the states, in order."""
        return list(self._states)

    @staticmethod
    def _find(kind: str, table: dict[str, NDArrayDescriptor], name: str) -> NDArrayDescriptor | ImageDescriptor:
        descriptor = table.get(name)
        if descriptor is None:
            message = f"No {kind} descriptor named: {name}"
            raise KeyError(message)
        return ImageDescriptor(*descriptor.image) if descriptor.image else descriptor

    def input_descriptor(self, name: str) -> Any:
        """The descriptor of an input. KeyError when there is none."""
        return self._find("input", self._inputs, name)

    def output_descriptor(self, name: str) -> Any:
        """The descriptor of an output. KeyError when there is none."""
        return self._find("output", self._outputs, name)

    def state_descriptor(self, name: str) -> Any:
        """The descriptor of a state. KeyError when there is none."""
        return self._find("state", self._states, name)

    def __str__(self) -> str:
        def quoted(names: list[str]) -> str:
            return "[" + ", ".join(f'"{name}"' for name in names) + "]"

        return (
            f"{self.name}\n\tInputs:  {quoted(self.input_names)}\n\tOutputs: {quoted(self.output_names)}"
            f"\n\tStates:  {quoted(self.state_names)}"
        )


class ComputeUnitKind:
    """A kind of processor."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def cpu(cls) -> Self:
        """The CPU."""
        return cls("cpu")

    @classmethod
    def gpu(cls) -> Self:
        """A GPU. There is none yet."""
        return cls("gpu")

    @classmethod
    def neural_engine(cls) -> Self:
        """Apple's neural engine, which is never there."""
        return cls("neural_engine")

    @classmethod
    def available_kinds(cls) -> list[Self]:
        """The kinds functions can be run on."""
        return [cls.cpu()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputeUnitKind) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"ComputeUnitKind.{self.name}()"


class SpecializationOptions:
    """How a model is prepared for this machine. What cannot be had is refused, never replaced in silence."""

    __slots__ = ("_composites", "_debug", "_precision")
    _composites: str
    _debug: bool
    _precision: str

    def __init__(self) -> None:
        message = "Use `SpecializationOptions.default()`, `.cpu_only()` or `.from_preferred_compute_unit_kind(kind)`."
        raise TypeError(message)

    @classmethod
    def _make(cls, debug: bool = False, composites: str = "default", precision: str = "default") -> Self:
        instance = object.__new__(cls)
        instance._debug = debug
        instance._composites = composites
        instance._precision = precision
        return instance

    @staticmethod
    def is_supported() -> bool:
        """Whether there are delegates to choose from: never."""
        return False

    @classmethod
    def cpu_only(cls) -> Self:
        """The CPU and nothing else."""
        return cls._make()

    @classmethod
    def default(cls) -> Self:
        """The defaults: the CPU."""
        return cls._make()

    @classmethod
    def from_preferred_compute_unit_kind(cls, compute_unit_kind: ComputeUnitKind) -> Self:
        """Prefers a kind of processor; one that is not there is refused."""
        if compute_unit_kind != ComputeUnitKind.cpu():
            raise fail(Status.UNSUPPORTED, f"compute unit '{compute_unit_kind.name}' is not available here, 'cpu' is")
        return cls._make()

    def with_debug(self, *, enabled: bool) -> Self:
        """The same with debugging on or off."""
        return self._make(enabled, self._composites, self._precision)

    def with_composites(self, how: str) -> Self:
        """The same with composites computed ``"fast"``, by direct kernels, or by the ``"body"`` stored in the asset."""
        return self._make(self._debug, how, self._precision)

    def with_precision(self, precision: str) -> Self:
        """The same with products by constant matrices ``"exact"`` (the default), in ``"bf16"`` or ``"int8"``, or ``"auto"``."""
        return self._make(self._debug, self._composites, precision)

    @property
    def allowed_compute_unit_kinds(self) -> list[ComputeUnitKind]:
        """The kinds that may be used."""
        return [ComputeUnitKind.cpu()]

    @property
    def preferred_compute_unit_kind(self) -> ComputeUnitKind | None:
        """The kind that is used first."""
        return ComputeUnitKind.cpu()

    @property
    def is_debug_enabled(self) -> bool:
        """Whether debugging is on."""
        return self._debug

    def __str__(self) -> str:
        return f"SpecializationOptions(cpu, composites={self._composites}, precision={self._precision}, debug={self._debug})"


async def _in_thread(function: Any, *args: Any) -> Any:
    """Runs a blocking call beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


class InferenceFunction:
    """One function of a model. Runs may go on at once, as long as they do not share a state."""

    __slots__ = ("__weakref__", "_array_type", "_descriptor", "_function")
    _array_type: type[NDArray]
    _descriptor: InferenceFunctionDescriptor
    _function: _native.Function

    def __init__(self) -> None:
        message = "Use `AIModel.load_function(name)` to construct an InferenceFunction instance."
        raise TypeError(message)

    @classmethod
    def _make(cls, function: _native.Function, array_type: type[NDArray]) -> Self:
        instance = object.__new__(cls)
        instance._function = function
        instance._array_type = array_type
        instance._descriptor = InferenceFunctionDescriptor(function.info)
        return instance

    @property
    def desc(self) -> InferenceFunctionDescriptor:
        """The descriptor of the function."""
        return self._descriptor

    @property
    def stats(self) -> dict[str, int]:
        """Counters of the runs so far."""
        return self._function.stats()

    @property
    def precision(self) -> str:
        """The precision the function really runs with: ``"exact"``, ``"bf16"`` or ``"int8"``."""
        return self._function.precision

    @property
    def plan(self) -> str:
        """The steps of a run as text, a line each."""
        return self._function.plan()

    def __str__(self) -> str:
        return str(self._descriptor)

    def make_state(self, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, NDArray]:
        """Zeroed arrays for all states; `shapes` gives the sizes of those that have open ones."""
        shapes = {} if shapes is None else shapes
        unknown = [name for name in shapes if name not in self._descriptor.state_names]
        if unknown:
            message = f"No state descriptor named: {unknown[0]}"
            raise KeyError(message)
        return {
            name: self._array_type.from_descriptor(self._descriptor.state_descriptor(name), shapes.get(name))
            for name in self._descriptor.state_names
        }

    def _arrays(self, kind: str, values: Mapping[str, Any] | None) -> dict[str, NDArray]:
        if values is None:
            return {}
        return {name: as_ndarray(self._array_type, name, kind, value) for name, value in values.items()}

    def _prepare(self, inputs: Any, state: Any, outputs: Any, last_rows: int, named: dict[str, Any]) -> tuple[Any, ...]:
        if named:
            inputs = {**({} if inputs is None else inputs), **named}
        given = self._arrays("input", inputs), self._arrays("state", state), self._arrays("output", outputs)
        return (*given, last_rows, self._array_type)

    async def __call__(
        self,
        inputs: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        *,
        last_rows: int = 0,
        **named_inputs: Any,
    ) -> dict[str, NDArray]:
        """Runs the function on a thread of the event loop's executor.

        Every input and every state is needed. States are changed in place. An output given in `outputs` is written
        there and is left out of the result. Inputs may be given by keyword, too. With `last_rows` only that many rows of
        the outputs with a dynamic last dimension but one are wanted (a language model's logits, e.g.).
        """
        arguments = self._prepare(inputs, state, outputs, last_rows, named_inputs)
        result: dict[str, NDArray] = await _in_thread(self._function.run, *arguments)
        return result

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        *,
        last_rows: int = 0,
        **named_inputs: Any,
    ) -> dict[str, NDArray]:
        """As calling the function, without an event loop: returns when it is done."""
        result: dict[str, NDArray] = self._function.run(*self._prepare(inputs, state, outputs, last_rows, named_inputs))
        return result


class AIModel:
    """A model with one or more functions."""

    __slots__ = ("__weakref__", "_array_type", "_asset", "_model", "_options")
    _array_type: type[NDArray]
    _asset: _native.Asset
    _model: _native.Model
    _options: SpecializationOptions | None

    def __init__(self) -> None:
        message = "Use `await AIModel.load(path)` to construct an AIModel instance."
        raise TypeError(message)

    @classmethod
    def _open(cls, path: str | os.PathLike[str], options: SpecializationOptions | None, array_type: type[NDArray]) -> Self:
        instance = object.__new__(cls)
        instance._array_type = array_type
        instance._options = options
        instance._asset = _native.Asset(path)
        instance._model = instance._make_model(None)
        return instance

    def _make_model(self, trace: Any) -> _native.Model:
        options = self._options or SpecializationOptions.default()
        return _native.Model(self._asset, self._array_type, options._composites, options._precision, trace)

    @classmethod
    async def load(cls, path: str | os.PathLike[str], specialization_options: SpecializationOptions | None = None) -> Self:
        """Loads an asset on a thread of the event loop's executor."""
        result: Self = await _in_thread(cls._open, path, specialization_options, NDArray)
        return result

    @classmethod
    def load_sync(cls, path: str | os.PathLike[str], specialization_options: SpecializationOptions | None = None) -> Self:
        """Loads an asset without an event loop."""
        return cls._open(path, specialization_options, NDArray)

    @property
    def function_names(self) -> list[str]:
        """Names of all functions."""
        return [info["name"] for info in self._model.functions]

    @property
    def specialization_options(self) -> SpecializationOptions | None:
        """The options the model was loaded with."""
        return self._options

    @property
    def warnings(self) -> list[str]:
        """Problems of the asset that did not stop the loading."""
        return self._asset.warnings

    def function_descriptor(self, name: str) -> InferenceFunctionDescriptor | None:
        """The descriptor of a function, None when there is none of that name. Nothing is prepared."""
        for info in self._model.functions:
            if info["name"] == name:
                return InferenceFunctionDescriptor(info)
        return None

    def load_function(
        self,
        function_name: str,
        intermediate_logger: IntermediateLogger | None = None,
        profiler: Profiler | None = None,
    ) -> InferenceFunction:
        """Prepares a function. KeyError (a NotFoundError) when there is none of that name."""
        start = time.monotonic_ns()
        trace = make_trace(intermediate_logger, profiler)
        # A model that is watched runs on its own, so that other functions do not pay for it.
        model = self._model if trace is None else self._make_model(trace)
        try:
            function = model.function(function_name)
        except NotFoundError as error:
            names = ", ".join(self.function_names)
            message = f"No function named {function_name!r}; there are: {names}"
            raise NotFoundError(message, Status.NOT_FOUND) from error
        if profiler is not None:
            profiler._interval("load", f"Load {function_name}", function_name, CompileIdentifiers(0), start, time.monotonic_ns())
        return InferenceFunction._make(function, self._array_type)

    def __str__(self) -> str:
        return "Function Names:\n" + "\n".join(f"\t{name}" for name in self.function_names)
