"""The tool `task_step`: a step of a task whose whole result stays within a number of tokens."""

from collections.abc import Iterator, Mapping

from contextopt.agents.inputs import DiagnosisIn
from contextopt.engine.agents.retries import IMPLEMENTATION_ERROR
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import InvalidInput
from memory.mcp.answers import QUOTED, count_result
from memory.mcp.callers import Caller
from memory.mcp.contexts import LONGEST_ID
from memory.steps.build import build_step
from memory.steps.inputs import AgentStepIn, StepFailureIn
from memory.steps.results import StepResult


def describe_failure(
    error: str, root_cause: str, plan: str, files: Mapping[str, str | None]
) -> StepFailureIn | None:
    """Return the failed attempt that the arguments describe, or None without an error and a cause.

    Raises:
        InvalidInput: a plan or files are given without either.
    """
    if not error and not root_cause:
        if plan or files:
            raise InvalidInput.of("plan" if plan else "files", "give error or root_cause with it")
        return None
    diagnosis = DiagnosisIn(root_cause=root_cause or IMPLEMENTATION_ERROR)
    return StepFailureIn(error=error, plan=plan, diagnosis=diagnosis, files=dict(files))


def build_task_step(caller: Caller, request: AgentStepIn, max_tokens: int) -> str:
    """Build a step whose whole result is within the limit; return the answer's text.

    Raises:
        InvalidInput, NotFound, Conflict: see `build_step`.
    """
    tokenizer = get_tokenizer(request.encoding)

    def excess(draft: StepResult) -> int:
        return count_result(describe(draft, LONGEST_ID), tokenizer) - max_tokens

    result = build_step(team=caller.team, data=request, actor=caller.actor, excess=excess)
    context_id = result.assembly.pk if result.assembly else None
    for is_brief in (False, True):
        answer = describe(result, context_id, is_brief=is_brief)
        if count_result(answer, tokenizer) <= max_tokens:
            return answer
    return f"Task {result.asked.task.pk}: nothing fits."


def describe(result: StepResult, context_id: int | None, *, is_brief: bool = False) -> str:
    """Return what a model reads: our lines, and below them the text of the step.

    A brief one has codes instead of the warnings' messages.
    """
    return "\n".join(_lines(result, context_id, is_brief=is_brief))


def _lines(result: StepResult, context_id: int | None, *, is_brief: bool) -> Iterator[str]:
    asked = result.asked
    sent = "nothing is sent" if context_id is None else f"context {context_id}"
    note = f" {QUOTED}" if result.text else ""
    yield f"Task {asked.task.pk}, phase {flatten(asked.data.phase)}, {sent}.{note}"
    for warning in result.warnings:
        yield f"Warning {warning.code}." if is_brief else flatten(f"Warning {warning.code}: {warning}")
    dropped = [f"{each.dropped:,} of {each.name}" for each in result.sections if each.dropped]
    if dropped and not is_brief:
        yield f"Dropped: {', '.join(dropped)}."
    if result.text:
        yield result.text.rstrip("\n")
