"""The classes ``coreai.runtime`` takes from its compiled part, made of cairn.

Apple's Python files stay as they are: they find these classes where they look for their own.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._asset import AIModelAsset, AIModelAssetMetadata, AIModelAssetSummary
from cairn._errors import NotFoundError
from cairn._ndarray import NDArray, _wrap
from cairn._observe import CompileIdentifiers, IntermediateLogger, LogEvent, Profiler
from cairn._runtime import (
    AIModel,
    ComputeUnitKind,
    ImageDescriptor,
    InferenceFunction,
    InferenceFunctionDescriptor,
    SpecializationOptions,
    _in_thread,
)

if TYPE_CHECKING:
    import os

# The dialect version an asset for an operating system is written in.
_DIALECT_VERSIONS = {"v27": 20260409}


class _NDArray(NDArray):
    """Apple's array copies what it is made of."""

    __slots__ = ()

    def __new__(cls, data: Any, backing: str = "bytes") -> _NDArray:
        if backing != "bytes":
            message = f"Backing of kind '{backing}' is not supported"
            raise RuntimeError(message)
        try:
            return _wrap(cls, data.detach() if hasattr(data, "detach") else data, None, True)
        except (TypeError, ValueError, BufferError, AttributeError) as error:
            message = f"Unable to create NDArray from {data}."
            raise TypeError(message) from error


class _InferenceFunction:
    def __init__(self, function: InferenceFunction) -> None:
        self._function = function

    @property
    def desc(self) -> InferenceFunctionDescriptor:
        return self._function.desc

    @property
    def description(self) -> str:
        return str(self._function)

    async def __call__(self, inputs: dict[str, Any] | None = None, state: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self._function(inputs=inputs, state=state)

    def __str__(self) -> str:
        return str(self._function)


class _AIModel:
    def __init__(self, path: str | os.PathLike[str], options: SpecializationOptions | None = None) -> None:
        self._model = AIModel._open(path, options, _NDArray)

    @staticmethod
    async def load(path: str | os.PathLike[str]) -> _AIModel:
        model: _AIModel = await _in_thread(_AIModel, path)
        return model

    @staticmethod
    async def load_with_specialization(path: str | os.PathLike[str], options: SpecializationOptions) -> _AIModel:
        model: _AIModel = await _in_thread(_AIModel, path, options)
        return model

    @property
    def function_names(self) -> list[str]:
        return self._model.function_names

    def load_function(
        self,
        function_name: str,
        intermediate_logger: IntermediateLogger | None = None,
        profiler: Profiler | None = None,
    ) -> _InferenceFunction | None:
        try:
            return _InferenceFunction(self._model.load_function(function_name, intermediate_logger, profiler))
        except NotFoundError:
            return None

    @property
    def _debug_infos(self) -> bytes:
        return b"[]"

    def __str__(self) -> str:
        return str(self._model)


class _AIModelAsset(AIModelAsset):
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.is_dir():
            message = f"asset '{path}' does not exist"
            raise RuntimeError(message)
        self._read_metadata()

    @staticmethod
    def _create(path: str | os.PathLike[str], metadata: AIModelAssetMetadata | None = None) -> _AIModelAsset:
        Path(path).mkdir(parents=True, exist_ok=True)
        asset = _AIModelAsset(path)
        asset._write_metadata(metadata or AIModelAssetMetadata())
        return asset

    @staticmethod
    def _dialect_version_for_os(os: str) -> int:
        if os not in _DIALECT_VERSIONS:
            message = f"no dialect version is known for '{os}', known are: {', '.join(_DIALECT_VERSIONS)}"
            raise RuntimeError(message)
        return _DIALECT_VERSIONS[os]

    @property
    def _program_bytecode_path(self) -> Path:
        return self._path / "main.mlirb"

    @property
    def _program_hash_path(self) -> Path:
        return self._path / "main.hash"

    def remove_derived_artifacts(self) -> None:
        """Removes what was compiled from the program."""
        for file in self._path.glob("*.odix"):
            file.unlink()


def make_module(name: str) -> types.ModuleType:
    """A module with the names ``coreai.runtime`` looks for."""
    module = types.ModuleType(name, "cairn in the place of Core AI's runtime.")
    classes = {
        "_AIModel": _AIModel,
        "_InferenceFunction": _InferenceFunction,
        "_NDArray": _NDArray,
        "_AIModelAsset": _AIModelAsset,
        "AIModelAssetMetadata": AIModelAssetMetadata,
        "AIModelAssetSummary": AIModelAssetSummary,
        "CompileIdentifiers": CompileIdentifiers,
        "ImageDescriptor": ImageDescriptor,
        "InferenceFunctionDescriptor": InferenceFunctionDescriptor,
        "IntermediateLogger": IntermediateLogger,
        "LogEvent": LogEvent,
        "NDArrayDescriptor": _native.NDArrayDescriptor,
        "Profiler": Profiler,
        "ComputeUnitKind": ComputeUnitKind,
        "_SpecializationOptions": SpecializationOptions,
    }
    for key, value in classes.items():
        setattr(module, key, value)
    return module
