"""Charts whose table view and CSV have one column for each of their measures."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dashboard.kit.charts.panels import ChartPanel, ChartTable, TableRow, bucket_label
from dashboard.kit.charts.plots import Plot
from dashboard.kit.periods import Bucket, Period


@dataclass(frozen=True, slots=True)
class Column[Point]:
    name: str
    pick: Callable[[Point], float | None]
    show: Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class ColumnChart[Point, Data]:
    slug: str
    title: str
    note: str
    columns: tuple[Column[Point], ...]
    build: Callable[[Data], Plot]

    @property
    def header(self) -> list[str]:
        return [column.name for column in self.columns]

    def panel(self, period: Period, rows: Iterable[tuple[Bucket, Point, str]]) -> ChartPanel:
        """Return the chart's frame with its table; each row has the URL behind it, empty for none."""
        table = [
            TableRow(
                bucket_label(bucket, period),
                url,
                tuple(column.show(column.pick(point)) for column in self.columns),
                bucket.end > period.until,
            )
            for bucket, point, url in rows
        ]
        return ChartPanel(self.slug, self.title, self.note, ChartTable(tuple(self.header), table))

    def csv_rows(self, period: Period, points: Iterable[tuple[Point, int]]) -> Iterator[list[Any]]:
        """Yield each bucket's start and end, its count, and its values."""
        for bucket, (point, count) in zip(period.buckets, points, strict=True):
            yield [*period.local_ends(bucket), count, *(column.pick(point) for column in self.columns)]
