"""What the verdicts say together: progress, agreement, and what to change in settings and records.

Figures are of finished items alone, so that nobody learns from them what others said of one still open.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from django.db import connection
from django.db.models import Count, Q

from contextopt.models import Team
from memory.review.agreement import krippendorff_alpha
from memory.review.models import ItemState, ReviewItem, ReviewSlot, Verdict

GROUPS_MAX = 50
EXPORT_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Items by what became of them; withdrawn ones are not counted."""

    waiting: int
    done: int
    done_since: int

    @property
    def total(self) -> int:
        return self.waiting + self.done


@dataclass(frozen=True, slots=True)
class Agreement:
    """Krippendorff's alpha over items that several judged; none where it cannot be said."""

    alpha: float | None
    items: int


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """Verdicts on answers of one version of the settings, or about one record."""

    space: str
    title: str
    key: int
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def worst(self) -> str:
        """Return the problem named most often; nothing where there was none."""
        problems = {name: n for name, n in self.counts.items() if name != Verdict.NO_PROBLEM}
        return max(problems, key=lambda name: problems[name]) if problems else ""


class VerdictRow(TypedDict):
    """One verdict as it is exported."""

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
    """Count the queue; `done_since` are the items finished at or after the moment."""
    done = Q(state=ItemState.DONE)
    found = ReviewItem.objects.of(team).aggregate(
        waiting=Count("pk", filter=Q(state=ItemState.OPEN)),
        done=Count("pk", filter=done),
        done_since=Count("pk", filter=done & Q(done_at__gte=since)),
    )
    return Progress(**found)


def read_agreement(team: Team) -> Agreement:
    """Compare the verdicts of items that several people judged."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT given, count(*)
              FROM (SELECT array_agg(s.verdict ORDER BY s.verdict) AS given
                      FROM memory_reviewslot s JOIN memory_reviewitem i ON i.id = s.item_id
                     WHERE i.team_id = %s AND i.state = 'done' AND s.verdict <> ''
                     GROUP BY s.item_id HAVING count(*) > 1) items
             GROUP BY given
            """,
            [team.pk],
        )
        units = {tuple(given): count for given, count in cursor.fetchall()}
    return Agreement(krippendorff_alpha(units), sum(units.values()))


def read_config_verdicts(team: Team) -> list[VerdictGroup]:
    """Return verdicts by version of the settings, the newest version of each space first."""
    return _read_groups(
        """
        SELECT p.slug, p.name, i.config_version, s.verdict, count(*)
          FROM memory_reviewslot s
          JOIN memory_reviewitem i ON i.id = s.item_id
          JOIN contextopt_space p ON p.id = i.space_id
         WHERE i.team_id = %s AND i.state = 'done' AND s.verdict <> '' AND i.config_version IS NOT NULL
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 3 DESC
        """,
        team,
    )[:GROUPS_MAX]


def read_record_verdicts(team: Team) -> list[VerdictGroup]:
    """Return verdicts by the records that they are about, the most often named first."""
    groups = _read_groups(
        """
        SELECT p.slug, r.title, r.id, s.verdict, count(*)
          FROM memory_reviewslot s
          JOIN memory_reviewitem i ON i.id = s.item_id
          CROSS JOIN LATERAL unnest(s.record_ids) AS named(id)
          JOIN contextopt_record r ON r.id = named.id
          JOIN contextopt_space p ON p.id = r.space_id AND p.team_id = i.team_id
         WHERE i.team_id = %s AND i.state = 'done' AND s.verdict <> ''
         GROUP BY 1, 2, 3, 4 ORDER BY sum(count(*)) OVER (PARTITION BY r.id) DESC, r.id LIMIT 300
        """,
        team,
    )
    return groups[:GROUPS_MAX]


def _read_groups(sql: str, team: Team) -> list[VerdictGroup]:
    groups: dict[tuple[str, int], VerdictGroup] = {}
    with connection.cursor() as cursor:
        cursor.execute(sql, [team.pk])
        for space, title, key, verdict, count in cursor.fetchall():
            group = groups.setdefault((space, key), VerdictGroup(space, title, key, {}))
            group.counts[verdict] = count
    return list(groups.values())


def export_verdicts(team: Team, reviewer: str) -> Iterator[VerdictRow]:
    """Yield every verdict on finished items, and the reviewer's own on all, oldest item first."""
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
    """Return the rows' cells; ids of records stand in one cell with blanks between them."""
    for row in rows:
        judged = row["judged_at"]
        cells = {
            **row,
            "record_ids": " ".join(map(str, row["record_ids"])),
            "judged_at": judged.isoformat() if judged else "",
        }
        yield [cells[name] for name in HEADER]
