from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from contextopt.inputs import BIGINT_MAX, Moment, make_storable, read_digits

MOMENTS: TypeAdapter[datetime] = TypeAdapter(Moment)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1900-01-01", datetime(1900, 1, 1, tzinfo=UTC)),
        ("1899-12-31T12:00:00-12:00", datetime(1900, 1, 1, tzinfo=UTC)),
        ("2998-12-31T23:59:59.999999Z", datetime(2998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2999-01-01T13:59:59+14:00", datetime(2998, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_moment_in_the_range_is_given_in_utc_and_passes_again(text: str, moment: datetime) -> None:
    accepted = MOMENTS.validate_python(text)
    assert (accepted, accepted.tzinfo) == (moment, UTC)
    assert MOMENTS.validate_python(accepted) == accepted


@pytest.mark.parametrize(
    "text",
    [
        "1900-01-01T00:00:00+14:00",
        "1899-12-31T23:59:59.999999Z",
        "2998-12-31T23:59:59-12:00",
        "2999-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
    ],
)
def test_a_moment_outside_the_range_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="1900 to 2998"):
        MOMENTS.validate_python(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), (str(BIGINT_MAX), BIGINT_MAX), (str(BIGINT_MAX + 1), None), ("9" * 5_000, None),
        ("", None), ("-1", None), (" 1", None), ("1_0", None), ("²", None), ("٣", None),
    ],
)  # fmt: skip
def test_digits_are_read_as_a_number_that_can_be_stored(text: str, number: int | None) -> None:
    assert read_digits(text) == number


def test_make_storable() -> None:
    assert make_storable("a\0b \ud800 😀") == "ab \ufffd 😀"
