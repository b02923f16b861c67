"""The measures of assemblies in SQL: the same columns for raw rows and for rollups."""

from contextopt.assemblies.models import COUNTS_SQL, EMPTY_SQL
from dashboard.rollups.histograms import ASSEMBLY_MS, HISTOGRAMS, RATIO, TOKENS, UTILISATION, Histogram
from dashboard.rollups.models import DIMENSIONS, SUMMARY_DIMENSIONS

DIMENSION_COLUMNS = tuple(f"{name}_id" if name in {"space", "config"} else name for name in DIMENSIONS)
RATIO_SQL = "a.records_included::float8 / nullif(a.records_filtered, 0)"
# Other kinds have no budget, or one of their own.
_HAS_BUDGET = "a.kind = 'space' AND a.tokens_available > 0"
_SENT = "FILTER (WHERE a.is_sent)"
_SAVED = "a.tokens_before::bigint - a.tokens_after"
# An empty prompt has no shares.
_SAVED_SHARE = f"({_SAVED})::float8 / nullif(a.prompt_tokens, 0)"
UTILISATION_SQL = f"CASE WHEN {_HAS_BUDGET} THEN a.tokens_after::float8 / a.tokens_available END"


def _counted(histogram: Histogram, value: str) -> str:
    """Return the SQL of a histogram over rows: for each row a vector of zeros and one 1, added up.

    A row without the figure is in no bucket.
    """
    edges = f"'{{{','.join(map(str, histogram.edges))}}}'::float8[]"
    bucket = f"width_bucket(({value})::float8, {edges})"
    zeros = f"array_fill(0, ARRAY[{histogram.size}])::vector({histogram.size})"
    one = (
        f"(array_fill(0, ARRAY[{bucket}]) || 1 || array_fill(0, ARRAY[{histogram.size - 1} - {bucket}]))"
        f"::vector({histogram.size})"
    )
    return f"coalesce(sum({one}) FILTER (WHERE ({value}) IS NOT NULL), {zeros})"


def _distribution(histogram: Histogram, value: str) -> dict[str, str]:
    """Return the columns of a histogram and of the ends of its values, which are null without any."""
    return {
        histogram.name: _counted(histogram, value),
        histogram.smallest: f"min(({value})::float8)",
        histogram.largest: f"max(({value})::float8)",
    }


# Column → its expression over the rows `a` of the log. Its type is that of rollups: pages read both together,
# and converting takes a quarter of the query's time.
MEASURED = {
    "assemblies": "count(*)::integer",
    "truncated": "(count(*) FILTER (WHERE a.truncated))::integer",
    "records_filtered": "sum(a.records_filtered)",
    "records_included": "sum(a.records_included)",
    "empties": f"(count(*) FILTER (WHERE {EMPTY_SQL}))::integer",
    "tokens_before": f"coalesce(sum(a.tokens_before) FILTER (WHERE {COUNTS_SQL}), 0)",
    "tokens_after": f"coalesce(sum(a.tokens_after) {_SENT}, 0)",
    "tokens_saved": f"coalesce(sum({_SAVED}) FILTER (WHERE {COUNTS_SQL}), 0)::bigint",
    "prompts": f"(count(a.prompt_tokens) {_SENT})::integer",
    "prompt_tokens": f"coalesce(sum(a.prompt_tokens) {_SENT}, 0)",
    "shared_tokens": f"coalesce(sum(a.shared_prefix_tokens) {_SENT}, 0)",
    "cached_tokens": f"coalesce(sum(a.cached_tokens) {_SENT}, 0)",
    "cacheable_tokens": f"coalesce(sum(a.cacheable_tokens) {_SENT}, 0)",
    "carried_tokens": f"coalesce(sum(a.carried_tokens) {_SENT}, 0)",
    "saved_in_prompts": (
        f"coalesce(sum({_SAVED}) FILTER (WHERE {COUNTS_SQL} AND a.prompt_tokens > 0), 0)::bigint"
    ),
    "saved_cached": f"coalesce(sum({_SAVED_SHARE} * a.cached_tokens) FILTER (WHERE {COUNTS_SQL}), 0)",
    "saved_cacheable": f"coalesce(sum({_SAVED_SHARE} * a.cacheable_tokens) FILTER (WHERE {COUNTS_SQL}), 0)",
    "ratios": f"coalesce(sum({RATIO_SQL}), 0)",
    "with_ratio": "(count(*) FILTER (WHERE a.records_filtered > 0))::integer",
    "utilisations": f"coalesce(sum({UTILISATION_SQL}), 0)",
    "with_utilisation": f"(count(*) FILTER (WHERE {_HAS_BUDGET}))::integer",
    **_distribution(ASSEMBLY_MS, "a.assembly_ms"),
    **_distribution(TOKENS, "a.tokens_after"),
    **_distribution(UTILISATION, UTILISATION_SQL),
    **_distribution(RATIO, RATIO_SQL),
}
# How columns add up that are no sums; each aggregate has the function that does the same to two values.
_SMALLEST = {histogram.smallest for histogram in HISTOGRAMS}
_LARGEST = {histogram.largest for histogram in HISTOGRAMS}
MEASURE_COLUMNS = tuple(MEASURED)
COLUMNS = (*DIMENSION_COLUMNS, *MEASURE_COLUMNS)
SUMMARY_COLUMNS = (*SUMMARY_DIMENSIONS, *MEASURE_COLUMNS)

# The quarter of an hour that an assembly belongs to.
QUARTER = "date_bin('15 minutes', a.created_at, timestamptz '2000-01-01 00:00Z')"


def columns(names: tuple[str, ...], prefix: str = "") -> str:
    return ", ".join(f"{prefix}{name}" for name in names)


def added_up(names: tuple[str, ...] = MEASURE_COLUMNS) -> str:
    """Return the SQL that adds rollups up, column by column."""
    return ", ".join(f"{_aggregate(name)}({name}) AS {name}" for name in names)


def _aggregate(name: str) -> str:
    return "min" if name in _SMALLEST else "max" if name in _LARGEST else "sum"


def joined(name: str, one: str, other: str) -> str:
    """Return the SQL of a column's value in two rollups together."""
    if name in _SMALLEST:
        return f"least({one}, {other})"
    return f"greatest({one}, {other})" if name in _LARGEST else f"{one} + {other}"


def measured(start: str, source: str) -> str:
    """Return a query that measures rows `a` of `source`, grouped like rollups; `start` is an expression."""
    dimensions = columns(DIMENSION_COLUMNS, "a.")
    figures = ", ".join(f"{expression} AS {name}" for name, expression in MEASURED.items())
    return (
        f"SELECT a.team_id, {start} AS start, {dimensions}, {figures} {source} "
        f"GROUP BY a.team_id, {start}, {dimensions}"
    )
