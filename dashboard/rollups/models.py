"""Assemblies added up: by quarter of an hour, and by day in the team's time zone.

A trigger notes each new assembly in `UnfoldedAssembly`. Folding removes the note and adds the assembly in one
transaction, so an assembly counts once, whenever its transaction commits, without a watermark.
"""

from datetime import date
from decimal import Decimal
from typing import Any, ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from pgvector.django import VectorField

from contextopt.assemblies.figures import FIGURES, Adds, Figure, Total
from contextopt.assemblies.models import Kind
from contextopt.assemblies.placement.modelcatalog import EnteredPrice
from contextopt.engine.placement.choice import LIFETIME_SECONDS, MINIMUM_TOKENS, CachePrices
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space
from dashboard.rollups.histograms import ASSEMBLY_MS, HISTOGRAMS, Histogram

# The dimensions that distinguish assemblies, in the order of the unique index.
DIMENSIONS = ("space", "stage", "kind", "config", "phase", "model")


def _counts(histogram: Histogram) -> VectorField:
    # A vector, because pgvector adds vectors up in the database. Whole numbers are exact to 2^24 per bucket.
    return VectorField(dimensions=histogram.size)


class Rollup(models.Model):
    """Counts and sums of the assemblies that share a period of time and all dimensions.

    The columns after the dimensions come from the table of figures.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="+", db_index=False)
    start = models.DateTimeField()
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="+")
    stage = models.PositiveSmallIntegerField(null=True)
    kind = models.CharField(max_length=8, choices=Kind)
    config = models.ForeignKey(ContextConfig, models.DB_CASCADE, null=True, related_name="+")
    phase = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=MODEL_MAX, blank=True)
    assemblies: int

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.assemblies} assemblies from {self.start:%Y-%m-%d %H:%M}"


def _total_field(figure: Figure, total: Total) -> "models.Field[Any, Any]":
    if total.adds is Adds.COUNT:
        return models.PositiveIntegerField(default=0)
    return models.FloatField(default=0.0) if figure.known_type is float else models.BigIntegerField(default=0)


# Each histogram stands beside the ends of its values, which are null without any.
for _figure in FIGURES:
    for _total in _figure.totals:
        Rollup.add_to_class(_total.column, _total_field(_figure, _total))
for _histogram in HISTOGRAMS:
    Rollup.add_to_class(_histogram.name, _counts(_histogram))
    for _end in (_histogram.smallest, _histogram.largest):
        Rollup.add_to_class(_end, models.FloatField(null=True))


class QuarterRollup(Rollup):
    """A quarter of an hour: the hours and days of every time zone are sums of quarters."""

    class Meta:
        constraints: ClassVar = [
            # Pages also use it to read a team's period.
            models.UniqueConstraint(
                fields=["team", "start", *DIMENSIONS], name="quarter_rollup_once", nulls_distinct=False
            ),
        ]


class DayRollup(Rollup):
    """A day in the zone of `RollupZone`; `start` is its midnight."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "start", *DIMENSIONS], name="day_rollup_once", nulls_distinct=False
            ),
        ]


class RollupZone(models.Model):
    """The time zone of a team's day rollups. A job rebuilds them after the team's zone changes."""

    team = models.OneToOneField(Team, models.DB_CASCADE, primary_key=True, related_name="+")
    time_zone = models.CharField(max_length=64)
    summarised_since = models.DateTimeField(
        null=True, help_text="summaries are valid from here on; a job rebuilds older ones, newest first"
    )

    def __str__(self) -> str:
        return self.time_zone


class UnfoldedAssembly(models.Model):
    """An assembly in no rollup yet. A trigger writes it; a foreign key would slow that down."""

    assembly_id = models.BigIntegerField(primary_key=True)

    class Meta:
        verbose_name_plural = "unfolded assemblies"

    def __str__(self) -> str:
        return f"assembly {self.assembly_id}"


