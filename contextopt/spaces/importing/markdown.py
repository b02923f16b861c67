"""Reads Markdown files as records: front matter, heading and text."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from contextopt.spaces import models as limits
from contextopt.spaces.importing.charsets import WINDOWS, WINDOWS_NOTICE, sniff_utf16
from contextopt.spaces.importing.files import quoted, readable
from contextopt.spaces.importing.frontmatter import FrontMatter, split_front_matter
from contextopt.spaces.importing.git import SHALLOW, is_shallow, read_commit_dates, shorten
from contextopt.spaces.importing.localdates import LocalDates, month_first_of
from contextopt.spaces.importing.rows import (
    DEFAULT_OPTIONS,
    Found,
    Notice,
    RawRow,
    ReadOptions,
    Rejection,
    UnusableSource,
)

SUFFIXES = (".md", ".markdown")
FILE_MAX_BYTES = 4 * limits.NOTES_MAX + 2**17
# The first that can be read is the note's date. The file's own date comes after them.
DATE_PROPERTIES = ("created", "date")
OWN_FIELDS = ("title", *DATE_PROPERTIES, "tags", "type", "pinned")
# A property that cannot be used must not cost the note.
SPARE = frozenset({"date", "tags", "type", "pinned", "metadata"})
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$")
UNDERLINE = re.compile(r"^ {0,3}(?:=+|-{2,})[ \t]*$")
FENCE = re.compile(r"^ {0,3}(```|~~~)")


class UnusablePageError(Exception):
    """The file cannot be used. `line` is counted from the start of the file."""

    def __init__(self, line: int, field: str, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.field = field


class Page(NamedTuple):
    """A file's path, its path relative to the folder, and its source, which names the folder."""

    path: Path
    relative: str
    source: str


def read_folder(name: str, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Found]:
    """Yield a row for each Markdown file below a folder, in path order.

    Links to folders are not followed, so links cannot form a loop. Links to files outside the folder are
    rejected. Folders whose names start with a dot are skipped.

    Raises:
        UnusableSource: there is no such folder.
    """
    folder = Path(name)
    if "\0" in name or not folder.is_dir():
        raise UnusableSource(f"DIR: {quoted(name)} is not a folder")
    committed = {} if options.is_unpacked else read_commit_dates(folder)
    if committed and is_shallow(folder):
        yield Notice(0, SHALLOW)
    source = shorten(f"markdown:{folder.resolve().name}", limits.SOURCE_MAX)
    dates = _dates_of(options)
    for path in _walk(folder):
        relative = path.relative_to(folder).as_posix()
        # Before Python 3.13, Path.resolve raises when links form a loop.
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            yield Rejection(1, "row", "is a symbolic link out of the folder", readable(relative))
        else:
            yield from _read_page(Page(path, relative, source), committed.get(relative), dates)


def read_note(name: str, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Found]:
    """Yield the row of one Markdown file."""
    path = Path(name)
    yield from _read_page(Page(path, path.name, "markdown"), None, _dates_of(options))


def _dates_of(options: ReadOptions) -> LocalDates:
    return LocalDates(options.zone, month_first_of(options))


