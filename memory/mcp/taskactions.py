"""Actions of `task_step` on a stored task, besides building a context."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from contextopt.agents.handoffs.findings import add_finding, advance_phase, compress_phase, resolve_finding
from contextopt.agents.handoffs.inputs import AdvanceIn, CompressIn, FindingIn, ResolutionIn, check_key
from contextopt.agents.handoffs.models import number_of
from contextopt.agents.handoffs.status import PhaseStatus, task_status
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_tokenizer
from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from memory.mcp.callers import Caller
from memory.mcp.handlers import QUOTED, fit_blocks, quote
from memory.strategies.inputs import CompletionIn, Outcome
from memory.strategies.reports import complete_task

TaskAction = Literal["add_finding", "resolve_finding", "compress", "advance", "status", "complete"]
StepAction = Literal[
    "context", "failed", "add_finding", "resolve_finding", "compress", "advance", "status", "complete"
]
TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "finding": ("add_finding",),
    "finding_id": ("resolve_finding",),
    "answer": ("resolve_finding",),
    "force": ("compress", "advance"),
    "quality": ("complete",),
    "outcome": ("complete",),
}
"""The arguments that only some actions take."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The arguments of an action. Those that it does not take are empty."""

    task_id: int
    finding: Mapping[str, Any] = field(default_factory=dict)
    finding_id: str = ""
    answer: str = ""
    force: bool = False
    quality: float | None = None
    outcome: Outcome = "completed"
    plan: str = ""
    files: tuple[str, ...] = ()


def check_arguments(action: str, given: Mapping[str, object]) -> None:
    """Refuse an argument that the action does not take.

    Raises:
        InvalidInput: names the argument.
    """
    for name, value in given.items():
        if value not in ({}, "", False, None, "completed") and action not in TAKEN_BY[name]:
            raise InvalidInput.of(name, f"is only for {' and '.join(TAKEN_BY[name])}")


def run_action(caller: Caller, action: TaskAction, request: TaskRequest, max_tokens: int) -> str:
    """Do it, and return what changed, with the state of the task within the limit.

    Raises:
        InvalidInput, NotFound, Conflict: see the functions that the actions call.
        NotAllowed: the key may only read, or is limited to spaces.
    """
    caller.check_team()
    if action != "status":
        caller.check_write()
    if not request.task_id:
        raise InvalidInput.of("task_id", "is missing")
    done = _ACTIONS[action](caller, request)
    return _describe(caller, request.task_id, done, max_tokens)


def _add(caller: Caller, request: TaskRequest) -> str:
    data = FindingIn.model_validate(dict(request.finding))
    added = add_finding(team_id=caller.team.pk, task_id=request.task_id, data=data, actor=caller.actor)
    return f"{added.key} added to {added.phase}, {plural(added.tokens, 'token')}."


def _resolve(caller: Caller, request: TaskRequest) -> str:
    try:
        number = number_of(check_key(request.finding_id))
    except ValueError as error:
        raise InvalidInput.of("finding_id", str(error)) from error
    resolved = resolve_finding(
        team_id=caller.team.pk,
        task_id=request.task_id,
        number=number,
        data=ResolutionIn(answer=request.answer),
        actor=caller.actor,
    )
    return f"{resolved.key} is decided."


def _compress(caller: Caller, request: TaskRequest) -> str:
    made = compress_phase(
        team_id=caller.team.pk,
        task_id=request.task_id,
        data=CompressIn(force=request.force),
        actor=caller.actor,
    )
    return f"Compressed {made.phase}, version {made.version}."


def _advance(caller: Caller, request: TaskRequest) -> str:
    entered = advance_phase(
        team_id=caller.team.pk,
        task_id=request.task_id,
        data=AdvanceIn(force=request.force),
        actor=caller.actor,
    )
    return f"The task is in {entered.phase} now."


def _complete(caller: Caller, request: TaskRequest) -> str:
    if request.quality is None and request.outcome == "completed":
        raise InvalidInput.of("quality", "is missing")
    data = CompletionIn(
        task_id=request.task_id,
        outcome=request.outcome,
        quality_score=request.quality,
        plan=request.plan or None,
        files_changed=list(request.files),
    )
    result = complete_task(team=caller.team, data=data, actor=caller.actor).to_json()
    return f"The task is {result['state']}, {plural(len(result['stored']), 'memory', 'memories')} stored."


_ACTIONS: Mapping[TaskAction, Callable[[Caller, TaskRequest], str]] = {
    "add_finding": _add,
    "resolve_finding": _resolve,
    "compress": _compress,
    "advance": _advance,
    "status": lambda _caller, _request: "",
    "complete": _complete,
}


def _describe(caller: Caller, task_id: int, done: str, max_tokens: int) -> str:
    status = task_status(team_id=caller.team.pk, task_id=task_id)
    blocks = [
        *(flatten(f"Warning {warning.code}: {warning.message}") for warning in status.warnings),
        *(block for phase in status.phases for block in _phase_blocks(phase)),
    ]
    state = f"Task {status.task.pk}, {status.task.state}, in {status.task.phase}. {QUOTED}"

    def head(shown: int) -> str:
        left = len(blocks) - shown
        more = [f"{plural(left, 'line does', 'lines do')} not fit."] if left else []
        return "\n".join(filter(None, (done, state, *more)))

    return fit_blocks(head, blocks, max_tokens, get_tokenizer(DEFAULT_ENCODING))


def _phase_blocks(status: PhaseStatus) -> Iterator[str]:
    compression = status.compression
    line = f"{status.phase.label}: {plural(status.findings, 'finding')}, {status.findings_tokens:,} tokens"
    if compression is None:
        yield f"{line}."
        return
    yield f"{line}, handed on as {compression.tokens_after:,}."
    if compression.critical:
        yield f"Critical: {', '.join(compression.critical_findings)}."
    if compression.brief:
        yield quote(compression.brief)
