"""Rollups of an earlier version, until the worker has rebuilt them and afterwards."""

from datetime import timedelta
from math import inf

import pytest

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.histograms import RATIO
from dashboard.rollups.models import DayRollup, DaySummary, HourSummary, QuarterRollup, StaleDay
from dashboard.rollups.verify import verify_rollups
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import assert_figures_are_those_of_the_rows, mark_all_stale, whole
from tests.factories import NOW, make_space, make_team

FIGURES = ("ms", "tokens", "utilisation", "ratio")
UNKNOWN_ENDS = {
    f"{figure}_{end}": value for figure in FIGURES for end, value in (("smallest", 0), ("largest", inf))
}


@pytest.mark.django_db(transaction=True)
def test_percentiles_of_rollups_that_did_not_know_their_values() -> None:
    team = make_team("older", time_zone="Europe/Oslo")
    space = make_space(team)
    for number in range(60):
        at = NOW - timedelta(hours=number)
        log_row(space, at, assembly_ms=10.0 + number, records_filtered=5_000, records_included=1 + number % 9)
    keep_rollups()
    for rollup in (QuarterRollup, DayRollup, HourSummary, DaySummary):
        rollup._default_manager.update(ratio_histogram=[0] * RATIO.size, **UNKNOWN_ENDS)
    mark_all_stale(team)
    check_unknown_ends(team)
    # Rollups that wait to be rebuilt are no difference.
    assert list(verify_rollups(team.pk)) == []
    assert StaleDay.objects.filter(team=team).exists()
    while StaleDay.objects.exists():
        keep_rollups()
    assert list(verify_rollups(team.pk)) == []
    assert_figures_are_those_of_the_rows(team, "Europe/Oslo")
    counts = [sum(row.ratio_histogram) for row in QuarterRollup.objects.filter(team=team)]
    assert sum(counts) == Assembly.objects.of(team).count() == 60


def check_unknown_ends(team: Team) -> None:
    figures = read_series(whole(team)).totals["space"]
    assert figures.p50_ms == pytest.approx(39, rel=0.12)
    assert figures.p99_ms is not None and 69 <= figures.p99_ms <= 69 * 1.13
    assert read_series(whole(team)).total.median_ratio is None
