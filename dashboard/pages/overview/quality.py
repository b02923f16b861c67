"""The worth of the savings: verdicts, votes, completed tasks, and changes that may explain it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils.text import Truncator

from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.engine.settings import SETTINGS
from contextopt.people.models import AuditEvent, Team
from contextopt.spaces.models import Space
from contextopt.sql import fetch_all
from dashboard.kit.charts.tiles import NO_VOTES, Proportion
from dashboard.kit.formats import setting_label, setting_words
from dashboard.kit.periods import Period
from dashboard.rollups.queries import FigureFilter, rollup_parameters
from memory.review.models import Verdict

CHANGES_SHOWN = 8
DETAILS_SHOWN = 3
MARK_CHARS = 16
# A model that was last used longer ago counts as new.
KNOWN_FOR = timedelta(days=100)
PUBLISHED, ACTIVATED = "config.published", "config.activated"


@dataclass(frozen=True, slots=True)
class PeriodChange:
    """One change. `mark` is its short name on a chart, `url` where it can be read, `space` the slug of the
    only space that it concerns.
    """

    at: datetime
    mark: str
    title: str
    details: str = ""
    url: str = ""
    space: str = ""


def read_changes(team: Team, wanted: FigureFilter, spaces: Mapping[str, Space]) -> list[PeriodChange]:
    """Return the newest changes of the period, newest first, in two queries.

    A third looks for the spaces with a change that are not among those given.
    """
    chosen = next((space for space in spaces.values() if space.pk == wanted.space_id), None)
    found = _config_changes(team, wanted.period, chosen, spaces)
    if wanted.space_id is None:
        found += _new_models(wanted)
    return sorted(found, key=lambda change: change.at, reverse=True)[:CHANGES_SHOWN]


def _config_changes(
    team: Team, period: Period, chosen: Space | None, spaces: Mapping[str, Space]
) -> list[PeriodChange]:
    events = AuditEvent.objects.of(team).filter(
        action__in=(PUBLISHED, ACTIVATED), at__gte=period.start, at__lt=period.until
    )
    # The first version comes with its space.
    events = events.exclude(action=PUBLISHED, subject__endswith=" v1")
    if chosen:
        events = events.filter(subject__startswith=f"{chosen.slug} v")
    if not any(space.is_demo for space in spaces.values()):
        # A removed demo remains only in the audit log.
        events = events.exclude(actor=DEMO_ACTOR)
    newest = list(events.order_by("-at", "-id")[:CHANGES_SHOWN])
    if unknown := {_subject_of(event)[0] for event in newest} - spaces.keys():
        spaces = {**spaces, **{each.slug: each for each in Space.objects.of(team).filter(slug__in=unknown)}}
    return [_config_change(event, chosen, spaces) for event in newest]


def _subject_of(event: AuditEvent) -> tuple[str, str]:
    """Return the slug of the space and the version, such as "v2"."""
    slug, _, version = event.subject.rpartition(" ")
    return slug, version


def _config_change(event: AuditEvent, chosen: Space | None, spaces: Mapping[str, Space]) -> PeriodChange:
    slug, version = _subject_of(event)
    space = spaces.get(slug)
    name = "" if chosen else f" for {space.name if space else slug}"
    verb = "published" if event.action == PUBLISHED else "activated"
    return PeriodChange(
        event.at,
        version if chosen or len(spaces) == 1 else f"{Truncator(slug).chars(12)} {version}",
        f"Config {version}{name} {verb} by {event.actor.partition(':')[2] or event.actor}",
        _details(event.before, event.after),
        reverse("dashboard:space_settings", args=[slug]) if space else "",
        slug,
    )


def _details(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Name the first settings that differ, and the number of the others."""
    names = [name for name in SETTINGS if name in after and name in before]
    told = [
        f"{setting_label(name)} {setting_words(before[name], name)} → {setting_words(after[name], name)}"
        for name in names[:DETAILS_SHOWN]
    ]
    rest = len(names) - len(told)
    return ", ".join([*told, f"{rest} more"] if rest else told)


