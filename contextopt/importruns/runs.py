"""The steps of an import from a page. Each runs in a process of its own, so that pages stay fast.

A step is one of: fetch a git address, read the first rows or list the files, import or index. The process
shows that it lives by a sign every few seconds; an import without one has failed, and its upload is deleted.
"""

import contextlib
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from contextopt.errors import PRODUCT_ERRORS, Conflict, InvalidInput
from contextopt.importruns.models import WAITING, WORKING, ImportPart, ImportRun, ImportState
from contextopt.importruns.previews import read_options, read_preview
from contextopt.importruns.remotes import FILES, HISTORY, check_url, fetched
from contextopt.importruns.repositoryindex import index_upload, read_index_preview
from contextopt.locks import hold_space, hold_team
from contextopt.people.models import Team
from contextopt.spaces.importing.archives import PACKED_BYTES_MAX
from contextopt.spaces.importing.formats import read_path
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.pipeline import ImportReport, import_rows
from contextopt.spaces.importing.rows import RawRow, Rejection, UnusableSource
from contextopt.spaces.models import Space
from contextopt.sql import find_one

log = structlog.get_logger(__name__)

PART_BYTES = 8 * 2**20
WORKING_MAX = 2
KEPT = 20
REJECTIONS_SHOWN = 200
BEAT_SECONDS = 5.0
LOST = timedelta(seconds=60)
ABANDONED = timedelta(hours=24)
INDEX_SECONDS = 1_800
OVERDUE_ERROR = (
    f"Indexing took longer than {INDEX_SECONDS // 60} minutes. Index a clone on the server with index_repo."
)
LOST_ERROR = "The import was interrupted. Import it again: rows that are there already stay as they are."
ABANDONED_ERROR = "The import was not confirmed within a day, and the upload was deleted."


class _Unwanted(Exception):
    """The import was cancelled, or its space deleted."""


def find_run(team: Team, run_id: int) -> ImportRun:
    """Return the team's import with its team and space.

    Raises:
        NotFound: the team has no such import.
    """
    rows = ImportRun.objects.of(team).select_related("team", "space")
    return find_one(rows.filter(pk=run_id), f"import {run_id}")


@transaction.atomic
def start_upload(*, into: Space | Team, name: str, size: int, actor: str) -> ImportRun:
    """Store an import whose file is still to come: into a space, or an index of a team's repository.

    Raises:
        InvalidInput: the file is too large.
        Conflict: too many imports of the team are open.
    """
    if size > PACKED_BYTES_MAX:
        raise InvalidInput.of("file", f"is larger than {PACKED_BYTES_MAX // 2**20} MB")
    return _create(into, name=Path(name).name[:200] or "upload", created_by=actor)


@transaction.atomic
def start_fetch(*, into: Space | Team, url: str, token: str, newest: int | None, actor: str) -> ImportRun:
    """Have a process fetch a git address and show what is in it. The token is handed to it alone.

    Raises:
        InvalidInput: the address may not be fetched.
        Conflict: too many imports of the team are open.
    """
    run = _create(
        into, name=check_url(url), is_git=True, newest=newest, state=ImportState.FETCHING, created_by=actor
    )
    _spawn_after_commit(run, token)
    return run


def _create(into: Space | Team, **fields: Any) -> ImportRun:
    into.lock()
    team, space = (into, None) if isinstance(into, Team) else (into.team, into)
    open_runs = ImportRun.objects.of(team).filter(state__in=[*WORKING, ImportState.UPLOADING])
    if open_runs.count() >= WORKING_MAX:
        raise Conflict(f"{WORKING_MAX} imports of your team are running. Wait for one or cancel it.")
    old = ImportRun.objects.into(into).exclude(state__in=[*WORKING, *WAITING]).newest_first()[KEPT:]
    ImportRun.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()
    return ImportRun.objects.create(team=team, space=space, **fields)


@transaction.atomic
def add_part(*, run: ImportRun, number: int, content: bytes) -> None:
    """Store a part of an upload. Sending it again replaces it.

    Raises:
        Conflict: the import does not wait for a part.
        InvalidInput: the upload is too large, or the number is not the next one.
    """
    run = _locked(run, ImportState.UPLOADING)
    if not content or len(content) > PART_BYTES or number * PART_BYTES + len(content) > PACKED_BYTES_MAX:
        raise InvalidInput.of("file", f"is larger than {PACKED_BYTES_MAX // 2**20} MB, or a part is empty")
    if number > run.parts.count():
        raise InvalidInput.of("number", "skips a part")
    ImportPart.objects.update_or_create(run=run, number=number, defaults={"content": content})
    run.worked_at = timezone.now()
    run.save(update_fields=["worked_at"])


