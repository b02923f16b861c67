"""Count tokens exactly, in pieces that no input can make slow or fatal."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, Self

import regex
import tiktoken

from contextopt.engine.text.encodings import CL100K, HEURISTIC, INCLUDED, load_encoding
from contextopt.engine.text.quoting import without_marks
from contextopt.engine.validation import check_choice

DEFAULT_ENCODING = CL100K
"""Tokens are counted in this encoding if neither a space nor a request names one."""

PIECE_CHARS = 32_768
"""About this many characters are passed to tiktoken at once."""

BOUNDARY_CHARS = 4_096
"""A cut is looked for in this many characters at a piece's end. Without one there, the piece is walked word
by word.
"""

RUN_CHARS = 65_536
"""A longer word, or run of characters other than letters and digits, is cut. On longer ones, tiktoken's time
grows faster than their length, and beyond about 600,000 blanks it panics with a BaseException. Tokens of
one repeated character are powers of two long, so cutting such a run here adds one token at most.
"""

MAX_CHARS_PER_TOKEN = 128
"""No token of the known encodings stands for more bytes, so a text longer than this per token cannot fit."""

HEURISTIC_CHARS_PER_TOKEN = 4

# Places where every encoding's pre-tokeniser ends a word, whatever stands before: between a character that is
# not blank and a blank, after a single line break, and between letters, digits and signs (not "'", which
# o200k joins to the letters before it). Some encodings join "/" to a line break before it.
_SAFE_BOUNDARY = (
    r"(?r)(?<=\S)(?=[^\S\r\n])|(?<=[\p{L}\p{N}])(?=[\r\n])|(?<=\S\n)(?=[^\s%s])"
    r"|(?<=[A-Za-z0-9])(?=[!-&(-/:-@\[-`{-~])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])"
)

# Only the place after a single line break, so that lines can be counted one by one. Python knows more kinds
# of white space than the encodings, so it never finds a boundary that they lack.
_SAFE_LINE_END = re.compile(r"\n(?<=\S\n)(?=[^\s/])")


type FactorSource = Literal["learned", "shipped"]
FACTOR_SCALE = 10_000
"""Factors are whole ten-thousandths, so that a certificate can be computed again exactly."""


class Measure(NamedTuple):
    """The tokens of a text as counted, and those that its model is billed for at most.

    Without a `factor`, which is in ten-thousandths, they are the same. `mean` is the mean factor; `prompts`
    is the number of prompts that they were learned from.
    """

    tokens: int
    at_most: int
    model: str = ""
    factor: int | None = None
    mean: int | None = None
    source: FactorSource | None = None
    prompts: int | None = None


class Tokenizer(Protocol):
    """Counts the tokens of a text. Special tokens count as plain text."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def is_additive(self) -> bool:
        """Return whether texts that end in a line break and continue with "- " may be counted separately."""
        ...

    def count(self, text: str) -> int: ...

    def measure(self, text: str, counted: int) -> Measure:
        """Return the size of a text for its certificate. `counted` is what `count` returned for it."""
        ...

    def convert(self, line: str, tokens: int, encoding: str) -> int:
        """Return the tokens of a record's line that has so many in an encoding."""
        ...

    def remembering(self) -> "Tokenizer":
        """Return the same for one request, with a cache of the counts of lines."""
        ...

    def factors_json(self) -> dict[str, list[int]] | None:
        """Return the factors of its model for the log, or None if it needs none."""
        ...


class Plain:
    """The parts of tokenizers whose counts need no factor."""

    __slots__ = ()

    def measure(self, text: str, counted: int) -> Measure:  # noqa: ARG002 - others look at the text
        return Measure(counted, counted)

    def convert(self: Tokenizer, line: str, tokens: int, encoding: str) -> int:
        return tokens if encoding == self.name else count_line(self.name, line)

    def remembering(self: Tokenizer) -> Tokenizer:
        return RememberingTokenizer(self)

    def factors_json(self) -> dict[str, list[int]] | None:
        return None


@dataclass(frozen=True, slots=True)
class TiktokenTokenizer(Plain):
    """A tiktoken encoding with bounded work.

    Counts are exact unless a word, or a run of characters other than letters and digits, is longer than
    `RUN_CHARS`. Such a run is cut, and its count may be a token or two off at each cut. The time grows with
    the length of the text, whatever is in it.
    """

    name: str
    version: str
    is_additive: bool
    encode: Callable[[str], list[int]] = field(repr=False, compare=False)
    splitter: "Splitter" = field(repr=False, compare=False)

    def count(self, text: str) -> int:
        if len(text) <= PIECE_CHARS:
            return len(self.encode(text))
        return sum(len(self.encode(piece)) for piece in self.splitter.split(text, PIECE_CHARS))


