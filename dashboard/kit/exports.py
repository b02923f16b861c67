"""Streams CSV and JSON lines: every row, without holding them all in memory."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import StreamingHttpResponse
from pydantic_core import to_json

from contextopt.api.protocol.csvlines import csv_lines


def stream_csv(name: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        csv_lines(header, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def stream_jsonl(name: str, rows: Iterable[Mapping[str, Any]]) -> StreamingHttpResponse:
    """Send one object per line; dates and times are in ISO 8601."""
    return StreamingHttpResponse(
        (to_json(row) + b"\n" for row in rows),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )
