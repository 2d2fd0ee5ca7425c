"""Generations: what goes in and what comes out, for sequences alone and in batches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cairn import _native
from cairn._ndarray import NDArray, as_ndarray

_GUIDES = {"json_schema": "json_schema", "regex": "regex", "grammar": "ebnf", "any_json": "json"}


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token, and the text that became certain with it. `token` is -1 for text that was held back.

    `logprob` is there when ``logprobs`` or ``top_logprobs`` were asked for.
    """

    index: int
    token: int
    text: str
    logprob: float | None = None


@dataclass(frozen=True)
class Generation:
    """What a generation gave."""

    prompt_tokens: list[int]
    tokens: list[int]
    text: str
    stop_reason: str
    stop_text: str
    engine: str  #: that ran it
    prompt_form: str
    seed: int
    prefix_hit: int  #: tokens of the prompt that were not computed again ...
    prefix_from_memory: int  #: ... of these the ones that another sequence left in memory
    prefix_from_disk: int  #: ... and those of the prompt cache
    prefix_note: str
    overflow: str  #: what happened when the context was full: "none", "slide", "summarise"
    n_overflows: int
    overflow_dropped: int
    overflow_fed: int
    prefill_seconds: float
    prefill_tokens: int
    decode_seconds: float
    decode_tokens: int
    decode_runs: int
    speculates: bool
    drafted_tokens: int
    accepted_tokens: int
    speculation_note: str
    guided: bool
    guide_complete: bool
    mask_seconds: float
    mask_wait_seconds: float
    logits: list[tuple[int, NDArray]] = field(default_factory=list, repr=False)
    logprobs: list[float] = field(default_factory=list, repr=False)  #: of `tokens`, one each
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def time_to_first_token(self) -> float:
        """Seconds from the call to the choice of the first token."""
        return self.prefill_seconds

    @property
    def tokens_per_second(self) -> float:
        """Tokens fed after the prompt for each second of that; 0 when there were none."""
        return self.decode_tokens / self.decode_seconds if self.decode_tokens and self.decode_seconds > 0 else 0.0

    def json(self) -> Any:
        """The text as JSON, for one that was guided. ValueError when it is none, e.g. because it was cut off."""
        return json.loads(self.text)


@dataclass
class Rows:
    """What is collected while a generation goes on, for its result."""

    logits: list[tuple[int, NDArray]] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    wants_logprobs: bool = False

    def result(self, facts: dict[str, Any]) -> Generation:
        """The generation with these facts."""
        return Generation(**facts, logits=self.logits, logprobs=self.logprobs, top_logprobs=self.top_logprobs)

    def last_logprob(self) -> float | None:
        """Of the token that was generated last."""
        return self.logprobs[-1] if self.wants_logprobs and self.logprobs else None


# --- prompts ----------------------------------------------------------------------------------------------------------


def conversation(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any] | None
) -> str:
    """A conversation as the library takes it."""
    values: dict[str, Any] = {"messages": list(messages), **({} if variables is None else variables)}
    if tools is not None:
        values["tools"] = list(tools)
    return json.dumps(values)


# Options that mean nothing without another one: whether that is there, and its words.
_BELONGS: tuple[tuple[tuple[str, ...], Callable[[Any, dict[str, Any]], bool], str], ...] = (
    (("form",), lambda prompt, _: isinstance(prompt, str), "a prompt that is text"),
    (("tools", "template_variables"), lambda _, o: o.get("messages") is not None, "messages"),
    (("stop", "stop_ids"), lambda _, o: o.get("forced") is None, "tokens that are chosen, not forced"),
    (("repetition_window",), lambda _, o: o.get("repetition_penalty") is not None, "repetition_penalty"),
    (
        ("compact_json",),
        lambda _, o: o.get("json_schema") is not None or bool(o.get("any_json")),
        "json_schema or any_json",
    ),
    (
        ("overflow_sinks", "overflow_margin"),
        lambda _, o: o.get("overflow") not in (None, "refuse"),
        'overflow="slide" or a function',
    ),
    (
        ("max_draft", "always_draft"),
        lambda _, o: o.get("draft") is not None or o.get("speculate") not in (None, "off"),
        "speculate or draft",
    ),
    (
        ("prefill_logits", "first_logits"),
        lambda _, o: o.get("on_logits") is not None or bool(o.get("logits")),
        "logits or on_logits",
    ),
)


def _is_said(value: Any) -> bool:
    """Whether the value of such an option says anything."""
    if isinstance(value, (bool, int, str)):
        return value not in (0, "auto")
    return value is not None and not (isinstance(value, (list, tuple, dict)) and not value)


def _check_belongings(prompt: str | Sequence[int] | None, options: dict[str, Any]) -> None:
    """An option that would be left out in silence, or taken for another value than it says, is refused by name."""
    for name in ("logits", "logprobs", "any_json"):
        if isinstance(options.get(name), (str, bytes)):
            message = f"{name}: True or False expected, not {options[name]!r}"
            raise TypeError(message)
    for names, is_there, what in _BELONGS:
        for name in names:
            if _is_said(options.get(name)) and not is_there(prompt, options):
                message = f"{name} belongs to {what}"
                raise TypeError(message)


