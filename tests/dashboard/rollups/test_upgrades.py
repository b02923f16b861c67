"""Rollups of an earlier version, until the worker has rebuilt them and afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from contextopt.models import Assembly, GatewayRequest, Space, Team
from dashboard.models import QuarterRollup, StaleDay, TrafficDay, TrafficQuarter
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.verify import verify_rollups
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import assert_figures_are_those_of_the_rows, whole
from tests.dashboard.rollups.test_traffic import make
from tests.factories import NOW, make_space, make_team

TIMES = (0.3, 20.0, 70.8)


@contextmanager
def before_migration(ending: str) -> Iterator[None]:
    """Take the dashboard's tables back to before the migration of this name, and forth again."""
    graph = MigrationExecutor(connection).loader.graph
    [since] = [node for node in graph.nodes if node[0] == "dashboard" and node[1].endswith(ending)]
    [before] = [parent.key for parent in graph.node_map[since].parents if parent.key[0] == "dashboard"]
    MigrationExecutor(connection).migrate([before])
    try:
        yield
    finally:
        MigrationExecutor(connection).migrate(graph.leaf_nodes("dashboard"))


@pytest.mark.django_db(transaction=True)
def test_percentiles_of_rollups_that_did_not_know_their_values() -> None:
    team = make_team("older", time_zone="Europe/Oslo")
    space = make_space(team)
    for number in range(60):
        at = NOW - timedelta(hours=number)
        log_row(space, at, assembly_ms=10.0 + number, records_filtered=5_000, records_included=1 + number % 9)
    keep_rollups()
    with before_migration("_percentiles"):
        for ms in TIMES:
            make(space, added_ms=ms)
    check_unknown_ends(team)
    check_traffic(space)
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


def check_traffic(space: Space) -> None:
    """The log of the gateway's prompts has the ends that were not kept."""
    assert GatewayRequest.objects.count() == len(TIMES)
    for table in (TrafficQuarter, TrafficDay):
        [row] = table._default_manager.filter(space=space).values_list("added_smallest", "added_largest")
        assert row == (0.3, 70.8)
    make(space, added_ms=90.0)
    assert TrafficDay.objects.get().added_largest == 90.0
