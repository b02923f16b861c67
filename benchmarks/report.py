"""The results as a table, for the terminal and for RESULTS.md."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from django.db import connection

from benchmarks.agents.briefreadings import render_readings
from benchmarks.figures import Figure, Section

HEADINGS = ("what", "runs", "median", "p95", "ratio", "bar", "")
PREAMBLE = """\
# Benchmark results

Written by `python -m benchmarks`. Times are wall-clock, and p95 is the nearest-rank percentile of the runs.
A bar is the requirement for a figure. Figures without a bar are for comparison.
"""
REPEAT = """\
## How to repeat

`make bench` installs the benchmarks' packages, runs all benchmarks in a separate database, drops it
afterwards, and writes this file. `make bench ARGS="assembly"` runs one, `ARGS="--quick"` runs shorter ones in
a few minutes, and `ARGS="--data FILE.jsonl"` adds your own records. None of these three rewrites the file.
Run nothing else on the machine at the same time.
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine used for measuring: enough to compare, nothing that identifies it."""

    cores: int
    memory_gib: float
    python: str
    postgresql: str
    system: str

    @classmethod
    def here(cls) -> "Machine":
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version")
            version = (cursor.fetchone() or ("?",))[0]
        return cls(
            cores=os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 0,
            memory_gib=psutil.virtual_memory().total / 2**30,
            python=platform.python_version(),
            postgresql=str(version).split()[0],
            system=f"{platform.system()} {platform.machine()}",
        )

    def __str__(self) -> str:
        return (
            f"{self.cores} cores, {self.memory_gib:.0f} GiB of memory, {self.system}, Python {self.python}, "
            f"PostgreSQL {self.postgresql}"
        )


def render_terminal(section: Section) -> str:
    """Return the figures in columns, with the notes below."""
    rows = [HEADINGS, *map(_cells, section.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    table = ["  " + "  ".join(_pad(row, widths)).rstrip() for row in rows]
    return "\n".join([section.title, *table, *(f"  {note}" for note in section.notes), ""])


def render_markdown(sections: Sequence[Section], machine: Machine) -> str:
    today = datetime.now(UTC).date().isoformat()
    parts = [PREAMBLE, f"Measured on {today}: {machine}.\n", summarise(sections) + "\n"]
    for section in sections:
        parts.append(f"## {section.title}\n\n{_markdown_table(section.figures)}\n")
        parts += [f"- {note}" for note in section.notes]
        parts.append("")
    parts += [render_readings(), REPEAT]
    return "\n".join(parts)


def write_results(path: Path, sections: Sequence[Section], machine: Machine) -> None:
    path.write_text(render_markdown(sections, machine))


def summarise(sections: Sequence[Section]) -> str:
    """Say how many bars were met, and name those that were missed."""
    barred = [figure for section in sections for figure in section.figures if figure.bar]
    missed = [figure.what for section in sections for figure in section.missed]
    met = f"{len(barred) - len(missed)} of {len(barred)} bars met."
    return f"{met} Missed: {'; '.join(missed)}." if missed else met


def _markdown_table(figures: Sequence[Figure]) -> str:
    lines = ["| what | runs | median | p95 | ratio | bar | |", "|---|---:|---:|---:|---:|---|---|"]
    lines += [f"| {' | '.join(_cells(figure))} |" for figure in figures]
    return "\n".join(lines)


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.what,
        f"{figure.runs:,}",
        _quantity(figure.median, figure.unit),
        "" if figure.p95 is None else _quantity(figure.p95, figure.unit),
        "" if figure.ratio is None else f"{figure.ratio:.2f} ×",
        figure.bar.text if figure.bar else "",
        ("met" if figure.bar.is_met else "MISSED") if figure.bar else "",
    )


def _quantity(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 2 if value < 10 else 1
    return f"{value:,.{digits}f} {unit}"


def _pad(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Align the first and the last columns left, numbers right."""
    return [
        cell.rjust(width) if 0 < column < len(HEADINGS) - 2 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
