"""The steps of an import from a page, and the end of its upload."""

import gzip
import json
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from contextopt.errors import Conflict, InvalidInput
from contextopt.importruns import runs
from contextopt.importruns.models import ImportPart, ImportRun, ImportState
from contextopt.importruns.previews import CELL_SHOWN
from contextopt.importruns.runs import (
    ABANDONED,
    LOST,
    add_part,
    cancel,
    confirm,
    end_lost_runs,
    end_upload,
    prepare_again,
    start_fetch,
    start_upload,
    work_on,
)
from contextopt.spaces.models import Space
from tests.concurrency import wait_until
from tests.gitrepos import make_git, run_git
from tests.gitserver import GitServer, serving
from tests.processes import database, wait_for_sessions_to_end

TABLE = "title;dato;notes\nBåtplass;03.09.2026;Kai 4\nTørrdokk;;\n".encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    make_git(tmp_path / "work")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(tmp_path / "work"), str(tmp_path / "shop.git"))
    with serving(tmp_path) as found:
        yield found


def uploaded(space: Space, content: bytes, name: str = "rows.csv") -> ImportRun:
    run = start_upload(into=space, name=name, size=len(content), actor="user:edda")
    for number, at in enumerate(range(0, len(content), runs.PART_BYTES)):
        add_part(run=run, number=number, content=content[at : at + runs.PART_BYTES])
    end_upload(run=run)
    work_on(run.pk)
    run.refresh_from_db()
    return run


def finished(run: ImportRun, **options: Any) -> ImportRun:
    confirm(run=run, options={"columns": run.preview.get("columns", {}), **options})
    work_on(run.pk)
    run.refresh_from_db()
    return run


def test_the_first_rows_are_shown_before_anything_is_written(space: Space) -> None:
    run = uploaded(space, TABLE)
    assert run.state == ImportState.READY
    assert run.preview["format"] == "csv"
    assert run.preview["columns"] == {"title": "title", "dato": "date", "notes": "notes"}
    assert run.preview["rows"][0] == {
        "title": "Båtplass",
        "date": "2026-09-03T00:00:00+00:00",
        "notes": "Kai 4",
    }
    assert not space.records.exists()


def test_a_confirmed_upload_is_imported_and_deleted(space: Space) -> None:
    run = finished(uploaded(space, TABLE), columns={"title": "title", "dato": "date", "notes": "-"})
    assert (run.state, run.report["created"], run.error) == (ImportState.DONE, 2, "")
    assert run.report["left_out"][0]["message"] == "the column 'notes' was left out"
    first = space.records.order_by("id").first()
    assert first is not None
    assert (first.title, first.notes, first.date.day) == ("Båtplass", "", 3)
    assert (run.preview, ImportPart.objects.count()) == ({}, 0)
    assert run.finished_at is not None


def test_an_upload_in_parts_is_whole(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PART_BYTES", 10)
    assert finished(uploaded(space, TABLE)).report["created"] == 2


def test_an_archive_of_notes_chats_and_tables_is_imported(space: Space) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("vault/a.md", "# A")
        archive.writestr("vault/talk.jsonl", json.dumps({"role": "user", "content": "Hi"}))
        archive.writestr("../evil.md", "# Evil")
    run = uploaded(space, packed.getvalue(), "backup.zip")
    assert [row["title"] for row in run.preview["rows"]] == ["A", "User"]
    assert run.preview["notices"] == ["'../evil.md' was skipped: its path leads out of the archive"]
    assert finished(run).report["created"] == 2
    assert space.records.get(title="A").source == "markdown:vault"


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        (b"\x1f\x8b\x08nothing of the kind", "rows.csv.gz", "is damaged"),
        (b"PK\x05\x06" + bytes(18), "empty.zip", "has no notes, chats or tables"),
    ],
)
def test_what_cannot_be_read_fails_and_its_upload_is_deleted(
    space: Space, content: bytes, name: str, error: str
) -> None:
    run = uploaded(space, content, name)
    assert run.state == ImportState.FAILED
    assert error in run.error
    assert "/tmp" not in run.error
    assert not ImportPart.objects.exists()


def test_an_error_that_nobody_expects_fails_too(space: Space) -> None:
    run = uploaded(space, TABLE)
    confirm(run=run, options={"columns": 5})
    work_on(run.pk)
    run.refresh_from_db()
    assert (run.state, run.error[:30]) == (ImportState.FAILED, "The import failed unexpectedly")
    assert not ImportPart.objects.exists()


def test_a_format_or_encoding_can_be_named(space: Space) -> None:
    run = uploaded(space, "title\nПричал\n".encode("cp1251"))
    assert run.preview["rows"][0]["title"] != "Причал"
    prepare_again(run=run, format="csv", options={"encoding": "cp1251"})
    work_on(run.pk)
    run.refresh_from_db()
    assert run.preview["rows"][0]["title"] == "Причал"
    assert finished(run, encoding="cp1251").report["created"] == 1


def test_a_preview_is_bounded(space: Space) -> None:
    rows = "".join(json.dumps({"title": "t" * 900, "notes": "n\0" * 5_000}) + "\n" for _ in range(100))
    run = uploaded(space, gzip.compress(rows.encode()), "rows.jsonl.gz")
    assert len(run.preview["rows"]) == 20
    assert max(len(cell) for row in run.preview["rows"] for cell in row.values()) == CELL_SHOWN


