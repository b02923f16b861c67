"""Reads Markdown files as records: front matter, heading and text."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import yaml
from frontmatter.default_handlers import YAMLHandler

from contextopt.spaces import models as limits
from contextopt.spaces.importing.files import quoted, readable
from contextopt.spaces.importing.git import read_commit_dates, shorten
from contextopt.spaces.importing.rows import Found, RawRow, Rejection, UnusableSource

SUFFIXES = (".md", ".markdown")
FILE_MAX_BYTES = 4 * limits.NOTES_MAX + 2**17
FRONT_MATTER_MAX = 2**16
NODES_MAX = 5_000
DEPTH_MAX = 50
OWN_FIELDS = ("title", "date", "tags", "type", "pinned")
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
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


def read_folder(name: str) -> Iterator[Found]:
    """Yield a row for each Markdown file below a folder, in path order.

    Links to folders are not followed, so links cannot form a loop. Links to files outside the folder are
    rejected. Folders whose names start with a dot are skipped.

    Raises:
        UnusableSource: there is no such folder.
    """
    folder = Path(name)
    if "\0" in name or not folder.is_dir():
        raise UnusableSource(f"DIR: {quoted(name)} is not a folder")
    dates = read_commit_dates(folder)
    source = shorten(f"markdown:{folder.resolve().name}", limits.SOURCE_MAX)
    for path in _walk(folder):
        relative = path.relative_to(folder).as_posix()
        # Before Python 3.13, Path.resolve raises when links form a loop.
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            yield Rejection(1, "row", "is a symbolic link out of the folder", readable(relative))
        else:
            yield _read_page(Page(path, relative, source), dates.get(relative))


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(item for item in folders if not item.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES):
                yield Path(parent, name)


def _read_page(page: Page, committed: str | None) -> Found:
    shown = readable(page.relative)
    try:
        text, changed = _read_text(page.path)
        front, body = split_front_matter(text)
        fields = _page_fields(page, front, body, committed or changed)
    except UnusablePageError as error:
        return Rejection(error.line, error.field, str(error), shown)
    except OSError as error:
        return Rejection(1, "row", f"cannot be read: {error.strerror}", shown)
    return RawRow(1, fields, len(text), shown)


def _read_text(path: Path) -> tuple[str, str]:
    """Return the file's text and the time of its last change.

    Raises:
        UnusablePageError: it is not a regular file, is too large or is not UTF-8 text.
    """
    if not path.is_file():
        raise UnusablePageError(1, "row", "is not a file, or is a broken link")
    with path.open("rb") as file:
        content = file.read(FILE_MAX_BYTES + 1)
        changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    if len(content) > FILE_MAX_BYTES:
        raise UnusablePageError(1, "notes", f"is longer than {FILE_MAX_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusablePageError(line, "notes", "is not UTF-8 text") from error
    return text.replace("\r\n", "\n"), changed.isoformat()


def split_front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return the front matter as JSON values, and the text after it.

    Front matter that is not a mapping counts as text.

    Raises:
        UnusablePageError: it is not YAML, or is too large.
    """
    found = FRONT_MATTER.match(text)
    if found is None:
        return {}, text.strip()
    if found.end() > FRONT_MATTER_MAX:
        raise UnusablePageError(
            1, "metadata", f"the front matter is longer than {FRONT_MATTER_MAX:,} characters"
        )
    loaded = _load_yaml(found[1])
    body = text[found.end() :].strip()
    if loaded is None:
        return {}, body
    if not isinstance(loaded, dict):
        # A page may begin with a paragraph between rules, which is not front matter.
        return {}, text.strip()
    values = JsonValues()
    return {str(key).strip(): values.convert(value) for key, value in loaded.items()}, body


def _load_yaml(text: str) -> object:
    try:
        return YAMLHandler().load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise UnusablePageError(line, "metadata", f"the front matter is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        raise UnusablePageError(1, "metadata", f"the front matter cannot be read: {error}") from error


class JsonValues:
    """Converts YAML values to JSON values, up to a limit on their number and depth.

    A few hundred bytes of YAML aliases can expand to more values than fit in memory, or contain themselves.
    """

    def __init__(self) -> None:
        self.left = NODES_MAX

    def convert(self, value: object, depth: int = 0) -> object:
        self.left -= 1
        if self.left < 0 or depth > DEPTH_MAX:
            raise UnusablePageError(
                1, "metadata", "the front matter is nested too deep or repeats itself too often"
            )
        if isinstance(value, dict):
            return {str(key): self.convert(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set):
            return [self.convert(item, depth + 1) for item in value]
        if isinstance(value, date):
            return value.isoformat()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value)


def _page_fields(page: Page, front: dict[str, object], body: str, changed: str) -> dict[str, object]:
    own = {
        key.lower(): value for key, value in front.items() if key.lower() in OWN_FIELDS and value is not None
    }
    metadata = {key: value for key, value in front.items() if key.lower() not in OWN_FIELDS}
    title = own.get("title") or find_heading(body) or readable(page.path.stem)
    return {
        "title": shorten(str(title), limits.TITLE_MAX),
        "type": own.get("type", "document"),
        "date": read_date(own.get("date", changed)),
        "tags": read_tags(own.get("tags", [])),
        "pinned": own.get("pinned"),
        "notes": body,
        "source": page.source,
        "external_id": page.relative,
        "metadata": metadata,
    }


def read_date(value: object) -> object:
    """Return a date-time text in ISO format; any other value comes back unchanged.

    A date-time without an offset stays without, and the check of the field refuses it.
    """
    if not isinstance(value, str) or len(value) <= len("2026-01-31"):
        return value
    try:
        return datetime.fromisoformat(value).isoformat()
    except ValueError:
        return value


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
