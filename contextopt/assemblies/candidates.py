"""Reads candidates from PostgreSQL: bounded, exact, and without loading a whole space.

`frequency` has eleven values, and among records of equal frequency the newer one never scores lower. So for
any weights, window and time, a space's best k are among the newest k of each of the eleven. One index
(`record_stratum`) finds those, and nothing is rewritten when weights or time change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.assembly import LEDGER_DROPPED, STAGE_3_RECORDS, assemble
from contextopt.engine.details import Query
from contextopt.engine.placement.blocks import Sight
from contextopt.engine.ranking import HORIZON_US, NEIGHBOUR_REACH, coefficients
from contextopt.engine.settings import HEADER_STAGE, LAST_RECORDS_STAGE, ContextConfig
from contextopt.engine.text.promptparts import Span
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.values import (
    Assembled,
    ContextWarning,
    DateRange,
    FilterCounts,
    PartSizes,
    RecordSummary,
    SpaceContext,
)
from contextopt.errors import NotFound
from contextopt.limits import DATE_MIN
from contextopt.spaces.configs import parse_settings
from contextopt.sql import fetch_all, fetch_one, id_array

# No summary line is shorter than this, so the budget bounds how many can fit.
LINE_TOKENS_MIN = 8
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ConfiguredSpace:
    """A space with its active settings, read by one statement. A prompt has what is `shown` of the space."""

    id: int
    slug: str
    shown: SpaceContext
    time_zone: str
    config_id: int
    config_version: int
    settings: ContextConfig


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best candidates, the ten newest records, and counts of what the filters passed.

    For a question, the engine ranks by `query`, `passages` are the parts of its text that were looked up, and
    `encoder` names the model of their vectors, if they have one.
    `reach` is the multiple of the usual number that was read. `is_all` means that no candidates or texts are
    left to read.
    """

    records: tuple[RecordSummary, ...]
    baseline: tuple[RecordSummary, ...]
    counts: FilterCounts
    query: Query | None = None
    encoder: str = ""
    warnings: tuple[ContextWarning, ...] = ()
    reach: int = 1
    is_all: bool = True
    passages: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request for one context: who makes it, in which space, and everything that the decision depends on
    besides the candidates.

    `overrides` are the settings that the request changes, as JSON. `sizes` are the tokens of the caller's own
    parts of the prompt.
    """

    team_id: int
    actor: str
    request: AssemblyIn
    space: ConfiguredSpace
    config: ContextConfig
    overrides: dict[str, Any]
    as_of: datetime
    tokenizer: Tokenizer
    sizes: PartSizes

    @property
    def effective_config(self) -> ContextConfig:
        """The settings with the stage that applies: without a question, stage 5 works as stage 4."""
        return self.config if self.request.asks else self.config.without_question()

    def decide(self, found: Candidates, sight: Sight) -> Assembled:
        """Let the engine decide which of the candidates enter the prompt."""
        return assemble(
            replace(self.space.shown, records=found.records),
            self.config,
            self.as_of,
            self.tokenizer,
            sizes=self.sizes,
            counts=found.counts,
            baseline=found.baseline,
            query=found.query,
            sight=sight,
        )


_SPACE_SQL = """
SELECT s.id, s.slug, s.name, s.description, s.categories, t.time_zone, c.id, c.version,
       c.settings
  FROM contextopt_space s
  JOIN contextopt_team t ON t.id = s.team_id
  JOIN contextopt_contextconfig c ON c.space_id = s.id AND c.is_active
 WHERE s.team_id = %(team)s AND s.slug = %(slug)s
