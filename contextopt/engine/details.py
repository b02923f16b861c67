"""Prepare the ranking of stage 5 for the budget: the best passages of notes, without near-duplicates."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import NamedTuple

from contextopt.engine.duplicates import COMMIT, Commit, SeenTexts, newer_commits
from contextopt.engine.ranking import Relevance, Scored
from contextopt.engine.rendering import MESSAGE, question_start, with_excerpt
from contextopt.engine.settings import MIN_RECORD_TOKENS, ContextConfig
from contextopt.engine.text.cleaning import ELLIPSIS, flatten, grapheme_boundary, unbroken
from contextopt.engine.text.lexical import distinct_terms
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.values import RecordSummary

MAX_PASSAGE_CHARS = 400
MAX_TEXT_CHARS = 200_000
"""Text beyond this is ignored."""
GAP = f" {ELLIPSIS} "

# It begins with one set of characters, which lets the search skip all others.
_END = re.compile(r"[.!?\n。！？](?:(?<=[.!?])\s+|(?<=[\n。！？]))")


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
            passage = passages[0] if passages else ""
            if max_chars < 1:
                return ""
            return passage[: grapheme_boundary(passage, max_chars - 1)].rstrip() + ELLIPSIS
        joined = _join(passages, sorted(chosen))
        is_whole = len(self.text) <= MAX_TEXT_CHARS
        return joined if is_whole or joined.endswith(ELLIPSIS) else joined + GAP.rstrip()

    @cached_property
    def _passages(self) -> list[str]:
        return list(split_passages(self.text[:MAX_TEXT_CHARS]))

    @cached_property
    def _worth(self) -> list[float]:
        held = [self._held(passage) for passage in self._passages]
        containing = Counter(term for found in held for term in found)
        rarity = {term: math.log(1 + len(held) / count) for term, count in containing.items()}
        return [sum(rarity[term] for term in sorted(found)) for found in held]

    @cached_property
    def _beginnings(self) -> list[str]:
        """How the words of the query's terms begin, as far as the passages have them."""
        lower = "\n".join(self._passages).lower()
        # A plain term begins its word, apart from a last "y".
        beginnings = {term.removesuffix("y") for term in self.query}
        return [beginning for beginning in sorted(beginnings) if beginning in lower]

    def _held(self, passage: str) -> set[str]:
        """Return the terms of the query that a passage has."""
        if passage.isascii():
            lower = passage.lower()
            for beginning in self._beginnings:
                if beginning in lower:
                    break
            else:
                # Most passages need not be read further.
                return set()
        return distinct_terms(passage).intersection(self.query)


