"""Split text into sentences, and into clauses that may replace them, verbatim except for white space."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from contextopt.engine.text.cleaning import ELLIPSIS, flatten
from contextopt.engine.text.entities import Entity, find_entities, find_qualifiers, words_of

MAX_SENTENCES = 400
"""Maximum sentences read from a text."""
MAX_SENTENCE_CHARS = 2_000
MAX_CLAUSES = 8
MIN_WORDS = 2
"""Minimum words of a clause that replaces its sentence, besides the names in it."""

_BULLET = re.compile(r"^\s*(?:[-*+•‣]|\d{1,3}[.)]|#{1,6})\s+")
_INDENT = re.compile(r"^(?:\s{4,}|\t|```|\|)")
_LABEL = re.compile(r"^[A-Z][\w-]*(?: [\w-]+)?:(?:\s|$)")
_ENDS = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[`]*[^\W_a-z])|(?<=[。！？；])\s*|(?<=[؟۔।])\s+|(?<=[.!?])\s+(?=[\u0590-\u08ff\u0900-\u0dff])"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|ca|approx|no|nr|f\.eks|bl\.a|dvs|z\.B|d\.h|Mr|Mrs|Dr|St|[A-Z])\.$"
)
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|\s+[—–-]{1,2}\s+|(?<=[，；：،؛])\s*")
_PARENTHESIS = re.compile(r"(?<=\s)\([^()]*\)")
_DEPENDENT = re.compile(
    r"(?:which|that|who|whose|whom|where|when|while|since|because|as|so|and|or|nor|thus|hence|then|than|for|to|by|"
    r"with|of|in|on|at|from|it|its|they|this|these|som|fordi|og|eller|slik|mens|da|at|den|det|dass|weil|und|oder|"
    r"e\.g|i\.e|etc)\b",
    re.IGNORECASE,
)
"""Openings of clauses that mean little without the one before."""
_CONDITION = re.compile(
    r"(?:if|unless|until|when|although|though|hvis|dersom|wenn|falls|si)\b|如果|除非|إذا", re.I
)
_EDGES = " \t,;:，；：،؛—–-"
_PAIRED = re.compile(r"[()\[\]{}“”「」（）`\"]")
_PAIRS = ("()", "[]", "{}", "“”", "「」", "（）")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, with the places of its names (`entities`) and of its `qualifiers`."""

    text: str
    entities: tuple[Entity, ...]
    qualifiers: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> "Sentence":
        return cls(text, tuple(find_entities(text)), tuple(sorted(find_qualifiers(text))))

    @property
    def has_words(self) -> bool:
        return any(map(str.isalnum, self.text))

    @property
    def is_telling(self) -> bool:
        """Return whether the sentence says something besides naming things."""
        return self.says_something(0, len(self.text))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the sentence, and runs of its clauses that lose no qualifier."""
        yield 0, len(self.text)
        breaks = sorted(set(self._breaks()))[: MAX_CLAUSES - 1]
        starts = [0, *(end for _, end in breaks)]
        ends = [*(start for start, _ in breaks), len(self.text)]
        for first, start in enumerate(starts):
            for end in ends[first:]:
                if (start, end) != (0, len(self.text)) and self._stands_alone(start, end):
                    yield self._trimmed(start, end)

    def _breaks(self) -> Iterator[tuple[int, int]]:
        """Yield the borders between clauses."""
        yield from (match.span() for match in _CLAUSE_END.finditer(self.text))
        for match in _PARENTHESIS.finditer(self.text):
            yield match.start() - 1, match.start()
            yield match.end(), match.end()

    def within(self, start: int, end: int) -> Iterator[Entity]:
        return (entity for entity in self.entities if start <= entity.start and entity.end <= end)

    def says_something(self, start: int, end: int) -> bool:
        """Return whether there is more than names and one word about them."""
        rest, after = [], start
        for entity in self.within(start, end):
            rest.append(self.text[after : entity.start])
            after = entity.end
        return len(words_of(" ".join([*rest, self.text[after:end]]))) >= MIN_WORDS

    def _stands_alone(self, start: int, end: int) -> bool:
        if self.qualifiers and not (start <= self.qualifiers[0][0] and self.qualifiers[-1][1] <= end):
            return False
        if start > 0 and _DEPENDENT.match(self.text, start):
            return False
        if any(low < start < high or low < end < high for low, high, _, _ in self.entities):
            return False
        text = self.text[start:end]
        if _CONDITION.match(text) and not _CLAUSE_END.search(text):
            return False
        return not _PAIRED.search(text) or _is_balanced(text)

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self.text[start] in _EDGES:
            start += 1
        while end > start and self.text[end - 1] in _EDGES:
            end -= 1
        return start, end


def lead_of(text: str, limit: int) -> tuple[str, list[Sentence]]:
    """Return as many first sentences as fit the limit as one line, at least the first, and the rest.

    A sentence that limits the one before it ("Unless …") stays with it. A first sentence that is too long is
    shortened.
    """
    whole = flatten(text)
    sentences = list(split_sentences(text))
    if len(whole) <= limit or not sentences:
        return whole, []
    first, *rest = sentences
    lead = shorten_sentence(first, limit)
    while rest and (len(lead) + 1 + len(rest[0].text) <= limit or _qualifies_before(rest[0])):
        lead = f"{lead} {rest.pop(0).text}"
    return lead, rest


def shorten_sentence(sentence: Sentence, limit: int) -> str:
    """Return the sentence, cut at a word or to some of its clauses if it exceeds the limit.

    It is never cut before an exception, a condition or a negation. Rather than lose one, it stays whole.
    """
    text = sentence.text
    if len(text) <= limit:
        return text
    end = text.rfind(" ", 0, limit)
    last = max((stop for _, stop in sentence.qualifiers), default=0)
    if last <= end and _is_balanced(text[:end]):
        return text[:end].rstrip(_EDGES) + ELLIPSIS
    spans = [
        span for span in sentence.spans() if span[1] - span[0] < limit and sentence.says_something(*span)
    ]
    if not spans:
        return text
    start, end = max(spans, key=lambda span: (span[1] - span[0], -span[0]))
    return (ELLIPSIS if start else "") + text[start:end] + (ELLIPSIS if end < len(text) else "")


def _qualifies_before(sentence: Sentence) -> bool:
    return bool(sentence.qualifiers) and sentence.qualifiers[0][0] == 0


def _is_balanced(text: str) -> bool:
    if text.count("`") % 2 or text.count('"') % 2:
        return False
    return all(text.count(pair[0]) == text.count(pair[1]) for pair in _PAIRS)


def split_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a text, without bullets and line wraps."""
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
