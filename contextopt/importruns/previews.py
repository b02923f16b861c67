"""The first rows of an upload, as they would be imported, and what its columns become."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from contextopt.importruns.models import ImportRun
from contextopt.spaces.importing.archives import is_archive
from contextopt.spaces.importing.charsets import check_encoding
from contextopt.spaces.importing.csvfiles import field_of, guess_fields, table_header
from contextopt.spaces.importing.files import detect_format, open_input, peek, read_values
from contextopt.spaces.importing.formats import FORMATS, SNIFFED_VALUES, read_path, recognise
from contextopt.spaces.importing.markdown import is_note
from contextopt.spaces.importing.pipeline import RECORD_FIELDS, ImportReport
from contextopt.spaces.importing.rows import Found, Notice, RawRow, ReadOptions, Rejection

PREVIEW_ROWS = 20
# More is read than is shown, since what is left out takes places too.
PREVIEW_FOUND = 400
COLUMNS_SHOWN = 200
CELL_SHOWN = 200


def read_options(run: ImportRun) -> ReadOptions:
    """Return how an upload is read: as its owner said, with times in the team's zone."""
    return replace(
        ReadOptions.of(run.team),
        month_first=run.options.get("month_first"),
        encoding=check_encoding(run.options.get("encoding", "")),
        columns=run.options.get("columns", {}),
    )


def read_preview(path: Path, run: ImportRun) -> dict[str, Any]:
    """Return the first rows of an upload as they would be imported, its format and its columns."""
    options = read_options(run)
    format, columns = _look_at(path, run.format, options)
    if columns:
        guessed = guess_fields(columns)
        chosen = {
            name: options.columns.get(name) or guessed.get(name) or default_target(name) for name in columns
        }
        options = replace(options, columns=chosen)
    found = list(islice(read_path(str(path), options, format=format), PREVIEW_FOUND))
    rows = [row for row in found if isinstance(row, RawRow)][:PREVIEW_ROWS]
    return {
        "format": format,
        "columns": dict(options.columns) if columns else {},
        "rows": [_shown(row) for row in rows],
        "notices": [str(each) for each in _merged(found)],
        "rejected": [str(each) for each in found if isinstance(each, Rejection)][:PREVIEW_ROWS],
    }


def _look_at(path: Path, format: str, options: ReadOptions) -> tuple[str, list[str]]:
    """Return the format of an upload, "" for a folder of several, and the names of its columns, if any."""
    if is_archive(path):
        return format, []
    if format == "markdown" or (not format and is_note(path.name)):
        return "markdown", []
    with open_input(str(path), options.encoding) as stream:
        if (format or detect_format(path.name, peek(stream))) == "csv":
            return "csv", table_header(stream)[:COLUMNS_SHOWN]
        head = list(islice(read_values(stream, ""), PREVIEW_ROWS))
    chosen = FORMATS[format] if format else recognise(head[:SNIFFED_VALUES])
    if not chosen.has_columns:
        return chosen.name, []
    named = [each.value for each in head if not isinstance(each, Rejection) and isinstance(each.value, dict)]
    return chosen.name, list(dict.fromkeys(str(name) for value in named for name in value))[:COLUMNS_SHOWN]


def default_target(name: str) -> str:
    """Return what a column becomes unless its owner says so: the field of its name, or the metadata."""
    target = field_of(name, {})
    return target if target in RECORD_FIELDS else "metadata"


def _shown(row: RawRow) -> dict[str, str]:
    values = {name: value for name, value in row.fields.items() if value not in (None, "", [], {})}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in values.items()
    }
    plain = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    return {name: text[:CELL_SHOWN].replace("\0", "\ufffd") for name, text in plain.items()}


def _merged(found: list[Found]) -> list[Notice]:
    report = ImportReport()
    for each in found:
        if isinstance(each, Notice):
            report.note(each)
    return list(report.notices.values())
