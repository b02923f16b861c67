"""Prepare the ranking of stage 5 for the budget: extend notes and remove near-duplicates.

No record takes more than a quarter of the room, so a long one can neither empty the context nor fill it. Its
best passages are used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from contextopt.engine.prompts.config import ContextConfig
from contextopt.engine.prompts.duplicates import SeenTexts
from contextopt.engine.prompts.passages import MAX_TEXT_CHARS, best_passages
from contextopt.engine.prompts.relevance import Relevance
from contextopt.engine.prompts.rendering import record_line
from contextopt.engine.prompts.scoring import Scored
from contextopt.engine.prompts.values import RecordSummary
from contextopt.engine.text.tokens import Tokenizer

DUPLICATE_OF = "duplicate_of"
LARGEST_SHARE = 4
"""A record takes at most this fraction of the room (one part in this many)."""
MIN_RECORD_TOKENS = 64
"""Minimum size that a record may always have."""
NOTES_CHARS_PER_TOKEN = 12
"""Notes beyond this many characters per token are ignored; prose has about four."""


@dataclass(frozen=True, slots=True)
class RecordDetail:
    """The texts of a record, for a line with more of its notes than the summary."""

    title: str
    type: str
    tags: tuple[str, ...]
    notes: str

    @property
    def said(self) -> str:
        return f"{self.title}\n{self.notes}"


@dataclass(frozen=True, slots=True)
class Query:
    """A question for the engine: its terms, the search results, and the records' texts.

    A record without relevance is ranked by recency and frequency only. A record without detail is rendered as
    its summary.
    """

    terms: frozenset[str]
    relevant: Mapping[int, Relevance]
    details: Mapping[int, RecordDetail]


@dataclass(frozen=True, slots=True)
class Selection:
    """The ranking with its rendered lines, and the near-duplicates removed from it.

    `originals` maps each duplicate to the id of the record that it repeats.
    """

    ranked: tuple[Scored, ...]
    duplicates: tuple[Scored, ...]
    originals: Mapping[int, int]


def select(
    ranked: Sequence[Scored], query: Query, config: ContextConfig, tokenizer: Tokenizer, room_tokens: int
) -> Selection:
    """Render the candidates for a question and remove those that repeat a better one.

    A pinned record stays even if it repeats another. Records after the room is full stay unchanged.
    """
    seen = SeenTexts()
    limit = max(MIN_RECORD_TOKENS, room_tokens // LARGEST_SHARE)
    lines: list[Scored] = []
    duplicates: list[Scored] = []
    originals: dict[int, int] = {}
    used = 0
    for position, scored in enumerate(ranked):
        if used > room_tokens or len(lines) == config.record_limit:
            lines += ranked[position:]
            break
        detail = query.details.get(scored.record.id)
        if detail is None:
            lines.append(scored)
            used += scored.record.tokens
            continue
        original = seen.admit(scored.record.id, detail.said, always=scored.record.pinned)
        if original is not None:
            duplicates.append(scored)
            originals[scored.record.id] = original
            continue
        record = _enlarged(scored.record, detail, query.terms, config.question_notes_chars, limit, tokenizer)
        lines.append(scored._replace(record=record))
        used += record.tokens
    return Selection(tuple(lines), tuple(duplicates), originals)


def _enlarged(
    record: RecordSummary,
    detail: RecordDetail,
    terms: frozenset[str],
    notes_chars: int | None,
    limit_tokens: int,
    tokenizer: Tokenizer,
) -> RecordSummary:
    """Return the record with as much of its notes as wanted and as its share of the room allows."""
    whole = min(len(detail.notes), MAX_TEXT_CHARS, limit_tokens * NOTES_CHARS_PER_TOKEN)
    chars = whole if notes_chars is None else min(notes_chars, whole)
    while True:
        excerpt = best_passages(detail.notes, terms, chars)
        line = record_line(detail.title, detail.type, record.date, detail.tags, excerpt)
        tokens = tokenizer.count(line)
        if tokens <= limit_tokens or not excerpt:
            return replace(record, line=line, tokens=tokens)
        # Remove the excess and a little more, since tokens vary in length.
        chars = min(len(excerpt) - 1, int(len(excerpt) * 0.95 * limit_tokens / tokens))
