"""Input types shared by the API, imports and forms, and response types whose fields come from values.

Texts refuse NUL and lone surrogates, and numbers stay within 64 bits, because PostgreSQL can store neither.
So whatever passes here can be stored.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, TypedDict, cast, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.errors import FieldProblem
from contextopt.faults import WHOLE_INPUT, describe_faults
from contextopt.limits import DATE_MAX, DATE_MIN, METADATA_MAX_BYTES, NAME_MAX

QUERY_MAX = 100_000
METADATA_DEPTH_MAX = 20
YEARS_END = datetime(DATE_MAX.year, 1, 1, tzinfo=UTC)
FAULTS_MAX = 1_000
INT_MAX = 2**31 - 1
BIGINT_MAX = 2**63 - 1
# A model's answer that is cut at its maximum length may end in half a surrogate pair.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def refuse_unstorable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("contains a NUL character, which cannot be stored")
    if has_surrogate(text):
        raise ValueError("contains a lone surrogate, which is not a character")
    return text


def make_storable(text: str) -> str:
    """Drop NUL and replace lone surrogates in a text that cannot be refused, such as a model's answer."""
    return _LONE_SURROGATE.sub("\ufffd", text.replace("\0", ""))


def has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def refuse_breaks(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("must be one line without control characters")
    return text


def read_digits(text: str, largest: int = BIGINT_MAX) -> int | None:
    """Return the number that the ASCII digits spell, if it is at most `largest`; None for any other text."""
    # Python itself refuses to read more than 4,300 digits.
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
    return int(text) if is_short and int(text) <= largest else None


def read_moment(value: object) -> object:
    """Read a bare date as midnight UTC; leave everything else to the datetime type.

    Numbers are refused, because seconds and milliseconds cannot be told apart.
    """
    is_number = isinstance(value, bool | int | float | Decimal)
    if is_number or (isinstance(value, str) and value.strip().replace(".", "", 1).lstrip("+-").isdigit()):
        raise ValueError("give a date-time with an offset, such as 2026-01-31T12:00:00Z")
    if isinstance(value, str) and len(value) == 10:
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise ValueError("is not a date, such as 2026-01-31") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


def check_moment(moment: datetime) -> datetime:
    """Return the moment in UTC. The range applies to UTC, since that is stored."""
    if moment.tzinfo is None:
        raise ValueError("needs an offset from UTC, such as 2026-01-31T12:00:00Z")
    if not DATE_MIN <= moment < YEARS_END:
        raise ValueError("must be in the years 1900 to 2998, counted in UTC")
    return moment.astimezone(UTC)


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse metadata that PostgreSQL cannot store as JSON, or that is too large or too deep."""
    check_json(metadata, METADATA_DEPTH_MAX)
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > METADATA_MAX_BYTES:
        raise ValueError(f"must be at most {METADATA_MAX_BYTES:,} bytes of JSON, not {size:,}")
    return metadata


def check_json(value: object, depth: int, deepest: int | None = None) -> None:
    """Refuse values that PostgreSQL cannot store as JSON, or that are nested deeper than `depth`."""
    deepest = depth if deepest is None else deepest
    if depth < 0:
        raise ValueError(f"must be nested at most {deepest} deep")
    match value:
        case str():
            refuse_unstorable(value)
        case float() if not math.isfinite(value):
            raise ValueError("must not contain NaN or infinity")
        case int() if not -(2**63) <= value < 2**63:
            raise ValueError("must not contain a number beyond 64 bits")
        case dict():
            for name, inner in value.items():
                refuse_unstorable(name)
                check_json(inner, depth - 1, deepest)
        case list():
            for inner in value:
                check_json(inner, depth - 1, deepest)


def refuse_truth(value: object) -> object:
    """Refuse true and false where a number is expected. Pydantic would read them as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


NUMBER = BeforeValidator(refuse_truth)
"""Put this last in the type of a number, after its limits."""
Text = Annotated[str, AfterValidator(refuse_unstorable)]
Moment = Annotated[datetime, BeforeValidator(read_moment), AfterValidator(check_moment)]
Slug = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
Id = Annotated[int, Field(ge=1, le=BIGINT_MAX), NUMBER]
Ordinal = Annotated[int, Field(ge=1, le=INT_MAX), NUMBER]
"""A version, an attempt, or another number within its owner."""
BigInt = Annotated[int, Field(ge=-(2**63), le=BIGINT_MAX), NUMBER]
Tokens = Annotated[int, Field(ge=0, le=MAX_PART_TOKENS), NUMBER]
Share = Annotated[Decimal, Field(ge=0, le=1, decimal_places=3)]
Name = Annotated[
    Text, Field(max_length=NAME_MAX), AfterValidator(refuse_blank), AfterValidator(refuse_breaks)
]
Metadata = Annotated[dict[str, Any], AfterValidator(check_metadata)]


class Input(BaseModel):
    """A request body, query or row. Unknown fields are refused, so that no misspelt one is silently lost."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """Return each refused field, dotted if nested, with the rules it broke.

    Very many faults are only counted, because listing a million of them takes most of a minute.
    """
    if (count := error.error_count()) > FAULTS_MAX:
        return [FieldProblem(WHOLE_INPUT, f"has {count:,} faults, too many to list")]
    return describe_faults(error.errors(include_url=False))


def pick(item: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def show(kind: type, item: object, **computed: object) -> dict[str, Any]:
    """Return an item as a response type: its attributes with the names of the fields, or the given values."""
    names = kind.__annotations__
    return {name: computed[name] if name in computed else getattr(item, name) for name in names}


def fields_of[Row: type](value: type, *, without: Iterable[str] = ()) -> Callable[[Row], Row]:
    """Give a TypedDict the fields of a value, before its own, which replace those of the same name."""
    hints = get_type_hints(value, include_extras=True)
    fields = {name: hint for name, hint in hints.items() if name not in without}
    return lambda row: _remake(row, {**fields, **row.__annotations__})


def add_fields[Row: type](fields: Mapping[str, Any]) -> Callable[[Row], Row]:
    """Add fields that are declared in a table to a TypedDict, after its own."""
    return lambda row: _remake(row, {**row.__annotations__, **fields})


def _remake[Row: type](row: Row, fields: dict[str, Any]) -> Row:
    made: Any = TypedDict(row.__name__, fields)  # type: ignore[misc]
    made.__doc__, made.__module__ = row.__doc__, row.__module__
    return cast("Row", made)
