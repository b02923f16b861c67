"""Prompts with which a person reads or changes a task. Each names the call of `task_step` that does it."""

from typing import Annotated, Final

from mcp.server.mcpserver.prompts.base import Prompt
from pydantic import Field

TaskId = Annotated[str, Field(description="ID of the task")]
NOTED = "Show me the warnings of the answer."


def add_finding(
    task_id: TaskId, finding: Annotated[str, Field(description="the finding in your words")]
) -> str:
    """Add a finding to a task's current phase"""
    return (
        f"Add this finding to task {task_id}: call task_step with action add_finding and finding, an object "
        f"with category, content (an object), confidence from 0 to 1 and tags.\n\n{finding}"
    )


def resolve_finding(
    task_id: TaskId,
    finding_id: Annotated[str, Field(description="ID of the finding, such as F-003")],
    answer: Annotated[str, Field(description="the answer")],
) -> str:
    """Answer a finding's decision, or correct its answer"""
    return (
        f"Call task_step with action resolve_finding, task_id {task_id}, finding_id {finding_id} and this "
        f"answer, word for word.\n\n{answer}"
    )


def compress_phase(task_id: TaskId) -> str:
    """Compress a task's current phase, without advancing"""
    return f"Call task_step with action compress and task_id {task_id}. {NOTED}"


def advance_phase(task_id: TaskId) -> str:
    """Hand a task's phase on, and enter the next one"""
    return (
        f"Call task_step with action status and task_id {task_id}. Show me the critical findings and the "
        f"open decisions. If none is open, call it with action advance. {NOTED}"
    )


def task_status(task_id: TaskId) -> str:
    """Show a task's phase, findings and hand-offs"""
    return f"Call task_step with action status and task_id {task_id}, and sum it up for me. {NOTED}"


def complete_task(
    task_id: TaskId,
    quality: Annotated[str, Field(description="quality of the result, 0 to 10")],
    outcome: Annotated[str, Field(description="completed (default), failed or impossible")] = "completed",
) -> str:
    """Report how a task ended, and keep what was learned"""
    return (
        f"Call task_step with action complete, task_id {task_id}, outcome {outcome} and quality {quality}. "
        "Give the plan that you followed, one step a line, and the changed files by path with null as their "
        "content."
    )


PROMPTS: Final = tuple(
    Prompt.from_function(each)
    for each in (add_finding, resolve_finding, compress_phase, advance_phase, task_status, complete_task)
)
