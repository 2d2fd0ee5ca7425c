"""Looking into a run: captured intermediate values and profiling events."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cairn import _native

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cairn._ndarray import NDArray


class CompileIdentifiers:
    """Identifies one operation of a prepared function: ``id`` is its place in the order of execution.

    ``operation`` and ``location`` tell what it is and where it comes from, when that is known.
    """

    __slots__ = ("_delegate_id", "_id", "location", "operation")

    def __init__(self, identifier: int, delegate_id: int | None = None, *, operation: str = "", location: str = "") -> None:
        self._id = int(identifier)
        self._delegate_id = delegate_id
        self.operation = operation
        self.location = location

    @property
    def id(self) -> int:
        """The number of the operation."""
        return self._id

    @property
    def delegate_id(self) -> int | None:
        """The number of the delegate that runs it; there are none, so None unless given."""
        return self._delegate_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompileIdentifiers) and (self._id, self._delegate_id) == (other._id, other._delegate_id)

    def __hash__(self) -> int:
        return hash((self._id, self._delegate_id))

    def __repr__(self) -> str:
        return f"CompileIdentifiers(id={self._id}, delegate_id={self._delegate_id})"


class IntermediateLogger:
    """Receives the results of operations while a function runs.

    ``callback(arrays, kind, identifiers)`` is called on the running thread; ``kind`` is always ``"output"``. An
    exception it raises is raised by the run. ``requested_intermediates`` None asks for every operation.
    """

    def __init__(
        self,
        requested_intermediates: Iterable[CompileIdentifiers] | None,
        callback: Callable[[list[NDArray | None], str, CompileIdentifiers], None],
        is_enabled: bool = True,
    ) -> None:
        self._requested = [] if requested_intermediates is None else list(requested_intermediates)
        self._ids = None if requested_intermediates is None else frozenset(each.id for each in self._requested)
        self._callback = callback
        self._is_enabled = is_enabled

    @property
    def is_enabled(self) -> bool:
        """Whether anything is given out."""
        return self._is_enabled

    @property
    def requested_intermediates(self) -> list[CompileIdentifiers]:
        """The operations that were asked for."""
        return list(self._requested)

    def _see(self, identifiers: CompileIdentifiers, arrays: Sequence[NDArray]) -> None:
        if self._is_enabled and (self._ids is None or identifiers.id in self._ids):
            self._callback(list(arrays), "output", identifiers)


class LogEvent:
    """One event of a profile."""

    __slots__ = ("compile_ids", "data", "event_id", "metadata", "phase", "timestamp")

    def __init__(
        self, timestamp: int, event_id: str, phase: str, data: str, metadata: dict[str, str], compile_ids: CompileIdentifiers
    ) -> None:
        self.timestamp = timestamp
        self.event_id = event_id
        self.phase = phase
        self.data = data
        self.metadata = metadata
        self.compile_ids = compile_ids

    @property
    def encoded_data(self) -> bytes | None:
        """The data as JSON."""
        return json.dumps({"event": self.event_id, "phase": self.phase, "data": self.data, "metadata": self.metadata}).encode()

    def __repr__(self) -> str:
        return f"LogEvent({self.phase} {self.event_id} at {self.timestamp} ns)"


class Profiler:
    """Receives timing events: phase ``"load"`` once per function, ``"inference"`` for every operation of a run.

    Timestamps are nanoseconds of a monotonic clock. What ``on_log_event_begin`` returns is handed to ``on_log_event_end``.
    """

    def __init__(
        self,
        on_log_event: Callable[[LogEvent], None] | None = None,
        on_log_event_begin: Callable[[LogEvent], int] | None = None,
        on_log_event_end: Callable[[LogEvent, int], None] | None = None,
    ) -> None:
        self._single = on_log_event
        self._begin = on_log_event_begin
        self._end = on_log_event_end

    def _interval(self, phase: str, name: str, data: str, identifiers: CompileIdentifiers, start: int, end: int) -> None:
        metadata = {"operation": name, "duration_ns": str(end - start)}
        number = 0
        if self._begin is not None:
            number = self._begin(LogEvent(start, name, phase, data, dict(metadata), identifiers))
        if self._end is not None:
            self._end(LogEvent(end, name, phase, data, dict(metadata), identifiers), number)
        if self._single is not None:
            self._single(LogEvent(end, name, phase, data, metadata, identifiers))


def make_trace(logger: IntermediateLogger | None, profiler: Profiler | None) -> Callable[..., None] | None:
    """What the library calls after every operation of a run."""
    if logger is None and profiler is None:
        return None

    def trace(step: int, operation: str, location: str, arrays: list[Any], seconds: float) -> None:
        end = time.monotonic_ns()
        identifiers = CompileIdentifiers(step, operation=operation, location=location)
        if profiler is not None:
            profiler._interval("inference", operation, location, identifiers, end - max(1, int(seconds * 1e9)), end)
        if logger is not None:
            logger._see(identifiers, arrays)

    return trace


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records what the module does within a ``with`` block, and writes it to a file for Chrome (about:tracing) and Perfetto.

    Loading, specializing, runs and the steps of generations are recorded, with the threads they ran on. One trace at a
    time. ``start_trace()`` and ``stop_trace(path)`` do the same by hand.
    """
    _native.start_trace()
    try:
        yield
    finally:
        _native.stop_trace(path)
