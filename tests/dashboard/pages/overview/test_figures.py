"""The aggregation against figures worked out by hand."""

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.periods import recent_period
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.histograms import EXACT_BELOW
from dashboard.rollups.queries import FigureFilter, read_prices
from tests.factories import NOW, make_space, make_team
from tests.queries import count_queries

JUST_NOW = NOW - timedelta(minutes=1)


def log_row(space: Space, created_at: datetime, **overrides: object) -> Assembly:
    """Write a log row with the given numbers. Dropped records are over the limit."""
    numbers = {
        "stage": 4, "records_filtered": 10, "records_included": 4,
        "tokens_before": 500, "tokens_after": 400, "tokens_available": 2_000, "truncated": True,
        "assembly_ms": 5.0, "as_of": created_at, "encoding": "cl100k_base", "tokenizer_version": "1",
        "sha256": "ab" * 32,
    }  # fmt: skip
    row = {**numbers, **overrides}
    return Assembly.objects.create(
        team=space.team, space=space, created_at=created_at,
        **{**row, "over_record_limit": row["records_filtered"] - row["records_included"]},
    )  # fmt: skip


def settle(space: Space, at: datetime = JUST_NOW) -> None:
    """Log 20 contexts without a baseline: the period is no longer young, and its savings are the same."""
    for _ in range(EXACT_BELOW):
        log_row(space, at, tokens_before=None)


def ask(team: Team, range_name: str = "14d", zone: str = "UTC", **overrides: object) -> FigureFilter:
    period = recent_period(range_name, NOW, ZoneInfo(zone))
    return FigureFilter(team_id=team.pk, period=period, **overrides)


def test_totals_are_those_of_the_rows(space: Space) -> None:
    for number in range(1, 101):
        log_row(space, NOW - timedelta(hours=number), assembly_ms=float(number), truncated=number <= 25)
    log_row(space, JUST_NOW, records_filtered=0, records_included=0, truncated=False,
            stage=2, tokens_before=100, tokens_after=300, assembly_ms=50.5)  # fmt: skip
    total = read_series(ask(space.team)).total
    assert total.assemblies == 101
    assert total.ratio == pytest.approx(0.4)
    assert total.utilisation == pytest.approx((100 * 0.2 + 0.15) / 101)
    assert total.truncation_rate == pytest.approx(25 / 101)
    assert total.tokens_saved == 100 * 100 - 200


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


NO_RECORDS = {"records_filtered": 0, "records_included": 0, "truncated": False}


def test_contexts_without_an_answer_are_no_saving(space: Space) -> None:
    log_row(space, JUST_NOW, tokens_before=500, tokens_after=600)
    for number in range(20):
        log_row(space, JUST_NOW, **NO_RECORDS, tokens_before=500, tokens_after=30 + number)
    log_row(space, JUST_NOW, warning_codes=["nothing_relevant"], tokens_before=500, tokens_after=100)
    log_row(space, JUST_NOW, kind="retry", stage=None, tokens_before=500, tokens_after=0)
    total = read_series(ask(space.team)).total
    assert (total.tokens_saved, total.tokens_before) == (-100, 500)
    assert (total.empties, total.contexts) == (20, 22)
    assert total.emptiness.rate == pytest.approx(20 / 22)


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
    assert third.median_tokens == 200
    assert (fourth.tokens_saved, fourth.saving_rate) == (-50, -0.5)


def test_each_question_is_one_query(space: Space) -> None:
    log_row(space, JUST_NOW)
    wanted = ask(space.team)
    prices = read_prices(wanted)
    assert count_queries(partial(read_prices, wanted)) == 1
    # The second one reads the log, because there are few assemblies.
    assert count_queries(partial(read_series, wanted, prices)) == 2
    for _ in range(EXACT_BELOW):
        log_row(space, JUST_NOW)
    assert count_queries(partial(read_series, wanted, prices)) == 1


@pytest.mark.parametrize("is_folded", [False, True])
def test_the_percentiles_of_one_assembly_are_its_own_figures(space: Space, is_folded: bool) -> None:
    log_row(space, JUST_NOW, assembly_ms=70.8, tokens_after=256, records_filtered=900, records_included=7)
    if is_folded:
        keep_rollups()
    for wanted in (ask(space.team), ask(space.team, space_id=space.pk), ask(space.team, "24h")):
        series = read_series(wanted)
        for figures in (series.totals["space"], *(each for each in series.of_kind.points if each.assemblies)):
            assert (figures.p50_ms, figures.p95_ms, figures.p99_ms) == (70.8, 70.8, 70.8)
        assert series.total.median_ratio == 7 / 900
        assert series.total.median_utilisation == 0.128
        [stage] = series.stages
        assert (stage.median_tokens, stage.median_words) == (256, "256")


@pytest.mark.parametrize("is_folded", [False, True])
def test_below_twenty_values_percentiles_are_exact(space: Space, is_folded: bool) -> None:
    """Each kind and stage counts its own, however many others there are."""
    times = [round(3.7 * 1.31**number, 3) for number in range(19)]
    for number, ms in enumerate(times):
        at = NOW - timedelta(days=number % 5, minutes=number + 1)
        log_row(space, at, kind="agent", stage=None, assembly_ms=ms)
        log_row(space, at, stage=3, tokens_after=100 + number)
        log_row(space, at, assembly_ms=ms * 2)
    if is_folded:
        keep_rollups()
    series = read_series(ask(space.team))
    agents, stages = series.totals["agent"], {stage.stage: stage for stage in series.stages}
    assert (agents.p50_ms, agents.p95_ms, agents.p99_ms) == (times[9], times[18], times[18])
    today = sorted(times[::5])
    assert series.kinds["agent"][-1].p50_ms == today[1]
    assert (stages[3].median_tokens, stages[3].median_words) == (109, "109")
    # The 38 contexts of the space are too many to read; their percentiles stay among the values.
    contexts = series.totals["space"]
    assert contexts.p50_ms is not None and contexts.p50_ms == pytest.approx(5.0, rel=0.12)
    assert contexts.p99_ms == times[18] * 2
    narrowed = read_series(ask(space.team, kind="agent"))
    assert narrowed.totals == {"agent": agents}


@pytest.mark.parametrize("records", [401, 40_000, 2_000_000])
def test_the_median_ratio_is_among_the_ratios(space: Space, records: int) -> None:
    for number in range(40):
        log_row(space, JUST_NOW, records_filtered=records, records_included=8 + number % 5)
    median_ratio = read_series(ask(space.team)).total.median_ratio
    assert median_ratio is not None
    assert 8 / records <= median_ratio <= 12 / records
    assert median_ratio == pytest.approx(10 / records, rel=0.2)


def test_times_of_different_kinds_are_apart(space: Space) -> None:
    for number in range(30):
        log_row(space, JUST_NOW - timedelta(minutes=number), truncated=number < 3)
    log_row(space, JUST_NOW, kind="agent", stage=None, assembly_ms=1_369.0, truncated=True)
    series = read_series(ask(space.team))
    assert (series.kind, series.of_kind.total.p99_ms) == ("space", 5.0)
    assert series.of_kind.total.truncation_rate == 0.1
    assert series.totals["agent"].p50_ms == 1_369.0
    assert series.totals["agent"].truncation_rate == 1.0
    only_agents = read_series(ask(space.team, kind="agent"))
    assert (only_agents.kind, only_agents.of_kind.total.p50_ms) == ("agent", 1_369.0)
