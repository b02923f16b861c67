"""Summarises the verdicts: progress, agreement, and what to change in settings and records.

The figures cover finished items only, so that they do not reveal others' verdicts on open ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Q, QuerySet

from contextopt.assemblies.verify import Difference
from contextopt.people.models import Team
from contextopt.sql import fetch_all
from memory.feedback.models import Vote
from memory.review.models import ItemState, ReviewItem, ReviewSlot, Verdict


def krippendorff_alpha(units: Mapping[tuple[str, ...], int]) -> float | None:
    """Return Krippendorff's alpha for nominal values.

    `units` maps each combination of values to the number of units that were given it; judges may be missing.
    1 is perfect agreement, 0 is what chance would give, below 0 is systematic disagreement. None if
    undefined: no unit has two values, or all values are the same.

    Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C, nominal data: α =
    1 − (n − 1) · Σ_u (m_u − 1)⁻¹-weighted disagreeing pairs / (n² − Σ_c n_c²), over units of m_u ≥ 2 values.
    """
    totals: Counter[str] = Counter()
    disagreeing = 0.0
    for values, count in units.items():
        if len(values) < 2:
            continue
        within = Counter(values)
        size = len(values)
        totals.update({value: times * count for value, times in within.items()})
        differing_pairs = size * size - sum(times * times for times in within.values())
        disagreeing += count * differing_pairs / (size - 1)
    n = totals.total()
    expected = n * n - sum(times * times for times in totals.values())
    if not expected:
        return None
    return 1 - (n - 1) * disagreeing / expected


GROUPS_MAX = 50
EXPORT_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of items by state, without withdrawn ones."""

    waiting: int
    done: int
    done_since: int

    @property
    def total(self) -> int:
        return self.waiting + self.done


@dataclass(frozen=True, slots=True)
class Agreement:
    """Krippendorff's alpha over the items that several people judged; None if undefined."""

    alpha: float | None
    items: int


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """Verdicts on the answers of one version of the settings, or about one record."""

    space: str
    title: str
    key: int
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def worst(self) -> str:
        """Return the problem named most often, or an empty text if none was."""
        problems = {name: n for name, n in self.counts.items() if name != Verdict.NO_PROBLEM}
        return max(problems, key=lambda name: problems[name]) if problems else ""


class VerdictRow(TypedDict):
    """One exported verdict."""

    item_id: int
    assembly_id: int
    message_id: int | None
    external_message_id: str | None
    space: str | None
    stage: int | None
    config_version: int | None
    origin: str
    reviewer: str
    verdict: str
    note: str
    record_ids: list[int]
    judged_at: datetime | None


HEADER = tuple(VerdictRow.__annotations__)


def read_progress(team: Team, since: datetime) -> Progress:
    """Count the queue; `done_since` counts the items finished at or after that moment."""
    done = Q(state=ItemState.DONE)
    found = ReviewItem.objects.of(team).aggregate(
        waiting=Count("pk", filter=Q(state=ItemState.OPEN)),
        done=Count("pk", filter=done),
        done_since=Count("pk", filter=done & Q(done_at__gte=since)),
    )
    return Progress(**found)


def read_agreement(team: Team) -> Agreement:
    """Compare the verdicts of items that several people judged."""
    given = ArrayAgg("verdict", order_by="verdict")
    several = _finished(team).values("item_id").annotate(given=given, people=Count("pk")).filter(people__gt=1)
    units = Counter(tuple(verdicts) for verdicts in several.values_list("given", flat=True))
    return Agreement(krippendorff_alpha(units), units.total())


def _finished(team: Team) -> QuerySet[ReviewSlot]:
    """Return the verdicts on finished items."""
    return ReviewSlot.objects.judged().filter(item__team=team, item__state=ItemState.DONE)


def read_config_verdicts(team: Team) -> list[VerdictGroup]:
    """Return the verdicts by version of the settings, each space's newest version first."""
    of_spaces = _finished(team).exclude(item__config_version=None).exclude(item__space=None)
    counted = of_spaces.values_list(
        "item__space__slug", "item__space__name", "item__config_version", "verdict"
    ).annotate(count=Count("pk"))
    return _to_groups(counted.order_by("item__space__slug", "-item__config_version"))


