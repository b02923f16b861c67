"""A chart's frame: its title, its table view, and the addresses behind its rows."""

from dataclasses import dataclass

from dashboard.periods import Bucket, Period


@dataclass(frozen=True, slots=True)
class TableRow:
    """A bucket in words, with its cells and the address of its assemblies."""

    label: str
    url: str
    cells: tuple[str, ...]
    is_incomplete: bool


@dataclass(frozen=True, slots=True)
class ChartPanel:
    slug: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[TableRow]


def bucket_label(bucket: Bucket, period: Period) -> str:
    """Return a bucket's start by the team's clock: its day, and its hour where days are cut into hours."""
    start = bucket.start.astimezone(period.zone)
    hour = f" {start:%H:%M}" if period.step == "hour" else ""
    return f"{start:%a} {start.day} {start:%b}{hour}"
