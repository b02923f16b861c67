"""A chart's frame: its title, its table view, and the addresses behind its rows."""

from dataclasses import dataclass

from dashboard.periods import Bucket


@dataclass(frozen=True, slots=True)
class TableRow:
    """A bucket in words, with its cells and the address of its assemblies."""

    bucket: Bucket
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
