from datetime import UTC, datetime

import pytest

from contextopt.engine.wording import day, listed, plural


@pytest.mark.parametrize(
    ("count", "many", "said"),
    [
        (0, "", "0 files"),
        (1, "", "1 file"),
        (2, "", "2 files"),
        (2_000, "", "2,000 files"),
        (2, "all", "2 all"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, many: str, said: str) -> None:
    assert plural(count, "file", many) == said


@pytest.mark.parametrize(
    ("words", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_list_ends_with_and(words: list[str], said: str) -> None:
    assert listed(words) == said


def test_a_day_has_no_leading_zero() -> None:
    assert day(datetime(2026, 3, 2, 12, tzinfo=UTC)) == "2 March 2026"
