"""Queries for a period's figures: from rollups, from the log where it is not in them yet, and with prices.

Summaries, which cover all spaces, are read unless a space or a config is filtered. Rollups store tokens
alone, so a price that is entered or corrected later counts at once, from its first day on. A day is one of
the team's time zone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import groupby, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from contextopt.assemblies.figures import FIGURES
from contextopt.assemblies.models import SPLIT
from contextopt.assemblies.placement.modelcatalog import EnteredPrice, TokenPrice, resolve_price
from contextopt.sql import fetch_rows
from dashboard.kit.periods import Period
from dashboard.rollups.measures import QUARTER, SUMMARY_COLUMNS, columns, measured
from dashboard.rollups.models import ModelPrice, UnfoldedAssembly

# Reading this many raw rows takes some 20 ms; more wait only if the worker is behind or down.
FRESH_ROWS = 2_000


# The configs of a version as an array, so that the index alone finds their rollups.
_CONFIGS = """ANY(ARRAY(
    SELECT c.id FROM contextopt_contextconfig c JOIN contextopt_space s ON s.id = c.space_id
     WHERE s.team_id = %(team_id)s AND c.version = %(config_version)s))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyFilter:
    """The assemblies of a team that have these dimensions; None means any."""

    team_id: int
    space_id: int | None = None
    stage: int | None = None
    kind: str | None = None
    phase: str | None = None
    config_version: int | None = None
    model: str | None = None

    def where(self, alias: str = "", **columns: str) -> str:
        """Return the conditions in SQL, each after an AND. Other tables may name their own columns."""
        given = [name for name, value in self.dimensions().items() if value is not None]
        return "".join(
            f" AND {alias}config_id = {_CONFIGS}"
            if name == "config_version" and name not in columns
            else f" AND {columns.get(name, alias + name)} = %({name})s"
            for name in given
        )

    def dimensions(self) -> dict[str, Any]:
        """Return the parameters of `where`, without the team."""
        names = ("space_id", "stage", "kind", "phase", "config_version", "model")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class FigureFilter(AssemblyFilter):
    """The assemblies that a page's figures cover."""

    team_id: int
    period: Period

    def over(self, period: Period) -> "FigureFilter":
        return replace(self, period=period)

    def before(self) -> "FigureFilter":
        """Return the same filter for the preceding period."""
        return self.over(self.period.before())

    @property
    def hours_end(self) -> datetime:
        """The end of the whole hours, after the days; there are none if an edge is not on the hour."""
        period = self.period
        until = period.until.astimezone(period.zone)
        if period.step == "hour" and any(edge.astimezone(period.zone).minute for edge in period.edges):
            return period.days_end
        return max(period.days_end, until.replace(minute=0, second=0, microsecond=0).astimezone(UTC))

    @property
    def is_of_all_spaces(self) -> bool:
        """Whether summaries suffice: nothing is filtered that they do not distinguish."""
        return self.space_id is None and self.config_version is None


_FRESH = measured(
    QUARTER,
    """FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
       JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s
        AND a.created_at >= %(start)s AND a.created_at < %(until)s + interval '15 minutes'""",
)
_ZONE_HAS = "coalesce((SELECT {what} FROM dashboard_rollupzone WHERE team_id = %(team_id)s), false)"
_HAS_ZONE = _ZONE_HAS.format(what="time_zone = %(zone)s")
_IS_SUMMARISED = _ZONE_HAS.format(what="time_zone = %(zone)s AND summarised_since <= %(start)s")
_NAMES = columns(SUMMARY_COLUMNS)


def rollup_rows(wanted: FigureFilter) -> str:
    """Return a query for a filter's measurements: `start`, the summaries' dimensions, all measures.

    The last quarter counts whole, so a period ends up to 15 minutes after its `until`. Days and summaries of
    another time zone than the period's, and invalid summaries, are not used until a job has rebuilt them.
    """
    if not wanted.is_of_all_spaces:
        return detailed_rows(wanted, _NAMES)
    narrowed = wanted.where()
    return f"{_summary_rows(narrowed)} UNION ALL {_fresh_rows(narrowed, _NAMES)}"


def detailed_rows(wanted: FigureFilter, names: str) -> str:
    """Return a query for `start` and these columns of a filter's measurements by every dimension: those of
    whole days, and of quarters after them.
    """
    narrowed = wanted.where()
    return f"""
        SELECT start, {names} FROM dashboard_dayrollup
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s AND {_HAS_ZONE}
           {narrowed}
        UNION ALL
        SELECT start, {names} FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start < %(until)s {narrowed}
           AND start >= CASE WHEN {_HAS_ZONE} THEN %(days_end)s ELSE %(start)s END
        UNION ALL {_fresh_rows(narrowed, names)}
    """


