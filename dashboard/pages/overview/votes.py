"""Votes on the answers to the overview's assemblies: in all, by stage, and by stage over time."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection

from dashboard.kit.proportions import NO_VOTES, Proportion
from dashboard.pages.overview.figures import array_text
from dashboard.rollups.sources import FigureFilter, rollup_parameters


@dataclass(frozen=True, slots=True)
class Feedback:
    """Votes on the answers to the filtered assemblies: all, by stage, and by stage for each bucket."""

    total: Proportion = NO_VOTES
    stages: Mapping[int, Proportion] = field(default_factory=dict)
    points: Mapping[int, tuple[Proportion, ...]] = field(default_factory=dict)


# Votes are few compared with assemblies, and each belongs to one of them. The ORM takes three times as long.
# Answers to audited prompts had no context, so they count for no stage. The last row shows that the team has
# any votes.
_VOTES = """
SELECT CASE WHEN a.is_sent THEN coalesce(v.stage, 0) ELSE 0 END,
       width_bucket(v.created_at, %(edges)s::timestamptz[]) AS bucket,
       count(*), count(*) FILTER (WHERE v.rating = 'up')
  FROM memory_vote v JOIN contextopt_assembly a ON a.id = v.assembly_id
 WHERE v.team_id = %(team_id)s AND v.created_at >= %(start)s AND v.created_at < %(until)s
   AND (%(space_id)s::bigint IS NULL OR v.space_id = %(space_id)s)
   AND (%(stage)s::smallint IS NULL OR a.is_sent AND v.stage = %(stage)s)
   AND (%(config_version)s::integer IS NULL OR a.is_sent AND v.config_version = %(config_version)s)
   AND (%(phase)s::text IS NULL OR v.phase = %(phase)s)
   AND (%(kind)s::text IS NULL OR a.kind = %(kind)s)
   AND (%(model)s::text IS NULL OR a.model = %(model)s)
 GROUP BY 1, 2
 UNION ALL
SELECT 0, NULL, 0, 0 WHERE EXISTS (SELECT FROM memory_vote WHERE team_id = %(team_id)s)
"""


def read_feedback(wanted: FigureFilter) -> Feedback | None:
    """Return the period's votes by the time they were given; None if the team has never voted."""
    edges = wanted.period.edges
    with connection.cursor() as cursor:
        cursor.execute(_VOTES, {**rollup_parameters(wanted), "edges": array_text(edges)})
        rows = cursor.fetchall()
    return _by_stage([row for row in rows if row[1]], len(edges) - 1) if rows else None


def _by_stage(rows: list[tuple[int, int, int, int]], buckets: int) -> Feedback:
    points: defaultdict[int, list[Proportion]] = defaultdict(lambda: [NO_VOTES] * buckets)
    for stage, bucket, votes, liked in rows:
        points[stage][bucket - 1] = Proportion(liked, votes)
    stages = {stage: sum(found, NO_VOTES) for stage, found in points.items()}
    total = sum(stages.values(), NO_VOTES)
    # Votes without a stage count in the total, but have no line of their own.
    return Feedback(
        total,
        {stage: votes for stage, votes in stages.items() if stage},
        {stage: tuple(found) for stage, found in points.items() if stage},
    )
