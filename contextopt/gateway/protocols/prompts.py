"""A prompt, as far as the gateway reads it, in any protocol."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from contextopt.gateway.protocols.jsonspans import Span

# Values under these names are not text for the model, or are images or files of unknown token size.
_NO_TEXT = frozenset({
    "type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "data", "url", "image_url", "file_data",
    "file_id", "signature", "encrypted_content", "media_type", "status", "detail", "format", "cache_control",
})  # fmt: skip


class UnreadablePromptError(Exception):
    """The request is not the protocol's JSON. It is forwarded unchanged."""


class TooLargeError(Exception):
    """The request has too many values or too much text to be read in time. It is forwarded unchanged."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a block can be spliced in, and the JSON around it there.

    `gap` separates it from text before it, inside the same string.
    """

    at: int
    before: bytes = b""
    after: bytes = b""
    gap: str = ""

    def splice(self, block: str) -> "Splice":
        text = self.gap + (block.rstrip("\n") if self.gap else block)
        return Splice(self.at, self.before + json.dumps(text, ensure_ascii=False)[1:-1].encode() + self.after)


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes to put in front of the byte at `at`."""

    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's text, the place for a block before it, and the item of the prompt that it is in."""

    text: str
    slot: Slot
    item: int

    @property
    def digest(self) -> str:
        return blake2b(self.text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result with the name of the call that it answers. `part` is its number in the content of its message,
    or None if it is the whole item.
    """

    call: str
    text: str
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A message or another entry of the prompt's list, with the texts that the model reads.

    `calls` are the names of the calls of tools in it, `parts` the spans of its content's parts if results are
    among them.
    """

    span: Span
    text: str
    is_system: bool = False
    is_tool_result: bool = False
    calls: tuple[str, ...] = ()
    results: tuple[ToolResult, ...] = ()
    parts: tuple[Span, ...] = ()


class Answered(NamedTuple):
    """A tool's result in an item, and the item of its call, which may be the same. None without a call."""

    result: ToolResult
    item: int
    call: int | None


@dataclass(frozen=True)
class Prompt:
    """A prompt: its settings, the system prompt, and everything said, oldest first.

    `system` and `tools` are texts outside of the items. `system_slot` is None if nothing can be inserted
    into the system prompt. A prompt that continues a stored answer shows none of the earlier turns.
    """

    model: str
    is_streamed: bool
    system: str
    tools: str
    system_slot: Slot | None
    items: tuple[Item, ...]
    turns: tuple[Turn, ...]
    continues: bool = False

    @cached_property
    def ends_in_tool_results(self) -> bool:
        """Whether the model called tools since the last user text, and this prompt brings their results."""
        last = self.turns[-1].item if self.turns else -1
        return any(item.is_tool_result for item in self.items[last + 1 :])

    @cached_property
    def answered(self) -> tuple[Answered, ...]:
        """The results of tools, each with the latest call of its name before it.

        A call without a name may be that of any result whose name is unknown, unless the provider may have
        stored that one's.
        """
        latest: dict[str, int] = {}
        found = []
        for number, item in enumerate(self.items):
            latest |= dict.fromkeys(item.calls, number)
            unnamed = None if self.continues else latest.get("")
            found += [Answered(result, number, latest.get(result.call, unnamed)) for result in item.results]
        return tuple(found)

    @cached_property
    def system_text(self) -> str:
        """Everything that instructs the model."""
        return self._system_text(len(self.items))

    @cached_property
    def first_system_text(self) -> str:
        """The instructions before the first user text, to recognise a conversation by."""
        return self._system_text(self.turns[0].item if self.turns else len(self.items))

    def _system_text(self, end: int) -> str:
        return "\n".join([self.system, *(item.text for item in self.items[:end] if item.is_system)])

    @cached_property
    def first_text(self) -> str:
        """The text of the first message with a user's text."""
        return self.items[self.turns[0].item].text if self.turns and self.items else ""


def text_in(value: Any) -> str:
    """Return the texts in a part of a prompt that the model reads, one per line."""
    return "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            yield from _all(value)
        case dict():
            yield from _all(inner for name, inner in value.items() if name not in _NO_TEXT)


def _all(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)


def as_text(value: Any) -> str:
    """Return the value if it is a text."""
    return value if isinstance(value, str) else ""


def as_json(request: Mapping[str, Any], name: str) -> str:
    """Return a part as the JSON that its tokens are counted in, or nothing without it."""
    return json.dumps(request[name], ensure_ascii=False) if request.get(name) else ""
