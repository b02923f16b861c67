"""Rollups added up over spaces and their settings: what a page reads that is not filtered by either.

They are a fraction of the rollups, however many spaces there are. A deleted space takes its rollups along,
but its share of a summary cannot be told from the others': `RollupZone.summarised_since` says which hold.
"""

from typing import ClassVar

from django.db import models

from dashboard.models.rollups import Rollup

# What is left to tell assemblies apart by. Their order is that of the unique index.
SUMMARY_DIMENSIONS = ("stage", "kind", "phase", "model")


class Summary(Rollup):
    """Counts and sums of the assemblies of all spaces and settings."""

    space = None
    config = None

    class Meta:
        abstract = True


class HourSummary(Summary):
    """An hour by the clock of the zone that `RollupZone` names, which may be half an hour off UTC's."""

    class Meta:
        verbose_name_plural = "hour summaries"
        constraints: ClassVar = [
            # Pages read a team's stretch of time by it, too.
            models.UniqueConstraint(
                fields=["team", "start", *SUMMARY_DIMENSIONS], name="hour_summary_once", nulls_distinct=False
            ),
        ]


class DaySummary(Summary):
    """A day of that zone; `start` is its midnight."""

    class Meta:
        verbose_name_plural = "day summaries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "start", *SUMMARY_DIMENSIONS], name="day_summary_once", nulls_distinct=False
            ),
        ]
