"""The aggregation against figures worked out by hand."""

from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from zoneinfo import ZoneInfo

import pytest

from contextopt.models import Assembly, Space, Team
from dashboard.kit.periods import recent_period
from dashboard.pages.overview.figures import read_score_spread, read_series
from dashboard.rollups.prices import read_prices
from dashboard.rollups.sources import FigureFilter
from tests.factories import NOW, make_record, make_space, make_team
from tests.queries import count_queries

JUST_NOW = NOW - timedelta(minutes=1)


def log_row(space: Space, created_at: datetime, **overrides: object) -> Assembly:
    """Write a log row with the given numbers."""
    numbers = {
        "stage": 4, "records_filtered": 10, "records_included": 4, "over_record_limit": 6,
        "tokens_before": 500, "tokens_after": 400, "tokens_available": 2_000, "truncated": True,
        "assembly_ms": 5.0, "as_of": created_at, "encoding": "cl100k_base", "tokenizer_version": "1",
        "sha256": "ab" * 32,
    }  # fmt: skip
    return Assembly.objects.create(
        team=space.team, space=space, created_at=created_at, **{**numbers, **overrides}
    )


def ask(team: Team, range_name: str = "14d", zone: str = "UTC", **overrides: object) -> FigureFilter:
    period = recent_period(range_name, NOW, ZoneInfo(zone))
    return FigureFilter(team_id=team.pk, period=period, **overrides)


def test_totals_are_those_of_the_rows(space: Space) -> None:
    for number in range(1, 101):
        log_row(space, NOW - timedelta(hours=number), assembly_ms=float(number), truncated=number <= 25)
    log_row(space, JUST_NOW, records_filtered=0, records_included=0, over_record_limit=0, truncated=False,
            stage=2, tokens_before=100, tokens_after=300, assembly_ms=50.5)  # fmt: skip
    total = read_series(ask(space.team)).total
    assert total.assemblies == 101
    assert total.ratio == pytest.approx(0.4)
    assert total.utilisation == pytest.approx((100 * 0.2 + 0.15) / 101)
    assert total.truncation_rate == pytest.approx(25 / 101)
    assert total.tokens_saved == 100 * 100 - 200
    # A bucket is 12 % wide.
    assert total.p50_ms == pytest.approx(median([*range(1, 101), 50.5]), rel=0.12)
    assert total.p95_ms == pytest.approx(95, rel=0.12)
    assert total.p99_ms == pytest.approx(99, rel=0.12)


def test_a_context_that_was_not_sent_is_neither_a_saving_nor_a_cost(space: Space) -> None:
    prompt = {
        "prompt_tokens": 900, "shared_prefix_tokens": 0, "cached_tokens": 0, "cacheable_tokens": 900,
        "carried_tokens": 100, "conversation": "c-1",
    }  # fmt: skip
    log_row(space, JUST_NOW, is_sent=False, **prompt)
    total = read_series(ask(space.team)).total
    assert (total.assemblies, total.utilisation) == (1, 0.2)
    assert (total.tokens_saved, total.tokens_before, total.tokens_after) == (0, 0, 0)
    assert (total.prompts, total.prompt_tokens) == (0, 0)


NO_RECORDS = {"records_filtered": 0, "records_included": 0, "over_record_limit": 0, "truncated": False}


def test_contexts_without_an_answer_are_no_saving(space: Space) -> None:
    log_row(space, JUST_NOW, tokens_before=500, tokens_after=600)
    for number in range(20):
        log_row(space, JUST_NOW, **NO_RECORDS, tokens_before=500, tokens_after=30 + number)
    log_row(space, JUST_NOW, warning_codes=["nothing_relevant"], tokens_before=500, tokens_after=100)
    log_row(space, JUST_NOW, kind="retry", stage=None, tokens_before=500, tokens_after=0)
    total = read_series(ask(space.team)).total
    assert (total.tokens_saved, total.tokens_before) == (-100, 500)
    assert (total.empties, total.contexts) == (20, 22)
    assert total.empty_rate == pytest.approx(20 / 22)


