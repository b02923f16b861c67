import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.spaces.importing.markdown import read_folder
from contextopt.spaces.importing.rows import RawRow, Rejection
from contextopt.spaces.models import Record, Space
from tests.contextopt.spaces.importing.test_git import commit, run_git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "handbook"
    path.mkdir()
    return path


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def only_row(folder: Path) -> dict[str, Any]:
    (row,) = read_folder(str(folder))
    assert isinstance(row, RawRow), row
    return row.fields


def test_front_matter_gives_the_fields(folder: Path) -> None:
    write(
        folder,
        "ops/restore.md",
        "---\ntitle: Restore a backup\ndate: 2026-05-01\ntags: [ops, '#db', 7]\ntype: runbook\n"
        "pinned: true\nowner: Ann\n"
        "reviewed: 2026-05-02 10:00:00\nsteps: {one: 1.5, two: null}\n---\n\n# Not this\n\nText.\n",
    )
    assert only_row(folder) == {
        "title": "Restore a backup",
        "type": "runbook",
        "date": "2026-05-01",
        "tags": ["ops", "db", "7"],
        "pinned": True,
        "notes": "# Not this\n\nText.",
        "source": "markdown:handbook",
        "external_id": "ops/restore.md",
        "metadata": {
            "owner": "Ann",
            "reviewed": "2026-05-02T10:00:00",
            "steps": {"one": 1.5, "two": None},
        },
    }


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# The heading #\n\ntext", "The heading"),
        ("text\n\n## Later heading\n", "Later heading"),
        ("```\n# a comment\n```\n\nUnderlined\n==========\n", "Underlined"),
        ("no heading at all", "page"),
        ("", "page"),
        ("---\ntitle:\n---\n# Shown\n", "Shown"),
        ("---\n\nA ruled-off paragraph\n\n---\n\n# After\n", "After"),
        ("---\nnever closed: [\n\n# Shown\n", "Shown"),
        ("\ufeff---\r\ntitle: Windows\r\n---\r\ntext\r\n", "Windows"),
        ("---\ntitle: 2026\n---\n", "2026"),
        ("# " + "x" * 2_000, "x" * 999 + "…"),
    ],
)
def test_where_the_title_comes_from(folder: Path, content: str, title: str) -> None:
    write(folder, "page.md", content)
    assert only_row(folder)["title"] == title


@pytest.mark.parametrize(
    ("tags", "expected"),
    [("a, b", ["a", "b"]), ("a; b;", ["a", "b"]), ("single", ["single"]), ("5", 5), ("{a: 1}", {"a": 1})],
)
def test_tags_as_people_write_them(folder: Path, tags: str, expected: object) -> None:
    write(folder, "page.md", f"---\ntags: {tags}\n---\n")
    assert only_row(folder)["tags"] == expected


