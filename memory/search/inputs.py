"""Input types of the search over records and memories."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from contextopt.engine.values import DateRange
from contextopt.errors import InvalidInput
from contextopt.inputs import NUMBER, QUERY_MAX, Input, Moment, Slug, Text
from contextopt.search.hybrid import Method
from contextopt.spaces import models as limits
from memory.memories.inputs import TrustLevelName

RESULTS_MAX = 100
VALUES_MAX = 50

type Kind = Literal["record", "memory"]

Words = Annotated[Text, Field(max_length=QUERY_MAX)]
Values = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=limits.SOURCE_MAX)]],
    Field(min_length=1, max_length=VALUES_MAX),
]
Share = Annotated[float, Field(ge=0, le=1), NUMBER]


class SearchIn(Input):
    """One search. A hit must match every given filter, with at least one of its values."""

    query: Words
    space: Annotated[Slug | None, Field(description="Searches its records; omit for memories only.")] = None
    kinds: Annotated[list[Kind], Field(min_length=1, max_length=2)] | None = None
    limit: Annotated[int, Field(ge=1, le=RESULTS_MAX), NUMBER] = 10
    types: Annotated[Values | None, Field(description="Types of records or memories to search.")] = None
    sources: Annotated[Values | None, Field(description="Sources of records; memories have none.")] = None
    tags: Values | None = None
    repositories: Annotated[
        Values | None, Field(description="Repositories or categories of memories; records have none.")
    ] = None
    categories: Annotated[
        Values | None, Field(description="Repositories or categories of memories; records have none.")
    ] = None
    trust_levels: Annotated[
        list[TrustLevelName] | None,
        Field(min_length=1, max_length=3, description="Sources of memories; records count as user."),
    ] = None
    date_from: Annotated[Moment | None, Field(description="Only results dated at or after this time.")] = None
    date_to: Annotated[Moment | None, Field(description="Only results dated at or before this time.")] = None
    as_of: Annotated[
        Moment | None, Field(description="Search as of this time: later records and memories are ignored.")
    ] = None
    method: Method = "rrf"
    hybrid_alpha: Annotated[Share, Field(description="Weight of the vector score, 0 to 1.")] = 0.5
    min_similarity: Annotated[Share | None, Field(description="Minimum cosine similarity, 0 to 1.")] = None
    min_relevance: Annotated[
        Share | None, Field(description="Results whose `match_score` is lower are marked, 0 to 1.")
    ] = None

    @field_validator("date_to")
    @classmethod
    def refuse_before_start(cls, date_to: datetime | None, info: ValidationInfo) -> datetime | None:
        date_from = info.data.get("date_from")
        if date_to is not None and date_from is not None and date_to < date_from:
            raise ValueError("must not be before date_from")
        return date_to

    @property
    def wanted_kinds(self) -> tuple[Kind, ...]:
        if self.kinds is not None:
            return tuple(dict.fromkeys(self.kinds))
        return ("memory",) if self.space is None else ("record", "memory")

    def for_records(self) -> Self:
        """Return the search for a key that is limited to spaces, and so finds records only.

        Raises:
            InvalidInput: it names no space, or asks for memories, which are the whole team's.
        """
        if self.space is None:
            raise InvalidInput.of("space", "is required for a key that is limited to spaces")
        if "memory" in (self.kinds or ()):
            raise InvalidInput.of("kinds", "memories require a key for all spaces")
        return self.model_copy(update={"kinds": ["record"]})

    @property
    def latest(self) -> datetime | None:
        """The latest date that a hit may have; None for no limit."""
        if self.as_of is None:
            return self.date_to
        end = DateRange.ending_at(self.as_of, None).end
        return end if self.date_to is None else min(end, self.date_to)
