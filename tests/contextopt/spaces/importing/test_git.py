import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.spaces.importing import git
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.rows import Notice, RawRow, Rejection, UnusableSource
from contextopt.spaces.models import Record, Space

IDENTITY = ["-c", "user.name=Ada Ø", "-c", "user.email=ada@example.org"]


def run_git(repository: Path, *arguments: str, **environment: str) -> None:
    subprocess.run(
        ["git", "-C", str(repository), *IDENTITY, *arguments],
        check=True,
        capture_output=True,
        env={**git.git_environment(), **environment},
    )


def commit(repository: Path, message: str, *files: str, date: str = "2026-03-01T10:00:00+02:00") -> None:
    for name in files:
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{message}\n")
    run_git(repository, "add", "-A")
    options = ["--allow-empty", "--allow-empty-message", "-m", message]
    run_git(repository, "commit", *options, GIT_COMMITTER_DATE=date, GIT_AUTHOR_DATE=date)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "widget"
    path.mkdir()
    run_git(path, "init", "--quiet", "--initial-branch=main")
    return path


def rows_of(repository: Path, **options: Any) -> list[dict[str, Any]]:
    found = list(read_commits(str(repository), **options))
    assert all(isinstance(row, RawRow) for row in found)
    return [row.fields for row in found if isinstance(row, RawRow)]


def test_a_commit_is_a_record(repository: Path) -> None:
    commit(repository, "Add parser\n\nIt reads.\n\nTwice.", "src/a.py", "docs/b c.md", "top.txt")
    (row,) = rows_of(repository)
    assert len(str(row.pop("external_id"))) == 40
    assert row == {
        "title": "Add parser",
        "type": "commit",
        "date": "2026-03-01T10:00:00+02:00",
        "tags": ["docs", "src"],
        "notes": "It reads.\n\nTwice.\n\nAuthor: Ada Ø\n\nFiles: docs/b c.md, src/a.py, top.txt",
        "source": "git:widget",
        "metadata": {"author": "Ada Ø", "email": "ada@example.org"},
    }


def test_names_and_messages_with_odd_characters(repository: Path) -> None:
    commit(repository, 'Say "hi"\tto \x1b[31m\x1e\x1f', 'new\nline "q".txt', "æ/ø.txt", "\nfirst.txt")
    commit(repository, "", "b/x")
    commit(repository, "Nothing touched")
    nothing, empty, odd = rows_of(repository)
    assert nothing["notes"] == "Author: Ada Ø"
    assert (empty["title"], empty["tags"]) == ("(no subject)", ["b"])
    assert odd["title"] == 'Say "hi" to \x1b[31m'
    assert odd["notes"].endswith('Files: \nfirst.txt, new\nline "q".txt, æ/ø.txt')


