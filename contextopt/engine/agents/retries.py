"""The text of a coding agent's next attempt, chosen by why the last one failed."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from contextopt.engine.agents.contexts import AgentContext, ContextFile
from contextopt.engine.agents.deltas import (
    ChangedFile,
    Content,
    DeltaLimits,
    ReceiverFiles,
    SentFile,
    build_delta,
    fully_sent,
    is_binary,
)
from contextopt.engine.agents.errorlogs import (
    ERROR_CHARS,
    ERROR_TOKENS,
    MAX_ERROR_TOKENS,
    MIN_TOKENS,
    latest_error,
    latest_error_within,
)
from contextopt.engine.agents.plans import summarise_plan
from contextopt.engine.text.cleaning import flatten, flatten_to
from contextopt.engine.text.quoting import marked_block
from contextopt.engine.text.tokens import Counter, RenderedCounter, Unmarked
from contextopt.engine.validation import MAX_INT, InvalidValue, check_int, check_text

type ActionName = Literal["replan", "retry", "refetch", "stop", "wait"]

BAD_PLAN = "bad_plan"
IMPLEMENTATION_ERROR = "implementation_error"
MISSING_CONTEXT = "missing_context"
IMPOSSIBLE_TASK = "impossible_task"
ENVIRONMENT_ERROR = "environment_error"
ROOT_CAUSES = (BAD_PLAN, IMPLEMENTATION_ERROR, MISSING_CONTEXT, IMPOSSIBLE_TASK, ENVIRONMENT_ERROR)

UNSENT_ACTIONS: tuple[ActionName, ...] = ("stop", "wait")
"""Nothing is sent while a task waits or after it stops."""

TASK_SUMMARY_CHARS = 200
DIAGNOSIS_CHARS = 1_000
ROOT_CAUSE_CHARS = 64
ENVIRONMENT_WAIT_SECONDS = 30

_ACTIONS: Mapping[str, ActionName] = {
    BAD_PLAN: "replan",
    MISSING_CONTEXT: "refetch",
    IMPOSSIBLE_TASK: "stop",
    ENVIRONMENT_ERROR: "wait",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why an attempt failed. Any root cause is accepted; an unknown one retries with the changes."""

    root_cause: str
    reason: str = ""
    suggested_action: str = ""

    def __post_init__(self) -> None:
        for name, limit in (
            ("root_cause", ROOT_CAUSE_CHARS),
            ("reason", DIAGNOSIS_CHARS),
            ("suggested_action", DIAGNOSIS_CHARS),
        ):
            value = getattr(self, name)
            check_text(name, value)
            if len(value) > limit:
                raise InvalidValue(name, f"must have at most {limit:,} characters")
        if not flatten(self.root_cause):
            raise InvalidValue("root_cause", "must not be empty")

    def __str__(self) -> str:
        reason = flatten(self.reason).rstrip(". ")
        suggestion = flatten(self.suggested_action)
        text = flatten(self.root_cause)
        if reason:
            text += f" — {reason}"
        return f"{text}. Suggestion: {suggestion}" if suggestion else f"{text}."

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RetryContext:
    """The reduced context of a retry. `estimated_tokens` counts its rendered text."""

    task_summary: str
    plan_summary: str
    latest_error: str
    changed_files: tuple[ChangedFile, ...]
    diagnosis: Diagnosis
    attempt_number: int
    estimated_tokens: int = 0

    def render(self) -> str:
        """Return the text that is sent: our headings, with foreign text below them, each line marked."""
        return _sections(
            ("Task", marked_block(self.task_summary)),
            ("Plan", marked_block(self.plan_summary)),
            ("Latest error", marked_block(self.latest_error)),
            ("Changed files", "".join(file.render() for file in self.changed_files)),
            ("Diagnosis", marked_block(str(self.diagnosis))),
        )

    def field_chars(self) -> Iterator[int]:
        yield len(self.task_summary)
        yield len(self.plan_summary)
        yield len(self.latest_error)
        yield sum(len(file.diff) for file in self.changed_files)
        yield sum(map(len, self.diagnosis.to_json().values()))

    def to_json(self) -> dict[str, Any]:
        return {
            "task_summary": self.task_summary,
            "plan_summary": self.plan_summary,
            "latest_error": self.latest_error,
            "changed_files": [_file_json(file) for file in self.changed_files],
            "diagnosis": self.diagnosis.to_json(),
            "attempt_number": self.attempt_number,
            "estimated_tokens": self.estimated_tokens,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`."""
        files = tuple(ChangedFile(**file) for file in stored["changed_files"])
        return cls(**{**stored, "changed_files": files, "diagnosis": Diagnosis(**stored["diagnosis"])})


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The facts about a failed attempt.

    `plan` is a text or its steps. `context` is the full context that the agent could be sent; without it,
    that is the current files only. `attempt_number` is that of the next attempt: 1 is the first retry.
    """

    task: str
    plan: str | tuple[str, ...]
    error: str
    diagnosis: Diagnosis
    attempt_number: int
    context: AgentContext | None = None

    def __post_init__(self) -> None:
        check_text("task", self.task)
        check_text("error", self.error)
        check_int("attempt_number", self.attempt_number, 1, MAX_INT)
        if isinstance(self.plan, str):
            check_text("plan", self.plan)
            return
        if not isinstance(self.plan, tuple):
            raise InvalidValue("plan", "must be text or a tuple of steps")
        for position, step in enumerate(self.plan):
            check_text(f"plan[{position}]", step)

    @property
    def plan_text(self) -> str:
        return self.plan if isinstance(self.plan, str) else "\n".join(self.plan)

    def in_full(self, action: ActionName, context: AgentContext) -> "FullRetry":
        """Return what would be sent without Contextopt. A planner gets the diagnosis, but no error."""
        if action == "replan":
            return FullRetry(context, self.plan_text, task=self.task, diagnosis=self.diagnosis)
        return FullRetry(context, self.plan_text, self.error)


@dataclass(frozen=True, slots=True)
class RetryLimits(DeltaLimits):
    """How much of the error and of each file's change is sent."""

    error_tokens: int = ERROR_TOKENS

    def __post_init__(self) -> None:
        DeltaLimits.__post_init__(self)
        check_int("error_tokens", self.error_tokens, MIN_TOKENS, MAX_ERROR_TOKENS)


DEFAULT_RETRY_LIMITS = RetryLimits()


@dataclass(frozen=True, slots=True)
class FullRetry:
    """The text of a retry without deltas: the context, and the plan and the error, all in full.

    That of a replan has the task and the diagnosis instead of the error.
    """

    context: AgentContext
    plan: str
    error: str = ""
    task: str = ""
    diagnosis: Diagnosis | None = None

    def render(self) -> str:
        rest = _sections(
            ("Task", marked_block(self.task)),
            ("Plan", marked_block(self.plan)),
            ("Latest error", marked_block(self.error)),
            ("Diagnosis", marked_block(str(self.diagnosis or ""))),
        )
        return "\n".join(filter(None, (self.context.render(), rest)))

    def field_chars(self) -> Iterator[int]:
        yield from self.context.field_chars()
        yield from map(len, (self.task, self.plan, self.error))
        yield sum(map(len, self.diagnosis.to_json().values())) if self.diagnosis else 0


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The next action, the text sent for it, and the saving compared with the full context.

    `task` carries the diagnosis if the agent tries again. `everything` is set if the full context is sent
    again; `context` then only describes the changes. `receiver_files` is the receiver's memory after sending.
    `full_context_tokens` counts what would be sent without Contextopt and so without marks: the full context,
    or for a replan the task, the plan and the diagnosis. If nothing is sent, nothing is saved.
    """

    action: ActionName
    task: str
    context: RetryContext
    full_context_tokens: int
    receiver_files: Mapping[str, SentFile]
    everything: FullRetry | None = None
    wait_seconds: int = 0

    @property
    def delta_tokens(self) -> int:
        return self.context.estimated_tokens

    @property
    def is_sent(self) -> bool:
        return self.action not in UNSENT_ACTIONS

    @property
    def saved_tokens(self) -> int | None:
        return self.full_context_tokens - self.delta_tokens if self.is_sent else None

    @property
    def saved_percent(self) -> float | None:
        """Return the saving in per cent, to one decimal; 0 if there was nothing to save."""
        return percent_of(self.saved_tokens, self.full_context_tokens)


def percent_of(saved_tokens: int | None, full_tokens: int) -> float | None:
    """Return a saving in per cent, to one decimal: 0 if there was nothing to save, None without a saving."""
    if saved_tokens is None:
        return None
    return round(100 * saved_tokens / full_tokens, 1) if full_tokens else 0.0


def plan_retry(
    attempt: FailedAttempt,
    receiver: ReceiverFiles,
    current: Mapping[str, Content],
    counter: Counter,
    *,
    limits: RetryLimits = DEFAULT_RETRY_LIMITS,
) -> RetryPlan:
    """Choose the next action by root cause, and the text sent for it.

    bad_plan: plan again from the task, the plan and the diagnosis. missing_context: send everything again.
    impossible_task: stop. environment_error: wait, then repeat the plan without new text. Any other cause:
    retry with the delta, or with everything if that is smaller, which is rare.
    """
    action = _ACTIONS.get(attempt.diagnosis.root_cause, "retry")
    nothing = RetryContext("", "", "", (), attempt.diagnosis, attempt.attempt_number)
    if action == "stop":
        return RetryPlan(action, attempt.task, nothing, 0, receiver)
    everything = attempt.in_full("retry", text_files(current) if attempt.context is None else attempt.context)
    full_tokens = counter.count(Unmarked(everything))
    if action == "wait":
        return RetryPlan(
            action, attempt.task, nothing, full_tokens, receiver, wait_seconds=ENVIRONMENT_WAIT_SECONDS
        )
    context = replace(nothing, task_summary=flatten_to(attempt.task, TASK_SUMMARY_CHARS))
    if action == "replan":
        context = _counted(replace(context, plan_summary=attempt.plan_text), counter)
        full_tokens = counter.count(Unmarked(attempt.in_full(action, AgentContext())))
        return RetryPlan(action, attempt.task, context, full_tokens, receiver)
    context = replace(
        context,
        plan_summary=summarise_plan(attempt.plan),
        latest_error=_cut_error(attempt.error, limits.error_tokens, counter),
    )
    task = retry_task(attempt)
    if action == "retry":
        deltas = build_delta(receiver, current, counter.count_text, limits, error=attempt.error)
        context = replace(context, changed_files=deltas.changed_files)
        delta = _counted(context, counter)
        # Everything is sent with marks, which make it larger than the baseline.
        if delta.estimated_tokens <= full_tokens or delta.estimated_tokens <= counter.count(everything):
            return RetryPlan(action, task, delta, full_tokens, deltas.receiver_files)
    context = replace(context, estimated_tokens=counter.count(everything))
    sent = fully_sent({file.path: file.content for file in everything.context.files})
    receiver = {path: known for path, known in receiver.items() if path in current} | sent
    return RetryPlan(action, task, context, full_tokens, receiver, everything)


def text_files(current: Mapping[str, Content]) -> AgentContext:
    """Return the full context if the caller gave none: all text files."""
    texts = sorted((path, str(content)) for path, content in current.items() if not is_binary(content))
    return AgentContext(files=tuple(ContextFile(path, text) for path, text in texts))


def retry_task(attempt: FailedAttempt) -> str:
    """Return the task with a line that explains the failure."""
    line = f"[RETRY {attempt.attempt_number}] Diagnosis: {attempt.diagnosis}"
    return f"{attempt.task}\n\n{line}" if attempt.task else line


def _cut_error(error: str, tokens: int, counter: Counter) -> str:
    """Return the lines that explain the failure. If characters count, 1,000 of them equal 450 tokens."""
    if isinstance(counter, RenderedCounter):
        return latest_error_within(error, tokens, counter.tokenizer)
    return latest_error(error, tokens * ERROR_CHARS // ERROR_TOKENS)


def _counted(context: RetryContext, counter: Counter) -> RetryContext:
    return replace(context, estimated_tokens=counter.count(context))


def _sections(*parts: tuple[str, str]) -> str:
    """Return the parts that are not empty, each below its heading."""
    return "\n".join(f"## {heading}\n{lines}" for heading, lines in parts if lines)


def _file_json(file: ChangedFile) -> dict[str, Any]:
    values = {"path": file.path, "diff": file.diff, "kind": file.kind, "is_truncated": file.is_truncated}
    return values | {"renamed_from": file.renamed_from} if file.renamed_from else values