def _fresh_rows(narrowed: str, names: str) -> str:
    """Return a query for the assemblies that are in no rollup yet."""
    return f"""
        SELECT start, {names} FROM ({_FRESH}) AS fresh
         WHERE start >= %(start)s AND start < %(until)s {narrowed}
    """


def _summary_rows(narrowed: str) -> str:
    """Return a query for summaries of days and hours, and for quarters after the hours."""
    return f"""
        SELECT start, {_NAMES} FROM dashboard_daysummary
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s AND {_IS_SUMMARISED}
           {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_hoursummary
         WHERE team_id = %(team_id)s AND start >= %(days_end)s AND start < %(hours_end)s AND {_IS_SUMMARISED}
           {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_dayrollup
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s
           AND {_HAS_ZONE} AND NOT {_IS_SUMMARISED} {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start < %(until)s {narrowed}
           AND start >= CASE WHEN {_IS_SUMMARISED} THEN %(hours_end)s
                             WHEN {_HAS_ZONE} THEN %(days_end)s ELSE %(start)s END
    """


def rollup_parameters(wanted: FigureFilter) -> dict[str, Any]:
    """Return the values of the filter and its period, among them its edges, by their names in queries."""
    period = wanted.period
    return {
        "team_id": wanted.team_id,
        # PostgreSQL's text of an array: the driver would take longer for each moment.
        "edges": f"{{{','.join(edge.isoformat() for edge in period.edges)}}}",
        "start": period.start,
        "days_end": period.days_end,
        "hours_end": wanted.hours_end,
        "until": period.until,
        "zone": period.zone.key,
        "fresh_rows": FRESH_ROWS,
        **wanted.dimensions(),
    }


def is_behind() -> bool:
    """Return whether more assemblies wait to be folded than pages read themselves."""
    return UnfoldedAssembly.objects.all()[FRESH_ROWS : FRESH_ROWS + 1].exists()


class LogRow(NamedTuple):
    """One assembly: the figures that have buckets, by their names, and its records. A figure that it lacks is
    None.
    """

    created_at: datetime
    records_included: int
    records_filtered: int
    truncated: bool
    kind: str
    stage: int | None
    ms: float
    tokens: int
    ratio: float | None
    utilisation: float | None


_MEASURED = {figure.buckets.name: figure.value_sql for figure in FIGURES if figure.buckets}
_OWN = "records_included, records_filtered, truncated, kind, stage"
_FIGURES = f"a.id, a.created_at, {', '.join(f'a.{name}' for name in _OWN.split(', '))}, " + ", ".join(
    f"{value} AS {name}" for name, value in _MEASURED.items()
)
_IS_SMALL = "(kind = ANY(%(kinds)s) OR stage = ANY(%(stages)s))"
# Days of any time zone lead to the quarters; a local day has up to 25 hours. An assembly that is not in a
# rollup yet may be in a quarter that is.
_ROWS = f"""
WITH days AS MATERIALIZED (
    SELECT DISTINCT start FROM dashboard_dayrollup
     WHERE team_id = %(team_id)s AND start > %(start)s - interval '25 hours' AND start < %(until)s
       AND {_IS_SMALL} {{narrowed}}
), quarters AS MATERIALIZED (
    SELECT DISTINCT q.start FROM days CROSS JOIN LATERAL (
        SELECT start FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start >= days.start AND start < days.start + interval '25 hours'
           AND {_IS_SMALL} {{narrowed}}) q
)
SELECT created_at, {_OWN}, {", ".join(_MEASURED)} FROM (
    SELECT {_FIGURES} FROM quarters q JOIN contextopt_assembly a
        ON a.team_id = %(team_id)s
       AND a.created_at >= q.start AND a.created_at < q.start + interval '15 minutes'
     WHERE {_IS_SMALL} {{narrowed}}
    UNION
    SELECT {_FIGURES} FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
      JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s
     WHERE {_IS_SMALL} {{narrowed}}
) AS found
 WHERE created_at >= %(start)s AND {QUARTER.replace("a.created_at", "created_at")} < %(until)s
 ORDER BY created_at
"""


def read_small_groups(wanted: FigureFilter, kinds: Sequence[str], stages: Sequence[int]) -> list[LogRow]:
    """Return the assemblies of these kinds and stages, oldest first, in one query.

    With fewer than `EXACT_BELOW` of them, percentiles are exact, however long the log is.
    """
    values = {**rollup_parameters(wanted), "kinds": list(kinds), "stages": list(stages)}
    return fetch_rows(LogRow, _ROWS.format(narrowed=wanted.where()), values)


