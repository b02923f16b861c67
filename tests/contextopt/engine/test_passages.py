"""The best passages of a long text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.details import MAX_TEXT_CHARS, RatedText
from contextopt.engine.text.lexical import terms
from tests.contextopt.engine.strategies import texts

NOTES = " ".join(f"Paragraph {number} is about ordinary matters of the week." for number in range(200))
NEEDLE = "The staging certificate expires on 3 May."


def query(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def test_a_text_that_fits_is_whole() -> None:
    assert RatedText("Two  blanks\nand a line.", query("x")).excerpt(100) == "Two  blanks and a line."


def test_finds_the_needle_and_says_what_is_left_out() -> None:
    notes = f"{NOTES} {NEEDLE} {NOTES}"
    found = RatedText(notes, query("When does the certificate for staging expire?")).excerpt(300)
    assert NEEDLE in found
    assert len(found) <= 300
    assert found.startswith(("…", "Paragraph 0"))
    assert found.endswith("…")


def test_keeps_the_text_s_own_order() -> None:
    notes = f"First the zebra ran. {NOTES} Then the okapi ran. {NOTES}"
    found = RatedText(notes, query("okapi zebra")).excerpt(200)
    assert found.index("zebra") < found.index("okapi")


def test_without_a_hit_it_is_the_beginning() -> None:
    assert RatedText(NOTES, query("unrelated")).excerpt(200).startswith("Paragraph 0 is about")
    assert RatedText(NOTES, frozenset()).excerpt(200).endswith("…")


def test_one_long_run_is_cut() -> None:
    found = RatedText("x" * 5_000, query("x")).excerpt(50)
    assert len(found) <= 50
    assert found.endswith("…")


def test_text_beyond_the_limit_is_not_read() -> None:
    found = RatedText("word " * (MAX_TEXT_CHARS // 4) + NEEDLE, query("certificate")).excerpt(200)
    assert NEEDLE not in found
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("word", "asked"), [("flies", "fly"), ("getHTTPResponse", "http responses"), ("STRASSE", "Straße")]
)
def test_a_word_is_found_in_every_form(word: str, asked: str) -> None:
    assert f"The {word} here." in RatedText(f"{NOTES} The {word} here. {NOTES}", query(asked)).excerpt(200)


@given(st.lists(texts, max_size=20).map(" ".join), texts, st.integers(0, 200))
def test_never_longer_and_always_one_line(notes: str, question: str, max_chars: int) -> None:
    found = RatedText(notes, query(question)).excerpt(max_chars)
    assert len(found) <= max(max_chars, 0) or len(notes) <= max_chars
    assert len(found.splitlines()) <= 1
    assert found == RatedText(notes, query(question)).excerpt(max_chars)
