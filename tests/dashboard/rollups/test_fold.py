"""Rollups against the rows that they were made of."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from math import ceil
from time import monotonic, sleep
from zoneinfo import ZoneInfo

import psycopg
import pytest
import time_machine
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from contextopt.locks import Lock, take_for_session
from contextopt.models import Assembly, Space, Team
from contextopt.spaces.spaces import delete_space
from dashboard.kit.periods import custom_period
from dashboard.models import (
    DayRollup,
    DaySummary,
    HourSummary,
    QuarterRollup,
    RollupZone,
    StaleDay,
    UnfoldedAssembly,
)
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import ALWAYS, fold, keep_rollups, rebuild, summarise, take_zone
from dashboard.rollups.histograms import ASSEMBLY_MS, HISTOGRAMS, TOKENS, Histogram
from dashboard.rollups.sources import FigureFilter
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_space, make_team

OSLO = "Europe/Oslo"
ROW = """
INSERT INTO contextopt_assembly (
    team_id, space_id, kind, stage, phase, model, conversation, actor, as_of, created_at, records_filtered,
    records_included, over_record_limit, over_budget, outside_window, deleted, tokens_before, tokens_after,
    tokens_available, total_tokens, system_tokens, history_tokens, response_tokens, truncated, warning_codes,
    assembly_ms, encoding, tokenizer_version, sha256, is_demo)
VALUES (%(team)s, %(space)s, %(kind)s, %(stage)s, '', %(model)s, '', '', %(at)s, %(at)s, %(filtered)s,
        %(included)s, %(filtered)s - %(included)s, 0, 0, 0, %(before)s, %(after)s, %(available)s, 0, 0, 0, 0,
        %(filtered)s > %(included)s, %(codes)s, %(ms)s, 'x', '1', '', false)
"""


@st.composite
def rows(draw: st.DrawFn) -> dict[str, object]:
    filtered = draw(st.integers(0, 60))
    available = draw(st.sampled_from([0, 1_000, 2_000]))
    return {
        "kind": draw(st.sampled_from(["space", "space", "retry"])),
        "stage": draw(st.sampled_from([2, 3, 4])),
        "codes": draw(st.sampled_from([[], [], ["note"], ["note", "nothing_relevant"]])),
        "model": draw(st.sampled_from(["", "large"])),
        "at": NOW - timedelta(seconds=draw(st.integers(0, 3 * 86_400))),
        "filtered": filtered,
        "included": draw(st.integers(0, filtered)),
        "before": draw(st.none() | st.integers(0, 3_000)),
        "after": draw(st.integers(0, available)),
        "available": available,
        "ms": draw(st.floats(0, 20_000)),
    }


@contextmanager
def other_session() -> Iterator[psycopg.Connection]:
    """Connect to the test database as another process does."""
    database = connection.settings_dict["NAME"]
    with psycopg.connect(make_conninfo(**(settings.DATABASE_PARAMS | {"dbname": database}))) as session:
        yield session


def whole(team: Team, zone: str = "UTC") -> FigureFilter:
    last = NOW.astimezone(ZoneInfo(zone)).date()
    period = custom_period(last - timedelta(days=6), last, NOW + timedelta(minutes=1), ZoneInfo(zone))
    return FigureFilter(team.pk, period)


def hourly(team: Team, zone: str = "UTC") -> FigureFilter:
    """Return a filter of the last two days, in hours."""
    last = NOW.astimezone(ZoneInfo(zone)).date()
    period = custom_period(last - timedelta(days=1), last, NOW + timedelta(minutes=1), ZoneInfo(zone))
    return FigureFilter(team.pk, period)


def assert_figures_are_those_of_the_rows(team: Team, zone: str = "UTC") -> None:
    """Compare the figures of all spaces, which come from summaries, and of each space, which don't."""
    for wanted in (whole(team, zone), hourly(team, zone)):
        start, until = wanted.period.start, wanted.period.until
        log = list(Assembly.objects.of(team).filter(created_at__gte=start, created_at__lt=until))
        assert_figures(wanted, log)
        for space in Space.objects.of(team):
            assert_figures(replace(wanted, space_id=space.pk), [row for row in log if row.space == space])


