"""Text as sentences and as the clauses that may stand for one, each verbatim but for its white space."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from contextopt.engine.entities import Entity, find_entities, find_qualifiers, words_of
from contextopt.engine.text import flatten

MAX_SENTENCES = 400
"""Of one text; a longer one has its first sentences looked at."""
MAX_SENTENCE_CHARS = 2_000
MAX_CLAUSES = 12
MIN_WORDS = 2
"""Of a clause that stands for its sentence, besides what it names."""

_BULLET = re.compile(r"^\s*(?:[-*+•‣]|\d{1,3}[.)]|#{1,6})\s+")
_INDENT = re.compile(r"^(?:\s{4,}|\t|```|\|)")
_LABEL = re.compile(r"^[A-Z][\w-]*(?: [\w-]+)?:(?:\s|$)")
_ENDS = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[`]*[^\W_a-z])|(?<=[。！？；])\s*|(?<=[؟۔।])\s+|(?<=[.!?])\s+(?=[\u0590-\u08ff\u0900-\u0dff])"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|ca|approx|no|nr|f\.eks|bl\.a|dvs|z\.B|d\.h|Mr|Mrs|Dr|St|[A-Z])\.$"
)
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|\s+[—–-]{1,2}\s+|\s+(?=\()|(?<=\))\s+|(?<=[，；：،؛])\s*")
_EDGES = " \t,;:，；：،؛—–-"
_PAIRS = ("()", "[]", "{}", "“”", "「」", "（）")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. `entities` and `qualifiers` are where it names something and where it qualifies."""

    text: str
    entities: tuple[Entity, ...]
    qualifiers: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> "Sentence":
        return cls(text, tuple(find_entities(text)), tuple(find_qualifiers(text)))

    @property
    def is_list(self) -> bool:
        """Whether it only names things: a label, names and what parts them."""
        if not self.entities:
            return False
        rest = self.text[self.entities[0].start :] if _LABEL.match(self.text) else self.text
        named = sum(len(entity.text) for entity in self.entities)
        return len(rest.split()) <= 1 or named >= 0.8 * sum(len(part.strip(_EDGES)) for part in rest.split())

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield what may stand for the sentence: itself, and runs of its clauses that lose no qualifier."""
        yield 0, len(self.text)
        starts = [0, *(match.end() for match in _CLAUSE_END.finditer(self.text))][:MAX_CLAUSES]
        ends = [*(match.start() for match in _CLAUSE_END.finditer(self.text)), len(self.text)]
        ends = [*ends[: len(starts) - 1], len(self.text)]
        for first, start in enumerate(starts):
            for end in ends[first:]:
                if (start, end) != (0, len(self.text)) and self._stands_alone(start, end):
                    yield self._trimmed(start, end)

    def within(self, start: int, end: int) -> Iterator[Entity]:
        return (entity for entity in self.entities if start <= entity.start and entity.end <= end)

    def says_something(self, start: int, end: int) -> bool:
        """Whether more is there than names and one word about them."""
        if start == 0 and end == len(self.text):
            return True
        spare = list(self.text[start:end])
        for entity in self.within(start, end):
            spare[entity.start - start : entity.end - start] = " " * (entity.end - entity.start)
        rest = "".join(spare)
        return len(words_of(rest)) >= MIN_WORDS and any(map(str.isalpha, rest))

    def _stands_alone(self, start: int, end: int) -> bool:
        if not all(start <= low and high <= end for low, high in self.qualifiers):
            return False
        text = self.text[start:end]
        if any(low < start < high or low < end < high for low, high, _, _ in self.entities):
            return False
        if any(text.count(pair[0]) != text.count(pair[1]) for pair in _PAIRS):
            return False
        return text.count("`") % 2 == 0 and text.count('"') % 2 == 0

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self.text[start] in _EDGES:
            start += 1
        while end > start and self.text[end - 1] in _EDGES:
            end -= 1
        return start, end


def split_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a text, bullets and wrapped lines undone."""
    count = 0
    for block in _blocks(text):
        for sentence in _sentences(block):
            if count == MAX_SENTENCES:
                return
            if sentence:
                count += 1
                yield Sentence.of(sentence)


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, list items, labelled lines and lines of code, each as one line."""
    lines: list[str] = []
    for line in text.splitlines():
        starts = not line.strip() or _BULLET.match(line) or _INDENT.match(line) or _LABEL.match(line)
        if starts and lines:
            yield flatten(" ".join(lines))
            lines = []
        if line.strip():
            lines.append(_BULLET.sub("", line))
    if lines:
        yield flatten(" ".join(lines))


def _sentences(block: str) -> Iterator[str]:
    start = 0
    for match in _ENDS.finditer(block):
        if _ABBREVIATION.search(block, max(start, match.start() - 8), match.start()):
            continue
        yield from _bounded(block[start : match.end()].strip())
        start = match.end()
    yield from _bounded(block[start:].strip())


def _bounded(sentence: str) -> Iterator[str]:
    """Cut an endless sentence at blanks, so that all work on it is bounded."""
    while len(sentence) > MAX_SENTENCE_CHARS:
        end = sentence.rfind(" ", 1, MAX_SENTENCE_CHARS)
        end = end if end > 0 else MAX_SENTENCE_CHARS
        yield sentence[:end]
        sentence = sentence[end:].strip()
    yield sentence
