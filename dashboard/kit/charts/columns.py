"""Charts whose table view and CSV have one column for each of their measures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import StreamingHttpResponse

from dashboard.kit.charts.panels import ChartPanel, ChartTable, TableRow, bucket_label
from dashboard.kit.charts.plots import Plot
from dashboard.kit.exports import stream_csv
from dashboard.kit.periods import Period


@dataclass(frozen=True, slots=True)
class Column[Point]:
    name: str
    pick: Callable[[Point], float | None]
    show: Callable[[float | None], str]

    def cells(self, points: Iterable[Point]) -> "Cells":
        return Cells(self.name, tuple(map(self.pick, points)), self.show)


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of a table view or CSV, with a value for each bucket."""

    name: str
    values: tuple[float | None, ...]
    show: Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class ColumnChart[Point, Data]:
    slug: str
    title: str
    note: str
    columns: tuple[Column[Point], ...]
    build: Callable[[Data], Plot]

    def cells(self, points: Iterable[Point]) -> list[Cells]:
        points = tuple(points)
        return [column.cells(points) for column in self.columns]

    def panel(self, period: Period, points: Iterable[Point], urls: Iterable[str]) -> ChartPanel:
        """Return the chart's frame with its table."""
        return ChartPanel(self.slug, self.title, self.note, make_table(self.cells(points), period, urls))


def make_table(columns: Sequence[Cells], period: Period, urls: Iterable[str]) -> ChartTable:
    """Return the buckets as rows, each with the URL behind it, empty for none. The last may be incomplete."""
    rows = [
        TableRow(
            bucket_label(bucket, period),
            url,
            tuple(column.show(column.values[number]) for column in columns),
            bucket.end > period.until,
        )
        for number, (bucket, url) in enumerate(zip(period.buckets, urls, strict=True))
    ]
    return ChartTable(tuple(column.name for column in columns), rows)


def stream_columns(
    name: str, columns: Sequence[Cells], period: Period, counted: str, counts: Iterable[int]
) -> StreamingHttpResponse:
    """Send each bucket's start and end, the count named `counted`, and its values."""

    def rows() -> Iterator[list[Any]]:
        for number, (bucket, count) in enumerate(zip(period.buckets, counts, strict=True)):
            yield [*period.local_ends(bucket), count, *(column.values[number] for column in columns)]

    return stream_csv(name, ["start", "end", counted, *(column.name for column in columns)], rows())