def is_note(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(item for item in folders if not item.startswith("."))
        for name in sorted(files):
            if is_note(name):
                yield Path(parent, name)


def _read_page(page: Page, committed: str | None, dates: LocalDates) -> Iterator[Found]:
    shown = readable(page.relative)
    try:
        content, changed = _read_bytes(page.path)
        text, encoding = _decode(content)
    except UnusablePageError as error:
        yield Rejection(error.line, error.field, str(error), shown)
        return
    except OSError as error:
        yield Rejection(1, "row", f"cannot be read: {error.strerror}", shown)
        return
    if encoding == WINDOWS:
        yield Notice(1, WINDOWS_NOTICE, shown)
    front = split_front_matter(text)
    if front.fault:
        fault = f"the front matter {front.fault}; its plain lines were read one by one"
        yield Notice(front.line, fault, shown)
    fields, unused = _page_fields(page, front, committed or changed, dates)
    for name in unused:
        yield Notice(1, f"{name} was kept in the metadata: it is no {_MEANT[name]}", shown)
    yield RawRow(1, fields, len(text), shown, SPARE)


_MEANT = {"title": "text", "type": "text", **dict.fromkeys(DATE_PROPERTIES, "date")}


def _read_bytes(path: Path) -> tuple[bytes, str]:
    """Return the file's content and the time of its last change.

    Raises:
        UnusablePageError: it is not a regular file, or is too large.
    """
    if not path.is_file():
        raise UnusablePageError(1, "row", "is not a file, or is a broken link")
    with path.open("rb") as file:
        content = file.read(FILE_MAX_BYTES + 1)
        changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    if len(content) > FILE_MAX_BYTES:
        raise UnusablePageError(1, "notes", f"is longer than {FILE_MAX_BYTES:,} bytes")
    return content, changed.isoformat()


def _decode(content: bytes) -> tuple[str, str]:
    """Return the text and its encoding.

    Raises:
        UnusablePageError: it is no text.
    """
    for encoding in ("utf-8-sig", sniff_utf16(content), WINDOWS):
        try:
            text = content.decode(encoding) if encoding else None
        except UnicodeDecodeError:
            continue
        if text is not None and "\0" not in text:
            return text.removeprefix("\ufeff").replace("\r\n", "\n"), encoding
    raise UnusablePageError(1, "notes", "is neither UTF-8, UTF-16 nor Windows-1252 text")


def _read_date(value: object, dates: LocalDates) -> str:
    return (dates.read(value.strip()) or "") if isinstance(value, str) else ""


def _page_fields(
    page: Page, front: FrontMatter, changed: str, dates: LocalDates
) -> tuple[dict[str, object], list[str]]:
    """Return the fields of a note, and the names of properties that are in its metadata as they are unusable.

    A list or an object is no title.
    """
    given = [(key, key.lower(), value) for key, value in front.properties.items() if value is not None]
    own = {lower: value for _, lower, value in given if lower in OWN_FIELDS}
    metadata = {key: value for key, value in front.properties.items() if key.lower() not in OWN_FIELDS}
    unused = [name for name in ("title", "type") if isinstance(own.get(name), list | dict)]
    date = ""
    for name in DATE_PROPERTIES:
        if name in own and not date:
            date = _read_date(own[name], dates)
            if date:
                del own[name]
            else:
                unused.append(name)
    metadata |= {name: own.pop(name) for name in (*unused, *DATE_PROPERTIES) if name in own}
    title = own.get("title", "")
    title = str(title).strip() or find_heading(front.body) or readable(page.path.stem)
    return {
        "title": shorten(title, limits.TITLE_MAX),
        "type": own.get("type", "document"),
        "date": date or changed,
        "tags": read_tags(own.get("tags", [])),
        "pinned": own.get("pinned"),
        "notes": front.body,
        "source": page.source,
        "external_id": page.relative,
        "metadata": metadata,
    }, unused


def read_tags(value: object) -> object:
    """Read a list, or a text with commas or semicolons. Numbers become tags, and a leading # is dropped."""
    if isinstance(value, str):
        value = re.split(r"[,;]", value)
    if not isinstance(value, list):
        return value
    tags = [str(tag).strip().lstrip("#") for tag in value if not isinstance(tag, list | dict | None)]
    return [tag for tag in tags if tag]


def find_heading(text: str) -> str:
    """Return the first heading outside code, or ""."""
    fence = ""
    before = ""
    for line in text.split("\n"):
        if found := FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence and (heading := HEADING.match(line)):
            return heading[1]
        elif not fence and before.strip() and UNDERLINE.match(line):
            return before.strip()
        before = "" if fence else line
    return ""
