"""Reads the figures of prompts that passed the gateway, for a period and by group, from whole days and the
quarters of an hour after them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import Any, Literal

import numpy as np
from django.db.models import Q

from contextopt.assemblies.placement.modelcatalog import EnteredPrice
from contextopt.sql import fetch_rows
from dashboard.kit.periods import Period
from dashboard.rollups.histograms import ASSEMBLY_MS, EXACT_BELOW, Ends, Floats, exact_percentile
from dashboard.rollups.models import ModelPrice
from dashboard.rollups.quarters import QUARTERS_NEEDED, join_quarters, within
from dashboard.rollups.queries import PRICE_JOIN, PriceList, price_spans

type Grouping = Literal["model", "key_id", "space_id", "mode", "reason"]
GROUPINGS: tuple[Grouping, ...] = ("model", "key_id", "space_id", "mode", "reason")
# Groups beyond these are added up as one.
GROUPS_SHOWN = 50
_Row = dict[str, Any]
_ALWAYS = (datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class TrafficFilter:
    """The prompts that figures cover; None means any."""

    team_id: int
    period: Period
    space_id: int | None = None
    key_id: int | None = None
    model: str | None = None
    mode: str | None = None
    reason: str | None = None

    def over(self, period: Period) -> "TrafficFilter":
        return replace(self, period=period)

    def parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = {name: getattr(self, name) for name in GROUPINGS}
        period = self.period
        bounds = {"start": period.start, "days_end": period.days_end, "until": period.until}
        return {"team_id": self.team_id, **bounds, **given}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Figures of some prompts. `cost` is the price of the input of `priced` of them, in dollars.

    `added` is the histogram of the time added, and `ends` are its smallest and largest value, in ms. `times`
    are all of them if there are few.
    """

    requests: int = 0
    inserted: int = 0
    failed: int = 0
    abandoned: int = 0
    without: int = 0
    prompt_tokens: int = 0
    context_tokens: int = 0
    saved_tokens: int = 0
    with_usage: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    with_cached: int = 0
    cached_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    priced: int = 0
    cost: float = 0.0
    added: Floats | None = None
    ends: Ends = (inf, 0.0)
    times: tuple[float, ...] = ()

    @property
    def cached_share(self) -> float | None:
        """The share of the input that came from the cache, of prompts with a count; None without any."""
        if not self.with_cached or not self.cached_input_tokens:
            return None
        return self.cached_tokens / self.cached_input_tokens

    @property
    def dollars(self) -> float | None:
        return self.cost if self.priced else None

    def __add__(self, other: "Traffic") -> "Traffic":
        counted: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        vectors = [added for added in (self.added, other.added) if added is not None]
        return Traffic(
            **counted,
            added=np.sum(vectors, axis=0) if vectors else None,
            ends=(min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])),
        )

    def added_ms(self, share: float) -> float | None:
        if self.added is None or len(self.times) == self.requests:
            return exact_percentile(self.times, share)
        return ASSEMBLY_MS.percentile(self.added.tolist(), share, self.ends)


_ADDED = tuple(field.name for field in fields(Traffic) if field.name not in {"added", "ends"})
_SUMS = tuple(name for name in _ADDED if name not in {"without", "priced", "cost", "times"})
_CONDITIONS = " ".join(
    f"AND (%({name})s::{kind} IS NULL OR t.{name} = %({name})s)"
    for name, kind in (
        ("space_id", "bigint"), ("key_id", "bigint"), ("model", "text"), ("mode", "text"), ("reason", "text"),
    )
)  # fmt: skip
_PROMPTS = f"""(
    SELECT t.* FROM dashboard_trafficday t
     WHERE t.team_id = %(team_id)s AND t.start >= %(start)s AND t.start < %(days_end)s {_CONDITIONS}
    UNION ALL
    SELECT t.* FROM dashboard_trafficquarter t
     WHERE t.team_id = %(team_id)s AND t.start >= %(days_end)s AND t.start < %(until)s {_CONDITIONS}
) AS rollups"""
_MODELS = f"SELECT DISTINCT model FROM {_PROMPTS} WHERE with_usage > 0"
# Tokens that the provider did not report as cached are priced in full.
_COST = """((input_tokens - cached_tokens - cache_write_tokens) * price.input
            + cached_tokens * price.read + cache_write_tokens * price.write)"""
