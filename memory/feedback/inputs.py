"""Input types of feedback."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from contextopt.inputs import Id, Input, Text, refuse_blank
from memory.feedback.models import ANSWER_MAX, COMMENT_MAX, EXTERNAL_MESSAGE_MAX, RATER_MAX, REASON_MAX

# The prefix that tells the kind of rater is stored with the name and counts towards its length.
RATER_GIVEN_MAX = RATER_MAX - len("rater:")

Rater = Annotated[Text, Field(max_length=RATER_GIVEN_MAX), AfterValidator(refuse_blank)]
ExternalId = Annotated[Text, Field(max_length=EXTERNAL_MESSAGE_MAX), AfterValidator(refuse_blank)]


class SubjectIn(Input):
    """Identifies the answer: by its message, by the caller's own id for it, or by its assembly."""

    message_id: Id | None = None
    external_message_id: ExternalId | None = None
    assembly_id: Id | None = None

    @model_validator(mode="after")
    def check_subject(self) -> Self:
        if self.message_id is not None and self.external_message_id is not None:
            raise ValueError("give message_id or external_message_id, not both")
        if self.message_id is None and self.external_message_id is None and self.assembly_id is None:
            raise ValueError("give message_id, external_message_id or assembly_id")
        return self


class OpinionIn(Input):
    """A vote without its subject."""

    rating: Literal["up", "down"]
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    comment: Annotated[Text, Field(max_length=COMMENT_MAX)] = ""


class FeedbackIn(SubjectIn, OpinionIn):
    """One vote. `rater` is the person who votes; without it, the key is the rater.

    `answer` is the text of an answer made elsewhere.
    """

    rater: Rater | None = None
    answer: Annotated[Text, Field(max_length=ANSWER_MAX)] = ""

    @model_validator(mode="after")
    def check_answer(self) -> Self:
        if self.answer and self.external_message_id is None:
            raise ValueError("give external_message_id with answer, which is stored under that id")
        return self


class FeedbackBack(SubjectIn):
    """The vote to withdraw."""

    rater: Rater | None = None
