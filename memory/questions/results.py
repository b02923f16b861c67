"""The results of an evaluation, question by question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from django.db.models import QuerySet

from contextopt.engine.prompts.warnings import (
    BUDGET_TOO_SMALL,
    EMPTY_WINDOW,
    NOT_EMBEDDED,
    NOTHING_RELEVANT,
    ContextWarning,
    WarningJson,
    warnings_json,
)
from memory.questions.measures import ExpectedOut
from memory.questions.models import EvaluatedQuestion, Evaluation

FOUND = "found"
MISSES = {
    "cut": "cut too short",
    "dropped": "dropped",
    "not_a_candidate": "not among the candidates",
    "deleted": "deleted",
    "purged": "purged",
}

MESSAGES = {
    EMPTY_WINDOW: "No record is in the date window.",
    NOTHING_RELEVANT: "No record seems to be about the question, so the answer may not be in the space.",
    BUDGET_TOO_SMALL: "The context budget is too small for any record.",
    NOT_EMBEDDED: "The question or some records are not embedded, so they were matched by words only.",
}
"""General messages of a context's warnings, because evaluations store only the codes."""


class EvaluatedOut(TypedDict):
    """One question's context in an evaluation."""

    # The id that the question was imported with, or else its number.
    id: str
    question_id: int
    query: str
    recall: float
    precision: float
    evidence_shown: float | None
    tokens: int
    empty: bool
    records: list[ExpectedOut]
    warnings: list[WarningJson]


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A question's context in one evaluation."""

    question_id: int
    name: str
    text: str
    recall: float
    precision: float
    evidence_shown: float | None
    tokens: int
    is_empty: bool
    outcomes: tuple[ExpectedOut, ...]
    warning_codes: tuple[str, ...]

    @property
    def missed(self) -> list[ExpectedOut]:
        return [outcome for outcome in self.outcomes if outcome["outcome"] != FOUND]

    def to_json(self) -> EvaluatedOut:
        return {
            "id": self.name,
            "question_id": self.question_id,
            "query": self.text,
            "recall": self.recall,
            "precision": self.precision,
            "evidence_shown": self.evidence_shown,
            "tokens": self.tokens,
            "empty": self.is_empty,
            "records": list(self.outcomes),
            "warnings": warnings_json(map(read_warning, self.warning_codes)),
        }


def read_warning(code: str) -> ContextWarning:
    """Return the warning with a stored code. A code of another version is its own message."""
    return ContextWarning(code, MESSAGES.get(code, code))


def result_rows(evaluation: Evaluation) -> QuerySet[EvaluatedQuestion]:
    return evaluation.results.select_related("question").defer("question__answer")


def to_result(row: EvaluatedQuestion) -> QuestionResult:
    question = row.question
    return QuestionResult(
        question_id=question.pk,
        name=question.external_id or str(question.pk),
        text=question.text,
        recall=row.recall,
        precision=row.precision,
        evidence_shown=row.evidence_shown,
        tokens=row.tokens,
        is_empty=row.is_empty,
        outcomes=tuple(row.outcomes),
        warning_codes=tuple(row.warning_codes),
    )


def read_results(evaluation: Evaluation) -> Sequence[QuestionResult]:
    """Return the results in the order of the questions."""
    return [to_result(row) for row in result_rows(evaluation).order_by("question_id")]
