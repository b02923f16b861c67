"""Two ways to measure a context: the exact tokens of the rendered text, or four characters per token."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from contextopt.engine.text.fences import without_marks
from contextopt.engine.text.tokens import (
    HEURISTIC_CHARS_PER_TOKEN,
    MAX_CHARS_PER_TOKEN,
    RememberingTokenizer,
    Tokenizer,
    get_tokenizer,
)
from contextopt.engine.text.validation import check_choice

type CounterName = Literal["tokenizer", "heuristic"]

COUNTERS = ("tokenizer", "heuristic")


class Measurable(Protocol):
    """Something made of fields that is sent as text."""

    def render(self) -> str: ...

    def field_chars(self) -> Iterable[int]:
        """Return the characters of each field's contents, without paths, headings and the task."""
        ...


@dataclass(frozen=True, slots=True)
class Unmarked:
    """A baseline: the text as it would be sent without us, who alone add marks and fences."""

    marked: Measurable

    def render(self) -> str:
        return without_marks(self.marked.render())

    def field_chars(self) -> Iterable[int]:
        return self.marked.field_chars()


class Counter(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def count(self, measured: Measurable) -> int: ...

    def count_text(self, text: str) -> int: ...

    def fits(self, measured: Measurable, budget_tokens: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class RenderedCounter:
    """Counts the text as it is sent, including headings."""

    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.tokenizer.name

    @property
    def version(self) -> str:
        return self.tokenizer.version

    def count(self, measured: Measurable) -> int:
        return self.tokenizer.count(measured.render())

    def count_text(self, text: str) -> int:
        return self.tokenizer.count(text)

    def fits(self, measured: Measurable, budget_tokens: int) -> bool:
        text = measured.render()
        # Megabytes against a small budget need no counting.
        if len(text) > budget_tokens * MAX_CHARS_PER_TOKEN:
            return False
        return self.tokenizer.count(text) <= budget_tokens


@dataclass(frozen=True, slots=True)
class HeuristicCounter:
    """Four characters per token, rounded up for each field, over contents only. For comparisons."""

    name: str = "heuristic"
    version: str = "1"

    def count(self, measured: Measurable) -> int:
        return sum(_quarter(chars) for chars in measured.field_chars())

    def count_text(self, text: str) -> int:
        return _quarter(len(text))

    def fits(self, measured: Measurable, budget_tokens: int) -> bool:
        return self.count(measured) <= budget_tokens


def get_counter(name: str, encoding: str) -> Counter:
    """Return the counter of that name, for one request. `encoding` selects the tokenizer.

    Raises:
        InvalidValue: the name is neither "tokenizer" nor "heuristic".
        UnknownEncoding: the tokenizer is not available.
    """
    check_choice("counter", name, COUNTERS)
    if name == "heuristic":
        return HeuristicCounter()
    return RenderedCounter(RememberingTokenizer(get_tokenizer(encoding)))


def _quarter(chars: int) -> int:
    return math.ceil(chars / HEURISTIC_CHARS_PER_TOKEN)