@pytest.mark.parametrize(
    ("content", "line", "field"),
    [
        (b"---\nok: 1\nbad: [1, 2\nmore: 3\n---\n", 4, "metadata"),
        (b"---\na: &x [*x]\n---\n", 1, "metadata"),
        (b"---\na: " + b"[" * 3_000 + b"]" * 3_000 + b"\n---\n", 1, "metadata"),
        (b"---\na: " + b"9" * 5_000 + b"\n---\n", 1, "metadata"),
        (b"---\nd: 2026-13-45\n---\n", 1, "metadata"),
        (b"---\na: !!python/object/apply:os.system [ls]\n---\n", 2, "metadata"),
        (b"---\na: " + b"x" * 70_000 + b"\n---\n", 1, "metadata"),
        (b"fine\nnot \xff fine\n", 2, "notes"),
        (b"x" * 4_200_000, 1, "notes"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(
    folder: Path, content: bytes, line: int, field: str
) -> None:
    write(folder, "bad.md", content)
    write(folder, "good.md", "fine")
    bad, good = read_folder(str(folder))
    assert isinstance(bad, Rejection)
    assert (bad.file, bad.line, bad.field) == ("bad.md", line, field)
    assert isinstance(good, RawRow)


def test_a_few_aliases_cannot_fill_the_memory(folder: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    write(folder, "bomb.md", "---\n" + "\n".join(lines) + "\n---\n")
    (row,) = read_folder(str(folder))
    assert isinstance(row, Rejection)
    assert "repeats itself" in row.error


def test_links_circles_and_hidden_folders(folder: Path, tmp_path: Path) -> None:
    write(folder, "a/one.MD", "1")
    write(folder, ".git/no.md", "no")
    write(folder, "a/readme.txt", "no")
    (folder / "a" / "circle").symlink_to(folder, target_is_directory=True)
    (folder / "dead.md").symlink_to(tmp_path / "nothing")
    (folder / "self.md").symlink_to(folder / "self.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    found = list(read_folder(str(folder)))
    assert [row.file for row in found if isinstance(row, RawRow)] == ["a/one.MD"]
    assert [row.file for row in found if isinstance(row, Rejection)] == ["dead.md", "pipe.md", "self.md"]


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    secret = write(tmp_path, "secret.md", "secret")
    write(tmp_path, "handbook-of-others/secret.md", "secret")
    write(folder, "sub/page.md", "page")
    (folder / "absolute.md").symlink_to(secret)
    (folder / "hop.md").symlink_to("sub/relative.md")
    (folder / "sub" / "relative.md").symlink_to("../../handbook-of-others/secret.md")
    (folder / "within.md").symlink_to("sub/page.md")
    entry = tmp_path / "entry"
    entry.symlink_to(folder, target_is_directory=True)
    for root in (folder, entry):
        found = list(read_folder(str(root)))
        rejected = [row for row in found if isinstance(row, Rejection)]
        assert [row.file for row in rejected] == ["absolute.md", "hop.md", "sub/relative.md"]
        assert all("a symbolic link" in row.error for row in rejected)
        pages = [row for row in found if isinstance(row, RawRow)]
        assert [(row.file, row.fields["notes"]) for row in pages] == [
            ("within.md", "page"),
            ("sub/page.md", "page"),
        ]


def test_the_date_is_the_front_matters_the_commits_or_the_files(folder: Path) -> None:
    run_git(folder.parent, "init", "--quiet", str(folder))
    write(folder, "sub/old.md", "old")
    commit(folder, "Add", "sub/other.txt", date="2026-02-01T10:00:00+00:00")
    write(folder, "dated.md", "---\ndate: 2026-01-05 08:30:00Z\n---\n")
    commit(folder, "Later", "x.txt", date="2026-02-02T10:00:00+00:00")
    loose = write(folder, "loose.md", "loose")
    os.utime(loose, (1_770_000_000, 1_770_000_000))
    rows = [row.fields for row in read_folder(str(folder)) if isinstance(row, RawRow)]
    assert {str(row["external_id"]): row["date"] for row in rows} == {
        "dated.md": "2026-01-05T08:30:00+00:00",
        "loose.md": "2026-02-02T02:40:00+00:00",
        "sub/old.md": "2026-02-01T10:00:00+00:00",
    }
    (below,) = read_folder(str(folder / "sub"))
    assert isinstance(below, RawRow)
    assert below.fields["date"] == "2026-02-01T10:00:00+00:00"


@pytest.mark.django_db
def test_the_command_imports_and_importing_again_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "good.md", "# Good\n\ntext")
    write(folder, "bad.md", "---\ndate: soon\n---\n")
    write(folder, os.fsdecode(b"caf\xe9.md"), "odd name")
    for outcome in ("created", "unchanged"):
        with pytest.raises(SystemExit) as caught:
            call_command("import_markdown", "docs", str(folder), "--json")
        assert caught.value.code == 1
        answer = json.loads(capsys.readouterr().out)
        assert (answer["read"], answer[outcome]) == (3, 1)
        assert [(item["file"], item["field"]) for item in answer["rejected"]] == [
            ("bad.md", "date"),
            ("caf\ufffd.md", "external_id"),
        ]
    assert Record.objects.get().type == "document"


@pytest.mark.django_db
def test_a_date_without_an_offset_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dates = {
        "bare": "2026-11-01T10:00:00",
        "quoted": "'2026-11-01 10:00'",
        "basic": "20261101T100000",
        "day": "2026-11-01",
        "offset": "2026-11-01T10:00:00+02:00",
        "quoted-offset": "'20261101T100000+0200'",
    }
    for name, text in dates.items():
        write(folder, f"{name}.md", f"---\ndate: {text}\n---\n")
    with pytest.raises(SystemExit):
        call_command("import_markdown", "docs", str(folder), "--json")
    rejected = json.loads(capsys.readouterr().out)["rejected"]
    assert [(item["file"], item["field"]) for item in rejected] == [
        ("bare.md", "date"),
        ("basic.md", "date"),
        ("quoted.md", "date"),
    ]
    assert all("offset" in item["error"] for item in rejected)
    moments = {record.external_id: record.date.isoformat() for record in Record.objects.all()}
    assert moments == {
        "day.md": "2026-11-01T00:00:00+00:00",
        "offset.md": "2026-11-01T08:00:00+00:00",
        "quoted-offset.md": "2026-11-01T08:00:00+00:00",
    }


@pytest.mark.django_db
def test_a_folder_that_is_none_ends_with_2(folder: Path) -> None:
    file = write(folder, "a.md", "x")
    for path in (file, folder / "missing"):
        with pytest.raises(CommandError, match=r"DIR: .* is not a folder") as caught:
            call_command("import_markdown", "docs", str(path))
        assert caught.value.returncode == 2
    assert not Space.objects.exists()
