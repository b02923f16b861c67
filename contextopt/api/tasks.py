"""Endpoints for tasks of coding agents and their attempts."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from django.db.models import Count, Sum
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.agents import retries, tasks
from contextopt.agents.handoffs.inputs import PhaseName
from contextopt.agents.handoffs.status import KnowledgePoolOut, TaskFacts, knowledge_pool
from contextopt.agents.inputs import AttemptIn, CountedRetryIn, Receiver, TaskIn
from contextopt.agents.models import COMPARED_TOKENS, REPOSITORY_MAX, TASK_EXTERNAL_ID_MAX, Attempt, Task
from contextopt.agents.retrysettings import resolve_limits
from contextopt.api.phases import AgentContextOut
from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.engine.agents.retries import Diagnosis, RetryContext
from contextopt.errors import NotFound
from contextopt.inputs import Id, Ordinal, Text, fields_of, show
from contextopt.paging import by_moment, by_number

router = Router(tags=["Tasks"])
BY_TIME = by_moment("task", "created_at")
BY_NUMBER = by_number("attempt", "number")

ActionName = Literal["replan", "retry", "refetch", "stop", "wait"]


class TaskRow(TaskFacts):
    expires_at: datetime | None


class TaskOut(TaskRow):
    """A task with the tokens of its attempts and the hand-offs of its phases.

    Attempts that wait or stop count in none of the token sums.

    Its files are deleted at `expires_at`.
    """

    attempts: int
    full_context_tokens: int
    delta_tokens: int
    saved_tokens: int
    knowledge_pool: KnowledgePoolOut


class ChangedFileOut(TypedDict):
    """The change of one file, as it is sent to the receiver."""

    path: str
    diff: str
    kind: Literal["changed", "new", "deleted", "renamed", "binary", "reverted"]
    is_truncated: bool
    renamed_from: NotRequired[str]


@fields_of(Diagnosis)
class DiagnosisOut(TypedDict):
    pass


@fields_of(RetryContext)
class RetryContextOut(TypedDict):
    changed_files: list[ChangedFileOut]
    diagnosis: DiagnosisOut


class AttemptRow(TypedDict):
    """The figures of a recorded attempt. `saved_tokens` is null if nothing is sent, for a wait or a stop."""

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


class AttemptDetail(AttemptRow):
    """A recorded attempt with the text sent to its receiver."""

    plan: str | list[Any]
    error: str
    retry_context: RetryContextOut


class DeltaOut(TypedDict):
    """The next action and the text to send for it.

    `text` is the counted text: the rendered retry context, or the full context with plan and error if
    everything is sent again. `task` carries the diagnosis and is not counted. `full_context_tokens` is the
    size without Contextopt: the full context with plan and error, or for a replan the task, plan and
    diagnosis in full, without our marks. `saved_tokens` is null if nothing is sent.
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
    """The response to a recorded attempt."""

    id: int
    task_id: int
    number: int
    receiver: str
    state: Literal["ready", "waiting"]
    available_at: datetime


class TaskQuery(PageQuery):
    """Filters for tasks. All of them must match."""

    state: Literal["open", "completed", "failed", "impossible"] | None = None
    phase: PhaseName | None = None
    repository: Annotated[Text | None, Field(max_length=REPOSITORY_MAX)] = None
    external_id: Annotated[Text | None, Field(min_length=1, max_length=TASK_EXTERNAL_ID_MAX)] = None


class AttemptQuery(PageQuery):
    receiver: Receiver | None = None


def task_json(task: Task) -> dict[str, Any]:
    sums = task.attempts.aggregate(
        count=Count("pk"), full=COMPARED_TOKENS, delta=Sum("delta_tokens", default=0)
    )
    return show(
        TaskOut,
        task,
        attempts=sums["count"],
        full_context_tokens=sums["full"],
        delta_tokens=sums["delta"],
        saved_tokens=sums["full"] - sums["delta"],
        knowledge_pool=knowledge_pool(list(task.compressions.latest_versions())),
    )


