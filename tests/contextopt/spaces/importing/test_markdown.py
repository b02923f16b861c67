import json
import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.people.models import Team
from contextopt.spaces.importing.markdown import read_folder
from contextopt.spaces.importing.rows import Notice, RawRow, ReadOptions, Rejection
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
        "date": "2026-05-01T00:00:00+00:00",
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


def read_one(folder: Path) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """Return the fields of a folder's only note, and the line and text of each notice."""
    found = list(read_folder(str(folder)))
    (row,) = (each for each in found if isinstance(each, RawRow))
    return row.fields, [(each.line, each.message) for each in found if isinstance(each, Notice)]


@pytest.mark.parametrize(
    ("front", "line", "fault"),
    [
        (b"---\nok: 1\nbad: [1, 2\nmore: 3\n---\n", 4, "is not YAML"),
        (b"---\na: &x [*x]\n---\n", 1, "is nested too deep"),
        (b"---\na: " + b"[" * 3_000 + b"]" * 3_000 + b"\n---\n", 1, ""),
        (b"---\na: " + b"9" * 5_000 + b"\n---\n", 1, "cannot be read"),
        (b"---\nd: 2026-13-45\n---\n", 1, "cannot be read"),
        (b"---\na: !!python/object/apply:os.system [ls]\n---\n", 2, "is not YAML"),
        (b"---\na: " + b"x" * 70_000 + b"\n---\n", 1, "is longer than 65,536"),
        (b"---\ntitle: One: two\n---\n", 2, "is not YAML"),
        (b"---\ncreated: {{date}}\n---\n", 2, "is not YAML"),
        (b"+++\na = \n+++\n", 1, "is not TOML"),
    ],
)
def test_damaged_front_matter_never_costs_the_note(folder: Path, front: bytes, line: int, fault: str) -> None:
    write(folder, "note.md", front + b"# Heading\n\nText.\n")
    fields, notices = read_one(folder)
    assert fields["notes"] == "# Heading\n\nText."
    assert notices[0][0] == line
    assert notices[0][1].startswith(f"the front matter {fault}")


def test_the_plain_lines_of_damaged_front_matter_are_read(folder: Path) -> None:
    write(
        folder, "note.md", "---\ntitle: Harbour: the plan\ncreated: 2026-03-05\nmood: {{mood}}\n---\nText.\n"
    )
    fields, _ = read_one(folder)
    assert (fields["title"], fields["date"]) == ("Harbour: the plan", "2026-03-05T00:00:00+00:00")
    assert fields["metadata"] == {"mood": "{{mood}}"}


@pytest.mark.parametrize(("content", "field"), [(b"x" * 4_200_000, "notes"), (b"fine\n\x81\x00\n", "notes")])
def test_a_file_that_is_no_text_is_named(folder: Path, content: bytes, field: str) -> None:
    write(folder, "bad.md", content)
    write(folder, "good.md", "fine")
    bad, good = read_folder(str(folder))
    assert isinstance(bad, Rejection)
    assert (bad.file, bad.line, bad.field) == ("bad.md", 1, field)
    assert isinstance(good, RawRow)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252"])
def test_notes_in_other_encodings_are_read(folder: Path, encoding: str) -> None:
    write(folder, "note.md", "# Møteplan\r\n\r\nBåten går klokka åtte.\r\n".encode(encoding))
    fields, notices = read_one(folder)
    assert (fields["title"], fields["notes"]) == ("Møteplan", "# Møteplan\n\nBåten går klokka åtte.")
    assert bool(notices) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("front", "date", "metadata", "unused"),
    [
        ("created: 2026-02-03\ndate: 2026-05-06", "2026-02-03T00:00:00+01:00", {"date": "2026-05-06"}, []),
        ("created: soon\ndate: 2026-05-06", "2026-05-06T00:00:00+02:00", {"created": "soon"}, ["created"]),
        ("date: 2026-11-21T14:30", "2026-11-21T14:30:00+01:00", {}, []),
        ("date: 2026-11-21T14:30:00Z", "2026-11-21T14:30:00+00:00", {}, []),
        ("Date: 21.11.2026 14:30", "2026-11-21T14:30:00+01:00", {}, []),
        ("date: [1, 2]", "2020-09-13T12:26:40+00:00", {"date": [1, 2]}, ["date"]),
        ("created: 20260101\ndate: 1200-01-01", "2020-09-13T12:26:40+00:00",
         {"created": 20260101, "date": "1200-01-01"}, ["created", "date"]),
    ],
)  # fmt: skip
def test_the_date_is_created_then_date_then_that_of_the_file(
    folder: Path, front: str, date: str, metadata: dict[str, object], unused: list[str]
) -> None:
    path = write(folder, "note.md", f"---\n{front}\n---\nText.\n")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    found = list(read_folder(str(folder), ReadOptions(zone=ZoneInfo("Europe/Oslo"))))
    (row,) = (each for each in found if isinstance(each, RawRow))
    assert (row.fields["date"], row.fields["metadata"]) == (date, metadata)
    assert [each.message for each in found if isinstance(each, Notice)] == [
        f"{name} was kept in the metadata: it is no date" for name in unused
    ]


