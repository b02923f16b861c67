"""Finds values in JSON bytes by their positions, so that text can be spliced in and no other byte changes.

The bytes must be valid JSON in UTF-8; whoever calls this has parsed them. One pass finds all positions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic_core import from_json

from contextopt.strictjson import string_end

_SPACE = re.compile(rb"[ \t\n\r]*+")
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]++")
# Matches what is between brackets, up to a string that is long or has escapes. The limits keep a match from
# holding the interpreter for long.
_BETWEEN = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]{0,200}+"){0,200}+')
_QUOTE, _COMMA, _OBJECT, _OBJECT_END, _ARRAY_END = b'",{}]'
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")


class Span(NamedTuple):
    """A part of the bytes: its first byte, and the byte after its last."""

    start: int
    end: int


class Place(NamedTuple):
    """A value's place, and those of the values in it, down to the depth that was searched."""

    start: int
    end: int
    members: Mapping[str, "Place"] = {}
    elements: Sequence["Place"] = ()

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def find_places(body: bytes, depth: int) -> Place:
    """Return the place of the only value, with those of values inside up to `depth` objects and arrays."""
    return _find(body, _skip_space(body, 0), depth)


def _find(body: bytes, at: int, depth: int) -> Place:
    first = body[at]
    if first == _QUOTE:
        return Place(at, string_end(body, at))
    if first not in _OPEN:
        found = _SCALAR.match(body, at)
        assert found is not None
        return Place(at, found.end())
    if not depth:
        return Place(at, _nested_end(body, at))
    return (_find_members if first == _OBJECT else _find_elements)(body, at, depth - 1)


def _find_members(body: bytes, start: int, depth: int) -> Place:
    """Find an object's values by name. The last of a repeated name counts, as in parsers."""
    members: dict[str, Place] = {}
    at = _skip_space(body, start + 1)
    while body[at] != _OBJECT_END:
        name_end = string_end(body, at)
        colon = _skip_space(body, name_end)
        place = _find(body, _skip_space(body, colon + 1), depth)
        members[_name(body[at:name_end])] = place
        at = _skip_comma(body, place.end)
    return Place(start, at + 1, members=members)


def _name(quoted: bytes) -> str:
    return from_json(quoted) if b"\\" in quoted else quoted[1:-1].decode()


def _find_elements(body: bytes, start: int, depth: int) -> Place:
    elements = []
    at = _skip_space(body, start + 1)
    while body[at] != _ARRAY_END:
        place = _find(body, at, depth)
        elements.append(place)
        at = _skip_comma(body, place.end)
    return Place(start, at + 1, elements=elements)


def _skip_comma(body: bytes, at: int) -> int:
    """Return where the next value begins, or where its container ends."""
    at = _skip_space(body, at)
    return _skip_space(body, at + 1) if body[at] == _COMMA else at


def _skip_space(body: bytes, at: int) -> int:
    # Most values follow without a space.
    if body[at] > ord(" "):
        return at
    found = _SPACE.match(body, at)
    assert found is not None
    return found.end()


def _nested_end(body: bytes, at: int) -> int:
    depth = 0
    while True:
        byte = body[at]
        if byte == _QUOTE:
            at = string_end(body, at)
        elif byte in _OPEN:
            depth, at = depth + 1, at + 1
        elif byte in _CLOSE:
            depth, at = depth - 1, at + 1
            if not depth:
                return at
        found = _BETWEEN.match(body, at)
        assert found is not None
        at = found.end()
