"""Input types for coding agents: contexts, files, diagnoses, tasks and attempts."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from contextopt.agents import models as limits
from contextopt.agents.models import DEFAULT_RECEIVER, FILE_CHARS_MAX, PATH_MAX, PHASE_BUDGET_MAX
from contextopt.assemblies.tokenfactors import CountedIn
from contextopt.engine.agents.contexts import FIELDS, MAX_NESTING, AgentContext, ContextFile
from contextopt.engine.agents.deltas import MAX_DIFF_CHARS, MAX_DIFF_LINES, MIN_CHARS
from contextopt.engine.agents.errorlogs import MAX_ERROR_TOKENS, MIN_TOKENS
from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.engine.agents.plans import read_plan
from contextopt.engine.agents.retries import DIAGNOSIS_CHARS, ROOT_CAUSE_CHARS, Diagnosis
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.quoting import unmark
from contextopt.engine.validation import InvalidValue
from contextopt.errors import InvalidInput
from contextopt.inputs import NUMBER, Id, Input, Ordinal, Text, check_json, has_surrogate, refuse_blank

ERROR_MAX = 2_000_000
PLAN_MAX = 100_000
PLAN_STEPS_MAX = 1_000
FILES_MAX = 2_000
ITEMS_MAX = 10_000
# More than any model reads. Beyond it, counting takes longer than a request may.
CONTEXT_CHARS_MAX = 4_000_000
PATHS_MAX = 200_000
INDEX = re.compile(r"\[(\d+)\]")


def check_path(path: str) -> str:
    if not flatten(path):
        raise ValueError("must not be blank")
    return path


def check_item(item: dict[str, Any]) -> dict[str, Any]:
    check_json(item, MAX_NESTING)
    return item


def check_files(files: dict[str, str | None]) -> dict[str, str | None]:
    """Check files, naming the path in the error, since it is not a field name.

    NUL characters are allowed, as binary files may be sent as text.
    """
    if len(files) > FILES_MAX:
        raise ValueError(f"must have at most {FILES_MAX:,} files, not {len(files):,}")
    for path, content in files.items():
        _check_file(path, content or "")
    if (size := sum(len(content or "") for content in files.values())) > CONTEXT_CHARS_MAX:
        raise ValueError(f"must have at most {CONTEXT_CHARS_MAX:,} characters in total, not {size:,}")
    return files


def refuse_other_than_text(files: object) -> object:
    """Refuse content other than text, naming the path in the error."""
    for path, content in files.items() if isinstance(files, dict) else ():
        if not isinstance(content, str | None):
            raise ValueError(f"{flatten(str(path))[:80]!r} must be text or null")
    return files


def list_files(files: object) -> object:
    """Turn an object of contents by path into a list of files."""
    if not isinstance(files, dict):
        return files
    return [{"path": path, "content": text} for path, text in files.items() if text is not None]


def _check_file(path: str, content: str) -> None:
    shown = flatten(path)[:80]
    if not shown or "\x00" in path or has_surrogate(path):
        raise ValueError(f"the path {shown!r} is blank or has characters that cannot be stored")
    if len(path) > PATH_MAX:
        raise ValueError(f"the path {shown!r}… must have at most {PATH_MAX} characters")
    if len(content) > FILE_CHARS_MAX:
        raise ValueError(f"{shown!r} must have at most {FILE_CHARS_MAX:,} characters")
    if has_surrogate(content):
        raise ValueError(f"{shown!r} contains a lone surrogate, which is not a character")


def json_type(value: object) -> str | None:
    """Return the union's tag for values of this type."""
    for kind, name in ((str, "<text>"), (dict, "<object>"), (list, "<list>")):
        if isinstance(value, kind):
            return name
    return None


