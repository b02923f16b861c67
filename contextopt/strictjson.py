"""Reads JSON strictly by RFC 8259: no NaN, no infinities, and no duplicate keys in an object."""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

FIELDS_MAX = 500_000
"""The most fields in all objects of a body. Validating more of them would hold a process for seconds."""


class NotFinite(ValueError):
    """The text contains NaN or an infinity, which JSON does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not JSON")


class DuplicateKey(ValueError):
    """An object has a key twice, so one of the values would be silently lost."""

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key {json.dumps(key[:80])} twice in one object")
        self.key = key


class TooManyFields(ValueError):
    """The objects of a body have more fields together than are validated."""

    def __init__(self) -> None:
        super().__init__(f"must have at most {FIELDS_MAX:,} fields in all its objects")


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DuplicateKey: an object has a key twice.
        NotFinite: a number is NaN or infinite.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    return _DECODER.decode(text)


def check_keys(body: bytes) -> None:
    """Check the keys of a JSON text without keeping its values.

    Raises:
        DuplicateKey: an object has a key twice.
        TooManyFields: there are more than are validated.
    """
    json.JSONDecoder(object_pairs_hook=_Keys().check).decode(body.decode())


@dataclass
class _Keys:
    """The keys of one text: how many there were so far."""

    count: int = 0

    def check(self, pairs: list[tuple[str, Any]]) -> None:
        self.count += len(pairs)
        if self.count > FIELDS_MAX:
            raise TooManyFields
        _refuse_duplicate(pairs)


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