"""


def load_space(team_id: int, slug: str) -> ConfiguredSpace:
    """Read a space of the team with its active settings.

    Raises:
        NotFound: the team has no such space.
    """
    row = fetch_one(_SPACE_SQL, {"team": team_id, "slug": slug})
    if row is None:
        raise NotFound(f"There is no space {slug!r}.")
    space_id, slug, name, description, categories, time_zone, config_id, version, settings = row
    return ConfiguredSpace(
        id=space_id,
        slug=slug,
        shown=SpaceContext(name, description, tuple(categories)),
        time_zone=time_zone,
        config_id=config_id,
        config_version=version,
        settings=parse_settings(settings),
    )


# One statement, so that counts and candidates come from one snapshot. The counts are used twice, so they are
# materialised.
_CANDIDATES_SQL = """
WITH strata AS (
    SELECT r.id, r.date, r.frequency
      FROM generate_series(0, 10) AS f(frequency)
     CROSS JOIN LATERAL (
           SELECT id, date, frequency FROM contextopt_record
            WHERE space_id = %(space)s AND frequency = f.frequency
              AND deleted_at IS NULL AND NOT pinned
              AND date >= %(start)s AND date <= %(end)s
            ORDER BY date DESC, id DESC LIMIT %(limit)s) AS r
), pins AS (
    SELECT id, date, frequency FROM contextopt_record
     WHERE space_id = %(space)s AND deleted_at IS NULL AND pinned
), best AS (
    (SELECT id, 'candidate' AS role FROM strata ORDER BY {score} DESC, date DESC, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT id, 'candidate' FROM pins ORDER BY {score} DESC, date DESC, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT id, 'baseline' FROM contextopt_record
      WHERE space_id = %(space)s AND deleted_at IS NULL AND date <= %(end)s
      ORDER BY date DESC, id DESC LIMIT {baseline})
), counts AS MATERIALIZED (
    SELECT n.live, n.pinned, n.deleted,
           (SELECT coalesce(sum(h.live), 0)::bigint FROM contextopt_spacehour h
             WHERE h.space_id = %(space)s AND h.hour >= %(first_hour)s AND h.hour < %(last_hour)s)
           + (SELECT count(*) FROM contextopt_record
               WHERE space_id = %(space)s AND deleted_at IS NULL AND NOT pinned
                 AND date >= %(start)s AND date < %(first_hour)s)
           + (SELECT count(*) FROM contextopt_record
               WHERE space_id = %(space)s AND deleted_at IS NULL AND NOT pinned
                 AND date >= %(last_hour)s AND date <= %(end)s) AS inside
      FROM contextopt_spacecounts n WHERE n.space_id = %(space)s
)
SELECT c.inside + c.pinned, c.live - c.inside, c.deleted, b.role,
       r.id, r.date, r.view_count, r.summary, r.summary_tokens, r.summary_encoding, r.pinned,
       r.source, r.external_id, r.version
  FROM counts c
  LEFT JOIN best b ON true
  LEFT JOIN contextopt_record r ON r.id = b.id
""".format(
    # A literal, because for a parameter the planner guesses thousands of rows and replans every call.
    baseline=STAGE_3_RECORDS,
    score="""(%(recency)s::bigint * greatest(0, %(span)s::bigint - greatest(0,
        (extract(epoch FROM (%(now)s::timestamptz - date)) * 1000000)::bigint))
        + %(frequency)s::bigint * frequency)""",
)

# Stage 3 has no window, scores or pins: only the newest records, and how many there are.
_NEWEST_SQL = """
WITH newest AS (
    SELECT id, date, view_count, summary, summary_tokens, summary_encoding, pinned, source, external_id,
           version
      FROM contextopt_record
     WHERE space_id = %(space)s AND deleted_at IS NULL AND date <= %(end)s
     ORDER BY date DESC, id DESC LIMIT %(limit)s
), counts AS (
    SELECT n.live + n.pinned AS live, n.deleted,
           (SELECT count(*) FROM contextopt_record
             WHERE space_id = %(space)s AND deleted_at IS NULL AND date > %(end)s) AS ahead
      FROM contextopt_spacecounts n WHERE n.space_id = %(space)s
)
SELECT c.live - c.ahead, c.ahead, c.deleted, CASE WHEN r.id IS NOT NULL THEN 'candidate' END, r.*
  FROM counts c LEFT JOIN newest r ON true
