"""NDArray: memory that Python and the library share."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from cairn import _native
from cairn._errors import Status, fail

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Self

    Array = TypeVar("Array", bound="NDArray")

# Types numpy knows by the package ml_dtypes only: (name there, unsigned type of the same size).
_EXTENSION_TYPES = {
    "bfloat16": ("bfloat16", "uint16"),
    "float8e5m2": ("float8_e5m2", "uint8"),
    "float8e4m3fn": ("float8_e4m3fn", "uint8"),
    "float8e8m0fn": ("float8_e8m0fnu", "uint8"),
    "float4e2m1fn": ("float4_e2m1fn", "uint8"),
    "int4": ("int4", "uint8"),
    "int2": ("int2", "uint8"),
    "uint4": ("uint4", "uint8"),
    "uint2": ("uint2", "uint8"),
}
_FROM_ML_DTYPES = {theirs: (ours, raw) for ours, (theirs, raw) in _EXTENSION_TYPES.items()}

# Further types without a numpy equivalent: given out as the unsigned type of their size.
_RAW_TYPES = {"uint6": "uint8", "uint3": "uint8", "uint1": "uint8"}


class StorageKind(str, Enum):
    """Where an array lives. There is main memory only."""

    BYTES = "bytes"
    IO_SURFACE = "io_surface"
    METAL = "metal"


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        message = "this needs numpy: install it, or use memoryview(array) or DLPack"
        raise ImportError(message) from error
    return numpy


def _wrap(cls: type[Array], data: Any, dtype: str | None, copy: bool | None) -> Array:
    """An array over the memory of `data`: a buffer first, else by DLPack."""
    element = getattr(getattr(data, "dtype", None), "name", None)
    if element in _FROM_ML_DTYPES and hasattr(data, "view"):
        name, raw = _FROM_ML_DTYPES[element]
        if name in ("int4", "int2"):
            # numpy's extension leaves the high bits of a byte undefined, the library wants the sign there.
            return cls._from_buffer(data.astype("int8"), dtype=name, copy=None)
        return cls._from_buffer(data.view(raw), dtype=name, copy=copy)
    # Tensors of other libraries have no buffer; arrays of numpy have one, and DLPack knows no more types.
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array_interface__") and not isinstance(data, _native.NDArray):
        array = cls._from_dlpack(data, copy=copy)
        return array if dtype is None else array.view(dtype)
    if hasattr(data, "__array_interface__") and not hasattr(data, "dtype"):
        data = _numpy().asarray(data)  # an image, e.g.
    return cls._from_buffer(data, dtype=dtype, copy=copy)


class NDArray(_native.NDArray):
    """A multi-dimensional array.

    ``NDArray(data)`` shares the memory of a numpy array, of a torch tensor on the CPU, of anything with the buffer
    protocol or DLPack. With ``copy=True`` it has memory of its own; with ``copy=False`` an array that cannot be shared
    (negative strides, unaligned) is refused instead of copied. Lists are turned into arrays by numpy.
    """

    __slots__ = ("__weakref__",)

    def __new__(
        cls,
        data: Any,
        backing: StorageKind = StorageKind.BYTES,
        *,
        dtype: str | None = None,
        copy: bool | None = None,
    ) -> Self:
        if not isinstance(backing, StorageKind):
            message = f"backing must be a StorageKind, got {type(backing).__name__}"
            raise TypeError(message)
        if backing is not StorageKind.BYTES:
            raise fail(Status.UNSUPPORTED, f"Backing of kind '{backing.value}' is not supported, 'bytes' is")
        if isinstance(data, (list, tuple, int, float, complex)):
            data = _numpy().array(data, dtype=dtype)
            dtype = None
        try:
            return _wrap(cls, data, dtype, copy)
        except (TypeError, ValueError) as error:
            message = f"Unable to create NDArray from {type(data).__name__}: {error}"
            raise TypeError(message) from error

    def to_dlpack(self) -> Self:
        """The array itself, which has ``__dlpack__``."""
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array as a numpy array over the same memory.

        bfloat16, float8 and sub-byte types have the types of the package ml_dtypes when it is installed, else the
        unsigned type of the same size, i.e. the raw bits. An interleaved array is copied into plain order.
        """
        numpy = _numpy()
        source = self.copy() if any(block != 1 for block in self.interleave) else self
        raw = _EXTENSION_TYPES[self.dtype][1] if self.dtype in _EXTENSION_TYPES else _RAW_TYPES.get(self.dtype)
        array: np.ndarray[Any, Any] = numpy.asarray(memoryview(source.view(raw) if raw else source))
        if self.dtype in _EXTENSION_TYPES:
            with suppress(ImportError):
                import ml_dtypes

                array = array.view(getattr(ml_dtypes, _EXTENSION_TYPES[self.dtype][0]))
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                message = f"an array of {self.dtype} cannot become {dtype} without a copy"
                raise ValueError(message)
            return array.astype(dtype)
        return array.copy() if copy else array

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.numpy().tolist()

    def __reduce__(self) -> Any:
        return (NDArray, (self.numpy(),))


def as_ndarray(cls: type[NDArray], what: str, kind: str, value: Any) -> NDArray:
    """An argument of a run as an array. Arrays of other libraries are taken without a copy."""
    if isinstance(value, _native.NDArray):
        return value  # type: ignore[return-value]
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__") or isinstance(value, (memoryview, bytearray)):
        try:
            return _wrap(cls, value, None, False if kind != "input" else None)
        except (TypeError, ValueError, BufferError) as error:
            message = f'Value for "{what}" in {kind} cannot be used: {error}'
            raise TypeError(message) from error
    message = f'Value for "{what}" in {kind} is not an NDArray, but {type(value).__name__}.'
    raise TypeError(message)


