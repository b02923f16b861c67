"""Input types of memories and strategies."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from contextopt.agents.models import REPOSITORY_MAX, TASK_DESCRIPTION_MAX
from contextopt.inputs import NUMBER, Id, Input, Metadata, Moment, Slug, Text, refuse_blank
from memory.memories import models as limits
from memory.strategies.inputs import TOKENS_SAVED_MAX

RATINGS: Mapping[str, float] = {"up": 1.0, "down": 0.0}


def read_rating(value: object) -> object:
    """Convert an upvote or downvote to a number."""
    return RATINGS.get(value, value) if isinstance(value, str) else value


Content = Annotated[Text, Field(max_length=limits.CONTENT_MAX), AfterValidator(refuse_blank)]
MemoryTitle = Annotated[Text, Field(max_length=limits.TITLE_MAX)]
MemoryType = Annotated[Text, Field(max_length=limits.TYPE_MAX), AfterValidator(refuse_blank)]
MemoryCategory = Annotated[Text, Field(max_length=limits.CATEGORY_MAX)]
MemoryTags = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=limits.TAG_MAX)]], Field(max_length=limits.TAGS_MAX)
]
RepositoryName = Annotated[Text, Field(max_length=REPOSITORY_MAX)]
TrustLevelName = Literal["user", "agent", "external"]
Rating = Annotated[float, Field(ge=0, le=1), BeforeValidator(read_rating), NUMBER]
Reason = Annotated[Text, Field(max_length=limits.REASON_MAX)]


class MemoryIn(Input):
    """A memory. `trust_level` says who it comes from."""

    content: Content
    title: MemoryTitle = ""
    memory_type: MemoryType = "general"
    category: MemoryCategory = ""
    tags: MemoryTags = Field(default_factory=list)
    repository: RepositoryName = ""
    space: Slug | None = None
    task_id: Id | None = None
    trust_level: TrustLevelName = "user"
    payload: Metadata = Field(default_factory=dict)


class MemoryPatch(Input):
    """Changes to a memory. Fields you omit stay unchanged. Only `space` and `task_id` may be null."""

    content: Content = ""
    title: MemoryTitle = ""
    memory_type: MemoryType = ""
    category: MemoryCategory = ""
    tags: MemoryTags = Field(default_factory=list)
    repository: RepositoryName = ""
    space: Slug | None = None
    task_id: Id | None = None
    trust_level: TrustLevelName = "user"
    payload: Metadata = Field(default_factory=dict)


class HintIn(Input):
    """A task that is about to be planned."""

    task: Annotated[Text, Field(max_length=TASK_DESCRIPTION_MAX), AfterValidator(refuse_blank)]
    repository: RepositoryName = ""
    task_id: Id | None = None
    assembly_id: Id | None = None
    as_of: Annotated[
        Moment | None,
        Field(description="Search as of this time: later strategies are ignored, and decay ends then."),
    ] = None


class RatingIn(Input):
    """The outcome of using a strategy: from 0 (it hurt) to 1 (it helped), or "up" or "down"."""

    rating: Rating
    tokens_saved: Annotated[
        int | None,
        Field(ge=0, le=TOKENS_SAVED_MAX, deprecated=True, description="Ignored. Savings are measured."),
        NUMBER,
    ] = None


class RetireIn(Input):
    reason: Annotated[Reason, AfterValidator(refuse_blank)]


class PatternIn(Input):
    task: Annotated[Text, Field(max_length=TASK_DESCRIPTION_MAX)]
