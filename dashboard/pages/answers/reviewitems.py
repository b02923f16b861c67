"""An answer under review beside its context, and the changes that verdicts suggest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.functions import Length
from django.http import HttpRequest

from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.assemblies.verify import read_config
from contextopt.chat.models import Message
from contextopt.engine.rendering import EXCERPT_CHARS
from contextopt.engine.settings import SEARCH_STAGE
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.engine.wording import plural
from contextopt.people.models import Team
from contextopt.spaces.configs import parse_settings
from contextopt.spaces.models import Record
from contextopt.sql import fetch_rows
from dashboard.kit.formats import whole
from dashboard.kit.inspector import LedgerRow, find_titles, read_ledger
from memory.feedback.models import Vote
from memory.feedback.votes import find_kept
from memory.review.models import ReviewItem, ReviewSlot, Verdict
from memory.review.verdicts import VerdictGroup

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


WEIGHT_MAX = 10
READ_NOTES = "Read the reviewers' notes."
RECORD_ADVICE = {
    Verdict.CONTEXT_MISSING: "Pin it, or tag it with words people use in questions.",
    Verdict.CONTEXT_CUT: "Put the main point first, or split it.",
    Verdict.CONTEXT_WRONG: "Correct or delete it.",
    Verdict.MODEL: "No change needed.",
    Verdict.OTHER: READ_NOTES,
}


@dataclass(frozen=True, slots=True)
class Case:
    """The contexts of one config that got one verdict, what they left out, and the config's settings.

    `asked` counts those with a question.
    """

    space: str
    version: int
    verdict: str
    contexts: int
    asked: int
    outside_window: int
    over_limit: int
    over_budget: int
    settings: Settings

    @property
    def is_asked(self) -> bool:
        """Whether the settings for questions decided most of these contexts."""
        return self.asked * 2 > self.contexts

    @property
    def window(self) -> int | None:
        return self.settings.question_window_days if self.is_asked else self.settings.window_days

    @property
    def limit(self) -> int | None:
        return self.settings.question_max_records if self.is_asked else self.settings.max_records


_CASES = f"""
SELECT p.slug AS space, c.version, s.verdict, count(*) AS contexts,
       count(*) FILTER (WHERE a.stage = {SEARCH_STAGE}) AS asked,
       count(*) FILTER (WHERE a.outside_window > 0) AS outside_window,
       count(*) FILTER (WHERE a.over_record_limit > 0) AS over_limit,
       count(*) FILTER (WHERE a.over_budget > 0) AS over_budget,
       c.settings
  FROM memory_reviewslot s
  JOIN memory_reviewitem i ON i.id = s.item_id
  JOIN contextopt_assembly a ON a.id = i.assembly_id
  JOIN contextopt_space p ON p.id = i.space_id
  JOIN contextopt_contextconfig c ON c.space_id = i.space_id AND c.version = i.config_version
 WHERE i.team_id = %(team)s AND i.state = 'done' AND s.verdict <> ''
 GROUP BY p.slug, s.verdict, c.id
"""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The change that verdicts on one version or record suggest."""

    group: VerdictGroup
    worst: str
    times: int
    advice: str
    others: str


def _read_case(*, settings: str, **columns: Any) -> Case:
    return Case(**columns, settings=parse_settings(settings))


def suggest_settings(team: Team, groups: Iterable[VerdictGroup]) -> list[Suggestion]:
    """Return the changes of settings that verdicts suggest, in one query.

    Groups without a problem are left out.
    """
    found = {
        (case.space, case.version, case.verdict): case
        for case in fetch_rows(_read_case, _CASES, {"team": team.pk})
    }
    return [
        _suggestion(group, advise(case) if case else READ_NOTES)
        for group in groups
        if group.worst
        for case in [found.get((group.space, group.key, group.worst))]
    ]


def suggest_records(groups: Iterable[VerdictGroup]) -> list[Suggestion]:
    """Return the changes of records that verdicts suggest, leaving out groups without a problem."""
    return [_suggestion(group, RECORD_ADVICE[Verdict(group.worst)]) for group in groups if group.worst]


def _suggestion(group: VerdictGroup, advice: str) -> Suggestion:
    worst = Verdict(group.worst)
    rest = sorted((n, name) for name, n in group.counts.items() if name != worst)
    others = ", ".join(f"{n} {Verdict(name).label.lower()}" for n, name in reversed(rest))
    return Suggestion(group, worst.label, group.counts[worst], advice, others)


def advise(case: Case) -> str:
    """Return what to change in the settings. Settings that bound nothing are not named."""
    match case.verdict:
        case Verdict.CONTEXT_MISSING:
            return _advise_missing(case)
        case Verdict.CONTEXT_CUT:
            return _advise_cut(case)
        case Verdict.CONTEXT_WRONG:
            # A question ranks by its own weights.
            if case.is_asked or case.settings.recency_weight >= WEIGHT_MAX:
                return "Correct or delete the records that the verdicts name."
            weight = f"{case.settings.recency_weight.normalize():f}"
            return f"Raise the recency weight ({weight}), or correct the records that the verdicts name."
        case Verdict.MODEL:
            return "The context was right. Check the model or its instructions."
    return READ_NOTES


def _advise_missing(case: Case) -> str:
    told = " ".join(_left_out(case))
    if told:
        return told
    if case.is_asked:
        return (
            "No setting left a record out. Raise the weights of words and meaning, or tag records with words "
            "people use in questions."
        )
    return "No setting left a record out. Check whether the space holds the answer."


def _left_out(case: Case) -> Iterator[str]:
    """Yield a sentence for each setting that left records out, with the number of contexts."""
    reasons = (
        (case.outside_window, case.window, "Widen the date window", "days", "outside it"),
        (case.over_limit, case.limit, "Raise the record limit", "records", "over it"),
        (case.over_budget, case.settings.context_tokens, "Raise the context budget", "tokens", "over it"),
    )
    for count, setting, change, unit, where in reasons:
        if count and setting is not None:
            of = plural(case.contexts, "context")
            yield f"{change} ({whole(setting)} {unit}): {whole(count)} of {of} left out records {where}."


def _advise_cut(case: Case) -> str:
    own = case.settings
    options = [f"raise the context budget ({whole(own.context_tokens)} tokens)"] if case.over_budget else []
    if case.is_asked and own.question_notes_chars is not None:
        options.append(f"raise the notes limit ({whole(own.question_notes_chars)} characters)")
    if case.is_asked and own.question_record_tokens is not None:
        options.append(f"raise the record size ({whole(own.question_record_tokens)} tokens)")
    if not options:
        return "Put the main point first in the records that the verdicts name, or split them."
    words = " or ".join(options)
    return f"{words[0].upper()}{words[1:]}."
