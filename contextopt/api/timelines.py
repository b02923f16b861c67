"""The endpoint for the timeline of a task."""

from datetime import datetime
from typing import Any, Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.agents.handoffs.inputs import PhaseName
from contextopt.agents.tasks import find_task
from contextopt.agents.timeline.account import Account, add_up, read_named_accounts, read_phase_accounts
from contextopt.agents.timeline.events import Event, EventKind
from contextopt.agents.timeline.eventsources import read_events
from contextopt.api.protocol.authentication import READ, ApiRequest
from contextopt.api.protocol.outputs import PageQuery, reply
from contextopt.inputs import Id, fields_of, show

router = Router(tags=["Tasks"])

EventWord = Literal["hint", "context", "finding", "decision", "handoff", "attempt", "retry", "completion"]


@fields_of(Account)
class AccountOut(TypedDict):
    """Tokens of all that a task was sent. Only the `compared` assemblies count towards the saving: instead
    of `compared_tokens`, they would have had `full_tokens`.
    """

    saved_tokens: int | None
    saved_percent: float | None


class EventOut(TypedDict):
    """One event of a task. `not_compared` says why it counts neither as a saving nor as a cost."""

    at: datetime
    kind: EventWord
    phase: PhaseName
    title: str
    label: str
    note: str
    text: str
    sent_tokens: int | None
    full_tokens: int | None
    saved_tokens: int | None
    saved_percent: float | None
    baseline: str | None
    not_compared: str | None
    assembly_id: int | None
    finding: str | None
    attempt: int | None
    memory_id: int | None


class PhaseAccountsOut(TypedDict):
    analysis: AccountOut
    design: AccountOut
    implementation: AccountOut


class AgentPhaseAccountOut(AccountOut):
    """The account of one phase of the agent. `phase` is null for retries and hints outside a step."""

    phase: str | None


class TimelineOut(TypedDict):
    """A task's events, oldest first, and its account.

    The accounts of the phases add up to it. So do those of the agent's phases and of the hand-offs.
    """

    task_id: int
    account: AccountOut
    phases: PhaseAccountsOut
    agent_phases: list[AgentPhaseAccountOut]
    handoffs: PhaseAccountsOut
    items: list[EventOut]
    next_cursor: str | None


class EventQuery(PageQuery):
    kind: EventWord | None = None


def event_json(event: Event) -> dict[str, Any]:
    return show(
        EventOut,
        event,
        baseline=event.baseline or None,
        not_compared=event.not_compared or None,
        assembly_id=event.assembly.pk if event.assembly else None,
    )


@router.get("/tasks/{task_id}/timeline", auth=READ, response=TimelineOut, summary="Read a task's timeline")
def read_timeline(request: ApiRequest, task_id: Path[Id], query: Query[EventQuery]) -> HttpResponse:
    """Returns what happened to a task, oldest first: contexts, hints, findings, hand-offs, attempts and its
    completion, with the tokens that were sent and would have been sent.

    The account covers the whole task, whatever the page and `kind`. It equals the sum of the task's
    assemblies.
    """
    task = find_task(request.auth.team_id, task_id)
    kinds = frozenset([query.kind] if query.kind else EventKind.values)
    page = read_events(task, kinds=kinds, cursor=query.cursor, limit=query.limit)
    phases, named = read_phase_accounts(task), read_named_accounts(task)
    agent = [
        *named.agent_phases.items(),
        *([(None, named.without_phase)] * bool(named.without_phase.assemblies)),
    ]
    return reply(
        {
            "task_id": task.pk,
            "account": show(AccountOut, add_up(phases.values())),
            "phases": {phase.value: show(AccountOut, account) for phase, account in phases.items()},
            "agent_phases": [show(AgentPhaseAccountOut, account, phase=name) for name, account in agent],
            "handoffs": {phase.value: show(AccountOut, each) for phase, each in named.handoffs.items()},
            "items": [event_json(event) for event in page.events],
            "next_cursor": page.next_cursor,
        }
    )
