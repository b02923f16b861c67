"""Archives of strangers: what is unpacked, what is skipped, and where it ends."""

import io
import stat
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from contextopt.spaces.importing import archives
from contextopt.spaces.importing.archives import is_archive, unpack
from contextopt.spaces.importing.formats import OTHER_FILES, OTHER_JSON, read_path
from contextopt.spaces.importing.rows import Notice, RawRow, Rejection, UnusableSource
from tests.gitrepos import make_git, run_git
from tests.imports import run_import

TARS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}


def make_zip(path: Path, *entries: tuple[str | zipfile.ZipInfo, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries:
            archive.writestr(name, text)
    return path


def make_tar(path: Path, *entries: tuple[tarfile.TarInfo | str, str]) -> Path:
    mode = next(mode for suffix, mode in TARS.items() if path.name.endswith(suffix))
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]  # the mode is one of the table's
        for given, text in entries:
            info = tarfile.TarInfo(given) if isinstance(given, str) else given
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def unpacked(archive: Path, folder: Path) -> tuple[dict[str, str], list[str]]:
    folder.mkdir()
    skipped = [notice.message for notice in unpack(archive, folder, ZoneInfo("UTC"))]
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    return files, skipped


def zip_link(name: str, kind: int = stat.S_IFLNK) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


def tar_entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_entries_of_a_zip_that_lead_elsewhere_are_skipped_and_named(tmp_path: Path) -> None:
    archive = make_zip(
        tmp_path / "a.zip",
        ("notes/a.md", "A"),
        ("/etc/cron.d/evil", "x"),
        ("../evil", "x"),
        ("notes/../../evil", "x"),
        ("..\\evil", "x"),
        ("C:\\evil", "x"),
        (zip_link("link"), "/etc/passwd"),
        (zip_link("pipe", stat.S_IFIFO), ""),
        ("notes/a.md/below", "x"),
        ("n" * 300, "x"),
    )
    files, skipped = unpacked(archive, tmp_path / "out")
    assert files == {"notes/a.md": "A"}
    assert [message.split(" was skipped: ")[1] for message in skipped] == [
        "its path is absolute",
        *["its path leads out of the archive"] * 3,
        "its path is absolute",
        "it is a link",
        "it is no regular file",
        "an earlier entry is in its way",
        "its path is too long or not a path",
    ]
    assert "'/etc/cron.d/evil'" in skipped[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "out"]


@pytest.mark.parametrize("suffix", list(TARS))
def test_entries_of_a_tar_that_lead_elsewhere_are_skipped_and_named(tmp_path: Path, suffix: str) -> None:
    archive = make_tar(
        tmp_path / f"a{suffix}",
        ("notes/a.md", "A"),
        ("/evil", "x"),
        ("a/../../evil", "x"),
        (tar_entry("out", tarfile.SYMTYPE, "/tmp"), ""),
        ("out/evil", "x"),
        (tar_entry("hard", tarfile.LNKTYPE, "/etc/passwd"), ""),
        (tar_entry("device", tarfile.CHRTYPE), ""),
        ("notes/a.md", "again"),
    )
    assert is_archive(archive)
    files, skipped = unpacked(archive, tmp_path / "out")
    assert files == {"notes/a.md": "A", "out/evil": "x"}
    assert [message.split(" was skipped: ")[1] for message in skipped] == [
        "its path is absolute",
        "its path leads out of the archive",
        "it is a link",
        "it is a link",
        "it is no regular file",
        "an earlier entry has its path",
    ]


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_an_archive_is_counted_while_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object
) -> None:
    name = "a.zip" if make is make_zip else "a.tar.gz"
    archive = make(tmp_path / name, *((f"{number}.md", "x" * 1_000_000) for number in range(3)))  # type: ignore[operator]
    monkeypatch.setattr(archives, "UNPACKED_BYTES_MAX", 2_500_000)
    with pytest.raises(UnusableSource, match="unpacks to more than"):
        unpacked(archive, tmp_path / "one")
    assert sum(path.stat().st_size for path in (tmp_path / "one").iterdir()) <= 2_500_000
    monkeypatch.setattr(archives, "UNPACKED_BYTES_MAX", 2**30)
    monkeypatch.setattr(archives, "FILES_MAX", 2)
    with pytest.raises(UnusableSource, match="more than 2 files"):
        unpacked(archive, tmp_path / "two")
    monkeypatch.setattr(archives, "PACKED_BYTES_MAX", 100)
    with pytest.raises(UnusableSource, match="is larger than"):
        unpacked(archive, tmp_path / "three")