def test_a_message_in_another_encoding_and_bytes_that_are_none(repository: Path) -> None:
    (repository / "message").write_bytes("blåbær".encode("latin-1"))
    run_git(repository, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--allow-empty", "-F", "message")
    (repository / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    commit(repository, "Odd name")
    odd, latin = rows_of(repository)
    assert latin["title"] == "blåbær"
    assert "caf\ufffd.txt" in odd["notes"]


def test_many_files_are_cut_and_counted(repository: Path) -> None:
    commit(repository, "Everything", *[f"folder{n:03}/file" for n in range(150)])
    (row,) = rows_of(repository)
    assert row["tags"] == [f"folder{n:03}" for n in range(8)]
    assert row["notes"].endswith("folder099/file and 50 more")


def test_merges_and_long_histories_are_read_in_order(repository: Path) -> None:
    commit(repository, "Base", "a")
    run_git(repository, "checkout", "--quiet", "-b", "side")
    commit(repository, "Side", "b", date="2026-03-02T10:00:00Z")
    run_git(repository, "checkout", "--quiet", "main")
    commit(repository, "Main", "c", date="2026-03-03T10:00:00Z")
    run_git(repository, "merge", "--quiet", "--no-edit", "side", GIT_COMMITTER_DATE="2026-03-04T10:00:00Z")
    assert [row["title"] for row in rows_of(repository)] == ["Merge branch 'side'", "Main", "Side", "Base"]
    assert [row["title"] for row in rows_of(repository, limit=2)] == ["Merge branch 'side'", "Main"]
    assert [row["title"] for row in rows_of(repository, rev="side")] == ["Side", "Base"]
    assert [row["title"] for row in rows_of(repository, rev="side..main")][-1] == "Main"


def test_a_subfolder_and_a_bare_repository_are_their_repository(repository: Path, tmp_path: Path) -> None:
    commit(repository, "One", "sub/a")
    bare = tmp_path / "mirror.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(bare))
    assert rows_of(repository / "sub")[0]["source"] == "git:widget"
    assert rows_of(bare)[0]["source"] == "git:mirror"


def test_what_points_git_elsewhere_is_ignored(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, "One", "a")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert [row["title"] for row in rows_of(repository)] == ["One"]


def test_a_repository_of_another_user_is_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's own test switch makes it take the repository for another user's: chown would need root."""
    commit(repository, "One", "a")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
    # The user who runs the tests may have told git to trust every folder.
    distrusting = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run_git(repository, "log", **distrusting)
    assert b"dubious ownership" in refused.value.stderr
    assert len(rows_of(repository)) == 1


def test_programs_named_by_the_repository_are_not_run(repository: Path, tmp_path: Path) -> None:
    commit(repository, "One", "a")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "gpg.program", "diff.external", "core.sshCommand"):
        run_git(repository, "config", setting, str(trap))
    run_git(repository, "config", "log.showSignature", "true")
    assert len(rows_of(repository)) == 1
    assert not (tmp_path / "sprung").exists()


def test_a_history_that_ends_in_damage_is_kept_so_far(repository: Path) -> None:
    for number in range(3):
        commit(repository, f"Commit {number}", f"file{number}", date=f"2026-03-0{number + 1}T10:00:00Z")
    first = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD~2"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (repository / ".git" / "objects" / first[:2] / first[2:]).unlink()
    *kept, last = read_commits(str(repository))
    assert isinstance(last, Rejection)
    assert "cannot be read beyond this point" in last.error
    assert last.line == len(kept) + 1


def test_a_reader_that_stops_early_leaves_no_process(repository: Path) -> None:
    # More than a pipe holds, so git waits for its reader.
    for name in "abc":
        commit(repository, "x" * 100_000, name)
    rows = read_commits(str(repository))
    next(rows)
    assert running_git() != []
    rows.close()  # type: ignore[attr-defined]
    assert running_git() == []


def running_git() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name() == "git"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rev": "--output=owned"}, "is an option"),
        ({"rev": "nowhere"}, "--rev: there is no 'nowhere'"),
        ({"rev": "main..nowhere"}, "--rev: there is no 'main..nowhere'"),
        ({"rev": ""}, "--rev: there is no ''"),
        ({"rev": "HEAD^{tree}"}, "is not a commit"),
        ({"rev": "HEAD:a"}, "is not a commit"),
    ],
)
def test_revisions_that_are_none(repository: Path, options: dict[str, Any], message: str) -> None:
    commit(repository, "One", "a")
    with pytest.raises(UnusableSource, match=message):
        list(read_commits(str(repository), **options))
    assert not (repository / "owned").exists()


@pytest.mark.django_db
def test_unusable_repositories_end_with_2_and_make_no_space(repository: Path, tmp_path: Path) -> None:
    for path, message in [
        (repository, "no commits yet"),
        (tmp_path, "not in a git repository"),
        (tmp_path / "missing", "not a folder"),
        ("https://example.org/x.git", "not a folder on this machine"),
    ]:
        with pytest.raises(CommandError, match=message) as caught:
            call_command("import_git", "s", str(path))
        assert caught.value.returncode == 2
    with pytest.raises(CommandError, match="--limit"):
        call_command("import_git", "s", str(repository), "--limit", "0")
    assert not Space.objects.exists()


@pytest.mark.django_db
def test_the_command_imports_and_importing_again_changes_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        commit(repository, f"Commit {number}", f"src/file{number}")
    answers = []
    for _ in range(2):
        call_command("import_git", "history", str(repository), "--json")
        answers.append(json.loads(capsys.readouterr().out))
    nothing = {"updated": 0, "rejected": [], "left_out": []}
    assert answers[0] == {"read": 3, "created": 3, "unchanged": 0, **nothing}
    assert answers[1] == {"read": 3, "created": 0, "unchanged": 3, **nothing}
    assert Record.objects.filter(type="commit", source="git:widget").count() == 3


@pytest.mark.parametrize(
    ("date", "fault"),
    [
        ("nonsense", "must be a date-time, such as 2026-01-31T12:00:00Z"),
        ("1762300800 +2500", "must be a date-time, such as 2026-01-31T12:00:00Z"),
        ("99999999999 +0000", "must be in the years 1900 to 2998, counted in UTC"),
    ],
)
def test_a_commit_with_a_damaged_date_is_named(repository: Path, date: str, fault: str) -> None:
    commit(repository, "First", "a")
    tree = git.git_line(repository, ["rev-parse", "HEAD^{tree}"])
    text = f"tree {tree}\nauthor A <a@x> {date}\ncommitter A <a@x> {date}\n\nDamaged\n"
    (repository / "text").write_text(text)
    sha = git.git_line(repository, ["hash-object", "-t", "commit", "-w", "--literally", "text"])
    assert sha is not None
    (rejection,) = read_commits(str(repository), rev=sha)
    assert rejection == Rejection(1, "date", f"{fault} (commit {sha[:12]})")


def test_a_shallow_clone_is_named_with_the_way_to_deepen_it(repository: Path, tmp_path: Path) -> None:
    for number in range(3):
        commit(repository, f"Commit {number}", f"file{number}")
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    notice, row = read_commits(str(clone))
    assert isinstance(notice, Notice)
    assert "git fetch --unshallow" in notice.message
    assert isinstance(row, RawRow)
    run_git(clone, "fetch", "--quiet", "--unshallow")
    assert [type(each) for each in read_commits(str(clone))] == [RawRow] * 3
