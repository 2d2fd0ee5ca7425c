"""Exceptions: one class per status of the library, all of them :class:`Error`.

Every exception carries ``status`` (a :class:`Status`), ``name`` (its text, e.g. ``"INVALID_ARGUMENT"``), ``message`` and
``notes`` (what was being done, innermost first).
"""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The codes of the library."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 2
    NOT_FOUND = 3
    ALREADY_EXISTS = 4
    OUT_OF_RANGE = 5
    UNSUPPORTED = 6
    CORRUPT = 7
    INCOMPATIBLE = 8
    OUT_OF_MEMORY = 9
    FAILED_PRECONDITION = 10
    BUSY = 11
    CONTEXT_FULL = 12
    IO = 13
    INTERNAL = 14


class Error(RuntimeError):
    """A call of the library failed."""

    status: Status
    message: str
    notes: tuple[str, ...]

    def __init__(self, message: str, status: Status = Status.INTERNAL, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.notes = notes

    @property
    def name(self) -> str:
        """The name of the status."""
        return self.status.name

    @property
    def code(self) -> int:
        """The number of the status."""
        return int(self.status)

    def __str__(self) -> str:
        text = self.message
        if self.notes:
            text += f" ({'; '.join(self.notes)})"
        return f"{self.name}: {text}"

    def __reduce__(self) -> tuple[type[Error], tuple[str, Status, tuple[str, ...]]]:
        return (type(self), (self.message, self.status, self.notes))


class CancelledError(Error):
    """The call was ended from outside."""


class InvalidArgumentError(Error, ValueError):
    """A value, name, type or shape is wrong; the message names it and what is expected."""


class NotFoundError(Error, KeyError):
    """There is nothing of that name."""


class AlreadyExistsError(Error):
    """There is something of that name already."""


class OutOfRangeError(Error, IndexError):
    """A number is outside of what is possible."""


class UnsupportedError(Error, NotImplementedError):
    """An operation, type or option is known but cannot be had."""


class CorruptError(Error):
    """A file is damaged or malformed."""


class IncompatibleError(Error):
    """A file is of another version or kind."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory for it."""


class FailedPreconditionError(Error):
    """Something has to be done or given first."""


class BusyError(Error):
    """The array or engine is in use by another call."""


class ContextFullError(Error):
    """The sequence leaves no room in the context."""


class IoError(Error):
    """The system refused to read or write."""


class InternalError(Error):
    """A fault of the library."""


_CLASSES: dict[Status, type[Error]] = {
    Status.CANCELLED: CancelledError,
    Status.INVALID_ARGUMENT: InvalidArgumentError,
    Status.NOT_FOUND: NotFoundError,
    Status.ALREADY_EXISTS: AlreadyExistsError,
    Status.OUT_OF_RANGE: OutOfRangeError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.CORRUPT: CorruptError,
    Status.INCOMPATIBLE: IncompatibleError,
    Status.OUT_OF_MEMORY: OutOfMemoryError,
    Status.FAILED_PRECONDITION: FailedPreconditionError,
    Status.BUSY: BusyError,
    Status.CONTEXT_FULL: ContextFullError,
    Status.IO: IoError,
    Status.INTERNAL: InternalError,
}


def make(code: int, name: str, message: str, notes: tuple[str, ...] = ()) -> Error:
    """The exception for a failure of the library (called by its C part)."""
    del name
    status = Status(code)
    return _CLASSES.get(status, Error)(message, status, tuple(notes))


def fail(status: Status, message: str) -> Error:
    """The exception for a failure that the Python part notices itself."""
    return make(int(status), status.name, message)
