"""Recomputes the figures of evaluations from the stored outcomes of their questions, as proof."""

from collections.abc import Iterator

from django.db.models import Count, F

from contextopt.assemblies.verify import Difference
from contextopt.sql import fetch_all
from memory.questions.evaluations import TOLERANCE
from memory.questions.models import Evaluation

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
