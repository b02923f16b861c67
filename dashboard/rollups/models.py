"""Assemblies added up: by quarter of an hour, and by the days of the team's time zone.

A trigger notes each new assembly in `UnfoldedAssembly`; folding takes the note away and adds the assembly in
one transaction. So an assembly counts once, whenever its transaction commits, and no watermark is kept.
"""

from decimal import Decimal
from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from pgvector.django import VectorField

from contextopt.models import ContextConfig, Kind, Space, Team
from dashboard.rollups.histograms import ASSEMBLY_MS, RATIO, TOKENS, UTILISATION, Histogram

# What assemblies are told apart by. Their order is that of the unique index.
DIMENSIONS = ("space", "stage", "kind", "config", "phase", "model")


def _counts(histogram: Histogram) -> VectorField:
    # A vector, since pgvector adds vectors up in the database; whole numbers are exact to 2^24 a bucket.
    return VectorField(dimensions=histogram.size)


class Rollup(models.Model):
    """Counts and sums of the assemblies that share a stretch of time and all dimensions."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="+", db_index=False)
    start = models.DateTimeField()
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="+")
    stage = models.PositiveSmallIntegerField(null=True)
    kind = models.CharField(max_length=8, choices=Kind)
    config = models.ForeignKey(ContextConfig, models.DB_CASCADE, null=True, related_name="+")
    phase = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=120, blank=True)
    assemblies = models.PositiveIntegerField()
    truncated = models.PositiveIntegerField()
    empties = models.PositiveIntegerField(default=0, help_text="space contexts without records")
    records_filtered = models.BigIntegerField()
    records_included = models.BigIntegerField()
    # These two add up only rows whose saving counts: `contextopt.models.assemblies.COUNTS`.
    tokens_before = models.BigIntegerField()
    tokens_after = models.BigIntegerField()
    tokens_saved = models.BigIntegerField(help_text="of assemblies with a baseline")
    # Averages are over requests: the sum of their ratios, and how many had one.
    ratios = models.FloatField()
    with_ratio = models.PositiveIntegerField()
    utilisations = models.FloatField()
    with_utilisation = models.PositiveIntegerField()
    ms_histogram = _counts(ASSEMBLY_MS)
    tokens_histogram = _counts(TOKENS)
    utilisation_histogram = _counts(UTILISATION)
    ratio_histogram = _counts(RATIO)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.assemblies} assemblies from {self.start:%Y-%m-%d %H:%M}"


class QuarterRollup(Rollup):
    """A quarter of an hour: so that every time zone's hours and days add up."""

    class Meta:
        constraints: ClassVar = [
            # Pages read a team's stretch of time by it, too.
            models.UniqueConstraint(
                fields=["team", "start", *DIMENSIONS], name="quarter_rollup_once", nulls_distinct=False
            ),
        ]


class DayRollup(Rollup):
    """A day of the zone that `RollupZone` names; `start` is its midnight."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "start", *DIMENSIONS], name="day_rollup_once", nulls_distinct=False
            ),
        ]


class RollupZone(models.Model):
    """The time zone whose days a team's day rollups are; another one is taken over by a job."""

    team = models.OneToOneField(Team, models.DB_CASCADE, primary_key=True, related_name="+")
    time_zone = models.CharField(max_length=64)
    summarised_since = models.DateTimeField(
        null=True, help_text="summaries are valid from here on; a job rebuilds older ones, newest first"
    )

    def __str__(self) -> str:
        return self.time_zone


class UnfoldedAssembly(models.Model):
    """An assembly that no rollup has yet. Written by a trigger; no foreign key, which would slow it."""

    assembly_id = models.BigIntegerField(primary_key=True)

    class Meta:
        verbose_name_plural = "unfolded assemblies"

    def __str__(self) -> str:
        return f"assembly {self.assembly_id}"


class StaleDay(models.Model):
    """A day, in UTC, whose rollups are to be made again: assemblies were deleted, or measures changed."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="+", db_index=False)
    day = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["team", "day"], name="stale_day_once")]

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d}"


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


class ModelPrice(models.Model):
    """The price of a model's input tokens, so that pages can say what a saving is worth."""

    model = models.CharField(
        max_length=120, unique=True, blank=True,
        help_text="Name used in requests. Leave blank for the price of requests without a model.",
    )  # fmt: skip
    dollars_per_million = models.DecimalField(
        "US dollars per million input tokens",
        max_digits=10, decimal_places=4, validators=[MinValueValidator(Decimal(0))],
    )  # fmt: skip
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["model"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(dollars_per_million__gte=0), name="model_price_positive"),
        ]

    def __str__(self) -> str:
        return self.model or "requests that name no model"
