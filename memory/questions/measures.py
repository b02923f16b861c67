"""Asks one question and measures its context. Nothing is logged: these are no prompts of the team's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from django.db.models import F
from django.db.models.functions import Left

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.quality.evidence import Evidence, line_frame, share_shown, shows_evidence
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.models import Record, Space
from memory.questions.models import Question

ACTOR = "evaluation"
# Search reads no more of a record for its best passages.
NOTES_READ = 100_000

Outcome = Literal["found", "cut", "dropped", "not_a_candidate", "deleted", "purged"]


class ExpectedOut(TypedDict):
    """An expected record in a question's context: found, or the step that lost it."""

    id: int
    external_id: str
    outcome: Outcome
    # Its place among the candidates, from 1.
    rank: int | None
    # Why it was dropped.
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A question's context: shares from 0 to 1. Without records, precision is 0.

    `evidence_shown` is the share of the expected records' tokens, of those that could fit into the budget.
    """

    recall: float
    precision: float
    evidence_shown: float
    tokens: int
    is_empty: bool
    outcomes: tuple[ExpectedOut, ...]
    warning_codes: tuple[str, ...]


def measure_question(
    *, space: Space, question: Question, settings: Mapping[str, Any], context_tokens: int | None
) -> Measured:
    """Assemble the question's context under these settings, and look for the records that answer it.

    Raises:
        EngineError, ContextoptError: no context can be assembled under these settings.
    """
    request = AssemblyIn(
        space=space.slug, query=question.text, as_of=question.as_of, context_tokens=context_tokens
    )
    result = assemble_space(
        team_id=space.team_id, request=request, actor=ACTOR, store=False, settings=settings
    )
    lines = result.record_lines
    records = _expected(question)
    has_dates = result.outcome.day is None
    evidence = {record.pk: _evidence(record, has_date=has_dates) for record in records}
    outcomes = tuple(_outcomes(records, evidence, question.answer, result))
    shown = sum(outcome["id"] in lines for outcome in outcomes)
    found = sum(outcome["outcome"] == "found" for outcome in outcomes)
    return Measured(
        recall=found / len(outcomes) if outcomes else 0.0,
        precision=shown / len(lines) if lines else 0.0,
        evidence_shown=share_shown(
            evidence, lines, result.allocation.context, get_tokenizer(result.certificate.encoding)
        ),
        tokens=result.certificate.tokens,
        is_empty=not lines,
        outcomes=outcomes,
        warning_codes=tuple(warning.code for warning in result.warnings),
    )


def _expected(question: Question) -> list[Record]:
    rows = question.records.annotate(said=Left(F("notes"), NOTES_READ)).defer("notes", "metadata", "summary")
    return list(rows.order_by("pk"))


def _evidence(record: Record, *, has_date: bool) -> Evidence:
    frame = line_frame(record.title, record.type, record.date, record.tags, has_date=has_date)
    return Evidence(getattr(record, "said"), frame)  # noqa: B009 - annotated by the query


def _outcomes(
    records: Sequence[Record], evidence: Mapping[int, Evidence], answer: str, result: AssemblyResult
) -> list[ExpectedOut]:
    lines = result.record_lines
    ledger = {entry.id: (rank, entry.reason) for rank, entry in enumerate(result.ledger, start=1)}
    outcomes = []
    for record in records:
        rank, reason = ledger.get(record.pk, (None, ""))
        outcome = _outcome(record, evidence[record.pk], answer, lines.get(record.pk), rank)
        outcomes.append(
            ExpectedOut(
                id=record.pk, external_id=record.external_id, outcome=outcome, rank=rank,
                reason=reason if outcome == "dropped" else "",
            )
        )  # fmt: skip
    return outcomes


def _outcome(record: Record, evidence: Evidence, answer: str, line: str | None, rank: int | None) -> Outcome:
    if line is not None:
        return "found" if shows_evidence(evidence, line, answer) else "cut"
    if record.purged_at is not None:
        return "purged"
    if record.deleted_at is not None:
        return "deleted"
    return "dropped" if rank is not None else "not_a_candidate"
