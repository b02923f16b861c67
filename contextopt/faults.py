"""Describes faults of an input field by field, in the caller's words instead of Python's."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from contextopt.engine.wording import plural
from contextopt.errors import FieldProblem

NAMED_MAX = 100
NAME_MAX = 200
WHOLE_INPUT = "body"
"""The field name of faults that concern no single field."""

_OBJECT, _NUMBER, _WHOLE = "must be an object", "must be a number", "must be a whole number"
_TRUTH, _MOMENT = "must be true or false", "must be a date-time, such as 2026-01-31T12:00:00Z"
_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "json_invalid": "is not JSON: {error}",
    "extra_forbidden": "is not a known field",
    "string_type": "must be text",
    "string_unicode": "must be text without lone surrogates",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "list_type": "must be a list",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": "has too many digits",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "decimal_type": _NUMBER,
    "decimal_parsing": _NUMBER,
    "decimal_max_places": "must have at most {decimal_places} decimals",
    "finite_number": "must be a finite number",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "literal_error": "must be {expected}",
}
_PATTERNS: Mapping[str, str] = {
    r"^[a-zA-Z0-9_-]+$": "must contain only the letters A to Z, digits, hyphens and underscores",
    r"^[A-Za-z0-9_][A-Za-z0-9._-]*$": "must contain only the letters A to Z, digits, dots, hyphens and "
    "underscores, and begin with neither a dot nor a hyphen",
    r"^[0-9a-f]{64}$": "must be 64 digits from 0 to 9 and a to f",
}
# If a value may have several types, pydantic adds the type to the place of the fault. Our own unions have
# names in angle brackets.
_TYPE = re.compile(r"<\w+>|(?:constrained-|function-|literal\[|nullable\[).*", re.DOTALL)


def describe_faults(errors: Iterable[Mapping[str, Any]], *, skip: int = 0) -> list[FieldProblem]:
    """Return each refused field once, dotted if nested, with every rule it broke.

    `skip` drops the first parts of a place, which say where in a request it was.
    """
    rules: dict[str, list[str]] = {}
    for error in errors:
        name = name_field(error["loc"][skip:])
        if name in rules or len(rules) < NAMED_MAX:
            rules.setdefault(name, []).append(describe_rule(error))
    return [FieldProblem(name, "; or ".join(dict.fromkeys(broken))) for name, broken in rules.items()]


def name_field(place: Sequence[int | str]) -> str:
    return ".".join(_parts(place))[:NAME_MAX] or WHOLE_INPUT


def _parts(place: Sequence[int | str]) -> Iterator[str]:
    for part in place:
        if isinstance(part, int) or not _TYPE.fullmatch(part):
            yield str(part)


def describe_rule(error: Mapping[str, Any]) -> str:
    """Return the rule that a pydantic error is about, in words."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind in ("too_long", "too_short", "string_too_long", "string_too_short"):
        return _describe_size(limits)
    if kind == "string_pattern_mismatch":
        pattern = limits["pattern"]
        return _PATTERNS.get(pattern, f"must match the pattern {pattern}")
    if words := _WORDS.get(kind):
        return words.format(**{name: _plain(limit) for name, limit in limits.items()})
    return str(error["msg"]).removeprefix("Value error, ")


def _plain(limit: Any) -> Any:
    """Return a whole number without its decimals: 1 for 1.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _describe_size(limits: Mapping[str, Any]) -> str:
    """Describe a size limit: characters of texts, items of lists, fields of objects."""
    unit = {"List": "item", "Dictionary": "field"}.get(limits.get("field_type", ""), "character")
    is_long = "max_length" in limits
    limit = limits["max_length" if is_long else "min_length"]
    rule = f"must have at {'most' if is_long else 'least'} {plural(limit, unit)}"
    return f"{rule}, not {limits['actual_length']:,}" if is_long and "actual_length" in limits else rule
