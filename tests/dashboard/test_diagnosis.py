from dataclasses import replace

from dashboard.diagnosis import observe
from dashboard.metrics import Figures, ScoreSpread, StageFigures

FINE = Figures(100, 0.3, 0.9, 0.2, 1_000, 4_000, 3_000, 15.0, 2.0, 5.0, 9.0)
VARIED = ScoreSpread(has_records=True, is_viewed=True, has_ages=True)


def slugs(
    total: Figures = FINE, stages: tuple[StageFigures, ...] = (), spread: ScoreSpread = VARIED
) -> list[str]:
    return [observation.slug for observation in observe(total, list(stages), spread)]


def test_nothing_stands_out_when_all_is_well() -> None:
    assert slugs() == []


def test_nothing_is_said_about_nothing() -> None:
    assert slugs(Figures(), spread=replace(VARIED, is_viewed=False)) == []


def test_slow_is_above_the_target_and_not_at_it() -> None:
    assert slugs(replace(FINE, p95_ms=500.0)) == []
    assert slugs(replace(FINE, p95_ms=500.1)) == ["slow"]


def test_a_half_empty_budget() -> None:
    assert slugs(replace(FINE, utilisation=0.49)) == ["half-empty"]


def test_truncation_in_most_requests() -> None:
    assert slugs(replace(FINE, truncation_rate=0.51)) == ["truncated"]


def test_a_stage_4_that_costs_more_than_stage_3() -> None:
    assert slugs(stages=(StageFigures(4, 10, 900.0, -50, 1_000),)) == ["costly"]
    assert slugs(stages=(StageFigures(4, 10, 900.0, 50, 1_000),)) == []


def test_flat_scores() -> None:
    assert slugs(spread=ScoreSpread(True, False, False)) == ["flat"]
    assert slugs(spread=ScoreSpread(True, False, True)) == ["unviewed"]
