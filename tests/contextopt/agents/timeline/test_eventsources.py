"""A task's events: all of them, in order, page by page, with the tokens of their assemblies."""

from datetime import timedelta

import pytest
from django.utils import timezone

from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.models import Finding
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.account import read_phase_accounts
from contextopt.agents.timeline.events import Event, EventKind
from contextopt.agents.timeline.eventsources import read_events
from contextopt.assemblies.models import Assembly
from contextopt.errors import InvalidInput
from contextopt.people.models import Team
from tests import factories
from tests.contextopt.agents.timeline.journeys import travel

ALL = frozenset(EventKind.values)


def events_of(task: Task, *kinds: str, limit: int = 200) -> list[Event]:
    page = read_events(task, kinds=frozenset(kinds) or ALL, cursor=None, limit=limit)
    assert page.next_cursor is None
    return list(page.events)


def test_everything_stands_on_the_timeline(team: Team, django_assert_num_queries) -> None:
    task = travel(team)
    # one for each kind, and the last versions of the hand-offs
    with django_assert_num_queries(9):
        events = events_of(task)
    titles = [event.title for event in events]
    assert titles == [
        "Strategy hint given", "Context sent", "F-001 added", "F-002 added", "Decision on F-002 resolved",
        "Handed to design", "Context sent", "F-003 added", "Handed to design again, version 2",
        "Attempt 1 failed", "Retry with the changes", "Attempt 2 failed", "Waited, nothing sent",
        "Completed, quality 9",
    ]  # fmt: skip
    assert [event.at for event in events] == sorted(event.at for event in events)
    hint, planning = events[:2]
    assert hint.memory_id
    assert (hint.full_tokens, hint.saved_tokens) == (0, -(hint.sent_tokens or 0))
    assert (planning.label, planning.note, planning.baseline) == (
        "planning",
        "All fields",
        "the full context",
    )
    assert (events[3].finding, events[3].note) == ("F-002", "risks, critical")
    assert (events[4].text, events[4].note) == ("Whole cents", "By user:ada")
    assert events[7].note == "risks, of analysis"
    assert events[9].text == "E AssertionError: assert 7.004 == 7"
    assert (events[10].attempt, events[10].saved_tokens is not None) == (1, True)
    waited = events[12]
    assert (waited.sent_tokens, waited.full_tokens, waited.saved_tokens) == (0, None, None)
    assert waited.not_compared == "nothing was sent"
    assert events[-1].note.startswith("No strategy: it took 3 attempts")


def test_the_events_of_a_phase_add_up_to_its_account(team: Team) -> None:
    task = travel(team)
    accounts = read_phase_accounts(task)
    for phase in HandoffPhase:
        events = [event for event in events_of(task) if event.phase == phase]
        assert accounts[phase].sent_tokens == sum(event.sent_tokens or 0 for event in events)
        assert accounts[phase].full_tokens == sum(event.full_tokens or 0 for event in events)
        assert (accounts[phase].saved_tokens or 0) == sum(event.saved_tokens or 0 for event in events)
    sent = {event.assembly.pk for event in events_of(task) if event.assembly}
    assert sent == set(Assembly.objects.filter(task=task).values_list("pk", flat=True))


@pytest.mark.parametrize("limit", [1, 3, 13])
def test_pages_hold_each_event_once(team: Team, limit: int) -> None:
    task = travel(team)
    # Findings of one moment must not be lost between pages, nor events of other kinds.
    moment = timezone.now()
    numbers = range(4, 9)
    for number in numbers:
        Finding.objects.create(
            task=task, number=number, phase="design", category="risks", content={"a": 1}, confidence=1,
            tokens=5, created_at=moment, decision="resolved", resolved_at=moment,
        )  # fmt: skip
    Completion.objects.update(created_at=moment)
    whole = [event.key for event in events_of(task)]
    assert len(whole) == len(set(whole)) == 14 + 2 * len(numbers)
    found, cursor = [], None
    while True:
        page = read_events(task, kinds=ALL, cursor=cursor, limit=limit)
        found += [event.key for event in page.events]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == whole


def test_some_kinds_alone(team: Team) -> None:
    task = travel(team)
    assert [event.kind for event in events_of(task, "attempt", "completion")] == [
        "attempt", "attempt", "completion"
    ]  # fmt: skip


def test_a_cursor_of_another_list(team: Team) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        read_events(factories.make_task(team), kinds=ALL, cursor="nonsense", limit=5)


def test_the_number_of_queries_does_not_grow(team: Team, django_assert_num_queries) -> None:
    task = factories.make_task(team)
    for _ in range(20):
        factories.make_attempt(task)
        factories.make_filtering(team, task_id=task.pk)
        factories.make_finding(task)
    with django_assert_num_queries(9):
        assert len(events_of(task)) == 80


def test_a_trimmed_context_says_of_what(team: Team) -> None:
    task = factories.make_task(team)
    factories.make_profile(team, "planning", budget_tokens=900)
    factories.make_filtering(team, "planning", task_id=task.pk)
    factories.make_filtering(team, "confidence", task_id=task.pk)
    factories.make_filtering(team, "completing", task_id=task.pk)
    factories.make_filtering(team, "dreaming", task_id=task.pk)
    trimmed, *others = [event.note for event in events_of(task)]
    assert trimmed.startswith("Trimmed to 900 tokens: 3 documents left out, 10 memories left out")
    assert others == ["Tree, paths and manifest only", "No fields kept", ""]


def test_phases_by_the_moment(team: Team) -> None:
    now = timezone.now()
    task = Task(
        design_at=now, implementation_at=now + timedelta(hours=1), created_at=now - timedelta(hours=1)
    )
    moments = [now - timedelta(seconds=1), now, now + timedelta(hours=1)]
    assert [task.phase_at(moment) for moment in moments] == list(HandoffPhase)
    assert Task(created_at=now).phase_at(now + timedelta(days=1)) == HandoffPhase.ANALYSIS
