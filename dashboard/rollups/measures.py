"""The measures of assemblies in SQL: the same columns for raw rows and for rollups."""

from contextopt.assemblies.figures import FIGURES, Adds
from dashboard.rollups.histograms import BY_FIGURE, HISTOGRAMS, Histogram
from dashboard.rollups.models import DIMENSIONS, SUMMARY_DIMENSIONS

DIMENSION_COLUMNS = tuple(f"{name}_id" if name in {"space", "config"} else name for name in DIMENSIONS)


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


# Column → its expression over the rows `a` of the log.
MEASURED = {total.column: figure.total_sql(total.adds) for figure in FIGURES for total in figure.totals} | {
    column: expression
    for figure in FIGURES
    if figure.buckets
    for column, expression in _distribution(BY_FIGURE[figure.name], figure.value_sql).items()
}
FRACTIONS = frozenset(
    total.column
    for figure in FIGURES
    for total in figure.totals
    if figure.known_type is float and total.adds is Adds.SUM
)
"""Columns that are sums of fractions, which depend on the order in which they are added up."""
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
