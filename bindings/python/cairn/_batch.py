"""Batches: many generations on one model at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._errors import Status, fail
from cairn._generation import Generation, Rows, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from cairn._llm import LLM


@dataclass(frozen=True, slots=True)
class BatchStep:
    """What a step of a batch did, and what there is behind it."""

    n_waiting: int  #: sequences without states yet
    n_prompting: int  #: whose prompt is being computed
    n_generating: int  #: which have given a token, and go on
    n_active: int  #: all of these: 0 = there is nothing left to do
    n_ended: int  #: whose result was not taken yet
    prompt_tokens: int  #: computed by the step
    tokens: int  #: given out by the step
    draft_tokens: int  #: computed by the step beside those that were certain
    budget: int  #: tokens of prompts the next step may compute
    seconds: float


class BatchMember:
    """One generation of a batch: what :meth:`Batch.join` gives."""

    __slots__ = ("__weakref__", "_batch", "_error", "_generation", "_id", "_rows")

    def __init__(self, batch: Batch, identifier: int, rows: Rows) -> None:
        self._batch = batch
        self._id = identifier
        self._rows = rows
        self._generation: Generation | None = None
        self._error: BaseException | None = None

    @property
    def id(self) -> int:
        """The number of the sequence in its batch."""
        return self._id

    @property
    def ended(self) -> bool:
        """Whether there is a result."""
        return self._generation is not None or self._error is not None or self._batch._has_ended(self._id)

    def cancel(self) -> None:
        """Ends the generation as cancelled with the next step. Nothing happens when it has ended."""
        if self._generation is None and self._error is None:
            self._batch._cancel(self._id)

    def leave(self) -> None:
        """Ends the generation with the next step, and throws its result away. Nothing happens when that was taken."""
        if self._generation is not None or self._error is not None:
            return
        self._batch._cancel(self._id)
        self._batch._leaving.append(self._id)
        self._error = fail(Status.FAILED_PRECONDITION, f"sequence {self._id} has left the batch: there is no result of it")

    def result(self) -> Generation:
        """What the generation gave; FailedPreconditionError while it goes on, and when it left. Raises what ended it, if anything did."""
        if self._generation is None and self._error is None:
            if not self._batch._has_ended(self._id):
                raise fail(Status.FAILED_PRECONDITION, f"sequence {self._id} has not ended yet: step or run the batch")
            try:
                self._generation = self._rows.result(self._batch._take(self._id))
            except BaseException as error:
                self._error = error
                raise
        if self._error is not None:
            raise self._error
        return self._generation  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<cairn.BatchMember {self._id}>"


class Batch(_native.Batch):
    """Many generations on the model of `llm`, which itself is not used and may be closed.

    A step computes the next token of every sequence that is generating, and some tokens of prompts that wait. Sequences
    join and leave at any time, from any thread and from callbacks; one step at a time. `max_sequences` (0 = 16) have states
    at once, further ones wait. A step takes `max_step_seconds` (0 = 0.1) while sequences are generating, or computes
    `max_step_tokens` of prompts. Without `sharing` prompts are computed from their first token even when another one begins
    alike. The callbacks of a sequence come from the step; what they raise is raised by its :meth:`BatchMember.result`.
    """

    __slots__ = ("__weakref__", "_leaving", "_tokenizer")
    _leaving: list[int]
    _tokenizer: _native.Tokenizer | None

    def __new__(
        cls,
        llm: LLM,
        *,
        max_sequences: int = 0,
        max_step_seconds: float = 0.0,
        max_step_tokens: int = 0,
        sharing: bool = True,
    ) -> Self:
        self = super().__new__(cls, llm, max_sequences, max_step_seconds, max_step_tokens, sharing)
        self._leaving = []
        self._tokenizer = llm.tokenizer
        return self

    def join(self, prompt: str | Sequence[int] | None = None, **options: Any) -> BatchMember:
        """Adds a sequence, which takes part from the next step on. Options as for :meth:`LLM.generate`."""
        arguments, rows = prepare(self._tokenizer, prompt, options)
        return BatchMember(self, self._join(**arguments), rows)

    def _forget_those_that_left(self) -> None:
        waiting, self._leaving = self._leaving, []
        for identifier in waiting:
            if not self._has_ended(identifier):
                self._leaving.append(identifier)
                continue
            try:
                self._take(identifier)
            except Exception:  # noqa: BLE001, S110 - nobody wants to know how it ended
                pass

    def step(self) -> BatchStep:
        """Does one step. A sequence that fails ends, and does not disturb the others."""
        facts = self._step()
        self._forget_those_that_left()
        return BatchStep(**facts)

    def run(self) -> None:
        """Steps until no sequence is left. Ctrl-C ends it between two steps; nothing is lost, it may be called again."""
        try:
            self._run()
        finally:
            self._forget_those_that_left()

    async def arun(self) -> None:
        """As :meth:`run`, beside the event loop. Cancelling the task ends it between two steps."""
        loop = asyncio.get_running_loop()
        while True:
            work = loop.run_in_executor(None, self.step)
            try:
                step = await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait([work])
                raise
            if not step.n_active:
                return

    def as_ended(self, members: Sequence[BatchMember]) -> Iterator[BatchMember]:
        """Steps, and gives each of `members` when it has ended."""
        left = list(members)
        while left:
            ended = [member for member in left if member.ended]
            left = [member for member in left if member not in ended]
            yield from ended
            if left and not ended:
                self.step()

    def generate(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[Generation]:
        """Joins all prompts with the same options, runs, and gives their results in order."""
        members = [self.join(prompt, **options) for prompt in prompts]
        self.run()
        return [member.result() for member in members]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
