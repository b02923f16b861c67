"""A strategy matches a task by words or meaning, whichever is higher, and better with the same pattern."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.people.models import Team
from memory.memories.models import Memory
from memory.strategies.matches import StrategyMatch, find_best, match_strategies
from tests.memory.factories import make_memory, make_strategy

SHARES = st.floats(0, 1)


@given(st.none() | SHARES, SHARES, st.booleans())
def test_the_score(similarity: float | None, words: float, is_same: bool) -> None:
    match = StrategyMatch(similarity, words, is_same)
    higher = max(similarity or 0.0, words)
    assert 0 <= higher <= match.score <= 1
    assert match.score == (min(1.0, higher + 0.1) if is_same else higher)


def only_match(team: Team, task: str) -> StrategyMatch:
    [match] = match_strategies(team, task=task, repository="shop").values()
    return match


def test_the_parts(team: Team, strategy: Memory) -> None:
    same = only_match(team, "Fix the rounding error of prices in the cart")
    assert (same.word_share, same.same_pattern, same.score) == (1, True, 1)
    assert same.similarity is not None
    other = only_match(team, "Document how prices are rounded, and where")
    # It holds "prices" and "rounded", and lacks "document". The others are stop words.
    assert other.word_share == pytest.approx(2 / 3)
    assert not other.same_pattern
    assert other.score == max(other.word_share, other.similarity or 0)


def test_the_pattern_alone_is_no_match(team: Team, strategy: Memory) -> None:
    """The words of the pattern and of the sentence around the steps say nothing about the task."""
    make_strategy(team, description="Move uploaded receipts", plan="Copy them\nSwitch the reader")
    matches = match_strategies(team, task="Strategy for uploads", repository="shop")
    assert {match.word_share for match in matches.values()} <= {0, 0.5}


@pytest.mark.parametrize(
    ("task", "plan", "asked", "share"),
    [
        ("カートの丸め誤差を直す", "税込の合計を一度だけ丸める", "丸め誤差", 1),
        ("Исправить округление цен", "Округлять один раз", "Округление цен в корзине", 1 / 2),
        ("Rette avrundingen for brukeren", "Rund av til slutt og si det", "Avrunding for brukere", 1),
        ("แก้ราคาในตะกร้า", "ปัดเศษครั้งเดียว", "ราคาในตะกร้า", 1),
        ("Größe prüfen", "Einmal runden", "grosse", 1),
    ],
)
def test_words_of_any_script(team: Team, task: str, plan: str, asked: str, share: float) -> None:
    make_strategy(team, description=task, plan=plan)
    assert only_match(team, asked).word_share == pytest.approx(share)


def test_the_best_of_many_is_found(team: Team) -> None:
    """Many are nearer by meaning and words alone, but one of the same pattern wins by a tenth."""
    for number in range(60):
        make_memory(
            team,
            memory_type="strategy",
            repository="shop",
            content=f"Cart rounding note {number}",
            tags=["x"],
        )
    right = make_memory(
        team, memory_type="strategy", repository="shop", content="Cart rounding", tags=["fix bug", "strategy"]
    )
    found = find_best(team, task="Fix cart rounding", repository="shop")
    assert found is not None
    assert (found.memory.pk, found.match.same_pattern) == (right.pk, True)


@pytest.mark.parametrize("payload", [{"steps": "one"}, {"steps": [1, None]}, {"steps": {}}, {}])
def test_a_strategy_that_a_person_wrote(team: Team, payload: dict) -> None:
    make_memory(team, memory_type="strategy", repository="shop", content="Round once", payload=payload)
    assert only_match(team, "round once").word_share == 1