def test_utilisation_is_of_a_spaces_budget_alone(space: Space) -> None:
    log_row(space, JUST_NOW, tokens_after=1_000)
    for kind in ("retry", "phase", "handoff"):
        log_row(space, JUST_NOW, kind=kind, stage=None, tokens_after=100)
    series = read_series(ask(space.team))
    assert series.total.utilisation == 0.5
    assert series.total.median_utilisation == pytest.approx(0.5, abs=0.03)
    assert {kind: max(p.utilisation or 0 for p in points) for kind, points in series.kinds.items()} == {
        "space": 0.5, "retry": 0, "phase": 0, "handoff": 0,
    }  # fmt: skip


def test_buckets_are_the_days_of_the_teams_zone(space: Space) -> None:
    # 23:30 UTC is the next day in Oslo.
    log_row(space, datetime(2026, 6, 13, 23, 30, tzinfo=UTC))
    utc = read_series(ask(space.team)).points
    oslo = read_series(ask(space.team, zone="Europe/Oslo")).points
    assert [number for number, point in enumerate(utc) if point.assemblies] == [11]
    assert [number for number, point in enumerate(oslo) if point.assemblies] == [12]


def test_points_add_up_to_the_total(space: Space) -> None:
    for hours in range(0, 400, 7):
        log_row(space, NOW - timedelta(hours=hours))
    series = read_series(ask(space.team))
    assert sum(point.assemblies for point in series.points) == series.total.assemblies > 0


def test_filters_narrow(space: Space) -> None:
    other = make_space(space.team, "other")
    log_row(space, JUST_NOW)
    log_row(other, JUST_NOW, stage=3, tokens_before=None)
    assert read_series(ask(space.team)).total.assemblies == 2
    assert read_series(ask(space.team, space_id=space.pk)).total.assemblies == 1
    assert read_series(ask(space.team, stage=3)).total.tokens_saved == 0


def test_teams_and_periods_are_apart(space: Space) -> None:
    theirs = make_space(make_team("rivals"))
    log_row(theirs, JUST_NOW)
    log_row(space, NOW - timedelta(days=20))
    wanted = ask(space.team)
    assert read_series(wanted).total.assemblies == 0
    assert read_series(wanted.before()).total.assemblies == 1


def test_nothing_measured_is_none_and_not_zero(team: Team) -> None:
    total = read_series(ask(team)).total
    assert total.ratio is None
    assert total.p95_ms is None


def test_stages_stand_side_by_side(space: Space) -> None:
    for tokens in (100, 200, 900):
        log_row(space, JUST_NOW, stage=3, tokens_before=None, tokens_after=tokens)
    log_row(space, JUST_NOW, tokens_before=100, tokens_after=150)
    third, fourth = read_series(ask(space.team)).stages
    assert (third.stage, third.assemblies, third.saving_rate) == (3, 3, None)
    assert third.median_tokens == pytest.approx(200, rel=0.19)
    assert (fourth.tokens_saved, fourth.saving_rate) == (-50, -0.5)


def test_each_question_is_one_query(space: Space) -> None:
    log_row(space, JUST_NOW)
    wanted = ask(space.team)
    prices = read_prices(wanted)
    for question in (partial(read_series, prices=prices), read_prices, read_score_spread):
        assert count_queries(partial(question, wanted)) == 1


def test_the_spread_of_scores(space: Space) -> None:
    wanted = ask(space.team)
    assert not read_score_spread(wanted).has_records
    make_record(space, date=NOW)
    make_record(space, date=NOW - timedelta(hours=2))
    spread = read_score_spread(wanted)
    assert (spread.has_records, spread.is_viewed, spread.has_ages) == (True, False, False)
    make_record(space, date=NOW - timedelta(days=3), view_count=1)
    spread = read_score_spread(wanted)
    assert (spread.is_viewed, spread.has_ages) == (True, True)
