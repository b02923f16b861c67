"""Tasks of coding agents and their attempts: what a retry is sent instead of everything."""

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from django.db.models import Count, QuerySet, Sum
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.agents import retries
from contextopt.agents.handoffs.status import knowledge_pool
from contextopt.agents.inputs import AttemptIn, CountedRetryIn, Receiver, TaskIn
from contextopt.agents.models import COMPARED_TOKENS, REPOSITORY_MAX, TASK_EXTERNAL_ID_MAX
from contextopt.agents.tasks import find_task
from contextopt.api.phases import AgentContextOut
from contextopt.api.protocol.access import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import created, pick, reply
from contextopt.api.protocol.paging import PageQuery, list_page
from contextopt.engine.prompts.warnings import WarningJson
from contextopt.engine.text.counters import get_counter
from contextopt.errors import NotFound
from contextopt.inputs import Id, Text
from contextopt.models import Attempt, Task
from contextopt.paging import by_moment, by_number

router = Router(tags=["Tasks"])
BY_TIME = by_moment("task", "created_at")
BY_NUMBER = by_number("attempt", "number")

Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
PhaseWord = Literal["analysis", "design", "implementation"]
ActionName = Literal["replan", "retry", "refetch", "stop", "wait"]


class TaskRow(TypedDict):
    id: int
    external_id: str
    description: str
    repository: str
    state: Literal["open", "completed", "failed", "impossible"]
    phase: PhaseWord
    created_by: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class TaskPage(TypedDict):
    items: list[TaskRow]
    next_cursor: str | None


class DiscardedOut(TypedDict):
    id: str
    reason: str


class HandoffSettingsOut(TypedDict):
    """The settings that a phase was compressed with."""

    bundle_tokens: int
    findings_tokens: int
    brief_tokens: int
    critical_tokens: int
    max_critical: int
    key_categories: list[str]
    critical_above: float
    speculation_below: float


class CompressionOut(TypedDict):
    """What a phase handed on. `token_count` is the brief's alone; `other_brief` is of the writer whose is not
    in force, and `brief_note` says why.
    """

    version: int
    brief: str
    critical_findings: list[str]
    token_count: int
    critical_tokens: int
    tokens_before: int
    tokens_after: int
    saved_tokens: int
    discarded: list[DiscardedOut]
    warnings: list[WarningJson]
    forced: bool
    open_decisions: list[str]
    writer: Literal["extract", "model"]
    writer_version: str
    brief_state: Literal["none", "pending", "in_force", "refused", "late"]
    brief_note: str
    other_brief: str
    settings: HandoffSettingsOut
    assembly_id: int | None
    consumed_at: datetime | None
    created_by: str
    created_at: datetime


class PhaseCompressionsOut(TypedDict):
    """By phase; a phase that was not compressed is absent."""

    analysis: NotRequired[CompressionOut]
    design: NotRequired[CompressionOut]
    implementation: NotRequired[CompressionOut]


class KnowledgePoolOut(TypedDict):
    phase_compressions: PhaseCompressionsOut


class TaskOut(TaskRow):
    """A task with what its attempts cost and saved, and what its phases handed on.

    Attempts that wait or stop are in none of the sums of tokens.

    At `expires_at` its files are forgotten.
    """

    attempts: int
    full_context_tokens: int
    delta_tokens: int
    saved_tokens: int
    knowledge_pool: KnowledgePoolOut


class ChangedFileOut(TypedDict):
    """One file as the receiver is told of it."""

    path: str
    diff: str
    kind: Literal["changed", "new", "deleted", "renamed", "binary", "reverted"]
    is_truncated: bool
    renamed_from: NotRequired[str]


class DiagnosisOut(TypedDict):
    root_cause: str
    reason: str
    suggested_action: str


class RetryContextOut(TypedDict):
    task_summary: str
    plan_summary: str
    latest_error: str
    changed_files: list[ChangedFileOut]
    diagnosis: DiagnosisOut
    attempt_number: int
    estimated_tokens: int


class AttemptRow(TypedDict):
    """A recorded attempt, in numbers. `saved_tokens` is null where nothing is sent: on a wait or a stop."""

    id: int
    task_id: int
    number: int
    receiver: str
    root_cause: str
    action: ActionName
    state: Literal["ready", "waiting"]
    available_at: datetime
    changed_files: int
    full_context_tokens: int
    delta_tokens: int
    saved_tokens: int | None
    saved_percent: float | None
    encoding: str
    assembly_id: int | None
    created_by: str
    created_at: datetime


class AttemptPage(TypedDict):
    items: list[AttemptRow]
    next_cursor: str | None


class AttemptDetail(AttemptRow):
    """A recorded attempt with what its receiver was sent for it."""

    plan: str | list[Any]
    error: str
    retry_context: RetryContextOut


class DeltaOut(TypedDict):
    """What to do next and what to send for it.

    `text` is what is counted: the rendered retry context or, where everything is sent again, the full
    context with plan and error. `task` carries the diagnosis and is not counted. `full_context_tokens` is
    what would be sent otherwise: the full context with plan and error, and for a replan the task, plan, error
    and diagnosis in full. `saved_tokens` is null where nothing is sent.
    """

    assembly_id: int | None
    text: str
    retry_context: RetryContextOut
    action: ActionName
    task: str
    full_context: AgentContextOut | None
    wait_seconds: int
    error: str | None
    full_context_tokens: int
    delta_tokens: int
    saved_tokens: int | None
    saved_percent: float | None