FilePath = Annotated[Text, Field(min_length=1, max_length=PATH_MAX), AfterValidator(check_path)]
Item = Annotated[dict[str, Any], AfterValidator(check_item)]
TextOrItem = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[Item, Tag("<object>")],
    Discriminator(
        json_type, custom_error_type="text_or_object", custom_error_message="must be text or an object"
    ),
]
Items = Annotated[list[TextOrItem], Field(max_length=ITEMS_MAX)]
Files = Annotated[dict[str, str | None], AfterValidator(check_files), BeforeValidator(refuse_other_than_text)]
Phase = Annotated[Text, Field(min_length=1, max_length=MAX_PHASE_CHARS), AfterValidator(refuse_blank)]
CounterName = Literal["tokenizer", "heuristic"]
Receiver = Annotated[Text, Field(min_length=1, max_length=limits.RECEIVER_MAX), AfterValidator(refuse_blank)]
PlanText = Annotated[Text, Field(max_length=PLAN_MAX)]
Step = Annotated[
    Annotated[PlanText, Tag("<text>")] | Annotated[Item, Tag("<object>")],
    Discriminator(
        json_type,
        custom_error_type="text_or_object",
        custom_error_message="must be text or an object with a title",
    ),
]
Steps = Annotated[list[Step], Field(max_length=PLAN_STEPS_MAX)]
Plan = Annotated[
    Annotated[PlanText, Tag("<text>")] | Annotated[Steps, Tag("<list>")],
    Discriminator(
        json_type, custom_error_type="text_or_list", custom_error_message="must be text or a list of steps"
    ),
]
ErrorText = Annotated[Text, Field(max_length=ERROR_MAX)]
PhaseField = Literal["tree", "tree_paths", "package_manifest", "files", "memories", "docs", "tools"]


@contextmanager
def naming(place: str = "") -> Iterator[None]:
    """Turn the engine's errors into InvalidInput with a dotted field: `context.files.3.content`."""
    try:
        yield
    except InvalidValue as error:
        parts = [place, INDEX.sub(r".\1", error.field)]
        raise InvalidInput.of(".".join(filter(None, parts)), error.message) from error


class PhaseNamed(Input):
    """A phase, and the task it belongs to, named by options or a form."""

    phase: Phase
    task_id: Id | None = None


class ContextFileIn(Input):
    path: FilePath
    content: Annotated[Text, Field(max_length=FILE_CHARS_MAX)]


ContextFiles = Annotated[
    list[ContextFileIn],
    Field(max_length=FILES_MAX, description="A list of files, or an object with contents by path."),
    BeforeValidator(list_files),
]


class AgentContextIn(Input):
    """An agent's full context. Lists are ordered by relevance, the best first."""

    tree: Text | None = None
    tree_paths: Annotated[list[Text], Field(max_length=PATHS_MAX)] | None = None
    package_manifest: Text | None = None
    files: ContextFiles | None = None
    memories: Items | None = None
    docs: Items | None = None
    tools: Items | None = None
    task: Text | None = None

    def to_value(self, place: str = "context") -> AgentContext:
        """Return the engine's value.

        Raises:
            InvalidInput: a path occurs twice, or the context is too large to count.
        """
        given = {name: value for name, value in self if value is not None}
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        files = tuple(ContextFile(file.path, file.content) for file in self.files or ())
        with naming(place):
            context = AgentContext(**{**given, **lists, "files": files})
        if (size := len(unmark(context.render()))) > CONTEXT_CHARS_MAX:
            raise InvalidInput.of(
                place or "body", f"must have at most {CONTEXT_CHARS_MAX:,} characters, not {size:,}"
            )
        return context


class FilterIn(CountedIn):
    context: AgentContextIn
    task_id: Id | None = None
    counter: CounterName = "tokenizer"


class ProfileIn(Input):
    """Settings of the next version. Fields you omit are copied from the active profile."""

    budget_tokens: Annotated[int, Field(ge=0, le=PHASE_BUDGET_MAX), NUMBER] | None = None
    fields: Annotated[list[PhaseField], Field(max_length=len(FIELDS))] | None = None
    note: Annotated[Text, Field(max_length=200)] = ""


