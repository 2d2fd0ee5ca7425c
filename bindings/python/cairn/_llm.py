"""Language models: prompts in, tokens and text out."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._ndarray import NDArray

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from typing_extensions import Self

Tokenizer = _native.Tokenizer


class ChatTemplate(_native.ChatTemplate):
    """A Jinja chat template as Hugging Face configures it: ``ChatTemplate(source)``."""

    __slots__ = ()

    def render(self, messages: Sequence[Mapping[str, Any]] = (), **variables: Any) -> str:
        """The text for a conversation; `variables` are those of the template (``add_generation_prompt``, ``tools``, …)."""
        return self._render(json.dumps({"messages": list(messages), **variables}))


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token, and the text that became certain with it. `token` is -1 for text that was held back."""

    index: int
    token: int
    text: str


@dataclass(frozen=True)
class Generation:
    """What a generation gave."""

    prompt_tokens: list[int]
    tokens: list[int]
    text: str
    stop_reason: str
    stop_text: str
    prefix_hit: int
    prefix_note: str
    prompt_form: str
    seed: int
    prefill_seconds: float
    prefill_tokens: int
    decode_seconds: float
    decode_tokens: int
    logits: list[tuple[int, NDArray]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return self.text


class TokenStream:
    """The tokens of a generation that goes on, one after another.

    The model runs on a thread of its own. ``close()``, leaving a ``with`` block, or dropping the stream ends it.
    ``result`` is the whole :class:`Generation` once the stream is exhausted or closed.
    """

    def __init__(self, llm: LLM, arguments: dict[str, Any]) -> None:
        self._queue: queue.SimpleQueue[Token | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._generation: Generation | None = None
        self._error: BaseException | None = None
        self._ended = False
        # The thread must not know the stream itself, or a dropped stream would never end.
        work = (llm, arguments, self._queue, self._closed, self.__dict__)
        self._thread = threading.Thread(target=self._work, args=work, daemon=True)
        self._thread.start()

    @staticmethod
    def _work(llm: LLM, arguments: dict[str, Any], out: Any, closed: threading.Event, box: dict[str, Any]) -> None:
        def on_token(index: int, token: int, text: str) -> bool:
            out.put(Token(index, token, text))
            return not closed.is_set()

        try:
            box["_generation"] = llm._run(on_token=on_token, should_cancel=closed.is_set, **arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised on the reader's thread
            box["_error"] = error
        finally:
            out.put(None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        if self._ended:
            raise StopIteration
        token = self._queue.get()
        if token is not None:
            return token
        self._ended = True
        self._thread.join()
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """Ends the generation and waits for it."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._ended = True

    @property
    def result(self) -> Generation:
        """The whole generation. RuntimeError while it goes on; raises what ended it, if anything did."""
        if not self._ended:
            message = "the generation goes on: read the stream to its end, or close it"
            raise RuntimeError(message)
        if self._error is not None:
            raise self._error
        if self._generation is None:
            message = "the generation gave no result"
            raise RuntimeError(message)
        return self._generation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        closed = self.__dict__.get("_closed")
        if closed is not None:
            closed.set()


class LLM(_native.LLM):
    """A language model: a bundle folder, an ``.aimodel`` folder (raw tokens only) or a ``.gguf`` file.

    One call at a time: a second one gets :class:`cairn.BusyError`. ``cancel()`` may be called from any thread.
    """

    __slots__ = ("__weakref__",)

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        engine: str | None = None,
        kv: str | None = None,
        kv_capacity: int = 0,
        prefill_chunk: int = 0,
        max_context: int = 0,
        allow_vocab_mismatch: bool = False,
        tokenizer: str | os.PathLike[str] | None = None,
        precision: str = "default",
        kv_page: int = 0,
        kv_window: int = 0,
        kv_sinks: int = 0,
        kv_type: str | None = None,
    ) -> Self:
        return super().__new__(
            cls,
            path,
            NDArray,
            engine,
            kv,
            kv_capacity,
            prefill_chunk,
            max_context,
            allow_vocab_mismatch,
            tokenizer,
            precision,
            kv_page,
            kv_window,
            kv_sinks,
            kv_type,
        )

    # --- prompts ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _conversation(
        messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any] | None
    ) -> str:
        conversation: dict[str, Any] = {"messages": list(messages), **(variables or {})}
        if tools is not None:
            conversation["tools"] = list(tools)
        return json.dumps(conversation)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **variables: Any
    ) -> str:
        """A conversation in the words of the model's chat template."""
        return self._render(self._conversation(messages, tools, variables))

    @classmethod
    def _prompt(
        cls,
        prompt: str | Sequence[int] | None,
        messages: Sequence[Mapping[str, Any]] | None,
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any] | None,
        form: str,
    ) -> dict[str, Any]:
        if (prompt is None) == (messages is None):
            message = "a prompt (text or token ids) or messages are needed, and not both"
            raise TypeError(message)
        if messages is not None:
            return {"conversation": cls._conversation(messages, tools, variables)}
        if isinstance(prompt, str):
            return {"text": prompt, "form": form}
        return {"tokens": prompt}

    # --- generation ---------------------------------------------------------------------------------------------------

    def _run(self, *, logits: bool = False, **arguments: Any) -> Generation:
        rows: list[tuple[int, NDArray]] = []
        if logits:
            given = arguments.get("on_logits")

            def keep(position: int, row: NDArray) -> None:
                rows.append((position, row))
                if given is not None:
                    given(position, row)

            arguments["on_logits"] = keep
        return Generation(**self._generate(**arguments), logits=rows)

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        form: str = "auto",
        max_tokens: int = -1,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int | None = None,
        repetition_penalty: float | None = None,
        repetition_window: int | None = None,
        stop: Sequence[str] | None = None,
        stop_ids: Sequence[int] | None = None,
        ignore_eos: bool = False,
        keep_special_tokens: bool = False,
        forced: Sequence[int] | None = None,
        logits: bool = False,
        prefill_logits: bool = False,
        on_token: Callable[[int, int, str], bool | None] | None = None,
        on_logits: Callable[[int, NDArray], None] | None = None,
        should_cancel: Callable[[], bool] | None = None,
    ) -> Generation:
        """Generates and returns when it is done.

        `prompt` is text or token ids; `messages` a conversation. `max_tokens` -1 goes on until the context is full.
        `temperature` 0 is greedy. With `logits` the rows of logits are kept in the result; `on_token` may return False
        to end the generation.
        """
        arguments = self._prompt(prompt, messages, tools, template_variables, form)
        if isinstance(stop, str):
            stop = [stop]
        return self._run(
            **arguments,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            seed=seed,
            repetition_penalty=repetition_penalty,
            repetition_window=repetition_window,
            stop=stop,
            stop_ids=stop_ids,
            ignore_eos=ignore_eos,
            keep_special_tokens=keep_special_tokens,
            forced=forced,
            logits=logits,
            prefill_logits=prefill_logits,
            on_token=on_token,
            on_logits=on_logits,
            should_cancel=should_cancel,
        )

    def stream(self, prompt: str | Sequence[int] | None = None, **options: Any) -> TokenStream:
        """Generates on a thread and gives the tokens as they come. Options as for :meth:`generate`."""
        return TokenStream(self, self._stream_arguments(prompt, options))

    def _stream_arguments(self, prompt: str | Sequence[int] | None, options: dict[str, Any]) -> dict[str, Any]:
        for name in ("on_token", "should_cancel"):
            if name in options:
                message = f"a stream has no {name}: read it, and close it to end it"
                raise TypeError(message)
        prompts = {name: options.pop(name, None) for name in ("messages", "tools", "template_variables")}
        form = options.pop("form", "auto")
        arguments = self._prompt(prompt, prompts["messages"], prompts["tools"], prompts["template_variables"], form)
        if isinstance(options.get("stop"), str):
            options["stop"] = [options["stop"]]
        return {**arguments, **options}

    async def agenerate(self, prompt: str | Sequence[int] | None = None, **options: Any) -> Generation:
        """As :meth:`generate`, beside the event loop. Cancelling the task ends the generation."""
        cancelled = threading.Event()
        given = options.pop("should_cancel", None)

        def should_cancel() -> bool:
            return cancelled.is_set() or bool(given is not None and given())

        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, lambda: self.generate(prompt, should_cancel=should_cancel, **options))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([work])
            raise

    async def astream(self, prompt: str | Sequence[int] | None = None, **options: Any) -> AsyncIterator[Token]:
        """As :meth:`stream`, for ``async for``."""
        loop = asyncio.get_running_loop()
        stream = self.stream(prompt, **options)
        try:
            while (token := await loop.run_in_executor(None, next, stream, None)) is not None:
                yield token
        finally:
            stream._closed.set()
            await loop.run_in_executor(None, stream.close)

    # --- one step at a time -------------------------------------------------------------------------------------------

    def forward(
        self, tokens: Sequence[int], *, positions: Sequence[int] | None = None, all_rows: bool = False
    ) -> list[tuple[int, NDArray]]:
        """Feeds tokens after those of the history; (position, row of logits) of the last token, or of all."""
        rows: list[tuple[int, NDArray]] = []
        self._forward(tokens, lambda position, row: rows.append((position, row)), positions, all_rows)
        return rows

