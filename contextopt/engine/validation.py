"""The engine's exceptions, its checks of values, and settings that declare theirs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from contextopt.engine.wording import plural


class EngineError(Exception):
    """Base of every exception that the engine raises on purpose.

    ::

        EngineError
        ├── InvalidValue        a field is outside its limits
        │   └── UnknownEncoding no tokenizer of that name is available
        └── BudgetExceeded      system, history and response alone exceed the total
    """


class InvalidValue(EngineError):
    """A field is outside its limits. Names the field and the limit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class UnknownEncoding(InvalidValue):
    """The tokenizer's name is unknown, or its data is not available on this machine."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__("encoding", message)
        self.name = name


class BudgetExceeded(EngineError):
    """Even an empty context leaves the response less than its reservation.

    `missing` is the number of tokens short.
    """

    def __init__(self, missing: int, reserved: int) -> None:
        super().__init__(
            f"The response must keep {reserved:,} tokens, and even an empty context leaves it {missing:,} "
            f"short: shorten the system or history text by {plural(missing, 'token')}, or raise total_tokens."
        )
        self.missing = missing
        self.reserved = reserved


MAX_INT = 2**63 - 1
MAX_WEIGHT = 10
WEIGHT_DECIMALS = 3


def check_int(field: str, value: object, low: int, high: int) -> None:
    """Raise InvalidValue unless the value is a whole number from `low` to `high`, both included."""
    # Accept valid values first, since there are hundreds per prompt.
    if type(value) is int and low <= value <= high:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(field, f"must be a whole number from {low:,} to {high:,}")
    if not low <= value <= high:
        raise InvalidValue(field, f"must be from {low:,} to {high:,}, not {value:,}")


def check_weight(
    field: str, value: object, *, low: Decimal | int = 0, high: Decimal | int = MAX_WEIGHT
) -> None:
    """Accept a decimal with at most three decimals. Weights are exact, so that scores are integers."""
    is_in = isinstance(value, Decimal) and value.is_finite() and low <= value <= high
    if is_in and value == round(value, WEIGHT_DECIMALS):  # type: ignore[call-overload]
        return
    limit = f"must be a decimal from {low} to {high} with at most {WEIGHT_DECIMALS} decimals"
    raise InvalidValue(field, limit)


def check_choice(field: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidValue unless the value is one of the choices."""
    # True == 1, so a bool would pass for the number.
    if isinstance(value, bool) or value not in choices:
        given = f", not {value!r:.80}" if isinstance(value, str) else ""
        raise InvalidValue(field, f"must be one of {', '.join(map(str, choices))}{given}")


def check_bool(field: str, value: object) -> None:
    """Raise InvalidValue unless the value is true or false."""
    if not isinstance(value, bool):
        raise InvalidValue(field, "must be true or false")


def check_text(field: str, value: object) -> None:
    """Accept a string that UTF-8 can encode, since the certificate hashes bytes."""
    if not isinstance(value, str):
        raise InvalidValue(field, "must be text")
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(field, "must be text without lone surrogates") from None


def utc(field: str, value: object) -> datetime:
    """Return the time in UTC.

    Python subtracts two datetimes of one zone by their wall clocks and ignores a change to summer time
    between them. In UTC, ages and orders are right.

    Raises:
        InvalidValue: not a datetime, naive, or outside the years 1 to 9999 once in UTC.
    """
    if not isinstance(value, datetime):
        raise InvalidValue(field, "must be a date and time")
    if value.tzinfo is UTC:
        return value
    if value.utcoffset() is None:
        raise InvalidValue(field, "must have a time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidValue(field, "must lie within the years 1 to 9999 in UTC") from None


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

type JsonValue = str | int | None

ALL = "all"
"""The word for no limit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its range, its words and its stages. Name, type and default are those of its field.

    `about` describes it in the API and the docs, and `help` in a form. `low` and `high` bound a number, and
    `high` the characters of a text. `blank` says what None means: the API's word for it is "all", or null if
    `is_null`. `choices` have their words. A number with choices has no others in a space, while a request
    may have any within the bounds. `stages` are those that the setting decides in, empty for all. A request
    overrides it by `request_name`: None stands for its own name, an empty text for no way to override it.
    """

    label: str
    about: str
    section: str
    help: str = ""
    low: int | Decimal = 0
    high: int | Decimal = 0
    blank: str = ALL
    is_null: bool = False
    choices: Mapping[Any, str] | None = None
    stages: tuple[int, ...] = ()
    request_name: str | None = None
    request_about: str = ""
    is_basic: bool = False
    example: str | int | None = None
    name: str = ""
    kind: type = int
    is_optional: bool = False
    default: Any = None

    @property
    def is_all(self) -> bool:
        """Whether the API's word for None is "all"."""
        return self.is_optional and not self.is_null

    def decides_in(self, stage: int) -> bool:
        return not self.stages or stage in self.stages

    def check(self, value: object) -> None:
        """Raise InvalidValue unless the setting can have the value."""
        if value is None and self.is_optional:
            return
        if self.kind is int:
            check_int(self.name, value, int(self.low), int(self.high))
        elif self.kind is Decimal:
            check_weight(self.name, value, low=self.low, high=self.high)
        elif self.choices:
            check_choice(self.name, value, tuple(self.choices))
        else:
            check_text(self.name, value)
            if not 1 <= len(str(value)) <= self.high:
                raise InvalidValue(self.name, f"must have 1 to {self.high} characters")

    def read(self, value: object) -> Any:
        """Return the value from JSON. A decimal is a text there, since a float would not be exact."""
        if self.kind is not Decimal:
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
            raise InvalidValue(self.name, "must be a number, or a number as text")
        try:
            return Decimal(str(value))
        except InvalidOperation:
            raise InvalidValue(self.name, "must be a number, or a number as text") from None

    def write(self, value: Any) -> JsonValue:
        """Return the value as JSON, a decimal with all its digits."""
        if self.kind is not Decimal:
            return value  # type: ignore[no-any-return]
        # Adding zero leaves no minus sign at a zero.
        return f"{value + 0:.{WEIGHT_DECIMALS}f}"


def read_settings(declaring: "type[DataclassInstance]") -> dict[str, Setting]:
    """Return the settings that a dataclass declares, each with the name, type and default of its field."""
    hints = get_type_hints(declaring, include_extras=True)
    found = {}
    for field in fields(declaring):
        kind, *declared = get_args(hints[field.name]) or (hints[field.name],)
        options = get_args(kind) or (kind,)
        for setting in declared:
            found[field.name] = replace(
                setting,
                name=field.name,
                kind=next((each for each in (int, Decimal) if each in options), str),
                is_optional=NoneType in options,
                default=field.default,
                request_name=field.name if setting.request_name is None else setting.request_name,
            )
    return found
