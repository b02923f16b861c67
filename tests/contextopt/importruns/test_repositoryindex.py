"""The index of a repository from a page: an archive or a git address, what it shows, and its report."""

import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from contextopt.errors import Conflict, InvalidInput
from contextopt.importruns import remotes, runs
from contextopt.importruns.models import ImportPart, ImportRun, ImportState
from contextopt.importruns.runs import (
    add_part,
    cancel,
    confirm,
    end_upload,
    start_fetch,
    start_upload,
    work_on,
)
from contextopt.people.models import Team
from contextopt.repositories.checkouts import TOO_LARGE
from contextopt.repositories.indexing import update_posted
from contextopt.repositories.inputs import RelevantIn
from contextopt.repositories.models import Repository, RepositoryFile, RepositoryHistory
from contextopt.repositories.relevantfiles import rank_repository
from contextopt.spaces.models import Space
from tests.concurrency import wait_until
from tests.gitrepos import SHOP, commit_files, make_git, run_git, write_files
from tests.gitserver import GitServer, serving
from tests.processes import database, wait_for_sessions_to_end

EXTRA = {"dist/app.min.js": "x", "logo.png": b"\0\1", "big.txt": "x" * 600_000}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_git(tmp_path / "work", {**SHOP, **EXTRA})


@pytest.fixture
def server(tmp_path: Path, work: Path, settings: Any) -> Iterator[GitServer]:
    settings.IMPORT_ALLOWED_HOSTS = ["localhost"]
    (tmp_path / "served").mkdir()
    bare = tmp_path / "served" / "shop.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(work), str(bare))
    run_git(bare, "config", "uploadpack.allowFilter", "true")
    with serving(tmp_path / "served") as found:
        yield found


def archive_of(folder: Path) -> bytes:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return packed.getvalue()


def uploaded(team: Team, content: bytes, name: str = "shop.tar.gz") -> ImportRun:
    run = start_upload(into=team, name=name, size=len(content), actor="user:edda")
    add_part(run=run, number=0, content=content)
    end_upload(run=run)
    return worked(run)


def fetched(team: Team, server: GitServer, newest: int | None = None) -> ImportRun:
    url = server.url("shop.git")
    return worked(start_fetch(into=team, url=url, token="", newest=newest, actor="user:edda"))


def indexed(run: ImportRun, **options: Any) -> ImportRun:
    confirm(run=run, options=options)
    return worked(run)


def worked(run: ImportRun) -> ImportRun:
    work_on(run.pk)
    return ImportRun.objects.get(pk=run.pk)


def test_an_archive_is_listed_indexed_and_deleted(team: Team, work: Path) -> None:
    run = uploaded(team, archive_of(work))
    assert (run.state, run.error) == (ImportState.READY, "")
    preview = run.preview
    assert (preview["files"], preview["lower"], preview["left_out"]) == (9, 1, [[TOO_LARGE, 1]])
    assert preview["endings"][0] == [".py", 5]
    assert not Repository.objects.exists()
    run = indexed(run)
    assert (run.state, run.error, run.preview) == (ImportState.DONE, "", {})
    repository = Repository.objects.get()
    assert (repository.name, repository.source, repository.origin) == ("shop", "shop", "archive")
    assert (repository.revision, repository.created_by) == (run_git(work, "rev-parse", "HEAD"), "user:edda")
    assert run.report["repository"] == repository.pk
    assert run.report["left_out_paths"] == [["big.txt", TOO_LARGE], ["logo.png", "binary"]]
    assert not ImportPart.objects.exists()
    relevant = rank_repository(repository, RelevantIn(task="Add up the prices of a cart"))
    assert relevant.ranked[0].path == "shop/cart.py"


def test_the_same_archive_changes_nothing_and_a_newer_one_only_what_differs(team: Team, work: Path) -> None:
    indexed(uploaded(team, archive_of(work)))
    again = indexed(uploaded(team, archive_of(work)))
    assert (again.report["changed"], again.report["parsed"]) == (0, 0)
    commit_files(work, "Add tax", {"shop/tax.py": "RATE = 25\n"}, removed=("shop/mail.py",))
    newer = indexed(uploaded(team, archive_of(work), "shop-2.zip.tar.gz"), source="shop")
    assert (newer.report["changed"], newer.report["removed"], newer.report["parsed"]) == (1, 1, 1)
    assert Repository.objects.count() == 1


def test_a_git_address_is_fetched_without_large_files(team: Team, server: GitServer, work: Path) -> None:
    run = fetched(team, server)
    assert (run.state, run.error) == (ImportState.READY, "")
    assert run.preview["left_out"] == [[TOO_LARGE, 1]]
    run = indexed(run)
    repository = Repository.objects.get()
    assert (repository.name, repository.source, repository.origin) == ("shop", run.name, "git address")
    large = RepositoryFile.objects.get(path="big.txt")
    assert (large.skipped, large.size) == (TOO_LARGE, 0)
    assert repository.files == 7


