"""Which texts count as duplicates."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.assembly import assemble
from contextopt.engine.details import Query, RecordDetail
from contextopt.engine.duplicates import MAX_CHARS, Commit, SeenTexts, newer_commits, numbers_in
from contextopt.engine.ranking import Relevance
from contextopt.engine.settings import ContextConfig
from contextopt.engine.values import SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record
from tests.contextopt.engine.strategies import texts

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
def test_texts_that_only_look_alike(first: str, second: str) -> None:
    seen = SeenTexts()
    assert seen.admit(1, first) is None
    assert seen.admit(2, second) is None


def test_the_first_one_in_is_the_original() -> None:
    seen = SeenTexts()
    assert seen.admit(9, LONG) is None
    assert seen.admit(4, f"{LONG} again", always=True) is None
    assert seen.admit(1, LONG.title()) == 9


@given(texts, texts)
def test_a_text_repeats_itself_and_order_does_not_matter(first: str, second: str) -> None:
    there, back = SeenTexts(), SeenTexts()
    assert there.admit(1, first) is None
    assert back.admit(1, second) is None
    assert there.admit(3, first) == 1
    assert (there.admit(2, second) is None) == (back.admit(2, first) is None)


def test_beyond_the_maximum_only_equally_long_texts_repeat_each_other() -> None:
    seen = SeenTexts()
    text = " ".join(f"word{chr(97 + number % 26)}{'x' * (number % 40)}" for number in range(MAX_CHARS // 10))
    assert len(text) > MAX_CHARS
    assert seen.admit(1, text) is None
    assert seen.admit(2, f"{text} more") is None
    assert seen.admit(3, text.upper()) == 1


@given(st.sets(st.integers(0, 400), max_size=30), st.integers(100, 400))
def test_resembles_as_jaccard_defines_it(changed: set[int], length: int) -> None:
    words = ["a" * (1 + number // 20) + "b" * (1 + number % 20) for number in range(length)]
    others = [word + "c" if number in changed else word for number, word in enumerate(words)]
    first, second = (set(zip(text, text[1:], text[2:], strict=False)) for text in (words, others))
    seen = SeenTexts()
    seen.admit(1, " ".join(words))
    is_alike = 10 * len(first & second) >= 9 * len(first | second)
    assert (seen.admit(2, " ".join(others)) == 1) == is_alike


def commits(*titles: str, source: str = "git") -> list[Commit]:
    """Return commits, the newest last."""
    return [
        Commit(number, source, title, NOW + timedelta(days=number)) for number, title in enumerate(titles, 1)
    ]


def test_commits_that_differ_in_numbers_repeat_the_newest() -> None:
    found = commits(
        "Bump the group with 3 updates", "Fix the queue", "Bump the group with 12 updates",
        "Bump ruff from 0.1.2 to 0.2", "bump ruff from 0.2 to 0.3.1",
    )  # fmt: skip
    assert newer_commits(found, frozenset()) == {1: 3, 4: 5}


def test_titles_without_numbers_and_other_sources_stay() -> None:
    assert newer_commits(commits("Merge main", "Merge main"), frozenset()) == {}
    one, other = commits("Bump 1"), commits("Bump 1", "Bump 2", source="fork")
    assert newer_commits([*one, *other], frozenset()) == {1: 2}


def test_a_number_in_the_question_counts() -> None:
    found = commits("Release 1.2.3", "Release 1.2.4", "Release 1.3")
    assert newer_commits(found, numbers_in("What broke in 1.2.3?")) == {2: 3}
    assert numbers_in("In 1.2.3, 4 of 10,000") == {"1.2.3", "4", "10,000"}


@pytest.mark.parametrize(("kind", "kept"), [("commit", [2]), ("message", [2, 1])])
def test_only_commits_lose_their_numbers(kind: str, kept: list[int]) -> None:
    titles = {1: "Meet at 3 pm", 2: "Meet at 4 pm"}
    records = tuple(make_record(number, days_old=3 - number, source="git") for number in titles)
    details = {number: RecordDetail(title, kind, (), "") for number, title in titles.items()}
    query = Query(frozenset(), dict.fromkeys(titles, Relevance(semantic=5.0)), details)
    result = assemble(SpaceContext("S", "", (), records), ContextConfig(stage=5), NOW, TOKENIZER, query=query)
    assert [entry.id for entry in result.ledger if entry.kept] == kept
    assert [entry.duplicate_of for entry in result.ledger if not entry.kept] == (
        [2] if kind == "commit" else []
    )
