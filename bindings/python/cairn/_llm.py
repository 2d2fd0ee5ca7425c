"""Language models: prompts in, tokens and text out."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from cairn import _native
from cairn._batch import Batch
from cairn._errors import BusyError
from cairn._generation import Generation, Rows, Token, conversation, prepare
from cairn._ndarray import NDArray, as_ndarray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

Tokenizer = _native.Tokenizer


class ChatTemplate(_native.ChatTemplate):
    """A Jinja chat template as Hugging Face configures it: ``ChatTemplate(source)``."""

    __slots__ = ()

    def render(self, messages: Sequence[Mapping[str, Any]] = (), **variables: Any) -> str:
        """The text for a conversation; `variables` are those of the template (``add_generation_prompt``, ``tools``, …)."""
        return self._render(json.dumps({"messages": list(messages), **variables}))


class TokenStream:
    """The tokens of a generation that goes on, one after another.

    The model runs on a thread of its own. ``close()``, leaving a ``with`` block, or dropping the stream (as leaving a loop
    over it does) ends it, and waits for that: the model is free for the next call then. So does an exception while the
    stream waits for a token, Ctrl-C among them. ``result`` is the whole :class:`Generation` once the stream is exhausted
    or closed.
    """

    def __init__(self, llm: LLM, arguments: dict[str, Any], rows: Rows) -> None:
        self._queue: queue.SimpleQueue[Token | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._generation: Generation | None = None
        self._error: BaseException | None = None
        self._ended = False
        # The thread must not know the stream itself, or a dropped stream would never end.
        work = (llm, arguments, rows, self._queue, self._closed, self.__dict__)
        self._thread = threading.Thread(target=self._work, args=work, daemon=True)
        self._thread.start()

    @staticmethod
    def _work(
        llm: LLM, arguments: dict[str, Any], rows: Rows, out: Any, closed: threading.Event, box: dict[str, Any]
    ) -> None:
        def on_token(index: int, token: int, text: str) -> bool:
            out.put(Token(index, token, text, rows.last_logprob() if token >= 0 else None))
            return not closed.is_set()

        try:
            box["_generation"] = rows.result(llm._generate(on_token=on_token, should_cancel=closed.is_set, **arguments))
        except BaseException as error:  # noqa: BLE001 - it is raised on the reader's thread
            box["_error"] = error
        finally:
            out.put(None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        if self._ended:
            raise StopIteration
        try:
            token = self._queue.get()
        except BaseException:  # Ctrl-C
            self.close()
            raise
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
        if "_thread" in self.__dict__:
            self._drop()

    def _drop(self) -> None:
        # At the end of the program other threads stand still: there is nobody to wait for.
        if sys.is_finalizing():
            self._closed.set()
        else:
            self.close()


class AsyncTokenStream:
    """The tokens of a generation for ``async for``. It begins with the first one; dropping it ends it, as does ``aclose()``."""

    def __init__(self, begin: Callable[[], TokenStream]) -> None:
        self._begin = begin
        self._stream: TokenStream | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Token:
        if self._ended:
            raise StopAsyncIteration
        if self._stream is None:
            self._stream = self._begin()
        try:
            token = await asyncio.get_running_loop().run_in_executor(None, next, self._stream, None)
        except BaseException:
            await self.aclose()
            raise
        if token is None:
            self._ended = True
            raise StopAsyncIteration
        return token

    async def aclose(self) -> None:
        """Ends the generation and waits for it."""
        self._ended = True
        if self._stream is not None:
            self._stream._closed.set()
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._stream.close))

    def __del__(self) -> None:
        # Not left to the stream: the thread that fetched the last token may still know it for a moment.
        if self.__dict__.get("_stream") is not None:
            self._stream._drop()


def _check_opening(options: dict[str, Any]) -> None:
    """An option that would be left out in silence is refused by name."""
    kv, paged = options.get("kv"), ("paged", "chunked")
    for name, is_there, what in (
        ("pipeline_depth", options.get("engine") == "pipelined", 'engine="pipelined"'),
        ("kv_page", kv in paged, 'kv="paged" or "chunked"'),
        ("kv_type", kv in paged, 'kv="paged" or "chunked"'),
        ("kv_window", kv == "chunked", 'kv="chunked"'),
        ("kv_sinks", kv == "chunked", 'kv="chunked"'),
        ("prompt_cache_bytes", options.get("prompt_cache") is not None, "prompt_cache"),
    ):
        if not is_there and options.get(name) not in (None, 0, "auto"):
            message = f"{name} belongs to {what}"
            raise TypeError(message)


def _open_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model as the C part takes them."""
    options = dict(options)
    _check_opening(options)
    for name in ("tokenizer", "prompt_cache"):
        if options.get(name) is not None:
            options[name] = os.fsencode(options[name])
    tables = options.get("token_tables")
    if tables is not None:
        options["token_tables"] = {name: as_ndarray(NDArray, name, "token_tables", table) for name, table in tables.items()}
    return options


