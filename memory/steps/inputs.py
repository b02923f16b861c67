"""Input types of the context for one step of an agent."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from contextopt.agents.inputs import (
    AgentContextIn,
    AttemptIn,
    FailureFactsIn,
    Files,
    Phase,
    Receiver,
    RetryLimitsIn,
)
from contextopt.agents.models import DEFAULT_RECEIVER, REPOSITORY_MAX, TASK_DESCRIPTION_MAX
from contextopt.assemblies.tokenfactors import CountedIn
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.inputs import NUMBER, Id, Moment, Ordinal, Slug, Text, refuse_blank

DEFAULT_PHASE = "planning"
BUDGET_MIN = 20


class StepFailureIn(FailureFactsIn, RetryLimitsIn):
    """A failed attempt of the task, and the files that may have changed.

    A file that is missing in `files` has not changed; one that is null was deleted. `before` and `attempt`
    are as for attempts.
    """

    files: Files = Field(default_factory=dict)
    before: Files = Field(default_factory=dict)
    attempt: Ordinal | None = None

    def as_attempt(self, data: "AgentStepIn") -> AttemptIn:
        """Return the attempt to record."""
        given = self.model_dump(exclude_unset=True)
        return AttemptIn(
            **{"files": {}, **given},
            context=data.context,
            receiver=data.receiver,
            encoding=data.encoding,
            model=data.model,
        )


class AgentStepIn(CountedIn):
    """One step of a task: a stored task by its `task_id`, or the text of a new one in `task`.

    `context` is what the caller has itself. It goes before what is found here, and the saving is the
    difference to it. The records of the space are chosen as of `as_of`, or else as of now.
    """

    task_id: Id | None = None
    task: Annotated[Text, Field(max_length=TASK_DESCRIPTION_MAX), AfterValidator(refuse_blank)] | None = (
        Field(default=None, validate_default=True)
    )
    phase: Phase = DEFAULT_PHASE
    repository: Annotated[Text, Field(max_length=REPOSITORY_MAX)] = ""
    space: Slug | None = None
    as_of: Moment | None = None
    budget: Annotated[int, Field(ge=BUDGET_MIN, le=MAX_PART_TOKENS), NUMBER] | None = None
    context: AgentContextIn | None = None
    failure: StepFailureIn | None = None
    receiver: Receiver = DEFAULT_RECEIVER

    @field_validator("task")
    @classmethod
    def _one_task(cls, task: str | None, info: ValidationInfo) -> str | None:
        if "task_id" in info.data and (task is None) == (info.data["task_id"] is None):
            raise ValueError("give task_id, or use task for a new one")
        return task
