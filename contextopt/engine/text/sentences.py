"""Split text into whole sentences, verbatim except for white space."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from contextopt.engine.text.cleaning import flatten

_MARK = (
    r"\{(?:disfmarker|vocalsound|nonvocalsound|pause|gap|comment)\}"
    r"|\[(?:laughter|inaudible|crosstalk|pause)\]"
)
# "Um" is a word in other languages, so it only counts before a comma or an English word.
_SOUND = (
    r"(?:uh+|uh?m+(?=\s*,|\s+(?:I|so|and|the|we|yeah)\b)|eh+m*|erm+|ah+|oh+|h+m+|mm+\W?hmm*|uh\W?huh|øhm?)"
    r"(?![\w'’])"
)
_BEGINNING = re.compile(rf"(?:[\s,.;–—-]*(?:{_MARK}|{_SOUND}))+[\s,.;?!–—-]*", re.IGNORECASE)
_END = re.compile(rf"(?:[\s,]*(?:{_MARK}))+$")
_MARK_OR_SOUND = re.compile(rf"{_MARK}|(?<![\w'’]){_SOUND}", re.IGNORECASE)
_WORD = re.compile(r"[\w'’]+")
# Short words that may begin the next one ("the theme") or stand alone.
_SHORT_WORDS_WORDS = """
a i an to in the is on for of it so no be re un at as or and det en er av på å e
"""
_SHORT_WORDS = frozenset(_SHORT_WORDS_WORDS.split())
# Only this many characters at the end of a sentence show whether it broke off.
_UNFINISHED_CHARS = 40
_UNFINISHED = re.compile(
    rf"(?:[,–—-]|{_MARK})\s*[.!?]?$|\b(?:and|or|the|a|an|to|of|og|eller|som|å)\s*[.…]?$", re.IGNORECASE
)


def trim_sounds(sentence: str) -> str:
    """Return the sentence without sounds at its beginning and end; an empty text if it has nothing else."""
    if beginning := _BEGINNING.match(sentence):
        sentence = sentence[beginning.end() :]
    # Keep the mark of a sentence that broke off, since `is_unfinished` looks for it.
    end = sentence.rstrip()
    if end.endswith("{disfmarker}") or not end.endswith(("}", "]")):
        return sentence
    return _END.sub("", sentence)


def count_stumbles(text: str) -> int:
    """Count sounds, marks, repeated words, and word beginnings that the whole word follows."""
    words = _WORD.findall(text.lower())
    twice = sum(
        1
        for word, after in pairwise(words)
        if after.startswith(word) and (word == after or word not in _SHORT_WORDS) and not word.isdigit()
    )
    return twice + sum(1 for _ in _MARK_OR_SOUND.finditer(text))


def is_unfinished(sentence: str) -> bool:
    """Return whether the sentence broke off."""
    return bool(_UNFINISHED.search(sentence, max(0, len(sentence) - _UNFINISHED_CHARS)))


MAX_SENTENCES = 400
"""Maximum sentences read from a text."""
MAX_SENTENCE_CHARS = 1_000
"""A longer sentence is read in pieces, none of which is whole."""

type BlockKind = Literal["paragraph", "item", "heading", "label", "code", "aside"]

_BULLET = re.compile(r"^\s*(?:[-*+•‣]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^\s*#{1,6}\s+")
_UNDERLINE = re.compile(r"^\s*(?:={3,}|-{3,})\s*$")
_CODE = re.compile(r"^(?:\s{4,}|\t|```|\|)")
_LABEL = re.compile(r"^[^\W\d_a-z][\w'’-]*(?: [\w'’-]+)?:(?:\s|$)")
_ENDS = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[`]*[^\W_a-z])|(?<=[。！？])\s*|(?<=[؟۔।])\s+|(?<=[.!?])\s+(?=[\u0590-\u08ff\u0900-\u0dff])"
)
_ENDS_OR_LINES = re.compile(rf"{_ENDS.pattern}|\n(?=[^\S\n]{{0,8}}\W{{0,6}}[^\W\d_a-z])")
_FINAL = re.compile(r"[.!?…。！？؟।][\"'”’)\]]*$")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|ca|approx|no|nr|excl|incl|resp|max|min|al|fig|sec|ch|inc|ltd|f\.eks"
    r"|bl\.a|dvs|ekskl|inkl|osv|m\.m|mht|ift|jf|evt|ev|kl|pkt|z\.B|d\.h|Mr|Mrs|Ms|Dr|Prof|St|[A-Z])\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a text. `block` numbers its paragraph, list item, heading, labelled line or line of
    code. An aside is a sentence of a long explanation.

    `intro` is the place of the line that introduces its list or section, if there is one.
    """

    text: str
    block: int = 0
    kind: BlockKind = "paragraph"
    intro: int | None = None
    is_whole: bool = True

    @property
    def is_final(self) -> bool:
        return bool(_FINAL.search(self.text))


