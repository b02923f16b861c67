"""Finds values in JSON bytes by their positions, so that text can be spliced in and no other byte changes.

The bytes must be valid JSON in UTF-8; whoever calls this has parsed them.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pydantic_core import from_json

_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]++")
# Brackets in strings don't count, so strings are passed as wholes.
_NESTING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{])|([\]}])', re.DOTALL)
_QUOTE, _OPEN = ord('"'), frozenset(b"[{")
_COMMA = ord(",")


class Span(NamedTuple):
    """A value's place: its first byte, and the byte after its last."""

    start: int
    end: int

    def of(self, body: bytes) -> bytes:
        return body[self.start : self.end]


def whole(body: bytes) -> Span:
    """Return the place of the only value."""
    start = _skip_space(body, 0)
    return Span(start, _value_end(body, start))


def members(body: bytes, value: Span) -> dict[str, Span]:
    """Return the places of an object's values by name. The last of a repeated name counts, as in parsers."""
    found: dict[str, Span] = {}
    at = _skip_space(body, value.start + 1)
    while body[at] == _QUOTE:
        name_end = _value_end(body, at)
        name: str = from_json(body[at:name_end])
        start = _skip_space(body, _skip_space(body, name_end) + 1)
        found[name] = Span(start, _value_end(body, start))
        at = _skip_space(body, found[name].end)
        if body[at] == _COMMA:
            at = _skip_space(body, at + 1)
    return found


def elements(body: bytes, value: Span) -> list[Span]:
    """Return the places of an array's values."""
    return list(_elements(body, value))


def _elements(body: bytes, value: Span) -> Iterator[Span]:
    at = _skip_space(body, value.start + 1)
    while at < value.end - 1:
        span = Span(at, _value_end(body, at))
        yield span
        at = _skip_space(body, span.end)
        if body[at] == _COMMA:
            at = _skip_space(body, at + 1)


def _skip_space(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    assert found is not None
    return found.end()


def _value_end(body: bytes, at: int) -> int:
    if body[at] in _OPEN:
        return _nested_end(body, at)
    found = (_STRING if body[at] == _QUOTE else _SCALAR).match(body, at)
    assert found is not None
    return found.end()


def _nested_end(body: bytes, at: int) -> int:
    depth = 0
    for found in _NESTING.finditer(body, at):
        if found.lastindex is not None:
            depth += 1 if found.lastindex == 1 else -1
            if not depth:
                return found.end()
    raise AssertionError("valid JSON closes what it opens")
