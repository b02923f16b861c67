"""The table of formats that can be imported, and the one way to read them, for commands, pages and docs."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from contextopt.spaces.importing.archives import ARCHIVE_SUFFIXES, is_archive, unpack
from contextopt.spaces.importing.chats.exports import read_chatgpt, read_claude
from contextopt.spaces.importing.chats.messages import LeftOut, dict_of, read_role_messages
from contextopt.spaces.importing.chats.sessions import read_claude_code, read_codex
from contextopt.spaces.importing.chats.slack import (
    NO_NAMES,
    channel_rows,
    is_slack_day,
    is_slack_export,
    read_slack,
)
from contextopt.spaces.importing.csvfiles import field_of
from contextopt.spaces.importing.files import (
    STDIN,
    detect_format,
    open_input,
    peek,
    quoted,
    read_columns,
    read_values,
    readable,
)
from contextopt.spaces.importing.jsonfiles import FoundValue, Value, read_rows
from contextopt.spaces.importing.localdates import resolve_dates
from contextopt.spaces.importing.markdown import SUFFIXES, is_note, read_folder, read_note
from contextopt.spaces.importing.rows import (
    DEFAULT_OPTIONS,
    LEFT_OUT,
    Found,
    Notice,
    RawRow,
    ReadOptions,
    Rejection,
    UnusableSource,
)

# The first lines of a session say little about it.
SNIFFED_VALUES = 8
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".csv", ".tsv")
# Written by systems, not by people.
IGNORED_FOLDERS = frozenset({"__MACOSX", "node_modules"})
OTHER_FILES = "files that are no notes, chats or tables were left out"
OTHER_JSON = "{file} was left out: it holds neither conversations nor records"


@dataclass(frozen=True, slots=True)
class Source:
    """A source of rows: a folder, or an open file, with its values if it is JSON."""

    name: str
    file: str
    options: ReadOptions
    stream: BinaryIO | None = None
    values: Iterator[FoundValue] = field(default_factory=lambda: iter(()))

    @property
    def lines(self) -> BinaryIO:
        assert self.stream is not None
        return self.stream


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name in commands, its label on pages, what it is, and its reader.

    `shows` tells by one of a JSON file's first values that the file has this format.
    """

    name: str
    label: str
    about: str
    read: Callable[[Source], Iterator[Found]]
    shows: Callable[[dict[str, object]], bool] = lambda _: False
    is_folder: bool = False
    has_columns: bool = False


def _read_json_rows(source: Source) -> Iterator[Found]:
    rows = read_rows(source.values, source.file)
    if source.options.columns:
        rows = (_rename(row, source.options) if isinstance(row, RawRow) else row for row in rows)
    return resolve_dates(rows, source.options)


def _rename(row: RawRow, options: ReadOptions) -> RawRow:
    """Rename the fields of a row as the columns of a table are."""
    named = {field_of(name, options.columns): value for name, value in row.fields.items()}
    named.pop(LEFT_OUT, None)
    return replace(row, fields=named)


def _read_table(source: Source) -> Iterator[Found]:
    rows = read_columns(source.lines, source.file, source.options)
    return resolve_dates(rows, source.options, is_table=True)


def _read_slack(source: Source) -> Iterator[Found]:
    """Read an export's folder, or one file of a channel alone, which does not name people."""
    if source.stream is None:
        yield from read_slack(Path(source.name))
        return
    messages = [dict_of(found.value) for found in source.values if not isinstance(found, Rejection)]
    left_out = LeftOut(source.file)
    yield from channel_rows(messages, Path(source.name).stem, NO_NAMES, left_out, source.file)
    yield from left_out.notices()


def _is_claude_code(value: dict[str, object]) -> bool:
    named = {"parentUuid", "leafUuid", "sessionId", "messageId"} & value.keys()
    return isinstance(value.get("type"), str) and bool(named) and "title" not in value


def _is_codex(value: dict[str, object]) -> bool:
    if isinstance(value.get("payload"), dict):
        return value.get("type") in {"session_meta", "response_item", "turn_context", "event_msg"}
    # Early versions wrote the items themselves, after a line without a type.
    return value.get("type") == "message" and isinstance(value.get("content"), list) and "role" in value


def _is_role_message(value: dict[str, object]) -> bool:
    if "role" in value and "content" in value:
        return "type" not in value
    messages = value.get("messages")
    return isinstance(messages, list) and bool(messages) and "role" in dict_of(messages[0])


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            "jsonl",
            "JSON records",
            "JSON objects with the fields of records, one per line or in an array",
            _read_json_rows,
            has_columns=True,
        ),
        Format(
            "csv",
            "Table (CSV)",
            "comma, semicolon or tab; with or without `sep=`; UTF-8, UTF-16 or Windows-1252",
            _read_table,
            has_columns=True,
        ),
        Format(
            "chatgpt",
            "ChatGPT export",
            "`conversations.json`, or the export's zip",
            lambda source: read_chatgpt(source.values, source.file),
            lambda value: isinstance(value.get("mapping"), dict),
        ),
        Format(
            "claude",
            "Claude export",
            "`conversations.json` of claude.ai, or the export's zip",
            lambda source: read_claude(source.values, source.file),
            lambda value: isinstance(value.get("chat_messages"), list),
        ),
        Format(
            "claude-code",
            "Claude Code sessions",
            "files of `~/.claude/projects`, or their folder",
            lambda source: read_claude_code(source.values, source.file, source.name),
            _is_claude_code,
        ),
        Format(
            "codex",
            "Codex sessions",
            "files of `~/.codex/sessions`, or their folder",
            lambda source: read_codex(source.values, source.file, source.name),
            _is_codex,
        ),
        Format("slack", "Slack export", "the export's folder or zip", _read_slack, is_slack_day),
        Format(
            "messages",
            "Chat messages",
            "`{role, content}` objects, or conversations with a list of `messages`",
            lambda source: read_role_messages(source.values, source.file, source.name),
            _is_role_message,
        ),
        Format(
            "markdown",
            "Notes (Markdown)",
            "a folder or archive of `.md` files with YAML or TOML front matter",
            lambda source: read_folder(source.name, source.options),
            is_folder=True,
        ),
    )
}
FILE_FORMATS = tuple(each.name for each in FORMATS.values() if not each.is_folder)