@transaction.atomic
def end_upload(*, run: ImportRun) -> None:
    """Have a process read the first rows of a complete upload.

    Raises:
        Conflict: the import does not wait for parts.
        InvalidInput: nothing was uploaded.
    """
    run = _locked(run, ImportState.UPLOADING)
    if not run.parts.exists():
        raise InvalidInput.of("file", "is empty")
    _go_to(run, ImportState.PREPARING)
    _spawn_after_commit(run)


@transaction.atomic
def prepare_again(*, run: ImportRun, format: str, options: Mapping[str, Any]) -> None:
    """Read the first rows once more, in another format or encoding.

    Raises:
        Conflict: the import is not ready.
    """
    run = _locked(run, ImportState.READY)
    run.format, run.options = format, dict(options)
    run.save(update_fields=["format", "options"])
    _go_to(run, ImportState.PREPARING)
    _spawn_after_commit(run)


@transaction.atomic
def confirm(*, run: ImportRun, options: Mapping[str, Any]) -> None:
    """Have a process import the upload.

    Raises:
        Conflict: the import is not ready.
    """
    run = _locked(run, ImportState.READY)
    run.options = dict(options)
    run.save(update_fields=["options"])
    _go_to(run, ImportState.RUNNING)
    _spawn_after_commit(run)


@transaction.atomic
def cancel(*, run: ImportRun) -> None:
    """End an import. Rows that were written stay.

    Raises:
        Conflict: it has ended.
    """
    run = _locked(run, *WORKING, *WAITING)
    _end(run, ImportState.CANCELLED)


def _locked(run: ImportRun, *states: ImportState) -> ImportRun:
    if run.space_id is None:
        hold_team(run.team_id)
    else:
        hold_space(run.space_id)
    found = ImportRun.objects.select_for_update(no_key=True).get(pk=run.pk)
    if found.state not in states:
        raise Conflict(f"This import is {found.get_state_display().lower()}.")
    return found


def _go_to(run: ImportRun, state: ImportState) -> None:
    run.state, run.worked_at = state, timezone.now()
    run.save(update_fields=["state", "worked_at"])


def _end(run: ImportRun, state: ImportState, error: str = "") -> None:
    """Delete the upload and its first rows, and keep the report."""
    run.parts.all().delete()
    run.state, run.error, run.preview, run.finished_at = state, error, {}, timezone.now()
    run.save(update_fields=["state", "error", "preview", "finished_at"])


def end_lost_runs() -> None:
    """Fail imports whose process is gone, and those that nobody has confirmed."""
    now = timezone.now()
    lost = ImportRun.objects.working().filter(worked_at__lt=now - LOST)
    left = ImportRun.objects.filter(state__in=WAITING, worked_at__lt=now - ABANDONED)
    for rows, error in ((lost, LOST_ERROR), (left, ABANDONED_ERROR)):
        for run in rows[:20]:
            with contextlib.suppress(Conflict, ImportRun.DoesNotExist), transaction.atomic():
                locked = _locked(run, *WORKING, *WAITING)
                if locked.worked_at == run.worked_at:
                    _end(locked, ImportState.FAILED, error)


def _spawn_after_commit(run: ImportRun, token: str = "") -> None:
    transaction.on_commit(lambda: _spawn(run.pk, token))


def _spawn(run_id: int, token: str) -> None:
    """Start the process. It gets the token through its input, which nobody else can read."""
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "contextopt.importruns.runprocess", str(run_id)],
        cwd=settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"},
    )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(token.encode())
    # Someone must wait for it, or it stays behind when it has ended.
    threading.Thread(target=process.wait, daemon=True).start()


def work_on(run_id: int, token: str = "", *, end_process: Callable[[], None] = lambda: None) -> None:
    """Do the step that an import is at. Every error ends the import, with its upload.

    `end_process` is called if the step takes too long.
    """
    run = ImportRun.objects.select_related("team", "space").filter(pk=run_id).first()
    if run is None or not run.is_working:
        return
    with _beating(run, end_process):
        try:
            _work(run, token)
        except _Unwanted:
            return
        except PRODUCT_ERRORS as error:
            # A path of this machine means nothing to the person.
            _fail(run, re.sub(r"/\S*/contextopt-\S+?/", "", str(error)))
        except Exception:  # Whatever fails here, the upload is deleted and the page says so.
            log.exception("import_failed", import_id=run.pk)
            _fail(run, "The import failed unexpectedly. The log of the server has the details.")


def _fail(run: ImportRun, error: str) -> None:
    with contextlib.suppress(Conflict, ImportRun.DoesNotExist), transaction.atomic():
        _end(_locked(run, *WORKING), ImportState.FAILED, error)


def end_if_overdue(run: ImportRun, ends_at: float, end_process: Callable[[], None]) -> None:
    if time.monotonic() > ends_at:
        _fail(run, OVERDUE_ERROR)
        end_process()


