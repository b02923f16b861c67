from datetime import timedelta

import pytest

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.errors import Conflict, NotFound
from contextopt.locks import Lock, only_here
from contextopt.spaces.configs import ContextConfig
from memory.backtests.backtests import (
    BACKTESTS,
    KEPT,
    RUNNING_MAX,
    cancel_backtest,
    find_backtest,
    start_and_begin,
    start_backtest,
)
from memory.backtests.figures import figures_of, read_figures
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestState
from memory.tasks import backtest as backtest_job
from memory.tasks import resume_backtests
from memory.work import BATCH
from tests.concurrency import beside
from tests.memory.backtests.conftest import ask_all, make_draft

pytestmark = pytest.mark.django_db


def start(space, draft, last=200) -> Backtest:
    return start_backtest(space=space, data=BacktestIn(config=draft.version, last=last), actor="test")


def run(space, draft, last=200) -> Backtest:
    backtest = start(space, draft, last)
    BACKTESTS.complete(backtest)
    return backtest


def test_computes_what_each_context_would_have_been(space, asked, draft) -> None:
    backtest = run(space, draft)
    rows = {row.assembly_id: row for row in backtest.rows.all()}
    assert backtest.state == BacktestState.DONE
    assert set(rows) == {each.pk for each in asked}
    for each in Assembly.objects.select_related("payload", "space", "config", "team"):
        again, row = replay_assembly(each, ReplayIn(config=draft.version)), rows[each.pk]
        assert (row.tokens_before, row.tokens_after) == (each.tokens_after, again.result.certificate.tokens)
        assert (row.added, row.removed) == (again.added, again.removed)
        assert row.change == row.tokens_before - row.tokens_after > 0
        assert len(row.removed) == 5


def test_the_figures_are_the_sums_of_the_rows(space, asked, draft) -> None:
    backtest = run(space, draft)
    found, rows = figures_of(backtest), list(backtest.rows.all())
    assert (found.assemblies, found.done, found.replayed, found.not_replayable) == (4, 4, 4, 0)
    assert found.tokens_before == sum(each.tokens_after for each in asked)
    assert found.tokens_after == sum(row.tokens_after for row in rows)
    assert found.share == pytest.approx(found.tokens_after / found.tokens_before - 1)


def test_the_active_settings_change_nothing(space, asked) -> None:
    backtest = run(space, space.configs.get())
    found = figures_of(backtest)
    assert (found.tokens_after, found.more_tokens) == (found.tokens_before, 0)
    assert not backtest.rows.exclude(added=[], removed=[]).exists()


def test_takes_the_last_contexts(space, asked, draft) -> None:
    rows = run(space, draft, last=2).rows.order_by("pk")
    assert [row.assembly_id for row in rows] == [each.pk for each in asked[2:]]


def test_says_which_contexts_become_empty(space, asked) -> None:
    found = figures_of(run(space, make_draft(space, context_tokens=30)))
    assert (found.empty_before, found.empty_after, found.newly_empty) == (0, 4, 4)


def test_says_why_a_context_cannot_be_replayed(space, asked, draft, talk) -> None:
    purge_record(record=talk[0], actor="test")
    backtest = run(space, draft)
    assert {row.reason for row in backtest.rows.all()} == {"purged"}
    assert "purged" in backtest.rows.first().message
    assert (figures_of(backtest).replayed, figures_of(backtest).tokens_before) == (0, 0)


def test_a_refused_request_does_not_end_the_backtest(space, asked) -> None:
    # Settings that were stored before they were refused.
    draft = ContextConfig.objects.create(
        space=space, version=2, is_draft=True, settings=Settings(total_tokens=1_000)
    )
    backtest = run(space, draft)
    assert backtest.state == BacktestState.DONE
    assert figures_of(backtest).done == 4


def test_goes_on_where_it_was_left_without_doubling(space, talk, draft) -> None:
    ask_all(space, rounds=3)
    backtest = start(space, draft)
    assert BACKTESTS.go_on(backtest, seconds=0)
    first = {row.pk: row.tokens_after for row in backtest.rows.replayed()}
    assert len(first) == BATCH
    backtest_job(backtest.pk)
    backtest.refresh_from_db()
    found = figures_of(backtest)
    assert (backtest.state, found.done, found.assemblies) == (BacktestState.DONE, 12, 12)
    assert first.items() <= {row.pk: row.tokens_after for row in backtest.rows.replayed()}.items()
    assert not BACKTESTS.go_on(backtest, seconds=0)


def test_a_lost_backtest_is_taken_up_again(space, asked, draft) -> None:
    backtest = start(space, draft)
    resume_backtests()
    assert not backtest.rows.replayed().exists()
    Backtest.objects.update(worked_at=backtest.worked_at - timedelta(minutes=1))
    resume_backtests()
    backtest.refresh_from_db()
    assert backtest.state == BacktestState.DONE


def test_contexts_logged_meanwhile_are_not_taken(space, talk, draft) -> None:
    ask_all(space, rounds=3)
    backtest = start(space, draft)
    BACKTESTS.go_on(backtest, seconds=0)
    ask_all(space)
    BACKTESTS.complete(backtest)
    assert figures_of(backtest).assemblies == 12


def test_a_cancelled_backtest_keeps_what_was_computed(space, talk, draft) -> None:
    ask_all(space, rounds=3)
    backtest = start(space, draft)
    BACKTESTS.go_on(backtest, seconds=0)
    cancel_backtest(backtest=backtest)
    assert not BACKTESTS.go_on(backtest, seconds=9)
    assert (backtest.state, figures_of(backtest).done) == (BacktestState.CANCELLED, BATCH)
    with pytest.raises(Conflict, match="no longer running"):
        cancel_backtest(backtest=backtest)


@pytest.mark.django_db(transaction=True)
def test_two_processes_do_not_compute_at_once(space, asked, draft) -> None:
    backtest = start(space, draft)
    with only_here(Lock.BACKTEST, backtest.pk):
        assert not beside(lambda: BACKTESTS.go_on(backtest, seconds=9)).result(timeout=30)
    assert not backtest.rows.replayed().exists()


def test_refuses_what_cannot_be_computed(space, draft) -> None:
    with pytest.raises(Conflict, match="no logged contexts"):
        start(space, draft)
    with pytest.raises(NotFound, match="no config version 9"):
        start_backtest(space=space, data=BacktestIn(config=9), actor="test")


def test_only_few_run_at_once(space, asked, draft) -> None:
    for _ in range(RUNNING_MAX):
        start(space, draft)
    with pytest.raises(Conflict, match="are running"):
        start(space, draft)


def test_old_backtests_are_forgotten(space, asked, draft) -> None:
    first = start_and_begin(space=space, data=BacktestIn(config=draft.version, last=1), actor="test")
    for _ in range(KEPT + 1):
        run(space, draft, last=1)
    assert not Backtest.objects.filter(pk=first.pk).exists()


def test_figures_of_many_take_one_query(space, asked, draft, django_assert_num_queries) -> None:
    backtests = [run(space, draft), run(space, draft, last=1)]
    with django_assert_num_queries(1):
        assert [each.assemblies for each in read_figures(backtests).values()] == [4, 1]


def test_other_teams_have_no_such_backtest(space, asked, draft, other_team) -> None:
    with pytest.raises(NotFound):
        find_backtest(other_team, run(space, draft).pk)