def read_path(
    name: str, options: ReadOptions = DEFAULT_OPTIONS, *, file: str = "", format: str = ""
) -> Iterator[Found]:
    """Yield the rows of a file, a folder or an archive; `file` is the name used in reports.

    Unless given, the format is recognised.

    Raises:
        UnusableSource: nothing can be read.
    """
    path = Path(name)
    if name != STDIN and path.is_dir():
        yield from read_any_folder(path, options, format)
    elif name != STDIN and is_archive(path):
        # A folder of the archive's name, since records name the folder that they come from.
        with TemporaryDirectory(prefix="contextopt-import-") as place:
            folder = Path(place, archive_stem(path.name))
            folder.mkdir()
            yield from unpack(path, folder, options.zone)
            inside = replace(options, is_unpacked=True)
            yield from read_any_folder(_only_folder(folder), inside, format)
    elif format == "markdown" or (not format and is_note(name)):
        yield from read_note(name, options)
    else:
        with open_input(name, options.encoding) as stream:
            yield from read_stream(stream, name, options, file=file, format=format)


def archive_stem(name: str) -> str:
    """Return an archive's name without its endings."""
    for suffix in sorted(ARCHIVE_SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or "archive"
    return Path(name).stem or "archive"


def _only_folder(folder: Path) -> Path:
    """Return the folder that is alone in another one, as most archives have it."""
    while len(inside := list(folder.iterdir())) == 1 and inside[0].is_dir():
        folder = inside[0]
    return folder


def read_stream(
    stream: BinaryIO, name: str, options: ReadOptions = DEFAULT_OPTIONS, *, file: str = "", format: str = ""
) -> Iterator[Found]:
    """Yield the rows of an open file, in the format that is named or recognised."""
    if (format or detect_format(name, peek(stream))) == "csv":
        return FORMATS["csv"].read(Source(name, file, options, stream))
    values = read_values(stream, file)
    chosen = FORMATS[format] if format else None
    if chosen is None:
        head = list(islice(values, SNIFFED_VALUES))
        chosen, values = recognise(head), chain(head, values)
    return chosen.read(Source(name, file, options, stream, values))


def recognise(head: Sequence[FoundValue]) -> Format:
    """Return the format that a JSON file's first values show, that of records if they show none."""
    values = [dict_of(found.value) for found in head if isinstance(found, Value)]
    shown = (each for value in values for each in FORMATS.values() if each.shows(value))
    return next(shown, FORMATS["jsonl"])


def read_any_folder(folder: Path, options: ReadOptions, format: str = "") -> Iterator[Found]:
    """Yield the rows of a folder: of a Slack export, or of its notes and its files, in the order of paths."""
    if format == "slack" or (not format and is_slack_export(folder)):
        yield from FORMATS["slack"].read(Source(str(folder), "", options))
        return
    names = list(_walk(folder))
    has_notes = any(map(is_note, names))
    if has_notes and format in {"", "markdown"}:
        yield from FORMATS["markdown"].read(Source(str(folder), "", options))
    read = has_notes
    for name in names:
        suffix = _suffix(name)
        if format != "markdown" and suffix in (*JSON_SUFFIXES, *TABLE_SUFFIXES):
            read = True
            yield from _read_inside(folder, name, options, format)
        elif suffix not in SUFFIXES:
            yield Notice(0, OTHER_FILES, readable(name))
    if not read:
        raise UnusableSource(f"{quoted(folder.name)} has no notes, chats or tables")


def _read_inside(folder: Path, name: str, options: ReadOptions, format: str) -> Iterator[Found]:
    """Yield the rows of a folder's file. JSON of an unknown kind is no mistake there."""
    shown = readable(name)
    try:
        with open_input(str(folder / name), options.encoding) as stream:
            if format or _suffix(name) in TABLE_SUFFIXES:
                yield from read_stream(stream, name, options, file=shown, format=format)
                return
            values = read_values(stream, shown)
            head = list(islice(values, SNIFFED_VALUES))
            chosen = recognise(head)
            if chosen.name == "jsonl" and not any(_is_record(found) for found in head):
                yield Notice(0, OTHER_JSON.format(file=shown))
                return
            yield from chosen.read(Source(name, shown, options, stream, chain(head, values)))
    except UnusableSource as error:
        yield Rejection(1, "row", str(error).replace(str(folder / name), "the file"), shown)
    except OSError as error:
        yield Rejection(1, "row", f"cannot be read: {error.strerror}", shown)


def _is_record(found: FoundValue) -> bool:
    return isinstance(found, Value) and "title" in dict_of(found.value)


def _suffix(name: str) -> str:
    """Return a file's ending, without that of gzip."""
    return Path(name.lower().removesuffix(".gz")).suffix


def _walk(folder: Path) -> Iterator[str]:
    """Yield the paths of a folder's files. Links and folders of tools are skipped."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            item for item in folders if not item.startswith(".") and item not in IGNORED_FOLDERS
        )
        for name in sorted(files):
            path = Path(parent, name)
            if not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix()
