"""Input types of the reports on ended tasks."""

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from contextopt.agents import models as limits
from contextopt.agents.inputs import ErrorText, FilePath, Plan, check_item, naming
from contextopt.assemblies.tokenfactors import ModelName
from contextopt.engine.agents.plans import StepOutcome, count_tries, read_plan
from contextopt.inputs import INT_MAX, NUMBER, Id, Input, Text, refuse_blank

LESSON_MAX = 10_000
LESSONS_MAX = 100
STEPS_MAX = 1_000
FILES_CHANGED_MAX = 2_000
STEP_TEXT_MAX = 10_000
# Low enough that every possible sum stays within 64 bits.
TOKENS_SAVED_MAX = 1_000_000_000_000


def read_lesson(value: object) -> object:
    """Turn a text into a lesson. An object without a content gets one made of its other texts and numbers."""
    if isinstance(value, str):
        return {"content": value}
    if not isinstance(value, dict) or "content" in value:
        return value
    check_item(value)
    texts = [f"{name}: {text}" for name, text in value.items() if isinstance(text, str | int | float)]
    return {"content": "\n".join(texts)}


Outcome = Literal["completed", "failed", "impossible"]
"""How a task ends: the states of `TaskState` but open."""


class LessonIn(Input):
    """A decision, or something that went wrong."""

    content: Annotated[Text, Field(max_length=LESSON_MAX), AfterValidator(refuse_blank)]
    category: Annotated[Text, Field(max_length=64)] = ""
    tags: Annotated[list[Annotated[Text, Field(min_length=1, max_length=100)]], Field(max_length=50)] = Field(
        default_factory=list
    )


class StepIn(Input):
    """The outcome of one step of the plan. `step_index` counts the plan's non-empty lines from 0."""

    step_index: Annotated[int, Field(ge=0, le=INT_MAX), NUMBER]
    action: Annotated[Text, Field(max_length=STEP_TEXT_MAX)] = ""
    result: Annotated[Text, Field(max_length=STEP_TEXT_MAX)] = ""
    error: ErrorText | None = None


Lessons = Annotated[
    list[Annotated[LessonIn, BeforeValidator(read_lesson)]],
    Field(max_length=LESSONS_MAX, description="Texts, or objects with a content."),
]


class CompletionIn(Input):
    """The report of a finished task. Without a `task_id` a new task is recorded for it."""

    task_id: Id | None = None
    repository: Annotated[Text, Field(max_length=limits.REPOSITORY_MAX)] = ""
    description: Annotated[Text, Field(max_length=limits.TASK_DESCRIPTION_MAX)] = ""
    outcome: Outcome = "completed"
    plan: Plan | None = None
    attempts: Annotated[list[StepIn], Field(max_length=STEPS_MAX)] = Field(default_factory=list)
    total_attempts: Annotated[
        int,
        Field(ge=1, le=10_000, description="Counts if it is more than the server and the steps show."),
        NUMBER,
    ] = 1
    quality_score: Annotated[
        float | None,
        Field(
            ge=0,
            le=limits.QUALITY_MAX,
            validate_default=True,
            description="Quality of the result. Required if the task was completed.",
        ),
        NUMBER,
    ] = None
    files_changed: Annotated[list[FilePath], Field(max_length=FILES_CHANGED_MAX)] = Field(
        default_factory=list
    )
    model: ModelName = ""
    tokens_saved: Annotated[
        int,
        Field(ge=0, le=TOKENS_SAVED_MAX, deprecated=True, description="Ignored. Savings are measured."),
        NUMBER,
    ] = 0
    decisions: Lessons = Field(default_factory=list)
    error_patterns: Lessons = Field(default_factory=list)

    @field_validator("quality_score")
    @classmethod
    def _rated(cls, quality: float | None, info: ValidationInfo) -> float | None:
        if quality is None and info.data.get("outcome") == "completed":
            raise ValueError("is required if the task was completed")
        return quality

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, values: Any) -> Any:
        """Treat null as not given."""
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value is not None}

    @property
    def outcomes(self) -> list[StepOutcome]:
        return [StepOutcome(step.step_index, step.result, step.error or "") for step in self.attempts]

    @property
    def tries(self) -> int:
        """The most tries that any step took: two if a step failed and then succeeded."""
        return max(count_tries(self.outcomes).values(), default=1)

    def plan_text(self) -> str:
        """Return the plan as text, one line per step.

        Raises:
            InvalidInput: a step is an object without a title.
        """
        with naming():
            plan = read_plan(self.plan)
        return plan if isinstance(plan, str) else "\n".join(" ".join(step.split()) for step in plan)

    def digest(self, day: date | None = None) -> str:
        """Return the SHA-256 of the report, and of the day if given. A repeated report has the same one."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(f"{text}{day or ''}".encode()).hexdigest()