# A model is new if the team had assemblies in the days before, but none with it.
_MODELS = """
SELECT model, first
  FROM (SELECT model, {first} AS first FROM dashboard_daysummary AS days
         WHERE team_id = %(team)s AND start >= %(known)s AND start < %(until)s AND model <> ''
         GROUP BY model
        HAVING min(start) >= %(day)s AND EXISTS (
               SELECT FROM dashboard_daysummary
                WHERE team_id = %(team)s AND start >= %(known)s AND start < %(day)s)) AS found
 WHERE first >= %(start)s
 ORDER BY first DESC LIMIT %(limit)s
"""
_FIRST_DAY = "min(start)"
_FIRST_HOUR = """
       (SELECT min(hours.start) FROM dashboard_hoursummary AS hours
         WHERE hours.team_id = %(team)s AND hours.start >= %(day)s AND hours.start < %(until)s
           AND hours.model = days.model)
"""


def _new_models(wanted: FigureFilter) -> list[PeriodChange]:
    period = wanted.period
    day = period.start.astimezone(period.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    values = {
        "team": wanted.team_id,
        "start": period.start,
        "day": day,
        "known": day - KNOWN_FOR,
        "until": period.until,
        "limit": CHANGES_SHOWN,
    }
    statement = _MODELS.format(first=_FIRST_HOUR if period.step == "hour" else _FIRST_DAY)
    return [
        PeriodChange(first, Truncator(model).chars(MARK_CHARS), f"First prompts for {model}")
        for model, first in fetch_all(statement, values)
    ]


# The verdicts that blame the context.
FAULTS = (Verdict.CONTEXT_MISSING, Verdict.CONTEXT_CUT, Verdict.CONTEXT_WRONG)


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of a period.

    `faults` are verdicts that blame the context, of all verdicts on answers that came to the review in the
    period, and `fault_points` those of each bucket; `completed` are tasks begun in the period, of those that
    have ended; `retried` are the same for tasks with at least one retry.
    """

    faults: Proportion = NO_VOTES
    completed: Proportion = NO_VOTES
    retried: Proportion = NO_VOTES
    fault_points: tuple[Proportion, ...] = field(default=(), compare=False)


# Both periods at once, by indexes on a team's newest items and tasks: verdicts by bucket, 0 for all of the
# period before, then tasks by period. Tasks have no space, stage, config or model, so they are counted only
# for a team as a whole.
_QUALITY = """
SELECT 'verdicts', width_bucket(i.created_at, %(edges)s::timestamptz[]) AS bucket,
       count(*) FILTER (WHERE s.verdict = ANY(%(faults)s)), count(*), 0, 0
  FROM memory_reviewitem i
  JOIN memory_reviewslot s ON s.item_id = i.id AND s.verdict <> ''
  JOIN contextopt_assembly a ON a.id = i.assembly_id
 WHERE i.team_id = %(team_id)s AND i.created_at >= %(before)s AND i.created_at < %(until)s
   AND (i.created_at >= %(start)s OR i.created_at < %(before_until)s)
   {narrowed}
 GROUP BY 2
 UNION ALL
SELECT 'tasks', (t.created_at >= %(start)s)::integer AS period,
       count(*) FILTER (WHERE t.state = 'completed'), count(*),
       count(*) FILTER (WHERE has.retries AND t.state = 'completed'), count(*) FILTER (WHERE has.retries)
  FROM contextopt_task t
 CROSS JOIN LATERAL (
       SELECT EXISTS (SELECT FROM contextopt_attempt r WHERE r.task_id = t.id) AS retries) has
 WHERE %(is_whole)s AND t.team_id = %(team_id)s AND t.state <> 'open'
   AND t.created_at >= %(before)s AND t.created_at < %(until)s
   AND (t.created_at >= %(start)s OR t.created_at < %(before_until)s)
 GROUP BY 2
"""
_OF_ITEMS = {name: f"i.{name}" for name in ("space_id", "stage", "config_version")}


def read_quality(wanted: FigureFilter) -> tuple[Quality, Quality]:
    """Return the quality of the period and of the one before, in one query."""
    before = wanted.before().period
    narrowed = (wanted.space_id, wanted.stage, wanted.phase, wanted.config_version, wanted.model)
    values = {
        **rollup_parameters(wanted),
        "before": before.start,
        "before_until": before.until,
        "faults": [str(verdict) for verdict in FAULTS],
        "is_whole": not any(value is not None for value in narrowed),
    }
    rows = fetch_all(_QUALITY.format(narrowed=wanted.where("a.", **_OF_ITEMS)), values)
    verdicts = {
        bucket: Proportion(hits, count) for what, bucket, hits, count, *_ in rows if what == "verdicts"
    }
    tasks = {
        place: (Proportion(hits, count), Proportion(*retried))
        for what, place, hits, count, *retried in rows
        if what == "tasks"
    }
    points = tuple(verdicts.get(bucket, NO_VOTES) for bucket in range(1, len(wanted.period.edges)))
    none = (NO_VOTES, NO_VOTES)
    return (
        Quality(sum(points, NO_VOTES), *tasks.get(1, none), fault_points=points),
        Quality(verdicts.get(0, NO_VOTES), *tasks.get(0, none)),
    )


@dataclass(frozen=True, slots=True)
class Feedback:
    """Votes on the answers to the filtered assemblies: all, by stage, by stage for each bucket, and all of
    each bucket.
    """

    total: Proportion = NO_VOTES
    stages: Mapping[int, Proportion] = field(default_factory=dict)
    points: Mapping[int, tuple[Proportion, ...]] = field(default_factory=dict)
    total_points: tuple[Proportion, ...] = ()


# Votes are few compared with assemblies, and each belongs to one of them. The ORM takes three times as long.
# Answers to audited prompts had no context, so they count for no stage. The last row shows that the team has
# any votes.
_VOTES = """
SELECT CASE WHEN a.is_sent THEN coalesce(v.stage, 0) ELSE 0 END,
       width_bucket(v.created_at, %(edges)s::timestamptz[]) AS bucket,
       count(*), count(*) FILTER (WHERE v.rating = 'up')
  FROM memory_vote v JOIN contextopt_assembly a ON a.id = v.assembly_id
 WHERE v.team_id = %(team_id)s AND v.created_at >= %(start)s AND v.created_at < %(until)s
   {narrowed}
 GROUP BY 1, 2
 UNION ALL
SELECT 0, NULL, 0, 0 WHERE EXISTS (SELECT FROM memory_vote WHERE team_id = %(team_id)s)
"""
_OF_VOTES = {
    "space_id": "v.space_id",
    "stage": "CASE WHEN a.is_sent THEN v.stage END",
    "config_version": "CASE WHEN a.is_sent THEN v.config_version END",
    "phase": "v.phase",
}


def read_feedback(wanted: FigureFilter) -> Feedback | None:
    """Return the period's votes by the time they were given; None if the team has never voted."""
    rows = fetch_all(_VOTES.format(narrowed=wanted.where("a.", **_OF_VOTES)), rollup_parameters(wanted))
    return _by_stage([row for row in rows if row[1]], len(wanted.period.buckets)) if rows else None


def _by_stage(rows: list[tuple[int, int, int, int]], buckets: int) -> Feedback:
    points: defaultdict[int, list[Proportion]] = defaultdict(lambda: [NO_VOTES] * buckets)
    for stage, bucket, votes, liked in rows:
        points[stage][bucket - 1] = Proportion(liked, votes)
    stages = {stage: sum(found, NO_VOTES) for stage, found in sorted(points.items())}
    total = sum(stages.values(), NO_VOTES)
    # Votes without a stage count in the total, but have no line of their own.
    return Feedback(
        total,
        {stage: votes for stage, votes in stages.items() if stage},
        {stage: tuple(points[stage]) for stage in stages if stage},
        tuple(sum(votes, NO_VOTES) for votes in zip(*points.values(), strict=True)),
    )
