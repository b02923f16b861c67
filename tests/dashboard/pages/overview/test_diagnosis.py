from dataclasses import replace

import pytest

from dashboard.pages.overview.diagnosis import Observation, observe, point_out
from dashboard.pages.overview.figures import Figures, ScoreSpread, StageFigures

FINE = Figures(100, 0.3, 0.9, 0.2, 1_000, 4_000, 3_000, 15.0, 2.0, 5.0, 9.0)
VARIED = ScoreSpread(has_records=True, is_viewed=True, has_ages=True)


def found(
    total: Figures = FINE, stages: tuple[StageFigures, ...] = (), spread: ScoreSpread = VARIED
) -> list[Observation]:
    return observe(total, list(stages), spread)


def slugs(*args: object, **options: object) -> list[str]:
    return [observation.slug for observation in found(*args, **options)]


def test_nothing_stands_out_when_all_is_well() -> None:
    assert slugs() == []


def test_nothing_is_said_about_nothing() -> None:
    assert slugs(Figures(), spread=replace(VARIED, is_viewed=False)) == []


def test_slow_is_above_the_target_and_not_at_it() -> None:
    assert slugs(FINE._replace(p95_ms=500.0)) == []
    assert slugs(FINE._replace(p95_ms=500.1)) == ["slow"]


def test_a_half_empty_budget() -> None:
    assert slugs(FINE._replace(utilisation=0.49)) == ["half-empty"]


def test_truncation_in_most_requests() -> None:
    assert slugs(FINE._replace(truncation_rate=0.51)) == ["truncated"]


def test_a_stage_4_that_costs_more_than_stage_3() -> None:
    assert slugs(stages=(StageFigures(4, 10, 900.0, -50, 1_000),)) == ["costly"]
    assert slugs(stages=(StageFigures(4, 10, 900.0, 50, 1_000),)) == []


def test_flat_scores() -> None:
    assert slugs(spread=ScoreSpread(True, False, False)) == ["flat"]
    assert slugs(spread=ScoreSpread(True, False, True)) == ["unviewed"]


@pytest.mark.parametrize(
    ("total", "seen", "rows"),
    [
        (FINE._replace(p50_ms=40.0, p95_ms=900.0), ("100", "40", "900", "500"), {"slow": "yes"}),
        (FINE._replace(utilisation=0.12), ("15.0 records",), {"kind": "space"}),
        (FINE._replace(truncation_rate=0.75), ("75 of 100",), {"truncated": "yes"}),
    ],
)
def test_what_was_seen_is_said_with_numbers_and_leads_to_the_rows(
    total: Figures, seen: tuple[str, ...], rows: dict[str, str]
) -> None:
    ((observation, address),) = point_out(found(total), lambda more: f"?{sorted(more.items())}")
    assert all(number in observation.seen for number in seen)
    assert address == f"?{sorted(rows.items())}"
    assert observation.causes


def test_a_costly_stage_is_told_with_both_sums() -> None:
    (costly,) = found(stages=(StageFigures(4, 10, 900.0, -50, 1_000),))
    assert "1,050" in costly.seen and "1,000" in costly.seen
    assert costly.rows == {"stage": "4"}


def test_a_question_may_cost_more() -> None:
    assert found(stages=(StageFigures(5, 10, 900.0, -50, 1_000),)) == []


def test_no_cause_is_called_certain() -> None:
    """A cause is one of several possible ones in a list, and never a sentence of its own."""
    totals = [
        FINE._replace(p95_ms=900.0), FINE._replace(utilisation=0.1), FINE._replace(truncation_rate=0.9)
    ]  # fmt: skip
    for total in totals:
        (observation,) = found(total)
        assert len(observation.causes) > 1
        assert not any(cause.endswith(".") for cause in observation.causes)