class StaleDay(models.Model):
    """A day, in UTC, whose rollups must be rebuilt: assemblies were deleted, or measures changed."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="+", db_index=False)
    day = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["team", "day"], name="stale_day_once")]

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d}"


# The remaining dimensions that distinguish assemblies, in the order of the unique index.
SUMMARY_DIMENSIONS = ("stage", "kind", "phase", "model")


class Summary(Rollup):
    """Counts and sums of the assemblies of all spaces and settings."""

    space = None
    config = None

    class Meta:
        abstract = True


class HourSummary(Summary):
    """An hour by the clock of the `RollupZone`, which may be half an hour off UTC."""

    class Meta:
        verbose_name_plural = "hour summaries"
        constraints: ClassVar = [
            # Pages also use it to read a team's period.
            models.UniqueConstraint(
                fields=["team", "start", *SUMMARY_DIMENSIONS], name="hour_summary_once", nulls_distinct=False
            ),
        ]


class DaySummary(Summary):
    """A day in that zone; `start` is its midnight."""

    class Meta:
        verbose_name_plural = "day summaries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "start", *SUMMARY_DIMENSIONS], name="day_summary_once", nulls_distinct=False
            ),
        ]


class ModelPrice(models.Model):
    """The prices of a model's input tokens from a day on, so that pages can show what prompts cost.

    With the price of cached reads, contexts are placed by it. A request takes the prices of its day, also if
    they are entered later.
    """

    model = models.CharField(
        max_length=MODEL_MAX, blank=True,
        help_text="Name used in requests. Leave blank for the price of requests without a model.",
    )  # fmt: skip
    dollars_per_million = models.DecimalField(
        "US dollars per million input tokens",
        max_digits=10, decimal_places=4, validators=[MinValueValidator(Decimal(0))],
    )  # fmt: skip
    cached_read_dollars = models.DecimalField(
        "US dollars per million tokens read from the cache",
        max_digits=10, decimal_places=4, null=True, blank=True, validators=[MinValueValidator(Decimal(0))],
        help_text="Leave blank for the price in the package genai-prices, if it has one.",
    )  # fmt: skip
    cache_write_dollars = models.DecimalField(
        "US dollars per million tokens written to the cache",
        max_digits=10, decimal_places=4, null=True, blank=True, validators=[MinValueValidator(Decimal(0))],
        help_text="Leave blank if writing costs as much as any other input.",
    )  # fmt: skip
    minimum_tokens = models.PositiveIntegerField(
        default=MINIMUM_TOKENS, help_text="The shortest beginning of a prompt that is cached."
    )
    lifetime_seconds = models.PositiveIntegerField(
        default=int(LIFETIME_SECONDS), help_text="How long an unused beginning stays cached."
    )
    effective_from = models.DateField(
        default=date(2000, 1, 1), help_text="The first day that these prices hold, in the team's time zone."
    )
    source = models.CharField(max_length=300, blank=True, help_text="Where the prices come from.")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["model", "-effective_from"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(dollars_per_million__gte=0), name="model_price_positive"),
            models.CheckConstraint(
                condition=(Q(cached_read_dollars=None) | Q(cached_read_dollars__gte=0))
                & (Q(cache_write_dollars=None) | Q(cache_write_dollars__gte=0)),
                name="model_price_cache_positive",
            ),
            models.UniqueConstraint(fields=["model", "effective_from"], name="model_price_once_a_day"),
        ]

    def __str__(self) -> str:
        return self.model or "requests that name no model"

    def to_entered(self) -> EnteredPrice:
        return EnteredPrice(self.effective_from, float(self.dollars_per_million), self._cache_prices())

    def _cache_prices(self) -> CachePrices | None:
        """Return the prices as shares of the input price; None without a price of cached reads."""
        if self.cached_read_dollars is None or not self.dollars_per_million:
            return None
        full = self.dollars_per_million
        write = full if self.cache_write_dollars is None else self.cache_write_dollars
        return CachePrices(
            float(self.cached_read_dollars / full),
            float(write / full),
            self.minimum_tokens,
            float(self.lifetime_seconds),
        )


def own_prices(model: str) -> list[EnteredPrice]:
    """Return the prices entered for the model."""
    return [price.to_entered() for price in ModelPrice.objects.filter(model=model)]


# The dimensions that distinguish prompts of the gateway, in the order of the unique index.
TRAFFIC_DIMENSIONS = ("space", "key_id", "model", "mode", "reason")


class Traffic(models.Model):
    """Prompts that passed the gateway, added up. A trigger adds each new one.

    Token sums of the provider cover the prompts that it reported them for, which are counted beside them.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="+", db_index=False)
    start = models.DateTimeField()
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="+")
    # No foreign key: a deleted key keeps its figures.
    key_id = models.BigIntegerField(null=True)
    model = models.CharField(max_length=MODEL_MAX, blank=True)
    mode = models.CharField(max_length=6)
    reason = models.CharField(max_length=15, blank=True)
    requests = models.PositiveIntegerField()
    inserted = models.PositiveIntegerField()
    failed = models.PositiveIntegerField(
        help_text="not answered, or with an error from the provider; clients that left are apart"
    )
    abandoned = models.PositiveIntegerField(
        default=0, db_default=0, help_text="whose client left before the answer ended; not failed"
    )
    prompt_tokens = models.BigIntegerField(help_text="counted here, without the context")
    context_tokens = models.BigIntegerField(help_text="inserted, or in audit mode what would have been")
    saved_tokens = models.BigIntegerField(help_text="of contexts whose saving counts, each once")
    with_usage = models.PositiveIntegerField()
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    with_cached = models.PositiveIntegerField()
    cached_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField(help_text="input of the prompts with a cached count")
    cache_write_tokens = models.BigIntegerField()
    added_histogram = _counts(ASSEMBLY_MS)
    added_smallest = models.FloatField()
    added_largest = models.FloatField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.requests} prompts from {self.start:%Y-%m-%d %H:%M}"


class TrafficQuarter(Traffic):
    """A quarter of an hour."""

    class Meta:
        constraints: ClassVar = [
            # Pages also use it to read a team's period.
            models.UniqueConstraint(
                fields=["team", "start", *TRAFFIC_DIMENSIONS], name="traffic_quarter_once",
                nulls_distinct=False,
            ),
        ]  # fmt: skip


class TrafficDay(Traffic):
    """A day in the team's time zone. A trigger adds them up again when the zone changes."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "start", *TRAFFIC_DIMENSIONS], name="traffic_day_once", nulls_distinct=False
            ),
        ]
