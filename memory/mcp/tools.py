"""The tools. A model reads their docstrings and the descriptions of their arguments."""

from typing import Annotated, Any, Literal, cast

from pydantic import Field

from contextopt.agents.handoffs.models import RESOLUTION_MAX
from contextopt.agents.inputs import PLAN_MAX, ErrorText, Files, Phase
from contextopt.agents.models import QUALITY_MAX, REPOSITORY_MAX, TASK_DESCRIPTION_MAX
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import CONVERSATION_MAX, Assembly
from contextopt.assemblies.placement.state import held_blocks
from contextopt.engine.agents.retries import ROOT_CAUSE_CHARS
from contextopt.engine.placement.choice import APPEND
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.errors import InvalidInput
from contextopt.inputs import BIGINT_MAX, NUMBER, QUERY_MAX, Id, Slug, Text
from contextopt.spaces.inputs import Tags, Title, Type
from contextopt.sql import find_one
from memory.feedback.inputs import RATER_GIVEN_MAX, OpinionIn, SubjectIn
from memory.feedback.models import COMMENT_MAX, REASON_MAX
from memory.feedback.votes import give_feedback
from memory.mcp.callers import current
from memory.mcp.handlers import (
    build_context,
    build_task_step,
    describe_failure,
    explain_context,
    find_dropped,
    find_hits,
    keep_memory,
    keep_record,
)
from memory.mcp.taskactions import StepAction, TaskAction, TaskRequest, check_arguments, run_action
from memory.memories.inputs import Content
from memory.questions.inputs import ExpectedId
from memory.steps.inputs import DEFAULT_PHASE, AgentStepIn
from memory.strategies.inputs import Outcome

TOKENS_MIN = 200
RESULTS_MAX = 50

Space = Annotated[Slug, Field(description="slug of the space")]
MaxTokens = Annotated[
    int, Field(ge=TOKENS_MIN, le=MAX_PART_TOKENS, description="limit of the whole result"), NUMBER
]


def get_context(
    space: Space,
    query: Annotated[Text, Field(max_length=QUERY_MAX, description="what you need to know")],
    max_tokens: MaxTokens = 2_000,
    conversation: Annotated[
        Text, Field(max_length=CONVERSATION_MAX, description="your ID: leaves out what it has")
    ] = "",
) -> str:
    """Get the records of a space that answer a question, within a token limit. Call it before you answer."""
    caller = current()
    request = AssemblyIn(space=space, query=query, conversation=conversation)
    if conversation:
        # Results of a tool stay in an agent's conversation.
        blocks = held_blocks(caller.team.pk, space, conversation)
        request = request.model_copy(update={"placement": APPEND, "in_sight": blocks})
    return build_context(caller, request, max_tokens)


def search(
    query: Annotated[Text, Field(max_length=QUERY_MAX)] = "",
    space: Annotated[Text, Field(description="slug; without it, memories only")] = "",
    limit: Annotated[int, Field(ge=1, le=RESULTS_MAX), NUMBER] = 10,
    max_tokens: MaxTokens = 2_000,
    dropped_from: Annotated[
        int, Field(ge=0, le=BIGINT_MAX, description="context ID: list the records it dropped"), NUMBER
    ] = 0,
) -> str:
    """Search the records of a space and the team's memories by words and meaning."""
    if dropped_from:
        return find_dropped(current(), dropped_from, limit=limit, max_tokens=max_tokens)
    return find_hits(current(), query, space, limit=limit, max_tokens=max_tokens)


def explain(
    context: Annotated[Id, Field(description="ID from get_context")],
    record: Annotated[ExpectedId, Field(description="ID or SOURCE:EXTERNAL_ID")],
) -> str:
    """Say why a context holds a record or lacks it: the step that lost it, its rank and score."""
    return explain_context(current(), context, record)


def remember(
    title: Title,
    content: Content,
    space: Annotated[Text, Field(description="slug: a record there; without it, a memory of the team")] = "",
    kind: Annotated[Type, Field(description="such as decision")] = "note",
    tags: Tags = (),  # type: ignore[assignment]
) -> str:
    """Keep something worth knowing later: a decision, a cause, a preference. The same text is kept once."""
    caller = current()
    caller.check_write()
    if not space:
        memory, is_new = keep_memory(caller, title=title, content=content, kind=kind, tags=tags)
        return f"Memory {memory.pk} {'kept' if is_new else 'was kept before'}."
    record_id, is_new = keep_record(caller, space, title=title, content=content, kind=kind, tags=tags)
    return f"Record {record_id} {'kept' if is_new else 'was kept before'}."


