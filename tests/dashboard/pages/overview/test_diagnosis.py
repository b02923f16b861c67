import re
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.assemblies.models import Kind
from dashboard.kit.periods import recent_period
from dashboard.pages.overview.diagnosis import ADVICE, Observation, SpaceFacts, observe, point_out
from dashboard.pages.overview.figures import Figures, Series, StageFigures
from tests.factories import NOW

FINE = Figures(100, 0.3, 0.9, 0.2, 1_000, 4_000, 3_000, 15.0, 2.0, 5.0, 9.0, contexts=100)
VARIED = SpaceFacts(records=40, is_viewed=True, has_ages=True)
PERIOD = recent_period("7d", NOW, ZoneInfo("UTC"))
COSTLY = StageFigures(4, 100, 900.0, -50, 1_000)
OPPOSITE = {"more": "less", "less": "more"}


def found(
    figures: Figures = FINE,
    stages: tuple[StageFigures, ...] = (),
    facts: SpaceFacts = VARIED,
    **others: Figures,
) -> list[Observation]:
    totals = {"space": figures, **others}
    return observe(Series(PERIOD, figures, (), {}, stages, totals), facts)


def slugs(*args: object, **options: object) -> list[str]:
    return [observation.slug for observation in found(*args, **options)]


def test_nothing_stands_out_when_all_is_well() -> None:
    assert slugs() == []


def test_nothing_is_said_about_nothing() -> None:
    assert observe(Series(PERIOD, Figures(), ()), replace(VARIED, is_viewed=False)) == []


def test_slow_is_above_the_target_and_not_at_it() -> None:
    assert slugs(FINE._replace(p95_ms=500.0)) == []
    assert slugs(FINE._replace(p95_ms=500.1)) == ["slow-space"]


def test_a_half_empty_budget() -> None:
    assert slugs(FINE._replace(utilisation=0.49)) == ["half-empty"]


def test_truncation_in_most_requests() -> None:
    assert slugs(FINE._replace(truncation_rate=0.51)) == ["truncated"]


def test_a_stage_4_that_costs_more_than_stage_3() -> None:
    assert slugs(stages=(COSTLY,)) == ["costly"]
    assert slugs(stages=(replace(COSTLY, tokens_saved=50),)) == []


def test_flat_scores() -> None:
    assert slugs(facts=replace(VARIED, is_viewed=False, has_ages=False)) == ["flat"]
    assert slugs(facts=replace(VARIED, is_viewed=False)) == ["unviewed"]
    assert slugs(facts=replace(VARIED, is_viewed=False, weighs_views=False)) == []


def test_few_assemblies_raise_no_alarm() -> None:
    bad = FINE._replace(assemblies=19, contexts=19, p95_ms=900.0, utilisation=0.1, truncation_rate=0.9)
    assert slugs(bad, (replace(COSTLY, assemblies=19),)) == []
    many = bad._replace(assemblies=20, contexts=20)
    assert slugs(many, (replace(COSTLY, assemblies=20),)) == [
        "slow-space",
        "costly",
        "half-empty",
        "truncated",
    ]


def test_each_kind_is_slow_for_its_own_reasons() -> None:
    slow = FINE._replace(p95_ms=1_369.0)
    [agents] = found(agent=slow)
    assert agents.slug == "slow-agent"
    assert "agent contexts" in agents.title
    assert "100 agent contexts" in agents.seen
    assert "database" not in " ".join(agents.causes)
    assert "loads before its first agent context" in agents.causes[0]
    assert agents.rows == {"slow": "yes", "kind": "agent"}
    for kind in Kind.values:
        [one] = found(**{"figures": slow} if kind == "space" else {kind: slow})
        [most] = found(**{kind if kind != "space" else "figures": slow._replace(p50_ms=800.0)})
        assert len(one.causes) > 1 and len(most.causes) > 1
        assert one.causes != most.causes
        # A database that is slow is slow for all.
        assert "database" not in " ".join(one.causes)


def test_questions_alone_need_the_embedding_model() -> None:
    slow, asked = FINE._replace(p95_ms=900.0), (StageFigures(5, 30, 900.0, 50, 1_000),)
    [without], [with_questions] = found(slow), found(slow, asked)
    assert "embedding" not in " ".join(without.causes)
    assert "embedding model" in " ".join(with_questions.causes)


