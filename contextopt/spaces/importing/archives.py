"""Unpacks archives of strangers: zip and tar, within limits that are counted while unpacking."""

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO
from zoneinfo import ZoneInfo

from contextopt.spaces.importing.rows import Notice, UnusableSource

PACKED_BYTES_MAX = 200 * 2**20
UNPACKED_BYTES_MAX = 2**30
FILES_MAX = 50_000
CHUNK_BYTES = 2**18
PATH_MAX = 1_000
NAME_SHOWN = 120
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
# macOS adds copies of the names to each zip, without the contents.
RESOURCE_FORKS = "__MACOSX/"
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file in an archive, and the time of its last change. `fault` says why it is skipped."""

    name: str
    content: IO[bytes] | None
    fault: str = ""
    changed_at: float = 0.0


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip, or a tar whose name says so: any zeros look like a tar to its reader."""
    if zipfile.is_zipfile(path):
        return True
    try:
        return path.name.lower().endswith(ARCHIVE_SUFFIXES) and tarfile.is_tarfile(path)
    except OSError:
        return False


def unpack(archive: Path, folder: Path, zone: ZoneInfo) -> Iterator[Notice]:
    """Write the files of an archive into a new folder; yield a notice for each entry that is skipped.

    Entries that are links, or that lead out of the folder, are skipped. The times in a zip have no offset and
    are taken as those of the zone.

    Raises:
        UnusableSource: it is damaged, encrypted or larger than the limits.
    """
    if archive.stat().st_size > PACKED_BYTES_MAX:
        raise UnusableSource(f"the archive is larger than {PACKED_BYTES_MAX // 2**20} MB")
    files, left = 0, UNPACKED_BYTES_MAX
    entries = _zip_entries(archive, zone) if zipfile.is_zipfile(archive) else _tar_entries(archive)
    try:
        for entry in entries:
            fault = entry.fault or _path_fault(entry.name)
            if not fault and entry.content is not None:
                files += 1
                if files > FILES_MAX:
                    raise UnusableSource(f"the archive has more than {FILES_MAX:,} files")
                target = folder.joinpath(*PurePosixPath(entry.name).parts)
                fault, left = _write(entry.content, target, left)
                if not fault and entry.changed_at > 0:
                    os.utime(target, (entry.changed_at, entry.changed_at))
            if fault:
                yield Notice(0, f"{entry.name[:NAME_SHOWN]!r} was skipped: {fault}")
    except _DAMAGE as error:
        raise UnusableSource(f"the archive cannot be unpacked: {error}") from error


def _path_fault(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or (len(name) > 1 and name[1] == ":"):
        return "its path is absolute"
    if ".." in path.parts:
        return "its path leads out of the archive"
    if "\0" in name or len(name) > PATH_MAX or any(len(os.fsencode(part)) > 255 for part in path.parts):
        return "its path is too long or not a path"
    return ""


def _write(content: IO[bytes], target: Path, left: int) -> tuple[str, int]:
    """Write a file; return why it could not be, if so, and how many bytes may still follow.

    Raises:
        UnusableSource: it is beyond the limit.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return "an earlier entry is in its way", left
    try:
        file = target.open("xb")
    except FileExistsError:
        return "an earlier entry has its path", left
    with file:
        while chunk := content.read(CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise UnusableSource(f"the archive unpacks to more than {UNPACKED_BYTES_MAX // 2**30} GB")
            file.write(chunk)
    return "", left


def _zip_entries(archive: Path, zone: ZoneInfo) -> Iterator[_Entry]:
    with zipfile.ZipFile(archive) as found:
        for info in found.infolist():
            name = info.filename.replace("\\", "/")
            kind = stat.S_IFMT(info.external_attr >> 16)
            if name.startswith(RESOURCE_FORKS):
                continue
            if info.is_dir():
                yield _Entry(name, None, _path_fault(name))
            elif info.flag_bits & 1:
                yield _Entry(name, None, "it is encrypted")
            elif kind == stat.S_IFLNK:
                yield _Entry(name, None, "it is a link")
            elif kind not in {0, stat.S_IFREG}:
                yield _Entry(name, None, "it is no regular file")
            else:
                with found.open(info) as content:
                    yield _Entry(name, content, changed_at=_changed_at(info, zone))


def _changed_at(info: zipfile.ZipInfo, zone: ZoneInfo) -> float:
    """Return the time of an entry, 0 if it is none."""
    try:
        return datetime(*info.date_time, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _tar_entries(archive: Path) -> Iterator[_Entry]:
    with tarfile.open(archive, "r|*") as found:
        for info in found:
            if info.isdir():
                yield _Entry(info.name, None, _path_fault(info.name))
            elif info.issym() or info.islnk():
                yield _Entry(info.name, None, "it is a link")
            elif not info.isreg():
                yield _Entry(info.name, None, "it is no regular file")
            else:
                yield _Entry(info.name, found.extractfile(info), changed_at=float(info.mtime))
        # The reader takes a damaged entry for the end, after which there are only zeros.
        assert found.fileobj is not None
        if found.fileobj.read(CHUNK_BYTES).strip(b"\0"):
            raise tarfile.ReadError("an entry is damaged")