@dataclass(frozen=True, slots=True)
class RememberingTokenizer(Plain):
    """A tokenizer that caches the counts of lines, for texts that are counted in many versions.

    Its counts equal those of the tokenizer. It keeps every line, so create one per request.
    """

    tokenizer: Tokenizer
    _lines: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.tokenizer.name

    @property
    def version(self) -> str:
        return self.tokenizer.version

    @property
    def is_additive(self) -> bool:
        return self.tokenizer.is_additive

    def count(self, text: str) -> int:
        *lines, last = _SAFE_LINE_END.split(text) if self.is_additive else [text]
        if not lines or max(len(last), *map(len, lines)) >= PIECE_CHARS:
            return self.tokenizer.count(text)
        for line in set(lines) - self._lines.keys():
            self._lines[line] = self.tokenizer.count(f"{line}\n")
        return sum(map(self._lines.__getitem__, lines)) + self.tokenizer.count(last)


@dataclass(frozen=True, slots=True)
class HeuristicTokenizer(Plain):
    """Four characters per token, rounded up. For comparisons with systems that count like this."""

    name: str = HEURISTIC
    version: str = "1"
    is_additive: bool = False

    def count(self, text: str) -> int:
        return math.ceil(len(text) / HEURISTIC_CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Splitter:
    """Cuts a text at places that no token spans, for one encoding.

    `boundary` recognises most of them by themselves. Elsewhere, the encoding's own pattern walks the text
    word by word: `farthest` finds the end of the last word in a stretch, and `nearest` that of the first.
    """

    boundary: regex.Pattern[str]
    farthest: regex.Pattern[str]
    nearest: regex.Pattern[str]

    @classmethod
    def of(cls, pattern: str) -> Self:
        """Return the splitter of an encoding with this pattern.

        Only a cut after a letter or digit leaves the split of the text before it unchanged. After
        contractions that depends on the Unicode version of the encoding.
        """
        end = r"(?<=[\p{L}\p{N}])(?<!'\p{L})(?<!'\p{L}\p{L})(?=[\s\S])"
        return cls(
            regex.compile(_SAFE_BOUNDARY % ("/" if "/" in pattern else "")),
            regex.compile(f"(?:(?>{pattern}))+{end}"),
            regex.compile(f"(?:(?>{pattern}))+?{end}"),
        )

    def split(self, text: str, size: int) -> Iterator[str]:
        """Cut into pieces of at most `size` characters.

        A run without a safe place stays whole, up to `RUN_CHARS`, and is cut there.
        """
        start = 0
        while len(text) - start > size:
            boundary = self.boundary.search(text, start + max(1, size - BOUNDARY_CHARS), start + size)
            end = boundary.start() if boundary else self._end_of_word(text, start, size)
            yield text[start:end]
            start = end
        if start < len(text):
            yield text[start:]

    def _end_of_word(self, text: str, start: int, size: int) -> int:
        """Return where the last word ends within `size` characters, or else the first one after them.

        A pattern sees nothing beyond its end, so it is given one more character, in which no word may end.
        """
        most = start + RUN_CHARS
        within = self.farthest.match(text, start, start + size + 1)
        found = within or self.nearest.match(text, start, most + 1)
        return found.end() if found else min(most, len(text))


_tokenizers: dict[str, Tokenizer] = {HEURISTIC: HeuristicTokenizer()}


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of an encoding, loaded once per process.

    Raises:
        UnknownEncoding: the encoding does not exist, or its data is not available.
    """
    tokenizer = _tokenizers.get(name)
    if tokenizer is None:
        encoding = load_encoding(name)
        version = f"tiktoken {tiktoken.__version__}"
        splitter = Splitter.of(encoding._pat_str)  # tiktoken has no public attribute for its pattern.
        tokenizer = _tokenizers.setdefault(
            name, TiktokenTokenizer(name, version, name in INCLUDED, encoding.encode_ordinary, splitter)
        )
    return tokenizer


# Lines of records are counted again and again in another encoding than that of their space.
LINES_KEPT = 20_000


@lru_cache(LINES_KEPT)
def count_line(encoding: str, line: str) -> int:
    """Return the tokens of a record's line in this encoding."""
    return get_tokenizer(encoding).count(line)


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

    def measure(self, text: str, counted: int) -> Measure: ...

    def factors_json(self) -> dict[str, list[int]] | None: ...

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

    def measure(self, text: str, counted: int) -> Measure:
        return self.tokenizer.measure(text, counted)

    def factors_json(self) -> dict[str, list[int]] | None:
        return self.tokenizer.factors_json()

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

    def measure(self, text: str, counted: int) -> Measure:  # noqa: ARG002 - others look at the text
        return Measure(counted, counted)

    def factors_json(self) -> None:
        return None

    def fits(self, measured: Measurable, budget_tokens: int) -> bool:
        return self.count(measured) <= budget_tokens


def get_counter(name: str, tokenizer: Tokenizer) -> Counter:
    """Return the counter of that name, for one request.

    Raises:
        InvalidValue: the name is neither "tokenizer" nor "heuristic".
    """
    check_choice("counter", name, COUNTERS)
    return HeuristicCounter() if name == HEURISTIC else RenderedCounter(tokenizer.remembering())


def _quarter(chars: int) -> int:
    return math.ceil(chars / HEURISTIC_CHARS_PER_TOKEN)