class RetryOut(DeltaOut):
    """What a recorded attempt is answered with."""

    id: int
    task_id: int
    number: int
    receiver: str
    state: Literal["ready", "waiting"]
    available_at: datetime


_TASK_ROW = tuple(TaskRow.__annotations__)
_ATTEMPT_ROW = tuple(name for name in AttemptRow.__annotations__ if name != "full_context_tokens")


class TaskQuery(PageQuery):
    """Which tasks; every filter given must hold."""

    state: Literal["open", "completed", "failed", "impossible"] | None = None
    phase: PhaseWord | None = None
    repository: Annotated[Text | None, Field(max_length=REPOSITORY_MAX)] = None
    external_id: Annotated[Text | None, Field(min_length=1, max_length=TASK_EXTERNAL_ID_MAX)] = None

    def select(self, team_id: int) -> QuerySet[Task]:
        names = ("state", "phase", "repository", "external_id")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return Task.objects.filter(team_id=team_id, **given)


class AttemptQuery(PageQuery):
    receiver: Receiver | None = None


def task_row(task: Task) -> dict[str, Any]:
    return pick(task, _TASK_ROW)


def task_json(task: Task) -> dict[str, Any]:
    sums = task.attempts.aggregate(
        count=Count("pk"), full=COMPARED_TOKENS, delta=Sum("delta_tokens", default=0)
    )
    full, delta = sums["full"], sums["delta"]
    return {
        **task_row(task),
        "attempts": sums["count"],
        "full_context_tokens": full,
        "delta_tokens": delta,
        "saved_tokens": full - delta,
        "knowledge_pool": knowledge_pool(list(task.compressions.latest_versions())),
    }


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    return {**pick(attempt, _ATTEMPT_ROW), "full_context_tokens": attempt.full_tokens}


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {**attempt_row(attempt), **pick(attempt, ("plan", "error", "retry_context"))}


@router.post("/tasks", auth=WRITE, response={201: TaskOut}, summary="Create a task")
def create_task(request: ApiRequest, data: TaskIn) -> HttpResponse:
    """The files given are those that the receiver is sent whole for the first attempt: a retry is told of
    their changes alone. An `external_id` that is taken is a conflict.
    """
    task = retries.create_task(team=request.auth.team, data=data, actor=actor(request))
    return created(task_json(task), f"/api/v1/tasks/{task.pk}")


@router.get("/tasks", auth=READ, response=TaskPage, summary="List tasks")
def list_tasks(request: ApiRequest, query: Query[TaskQuery]) -> HttpResponse:
    """Newest first."""
    return reply(list_page(query.select(request.auth.team_id), BY_TIME, query, task_row))


@router.get("/tasks/{task_id}", auth=READ, response=TaskOut, summary="Read a task")
def read_task(request: ApiRequest, task_id: Path[Id]) -> HttpResponse:
    return reply(task_json(find_task(request.auth.team_id, task_id)))


@router.post("/tasks/{task_id}/attempts", auth=WRITE, response={201: RetryOut}, summary="Post an attempt")
def create_attempt(request: ApiRequest, task_id: Path[Id], data: AttemptIn) -> HttpResponse:
    """Takes a failed attempt with all files as they are now, and says what to do next and what to send.

    Files are compared with what this receiver was last sent whole. What is not among the files was
    deleted. An environment error is answered with a wait: its attempt is `waiting` until `available_at`.
    """
    result = retries.record_attempt(
        team_id=request.auth.team_id,
        task_id=task_id,
        data=data,
        counter=get_counter(data.counter, data.encoding),
        actor=actor(request),
    )
    return created(result.to_json(), f"/api/v1/tasks/{task_id}/attempts/{result.attempt.number}")


@router.post("/retry-delta", auth=WRITE, response=DeltaOut, summary="Compute a retry without a task")
def plan_retry(request: ApiRequest, data: CountedRetryIn) -> HttpResponse:
    """Takes the files before and after a failed attempt that hangs on no stored task; logs what it saves."""
    retry = retries.plan_delta(data=data, counter=get_counter(data.counter, data.encoding))
    assembly = retries.log_delta(team_id=request.auth.team_id, retry=retry, actor=actor(request))
    text = retry.sent.render() if retry.sent else ""
    return reply({"assembly_id": assembly.pk if assembly else None, "text": text, **retry.to_json()})


@router.get("/tasks/{task_id}/attempts", auth=READ, response=AttemptPage, summary="List attempts")
def list_attempts(request: ApiRequest, task_id: Path[Id], query: Query[AttemptQuery]) -> HttpResponse:
    """The latest first, in numbers."""
    attempts = Attempt.objects.filter(task=find_task(request.auth.team_id, task_id))
    if query.receiver is not None:
        attempts = attempts.filter(receiver=query.receiver)
    rows = attempts.defer("plan", "error", "retry_context", "diagnosis")
    return reply(list_page(rows, BY_NUMBER, query, attempt_row))


@router.get(
    "/tasks/{task_id}/attempts/{number}", auth=READ, response=AttemptDetail, summary="Read an attempt"
)
def read_attempt(request: ApiRequest, task_id: Path[Id], number: Path[Number]) -> HttpResponse:
    task = find_task(request.auth.team_id, task_id)
    attempt = task.attempts.filter(number=number).first()
    if attempt is None:
        raise NotFound(f"Task {task_id} has no attempt {number}.")
    return reply(attempt_json(attempt))
