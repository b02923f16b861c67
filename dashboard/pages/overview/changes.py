"""Changes in a period: settings that were published, and models that were new."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.urls import reverse
from django.utils.text import Truncator

from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.engine.settings import SETTINGS
from contextopt.people.models import AuditEvent, Team
from contextopt.spaces.models import Space
from dashboard.kit.formats import setting_label, setting_words
from dashboard.kit.periods import Period
from dashboard.rollups.coverage import FigureFilter

CHANGES_SHOWN = 8
DETAILS_SHOWN = 3
MARK_CHARS = 16
# A model that was last used longer ago counts as new.
KNOWN_FOR = timedelta(days=100)
PUBLISHED, ACTIVATED = "config.published", "config.activated"


@dataclass(frozen=True, slots=True)
class PeriodChange:
    """One change. `mark` is its short name on a chart, `url` where it can be read."""

    at: datetime
    mark: str
    title: str
    details: str = ""
    url: str = ""


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
    with connection.cursor() as cursor:
        cursor.execute(
            _MODELS.format(first=_FIRST_HOUR if period.step == "hour" else _FIRST_DAY),
            {
                "team": wanted.team_id,
                "start": period.start,
                "day": day,
                "known": day - KNOWN_FOR,
                "until": period.until,
                "limit": CHANGES_SHOWN,
            },
        )
        return [
            PeriodChange(first, Truncator(model).chars(MARK_CHARS), f"First prompts for {model}")
            for model, first in cursor
        ]
