"""The overview's numbers, aggregated by the database from rollups.

`FigureFilter` goes in, figures come out. Only this module and `dashboard.rollups.queries` know where they
are read from.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from math import inf
from operator import itemgetter
from typing import NamedTuple

from django.db import connection

from contextopt.assemblies.figures import BY_NAME
from contextopt.assemblies.models import Kind
from dashboard.kit.charts.tiles import Proportion
from dashboard.kit.formats import approximate, whole
from dashboard.kit.periods import Bucket, Period
from dashboard.rollups.histograms import (
    ASSEMBLY_MS,
    EXACT_BELOW,
    HISTOGRAMS,
    RATIO,
    TOKENS,
    UTILISATION,
    Ends,
    Histogram,
    exact_percentile,
)
from dashboard.rollups.measures import FRACTIONS, MEASURE_COLUMNS
from dashboard.rollups.queries import (
    DOLLARS,
    DOLLARS_ANEW,
    PRICE_JOIN,
    SAVED_DOLLARS,
    SAVED_DOLLARS_LISTED,
    FigureFilter,
    LogRow,
    PriceList,
    read_prices,
    read_small_groups,
    rollup_parameters,
    rollup_rows,
)


class Figures(NamedTuple):
    """Figures of a set of assemblies. Ratios are from 0 to 1 and averages over requests; times are in ms.

    A figure is None if nothing was measured. Percentiles come from histograms, or from the log itself below
    `EXACT_BELOW` values; those of times are measured for each kind only. `contexts` are those of spaces;
    `tokens_before` and `tokens_saved` cover only what counts as a saving. `prompts` are contexts of
    conversations, whose whole prompt was measured, and `priced` those of them whose model has a price: they
    cost `dollars` after the provider's cache, and `dollars_anew` if no prompt had begun like the last. Their
    saving is worth about `saved_dollars`, and `saved_dollars_listed` at list price. A page has hundreds of
    these, and a tuple is made in a tenth of a dataclass's time.
    """

    assemblies: int = 0
    ratio: float | None = None
    utilisation: float | None = None
    truncation_rate: float | None = None
    tokens_saved: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    records_included: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    contexts: int = 0
    prompts: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    cached_tokens: int = 0
    priced: int = 0
    dollars: float | None = None
    dollars_anew: float | None = None
    saved_dollars: float | None = None
    saved_dollars_listed: float | None = None
    empties: int = 0
    # Only set for whole periods.
    median_ratio: float | None = None
    median_utilisation: float | None = None

    @property
    def shared_rate(self) -> float | None:
        """The share of prompts that repeats the conversation's last one, 0 to 1."""
        return self.shared_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def cached_rate(self) -> float | None:
        """The share of prompts that the provider's cache should hold, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    def timed(self, p50: float | None, p95: float | None, p99: float | None) -> "Figures":
        return self._replace(p50_ms=p50, p95_ms=p95, p99_ms=p99)

    @property
    def emptiness(self) -> Proportion:
        """The empty contexts, of those of spaces."""
        return Proportion(self.empties, self.contexts)


NOTHING = Figures()


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of each bucket and of the whole period, for all kinds together and for each kind.

    `totals` are the whole period's by kind, and `kinds` those of the buckets. A young period has fewer than
    `EXACT_BELOW` assemblies: `log` then has each of them, oldest first. `shown` is the kind that the reader
    chose.
    """

    period: Period
    total: Figures
    points: tuple[Figures, ...]
    kinds: Mapping[str, tuple[Figures, ...]] = field(default_factory=dict)
    stages: tuple["StageFigures", ...] = ()
    totals: Mapping[str, Figures] = field(default_factory=dict)
    log: tuple[LogRow, ...] = ()
    shown: str = ""

    @property
    def is_young(self) -> bool:
        """There are too few assemblies for rates, targets and comparisons."""
        return bool(self.log)

    @property
    def kind(self) -> str:
        """The kind whose time and truncation are shown: the chosen one, contexts of spaces, or the most
        frequent kind.
        """
        if self.shown in self.totals:
            return self.shown
        counts = {kind: figures.assemblies for kind, figures in self.totals.items()}
        return str(Kind.SPACE) if Kind.SPACE in counts or not counts else max(counts, key=counts.__getitem__)

    @property
    def of_kind(self) -> "Series":
        """The same series with the figures of that kind alone."""
        points = self.kinds.get(self.kind, ())
        return replace(self, total=self.totals.get(self.kind, NOTHING), points=points or self.points)

    @property
    def rows(self) -> list[tuple[Bucket, Figures]]:
        return list(zip(self.period.buckets, self.points, strict=True))


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One row of the comparison of stages."""

    stage: int
    assemblies: int
    median_tokens: float
    tokens_saved: int
    tokens_before: int
    is_exact: bool = False
    # The smallest and the largest number of tokens.
    ends: Ends = (0.0, inf)

    @property
    def median_words(self) -> str:
        return whole(self.median_tokens) if self.is_exact else approximate(self.median_tokens, *self.ends)

    @property
    def saving_rate(self) -> float | None:
        return self.tokens_saved / self.tokens_before if self.tokens_before else None


# Figures that are sums of rollups; records are those of contexts of spaces.
_SUMS = tuple(name for name in Figures._fields if name in MEASURE_COLUMNS and name != "records_included")
# Figures that are means, with the columns of their sum and their count.
_MEANS = {
    name: tuple(total.column for total in BY_NAME[figure].totals)
    for name, figure in (("ratio", "compression_ratio"), ("utilisation", "utilisation"))
}


def _sums(columns: Iterable[str]) -> str:
    return ", ".join(
        f"sum({column}){'' if column in FRACTIONS else '::bigint'} AS {column}" for column in columns
    )


_ENDS = ", ".join(
    f"min({histogram.smallest}) AS {histogram.smallest}, max({histogram.largest}) AS {histogram.largest}"
    for histogram in HISTOGRAMS
)
_MEAN_SQL = ", ".join(
    f"sum({total}) / nullif(sum({known}), 0)::float8 AS {name}" for name, (total, known) in _MEANS.items()
)
# A column for each field of Figures. The last five are worked out from histograms.
_FIGURES = f"""
    {_sums(_SUMS)},
    {_MEAN_SQL},
    sum(truncated)::float8 / nullif(sum(assemblies), 0)::float8 AS truncation_rate,
    sum(records_included)::float8 / nullif(sum(contexts), 0)::float8 AS records_included,
    sum(dollars) AS dollars, sum(dollars_anew) AS dollars_anew,
    sum(saved_dollars) AS saved_dollars, sum(saved_dollars_listed) AS saved_dollars_listed,
    coalesce(sum(priced), 0)::bigint AS priced,
    coalesce(sum(contexts), 0)::bigint AS contexts,
    NULL AS p50_ms, NULL AS p95_ms, NULL AS p99_ms, NULL AS median_ratio, NULL AS median_utilisation