def assert_figures(wanted: FigureFilter, log: list[Assembly]) -> None:
    series = read_series(wanted)
    for figures, part in [
        (series.total, log),
        *(
            (point, [row for row in log if bucket.start <= row.created_at < bucket.end])
            for bucket, point in series.rows
        ),
    ]:
        assert figures.assemblies == len(part)
        if not part:
            continue
        compared = [row for row in part if row.saving_counts]
        contexts = [row for row in part if row.kind == "space"]
        assert figures.tokens_after == sum(row.tokens_after for row in part)
        assert figures.tokens_before == sum(row.tokens_before for row in compared)
        assert figures.tokens_saved == sum(row.tokens_saved for row in compared)
        assert figures.truncation_rate == pytest.approx(sum(row.truncated for row in part) / len(part))
        assert (figures.contexts, figures.empties) == (len(contexts), sum(row.is_empty for row in part))
        if contexts:
            included = sum(row.records_included for row in contexts)
            assert figures.records_included == pytest.approx(included / len(contexts))
        assert_average(figures.ratio, [row.compression_ratio for row in part])
        assert_average(figures.utilisation, [row.utilisation for row in part])
        for share, found in ((0.5, figures.p50_ms), (0.95, figures.p95_ms), (0.99, figures.p99_ms)):
            assert_in_bucket(ASSEMBLY_MS, found, [row.assembly_ms for row in part], share)
    for stage in series.stages:
        tokens = [row.tokens_after for row in log if row.stage == stage.stage]
        assert_in_bucket(TOKENS, stage.median_tokens, tokens, 0.5)


