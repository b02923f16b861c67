"""CSV and JSON lines as they stream: every row there is, none held in memory."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.http import StreamingHttpResponse

# A spreadsheet runs a cell that starts with one of these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class _Echo:
    """A file whose write returns what was written."""

    def write(self, line: str) -> str:
        return line


def stream_csv(name: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        _lines(header, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def stream_jsonl(name: str, rows: Iterable[Mapping[str, Any]]) -> StreamingHttpResponse:
    """Send an object a line; moments in ISO 8601, whatever their zone."""
    return StreamingHttpResponse(
        (f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )


def _lines(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(list(header))
    for row in rows:
        yield writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    """Return text so that it stays text in a spreadsheet; numbers are left alone."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