"""
# The values of `grouping`: one bit for each column that was not distinguished.
_TOTAL, _BUCKET, _BUCKET_KIND, _STAGE, _KIND = 0b111, 0b011, 0b001, 0b110, 0b101
# First adds rollups up to the rows that a page distinguishes, then these few rows for each grouping.
# Histograms take most of the time, so they are added up only where they are needed.
_QUERY = f"""
    WITH found AS MATERIALIZED (
        SELECT width_bucket(start, %(edges)s::timestamptz[]) AS bucket, kind, {{stage}} AS stage,
               {_sums((*_SUMS, "truncated", *chain(*_MEANS.values())))},
               sum(records_included) FILTER (WHERE kind = 'space') AS records_included,
               sum(assemblies) FILTER (WHERE kind = 'space') AS contexts,
               sum(prompts) FILTER (WHERE price.model IS NOT NULL) AS priced,
               sum({DOLLARS}) FILTER (WHERE prompts > 0) AS dollars,
               sum({DOLLARS_ANEW}) FILTER (WHERE prompts > 0) AS dollars_anew,
               sum({SAVED_DOLLARS}) FILTER (WHERE prompts > 0) AS saved_dollars,
               sum({SAVED_DOLLARS_LISTED}) FILTER (WHERE prompts > 0) AS saved_dollars_listed,
               sum(ms_histogram) AS ms_histogram, {{tokens}} AS tokens_histogram,
               {{utilisation}} AS utilisation_histogram, {{ratio}} AS ratio_histogram, {_ENDS}
          FROM ({{rows}}) AS rollups {PRICE_JOIN}
         GROUP BY 1, 2, 3
    )
    SELECT grouping(bucket, kind, stage) AS grouping, bucket, kind, stage, {_FIGURES}, {_ENDS},
           CASE WHEN {{timed}} THEN vector_send(sum(ms_histogram)) END AS ms_counts,
           CASE WHEN grouping(stage) = 0 THEN vector_send(sum(tokens_histogram)) END AS token_counts,
           CASE WHEN grouping(bucket, kind, stage) = {_TOTAL}
                THEN (SELECT vector_send(sum(utilisation_histogram)) FROM found) END AS utilisation_counts,
           CASE WHEN grouping(bucket, kind, stage) = {_TOTAL}
                THEN (SELECT vector_send(sum(ratio_histogram)) FROM found) END AS ratio_counts
      FROM found
     GROUP BY GROUPING SETS ((), (bucket), (bucket, kind), (stage), (kind))
     ORDER BY kind, stage
