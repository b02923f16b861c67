"""Which texts count as duplicates."""

import pytest
from hypothesis import given

from contextopt.engine.prompts.duplicates import SeenTexts
from tests.contextopt.engine.strategies import PROFILE, texts

LONG = (
    "The nightly import of the price list failed because the supplier sent a file with a byte order mark, "
    "so the first column was not recognised and every row was rejected by the parser before any was written"
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LONG, LONG),
        (LONG, LONG.upper()),
        (LONG, f"  {LONG}\n\n"),
        (LONG, LONG.replace(",", " –")),
        (LONG, f"{LONG} today"),
        ("Thanks!", "thanks"),
        ("…", "…"),
    ],
)
def test_repetitions(first: str, second: str) -> None:
    seen = SeenTexts()
    assert seen.admit(1, first) is None
    assert seen.admit(2, second) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LONG, LONG.replace("was not", "was")),
        (f"{LONG} 4.1", f"{LONG} 4.2"),
        (f"{LONG} at 10:30", f"{LONG} at 11:30"),
        (LONG.replace("price", "price_list_v"), LONG),
        (LONG, LONG[: len(LONG) // 2]),
        ("Thanks!", "Thanks, Mel!"),
        ("Deploy 7 went through", "Deploy 8 went through"),
        ("…", "?"),
        ("", "a"),
    ],
)
def test_what_only_looks_alike(first: str, second: str) -> None:
    seen = SeenTexts()
    assert seen.admit(1, first) is None
    assert seen.admit(2, second) is None


def test_the_first_one_in_is_the_original() -> None:
    seen = SeenTexts()
    assert seen.admit(9, LONG) is None
    assert seen.admit(4, f"{LONG} again", always=True) is None
    assert seen.admit(1, LONG.title()) == 9


@PROFILE
@given(texts, texts)
def test_a_text_repeats_itself_and_order_does_not_matter(first: str, second: str) -> None:
    there, back = SeenTexts(), SeenTexts()
    assert there.admit(1, first) is None
    assert back.admit(1, second) is None
    assert there.admit(3, first) == 1
    assert (there.admit(2, second) is None) == (back.admit(2, first) is None)