def task_step(
    action: Annotated[
        StepAction,
        Field(description="failed: context after an error; the others change or read a stored task"),
    ] = "context",
    task: Annotated[Text, Field(max_length=TASK_DESCRIPTION_MAX, description="a new task")] = "",
    task_id: Annotated[int, Field(ge=0, le=BIGINT_MAX, description="task of an earlier step"), NUMBER] = 0,
    phase: Annotated[
        Phase, Field(description="confidence, planning, building, diagnosis, reviewing or completing")
    ] = DEFAULT_PHASE,
    repository: Annotated[Text, Field(max_length=REPOSITORY_MAX)] = "",
    space: Annotated[Text, Field(description="slug: its records may help")] = "",
    error: Annotated[ErrorText, Field(description="output of a failed attempt")] = "",
    root_cause: Annotated[
        Text,
        Field(
            max_length=ROOT_CAUSE_CHARS,
            description="bad_plan, implementation_error, missing_context, environment_error, impossible_task",
        ),
    ] = "",
    plan: Annotated[Text, Field(max_length=PLAN_MAX)] = "",
    files: Annotated[Files, Field(description="changed since, by path")] = {},  # noqa: B006 pydantic copies it
    finding: Annotated[
        dict[str, Any],
        Field(description="for add_finding: category, content (object), confidence 0 to 1, tags, decision"),
    ] = {},  # noqa: B006 pydantic copies it
    finding_id: Annotated[Text, Field(max_length=20, description="for resolve_finding")] = "",
    answer: Annotated[Text, Field(max_length=RESOLUTION_MAX, description="for resolve_finding")] = "",
    force: Annotated[bool, Field(description="compress or advance with open decisions")] = False,
    quality: Annotated[float | None, Field(ge=0, le=QUALITY_MAX, description="for complete"), NUMBER] = None,
    outcome: Annotated[Outcome, Field(description="for complete")] = "completed",
    max_tokens: MaxTokens = 8_000,
) -> str:
    """Get all you need for a step of a task: files, memories, findings handed on, changes since a failure."""
    caller = current()
    given = {
        "finding": finding,
        "finding_id": finding_id,
        "answer": answer,
        "force": force,
        "quality": quality,
        "outcome": outcome,
    }
    check_arguments(action, given)
    if action not in ("context", "failed"):
        asked = TaskRequest(
            task_id, finding, finding_id, answer, force, quality, outcome, plan=plan, files=tuple(files)
        )
        return run_action(caller, cast("TaskAction", action), asked, max_tokens)
    caller.check_write()
    caller.check_team()
    failure = describe_failure(error, root_cause, plan, files)
    if action == "failed" and failure is None:
        raise InvalidInput.of("error", "give error or root_cause with it")
    request = AgentStepIn(
        task_id=task_id or None,
        task=task or None,
        phase=phase,
        repository=repository,
        space=space or None,
        budget=max_tokens,
        failure=failure,
    )
    return build_task_step(caller, request, max_tokens)


def feedback(
    context: Annotated[Id, Field(description="ID from get_context")],
    rating: Literal["up", "down"],
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = "",
    comment: Annotated[Text, Field(max_length=COMMENT_MAX)] = "",
    rater: Annotated[Text, Field(max_length=RATER_GIVEN_MAX, description="who votes; else the key")] = "",
) -> str:
    """Say whether a context helped to answer. A new vote of the same rater replaces the old one."""
    caller = current()
    caller.check_write()
    # Steps of tasks belong to no space.
    rows = Assembly.objects.of(caller.team) if caller.limited_to is None else caller.contexts()
    find_one(rows.filter(pk=context), f"context {context}")
    vote = give_feedback(
        team=caller.team,
        subject=SubjectIn(assembly_id=context),
        opinion=OpinionIn(rating=rating, reason=reason, comment=comment),
        rater=f"rater:{rater}" if rater.strip() else caller.actor,
    )
    return f"Voted {vote.rating} on context {context}."
