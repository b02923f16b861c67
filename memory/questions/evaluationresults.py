"""The results of an evaluation, question by question."""

from collections.abc import Iterator
from typing import Any, TypedDict

from django.db.models import Count, F, QuerySet

from contextopt.assemblies.verify import Difference
from contextopt.engine.values import (
    BUDGET_TOO_SMALL,
    EMPTY_WINDOW,
    NOT_EMBEDDED,
    NOTHING_RELEVANT,
    ContextWarning,
    WarningJson,
    warnings_json,
)
from contextopt.inputs import show
from contextopt.spaces.models import Record
from contextopt.sql import fetch_all
from memory.questions.evaluations import TOLERANCE, ExpectedOut
from memory.questions.models import EvaluatedQuestion, Evaluation

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


def read_warning(code: str) -> ContextWarning:
    """Return the warning with a stored code. A code of another version is its own message."""
    return ContextWarning(code, MESSAGES.get(code, code))


def result_rows(evaluation: Evaluation) -> QuerySet[EvaluatedQuestion]:
    return evaluation.results.select_related("question").defer("question__answer")


def result_json(row: EvaluatedQuestion) -> dict[str, Any]:
    """Return a question's context as the API and `evaluate --json` show it."""
    return show(
        EvaluatedOut,
        row,
        id=row.question.name,
        query=row.question.text,
        empty=row.is_empty,
        records=row.outcomes,
        warnings=warnings_json(map(read_warning, row.warning_codes)),
    )


def erase_from_evaluations(record: Record) -> int:
    """Update the record's external id in stored outcomes; return how many questions had it."""
    entry = {"id": record.pk}
    rows = EvaluatedQuestion.objects.filter(
        evaluation__question_set__space=record.space_id, outcomes__contains=[entry]
    ).exclude(outcomes__contains=[{**entry, "external_id": record.external_id}])
    changed = list(rows.select_for_update(of=("self",), no_key=True).order_by("pk"))
    for row in changed:
        for outcome in row.outcomes:
            if outcome["id"] == record.pk:
                outcome["external_id"] = record.external_id
    return EvaluatedQuestion.objects.bulk_update(changed, ["outcomes"], batch_size=500)


# An evaluation of which a question was deleted since can't be recomputed, and is left out.
_SQL = """
SELECT e.id, e.recall, found.recall, e.precision, found.precision,
       e.evidence_shown, found.evidence_shown, e.tokens_mean, found.tokens_mean, e.empty,
       found.empty
  FROM memory_evaluation e
  JOIN memory_questionset s ON s.id = e.question_set_id
  JOIN contextopt_space p ON p.id = s.space_id
 CROSS JOIN LATERAL (
       SELECT count(*) AS questions, avg(coalesce(o.share, 0)) AS recall, avg(r.precision) AS precision,
              avg(r.evidence_shown) AS evidence_shown,
              avg(r.tokens)::float8 AS tokens_mean, count(*) FILTER (WHERE r.is_empty) AS empty
         FROM memory_evaluatedquestion r
        CROSS JOIN LATERAL (
              SELECT avg((one ->> 'outcome' = 'found')::int)::float8 AS share
                FROM jsonb_array_elements(r.outcomes) one) o
        WHERE r.evaluation_id = e.id) found
 WHERE p.team_id = %(team)s AND e.state = 'done' AND found.questions = e.questions
 ORDER BY e.id
"""
FIGURES = ("recall", "precision", "evidence_shown", "tokens_mean", "empty")


def verify_evaluations(team_id: int) -> Iterator[tuple[int, Difference]]:
    """Yield the team's evaluations with a figure that its questions' outcomes do not give."""
    for evaluation_id, *values in fetch_all(_SQL, {"team": team_id}):
        for name, stored, found in zip(FIGURES, values[::2], values[1::2], strict=True):
            if stored is not None and abs(stored - found) > TOLERANCE * max(1, abs(found)):
                yield evaluation_id, Difference(name, stored, found)


def count_evaluations(team_id: int) -> int:
    """Count the evaluations that can be recomputed."""
    rows = Evaluation.objects.done().filter(question_set__space__team=team_id)
    return rows.annotate(left=Count("results")).filter(left=F("questions")).count()