# A verdict names its records in an array, which the ORM cannot join.
_BY_RECORD = """
SELECT p.slug, r.title, r.id, s.verdict, count(*)
  FROM memory_reviewslot s
  JOIN memory_reviewitem i ON i.id = s.item_id
  CROSS JOIN LATERAL unnest(s.record_ids) AS named(id)
  JOIN contextopt_record r ON r.id = named.id
  JOIN contextopt_space p ON p.id = r.space_id AND p.team_id = i.team_id
 WHERE i.team_id = %s AND i.state = 'done' AND s.verdict <> ''
 GROUP BY 1, 2, 3, 4 ORDER BY sum(count(*)) OVER (PARTITION BY r.id) DESC, r.id LIMIT 300
"""


def read_record_verdicts(team: Team) -> list[VerdictGroup]:
    """Return the verdicts by the records that they are about, the most often named first."""
    return _to_groups(fetch_all(_BY_RECORD, [team.pk]))


def _to_groups(rows: Iterable[tuple[str, str, int, str, int]]) -> list[VerdictGroup]:
    groups: dict[tuple[str, int], VerdictGroup] = {}
    for space, title, key, verdict, count in rows:
        group = groups.setdefault((space, key), VerdictGroup(space, title, key, {}))
        group.counts[verdict] = count
    return list(groups.values())[:GROUPS_MAX]


def export_verdicts(team: Team, reviewer: str) -> Iterator[VerdictRow]:
    """Yield every verdict on finished items, and all of the reviewer's own, oldest item first."""
    seen = Q(item__state=ItemState.DONE) | Q(reviewer=reviewer)
    rows = (
        ReviewSlot.objects.judged()
        .filter(seen, item__team=team)
        .select_related("item__space", "item__external_message")
        .order_by("item_id", "number")
    )
    for slot in rows.iterator(chunk_size=EXPORT_CHUNK):
        yield _export_row(slot)


def _export_row(slot: ReviewSlot) -> VerdictRow:
    item = slot.item
    external = item.external_message
    return VerdictRow(
        item_id=item.pk,
        assembly_id=item.assembly_id,
        message_id=item.message_id,
        stage=item.stage,
        config_version=item.config_version,
        origin=item.origin,
        external_message_id=external.external_id if external else None,
        space=item.space.slug if item.space else None,
        reviewer=slot.reviewer,
        verdict=slot.verdict,
        note=slot.note,
        record_ids=slot.record_ids,
        judged_at=slot.judged_at,
    )


def csv_rows(rows: Iterable[VerdictRow]) -> Iterator[list[object]]:
    """Yield the rows' cells; ids of records share one cell, separated by spaces."""
    for row in rows:
        judged = row["judged_at"]
        cells = {
            **row,
            "record_ids": " ".join(map(str, row["record_ids"])),
            "judged_at": judged.isoformat() if judged else "",
        }
        yield [cells[name] for name in HEADER]


CHUNK = 2_000
_COPIES = {
    "team_id": "assembly__team_id",
    "space_id": "assembly__space_id",
    "stage": "assembly__stage",
    "config_version": "assembly__config__version",
}
_SUBJECTS = (("vote", Vote, _COPIES | {"phase": "assembly__phase"}), ("review item", ReviewItem, _COPIES))


def verify_copies(team_id: int) -> Iterator[tuple[str, int, Difference]]:
    """Yield the kind and id of each vote and review item with a copy that differs, and how."""
    for subject, model, copies in _SUBJECTS:
        rows = model._default_manager.filter(team_id=team_id).order_by("pk")
        for pk, *values in rows.values_list("pk", *copies, *copies.values()).iterator(CHUNK):
            for name, stored, found in zip(copies, values, values[len(copies) :], strict=False):
                if stored != found:
                    yield subject, pk, Difference(name, stored, found)


def count_copies(team_id: int) -> int:
    return sum(model._default_manager.filter(team_id=team_id).count() for _, model, _ in _SUBJECTS)
