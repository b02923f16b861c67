from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.composition import SECTION_WEIGHTS, share_out

wants = st.dictionaries(st.sampled_from(sorted(SECTION_WEIGHTS)), st.integers(0, 10_000))


def test_modest_sections_get_all_they_want_and_the_others_divide_the_rest() -> None:
    shares = share_out(1_000, {"files": 9_000, "memories": 50, "docs": 9_000})
    assert shares == {"memories": 50, "files": 950 * 50 // 65, "docs": 950 * 15 // 65}


def test_without_a_budget_nobody_gets_anything() -> None:
    assert share_out(-5, {"files": 10, "docs": 0}) == {"files": 0, "docs": 0}


@given(st.integers(0, 20_000), wants)
def test_shares_are_within_wants_and_budget(budget: int, wanted: dict[str, int]) -> None:
    shares = share_out(budget, wanted)
    assert shares.keys() == wanted.keys()
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)
    assert sum(shares.values()) <= budget
    if sum(wanted.values()) <= budget:
        assert shares == wanted
