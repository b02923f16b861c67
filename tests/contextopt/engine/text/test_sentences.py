"""Splitting text into whole sentences."""

import pytest

from contextopt.engine.text.sentences import MAX_SENTENCES, split_sentences


def parts(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One is here. Two is there.", ["One is here.", "Two is there."]),
        ("All packages, excl. Windows wheels.", ["All packages, excl. Windows wheels."]),
        ("Reads are local; not so the writes.", ["Reads are local; not so the writes."]),
        ("- First\n- Second\n  goes on", ["First", "Second goes on"]),
        ("It is so. It is so. It is not.", ["It is so.", "It is not."]),
        ("Um , we stay . Okay . {vocalsound}", ["we stay .", "Okay ."]),
        ("Er cachen delt? Nei.", ["Er cachen delt?", "Nei."]),
    ],
)
def test_sentences_are_whole(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


def test_an_item_knows_the_line_that_introduces_it() -> None:
    first, intro, item, after = split_sentences("We met. Not supported:\n- uploads\n\nAll else works.")
    assert (first.intro, intro.intro, item.intro, after.intro) == (None, None, 1, None)


def test_everything_below_a_heading_knows_it() -> None:
    for text in ("# Rejected\n\nShard it.\n\nCache it.", "Rejected\n===\nShard it.\n\nCache it."):
        heading, *rest = split_sentences(text)
        assert heading.kind == "heading"
        assert [sentence.intro for sentence in rest] == [0, 0]


def test_endless_and_too_many_sentences_are_not_whole() -> None:
    assert {sentence.is_whole for sentence in split_sentences("word " * 500)} == {False}
    many = split_sentences("".join(f"Row {place} is read. " for place in range(MAX_SENTENCES + 5)))
    assert (len(many), many[-2].is_whole, many[-1].is_whole) == (MAX_SENTENCES, True, False)