@router.post("/tasks", auth=WRITE, response={201: TaskOut}, summary="Create a task")
def create_task(request: ApiRequest, data: TaskIn) -> HttpResponse:
    """Creates a task. `files` are the files that the receiver gets in full for the first attempt; a retry is
    sent only their changes. An `external_id` that is taken is a conflict.
    """
    task = tasks.create_task(team=request.auth.team, data=data, actor=actor(request))
    return created(task_json(task), f"/api/v1/tasks/{task.pk}")


@router.get("/tasks", auth=READ, response=page_of(TaskRow), summary="List tasks")
def list_tasks(request: ApiRequest, query: Query[TaskQuery]) -> HttpResponse:
    """Returns the team's tasks, newest first."""
    return reply(
        list_page(
            query.where(Task.objects.filter(team_id=request.auth.team_id)),
            BY_TIME,
            query,
            partial(show, TaskRow),
        )
    )


@router.get("/tasks/{task_id}", auth=READ, response=TaskOut, summary="Read a task")
def read_task(request: ApiRequest, task_id: Path[Id]) -> HttpResponse:
    """Returns a task with the tokens of its attempts and its hand-offs."""
    return reply(task_json(tasks.find_task(request.auth.team_id, task_id)))


@router.post("/tasks/{task_id}/attempts", auth=WRITE, response={201: RetryOut}, summary="Post an attempt")
def create_attempt(request: ApiRequest, task_id: Path[Id], data: AttemptIn) -> HttpResponse:
    """Records a failed attempt with the current state of all files, and returns the next action and the text
    to send.

    Files are compared with the last full versions sent to this receiver. A missing file counts as deleted. An
    environment error is answered with a wait: the attempt is `waiting` until `available_at`.
    """
    result = retries.record_attempt(
        team_id=request.auth.team_id,
        task_id=task_id,
        data=data,
        counter=data.count_by(data.counter, request.auth.team_id),
        actor=actor(request),
    )
    attempt, retry = result.attempt, result.retry
    text = retry.sent.render() if retry.sent else ""
    body = show(RetryOut, attempt, text=text, **retry.to_json())
    return created(body, f"/api/v1/tasks/{task_id}/attempts/{attempt.number}")


@router.post("/retry-delta", auth=WRITE, response=DeltaOut, summary="Compute a retry without a task")
def plan_retry(request: ApiRequest, data: CountedRetryIn) -> HttpResponse:
    """Computes a retry from the files before and after a failed attempt, without a stored task, and logs the
    saving.
    """
    limits = resolve_limits(request.auth.team_id, data)
    counter = data.count_by(data.counter, request.auth.team_id)
    retry = retries.plan_delta(data=data, limits=limits, counter=counter, is_added=data.added)
    assembly = retries.log_delta(team_id=request.auth.team_id, retry=retry, actor=actor(request))
    text = retry.sent.render() if retry.sent else ""
    return reply({"assembly_id": assembly.pk if assembly else None, "text": text, **retry.to_json()})


@router.get("/tasks/{task_id}/attempts", auth=READ, response=page_of(AttemptRow), summary="List attempts")
def list_attempts(request: ApiRequest, task_id: Path[Id], query: Query[AttemptQuery]) -> HttpResponse:
    """Returns the figures of a task's attempts, newest first."""
    attempts = Attempt.objects.filter(task=tasks.find_task(request.auth.team_id, task_id))
    shown = query.where(attempts).defer("plan", "error", "retry_context", "diagnosis")
    return reply(
        list_page(
            shown, BY_NUMBER, query,
            lambda each: show(AttemptRow, each, full_context_tokens=each.full_tokens),
        )
    )  # fmt: skip


@router.get(
    "/tasks/{task_id}/attempts/{number}", auth=READ, response=AttemptDetail, summary="Read an attempt"
)
def read_attempt(request: ApiRequest, task_id: Path[Id], number: Path[Ordinal]) -> HttpResponse:
    """Returns an attempt with the text sent to its receiver."""
    task = tasks.find_task(request.auth.team_id, task_id)
    attempt = task.attempts.filter(number=number).first()
    if attempt is None:
        raise NotFound(f"Task {task_id} has no attempt {number}.")
    return reply(show(AttemptDetail, attempt, full_context_tokens=attempt.full_tokens))