@dataclass(frozen=True, slots=True)
class _Block:
    text: str
    kind: BlockKind


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a text, without bullets and line wraps."""
    sentences: list[Sentence] = []
    heading: int | None = None
    intro: int | None = None
    for number, block in enumerate(_blocks(text)):
        if block.kind == "heading":
            heading = intro = None
        elif block.kind != "item":
            intro = None
        for whole, is_whole in _sentences(block.text):
            part = trim_sounds(whole)
            if not part or (sentences and part == sentences[-1].text):
                continue
            if len(sentences) == MAX_SENTENCES:
                # The next sentence might belong to this one.
                sentences[-1] = replace(sentences[-1], is_whole=False)
                return sentences
            place = intro if intro is not None else heading
            sentences.append(Sentence(part, number, block.kind, place, is_whole))
        if sentences and block.kind == "heading":
            heading = len(sentences) - 1
        elif sentences and block.kind != "item" and not _FINAL.search(block.text):
            intro = len(sentences) - 1
    return sentences


def _blocks(text: str) -> Iterator[_Block]:
    """Yield paragraphs, list items, headings, labelled lines and lines of code, each as one line."""
    lines: list[str] = []
    kind: BlockKind = "paragraph"
    for line in text.splitlines():
        if lines and _UNDERLINE.match(line):
            yield _Block(flatten(" ".join(lines)), "heading")
            lines = []
            continue
        starts = _kind_of(line, bool(lines) and kind == "item")
        if lines and (starts or not line.strip()):
            yield _Block(flatten(" ".join(lines)), kind)
            lines = []
        if line.strip():
            kind = (starts or "paragraph") if not lines else kind
            lines.append(_HEADING.sub("", _BULLET.sub("", line)))
        if kind == "heading" and lines:
            yield _Block(flatten(" ".join(lines)), kind)
            lines = []
    if lines:
        yield _Block(flatten(" ".join(lines)), kind)


def _kind_of(line: str, is_in_item: bool) -> BlockKind | None:
    """Return the kind of block that the line starts, or None if it continues one."""
    if _BULLET.match(line):
        return "item"
    if _HEADING.match(line):
        return "heading"
    if _CODE.match(line) and not is_in_item:
        return "code"
    return "label" if _LABEL.match(line) else None


def _sentences(block: str) -> Iterator[tuple[str, bool]]:
    start = 0
    for match in _ENDS.finditer(block):
        if _ABBREVIATION.search(block, max(start, match.start() - 8), match.start()):
            continue
        yield from _bounded(block[start : match.end()].strip())
        start = match.end()
    yield from _bounded(block[start:].strip())


def sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each sentence of a paragraph begins and ends, without the space around it.

    A line that begins with a capital begins a sentence too.
    """
    for match in [*_ENDS_OR_LINES.finditer(text, start, end), None]:
        stop = end if match is None else match.end()
        if (
            match
            and "\n" not in match[0]
            and _ABBREVIATION.search(text, max(start, match.start() - 8), match.start())
        ):
            continue
        said = text[start:stop]
        if inner := said.strip():
            begin = start + len(said) - len(said.lstrip())
            yield begin, begin + len(inner)
        start = stop


_CLAUSE = re.compile(
    r"[,;:]\s+|\s[–—-]\s+|[，；、：]"
    r"|\s(?=(?:and|but|or|which|because|so that|og|men|eller|som|fordi|slik at)\s)",
    re.IGNORECASE,
)
CLAUSES_MAX = 40
"""Maximum clauses looked for in a sentence."""


def clause_ends(sentence: str) -> list[int]:
    """Return where clauses of the sentence end, before its own end, in order."""
    return [match.end() for match in islice(_CLAUSE.finditer(sentence), CLAUSES_MAX)]


def _bounded(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentence, or the pieces of one that is too long, so that all work on it is bounded."""
    is_whole = len(sentence) <= MAX_SENTENCE_CHARS
    while len(sentence) > MAX_SENTENCE_CHARS:
        end = sentence.rfind(" ", 1, MAX_SENTENCE_CHARS)
        end = end if end > 0 else MAX_SENTENCE_CHARS
        yield sentence[:end], is_whole
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence, is_whole
