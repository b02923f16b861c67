import pytest

from contextopt.engine.budget import truncate
from contextopt.engine.ranking import Scored
from tests.contextopt.engine.factories import make_record


def ranked(*tokens: int) -> list[Scored]:
    return [Scored(make_record(id, tokens=size), 100 - id) for id, size in enumerate(tokens, start=1)]


@pytest.mark.parametrize(
    ("tokens", "budget", "limit", "kept", "reason"),
    [
        ((10, 10, 10), 30, 20, 3, ""),
        ((10, 10, 10), 29, 20, 2, "over_budget"),
        ((10, 10, 10), 30, 2, 2, "over_record_limit"),
        ((10, 50, 1), 20, 20, 1, "over_budget"),
        ((50, 1, 1), 20, 20, 0, "over_budget"),
        ((10, 10, 10), 20, 2, 2, "over_record_limit"),
        ((10,), -5, None, 0, "over_budget"),
        ((1,) * 30, 100, None, 30, ""),
        ((), 0, 20, 0, ""),
        ((1,), 5, 0, 0, "over_record_limit"),
    ],
)
def test_prefix_that_fits(
    tokens: tuple[int, ...], budget: int, limit: int | None, kept: int, reason: str
) -> None:
    ranking = ranked(*tokens)
    cut = truncate(ranking, budget, limit)
    assert list(cut.kept) == ranking[:kept]
    assert list(cut.dropped) == ranking[kept:]
    assert cut.reason == reason


def test_pinned_records_count_like_all_others() -> None:
    ranking = [Scored(make_record(id, tokens=10, pinned=True), 0) for id in (1, 2, 3)]
    assert len(truncate(ranking, 25, 20).kept) == 2
    assert len(truncate(ranking, 99, 1).kept) == 1


def test_without_last() -> None:
    ranking = ranked(1, 1, 1)
    cut = truncate(ranking, 9, 2).without_last()
    assert (list(cut.kept), list(cut.dropped), cut.reason) == (ranking[:1], ranking[1:], "over_budget")
