"""Summaries and time zones against the rows that they are computed from."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import time_machine

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space
from dashboard.kit.periods import custom_period
from dashboard.rollups.fold import ALWAYS, keep_rollups, summarise, take_zone
from dashboard.rollups.models import DayRollup, DaySummary, HourSummary, QuarterRollup, RollupZone
from dashboard.rollups.queries import FigureFilter
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import (
    OSLO,
    assert_figures,
    assert_figures_are_those_of_the_rows,
    stored,
    whole,
)
from tests.factories import NOW, make_space


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
    # Without quarters, the few assemblies are not found in the log.
    assert_figures(whole(logged.team), list(Assembly.objects.of(logged.team)), exact_below=0)


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