def test_the_sizes_that_an_archive_names_are_not_believed(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", ("a.md", "x" * 100_000))
    content = bytearray(archive.read_bytes())
    at = content.rfind(b"PK\x01\x02")
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")
    archive.write_bytes(bytes(content))
    with pytest.raises(UnusableSource, match="cannot be unpacked"):
        unpacked(archive, tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_damaged_archive_is_refused(tmp_path: Path, name: str) -> None:
    make = make_zip if name == "a.zip" else make_tar
    archive = make(tmp_path / name, *((f"{number}.md", str(hash(str(number))) * 500) for number in range(50)))
    content = bytearray(archive.read_bytes())
    content[200:900] = bytes(700)
    archive.write_bytes(content)
    with pytest.raises(UnusableSource, match="cannot be unpacked"):
        unpacked(archive, tmp_path / "out")


def test_a_folder_is_read_as_notes_chats_and_tables(tmp_path: Path) -> None:
    files = {
        "vault/a.md": "# A",
        "vault/.hidden/b.md": "# B",
        "vault/rows.csv": "title\nC\n",
        "vault/talk.jsonl": '{"role": "user", "content": "D"}\n',
        "vault/users.json": '[{"uuid": "x"}]',
        "vault/photo.png": "x",
        "__MACOSX/vault/a.md": "x",
    }
    archive = make_zip(tmp_path / "backup.zip", *files.items())
    found = list(read_path(str(archive)))
    assert [row.fields["title"] for row in found if isinstance(row, RawRow)] == ["A", "C", "User"]
    assert [each.message for each in found if isinstance(each, Notice)] == [
        OTHER_FILES,
        OTHER_JSON.format(file="users.json"),
    ]
    assert not [each for each in found if isinstance(each, Rejection)]


@pytest.mark.django_db
def test_an_archive_of_notes_gives_the_same_records_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = make_tar(
        tmp_path / "notes.tar.gz", ("a.md", "---\ndate: 2026-01-01\n---\nA"), ("b.csv", "title\nB\n")
    )
    assert run_import(capsys, "s", archive)["created"] == 2
    assert run_import(capsys, "s", archive)["unchanged"] == 2


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_note_of_an_archive_has_the_date_of_its_entry(tmp_path: Path, kind: str) -> None:
    if kind == "zip":
        path = make_zip(tmp_path / "a.zip", (zipfile.ZipInfo("a.md", (2026, 2, 3, 10, 30, 0)), "A"))
    else:
        info = tarfile.TarInfo("a.md")
        info.mtime = datetime(2026, 2, 3, 10, 30, tzinfo=UTC).timestamp()
        path = make_tar(tmp_path / "a.tar", (info, "A"))
    (row,) = read_path(str(path))
    assert isinstance(row, RawRow)
    assert row.fields["date"] == "2026-02-03T10:30:00+00:00"


def test_git_does_not_look_into_an_archive(tmp_path: Path) -> None:
    work = make_git(tmp_path / "work", {"a.md": "A"})
    # Any git command that reads this repository would leave a trace.
    run_git(work, "config", "core.fsmonitor", f"touch {tmp_path}/trace; false")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(work, "work")
    rows = [row for row in read_path(str(tmp_path / "a.tar")) if isinstance(row, RawRow)]
    assert [row.fields["external_id"] for row in rows] == ["a.md"]
    assert not str(rows[0].fields["date"]).startswith("2026-03-01T10:00:00")
