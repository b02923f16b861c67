"""One JSON object a line."""

import json
from collections.abc import Iterator
from typing import NoReturn

from contextopt.importing.lines import Lines, decode
from contextopt.importing.rows import Found, RawRow, Rejection


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def read_jsonl(lines: Lines, file: str = "") -> Iterator[Found]:
    """Yield each line's object; blank lines are passed over."""
    for line in lines:
        if lines.overlong == lines.number:
            yield Rejection(lines.number, "row", f"is longer than {lines.max_bytes:,} bytes", file)
        elif not line.isspace():
            yield _read_line(line, lines.number, file)


def _read_line(line: bytes, number: int, file: str) -> Found:
    try:
        value = _decoder.decode(decode(line))
    except RecursionError:
        return Rejection(number, "row", "is nested too deep", file)
    except json.JSONDecodeError as error:
        # The message's own line number is always 1.
        return Rejection(number, "row", f"is not JSON: {error.msg} at character {error.colno}", file)
    except ValueError as error:
        return Rejection(number, "row", str(error).split(";")[0], file)
    if not isinstance(value, dict):
        return Rejection(number, "row", 'must be a JSON object, such as {"title": "…"}', file)
    return RawRow(number, value, len(line), file)