# Further models get no price, as if it were unknown. The most used models come first.
MODELS_PRICED = 200
_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

PRICE_JOIN = """
          LEFT JOIN unnest(%(price_models)s::text[], %(price_since)s::timestamptz[],
                           %(price_until)s::timestamptz[], %(price_input)s::float8[],
                           %(price_read)s::float8[], %(price_write)s::float8[])
                 AS price (model, since, until, input, read, write)
            ON price.model = rollups.model
           AND rollups.start >= price.since AND rollups.start < price.until
"""
"""Joins `rollups` with the prices of their models that held on their day, in dollars a token."""
_TOKENS, _CACHED, _CACHEABLE = SPLIT
_REST = f"({_TOKENS} - {_CACHED} - {_CACHEABLE})"
DOLLARS = f"({_CACHED} * price.read + {_CACHEABLE} * price.write + {_REST} * price.input)"
"""The cost of the prompts in a row."""
DOLLARS_ANEW = f"(({_CACHED} + {_CACHEABLE}) * price.write + {_REST} * price.input)"
"""The cost of the same prompts if each had begun with something new."""
SAVED_DOLLARS = """(saved_cached * price.read + saved_cacheable * price.write
                    + (saved_in_prompts - saved_cached - saved_cacheable) * price.input)"""
"""The worth of the saving in prompts, at the mean cost of a token of each prompt."""
SAVED_DOLLARS_LISTED = "saved_in_prompts * price.input"
"""The same saving without the provider's cache."""

# The index of day summaries alone answers. Models of the last seconds are not in them yet, unless they have a
# price of their own.
_MODELS = """
    SELECT model, price.effective_from, price.dollars_per_million, price.cached_read_dollars,
           price.cache_write_dollars
      FROM (SELECT model, count(*) AS days FROM dashboard_daysummary
             WHERE team_id = %(team)s AND start > %(since)s - interval '1 day' AND start < %(until)s
             GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %(limit)s) AS used
      FULL JOIN dashboard_modelprice price USING (model)
     ORDER BY 1, 2
"""


class _Entered(NamedTuple):
    """A model in use, with one of the prices that were entered for it, if there are any."""

    model: str
    effective_from: date | None
    dollars_per_million: Any
    cached_read_dollars: Any
    cache_write_dollars: Any

    def to_entered(self) -> EnteredPrice | None:
        if self.effective_from is None:
            return None
        return ModelPrice(
            effective_from=self.effective_from,
            dollars_per_million=self.dollars_per_million,
            cached_read_dollars=self.cached_read_dollars,
            cache_write_dollars=self.cache_write_dollars,
        ).to_entered()


@dataclass(frozen=True, slots=True)
class PriceSpan:
    """The price of a model from one moment to another, which is not included."""

    model: str
    since: datetime
    until: datetime
    price: TokenPrice


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of the models that a team uses."""

    spans: tuple[PriceSpan, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `PRICE_JOIN`."""
        spans = self.spans
        full = [span.price.dollars_per_million / 1_000_000 for span in spans]
        return {
            "price_models": [span.model for span in spans],
            "price_since": [span.since for span in spans],
            "price_until": [span.until for span in spans],
            "price_input": full,
            "price_read": [a * span.price.cache.read for a, span in zip(full, spans, strict=True)],
            "price_write": [a * span.price.cache.write for a, span in zip(full, spans, strict=True)],
        }


def read_prices(wanted: FigureFilter) -> PriceList:
    """Return the prices for the period and the one before, in one query."""
    since, zone = wanted.before().period.start, wanted.period.zone
    values = {"team": wanted.team_id, "since": since, "until": wanted.period.until, "limit": MODELS_PRICED}
    rows = fetch_rows(_Entered, _MODELS, values)
    by_model = groupby(rows, key=lambda row: row.model)
    entered = ((model, filter(None, (row.to_entered() for row in group))) for model, group in by_model)
    spans = (price_spans(model, prices, zone) for model, prices in entered)
    return PriceList(tuple(span for each in spans for span in each if span.until > since))


def price_spans(model: str, entered: Iterable[EnteredPrice], zone: ZoneInfo) -> Iterator[PriceSpan]:
    """Yield the package's price up to the first one that was entered, then each of these, oldest first."""
    prices = [*entered]
    edges = [_ALWAYS, *(datetime.combine(price.since, time(), zone) for price in prices), _NEVER]
    for (since, until), own in zip(pairwise(edges), (None, *prices), strict=True):
        price = resolve_price(model, own)
        if price is not None:
            yield PriceSpan(model, since, until, price)