@pytest.mark.parametrize(
    ("total", "seen", "rows"),
    [
        (
            FINE._replace(p50_ms=40.0, p95_ms=900.0), ("100", "40", "900", "500"),
            {"slow": "yes", "kind": "space"},
        ),
        (FINE._replace(utilisation=0.12), ("15.0 records", "100 contexts"), {"kind": "space"}),
        (FINE._replace(truncation_rate=0.75), ("75 of 100",), {"truncated": "yes", "kind": "space"}),
    ],
)  # fmt: skip
def test_what_was_seen_is_said_with_numbers_and_leads_to_the_rows(
    total: Figures, seen: tuple[str, ...], rows: dict[str, str]
) -> None:
    ((observation, address),) = point_out(found(total), lambda more: f"?{sorted(more.items())}")
    assert all(number in observation.seen for number in seen)
    assert address == f"?{sorted(rows.items())}"
    assert observation.causes


def test_a_costly_stage_is_told_with_both_sums_and_its_number() -> None:
    (costly,) = found(stages=(COSTLY,))
    assert all(number in costly.seen for number in ("100 contexts", "1,050", "1,000"))
    assert costly.rows == {"stage": "4"}


def test_a_question_may_cost_more() -> None:
    assert found(stages=(StageFigures(5, 100, 900.0, -50, 1_000),)) == []


def test_no_cause_is_called_certain() -> None:
    """A cause is one of several possible ones in a list, and never a sentence of its own."""
    totals = [
        FINE._replace(p95_ms=900.0), FINE._replace(utilisation=0.1), FINE._replace(truncation_rate=0.9)
    ]  # fmt: skip
    for total in totals:
        (observation,) = found(total)
        assert len(observation.causes) > 1
        assert not any(cause.endswith(".") for cause in observation.causes)


def test_default_settings_that_cost_more_and_leave_room() -> None:
    """Both cards once spoke of the record limit, one for a lower and one for a higher one."""
    costly, half_empty = found(FINE._replace(utilisation=0.3), (COSTLY,))
    assert costly.remedy == "Lower the record limit if answers stay good with less."
    assert half_empty.remedy == "Lower the context budget."


COUNTS = st.sampled_from([0, 1, 19, 20, 21, 500])
SHARES = st.none() | st.sampled_from([0.0, 0.1, 0.49, 0.5, 0.51, 0.95, 1.0])
FIGURES = st.builds(
    lambda n, p50, more, **shares: FINE._replace(
        assemblies=n, contexts=n, p50_ms=p50, p95_ms=p50 + more, p99_ms=p50 + more, **shares
    ),
    COUNTS, st.sampled_from([1.0, 499.0, 501.0]), st.sampled_from([0.0, 2.0, 900.0]),
    utilisation=SHARES, truncation_rate=SHARES,
)  # fmt: skip
STAGES = st.lists(
    st.builds(
        StageFigures, st.sampled_from([2, 3, 4, 5]), COUNTS, st.just(900.0), st.integers(-9, 9), st.just(50)
    ),
    unique_by=lambda row: row.stage,
).map(tuple)


@given(
    figures=FIGURES,
    others=st.dictionaries(st.sampled_from(sorted(set(Kind.values) - {"space"})), FIGURES),
    stages=STAGES,
    facts=st.builds(SpaceFacts, st.integers(0, 50), *[st.booleans()] * 8),
)
def test_cards_never_contradict_each_other(
    figures: Figures, others: dict[str, Figures], stages: tuple[StageFigures, ...], facts: SpaceFacts
) -> None:
    cards = found(figures, stages, facts, **others)
    assert len({card.slug for card in cards}) == len(cards)
    advised = {each for card in cards for each in card.advice}
    assert not [each for each in advised if (each[0], OPPOSITE[each[1]]) in advised]
    for card in cards:
        # The remedy names the settings that are advised, and no others.
        assert {each for each in ADVICE if ADVICE[each] in card.remedy.lower()} == set(card.advice)
        assert re.search(r"\d", card.seen), card
        assert card.remedy and card.causes
    asks = sum(row.assemblies for row in stages if row.stage == 5) > sum(
        row.assemblies for row in stages if row.stage == 4
    )
    if not (facts.has_question_window if asks else facts.has_window):
        assert ("window", "more") not in advised
    if not (facts.has_question_limit if asks else facts.has_limit):
        assert ("limit", "more") not in advised
    if facts.is_adaptive:
        assert "half-empty" not in {card.slug for card in cards}
