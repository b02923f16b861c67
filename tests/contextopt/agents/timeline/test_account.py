"""A task's account is the sum of its assemblies, and only compared ones count."""

from contextopt.agents.models import HandoffPhase
from contextopt.agents.timeline.account import NOTHING, Account, add_up, read_phase_accounts
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests.contextopt.agents.timeline.journeys import read_account, travel
from tests.factories import make_attempt, make_filtering, make_task


def test_the_account_is_the_sum_of_its_assemblies(team: Team, django_assert_num_queries) -> None:
    task = travel(team)
    make_filtering(team)
    rows = list(Assembly.objects.filter(task=task))
    with django_assert_num_queries(1):
        phases = read_phase_accounts(task)
    account = add_up(phases.values())
    assert account.assemblies == len(rows) == Assembly.objects.count() - 1
    assert account.sent_tokens == sum(row.tokens_after for row in rows if row.is_sent)
    compared = [row for row in rows if row.saving_counts]
    # The wait sent nothing, and the first hand-off was replaced before anyone read it.
    assert account.compared == len(compared) == len(rows) - 2
    assert account.compared_tokens == sum(row.tokens_after for row in compared)
    assert account.full_tokens == sum(row.tokens_before or 0 for row in compared)
    assert account.saved_tokens == sum(row.tokens_saved or 0 for row in compared)
    assert all(phases[phase].assemblies for phase in (HandoffPhase.ANALYSIS, HandoffPhase.DESIGN))
    assert phases[HandoffPhase.IMPLEMENTATION] == NOTHING


def test_a_hint_costs(team: Team) -> None:
    task = travel(team)
    hint = Assembly.objects.get(task=task, kind="hint")
    without = sum(row.tokens_saved or 0 for row in Assembly.objects.filter(task=task).exclude(pk=hint.pk))
    assert read_account(task).saved_tokens == without - hint.tokens_after < without


def test_waiting_and_stopping_save_nothing(team: Team) -> None:
    task = make_task(team)
    make_attempt(task, root_cause="environment_error")
    make_attempt(task, root_cause="impossible_task")
    account = read_account(task)
    assert (account.assemblies, account.compared, account.sent_tokens) == (1, 0, 0)
    assert (account.saved_tokens, account.saved_percent) == (None, None)


def test_a_replan_is_compared_with_a_replan(team: Team) -> None:
    task = make_task(team, files={"cart.py": "x = 1\n" * 500})
    result = make_attempt(task, root_cause="bad_plan", files={"cart.py": "x = 1\n" * 500})
    row = Assembly.objects.get()
    assert row.payload.ledger["baseline"] == "the task, plan and diagnosis in full"
    # The files would not have been sent, so leaving them out saves nothing.
    assert read_account(task).full_tokens == row.tokens_before == result.attempt.full_tokens < 200


def test_sums() -> None:
    assert add_up([]) == NOTHING
    both = Account(2, 300, 1, 100, 400) + Account(1, 5, 1, 5, 0)
    assert both == Account(3, 305, 2, 105, 400)
    assert (both.saved_tokens, both.saved_percent) == (295, 73.8)
    assert Account(1, 5, 1, 5, 0).saved_percent is None
