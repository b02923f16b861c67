"""The index of a repository from a page: a look at what would be indexed, and the report."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from contextopt.engine.code.kinds import GENERATED, kind_by_path
from contextopt.importruns.gitarchives import opened_archive
from contextopt.importruns.models import ImportRun
from contextopt.repositories.checkouts import NO_FILE, NOT_READ, TOO_LARGE, Checkout
from contextopt.repositories.indexing import IndexReport, index_checkout
from contextopt.spaces.importing.formats import archive_stem
from contextopt.spaces.importing.rows import UnusableSource

ENDINGS_SHOWN = 12
PATHS_SHOWN = 200


@contextmanager
def opened_upload(path: Path, run: ImportRun) -> Iterator[Checkout]:
    """Open the upload of a run. A fetched repository lacks only files that are too large."""
    with opened_archive(path, missing=TOO_LARGE if run.is_git else NOT_READ["missing"]) as checkout:
        yield checkout


def read_index_preview(path: Path, run: ImportRun) -> dict[str, Any]:
    """Return what would be indexed: revision, files, kinds of files, and what is left out.

    Raises:
        UnusableSource: there is nothing to index.
    """
    with opened_upload(path, run) as checkout:
        snapshot = checkout.snapshot(None)
        is_shallow = checkout.is_shallow()
    files = [entry for entry in snapshot.entries.values() if entry.skipped not in NO_FILE]
    if not files:
        raise UnusableSource("it has no files that can be indexed")
    endings = Counter(PurePosixPath(entry.path).suffix.lower() for entry in files)
    return {
        "revision": snapshot.revision,
        "moment": snapshot.moment.isoformat() if snapshot.moment else "",
        "is_shallow": is_shallow,
        "files": len(files),
        "bytes": sum(entry.size for entry in files if not entry.skipped),
        "lower": _count_lower(entry.path for entry in files),
        "endings": endings.most_common(ENDINGS_SHOWN),
        **_left_out([(entry.path, entry.skipped) for entry in snapshot.entries.values() if entry.skipped]),
    }


def own_source(run: ImportRun) -> str:
    """Return what the repository of a run would be known by: the git address, or the archive's name."""
    return run.name if run.is_git else archive_stem(run.name)


def source_of(run: ImportRun) -> str:
    """Return what the repository of a run is known by, as the person chose."""
    return str(run.options.get("source") or own_source(run))


def index_upload(path: Path, run: ImportRun, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Index an upload; return the report."""
    with opened_upload(path, run) as checkout:
        report = index_checkout(
            team=run.team,
            checkout=checkout,
            source=source_of(run),
            actor=run.created_by,
            on_progress=on_progress,
        )
        is_shallow = checkout.is_shallow()
    return {**_report_of(report), "is_shallow": is_shallow}


def _report_of(report: IndexReport) -> dict[str, Any]:
    repository = report.repository
    figures = ("files", "symbols", "imports", "unresolved", "parsed", "revision", "name")
    return {
        **{name: getattr(repository, name) for name in figures},
        "repository": repository.pk,
        "changed": report.changed,
        "removed": report.removed,
        "seconds": round(repository.seconds, 1),
        "lower": _count_lower(report.graph.files),
        **_left_out(report.skipped),
    }


def _count_lower(paths: Iterable[str]) -> int:
    """Count the generated, built and vendored files, which are ranked lower."""
    return sum(kind_by_path(path) == GENERATED for path in paths)


def _left_out(skipped: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return how many files were left out for each reason, and the first of them."""
    listed = sorted(skipped)
    counts = Counter(reason for _, reason in listed)
    return {
        "left_out": counts.most_common(),
        "left_out_count": len(listed),
        "left_out_paths": listed[:PATHS_SHOWN],
    }
