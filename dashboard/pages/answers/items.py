"""An item of the review: the answer beside the context that produced it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models.functions import Length
from django.http import HttpRequest

from contextopt.assemblies.verify import read_config
from contextopt.engine.prompts.config import SEARCH_STAGE
from contextopt.engine.prompts.rendering import EXCERPT_CHARS
from contextopt.models import Assembly, AssemblyPayload, Kind, Message, Record
from dashboard.kit.ledgers import LedgerRow, find_titles, read_ledger
from memory.feedback.gateway import find_kept
from memory.models import ReviewItem, ReviewSlot, Vote

ROWS_SHOWN = 40
VOTES_SHOWN = 10
TRAIL, SKIPPED = "review_trail", "review_skipped"
TRAIL_MAX, SKIPPED_MAX = 100, 200


@dataclass(frozen=True, slots=True)
class GivenRow:
    """A candidate of the assembly; `cut_after` is the number of characters that its notes were cut to."""

    row: LedgerRow
    cut_after: int | None
    is_related: bool


@dataclass(frozen=True, slots=True)
class ReviewedAnswer:
    """Everything that a reviewer sees of an answer."""

    question: Message | None
    answer: Message | None
    # The texts of an answer made elsewhere, if they are kept.
    asked: str
    told: str
    text: str
    query: str
    rows: tuple[GivenRow, ...]
    rows_left_out: int
    votes: tuple[Vote, ...]
    is_stored: bool


def read_answer(item: ReviewItem, related: Iterable[int]) -> ReviewedAnswer:
    """Load an item's subject. The number of queries does not grow with the ledger."""
    payload = AssemblyPayload.objects.filter(assembly=item.assembly_id).first()
    rows, left_out = _given_rows(item.assembly, payload, frozenset(related)) if payload else ((), 0)
    votes = Vote.objects.filter(assembly=item.assembly_id, external_message=item.external_message_id)
    kept = None if item.message else find_kept(item.assembly, item.external_message)
    given = item.external_message.answer if item.external_message else ""
    return ReviewedAnswer(
        question=item.message.reply_to if item.message else None,
        answer=item.message,
        asked=kept.question if kept else "",
        told=given or (kept.answer if kept else ""),
        text=payload.text if payload else "",
        query=str(payload.request.get("query") or "") if payload else "",
        rows=rows,
        rows_left_out=left_out,
        votes=tuple(votes.order_by("rating", "-updated_at")[:VOTES_SHOWN]),
        is_stored=payload is not None,
    )


def _given_rows(
    assembly: Assembly, payload: AssemblyPayload, related: frozenset[int]
) -> tuple[tuple[GivenRow, ...], int]:
    if assembly.kind != Kind.SPACE:
        return (), 0
    entries = payload.entries
    shown = sorted(entries, key=lambda entry: not entry["kept"])[:ROWS_SHOWN]
    rows = read_ledger(shown, payload.ledger["order"], payload.config, find_titles(shown, assembly.team_id))
    is_search = assembly.stage == SEARCH_STAGE
    limit = read_config(payload.config).question_notes_chars if is_search else EXCERPT_CHARS
    cut = _longer_than(limit, [row.id for row in rows if row.is_kept])
    given = tuple(GivenRow(row, limit if row.id in cut else None, row.id in related) for row in rows)
    return given, len(entries) - len(shown)


def _longer_than(limit: int | None, record_ids: list[int]) -> set[int]:
    if limit is None:
        return set()
    rows = Record.objects.filter(pk__in=record_ids).annotate(size=Length("notes"))
    return set(rows.filter(size__gt=limit).values_list("pk", flat=True))


def remember(request: HttpRequest, item_id: int) -> int | None:
    """Add an item to the end of the visitor's trail; return the one before it."""
    trail = [pk for pk in request.session.get(TRAIL, []) if isinstance(pk, int)]
    if item_id in trail:
        place = trail.index(item_id)
        return trail[place - 1] if place else None
    request.session[TRAIL] = [*trail, item_id][-TRAIL_MAX:]
    return trail[-1] if trail else None


def skip(request: HttpRequest, item_id: int) -> None:
    skipped = [pk for pk in skipped_ids(request) if pk != item_id]
    request.session[SKIPPED] = [*skipped, item_id][-SKIPPED_MAX:]


def skipped_ids(request: HttpRequest) -> list[int]:
    return [pk for pk in request.session.get(SKIPPED, []) if isinstance(pk, int)]


def read_holders(item: ReviewItem, reviewer: str, now: datetime) -> list[ReviewSlot]:
    """Return others' reservations if the item has no free slot."""
    if item.slots.takeable(now).exists():
        return []
    held = item.slots.filter(reserved_until__gt=now).exclude(reviewer=reviewer)
    return list(held.order_by("reserved_until", "number"))


def own_slot(item: ReviewItem, reviewer: str) -> ReviewSlot | None:
    return item.slots.filter(reviewer=reviewer).first()
