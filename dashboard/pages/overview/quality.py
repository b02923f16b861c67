"""The worth of the savings: verdicts on contexts, and whether agents' tasks were completed."""

from dataclasses import dataclass

from django.db import connection

from dashboard.kit.proportions import NO_VOTES, Proportion
from dashboard.rollups.sources import FigureFilter, rollup_parameters
from memory.models import Verdict

# The verdicts that blame the context.
FAULTS = (Verdict.CONTEXT_MISSING, Verdict.CONTEXT_CUT, Verdict.CONTEXT_WRONG)


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of a period.

    `faults` are verdicts that blame the context, of all verdicts on answers that came to the review in the
    period; `completed` are tasks begun in the period, of those that have ended; `retried` are the same for
    tasks with at least one retry.
    """

    faults: Proportion = NO_VOTES
    completed: Proportion = NO_VOTES
    retried: Proportion = NO_VOTES


# Both periods at once, by indexes on a team's newest items and tasks. Tasks have no space, stage, config or
# model, so they are counted only for a team as a whole.
_QUALITY = """
SELECT is_now, v.faults, v.verdicts, t.completed, t.ended, t.retried_completed, t.retried
  FROM (SELECT i.created_at >= %(start)s AS is_now, count(*) AS verdicts,
               count(*) FILTER (WHERE s.verdict = ANY(%(faults)s)) AS faults
          FROM memory_reviewitem i
          JOIN memory_reviewslot s ON s.item_id = i.id AND s.verdict <> ''
          JOIN contextopt_assembly a ON a.id = i.assembly_id
         WHERE i.team_id = %(team_id)s AND i.created_at >= %(before)s AND i.created_at < %(until)s
           AND (i.created_at >= %(start)s OR i.created_at < %(before_until)s)
           AND (%(space_id)s::bigint IS NULL OR i.space_id = %(space_id)s)
           AND (%(stage)s::smallint IS NULL OR i.stage = %(stage)s)
           AND (%(config_version)s::integer IS NULL OR i.config_version = %(config_version)s)
           AND (%(kind)s::text IS NULL OR a.kind = %(kind)s)
           AND (%(phase)s::text IS NULL OR a.phase = %(phase)s)
           AND (%(model)s::text IS NULL OR a.model = %(model)s)
         GROUP BY 1) v
  FULL JOIN (
        SELECT t.created_at >= %(start)s AS is_now, count(*) AS ended,
               count(*) FILTER (WHERE t.state = 'completed') AS completed,
               count(*) FILTER (WHERE has.retries) AS retried,
               count(*) FILTER (WHERE has.retries AND t.state = 'completed') AS retried_completed
          FROM contextopt_task t
         CROSS JOIN LATERAL (
               SELECT EXISTS (SELECT FROM contextopt_attempt r WHERE r.task_id = t.id) AS retries) has
         WHERE %(is_whole)s AND t.team_id = %(team_id)s AND t.state <> 'open'
           AND t.created_at >= %(before)s AND t.created_at < %(until)s
           AND (t.created_at >= %(start)s OR t.created_at < %(before_until)s)
         GROUP BY 1) t USING (is_now)
"""


def read_quality(wanted: FigureFilter) -> tuple[Quality, Quality]:
    """Return the quality of the period and of the one before, in one query."""
    before = wanted.before().period
    narrowed = (wanted.space_id, wanted.stage, wanted.phase, wanted.config_version, wanted.model)
    with connection.cursor() as cursor:
        cursor.execute(
            _QUALITY,
            {
                **rollup_parameters(wanted),
                "before": before.start,
                "before_until": before.until,
                "faults": [str(verdict) for verdict in FAULTS],
                "is_whole": not any(value is not None for value in narrowed),
            },
        )
        found = {row[0]: _read(row) for row in cursor.fetchall()}
    return found.get(True, Quality()), found.get(False, Quality())


def _read(row: tuple[int | None, ...]) -> Quality:
    _, faults, verdicts, completed, ended, retried_completed, retried = (value or 0 for value in row)
    return Quality(
        Proportion(faults, verdicts), Proportion(completed, ended), Proportion(retried_completed, retried)
    )
