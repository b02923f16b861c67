"""Endpoints for finished tasks and their lessons."""

from datetime import datetime
from typing import TypedDict

from django.http import HttpResponse
from ninja import Router

from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import reply
from contextopt.engine.agents.taskpatterns import detect_task_pattern
from memory.memories.inputs import PatternIn
from memory.strategies.inputs import CompletionIn, Outcome
from memory.strategies.lessons import NotStored, Stored
from memory.strategies.reports import complete_task

router = Router(tags=["Strategies"])


class CompletionOut(TypedDict):
    """A finished task. `stored` lists the memories created from it; `not_stored` says why others were not.

    `is_pending` means that storing failed and will be retried.
    """

    task_id: int
    completion_id: int
    state: Outcome
    quality_score: float | None
    completed_at: datetime
    is_new: bool
    is_pending: bool
    pattern: str | None
    strategy_id: int | None
    stored: list[Stored]
    not_stored: list[NotStored]


class PatternOut(TypedDict):
    pattern: str


@router.post(
    "/completions", auth=WRITE, response={200: CompletionOut, 201: CompletionOut}, summary="Complete a task"
)
def create_completion(request: ApiRequest, data: CompletionIn) -> HttpResponse:
    """Ends a task and learns from it. Its decisions and error patterns become memories, and its plan becomes
    a strategy if it succeeded at the first attempt with a quality of 7 or more.

    A task may also have failed, or be impossible. Without a `task_id` a new task is recorded. The same report
    again changes nothing and returns 200, without a `task_id` for 24 hours. A different report of the same
    task is a conflict.
    """
    result = complete_task(team=request.auth.team, data=data, actor=actor(request))
    return reply(result.to_json(), status=201 if result.is_new else 200)


@router.post("/task-patterns", auth=READ, response=PatternOut, summary="Detect a task's pattern")
def detect_pattern(request: ApiRequest, data: PatternIn) -> HttpResponse:  # noqa: ARG001 Ninja passes it
    """Detects the kind of task from its description, in English or Norwegian."""
    return reply({"pattern": detect_task_pattern(data.task)})
