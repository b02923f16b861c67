"""A chart's frame: its title, its table view, and the URLs behind its rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import StreamingHttpResponse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.kit.charts.plots import Plot
from dashboard.kit.periods import Bucket, Period
from dashboard.kit.responses import stream_csv


@dataclass(frozen=True, slots=True)
class TableRow:
    """A bucket as text, with its cells and the URL of its assemblies."""

    label: str
    url: str
    cells: tuple[str, ...]
    is_incomplete: bool


@dataclass(frozen=True, slots=True)
class ChartTable:
    columns: tuple[str, ...]
    rows: list[TableRow]

    @property
    def body(self) -> SafeString:
        """Return the table's rows, rendered here: a quarter's page has hundreds, too many for a template
        loop.
        """
        return mark_safe("".join(map(_render_row, self.rows)))  # noqa: S308 each part is escaped


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """A chart's frame. If the table is missing, the page's script requests it when it is opened.

    `figure` is the period's own value, in large print beside the title.
    """

    slug: str
    title: str
    note: str
    table: ChartTable | None = None
    figure: str = ""


def _render_row(row: TableRow) -> str:
    so_far = ' <span class="faint">so far</span>' if row.is_incomplete else ""
    label = f'<span class="nowrap">{escape(row.label)}</span>{so_far}'
    cells = "".join(f'<td class="n">{escape(cell)}</td>' for cell in row.cells)
    link = f'<a class="link" href="{escape(row.url)}">List</a>' if row.url else ""
    return f'<tr><th scope="row">{label}</th>{cells}<td>{link}</td></tr>'


def bucket_label(bucket: Bucket, period: Period) -> str:
    """Return a bucket's start in the team's zone: the day, and the hour if buckets are hours."""
    start = bucket.start.astimezone(period.zone)
    hour = f" {start:%H:%M}" if period.step == "hour" else ""
    return f"{start:%a} {start.day} {start:%b}{hour}"


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