def _prompt(prompt: str | Sequence[int] | None, options: dict[str, Any]) -> dict[str, Any]:
    messages, tools, variables = (options.pop(name, None) for name in ("messages", "tools", "template_variables"))
    form = options.pop("form", None)
    if (prompt is None) == (messages is None):
        message = "a prompt (text or token ids) or messages are needed, and not both"
        raise TypeError(message)
    if messages is not None:
        return {"conversation": conversation(messages, tools, variables)}
    if isinstance(prompt, str):
        return {"text": prompt, "form": form}
    return {"tokens": prompt}


def _image(value: Any) -> tuple[str, Any]:
    if isinstance(value, (str, bytes, os.PathLike)):
        return "path", os.fsencode(value)
    if hasattr(value, "convert") and hasattr(value, "tobytes"):  # of Pillow
        pixels = value.convert("RGB")
        width, height = pixels.size
        value = memoryview(bytearray(pixels.tobytes())).cast("B", (height, width, 3))
    array = as_ndarray(NDArray, "images", "input", value)
    return "rgb" if array.dtype == "uint8" else "pixel_values", array if array.is_contiguous else array.copy()


# --- the other options ------------------------------------------------------------------------------------------------


def guide(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the words for a grammar out of `options`."""
    given = {name: value for name in _GUIDES if (value := options.pop(name, None)) is not None}
    # Only this one is a switch: as a schema, False is one that nothing fulfils.
    if not given.get("any_json", True):
        del given["any_json"]
    compact = options.pop("compact_json", False)
    if len(given) > 1:
        message = f"only one of {', '.join(given)} can be given"
        raise TypeError(message)
    if not given:
        return {}
    ((name, value),) = given.items()
    if name == "any_json":
        value = ""
    elif not isinstance(value, str):
        if name != "json_schema":
            message = f"{name}: text expected, not {type(value).__name__}"
            raise TypeError(message)
        value = json.dumps(value)
    return {"guide_kind": _GUIDES[name], "guide": value, "compact_json": compact}


def check_guide(
    *,
    json_schema: Mapping[str, Any] | bool | str | None = None,
    regex: str | None = None,
    grammar: str | None = None,
    any_json: bool = False,
    compact_json: bool = False,
) -> None:
    """Reads a grammar as a generation would; raises when it is broken, or when something of it cannot be kept."""
    found = guide(
        {"json_schema": json_schema, "regex": regex, "grammar": grammar, "any_json": any_json, "compact_json": compact_json}
    )
    if not found:
        message = "a grammar is needed: json_schema, regex, grammar or any_json"
        raise TypeError(message)
    _native.check_guide(found["guide_kind"], found["guide"], bool(found["compact_json"]))


def _summarise(tokenizer: _native.Tokenizer | None, given: Callable[[list[int], int], Any]) -> Callable[[list[int], int], Any]:
    def summarise(tokens: list[int], most: int) -> Any:
        result = given(tokens, most)
        if not isinstance(result, str):
            return result
        if tokenizer is None:
            message = "the overflow function gave text, but the model has no tokenizer"
            raise TypeError(message)
        return tokenizer.encode(result)

    return summarise


def _overflow(tokenizer: _native.Tokenizer | None, value: Any) -> dict[str, Any]:
    if callable(value):
        return {"overflow": "summarise", "summarise": _summarise(tokenizer, value)}
    if value == "summarise":
        message = 'overflow: "refuse", "slide" or a function that gives what to go on from'
        raise TypeError(message)
    return {"overflow": value}


def _speculation(options: dict[str, Any]) -> dict[str, Any]:
    how, draft = options.pop("speculate", None), options.pop("draft", None)
    if how is None:
        how = "draft" if draft is not None else "off"
    if draft is None and how == "draft":
        message = 'speculate="draft" needs a draft model: draft=LLM(...)'
        raise TypeError(message)
    return {"speculation": how, "draft": draft}


def _rows(options: dict[str, Any]) -> Rows:
    rows = Rows()
    logprobs, top = options.pop("logprobs", False), options.pop("top_logprobs", None)
    if logprobs or top is not None:
        options["logprobs"] = rows.logprobs
        rows.wants_logprobs = True
    if top is not None:
        options["top_logprobs"], options["n_top"] = rows.top_logprobs, top
    if options.pop("logits", False):
        given = options.get("on_logits")

        def keep(position: int, row: NDArray) -> None:
            rows.logits.append((position, row))
            if given is not None:
                given(position, row)

        options["on_logits"] = keep
    return rows


def prepare(
    tokenizer: _native.Tokenizer | None, prompt: str | Sequence[int] | None, options: dict[str, Any]
) -> tuple[dict[str, Any], Rows]:
    """The options of a generation as the C part takes them, and what is collected while it goes on."""
    options = dict(options)
    _check_belongings(prompt, options)
    options |= _prompt(prompt, options)
    options |= guide(options)
    options |= _overflow(tokenizer, options.pop("overflow", None))
    options |= _speculation(options)
    for name in ("stop", "shown_special_tokens"):
        if isinstance(options.get(name), str):
            options[name] = [options[name]]
    if options.get("images") is not None:
        options["images"] = [_image(value) for value in options["images"]]
    return options, _rows(options)