class LLM(_native.LLM):
    """A sequence of a language model: a bundle folder, an ``.aimodel`` folder (raw tokens only) or a ``.gguf`` file.

    Further sequences share the weights: :meth:`create_sequence`, :meth:`fork`. The model lives as long as any of them; each
    is closed by :meth:`close`, by leaving a ``with`` block, or when it is dropped. One call at a time: a second one gets
    :class:`cairn.BusyError`, or waits with ``when_busy="wait"``. ``cancel()`` may be called from any thread.

    `engine` is ``"auto"``, ``"sequential"``, ``"pipelined"`` (of `pipeline_depth`) or ``"static-shape"``; `kv` is ``"auto"``,
    ``"fixed"``, ``"growing"``, ``"paged"`` (pages of `kv_page` rows) or ``"chunked"`` (a window of `kv_window` tokens, the
    first `kv_sinks` among them); `kv_type` ``"int8"`` stores rows in a byte an element. `prompt_cache` is a folder where prompts are
    kept for any process, `prefix_bytes` memory in which sequences of the model are kept for others. 0 is the default of all
    numbers.
    """

    __slots__ = ("__weakref__",)

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        engine: str | None = None,
        pipeline_depth: int = 0,
        kv: str | None = None,
        kv_capacity: int = 0,
        kv_page: int = 0,
        kv_window: int = 0,
        kv_sinks: int = 0,
        kv_type: str | None = None,
        prefill_chunk: int = 0,
        max_context: int = 0,
        precision: str = "default",
        tokenizer: str | os.PathLike[str] | None = None,
        token_tables: Mapping[str, Any] | None = None,
        allow_vocab_mismatch: bool = False,
        when_busy: str = "error",
        prompt_cache: str | os.PathLike[str] | None = None,
        prompt_cache_bytes: int = 0,
        prefix_bytes: int = 0,
        snapshot_interval: int = 0,
        max_snapshots: int = 0,
        snapshot_bytes: int = 0,
    ) -> Self:
        options = locals()
        options = {name: value for name, value in options.items() if name not in ("cls", "path", "__class__")}
        return super().__new__(cls, path, NDArray, **_open_options(options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        try:
            self.close()
        except BusyError:
            # What went wrong in the block matters more; the sequence ends with the call that uses it.
            if kind is None:
                raise

    def create_batch(self, **options: Any) -> Batch:
        """A :class:`Batch` of sequences of the model. Options as for the class."""
        return Batch(self, **options)

    # --- prompts ------------------------------------------------------------------------------------------------------

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **variables: Any
    ) -> str:
        """A conversation in the words of the model's chat template."""
        return self._render(conversation(messages, tools, variables))

    # --- generation ---------------------------------------------------------------------------------------------------

    def _prepare(self, prompt: str | Sequence[int] | None, options: dict[str, Any]) -> tuple[dict[str, Any], Rows]:
        known = type(self).generate.__kwdefaults__ or {}
        for name in options:
            if name not in known:
                message = f"there is no option {name!r}"
                raise TypeError(message)
        return prepare(self.tokenizer, prompt, options)

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        form: str = "auto",
        images: Sequence[Any] | None = None,
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
        shown_special_tokens: Sequence[str] | None = None,
        forced: Sequence[int] | None = None,
        json_schema: Mapping[str, Any] | bool | str | None = None,
        regex: str | None = None,
        grammar: str | None = None,
        any_json: bool = False,
        compact_json: bool = False,
        overflow: str | Callable[[list[int], int], Sequence[int] | str] = "refuse",
        overflow_sinks: int = 0,
        overflow_margin: int = 0,
        speculate: str | None = None,
        draft: LLM | None = None,
        max_draft: int = 0,
        always_draft: bool = False,
        logprobs: bool = False,
        top_logprobs: int | None = None,
        logits: bool = False,
        prefill_logits: bool = False,
        first_logits: bool = False,
        on_token: Callable[[int, int, str], bool | None] | None = None,
        on_logits: Callable[[int, NDArray], None] | None = None,
        should_cancel: Callable[[], bool] | None = None,
    ) -> Generation:
        """Generates and returns when it is done.

        Prompt: `prompt` is text or token ids; `messages` a conversation. `images` are files, images of Pillow, arrays
        [height, width, 3] of uint8, or pixel values [1, 3, size, size] of float32.

        Choice: `temperature` 0 is greedy. `forced` tokens are fed instead of chosen ones. One of `json_schema` (a dict, or
        text), `regex`, `grammar` (EBNF, GBNF) and `any_json` keeps the text to a grammar. `speculate` is ``"auto"``,
        ``"lookup"`` or, with the smaller model `draft`, ``"draft"``: the tokens are the same.

        End: `max_tokens` -1 goes on until the context is full. Then `overflow` ``"slide"`` drops the oldest tokens behind
        the first `overflow_sinks` (0 = 4, negative = none), and a function ``overflow(tokens, most)`` gives what to go on
        from: at most so many ids, or text. `on_token` may return False to end the generation.

        Result: `logprobs` keeps the log-probability of each token, `top_logprobs` those of the best few, `logits` whole
        rows; `first_logits` and `prefill_logits` add the row behind the prompt, and those of the prompt.
        """
        options = locals()
        options = {name: value for name, value in options.items() if name not in ("self", "prompt")}
        arguments, rows = self._prepare(prompt, options)
        return rows.result(self._generate(**arguments))

    def stream(self, prompt: str | Sequence[int] | None = None, **options: Any) -> TokenStream:
        """Generates on a thread and gives the tokens as they come. Options as for :meth:`generate`."""
        for name in ("on_token", "should_cancel"):
            if name in options:
                message = f"a stream has no {name}: read it, and close it to end it"
                raise TypeError(message)
        return TokenStream(self, *self._prepare(prompt, options))

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

    def astream(self, prompt: str | Sequence[int] | None = None, **options: Any) -> AsyncTokenStream:
        """As :meth:`stream`, for ``async for``."""
        return AsyncTokenStream(lambda: self.stream(prompt, **options))

    # --- one step at a time -------------------------------------------------------------------------------------------

    def forward(
        self, tokens: Sequence[int], *, positions: Sequence[int] | None = None, all_rows: bool = False
    ) -> list[tuple[int, NDArray]]:
        """Feeds tokens after those of the history; (position, row of logits) of the last token, or of all."""
        rows: list[tuple[int, NDArray]] = []
        self._forward(tokens, lambda position, row: rows.append((position, row)), positions, all_rows)
        return rows


class LLMLoader(_native.Loader):
    """A model that is loaded when a sequence of it is first borrowed, and may be given up and loaded again.

    Loaders of one path with equal options share the model. Options as for :class:`LLM`; with `eager` it is loaded now.
    """

    __slots__ = ("__weakref__",)

    def __new__(cls, path: str | os.PathLike[str], *, eager: bool = False, **options: Any) -> Self:
        return super().__new__(cls, path, eager=eager, **_open_options(options))

    def borrow(self) -> LLM:
        """An empty sequence of the model, to be closed as any other. Whoever comes while it is loaded waits for that."""
        llm: LLM = self._borrow(LLM, NDArray)
        return llm
