"""CSV as it streams: every row there is, none held in memory."""

from collections.abc import Iterable
from typing import Any

from django.http import StreamingHttpResponse

from contextopt.csvlines import csv_lines


def stream_csv(name: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        csv_lines(header, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )
