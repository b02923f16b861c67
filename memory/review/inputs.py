"""Input types of reviews."""

from typing import Annotated, Literal

from pydantic import Field

from contextopt.inputs import NUMBER, Id, Input, Text
from memory.feedback.inputs import Rater
from memory.review.models import NOTE_MAX, RECORDS_MAX, VERDICTS_MAX

VerdictName = Literal["context_missing", "context_cut", "context_wrong", "model", "no_problem", "other"]
SKIPPED_MAX = 200


class VerdictIn(Input):
    """A reviewer's finding. `record_ids` are the records that it is about, of the assembly or its space."""

    verdict: VerdictName
    note: Annotated[Text, Field(max_length=NOTE_MAX)] = ""
    record_ids: Annotated[list[Id], Field(max_length=RECORDS_MAX)] = Field(default_factory=list)


class GivenVerdict(VerdictIn):
    """A verdict. `reviewer` is the person who gives it; without it, the key is."""

    reviewer: Rater | None = None


class ReserveIn(Input):
    """The item to reserve, or without an ID the next one that is not in `skip`."""

    reviewer: Rater | None = None
    item_id: Id | None = None
    skip: Annotated[list[Id], Field(max_length=SKIPPED_MAX)] = Field(default_factory=list)


class ReviewerIn(Input):
    """The person who releases an item; without it, the key."""

    reviewer: Rater | None = None


class AssignIn(Input):
    """The username of the only person who may review the item, or null for anyone."""

    username: Annotated[Text, Field(min_length=1, max_length=150)] | None


class RulesPatch(Input):
    """Changes to the rules. Fields you omit stay unchanged."""

    takes_disliked: bool = True
    sample_share: Annotated[
        float, Field(ge=0, le=1, description="Share of other assemblies to sample at random, 0 to 1."), NUMBER
    ] = 0
    verdicts_wanted: Annotated[
        int, Field(ge=1, le=VERDICTS_MAX, description="Verdicts wanted per item."), NUMBER
    ] = 1