@contextmanager
def _beating(run: ImportRun, end_process: Callable[[], None]) -> Iterator[None]:
    """Show now and then that this process lives, and end an index that takes too long."""
    is_over = threading.Event()
    ends_at = time.monotonic() + INDEX_SECONDS if run.is_index else math.inf

    def beat() -> None:
        while not is_over.wait(BEAT_SECONDS):
            ImportRun.objects.filter(pk=run.pk, state__in=WORKING).update(worked_at=timezone.now())
            end_if_overdue(run, ends_at, end_process)
        connection.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _work(run: ImportRun, token: str) -> None:
    if run.state == ImportState.FETCHING:
        _fetch(run, token)
        _move(run, ImportState.FETCHING, ImportState.PREPARING)
    with _unpacked(run) as path:
        if run.state == ImportState.PREPARING:
            run.preview = read_index_preview(path, run) if run.is_index else read_preview(path, run)
            run.format = run.preview.get("format", "")
            run.save(update_fields=["preview", "format"])
            _move(run, ImportState.PREPARING, ImportState.READY)
            return
        if run.is_index:
            _index(run, path)
        else:
            _import(run, path)


def _move(run: ImportRun, before: ImportState, after: ImportState) -> None:
    with transaction.atomic():
        try:
            _go_to(_locked(run, before), after)
        except (Conflict, ImportRun.DoesNotExist):
            raise _Unwanted from None
    run.state = after


def _is_wanted(run: ImportRun) -> bool:
    return ImportRun.objects.filter(pk=run.pk, state=run.state).exists()


def _fetch(run: ImportRun, token: str) -> None:
    """Store a git address as an upload: its commits as records, or the repository to index."""
    with (
        fetched(
            run.name,
            token=token,
            limit=run.newest or 1 if run.is_index else run.newest,
            allowed_hosts=settings.IMPORT_ALLOWED_HOSTS,
            scope=FILES if run.is_index else HISTORY,
            is_wanted=lambda: _is_wanted(run),
        ) as folder,
        tempfile.TemporaryFile() as packed,
    ):
        if run.is_index:
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(folder, folder.name)
        else:
            _write_commits(run, folder, packed)
        packed.seek(0)
        store_parts(run, packed)


def _write_commits(run: ImportRun, folder: Path, packed: IO[bytes]) -> None:
    with gzip.open(packed, "wt") as lines:
        for found in read_commits(str(folder), limit=run.newest):
            if isinstance(found, RawRow):
                lines.write(json.dumps(found.fields) + "\n")
            elif isinstance(found, Rejection):
                raise UnusableSource(found.error)


def store_parts(run: ImportRun, file: IO[bytes]) -> None:
    """Store a whole file as parts."""
    for number, content in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
        if number * PART_BYTES + len(content) > PACKED_BYTES_MAX:
            raise UnusableSource(f"it is larger than {PACKED_BYTES_MAX // 2**20} MB")
        ImportPart.objects.create(run=run, number=number, content=content)


@contextmanager
def _unpacked(run: ImportRun) -> Iterator[Path]:
    """Write an upload into a file of its name, and delete it afterwards."""
    with tempfile.TemporaryDirectory(prefix="contextopt-upload-") as folder:
        fetched_name = "repository.tar" if run.is_index else "commits.jsonl.gz"
        path = Path(folder, fetched_name if run.is_git else run.name)
        with path.open("wb") as file:
            for number in run.parts.order_by("number").values_list("number", flat=True):
                file.write(run.parts.get(number=number).content)
        yield path


def _import(run: ImportRun, path: Path) -> None:
    report = ImportReport()

    def on_batch(so_far: ImportReport) -> None:
        written = _report_of(so_far)
        if not ImportRun.objects.filter(pk=run.pk, state=ImportState.RUNNING).update(
            report=written, worked_at=timezone.now()
        ):
            raise _Unwanted

    assert run.space is not None
    import_rows(
        space=run.space,
        rows=read_path(str(path), read_options(run), format=run.format),
        actor=run.created_by,
        report=report,
        on_batch=on_batch,
    )
    _finish(run, _report_of(report))


def _index(run: ImportRun, path: Path) -> None:
    def on_progress(text: str) -> None:
        if not ImportRun.objects.filter(pk=run.pk, state=ImportState.RUNNING).update(
            report={"progress": text}, worked_at=timezone.now()
        ):
            raise _Unwanted

    _finish(run, index_upload(path, run, on_progress))


def _finish(run: ImportRun, report: dict[str, Any]) -> None:
    with transaction.atomic():
        try:
            locked = _locked(run, ImportState.RUNNING)
        except (Conflict, ImportRun.DoesNotExist):
            raise _Unwanted from None
        locked.report = report
        locked.save(update_fields=["report"])
        _end(locked, ImportState.DONE)


def _report_of(report: ImportReport) -> dict[str, Any]:
    counted = report.to_json()
    return {
        **counted,
        "rejected": counted["rejected"][:REJECTIONS_SHOWN],
        "rejected_count": report.rejected_count,
        "left_out": report.left_out,
        "kept_in_metadata": sorted(report.kept_in_metadata),
    }
