"""Rollups against the rows that they are computed from."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from time import monotonic, sleep

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from contextopt.assemblies.models import Assembly
from contextopt.locks import Lock, take_for_session
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import ALWAYS, fold, keep_rollups, rebuild
from dashboard.rollups.models import (
    DayRollup,
    DaySummary,
    HourSummary,
    QuarterRollup,
    RollupZone,
    StaleDay,
    UnfoldedAssembly,
)
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.rollups.compared import (
    OSLO,
    assert_figures_are_those_of_the_rows,
    mark_all_stale,
    stored,
    whole,
)
from tests.factories import NOW, make_space, make_team
from tests.queries import count_queries

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
    kind = draw(st.sampled_from(["space", "space", "retry"]))
    # Only contexts of spaces have records.
    filtered = draw(st.integers(0, 60)) if kind == "space" else 0
    available = draw(st.sampled_from([0, 1_000, 2_000]))
    return {
        "kind": kind,
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


@pytest.mark.django_db(transaction=True)
@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_stale_days_are_made_again(logged: Space) -> None:
    log_row(logged, NOW - timedelta(days=2), records_filtered=0, records_included=0, over_record_limit=0)
    keep_rollups()
    right = stored()
    for table in (QuarterRollup, DayRollup, HourSummary, DaySummary):
        table.objects.update(empties=0, tokens_saved=F("tokens_saved") + 100, with_utilisation=1)
    assert stored() != right
    mark_all_stale(logged.team)
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


def test_an_idle_run_costs_one_query(team: Team) -> None:
    assert count_queries(keep_rollups) == 1


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
    assert "Rebuilt 3 days, 12 rollups." in capsys.readouterr().out
    assert_figures_are_those_of_the_rows(logged.team)


def test_the_command_counts_one_day(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    log_row(make_space(team), NOW)
    call_command("rebuild_rollups", team=team.slug)
    assert "Rebuilt 1 day, 1 rollup." in capsys.readouterr().out