@pytest.mark.parametrize("at", [ImportState.UPLOADING, ImportState.READY])
def test_a_cancelled_import_has_no_upload(space: Space, at: ImportState) -> None:
    run = (
        uploaded(space, TABLE)
        if at == ImportState.READY
        else start_upload(into=space, name="x", size=1, actor="a")
    )
    cancel(run=run)
    run.refresh_from_db()
    assert (run.state, ImportPart.objects.exists()) == (ImportState.CANCELLED, False)
    work_on(run.pk)
    for step in (
        lambda: cancel(run=run),
        lambda: confirm(run=run, options={}),
        lambda: end_upload(run=run),
        lambda: add_part(run=run, number=0, content=b"x"),
        lambda: prepare_again(run=run, format="", options={}),
    ):
        with pytest.raises(Conflict, match="This import is cancelled"):
            step()
    assert not space.records.exists()


def test_an_import_that_is_cancelled_while_it_runs_stops(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "title\n" + "".join(f"Row {number}\n" for number in range(3_500))
    run = uploaded(space, rows.encode())
    confirm(run=run, options={})
    ImportRun.objects.filter(pk=run.pk).update(state=ImportState.CANCELLED)
    run.state = ImportState.RUNNING
    with pytest.raises(runs._Unwanted):
        runs._work(run, "")
    assert space.records.count() == 1_000


def test_uploads_are_limited(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="larger than 200 MB"):
        start_upload(into=space, name="x", size=200 * 2**20 + 1, actor="a")
    run = start_upload(into=space, name="x", size=1, actor="a")
    monkeypatch.setattr(runs, "PACKED_BYTES_MAX", 10)
    for number, content in ((0, b""), (0, b"x" * 11), (1, b"x")):
        with pytest.raises(InvalidInput):
            add_part(run=run, number=number, content=content)
    with pytest.raises(InvalidInput, match="is empty"):
        end_upload(run=run)
    start_upload(into=space, name="y", size=1, actor="a")
    with pytest.raises(Conflict, match="2 imports of your team are running"):
        start_upload(into=space, name="z", size=1, actor="a")


def test_the_name_of_an_upload_leads_nowhere(space: Space) -> None:
    run = uploaded(space, TABLE, "../../etc/rows.csv")
    assert (run.name, run.state) == ("rows.csv", ImportState.READY)


def test_lost_and_abandoned_imports_end_with_their_uploads(space: Space) -> None:
    left = uploaded(space, TABLE)
    lost = uploaded(space, TABLE)
    confirm(run=lost, options={})
    end_lost_runs()
    assert ImportPart.objects.count() == 2
    with time_machine.travel(timezone.now() + LOST + timedelta(seconds=1)):
        end_lost_runs()
    lost.refresh_from_db()
    assert (lost.state, lost.error[:27]) == (ImportState.FAILED, "The import was interrupted.")
    with time_machine.travel(timezone.now() + ABANDONED + timedelta(seconds=1)):
        end_lost_runs()
    left.refresh_from_db()
    assert left.state == ImportState.FAILED
    assert not ImportPart.objects.exists()


def test_commits_of_an_address_are_fetched_shown_and_imported(
    space: Space, server: GitServer, settings: Any
) -> None:
    settings.IMPORT_ALLOWED_HOSTS = ["localhost"]
    url = server.url("shop.git")
    run = start_fetch(into=space, url=url, token="s3cret", newest=5, actor="user:edda")
    work_on(run.pk, "s3cret")
    run.refresh_from_db()
    assert (run.state, run.error) == (ImportState.READY, "")
    assert run.preview["rows"][0]["title"] == "Begin"
    assert finished(run).report["created"] == 1
    record = space.records.get()
    assert (record.type, record.source) == ("commit", "git:shop")
    stored = [str(values) for values in ImportRun.objects.values()]
    assert "s3cret" not in "".join(stored)


def test_an_address_in_a_private_network_fails(space: Space, server: GitServer) -> None:
    run = start_fetch(into=space, url=server.url("shop.git"), token="", newest=None, actor="a")
    work_on(run.pk)
    run.refresh_from_db()
    assert run.state == ImportState.FAILED
    assert "private network" in run.error
    with pytest.raises(InvalidInput):
        start_fetch(into=space, url="file:///etc", token="", newest=None, actor="a")


@pytest.mark.django_db(transaction=True)
def test_a_process_of_its_own_does_each_step(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = "importing"
    monkeypatch.setenv("DATABASE_URL", database(sessions))
    run = start_upload(into=space, name="rows.csv", size=len(TABLE), actor="user:edda")
    add_part(run=run, number=0, content=TABLE)
    for step, state in (
        (lambda: end_upload(run=run), "ready"),
        (lambda: confirm(run=run, options={}), "done"),
    ):
        step()
        wait_until(lambda state=state: ImportRun.objects.filter(pk=run.pk, state=state).exists())
    wait_for_sessions_to_end(sessions)
    assert space.records.count() == 2
