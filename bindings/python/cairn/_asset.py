"""Assets on disk: metadata, summary, and running them."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._errors import Status, fail
from cairn._runtime import AIModel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from typing_extensions import Self

    from cairn._runtime import SpecializationOptions

_ASSET_VERSION = "2.0"
_DATE_FORMAT = "%Y%m%dT%H%M%SZ"
_TEXT_KEYS = {"author": "author", "license": "license", "model_description": "description", "_producer": "producer"}
_EXTENSIONS = (".aimodel", ".aimodelc", ".aimodelx")


def _check_value(value: Any) -> Any:
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_check_value(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _check_value(item) for key, item in value.items()}
    message = f"custom metadata value must be str, int, float, bool, list, tuple, or dict; got '{type(value).__name__}'"
    raise TypeError(message)


class AIModelAssetMetadata:
    """What an asset says of itself."""

    def __init__(self) -> None:
        self.author = ""
        self.license = ""
        self.model_description = ""
        self._producer = ""
        self.creation_date: float | None = None
        self._custom: dict[str, Any] = {}
        self._others: dict[str, Any] = {}

    @classmethod
    def _parse(cls, text: str) -> Self:
        try:
            values = json.loads(text)
        except ValueError as error:
            raise fail(Status.CORRUPT, f"metadata.json is no JSON: {error}") from error
        if not isinstance(values, dict):
            raise fail(Status.CORRUPT, "metadata.json holds no object")
        metadata = cls()
        for attribute, key in _TEXT_KEYS.items():
            value = values.pop(key, "")
            setattr(metadata, attribute, value if isinstance(value, str) else "")
        date = values.pop("creationDate", None)
        if isinstance(date, str):
            try:
                metadata.creation_date = datetime.strptime(date, _DATE_FORMAT).replace(tzinfo=timezone.utc).timestamp()
            except ValueError:
                values["creationDate"] = date
        custom = values.pop("creatorDefinedMetadata", None)
        metadata._custom = custom if isinstance(custom, dict) else {}
        metadata._others = values
        return metadata

    def _serialize(self) -> str:
        values: dict[str, Any] = {"assetVersion": _ASSET_VERSION, **self._others}
        for attribute, key in _TEXT_KEYS.items():
            if getattr(self, attribute):
                values[key] = getattr(self, attribute)
        if self.creation_date is not None:
            values["creationDate"] = datetime.fromtimestamp(self.creation_date, timezone.utc).strftime(_DATE_FORMAT)
        if self._custom:
            values["creatorDefinedMetadata"] = self._custom
        return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def custom_metadata(self) -> dict[str, Any]:
        """Free values the creator added."""
        return dict(self._custom)

    @property
    def creator_defined_metadata(self) -> dict[str, Any]:
        """The same as ``custom_metadata``."""
        return dict(self._custom)

    @property
    def producer(self) -> str:
        """The program that wrote the asset."""
        return self._producer

    def set_custom(self, key: str, value: Any) -> None:
        """Stores a free value: text, number, truth value, or lists and dicts of them. TypeError for anything else."""
        self._custom[key] = _check_value(value)

    def remove_custom(self, key: str) -> None:
        """Removes a free value; nothing happens when there is none."""
        self._custom.pop(key, None)

    def __repr__(self) -> str:
        parts = [f"{name}: {value}" for name, value in (("author", self.author), ("license", self.license)) if value]
        if self.model_description:
            parts.append(f"description: {self.model_description}")
        if self._producer:
            parts.append(f"producer: {self._producer}")
        if self.creation_date is not None:
            moment = datetime.fromtimestamp(self.creation_date, timezone.utc)
            parts.append(f"creation_date: {moment:%Y-%m-%d %H:%M:%S} +0000")
        if self._custom:
            parts.append(f"creator_defined_metadata: {self._custom}")
        return f"AIModelAssetMetadata({', '.join(parts)})"


def _type_name(dtype: str) -> str:
    """"Float32" for "float32", as the summary of Apple's runtime spells types."""
    if dtype.startswith("uint"):
        return "UInt" + dtype[4:]
    return dtype[:1].upper() + dtype[1:]