class DiagnosisIn(Input):
    """Why an attempt failed. Any root cause is accepted."""

    root_cause: Annotated[Text, Field(max_length=ROOT_CAUSE_CHARS), AfterValidator(refuse_blank)]
    reason: Annotated[Text, Field(max_length=DIAGNOSIS_CHARS)] | None = None
    suggested_action: Annotated[Text, Field(max_length=DIAGNOSIS_CHARS)] | None = None

    def to_value(self) -> Diagnosis:
        with naming("diagnosis"):
            return Diagnosis(**self.model_dump(exclude_none=True))


class TaskIn(Input):
    """A task, and the files given to its first attempt. Retries are compared with these files."""

    description: Annotated[Text, Field(max_length=limits.TASK_DESCRIPTION_MAX), AfterValidator(refuse_blank)]
    external_id: Annotated[Text, Field(max_length=limits.TASK_EXTERNAL_ID_MAX)] = ""
    repository: Annotated[Text, Field(max_length=limits.REPOSITORY_MAX)] = ""
    files: Files = Field(default_factory=dict)
    receiver: Receiver = DEFAULT_RECEIVER


class StandingDocumentIn(Input):
    """A document for every task of a repository. One with the same title is replaced."""

    repository: Annotated[Text, Field(max_length=limits.REPOSITORY_MAX), AfterValidator(refuse_blank)]
    title: Annotated[Text, Field(max_length=limits.STANDING_TITLE_MAX), AfterValidator(refuse_blank)]
    content: Annotated[Text, Field(max_length=limits.STANDING_CONTENT_MAX), AfterValidator(refuse_blank)]


class RetryLimitsIn(Input):
    """How much of the error and of each file's change is sent. The team's settings apply to what you omit."""

    error_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_ERROR_TOKENS), NUMBER] | None = None
    diff_lines: Annotated[int, Field(ge=1, le=MAX_DIFF_LINES), NUMBER] | None = None
    diff_characters: Annotated[int, Field(ge=MIN_CHARS, le=MAX_DIFF_CHARS), NUMBER] | None = None
    uncut: bool = False

    @field_validator("uncut")
    @classmethod
    def refuse_other_limits(cls, uncut: bool, info: ValidationInfo) -> bool:
        if uncut and any(info.data.get(name) is not None for name in ("diff_lines", "diff_characters")):
            raise ValueError("shows whole changes, so it excludes diff_lines and diff_characters")
        return uncut


class FailureFactsIn(Input):
    """The facts that are known after an attempt failed."""

    plan: Plan | None = None
    error: ErrorText | None = None
    diagnosis: DiagnosisIn

    def plan_value(self) -> str | tuple[str, ...]:
        """Return the plan as the engine reads it: a text, or its steps.

        Raises:
            InvalidInput: a step is an object without a title.
        """
        with naming():
            return read_plan(self.plan)


class FailureIn(FailureFactsIn):
    """The facts about a failure, and the full context that the agent could be sent."""

    context: AgentContextIn | None = None

    def context_value(self) -> AgentContext | None:
        return None if self.context is None else self.context.to_value()


class AttemptIn(FailureIn, RetryLimitsIn, CountedIn):
    """A failed attempt and the current state of all files. A missing file counts as deleted.

    `before` lists files that the receiver was sent in full by other means than this API. `attempt` is the
    number you expect; if another attempt came first, the request is a conflict.
    """

    files: Files
    before: Files = Field(default_factory=dict)
    receiver: Receiver = DEFAULT_RECEIVER
    attempt: Ordinal | None = None
    counter: CounterName = "tokenizer"


class RetryIn(FailureIn):
    """A retry without a stored task: the files before and after the attempt."""

    task: Annotated[Text, Field(max_length=limits.TASK_DESCRIPTION_MAX)]
    before: Files
    after: Files
    attempt: Ordinal = 1


class CountedRetryIn(RetryIn, RetryLimitsIn, CountedIn):
    """A retry and the counter of its tokens. `added` says that nothing would have been sent otherwise."""

    added: bool = False
    counter: CounterName = "tokenizer"


def present(files: Mapping[str, str | None]) -> dict[str, str]:
    """Return the files that exist."""
    return {path: content for path, content in files.items() if content is not None}