_FIGURES = f"""
    {", ".join(f"sum(rollups.{name}) AS {name}" for name in _SUMS)},
    coalesce(sum(requests) FILTER (WHERE reason <> ''), 0) AS without,
    coalesce(sum(with_usage) FILTER (WHERE price.model IS NOT NULL), 0) AS priced,
    coalesce(sum({_COST}), 0)::float8 AS cost,
    vector_send(sum(added_histogram)) AS added, min(added_smallest) AS smallest, max(added_largest) AS largest
"""
_GROUPS = f"""
SELECT grouping({", ".join(f"rollups.{name}" for name in GROUPINGS)}) AS level,
       {", ".join(f"rollups.{name}" for name in GROUPINGS)}, {_FIGURES}
  FROM {_PROMPTS} {PRICE_JOIN}
 GROUP BY GROUPING SETS ((), {", ".join(f"(rollups.{name})" for name in GROUPINGS)})
"""
_TOTAL = f"SELECT {_FIGURES} FROM {_PROMPTS} {PRICE_JOIN}"
_BUCKETS = f"""
SELECT width_bucket(rollups.start, %(edges)s::timestamptz[]) - 1 AS bucket, {_FIGURES}
  FROM {_PROMPTS} {PRICE_JOIN}
 GROUP BY 1
"""
# grouping() has a bit for each column, which is 0 for the column that is grouped by.
_ALL = 2 ** len(GROUPINGS) - 1
_LEVELS = {_ALL ^ (1 << (len(GROUPINGS) - 1 - at)): name for at, name in enumerate(GROUPINGS)}


@dataclass(frozen=True, slots=True)
class Groups:
    """A period's figures: all of it, and by each dimension, the most prompts first."""

    total: Traffic
    by: Mapping[Grouping, list[tuple[Any, Traffic]]]


def read_groups(wanted: TrafficFilter, prices: PriceList) -> Groups:
    total = Traffic()
    by: dict[Grouping, list[tuple[Any, Traffic]]] = {name: [] for name in GROUPINGS}
    for row in fetch_rows(_Row, _GROUPS, {**wanted.parameters(), **prices.parameters()}):
        if row["requests"] is None:
            continue
        if row["level"] == _ALL:
            total = _traffic(row)
        else:
            name = _LEVELS[row["level"]]
            by[name].append((row[name], _traffic(row)))
    if total.requests < EXACT_BELOW:
        rows_of_log = _read_times(wanted)
        total = _with_times(total, rows_of_log)
        for name, rows in by.items():
            by[name] = [
                (value, _with_times(traffic, [row for row in rows_of_log if row[name] == value]))
                for value, traffic in rows
            ]
    for rows in by.values():
        rows.sort(key=lambda group: (-group[1].requests, str(group[0])))
        del rows[GROUPS_SHOWN:]
    return Groups(total, by)


def read_total(wanted: TrafficFilter, prices: PriceList) -> Traffic:
    [row] = fetch_rows(_Row, _TOTAL, {**wanted.parameters(), **prices.parameters()})
    return Traffic() if row["requests"] is None else _traffic(row)


def read_buckets(wanted: TrafficFilter, prices: PriceList) -> list[Traffic]:
    """Return the figures of each bucket of the period."""
    edges = list(wanted.period.edges)
    found = [Traffic()] * (len(edges) - 1)
    for row in fetch_rows(_Row, _BUCKETS, {**wanted.parameters(), **prices.parameters(), "edges": edges}):
        if 0 <= row["bucket"] < len(found):
            found[row["bucket"]] = _traffic(row)
    if sum(traffic.requests for traffic in found) < EXACT_BELOW:
        rows_of_log = _read_times(wanted)
        for bucket, (since, until) in enumerate(pairwise(edges)):
            own = [row for row in rows_of_log if since <= row["created_at"] < until]
            found[bucket] = _with_times(found[bucket], own)
    return found


