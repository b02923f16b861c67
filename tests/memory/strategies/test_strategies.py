"""Ratings move trust; harmful strategies are retired and may come back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextopt.errors import Conflict
from contextopt.people.models import Team
from memory.memories.models import Memory
from memory.memories.rules import MemoryPolicy
from memory.strategies.models import StrategyUse, TrustChange
from memory.strategies.strategies import active_ratings, rate_use, reinstate_strategy, retire_strategy
from tests.memory.factories import make_use


def test_trust_moves_towards_the_rating(strategy: Memory, use: StrategyUse) -> None:
    memory = rate_use(use=use, rating=1, actor="test")
    assert memory.trust == pytest.approx(0.65)
    assert rate_use(use=use, rating=1, actor="test").trust == memory.trust
    assert rate_use(use=use, rating=0, actor="test").trust == pytest.approx(0.35)
    assert TrustChange.objects.filter(memory=strategy).count() == 3


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ratings=st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.sampled_from([0, 0.25, 0.5, 1])), min_size=1, max_size=12
    )
)
def test_trust_is_that_of_the_ratings_that_stand(
    strategy: Memory, ratings: list[tuple[int, float | None]]
) -> None:
    # Each example starts afresh, with its own uses.
    retired = retire_strategy(memory=strategy, reason="", actor="test")
    Memory.objects.filter(pk=strategy.pk).update(trust=0.5)
    reinstate_strategy(memory=retired, actor="test")
    uses = [make_use(strategy) for _ in range(4)]
    standing: dict[int, float] = {}
    for number, rating in ratings:
        rate_use(use=uses[number], rating=rating, actor="test")
        if rating is None:
            standing.pop(number, None)
        else:
            standing[number] = rating
    trust = 0.5
    for rating in standing.values():
        trust += 0.3 * (rating - trust)
    strategy.refresh_from_db()
    assert strategy.trust == pytest.approx(trust)


def test_each_rating_keeps_the_weight_of_its_time(team: Team, strategy: Memory, use: StrategyUse) -> None:
    rate_use(use=use, rating=1, actor="test")
    other = make_use(strategy)
    rate_use(use=other, rating=0, actor="test")
    MemoryPolicy.objects.create(team=team, rating_weight=0.9)
    assert rate_use(use=other, rating=None, actor="test").trust == pytest.approx(0.65)


def test_steps_tell_which_rating_made_them(team: Team, strategy: Memory, use: StrategyUse) -> None:
    MemoryPolicy.objects.create(team=team, rating_weight=0.2)
    rate_use(use=use, rating=1, actor="test")
    rate_use(use=make_use(strategy), rating=0.25, actor="test")
    begun, ratings = active_ratings(strategy)
    assert (begun, list(ratings.values())) == (0.5, [(1, 0.2), (0.25, 0.2)])
    assert rate_use(use=use, rating=None, actor="test").trust == pytest.approx(0.45)


def test_a_rating_from_before_a_new_beginning_counts_no_more(strategy: Memory, use: StrategyUse) -> None:
    rate_use(use=use, rating=1, actor="test")
    back = reinstate_strategy(memory=retire_strategy(memory=strategy, reason="", actor="x"), actor="x")
    assert rate_use(use=use, rating=None, actor="test").trust == back.trust == pytest.approx(0.65)


@pytest.mark.parametrize("rating", [-0.1, 1.1, float("nan")])
def test_a_rating_is_from_0_to_1(use: StrategyUse, rating: float) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        rate_use(use=use, rating=rating, actor="test")


def test_what_hurts_is_retired_and_can_be_reinstated(strategy: Memory) -> None:
    for _ in range(3):
        assert Memory.objects.live().filter(pk=strategy.pk).exists()
        memory = rate_use(use=make_use(strategy), rating=0, actor="test")
    assert memory.retired_at is not None
    assert "3 rated uses" in memory.retired_reason
    assert not Memory.objects.live().exists()
    back = reinstate_strategy(memory=memory, actor="test")
    assert (back.retired_at, back.trust) == (None, 0.5)
    # Old ratings don't retire it again at once.
    assert rate_use(use=make_use(strategy), rating=0, actor="test").retired_at is None
    with pytest.raises(Conflict):
        reinstate_strategy(memory=back, actor="test")


def test_a_team_has_rules_of_its_own(team: Team, strategy: Memory, use: StrategyUse) -> None:
    MemoryPolicy.objects.create(team=team, rating_weight=0.9, retire_after=1)
    assert rate_use(use=use, rating=0, actor="test").retired_at is not None


def test_retiring_by_hand_says_why(strategy: Memory) -> None:
    first = retire_strategy(memory=strategy, reason="outdated", actor="user:olga")
    assert first.retired_reason == "outdated (user:olga)"
    assert retire_strategy(memory=strategy, reason="again", actor="x").retired_reason == first.retired_reason
