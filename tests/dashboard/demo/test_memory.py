"""The demo's memories: there after loading, gone after removal, with other memories untouched."""

from datetime import timedelta

import pytest
import time_machine

from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.events import EventKind
from contextopt.agents.timeline.eventsources import read_events
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.chat.models import Message
from contextopt.people.models import Team
from dashboard.demo import load_demo, remove_demo, summarise_demo
from memory.feedback.models import Vote
from memory.memories.inputs import MemoryIn
from memory.memories.memories import create_memory
from memory.memories.models import Memory
from memory.strategies.models import StrategyUse, TrustChange
from tests.contextopt.agents.timeline.journeys import read_account
from tests.factories import NOW, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def demo(shared: None) -> Team:
    """A team with the demo."""
    team = make_team("demo")
    with time_machine.travel(NOW, tick=True):
        load_demo(team, now=NOW, actor="test", days=3, assemblies_a_day=10)
    return team


def test_strategies_have_uses_over_days_and_a_trust_that_moved(demo: Team) -> None:
    strategies = Memory.objects.strategies().filter(team=demo)
    assert strategies.count() == 2
    for memory in strategies:
        moments = list(TrustChange.objects.filter(memory=memory).values_list("changed_at", flat=True))
        assert len(set(moments)) == len(moments) >= 3
        assert max(moments) <= NOW
        assert memory.use_count == StrategyUse.objects.filter(memory=memory).count()


def test_votes_are_by_stage_and_come_after_their_assembly(demo: Team) -> None:
    votes = Vote.objects.filter(team=demo, message=None).select_related("assembly")
    assert votes.exists()
    assert all(vote.assembly.created_at <= vote.created_at <= NOW for vote in votes)
    assert all(vote.stage == vote.assembly.stage for vote in votes)


def test_nothing_waits_to_be_sent(demo: Team) -> None:
    assert Message.objects.filter(conversation__team=demo).exists()
    assert not Message.objects.filter(conversation__team=demo, state="queued").exists()


def test_removal_leaves_what_is_not_the_demos(demo: Team) -> None:
    own = create_memory(team=demo, data=MemoryIn(content="Ours", repository="demo-invoicing"), actor="user:a")
    assert summarise_demo(demo).more["memories"] == 8
    remove_demo(demo)
    assert list(Memory.objects.filter(team=demo)) == [own]
    assert not Vote.objects.filter(team=demo).exists()
    assert not any(summarise_demo(demo).more.values())


def test_a_completed_task_has_a_timeline_over_an_hour(demo: Team) -> None:
    task = Task.objects.of(demo).get(state="completed", repository="demo-invoicing", attempts__number=2)
    events = read_events(task, kinds=frozenset(EventKind.values), cursor=None, limit=200).events
    assert {event.kind for event in events} == set(EventKind)
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert timedelta(minutes=50) < events[-1].at - events[0].at < timedelta(hours=1)
    assert events[-1].at < NOW
    assert {event.phase for event in events} == set(HandoffPhase)
    account = read_account(task)
    assert (account.saved_percent or 0) > 30
    assert account.assemblies == Assembly.objects.filter(task=task, is_demo=True).count() == 12
    for payload in AssemblyPayload.objects.filter(assembly__task=task):
        assert verify_assembly(payload) == []
