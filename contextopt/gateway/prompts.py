"""A prompt, as far as the gateway reads it in any protocol: what is said in it, how many tokens that has, and
where its history can be cut.

The oldest turns are cut out, but never a tool's result without its call or a call without its result. A turn
is a user's text with everything up to the next one. The results that stand before a text in the same message
belong to the turn before it, whose calls they answer.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from contextopt.engine.text.tokens import Tokenizer, get_tokenizer

# Counts are remembered, since each prompt repeats its conversation's texts. Counting a text of fewer
# characters is as fast as looking it up.
COUNTS_MAX = 10_000
COUNTED_LEAST_CHARS = 200

_counts: OrderedDict[bytes, int] = OrderedDict()
_lock = threading.Lock()


class UnreadablePromptError(Exception):
    """The request is not the protocol's JSON. It is forwarded unchanged."""


class TooLargeError(Exception):
    """The request has too many values or too much text to be read in time. It is forwarded unchanged."""


class Span(NamedTuple):
    """A part of the bytes: its first byte, and the byte after its last."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a block can be spliced in, and the JSON around it there.

    `gap` separates it from text before it, inside the same string. `end` closes what `before` opens.
    """

    at: int
    before: bytes = b""
    after: bytes = b""
    gap: str = ""
    end: "Splice | None" = None

    def splices(self, block: str) -> list["Splice"]:
        text = self.gap + (block.rstrip("\n") if self.gap else block)
        data = self.before + json.dumps(text, ensure_ascii=False)[1:-1].encode() + self.after
        return [Splice(self.at, data), *([self.end] if self.end else [])]


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes to put in front of the byte at `at`."""

    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's text, the places for a block before it, and the item of the prompt that it is in.

    A block stands in the same string as the text, at `in_text`, or in a content part before it, at
    `own_part`. Clients send one text as a string now and as a part later. `is_part` is how it came now.
    """

    text: str
    in_text: Slot
    own_part: Slot | None
    item: int
    is_part: bool = False

    def slot(self, *, is_own_part: bool) -> Slot:
        """Return the place of a block, in the given structure if there is one."""
        return self.own_part if is_own_part and self.own_part else self.in_text

    @property
    def digest(self) -> str:
        """Its hash, without the spaces around it, which clients sometimes change."""
        return blake2b(self.text.strip().encode(errors="surrogatepass"), digest_size=16).hexdigest()


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
    into the system prompt. `added` are the numbers of the items that hold only text of a client. A prompt
    that continues a stored answer shows none of the earlier turns. `answer_tokens` is the limit for its
    answer, if it has one. If it `is_text_alone`, it has neither tools nor images, files, or formats of
    answers, which have tokens of their own.
    """

    model: str
    is_streamed: bool
    system: str
    tools: str
    system_slot: Slot | None
    items: tuple[Item, ...]
    turns: tuple[Turn, ...]
    added: frozenset[int] = frozenset()
    continues: bool = False
    answer_tokens: int | None = None
    is_text_alone: bool = False

    @property
    def texts(self) -> list[str]:
        """Everything that is said in it."""
        return [self.system_text(), *(item.text for item in self.items if not item.is_system)]

    @cached_property
    def ends_in_tool_results(self) -> bool:
        """Whether the model called tools since the last user text, and this prompt brings their results."""
        return any(item.is_tool_result for item in self.items[self._last + 1 :])

    @property
    def goes_on(self) -> bool:
        """Whether this prompt has no new question: only results of tools, or texts that a client added, came
        since the last user text.
        """
        return self.ends_in_tool_results or max(self.added, default=-1) > self._last

    @property
    def _last(self) -> int:
        """The item of the last user text, -1 if there is none."""
        return self.turns[-1].item if self.turns else -1

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

    def system_text(self, end: int | None = None) -> str:
        """Return everything that instructs the model, up to this item if one is given."""
        return "\n".join([self.system, *(item.text for item in self.items[:end] if item.is_system)])


def cut_history(prompt: Prompt, limit: int, count: Callable[[str], int], held: int = 0) -> int:
    """Return the turn that the history begins with if it may have at most `limit` tokens. 0 cuts nothing.

    The system prompt and the last turn always stay. An earlier cut, at turn `held`, stays until its rest is
    over the limit. Then the history is cut to half of the limit, since each cut makes the rest of the prompt
    new for the provider's cache.
    """
    sizes = _sizes(prompt, count)[: prompt.turns[-1].item]
    by_item = [*accumulate(reversed(sizes), initial=0)][::-1]
    # The tokens of the history if it begins with the first turn, with the second, and so on.
    left = [by_item[_border(prompt, turn)] for turn in range(len(prompt.turns))]
    latest = latest_cut(prompt)
    held = min(held, latest)
    if left[0] <= limit:
        return 0
    if left[held] <= limit:
        return held
    return next((turn for turn in range(held + 1, latest) if left[turn] <= limit / 2), latest)


def latest_cut(prompt: Prompt) -> int:
    """Return the latest turn that the history can begin with.

    The calls whose results the last turn brings have to stay, and results without a call, which the provider
    may have stored.
    """
    last = prompt.turns[-1].item
    needed = [one.call for one in prompt.answered if one.item >= last and one.call is not None]
    stored = [one.item for one in prompt.answered if one.call is None]
    first = min([last, *needed, *stored])
    return max((number for number, turn in enumerate(prompt.turns) if turn.item <= first), default=0)


def spoken_tokens(prompt: Prompt, turn: int, count: Callable[[str], int]) -> int:
    """Return the tokens of everything said from a turn on, the last turn included."""
    return sum(_sizes(prompt, count)[_border(prompt, turn) :])


def dropped_items(prompt: Prompt, turn: int) -> frozenset[int]:
    """Return the items that are left out if the history begins with this turn."""
    border, parts = _border(prompt, turn), _dropped_parts(prompt, turn)
    before = {at for at in range(border) if not prompt.items[at].is_system}
    # A result that is no part of a message is the only one of its item.
    whole = {at for at, dropped in parts.items() if len(dropped) == max(1, len(prompt.items[at].parts))}
    return frozenset(before | whole)


def cut_spans(prompt: Prompt, turn: int) -> list[Span]:
    """Return the bytes of what is left out if the history begins with this turn, commas included."""
    dropped = dropped_items(prompt, turn)
    spans = _gaps([item.span for item in prompt.items], dropped)
    for at, parts in _dropped_parts(prompt, turn).items():
        spans += [] if at in dropped else _gaps(prompt.items[at].parts, parts)
    return spans


def _border(prompt: Prompt, turn: int) -> int:
    """Return the first item of the history. Anything before the first user text belongs to the first turn."""
    return prompt.turns[turn].item if turn else 0


def _sizes(prompt: Prompt, count: Callable[[str], int]) -> list[int]:
    """Return the tokens by item, without instructions. A tool's result counts where its call is, with which
    it is left out.
    """
    sizes = [0 if item.is_system else count(item.text) for item in prompt.items]
    for result, item, call in prompt.answered:
        if call is not None and not prompt.items[item].is_system:
            tokens = min(sizes[item], count(result.text))
            sizes[item] -= tokens
            sizes[call] += tokens
    return sizes


def _dropped_parts(prompt: Prompt, turn: int) -> dict[int, set[int]]:
    """Return the parts of kept items that are left out by item: the results of calls that are."""
    border = _border(prompt, turn)
    found: dict[int, set[int]] = {}
    for result, item, call in prompt.answered:
        if call is not None and call < border <= item and not prompt.items[call].is_system:
            found.setdefault(item, set()).add(result.part or 0)
    return found


def _gaps(places: Sequence[Span], dropped: Collection[int]) -> list[Span]:
    """Return the bytes to remove from a list so that the values at these numbers are gone, and nothing else.

    Each takes along the comma after it, and those at the end the comma before them. One value stays at least.
    """
    last = max((at for at in range(len(places)) if at not in dropped), default=-1)
    spans = [Span(places[at].start, places[at + 1].start) for at in sorted(dropped) if at < last]
    return [*spans, Span(places[last].end, places[-1].end)] if 0 <= last < len(places) - 1 else spans


def splice(body: bytes, splices: Sequence[Splice], cuts: Sequence[Span] = ()) -> bytes:
    """Return the body with the splices inserted and the cuts removed. No splice may be inside a cut."""
    edits = sorted(
        [(one.at, one.at, one.data) for one in splices] + [(cut.start, cut.end, b"") for cut in cuts],
        key=lambda edit: edit[:2],
    )
    parts, at = [], 0
    for start, end, data in edits:
        parts += [body[at:start], data]
        at = end
    return b"".join([*parts, body[at:]])


def count_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Return the tokens of a text from a request. Characters that UTF-8 cannot encode are replaced."""
    text = text.encode(errors="replace").decode() if not text.isascii() else text
    return tokenizer.convert(text, _count(text, tokenizer.name), tokenizer.name)


def _count(text: str, encoding: str) -> int:
    """Return the tokens of a text in an encoding."""
    tokenizer = get_tokenizer(encoding)
    if len(text) < COUNTED_LEAST_CHARS:
        return tokenizer.count(text)
    key = blake2b(text.encode(), digest_size=16, person=encoding.encode()[:16]).digest()
    with _lock:
        known = _counts.get(key)
        if known is not None:
            _counts.move_to_end(key)
            return known
    count = tokenizer.count(text)
    with _lock:
        _counts[key] = count
        while len(_counts) > COUNTS_MAX:
            _counts.popitem(last=False)
    return count


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tokens of a prompt's parts."""

    system: int
    history: int
    question: int

    @classmethod
    def of(cls, prompt: Prompt, tokenizer: Tokenizer, cut_turn: int = 0) -> "Sizes":
        count = partial(count_tokens, tokenizer=tokenizer)
        question = count(prompt.turns[-1].text) if prompt.turns else 0
        history = max(0, spoken_tokens(prompt, cut_turn, count) - question)
        return cls(count(prompt.system_text()) + count(prompt.tools), history, question)

    @property
    def all(self) -> int:
        return self.system + self.history + self.question