def split_passages(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text, flattened. Overlong ones are cut at blanks."""
    for raw in _split_at_ends(text):
        passage = flatten(raw)
        while len(passage) > MAX_PASSAGE_CHARS:
            end = passage.rfind(" ", MAX_PASSAGE_CHARS // 2, MAX_PASSAGE_CHARS)
            end = grapheme_boundary(passage, MAX_PASSAGE_CHARS) if end < 0 else end
            end = end or len(passage)
            yield passage[:end].rstrip()
            passage = passage[end:].lstrip()
        if passage:
            yield passage


def _split_at_ends(text: str) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(text):
        yield text[begin : end.start() + 1]
        begin = end.end()
    yield text[begin:]


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


DUPLICATE_OF = "duplicate_of"
# A date in the form that lines have.
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
TYPE_TOKENS = 3
"""A message's line is this much shorter than its summary, because it leaves out the type."""
LARGEST_SHARE = 4
"""A record takes at most this fraction of the room (one part in this many), if all fit."""
FIRST_SHARE = 6
"""A record takes at most this fraction of the room (one part in this many), unless all fit."""
SMALLEST_SHARE = 64
"""A record may always take this fraction of the room (one part in this many)."""
LEAST_CHARS_PER_TOKEN, MOST_CHARS_PER_TOKEN = 3, 6
"""Bounds for the estimated characters per token of notes; prose has about four."""
NOTES_PER_SUMMARY = 1.2
"""Characters per token of notes, relative to those of the summary, which has names and a date."""


@dataclass(frozen=True, slots=True)
class RecordDetail:
    """A record's texts, for a line with more of its notes than the summary, and its place in a thread."""

    title: str
    type: str
    tags: tuple[str, ...]
    notes: str
    thread: str = ""
    position: int | None = None

    @property
    def said(self) -> str:
        return f"{self.title}\n{self.notes}"


class _Draft(NamedTuple):
    """Everything that a record's line depends on, for one question."""

    record_id: int
    notes_chars: int
    limit_tokens: int
    has_date: bool
    encoding: str


@dataclass(frozen=True, slots=True)
class Drafts:
    """Rated notes by record id, and rendered lines, kept for further selections for the same question.

    Each line comes with the most characters of notes that it may show.
    """

    texts: dict[int, RatedText] = field(default_factory=dict)
    lines: dict[_Draft, tuple[RecordSummary, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """A question for the engine: its terms, the search results, and the records' texts.

    A record without relevance is ranked by recency and frequency only. A record without detail is rendered as
    its summary. `is_relevant` is False if no record seems to be about the question. `numbers` are those that
    the question names. `usual_similarity` is the usual cosine of the best record with this encoder, None if
    unknown.
    """

    terms: frozenset[str]
    relevant: Mapping[int, Relevance]
    details: Mapping[int, RecordDetail]
    is_relevant: bool = True
    numbers: frozenset[str] = frozenset()
    usual_similarity: float | None = None
    drafts: Drafts = field(default_factory=Drafts, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """The ranking with its rendered lines, and the near-duplicates removed from it.

    `originals` maps each duplicate to the id of the record that it repeats. `is_shortened` means that the
    limit on tokens cut at least one record.
    """

    ranked: tuple[Scored, ...]
    duplicates: tuple[Scored, ...] = ()
    originals: Mapping[int, int] = field(default_factory=dict)
    is_shortened: bool = False


def record_limits(config: ContextConfig, room_tokens: int) -> Iterator[int]:
    """Yield the limits on a record's tokens, the smallest first. Each is the double of the one before."""
    largest = max(MIN_RECORD_TOKENS, room_tokens // LARGEST_SHARE)
    if config.question_record_tokens is not None:
        usual = min(config.question_record_tokens, room_tokens // FIRST_SHARE)
        limit = max(usual, room_tokens // SMALLEST_SHARE, MIN_RECORD_TOKENS)
        while limit < largest:
            yield limit
            limit *= 2
    yield largest


def shared_day(ranked: Sequence[Scored], query: Query) -> date | None:
    """Return the day (UTC) for the header if all candidates are messages of that day.

    Return None if a title contains a date, since it could pose as a message of that day.
    """
    days: set[date] = set()
    for record, _ in ranked:
        detail = query.details.get(record.id)
        if detail is not None:
            days.add(record.date.date())
            if len(days) > 1 or detail.type != MESSAGE or _DAY.search(detail.title):
                return None
    return days.pop() if days else None


def select(
    ranked: Sequence[Scored],
    query: Query,
    config: ContextConfig,
    tokenizer: Tokenizer,
    *,
    room_tokens: int,
    limit_tokens: int,
    has_dates: bool,
) -> Selection:
    """Render the candidates for a question and remove those that repeat a better one.

    A pinned record stays even if it repeats another, and what does not fit makes nothing a repetition. Once
    a record did not fit, those whose summary does not fit either are left unchanged, and all are once the
    record limit is reached. Without `has_dates`, the header shows the day of all.
    """
    seen, newer, drafts = SeenTexts(), _newer_commits(ranked, query), query.drafts
    lines: list[Scored] = []
    duplicates: list[Scored] = []
    originals: dict[int, int] = {}
    left, fitting, is_shortened, is_full = room_tokens, 0, False, False
    for position, scored in enumerate(ranked):
        if fitting == config.record_limit:
            lines += ranked[position:]
            break
        record, detail = scored.record, query.details.get(scored.record.id)
        if detail is not None and not (is_full and record.tokens - TYPE_TOKENS > left):
            original = newer.get(record.id)
            if original is None:
                original = seen.admit(record.id, detail.said, always=record.pinned)
            if original is not None:
                duplicates.append(scored)
                originals[record.id] = original
                continue
            wanted = min(config.question_notes_chars or MAX_TEXT_CHARS, len(detail.notes), MAX_TEXT_CHARS)
            draft = _Draft(record.id, wanted, limit_tokens, has_dates, tokenizer.name)
            if draft not in drafts.lines:
                text = drafts.texts.setdefault(record.id, RatedText(detail.notes, query.terms))
                start = question_start(
                    detail.title, detail.type, record.date, detail.tags, has_date=has_dates
                )
                drafts.lines[draft] = _enlarged(record, start, text, wanted, limit_tokens, tokenizer)
            record, chars = drafts.lines[draft]
            is_shortened = is_shortened or chars < wanted
            if record.tokens > left:
                seen.withdraw(record.id, detail.said)
        lines.append(scored._replace(record=record))
        if record.tokens <= left:
            left -= record.tokens
            fitting += 1
        else:
            is_full = True
    return Selection(tuple(lines), tuple(duplicates), originals, is_shortened)


def _newer_commits(ranked: Sequence[Scored], query: Query) -> dict[int, int]:
    """Map the ids of unpinned commits to those of newer ones that repeat them."""
    commits = []
    for record, _ in ranked:
        detail = query.details.get(record.id)
        if detail is not None and detail.type == COMMIT and not record.pinned:
            commits.append(Commit(record.id, record.source, detail.title, record.date))
    return newer_commits(commits, query.numbers)


def _enlarged(
    record: RecordSummary,
    start: str,
    text: RatedText,
    notes_chars: int,
    limit_tokens: int,
    tokenizer: Tokenizer,
) -> tuple[RecordSummary, int]:
    """Return the record with as much of its notes as is wanted and fits the limit, and the most characters of
    notes that it may show. Its line begins with `start`.
    """
    likely = NOTES_PER_SUMMARY * len(record.line) / record.tokens
    per_token = max(LEAST_CHARS_PER_TOKEN, min(likely, MOST_CHARS_PER_TOKEN))
    chars = min(notes_chars, max(0, int(limit_tokens * per_token) - len(start)))
    while True:
        excerpt = text.excerpt(chars)
        line = with_excerpt(start, excerpt)
        tokens = tokenizer.count(line)
        if tokens <= limit_tokens or not excerpt:
            return replace(record, line=line, tokens=tokens), chars
        # Remove the excess and a little more, since tokens vary in length.
        chars = min(len(excerpt) - 1, int(len(excerpt) * 0.95 * limit_tokens / tokens))
