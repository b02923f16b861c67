"""Input types of question sets."""

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from contextopt.inputs import NUMBER, QUERY_MAX, Id, Input, Moment, Name, Ordinal, Text, Tokens, refuse_blank
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.models import EXTERNAL_ID_MAX, SOURCE_MAX
from memory.feedback.models import ANSWER_MAX
from memory.questions.models import QUESTION_ID_MAX

EXPECTED_MAX = 1_000


def _read_id(value: object) -> object:
    """Read a whole number as the text of an id."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


QuestionId = Annotated[Text, Field(min_length=1, max_length=QUESTION_ID_MAX), BeforeValidator(_read_id)]
QuestionText = Annotated[Text, Field(max_length=QUERY_MAX), AfterValidator(refuse_blank)]
Answer = Annotated[Text, Field(max_length=ANSWER_MAX)]
ExpectedId = Annotated[
    Text, Field(min_length=1, max_length=SOURCE_MAX + 1 + EXTERNAL_ID_MAX), BeforeValidator(_read_id)
]
Expected = Annotated[list[ExpectedId], Field(max_length=EXPECTED_MAX)]
RecordIds = Annotated[list[Id], Field(max_length=EXPECTED_MAX)]
Recall = Annotated[float, Field(ge=0, le=1), NUMBER]


class QuestionSetIn(Input):
    name: Name


class MinimumIn(Input):
    """The minimum recall of settings to be published; null removes it."""

    min_recall: Recall | None


class QuestionIn(Input):
    """A question. `expected` holds external IDs of the records that answer it, or SOURCE:EXTERNAL_ID;
    `record_ids` holds IDs of records.
    """

    id: QuestionId | None = None
    query: QuestionText
    expected: Expected = Field(default_factory=list)
    record_ids: RecordIds = Field(default_factory=list)
    answer: Answer = ""
    as_of: Moment | None = None

    @model_validator(mode="after")
    def check_expected(self) -> Self:
        if not self.expected and not self.record_ids:
            raise ValueError("give expected or record_ids: the records that answer the question")
        return self


class QuestionPatch(Input):
    """Changes to a question. Fields you omit stay unchanged."""

    query: QuestionText = ""
    expected: Expected = Field(default_factory=list)
    record_ids: RecordIds = Field(default_factory=list)
    answer: Answer = ""
    as_of: Moment | None = None


class EvaluationIn(Input):
    """The settings to evaluate: a version of the space's, or changes to the active one; by default the active
    one.
    """

    config_version: Ordinal | None = None
    settings: ConfigIn | None = None
    context_tokens: Tokens | None = None

    @model_validator(mode="after")
    def check_settings(self) -> Self:
        if self.config_version is not None and self.settings is not None:
            raise ValueError("give config_version or settings, not both")
        return self
