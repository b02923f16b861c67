"""Uploaded archives as checkouts: the repository in one without its settings, or the files of a folder."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from contextopt.importruns.gitarchives import opened_archive
from contextopt.repositories.checkouts import NOT_READ, TOO_LARGE, Checkout
from contextopt.spaces.importing.rows import UnusableSource
from tests.gitrepos import SHOP, commit_files, make_git, run_git, write_files


def packed(folder: Path, name: str = "shop.tar.gz") -> Path:
    """Pack a folder, below its own name."""
    archive = folder.parent / name
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def contents(checkout: Checkout) -> dict[str, bytes | None]:
    entries = checkout.snapshot(None).entries.values()
    return {entry.path: content for entry, content in checkout.read(entries)}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_git(tmp_path / "shop")


def test_the_committed_files_are_read_not_those_of_the_work_tree(work: Path) -> None:
    revision = run_git(work, "rev-parse", "HEAD")
    write_files(work, {"shop/cart.py": "changed", "new.py": "new"})
    with opened_archive(packed(work)) as checkout:
        assert checkout.snapshot(None).revision == revision
        assert contents(checkout) == {path: text.encode() for path, text in SHOP.items()}
        folder = checkout.folder
    assert not folder.exists()


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [["gc", "--quiet"]],
        [["pack-refs", "--all"]],
        [["checkout", "--quiet", "--detach"]],
        [["checkout", "--quiet", "-b", "feature/a"], ["gc", "--quiet"]],
    ],
)
def test_every_way_of_storing_a_repository_is_read(work: Path, steps: list[list[str]]) -> None:
    for step in steps:
        run_git(work, *step)
    with opened_archive(packed(work)) as checkout:
        assert len(checkout.changes(checkout.snapshot(None).revision)) == 1
        assert set(contents(checkout)) == set(SHOP)


def test_a_zip_of_the_git_folder_alone_or_of_a_bare_repository(work: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for path in (work / ".git").rglob("*"):
            out.write(path, path.relative_to(tmp_path))
    with opened_archive(archive) as checkout:
        assert set(contents(checkout)) == set(SHOP)
    run_git(tmp_path, "clone", "--quiet", "--bare", str(work), str(tmp_path / "bare.git"))
    with opened_archive(packed(tmp_path / "bare.git", "b.tar.gz")) as checkout:
        assert set(contents(checkout)) == set(SHOP)


def test_a_repository_with_longer_names(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--object-format=sha256")
    commit_files(folder, "Begin", SHOP)
    with opened_archive(packed(folder)) as checkout:
        assert contents(checkout)["README.md"] == SHOP["README.md"].encode()


def test_settings_hooks_and_other_object_stores_stay_behind(work: Path, tmp_path: Path) -> None:
    """Nothing that the archive names may run, and nothing outside of it may be read."""
    trap = tmp_path / "trapped"
    hook = work / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external"):
        run_git(work, "config", name, f"touch {trap}")
    (work / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    run_git(work, "config", "filter.evil.smudge", f"touch {trap}")
    (work / ".git" / "objects" / "info" / "alternates").write_text("/srv/secret/objects\n")
    with opened_archive(packed(work)) as checkout:
        assert set(contents(checkout)) == set(SHOP)
        checkout.changes(checkout.snapshot(None).revision)
        config = (checkout.folder / "config").read_text()
        names = {path.name for path in checkout.folder.rglob("*")}
    assert "touch" not in config
    assert not {"hooks", "alternates", "attributes", "index", "logs"} & names
    assert not trap.exists()


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: refs/heads/missing\n",
        "ref: ../../etc/passwd\n",
        "ref: refs/../../../../etc/passwd\n",
        "x" * 40,
    ],
)
def test_a_head_that_leads_to_no_commit_is_refused(work: Path, head: str) -> None:
    (work / ".git" / "HEAD").write_text(head)
    with pytest.raises(UnusableSource, match="has no commits, or its HEAD"), opened_archive(packed(work)):
        pass


def test_a_commit_that_is_not_in_the_archive_is_named(work: Path) -> None:
    (work / ".git" / "HEAD").write_text("1" * 40)
    with pytest.raises(UnusableSource, match="lacks the commit 111111111111"), opened_archive(packed(work)):
        pass


def test_a_content_that_is_not_what_its_name_says_is_not_read(work: Path) -> None:
    mail, cart = (run_git(work, "rev-parse", f"HEAD:shop/{name}.py") for name in ("mail", "cart"))
    objects = work / ".git" / "objects"
    forged, kept = (objects / oid[:2] / oid[2:] for oid in (mail, cart))
    forged.chmod(0o644)
    forged.write_bytes(kept.read_bytes())
    with opened_archive(packed(work)) as checkout:
        found = contents(checkout)
    assert found["shop/mail.py"] is None
    assert found["shop/cart.py"] == SHOP["shop/cart.py"].encode()


def test_what_a_filter_left_out_has_the_reason_that_is_given(work: Path, tmp_path: Path) -> None:
    commit_files(work, "Add data", {"data.txt": "x" * 5_000})
    run_git(work, "config", "uploadpack.allowFilter", "true")
    run_git(
        tmp_path, "-c", "protocol.file.allow=always", "clone", "--quiet", "--bare", "--no-local", "--depth=1",
        "--filter=blob:limit=1k", work.as_uri(), "part.git",
    )  # fmt: skip
    archive = packed(tmp_path / "part.git")
    for reason, expected in ((TOO_LARGE, TOO_LARGE), (None, NOT_READ["missing"])):
        with opened_archive(archive, **({"missing": reason} if reason else {})) as checkout:
            skipped = {each.path: each.skipped for each in checkout.snapshot(None).entries.values()}
            assert checkout.is_shallow()
        assert {path: why for path, why in skipped.items() if why} == {"data.txt": expected}


def test_an_archive_without_a_repository_is_read_as_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shop-main"
    write_files(folder, {**SHOP, "node_modules/x/index.js": "x"})
    (folder / "link.py").symlink_to("/etc/passwd")
    with opened_archive(packed(folder)) as checkout:
        snapshot = checkout.snapshot(None)
        assert snapshot.revision == ""
        assert {path for path, entry in snapshot.entries.items() if not entry.skipped} == set(SHOP)
        assert snapshot.entries["node_modules"].skipped == "an ignored folder"


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shop.zip"
    file.write_text("no archive")
    with pytest.raises(UnusableSource, match="not a zip or tar archive"), opened_archive(file):
        pass


def test_git_runs_nothing_of_the_archive(work: Path) -> None:
    """The new repository has the objects alone, so git finds it whole."""
    with opened_archive(packed(work)) as checkout:
        done = subprocess.run(
            ["git", "fsck", "--full", "--strict"], cwd=checkout.folder, capture_output=True, check=False
        )
        assert done.returncode == 0
