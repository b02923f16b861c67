"""Select the best passages of a long text for a question, in the text's order.

A text is split at the ends of sentences and lines, and overlong runs at blanks. Passages with the question's
terms are chosen first; terms that are rare in this text count more. Then others follow from the start.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from contextopt.engine.text.cleaning import ELLIPSIS, flatten, grapheme_boundary, unbroken
from contextopt.engine.text.lexical import distinct_terms

MAX_PASSAGE_CHARS = 400
MAX_TEXT_CHARS = 200_000
"""Text beyond this is ignored."""
GAP = f" {ELLIPSIS} "

_END = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")


@dataclass(frozen=True)
class RatedText:
    """A text whose passages are rated once for a question, for excerpts of several lengths.

    `query` holds terms as `lexical.terms` returns them.
    """

    text: str
    query: Collection[str]

    def excerpt(self, max_chars: int) -> str:
        """Return at most `max_chars` characters as one line, with "…" for omissions.

        If the text has no term of the query, its beginning is returned. A text that fits is returned whole,
        with its blanks unchanged.
        """
        if len(self.text) <= max_chars:
            return unbroken(self.text)
        passages = self._passages
        chosen = _choose(passages, self._worth, max_chars)
        if not chosen:
            return _beginning(passages[0] if passages else "", max_chars)
        joined = _join(passages, sorted(chosen))
        is_whole = len(self.text) <= MAX_TEXT_CHARS
        return joined if is_whole or joined.endswith(ELLIPSIS) else joined + GAP.rstrip()

    @cached_property
    def _passages(self) -> list[str]:
        return list(split_passages(self.text[:MAX_TEXT_CHARS]))

    @cached_property
    def _worth(self) -> list[float]:
        return _worth(self._passages, self.query)


def split_passages(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text, flattened. Overlong ones are cut at blanks."""
    for raw in _END.split(text):
        passage = flatten(raw)
        while len(passage) > MAX_PASSAGE_CHARS:
            end = passage.rfind(" ", MAX_PASSAGE_CHARS // 2, MAX_PASSAGE_CHARS)
            end = grapheme_boundary(passage, MAX_PASSAGE_CHARS) if end < 0 else end
            end = end or len(passage)
            yield passage[:end].rstrip()
            passage = passage[end:].lstrip()
        if passage:
            yield passage


def _worth(passages: Sequence[str], query: Collection[str]) -> list[float]:
    wanted = set(query)
    held = [wanted & distinct_terms(passage) for passage in passages]
    containing = Counter(term for found in held for term in found)
    rarity = {term: math.log(1 + len(passages) / count) for term, count in containing.items()}
    return [sum(rarity[term] for term in sorted(found)) for found in held]


def _choose(passages: Sequence[str], worth: Sequence[float], max_chars: int) -> set[int]:
    """Take the best passages that fit. The remaining room goes to passages that follow a chosen one."""
    left = max_chars - len(GAP)
    chosen: set[int] = set()
    ranked = sorted(range(len(passages)), key=lambda at: (-worth[at], at))
    hits = [at for at in ranked if worth[at] > 0]
    for at in [*hits, *(hit + 1 for hit in hits), *range(len(passages))]:
        if at < len(passages) and at not in chosen and len(passages[at]) + len(GAP) <= left:
            chosen.add(at)
            left -= len(passages[at]) + len(GAP)
    return chosen


def _join(passages: Sequence[str], chosen: Sequence[int]) -> str:
    text = f"{ELLIPSIS} " if chosen[0] else ""
    for before, at in zip([None, *chosen], chosen, strict=False):
        text += "" if before is None else " " if at == before + 1 else GAP
        text += passages[at]
    return text if chosen[-1] == len(passages) - 1 else text + GAP.rstrip()


def _beginning(passage: str, max_chars: int) -> str:
    if max_chars < 1:
        return ""
    return passage[: grapheme_boundary(passage, max_chars - 1)].rstrip() + ELLIPSIS
