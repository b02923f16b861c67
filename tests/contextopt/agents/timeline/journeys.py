"""A task's whole way, as the tests of its timeline need it."""

from contextopt.agents.handoffs.findings import compress_phase, resolve_finding
from contextopt.agents.handoffs.inputs import CompressIn, ResolutionIn
from contextopt.agents.models import Task
from contextopt.agents.timeline.account import Account, add_up, read_phase_accounts
from contextopt.people.models import Team
from memory.memories.inputs import HintIn
from memory.strategies.hints import give_hint
from memory.strategies.inputs import CompletionIn
from memory.strategies.reports import complete_task
from tests import factories
from tests.memory.factories import make_strategy

LIKE = "Fix wrong rounding of the prices in the shopping cart"
ERROR = "collecting\n" * 50 + "E   AssertionError: assert 7.004 == 7\n"


def read_account(task: Task) -> Account:
    return add_up(read_phase_accounts(task).values())


def travel(team: Team) -> Task:
    """Take a task from its first context to its completion, with a late finding and two failures."""
    make_strategy(team)
    task = factories.make_task(team, description=LIKE, repository="shop", files={"cart.py": "price = 0\n"})
    give_hint(team=team, data=HintIn(task=LIKE, repository="shop", task_id=task.pk), actor="test")
    factories.make_filtering(team, "planning", task_id=task.pk)
    factories.make_finding(task)
    factories.make_finding(task, tags=["critical"], decision="open")
    data = ResolutionIn(answer="Whole cents")
    resolve_finding(team_id=team.pk, task_id=task.pk, number=2, data=data, actor="user:ada")
    factories.make_advance(task)
    factories.make_filtering(team, "building", task_id=task.pk)
    factories.make_finding(task, phase="analysis")
    again = CompressIn(phase="analysis")
    compress_phase(team_id=team.pk, task_id=task.pk, data=again, actor="test")
    factories.make_attempt(task, error=ERROR)
    factories.make_attempt(task, root_cause="environment_error")
    report = CompletionIn(task_id=task.pk, plan="Look\nFix", quality_score=9, decisions=["Cents"])
    complete_task(team=team, data=report, actor="test")
    return Task.objects.get(pk=task.pk)