def test_toml_front_matter_gives_the_fields(folder: Path) -> None:
    write(
        folder,
        "note.md",
        '+++\ntitle = "Pier"\ndate = 2026-11-24T10:00:00Z\ntags = ["sea"]\n'
        "[build]\nat = 07:30:00\n+++\nText.\n",
    )
    fields, notices = read_one(folder)
    assert not notices
    assert (fields["title"], fields["date"], fields["tags"]) == ("Pier", "2026-11-24T10:00:00+00:00", ["sea"])
    assert (fields["notes"], fields["metadata"]) == ("Text.", {"build": {"at": "07:30:00"}})


@pytest.mark.django_db
def test_properties_that_cannot_be_used_stay_in_the_metadata(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long_tag = "x" * 300
    notes = {
        "title.md": "title: [a, b]",
        "type.md": "type:\n  - '[[Games]]'",
        "tags.md": f"tags: [{long_tag}]",
        "pinned.md": "pinned: maybe",
        "size.md": "\n".join(f"key{number}: {'v' * 1_000}" for number in range(60))
        + "\nother: "
        + "é" * 3_000,
    }
    for name, front in notes.items():
        write(folder, name, f"---\n{front}\n---\nText.\n")
    call_command("import_markdown", "vault", str(folder), "--json")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["created"], answer["rejected"]) == (5, [])
    found = {record.external_id: record for record in Record.objects.all()}
    assert found["title.md"].title == "title"
    assert found["title.md"].metadata == {"title": ["a", "b"]}
    assert (found["type.md"].type, found["type.md"].metadata) == ("document", {"type": ["[[Games]]"]})
    assert (found["tags.md"].tags, found["tags.md"].metadata) == ([], {"tags": [long_tag]})
    assert (found["pinned.md"].pinned, found["pinned.md"].metadata) == (False, {"pinned": "maybe"})
    assert found["size.md"].metadata == {}
    assert sorted(each["file"] for each in answer["left_out"]) == sorted(notes)
    call_command("import_markdown", "vault", str(folder), "--json")
    assert json.loads(capsys.readouterr().out)["unchanged"] == 5


def test_a_few_aliases_cannot_fill_the_memory(folder: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    write(folder, "bomb.md", "---\n" + "\n".join(lines) + "\n---\n")
    fields, ((line, message),) = read_one(folder)
    assert (line, "repeats itself" in message) == (1, True)
    assert len(json.dumps(fields["metadata"])) < 2_000


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
    write(folder, "soon.md", "---\ndate: soon\n---\n")
    write(folder, os.fsdecode(b"caf\xe9.md"), "odd name")
    for outcome in ("created", "unchanged"):
        with pytest.raises(SystemExit) as caught:
            call_command("import_markdown", "docs", str(folder), "--json")
        assert caught.value.code == 1
        answer = json.loads(capsys.readouterr().out)
        assert (answer["read"], answer[outcome]) == (3, 2)
        assert [(item["file"], item["field"]) for item in answer["rejected"]] == [
            ("caf\ufffd.md", "external_id")
        ]
        assert [(item["file"], item["message"]) for item in answer["left_out"]] == [
            ("soon.md", "date was kept in the metadata: it is no date")
        ]
    assert {record.type for record in Record.objects.all()} == {"document"}


@pytest.mark.django_db
def test_times_without_an_offset_are_in_the_teams_zone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    team = Team.objects.ensure_default()
    team.time_zone = "Europe/Oslo"
    team.save()
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
    call_command("import_markdown", "docs", str(folder), "--json")
    moments = {record.external_id: record.date.isoformat() for record in Record.objects.all()}
    assert moments == {
        **dict.fromkeys(["bare.md", "quoted.md", "basic.md"], "2026-11-01T09:00:00+00:00"),
        "day.md": "2026-10-31T23:00:00+00:00",
        **dict.fromkeys(["offset.md", "quoted-offset.md"], "2026-11-01T08:00:00+00:00"),
    }


@pytest.mark.django_db
def test_a_folder_that_is_none_ends_with_2(folder: Path) -> None:
    file = write(folder, "a.md", "x")
    for path in (file, folder / "missing"):
        with pytest.raises(CommandError, match=r"DIR: .* is not a folder") as caught:
            call_command("import_markdown", "docs", str(path))
        assert caught.value.returncode == 2
    assert not Space.objects.exists()