# Rollups know which quarters hold the prompts. A deleted key is in rollups alone.
_TIMES = f"""
SELECT t.*
  FROM (SELECT DISTINCT t.start FROM dashboard_trafficquarter t
         WHERE t.team_id = %(team_id)s AND t.start >= %(start)s AND t.start < %(until)s {_CONDITIONS}) q
  JOIN LATERAL (
       SELECT created_at, added_ms, space_id, api_key_id AS key_id, model, mode, reason
         FROM contextopt_gatewayrequest
        WHERE team_id = %(team_id)s
          AND created_at >= q.start AND created_at < q.start + interval '15 minutes') t ON true
 WHERE true {_CONDITIONS}
"""


def _read_times(wanted: TrafficFilter) -> list[_Row]:
    return fetch_rows(_Row, _TIMES, wanted.parameters())


def _with_times(traffic: Traffic, rows: Iterable[_Row]) -> Traffic:
    return replace(traffic, times=tuple(row["added_ms"] for row in rows))


def read_traffic_prices(wanted: TrafficFilter) -> PriceList:
    """Return the prices of the models in use in the period and the one before."""
    both = {**wanted.parameters(), "start": wanted.period.before().start}
    models = [row["model"] for row in fetch_rows(_Row, _MODELS, both)]
    entered: dict[str, list[EnteredPrice]] = {}
    for price in ModelPrice.objects.filter(model__in=models).order_by("effective_from"):
        entered.setdefault(price.model, []).append(price.to_entered())
    zone = wanted.period.zone
    spans = (price_spans(model, entered.get(model, ()), zone) for model in models)
    return PriceList(tuple(span for each in spans for span in each))


# A list's figures → the condition under which a quarter holds such prompts.
HOLDS = {
    "inserted": "t.inserted > 0",
    "without": "t.reason <> ''",
    "failed": "t.failed > 0",
    "abandoned": "t.abandoned > 0",
    "reported": "t.with_cached > 0",
    "not": "t.with_cached < t.requests",
    # Rollups keep the number of a key that is deleted.
    "keyless": "NOT EXISTS (SELECT FROM contextopt_apikey k WHERE k.id = t.key_id)",
}
_QUARTERS = """
SELECT DISTINCT t.start FROM dashboard_trafficquarter t
 WHERE t.team_id = %(team_id)s AND t.start <= %(before)s AND t.start > %(since)s - interval '15 minutes'
       {conditions}
 ORDER BY t.start DESC LIMIT %(needed)s
"""


def narrow_prompts(
    team_id: int,
    before: datetime | None,
    since: datetime | None,
    same: Mapping[str, Any],
    holds: Iterable[str],
) -> Q:
    """Return the times of a list's next prompts as a filter: those of quarters that hold some.

    `same` gives dimensions their values, which may be None; `holds` names figures that are not 0.
    """
    conditions = [f"AND t.{name} IS NOT DISTINCT FROM %({name})s" for name in same]
    conditions += [f"AND {HOLDS[name]}" for name in holds]
    parameters = {
        **same, "team_id": team_id, "before": before or _ALWAYS[1], "since": since or _ALWAYS[0],
        "needed": QUARTERS_NEEDED,
    }  # fmt: skip
    found = fetch_rows(_Row, _QUARTERS.format(conditions=" ".join(conditions)), parameters)
    return within(list(join_quarters(row["start"] for row in found)))


def _traffic(row: _Row) -> Traffic:
    counted: dict[str, Any] = {name: int(row[name]) for name in (*_SUMS, "without", "priced")}
    ends = (row["smallest"], row["largest"])
    return Traffic(**counted, cost=row["cost"], added=_vector(row["added"]), ends=ends)


def _vector(sent: bytes) -> Floats | None:
    counts = ASSEMBLY_MS.read([bytes(sent)])[0]
    return counts if np.any(counts) else None
