"""The exceptions of the engine, and the checks shared by its values. Each names the field and its limit."""

from datetime import UTC, datetime
from decimal import Decimal

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


def check_optional_int(field: str, value: object, low: int, high: int) -> None:
    """Raise InvalidValue unless the value is None or accepted by `check_int`."""
    if value is not None:
        check_int(field, value, low, high)


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
