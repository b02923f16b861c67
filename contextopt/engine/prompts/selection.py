"""The ranking of stage 5 made ready for the budget: notes as long as they may be, repetitions taken out.

No record takes more than a quarter of the room, so a long one can neither empty the context nor fill it:
of its notes the best passages are given.
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
"""A record takes at most one part in so many of the room."""
MIN_RECORD_TOKENS = 64
"""A record may always be as long as this."""
NOTES_CHARS_PER_TOKEN = 12
"""Past so many characters a token no notes are looked at: prose has four."""


@dataclass(frozen=True, slots=True)
class RecordDetail:
    """The texts of a record, for a line with more of the notes than its summary has."""

    title: str
    type: str
    tags: tuple[str, ...]
    notes: str

    @property
    def said(self) -> str:
        return f"{self.title}\n{self.notes}"


@dataclass(frozen=True, slots=True)
class Query:
    """A question as the engine sees it: its terms, what search says of the records, and their texts.

    A record without relevance is ranked by recency and frequency alone; one without detail is rendered
    as its summary.
    """

    terms: frozenset[str]
    relevant: Mapping[int, Relevance]
    details: Mapping[int, RecordDetail]


@dataclass(frozen=True, slots=True)
class Selection:
    """The ranking with its lines as they are rendered, and what was taken out of it.

    `originals` gives for each duplicate the id of the record that it repeats.
    """

    ranked: tuple[Scored, ...]
    duplicates: tuple[Scored, ...]
    originals: Mapping[int, int]


def select(
    ranked: Sequence[Scored], query: Query, config: ContextConfig, tokenizer: Tokenizer, room_tokens: int
) -> Selection:
    """Render the candidates for a question and take out those that repeat a better one.

    A pinned record stays even where it repeats another. What comes after the room is full stays as it is.
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
    """Return the record with as much of its notes as is wanted and as its share of the room holds."""
    whole = min(len(detail.notes), MAX_TEXT_CHARS, limit_tokens * NOTES_CHARS_PER_TOKEN)
    chars = whole if notes_chars is None else min(notes_chars, whole)
    while True:
        excerpt = best_passages(detail.notes, terms, chars)
        line = record_line(detail.title, detail.type, record.date, detail.tags, excerpt)
        tokens = tokenizer.count(line)
        if tokens <= limit_tokens or not excerpt:
            return replace(record, line=line, tokens=tokens)
        # What is over the limit comes off, and a little more, since tokens are of unequal length.
        chars = min(len(excerpt) - 1, int(len(excerpt) * 0.95 * limit_tokens / tokens))