"""
_SERIES = partial(
    _QUERY.format,
    stage="stage",
    tokens="sum(tokens_histogram) FILTER (WHERE stage IS NOT NULL)",
    utilisation="sum(utilisation_histogram) FILTER (WHERE with_utilisation > 0)",
    ratio="sum(ratio_histogram) FILTER (WHERE with_ratio > 0)",
    timed="grouping(kind) = 0",
)
# The page shows the previous period's total, two lines, and each kind's saving and times.
_EARLIER = partial(
    _QUERY.format,
    **dict.fromkeys(("tokens", "utilisation", "ratio"), "NULL::vector"),
    stage="NULL::smallint",
    timed="grouping(bucket, kind) = 2",
)


TIME_SHARES = (0.5, 0.95, 0.99)
_COVERED = ("grouping", "bucket", "kind", "stage")
_COUNTS = ("ms_counts", "token_counts", "utilisation_counts", "ratio_counts")
_END_NAMES = tuple(end for histogram in HISTOGRAMS for end in (histogram.smallest, histogram.largest))


class _Row(NamedTuple):
    """A row of the result: what it covers, its figures, its histograms, and the ends of their values."""

    grouping: int
    bucket: int | None
    kind: str | None
    stage: int | None
    figures: Figures
    ms_counts: bytes | None
    token_counts: bytes | None
    utilisation_counts: bytes | None
    ratio_counts: bytes | None
    ends: tuple[float | None, ...]

    def ends_of(self, histogram: Histogram) -> Ends:
        """Return the ends of the histogram's values; any if there are none."""
        place = 2 * HISTOGRAMS.index(histogram)
        smallest, largest = self.ends[place : place + 2]
        return smallest or 0.0, inf if largest is None else largest

    def to_total(self) -> Figures:
        return self.figures._replace(
            median_ratio=self._median(RATIO, self.ratio_counts),
            median_utilisation=self._median(UTILISATION, self.utilisation_counts),
        )

    def to_stage(self) -> StageFigures:
        figures, (smallest, largest) = self.figures, self.ends_of(TOKENS)
        return StageFigures(
            self.stage or 0, figures.assemblies, self._median(TOKENS, self.token_counts) or 0.0,
            figures.tokens_saved, figures.tokens_before,
            is_exact=smallest == largest, ends=(smallest, largest),
        )  # fmt: skip

    def _median(self, histogram: Histogram, sent: bytes | None) -> float | None:
        if sent is None:
            return None
        return histogram.percentile(histogram.read([sent])[0].tolist(), 0.5, self.ends_of(histogram))


def read_series(wanted: FigureFilter, prices: PriceList | None = None) -> Series:
    """Return the figures of each bucket and of the whole period, in one query.

    Without prices, a second query reads them. Another one reads the percentiles of few values from the log.
    """
    series = _to_series(wanted, _fetch(_SERIES, wanted, prices or read_prices(wanted)))
    kinds = [kind for kind, figures in series.totals.items() if figures.assemblies < EXACT_BELOW]
    stages = [row.stage for row in series.stages if row.assemblies < EXACT_BELOW]
    if not kinds and not stages:
        return series
    rows = read_small_groups(wanted, kinds, stages)
    log = tuple(rows) if series.total.assemblies < EXACT_BELOW else ()
    return replace(_with_exact(series, kinds, rows), log=log)


def read_earlier(wanted: FigureFilter, prices: PriceList) -> Series:
    """Return the figures of the preceding period, without stages; buckets have no times."""
    before = wanted.before()
    return _to_series(before, _fetch(_EARLIER, before, prices))