def test_an_address_is_indexed_again_with_as_much_history_as_is_asked_for(
    team: Team, server: GitServer, work: Path
) -> None:
    indexed(fetched(team, server))
    for number in range(3):
        date = f"2026-04-0{number + 1}T10:00:00Z"
        commit_files(work, f"Change {number}", {"shop/tax.py": f"RATE = {number}\n"}, date=date)
    run_git(work, "push", "--quiet", str(server.root / "shop.git"), "main")
    run = indexed(fetched(team, server))
    assert (run.report["changed"], run.report["is_shallow"]) == (1, True)
    repository = Repository.objects.get()
    assert repository.revision == run_git(work, "rev-parse", "HEAD")
    # Older commits that were fetched before stay.
    assert RepositoryHistory.objects.get().commits == 2
    deeper = indexed(fetched(team, server, newest=3))
    assert (deeper.report["changed"], deeper.report["is_shallow"]) == (0, True)
    assert RepositoryHistory.objects.get().commits == 4
    again = indexed(fetched(team, server))
    assert (again.report["changed"], RepositoryHistory.objects.get().commits) == (0, 4)


def test_a_fetch_that_is_too_large_names_the_limit(
    team: Team, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PACKED_BYTES_MAX", 10)
    assert "larger than 0 MB" in fetched(team, server).error
    monkeypatch.setattr(remotes, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(runs, "FILES", remotes.Scope("blob:none", -1, remotes.FILES.too_large))
    run = fetched(team, server)
    assert (run.state, run.error[:47]) == (
        ImportState.FAILED,
        "the repository's files are larger than 200 MB; ",
    )


@pytest.mark.parametrize(
    ("files", "name", "error"),
    [
        ({"a.py": "x"}, "shop.py", "not a zip or tar archive"),
        ({"node_modules/a.js": "x"}, "shop.tar", "no files that can be indexed"),
    ],
)
def test_what_cannot_be_indexed_fails_and_is_deleted(
    team: Team, tmp_path: Path, files: dict[str, str], name: str, error: str
) -> None:
    write_files(tmp_path / "shop", {**files, "b/.git/x": ""})
    run = uploaded(team, archive_of(tmp_path / "shop"), name)
    assert run.state == ImportState.FAILED
    assert error in run.error
    assert not ImportPart.objects.exists()


def test_an_index_that_is_cancelled_stops(team: Team, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextopt.repositories.indexing.WRITE_ROWS", 1)
    run = uploaded(team, archive_of(work))
    confirm(run=run, options={})
    cancel(run=run)
    run.state = ImportState.RUNNING
    ImportPart.objects.create(run=run, number=0, content=archive_of(work))
    with pytest.raises(runs._Unwanted):
        runs._work(run, "")
    assert not RepositoryFile.objects.exists()


def test_an_index_that_takes_too_long_is_ended(
    team: Team, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uploaded(team, archive_of(work))
    confirm(run=run, options={})
    ends: list[bool] = []
    monkeypatch.setattr(runs, "INDEX_SECONDS", -1)
    run.state = ImportState.RUNNING
    runs.end_if_overdue(run, 0.0, lambda: ends.append(True))
    run.refresh_from_db()
    assert (ends, run.state) == ([True], ImportState.FAILED)
    assert run.error.startswith("Indexing took longer than 30 minutes.")


def test_an_imported_repository_is_not_changed_through_the_api(team: Team, work: Path) -> None:
    indexed(uploaded(team, archive_of(work)))
    with pytest.raises(Conflict, match="come from the repository's archive"):
        update_posted(repository=Repository.objects.get(), files={}, deleted=[])


def test_indexes_and_records_share_the_limit_of_a_team(team: Team, space: Space) -> None:
    start_upload(into=team, name="a.zip", size=1, actor="a")
    start_upload(into=space, name="a.csv", size=1, actor="a")
    with pytest.raises(Conflict, match="2 imports of your team are running"):
        start_upload(into=team, name="b.zip", size=1, actor="a")
    with pytest.raises(InvalidInput):
        start_fetch(into=team, url="ext::sh -c id", token="", newest=None, actor="a")


@pytest.mark.django_db(transaction=True)
def test_a_process_of_its_own_lists_and_indexes(
    team: Team, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = "indexing"
    monkeypatch.setenv("DATABASE_URL", database(sessions))
    content = archive_of(work)
    run = start_upload(into=team, name="shop.tgz", size=len(content), actor="user:edda")
    add_part(run=run, number=0, content=content)
    for step, state in (
        (lambda: end_upload(run=run), "ready"),
        (lambda: confirm(run=run, options={}), "done"),
    ):
        step()
        wait_until(lambda state=state: ImportRun.objects.filter(pk=run.pk, state=state).exists())
    wait_for_sessions_to_end(sessions)
    assert Repository.objects.get().files == 7