def assert_average(found: float | None, values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    assert found == (pytest.approx(sum(known) / len(known)) if known else None)


def assert_in_bucket(histogram: Histogram, found: float | None, values: list[float], share: float) -> None:
    """Check that the bucket is the nearest-rank percentile's. The last bucket has no width."""
    exact = sorted(values)[max(1, ceil(share * len(values))) - 1]
    low, high = histogram.bounds(histogram.bucket_of(exact))
    assert found is not None
    assert low <= found <= high


@pytest.mark.django_db(transaction=True)
@hypothesis_settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batches=st.lists(st.lists(rows(), min_size=1, max_size=4), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_commits_out_of_order_are_all_counted_once(
    batches: list[list[dict[str, object]]], order, django_db_blocker
) -> None:
    """Transactions begin in one order and commit in another, with folding in between."""
    Team.objects.all().delete()
    team = make_team("folded", time_zone=OSLO)
    space = make_space(team)
    with ExitStack() as sessions:
        open_ones = [sessions.enter_context(other_session()) for _ in batches]
        for session, batch in zip(open_ones, batches, strict=True):
            for row in batch:
                session.execute(ROW, row | {"team": team.pk, "space": space.pk})
        order.shuffle(open_ones)
        for session in open_ones:
            session.commit()
            if order.random() < 0.7:
                fold(rows=order.choice([1, 3, 1_000]))
            assert_figures_are_those_of_the_rows(team, OSLO)
        sessions.pop_all()
        for session in open_ones:
            session.close()
    keep_rollups()
    assert not UnfoldedAssembly.objects.exists()
    assert_figures_are_those_of_the_rows(team, OSLO)
    list(rebuild(team))
    assert_figures_are_those_of_the_rows(team, OSLO)


def stored() -> list[tuple[object, ...]]:
    kept = ("start", "stage", "assemblies", "empties", "tokens_after", "ratios", "ms_histogram")
    tables = (QuarterRollup, DayRollup, HourSummary, DaySummary)
    return sorted((*map(str, row),) for table in tables for row in table.objects.values_list(*kept))


@pytest.fixture
def logged(space: Space) -> Space:
    for hours in range(0, 60, 5):
        log_row(space, NOW - timedelta(hours=hours), stage=3 + hours % 2, assembly_ms=float(hours + 1))
    return space


def test_folding_again_changes_nothing(logged: Space) -> None:
    assert fold() == 12
    before = stored()
    assert fold() == 0
    assert keep_rollups() == 0
    assert stored() == before


def test_rebuilding_gives_what_folding_gave(logged: Space) -> None:
    fold(rows=5)
    fold()
    before = stored()
    list(rebuild(logged.team))
    assert stored() == before


def test_rebuilding_counts_what_was_not_folded_yet_once(logged: Space) -> None:
    fold(rows=4)
    list(rebuild(logged.team))
    assert fold() == 0
    assert_figures_are_those_of_the_rows(logged.team)


def test_a_step_that_fails_is_done_again(logged: Space) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE dashboard_dayrollup ADD CONSTRAINT never CHECK (assemblies < 0) NOT VALID"
        )
    with pytest.raises(Exception, match="never"):
        _in_savepoint(fold)
    assert UnfoldedAssembly.objects.count() == 12
    assert not QuarterRollup.objects.exists()


def _in_savepoint(act: Callable[[], object]) -> None:
    from django.db import transaction

    with transaction.atomic():
        act()


def test_deleted_assemblies_are_taken_away(logged: Space) -> None:
    keep_rollups()
    Assembly.objects.filter(created_at__lt=NOW - timedelta(hours=30)).delete()
    assert StaleDay.objects.exists()
    keep_rollups()
    assert not StaleDay.objects.exists()
    assert_figures_are_those_of_the_rows(logged.team)
    assert read_series(whole(logged.team)).total.assemblies == Assembly.objects.count() > 0


def test_rollups_of_the_version_before_are_made_again(logged: Space) -> None:
    log_row(logged, NOW - timedelta(days=2), records_filtered=0, records_included=0, over_record_limit=0)
    keep_rollups()
    right = stored()
    for table in (QuarterRollup, DayRollup, HourSummary, DaySummary):
        table.objects.update(empties=0, tokens_saved=F("tokens_saved") + 100, with_utilisation=1)
    assert stored() != right
    upgrade = import_module("dashboard.migrations.0006_counted_savings")
    with connection.cursor() as cursor:
        cursor.execute(upgrade.MARK_STALE)
    keep_rollups()
    assert not StaleDay.objects.exists()
    assert stored() == right
    assert_figures_are_those_of_the_rows(logged.team)


def test_a_deleted_space_takes_its_rollups_along(logged: Space) -> None:
    other = make_space(logged.team, "other")
    log_row(other, NOW)
    keep_rollups()
    delete_space(space=logged)
    assert not StaleDay.objects.exists()
    assert QuarterRollup.objects.get().space_id == other.pk
    # The summaries are out of date until the job has run, and are not read.
    assert sum(DaySummary.objects.values_list("assemblies", flat=True)) == 13
    assert_figures_are_those_of_the_rows(logged.team)
    keep_rollups()
    assert RollupZone.objects.get().summarised_since == ALWAYS[0]
    assert DaySummary.objects.get().assemblies == HourSummary.objects.get().assemblies == 1
    assert_figures_are_those_of_the_rows(logged.team)


def test_what_is_deleted_before_it_is_folded_is_never_counted(logged: Space) -> None:
    delete_space(space=logged)
    keep_rollups()
    assert not UnfoldedAssembly.objects.exists()
    assert not QuarterRollup.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_space_that_is_being_deleted_holds_nothing_up() -> None:
    team = make_team("busy")
    going, staying = make_space(team, "going"), make_space(team, "staying")
    log_row(going, NOW)
    log_row(staying, NOW)
    with other_session() as session:
        session.execute("DELETE FROM contextopt_space WHERE id = %s", [going.pk])
        assert fold() == 1
        session.commit()
    keep_rollups()
    assert_figures_are_those_of_the_rows(team)


@pytest.mark.django_db(transaction=True)
def test_only_one_folds_at_a_time_and_whoever_embeds_is_no_hindrance() -> None:
    space = make_space(make_team("busy"))
    log_row(space, NOW)
    with other_session() as session:
        assert take_for_session(session, Lock.EMBED)
        assert fold() == 1
        log_row(space, NOW)
        assert take_for_session(session, Lock.ROLLUPS)
        assert fold() is None
    # The server notices a moment later that the session has ended.
    ends = monotonic() + 10
    while (folded := fold()) is None and monotonic() < ends:
        sleep(0.05)
    assert folded == 1


def test_another_time_zone_is_right_at_once_and_fast_after_the_job(logged: Space) -> None:
    team = logged.team
    keep_rollups()
    Team.objects.filter(pk=team.pk).update(time_zone="Asia/Kathmandu")
    assert_figures_are_those_of_the_rows(team, "Asia/Kathmandu")
    keep_rollups()
    assert RollupZone.objects.get(team=team).time_zone == "Asia/Kathmandu"
    first = DayRollup.objects.order_by("start").first()
    # Midnight in Kathmandu is 18:15 UTC.
    assert (first.start.astimezone(UTC).hour, first.start.minute) == (18, 15)
    assert_figures_are_those_of_the_rows(team, "Asia/Kathmandu")
    before = stored()
    take_zone(team)
    assert stored() == before


def test_summaries_add_up_all_spaces(logged: Space) -> None:
    other = make_space(logged.team, "other")
    log_row(logged, NOW, model="large")
    log_row(other, NOW, model="large")
    keep_rollups()
    assert QuarterRollup.objects.filter(model="large").count() == 2
    summary = DaySummary.objects.get(model="large")
    assert (summary.assemblies, summary.stage, summary.tokens_after) == (2, 4, 800)
    assert sum(summary.ms_histogram) == 2
    assert_figures_are_those_of_the_rows(logged.team)


def test_summaries_are_read(logged: Space) -> None:
    keep_rollups()
    QuarterRollup.objects.filter(start__lt=NOW.replace(minute=0)).delete()
    DayRollup.objects.all().delete()
    assert_figures(whole(logged.team), list(Assembly.objects.of(logged.team)))


def test_summaries_are_made_again_the_newest_first(team: Team) -> None:
    space, gone = make_space(team), make_space(team, "gone")
    for days in range(0, 80, 4):
        log_row(space, NOW - timedelta(days=days))
        log_row(gone, NOW - timedelta(days=days))
    keep_rollups()
    delete_space(space=gone)
    with time_machine.travel(NOW, tick=False):
        assert not summarise(team)
        since = RollupZone.objects.get().summarised_since
        assert since == (NOW - timedelta(days=30)).replace(hour=0, minute=0, second=0, microsecond=0)
        assert set(DaySummary.objects.filter(start__gte=since).values_list("assemblies", flat=True)) == {1}
        assert set(DaySummary.objects.filter(start__lt=since).values_list("assemblies", flat=True)) == {2}
        for days in (7, 80):
            first, until = NOW.date() - timedelta(days=days - 1), NOW + timedelta(minutes=1)
            period = custom_period(first, NOW.date(), until, ZoneInfo("UTC"))
            log = Assembly.objects.of(team).filter(created_at__gte=period.start)
            assert_figures(FigureFilter(team.pk, period), list(log))
        assert not summarise(team)
        assert summarise(team)
    assert set(DaySummary.objects.values_list("assemblies", flat=True)) == {1}
    assert not RollupZone.objects.exclude(summarised_since=ALWAYS[0]).exists()


def test_hours_that_an_edge_divides_are_read_by_quarters(team: Team) -> None:
    """On Lord Howe Island the clock goes forward by half an hour; hours are counted from midnight."""
    place = "Australia/Lord_Howe"
    Team.objects.filter(pk=team.pk).update(time_zone=place)
    space, change = make_space(team), datetime(2026, 10, 3, 15, 30, tzinfo=UTC)
    for minutes in range(-60, 180, 20):
        log_row(space, change + timedelta(minutes=minutes))
    keep_rollups()
    day = change.astimezone(ZoneInfo(place)).date()
    period = custom_period(day, day, change + timedelta(days=1), ZoneInfo(place))
    wanted = FigureFilter(team.pk, period)
    log = Assembly.objects.of(team).filter(created_at__gte=period.start)
    assert_figures(wanted, list(log))


def test_an_hour_that_the_clock_repeats_is_two_hours(team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(time_zone=OSLO)
    space, change = make_space(team), datetime(2026, 10, 25, 1, tzinfo=UTC)
    for minutes in range(-90, 120, 30):
        log_row(space, change + timedelta(minutes=minutes))
    keep_rollups()
    day = change.astimezone(ZoneInfo(OSLO)).date()
    wanted = FigureFilter(team.pk, custom_period(day, day, change + timedelta(days=1), ZoneInfo(OSLO)))
    assert HourSummary.objects.count() == 4
    assert_figures(wanted, list(Assembly.objects.of(team)))


def test_an_idle_run_costs_one_query(team: Team) -> None:
    with CaptureQueriesContext(connection) as queries:
        keep_rollups()
    assert len(queries) == 1


def test_teams_are_apart(logged: Space) -> None:
    theirs = make_space(make_team("rivals"))
    log_row(theirs, NOW)
    keep_rollups()
    assert read_series(whole(theirs.team)).total.assemblies == 1
    assert read_series(whole(logged.team)).total.assemblies == 12


def test_the_command_makes_them_again(logged: Space, capsys: pytest.CaptureFixture[str]) -> None:
    keep_rollups()
    QuarterRollup.objects.all().delete()
    DayRollup.objects.all().delete()
    call_command("rebuild_rollups", team=logged.team.slug)
    assert "3 days made again, 12 rollups." in capsys.readouterr().out
    assert_figures_are_those_of_the_rows(logged.team)


@pytest.mark.parametrize("histogram", HISTOGRAMS, ids=lambda histogram: histogram.name)
@given(values=st.lists(st.floats(0, 1e6), min_size=1), share=st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_values_percentile(
    histogram: Histogram, values: list[float], share: float
) -> None:
    counts = [0.0] * histogram.size
    for value in values:
        counts[histogram.bucket_of(value)] += 1
    assert_in_bucket(histogram, histogram.percentile(counts, share), values, share)


def test_nothing_has_no_percentile() -> None:
    assert ASSEMBLY_MS.percentile([0.0] * ASSEMBLY_MS.size, 0.5) is None


def test_buckets_are_the_databases(space: Space) -> None:
    for value in (0.0, 0.5, 0.49, 5.0, 8_192.0, 1e9, *ASSEMBLY_MS.edges[::7]):
        Assembly.objects.all().delete()
        log_row(space, datetime(2026, 6, 1, tzinfo=UTC), assembly_ms=value)
        list(rebuild(space.team))
        counts = QuarterRollup.objects.get().ms_histogram
        assert [n for n, count in enumerate(counts) if count] == [ASSEMBLY_MS.bucket_of(value)]