def _to_series(wanted: FigureFilter, rows: Sequence[_Row]) -> Series:
    total = next((row for row in rows if row.grouping == _TOTAL), None)
    if total is None:
        return Series(wanted.period, NOTHING, _spread({}, wanted.period))
    totals = {row.kind: row.figures for row in rows if row.grouping == _KIND and row.kind}
    by_kind: dict[str, dict[int | None, Figures]] = {kind: {} for kind in totals}
    for row in rows:
        if row.grouping == _BUCKET_KIND and row.kind:
            by_kind[row.kind][row.bucket] = row.figures
    return Series(
        wanted.period,
        total.to_total(),
        _spread({row.bucket: row.figures for row in rows if row.grouping == _BUCKET}, wanted.period),
        {kind: _spread(by_kind[kind], wanted.period) for kind in totals},
        tuple(row.to_stage() for row in rows if row.grouping == _STAGE and row.stage is not None),
        totals,
    )


def _with_exact(series: Series, small_kinds: Sequence[str], rows: Sequence[LogRow]) -> Series:
    """Return the series with the percentiles of a kind or stage that has few assemblies.

    Rows that were logged since are not in the figures, so a kind or stage with other rows keeps its own.
    """
    edges = series.period.edges
    kinds, totals, total = dict(series.kinds), dict(series.totals), series.total
    for kind in small_kinds:
        own = [row for row in rows if row.kind == kind]
        if len(own) != totals[kind].assemblies:
            continue
        totals[kind] = _timed_by(totals[kind], own)
        in_buckets = groupby(own, key=lambda row: bisect_right(edges, row.created_at) - 1)
        measured = {bucket: list(group) for bucket, group in in_buckets}
        kinds[kind] = tuple(_timed_by(point, measured.get(n, ())) for n, point in enumerate(kinds[kind]))
        if kind == Kind.SPACE:
            total = total._replace(
                median_ratio=exact_percentile([row.ratio for row in own if row.ratio is not None], 0.5),
                median_utilisation=exact_percentile(
                    [row.utilisation for row in own if row.utilisation is not None], 0.5
                ),
            )
    stages = []
    for figures in series.stages:
        tokens = [row.tokens for row in rows if row.stage == figures.stage]
        median = exact_percentile(tokens, 0.5) if len(tokens) == figures.assemblies else None
        stages.append(figures if median is None else replace(figures, median_tokens=median, is_exact=True))
    return replace(series, total=total, kinds=kinds, totals=totals, stages=tuple(stages))


def _timed_by(figures: Figures, rows: Sequence[LogRow]) -> Figures:
    times = [row.ms for row in rows]
    return figures.timed(*(exact_percentile(times, share) for share in TIME_SHARES))


def _spread(by_bucket: Mapping[int | None, Figures], period: Period) -> tuple[Figures, ...]:
    """Return the figures of every bucket, including those without assemblies."""
    return tuple(by_bucket.get(number, NOTHING) for number in range(1, len(period.edges)))


def _fetch(query: Callable[..., str], wanted: FigureFilter, prices: PriceList) -> list[_Row]:
    with connection.cursor() as cursor:
        cursor.execute(query(rows=rollup_rows(wanted)), {**rollup_parameters(wanted), **prices.parameters()})
        places = {column.name: place for place, column in enumerate(cursor.description)}
        figures = itemgetter(*(places[name] for name in Figures._fields))
        covered = itemgetter(*(places[name] for name in _COVERED))
        counts = itemgetter(*(places[name] for name in _COUNTS))
        ends = itemgetter(*(places[name] for name in _END_NAMES))
        found = [
            _Row._make((*covered(row), Figures._make(figures(row)), *counts(row), ends(row)))
            for row in cursor.fetchall()
            if row[places["assemblies"]]
        ]
    # One by one, histograms take as long as the query.
    timed = [(row.ms_counts, row.ends_of(ASSEMBLY_MS)) for row in found if row.ms_counts]
    histograms = ASSEMBLY_MS.read([sent for sent, _ in timed])
    times = iter(ASSEMBLY_MS.percentiles(histograms, TIME_SHARES, [ends for _, ends in timed]).tolist())
    return [row._replace(figures=row.figures.timed(*next(times))) if row.ms_counts else row for row in found]