"""


def load_candidates(asked: PreparedRequest, *, limit: int | None = None) -> Candidates:
    """Read what the stage needs: nothing, the newest records, or the best of the window and the pinned.

    Besides pinned records, reads at most 11 × (record limit + 100) index entries for candidates, whatever the
    size of the space. If search finds the other candidates, `limit` replaces the number in parentheses.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    config = asked.effective_config
    if config.stage == HEADER_STAGE:
        return Candidates((), (), FilterCounts(0))
    statement = _NEWEST_SQL if config.stage == LAST_RECORDS_STAGE else _CANDIDATES_SQL
    window = DateRange.ending_at(asked.as_of, config.effective_window_days)
    start, weights = max(window.start or DATE_MIN, DATE_MIN), coefficients(config)
    parameters = {
        "space": asked.space.id,
        "now": asked.as_of,
        "start": start,
        "end": window.end,
        "first_hour": (start + HOUR - timedelta(microseconds=1)).replace(minute=0, second=0, microsecond=0),
        "last_hour": window.end.replace(minute=0, second=0, microsecond=0),
        "recency": weights.recency,
        "frequency": weights.frequency,
        "span": HORIZON_US,
        "limit": limit or most_that_fit(config, LINE_TOKENS_MIN) + LEDGER_DROPPED,
    }
    rows = fetch_all(statement, parameters)
    if not rows:
        raise NotFound("The space was deleted in the meantime.")
    found: dict[str | None, list[RecordSummary]] = {"candidate": [], "baseline": []}
    for _, _, _, role, *record in rows:
        if role is not None:
            found[role].append(read_summary(record, asked.tokenizer))
    return Candidates(tuple(found["candidate"]), tuple(found["baseline"]), FilterCounts(*rows[0][:3]))


def most_that_fit(config: ContextConfig, record_tokens: int) -> int:
    """Return the most records of this size that could be kept, by the record limit and by the budget."""
    by_budget = config.context_share(config.stage) // record_tokens + 1
    return by_budget if config.record_limit is None else min(config.record_limit, by_budget)


def read_summary(row: Sequence[Any], tokenizer: Tokenizer) -> RecordSummary:
    """Build the engine's value from a row as selected here, from the id on."""
    record_id, date, views, line, tokens, encoding, pinned, source, external_id, version = row
    return RecordSummary(
        id=record_id,
        date=date,
        view_count=views,
        line=line,
        # Stored counts are of the space's encoding, or of an earlier one until a job has counted again.
        tokens=tokenizer.convert(line, tokens, encoding),
        pinned=pinned,
        source=source,
        external_id=external_id,
        version=version,
    )


# Uses the same index twice, once in each direction.
_NEIGHBOURS_SQL = f"""
WITH hit AS (
    SELECT id, thread, coalesce(position, 0) AS place, date FROM contextopt_record
     WHERE id = ANY(%(ids)s::bigint[]) AND space_id = %(space)s AND thread <> '' AND deleted_at IS NULL
)
SELECT h.id,
       ARRAY(SELECT r.id FROM contextopt_record r
              WHERE r.space_id = %(space)s AND r.thread = h.thread AND r.thread <> ''
                AND r.deleted_at IS NULL
                AND (coalesce(r.position, 0), r.date, r.id) < (h.place, h.date, h.id)
              ORDER BY coalesce(r.position, 0) DESC, r.date DESC, r.id DESC LIMIT {NEIGHBOUR_REACH}),
       ARRAY(SELECT r.id FROM contextopt_record r
              WHERE r.space_id = %(space)s AND r.thread = h.thread AND r.thread <> ''
                AND r.deleted_at IS NULL
                AND (coalesce(r.position, 0), r.date, r.id) > (h.place, h.date, h.id)
              ORDER BY coalesce(r.position, 0), r.date, r.id LIMIT {NEIGHBOUR_REACH})
  FROM hit h
"""


def read_threads(space_id: int, hits: Sequence[int]) -> list[list[int]]:
    """Return the hits with their neighbours, as runs of ids in thread order."""
    if not hits:
        return []
    rows = fetch_all(_NEIGHBOURS_SQL, {"ids": id_array(hits), "space": space_id})
    return join_runs([*reversed(before), row_id, *after] for row_id, before, after in rows)


def join_runs(runs: Iterable[Sequence[int]]) -> list[list[int]]:
    """Join overlapping runs. Each run is a gapless part of an order in which every id occurs once."""
    follows: dict[int, int] = {}
    members: set[int] = set()
    for run in runs:
        members.update(run)
        follows.update(pairwise(run))
    joined = []
    for start in sorted(members - set(follows.values())):
        run = [start]
        while run[-1] in follows:
            run.append(follows[run[-1]])
        joined.append(run)
    return joined
