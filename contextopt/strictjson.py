"""Reads JSON strictly by RFC 8259: no NaN, no infinities, and no duplicate keys in an object."""

import json
import re
import sys
from typing import Any, NoReturn

# Up to this size, count the marks in strings too at first: few texts then exceed the limit.
QUICK_BYTES = 4 * 2**20
_BACKSLASH = ord("\\")
# Text up to a quote after one or three backslashes, many times: such quotes don't end a string.
_ESCAPED_QUOTES = re.compile(rb'(?:[^"]*+"(?:(?<=[^\\]\\")|(?<=[^\\]\\{3}"))){0,1000}+')


class NotFinite(ValueError):
    """The text contains NaN or an infinity, which JSON does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not JSON")


class DuplicateKey(ValueError):
    """An object has a key twice, so one of the values would be silently lost."""

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key {json.dumps(key[:80])} twice in one object")
        self.key = key


class TooManyDigits(ValueError):
    """A whole number is longer than Python reads."""

    def __init__(self) -> None:
        super().__init__(f"has a number with more than {sys.get_int_max_str_digits():,} digits")


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DuplicateKey: an object has a key twice.
        NotFinite: a number is NaN or infinite.
        TooManyDigits: a whole number is too long.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, DuplicateKey, NotFinite):
        raise
    except ValueError:
        raise TooManyDigits from None


def read_json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at `at`, and where it ends. It raises the same errors as `read_json`."""
    try:
        return _DECODER.raw_decode(text, at)
    except (json.JSONDecodeError, DuplicateKey, NotFinite):
        raise
    except ValueError:
        raise TooManyDigits from None


def skip_json_at(text: str, at: int) -> int:
    """Return where the value that begins at `at` ends, even if `read_json_at` refuses it."""
    return _SKIPPER.raw_decode(text, at)[1]


def has_more_values(body: bytes, most: int) -> bool:
    """Tell whether a JSON text has more values than `most`, before it is parsed.

    Counts opening brackets and commas outside strings, so the result may be off by a few values. Parsing many
    small values takes far longer than parsing the same number of bytes of text.
    """
    if len(body) <= QUICK_BYTES and _count_marks(body, 0, len(body)) <= most:
        return False
    count = strings = at = 0
    while (start := body.find(b'"', at)) >= 0:
        count += _count_marks(body, at, start)
        strings += 1
        # A value has at most two strings, its key and its own text.
        if count > most or strings > 2 * most:
            return True
        at = string_end(body, start)
    return count + _count_marks(body, at, len(body)) > most


def _count_marks(body: bytes, start: int, end: int) -> int:
    return body.count(b",", start, end) + body.count(b"[", start, end) + body.count(b"{", start, end)


def string_end(body: bytes, start: int) -> int:
    """Return where the string that begins at `start` ends: after its quote, or at the end of the text.

    Only quotes are searched for. In long strings, that is far faster than matching the whole string.
    """
    at = start + 1
    while (end := body.find(b'"', at)) >= 0:
        # An odd number of backslashes escapes the quote.
        if body[end - 1] != _BACKSLASH or not _backslashes(body[at:end]) % 2:
            return end + 1
        found = _ESCAPED_QUOTES.match(body, end + 1)
        assert found is not None
        at = found.end()
    return len(body)


def _backslashes(part: bytes) -> int:
    """Return the number of trailing backslashes."""
    return len(part) - len(part.rstrip(b"\\"))


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
_SKIPPER = json.JSONDecoder(parse_int=float, object_pairs_hook=lambda _: None)
