"""Reads JSON strictly by RFC 8259: no NaN, no infinities, and no duplicate keys in an object."""

import json
import re
from typing import Any, NoReturn

# Without a closing quote, a string ends with the text. So this takes one pass over any bytes.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class NotFinite(ValueError):
    """The text contains NaN or an infinity, which JSON does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not JSON")


class DuplicateKey(ValueError):
    """An object has a key twice, so one of the values would be silently lost."""

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key {json.dumps(key[:80])} twice in one object")
        self.key = key


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DuplicateKey: an object has a key twice.
        NotFinite: a number is NaN or infinite.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    return _DECODER.decode(text)


def has_more_values(body: bytes, most: int) -> bool:
    """Tell whether a JSON text has more values than `most`, before it is parsed.

    Counts the brackets that open and the commas, without those in strings: up to a few values more or less.
    Parsing many small values takes far longer than parsing as many bytes of text.
    """
    if _count_marks(body) <= most:
        return False
    count = at = 0
    for strings, string in enumerate(_STRING.finditer(body)):
        count += _count_marks(body[at : string.start()])
        # A value has at most two strings, its key and its own text.
        if count > most or strings > 2 * most:
            return True
        at = string.end()
    return count + _count_marks(body[at:]) > most


def _count_marks(part: bytes) -> int:
    return part.count(b",") + part.count(b"[") + part.count(b"{")


def check_keys(body: bytes) -> None:
    """Check the keys of a JSON text without keeping its values. Raises: DuplicateKey."""
    json.JSONDecoder(object_pairs_hook=_refuse_duplicate).decode(body.decode())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        _refuse_duplicate(pairs)
    return unique


def _refuse_duplicate(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DuplicateKey(key)
        seen.add(key)


def _refuse_constant(name: str) -> NoReturn:
    raise NotFinite(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique)
