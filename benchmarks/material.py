"""The real data that a run is given."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agents.filecases import Snapshot, from_checkout, from_releases


@dataclass(frozen=True, slots=True)
class Material:
    """Real data to measure on. Missing data is not measured, and the results say so."""

    records: Path | None = None
    listings: tuple[Path, ...] = ()
    packages: Path | None = None
    releases: Path | None = None
    checkouts: tuple[Path, ...] = ()
    logs: Path | None = None
    commits: tuple[Path, ...] = ()
    aider: Path | None = None
    dialogues: tuple[Path, ...] = ()
    mem0: Path | None = None

    def snapshots(self, cases: int) -> Iterator[Snapshot]:
        """Yield the states of the repositories in which files are searched."""
        if self.packages:
            for listing in self.listings:
                yield from from_releases(listing, self.packages, releases=10, cases=cases)
        for checkout in self.checkouts:
            yield from from_checkout(checkout, cases=cases)
