"""A chart's frame: its title, its table view, and the URLs behind its rows."""

from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.kit.periods import Bucket, Period


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
    """A chart's frame. If the table is missing, the page's script requests it when it is opened."""

    slug: str
    title: str
    note: str
    table: ChartTable | None = None


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
