"""Bulk import end to end: the command on a file, its records per second and its memory."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from benchmarks.corpus import generate
from benchmarks.figures import Figure, Section, at_least, at_most
from benchmarks.spaces import say
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space

SPACE = "imported"
BAR_PER_SECOND = 5_000.0
# Memory is constant if ten times the rows take at most this many times as much.
BAR_MEMORY_RATIO = 1.1
BYTES_PER_MIB = 2**20
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Imported:
    """One run of the command."""

    rows: int
    seconds: float
    peak_mib: float

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds


class ImportFailedError(Exception):
    """The command failed."""


def measure_import(team: Team, *, few: int, many: int) -> Section:
    with tempfile.TemporaryDirectory() as folder:
        small = _write_file(Path(folder) / "few.jsonl", few)
        first = _import(team, small, few, "created")
        again = _import(team, small, few, "unchanged")
        _remove(team)
        large = _write_file(Path(folder) / "many.jsonl", many)
        most = _import(team, large, many, "created")
        _remove(team)
    growth = most.peak_mib / first.peak_mib
    rate = at_least(BAR_PER_SECOND, most.per_second, f"≥ {BAR_PER_SECOND:,.0f} a second")
    memory = at_most(BAR_MEMORY_RATIO, growth, f"constant: ≤ {BAR_MEMORY_RATIO:g} ×")
    figures = (
        Figure(f"{few:,} new records", "a second", 1, first.per_second),
        Figure(f"{few:,} known records, unchanged", "a second", 1, again.per_second),
        Figure(f"{many:,} new records", "a second", 1, most.per_second, bar=rate),
        Figure(f"peak memory, {few:,} records", "MiB", 1, first.peak_mib),
        Figure(f"peak memory, {many:,} records", "MiB", 1, most.peak_mib, ratio=growth, bar=memory),
    )
    note = (
        "`manage.py import_records SPACE FILE.jsonl` from start to end, including the start of Python, "
        "into a new space of a database with the other benchmarks' records. The memory ratio compares with "
        f"{few:,} records; memory was read fifty times per second."
    )
    return Section("Bulk import", figures, (note,))


def _write_file(path: Path, count: int) -> Path:
    with path.open("w") as file:
        for number, record in enumerate(generate(count, seed=13, until=datetime.now(UTC))):
            file.write(json.dumps(record.to_row(str(number))) + "\n")
    return path


def _import(team: Team, file: Path, rows: int, expected: str) -> Imported:
    """Run the command in a separate process and watch its memory."""
    command = [sys.executable, "manage.py", "import_records", SPACE, str(file), "--json", "--team", team.slug]
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=output, stderr=subprocess.DEVNULL)
        try:
            peak_mib = _watch_memory(process)
        finally:
            process.kill()
            process.wait()
        seconds = time.perf_counter() - started
        output.seek(0)
        answer = output.read()
    report: dict[str, Any] = json.loads(answer or b"{}")
    if process.returncode != 0 or report.get(expected) != rows:
        raise ImportFailedError(f"import_records ended with {process.returncode}: {answer[:500]!r}")
    say(f"{rows:,} records imported in {seconds:.0f} s")
    return Imported(rows, seconds, peak_mib)


def _watch_memory(process: subprocess.Popen[bytes]) -> float:
    """Return the largest resident size in MiB until the process ended.

    The kernel's own maximum is useless here, since it starts from the size of the process that forked this
    one.
    """
    peak = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            peak = max(peak, watched.memory_info().rss)
        time.sleep(SAMPLE_SECONDS)
    return peak / BYTES_PER_MIB


def _remove(team: Team) -> None:
    delete_space(space=Space.objects.get(team=team, slug=SPACE))