class AIModelAssetSummary:
    """The functions of an asset, and what its program is made of."""

    def __init__(self, asset: _native.Asset, include_statistics: bool) -> None:
        self._functions: dict[str, Mapping[str, Any]] = {info["name"]: info for info in asset.functions}
        self._storage: dict[str, int] = {}
        self._operations: list[tuple[str, int]] = []
        if include_statistics:
            for _, dtype, _, _ in asset.weights():
                self._storage[_type_name(dtype)] = self._storage.get(_type_name(dtype), 0) + 1
            counts = [(name.removeprefix("coreai."), count) for name, count in asset.operations()]
            self._operations = sorted(counts, key=lambda pair: (-pair[1], pair[0]))

    @property
    def _compatibility_version(self) -> str | None:
        return "27.0"

    @property
    def function_names(self) -> list[str]:
        """Names of all functions."""
        return list(self._functions)

    def _values(self, name: str, kind: str) -> list[tuple[str, str]]:
        if name not in self._functions:
            message = f"No function named {name!r}"
            raise KeyError(message)
        return [(each.name, self._describe(each)) for each in self._functions[name][kind]]

    @staticmethod
    def _describe(descriptor: _native.NDArrayDescriptor) -> str:
        if descriptor.is_image:
            return f"Image ({descriptor})"
        sizes = " x ".join("?" if size is None else str(size) for size in descriptor.shape)
        return f"NDArray ({_type_name(descriptor.dtype)}{', ' + sizes if sizes else ''})"

    def function_inputs(self, function_name: str) -> list[tuple[str, str]]:
        """(name, type) of the inputs of a function. KeyError when there is none of that name."""
        return self._values(function_name, "inputs")

    def function_outputs(self, function_name: str) -> list[tuple[str, str]]:
        """(name, type) of the outputs of a function. KeyError when there is none of that name."""
        return self._values(function_name, "outputs")

    def function_states(self, function_name: str) -> list[tuple[str, str]]:
        """(name, type) of the states of a function. KeyError when there is none of that name."""
        return self._values(function_name, "states")

    @property
    def storage_types(self) -> list[tuple[str, int]]:
        """(type, number of weights) per type of weights."""
        return sorted(self._storage.items())

    @property
    def compute_types(self) -> list[str]:
        """The types of inputs, outputs, states and weights."""
        types = set(self._storage)
        for info in self._functions.values():
            for kind in ("inputs", "outputs", "states"):
                types.update(_type_name(each.dtype) for each in info[kind] if not each.is_image)
        return sorted(types)

    @property
    def operation_distribution(self) -> list[tuple[str, int]]:
        """(operation, count), the most frequent first."""
        return list(self._operations)

    def __str__(self) -> str:
        return (
            f"AIModelAssetSummary:\n  functions: {self.function_names}\n  storage_types: {self.storage_types}\n"
            f"  compute_types: {self.compute_types}\n  operation_distribution: {self.operation_distribution}"
        )


class AIModelAsset:
    """An asset on disk: to be looked at, described, and run."""

    def __init__(self) -> None:
        message = "Use `AIModelAsset.load(path)` to construct an AIModelAsset instance"
        raise RuntimeError(message)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Opens an asset. The directory must exist."""
        folder = Path(path)
        if not folder.is_dir():
            raise fail(Status.NOT_FOUND, f"asset '{folder}' does not exist")
        instance = object.__new__(cls)
        instance._path = folder
        instance._read_metadata()
        return instance

    _path: Path

    @property
    def path(self) -> Path:
        """The directory of the asset."""
        return self._path

    def _read_metadata(self) -> AIModelAssetMetadata:
        file = self._path / "metadata.json"
        return AIModelAssetMetadata._parse(file.read_text(encoding="utf-8") if file.is_file() else "{}")

    @property
    def metadata(self) -> AIModelAssetMetadata:
        """The metadata as the file holds it now."""
        return self._read_metadata()

    def update_metadata(self, updates: Callable[[AIModelAssetMetadata], None]) -> None:
        """Hands the metadata to `updates`, which changes it in place, and replaces the file in one step."""
        metadata = self._read_metadata()
        updates(metadata)
        self._write_metadata(metadata)

    def _write_metadata(self, metadata: AIModelAssetMetadata) -> None:
        try:
            with tempfile.NamedTemporaryFile("w", dir=self._path, suffix=".tmp", delete=False, encoding="utf-8") as file:
                file.write(metadata._serialize())
            os.chmod(file.name, 0o644)
            os.replace(file.name, self._path / "metadata.json")
        except OSError as error:
            raise fail(Status.IO, f"metadata.json of '{self._path}' cannot be written: {error}") from error

    def summary(self, *, include_statistics: bool = True) -> AIModelAssetSummary | None:
        """What the program offers and is made of; None for an asset without a program."""
        if not (self._path / "main.mlirb").is_file():
            return None
        return AIModelAssetSummary(_native.Asset(self._path, skip_hash=True), include_statistics)

    @staticmethod
    def is_valid(path: str | os.PathLike[str]) -> bool:
        """Whether `path` is a directory with the name of an asset that holds a program."""
        folder = Path(path)
        return folder.suffix in _EXTENSIONS and folder.is_dir() and (folder / "main.mlirb").is_file()

    @asynccontextmanager
    async def executable(self, specialization_options: SpecializationOptions | None = None) -> AsyncGenerator[AIModel, None]:
        """The asset as a loaded model, for the time of an ``async with`` block."""
        yield await AIModel.load(self._path, specialization_options)

    def __repr__(self) -> str:
        return f"AIModelAsset(path: {self._path})"
