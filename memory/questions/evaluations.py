"""Asks all questions of a set under some settings."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Literal, TypedDict

import structlog
from django.db import transaction
from django.db.models import Avg, Count, F, Q
from django.db.models.functions import Left
from django.utils import timezone

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.evidence import Evidence, line_frame, share_shown, shows_evidence
from contextopt.engine.settings import ContextConfig
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.errors import PRODUCT_ERRORS, Conflict
from contextopt.jobs import run_after_commit
from contextopt.locks import Lock, hold_space
from contextopt.people.models import Team
from contextopt.spaces.configs import change_settings, find_config, given_settings
from contextopt.spaces.models import Record, Space
from contextopt.sql import find_one
from memory.questions.inputs import EvaluationIn
from memory.questions.models import (
    SETTINGS_KEY_CHARS,
    EvaluatedQuestion,
    Evaluation,
    EvaluationState,
    Question,
    QuestionSet,
)
from memory.work import BATCH, Work

log = structlog.get_logger(__name__)

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
    *, space: Space, question: Question, settings: ContextConfig, context_tokens: int | None
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
    rows = question.records.annotate(said=Left(F("notes"), NOTES_READ)).defer("notes", "metadata", "summary")
    records = list(rows.order_by("pk"))
    has_dates = result.outcome.day is None
    evidence = {record.pk: _evidence(record, has_date=has_dates) for record in records}
    outcomes = tuple(_outcomes(records, evidence, question.answer, result))
    shown = sum(outcome["id"] in lines for outcome in outcomes)
    found = sum(outcome["outcome"] == "found" for outcome in outcomes)
    return Measured(
        recall=found / len(outcomes) if outcomes else 0.0,
        precision=shown / len(lines) if lines else 0.0,
        evidence_shown=share_shown(evidence, lines, result.allocation.context, result.asked.tokenizer),
        tokens=result.certificate.tokens_at_most,
        is_empty=not lines,
        outcomes=outcomes,
        warning_codes=tuple(warning.code for warning in result.warnings),
    )


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


EVALUATE = "memory.tasks.evaluate"
TOLERANCE = 1e-9
# Older evaluations of a set are deleted.
KEPT = 100


def find_evaluation(team: Team, evaluation_id: int) -> Evaluation:
    """Return the team's evaluation with its set and space.

    Raises:
        NotFound: the team has no such evaluation.
    """
    rows = Evaluation.objects.filter(question_set__space__team=team)
    related = rows.select_related("question_set__space__team")
    return find_one(related.filter(pk=evaluation_id), f"evaluation {evaluation_id}")


def active_settings(space: Space) -> Settings:
    return space.configs.active().get().settings


def settings_key(settings: Settings) -> str:
    """Return a text that is equal for equal settings, however their numbers are written."""
    written = {
        name: str(value.normalize()) if isinstance(value, Decimal) else value
        for name, value in settings.values().items()
    }
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:SETTINGS_KEY_CHARS]


def request_evaluation(*, question_set: QuestionSet, data: EvaluationIn, actor: str) -> Evaluation:
    """Start an evaluation of a version of the settings, or of changes to the active ones.

    Raises:
        NotFound: the space has no such version.
        InvalidInput: a setting is null that must have a value, or no assembly could work with it.
        Conflict: the set has no questions.
    """
    space = question_set.space
    config = find_config(space, data.config_version) if data.config_version else space.configs.active().get()
    changes = given_settings(data.settings) if data.settings else {}
    return start_evaluation(
        question_set=question_set,
        settings=change_settings(config.settings, changes),
        config_version=None if changes else config.version,
        context_tokens=data.context_tokens,
        actor=actor,
    )


def request_and_begin(*, question_set: QuestionSet, data: EvaluationIn, actor: str) -> Evaluation:
    """Start an evaluation, and ask the first questions at once: a small set is done then.

    Raises:
        NotFound, InvalidInput, Conflict: see `request_evaluation`.
    """
    evaluation = request_evaluation(question_set=question_set, data=data, actor=actor)
    EVALUATIONS.begin(evaluation)
    return evaluation


@transaction.atomic
def start_evaluation(
    *,
    question_set: QuestionSet,
    settings: Settings,
    config_version: int | None,
    context_tokens: int | None = None,
    actor: str,
) -> Evaluation:
    """Store a new evaluation, without asking anything yet.

    Raises:
        Conflict: the set has no questions.
    """
    hold_space(question_set.space_id)
    questions = question_set.questions.count()
    if not questions:
        raise Conflict(f"The question set {question_set.name!r} has no questions yet.")
    return Evaluation.objects.create(
        question_set=question_set,
        config_version=config_version,
        settings=settings.to_stored(),
        settings_key=settings_key(settings),
        context_tokens=context_tokens,
        questions=questions,
        created_by=actor,
    )


def begin_later(*, question_set: QuestionSet, settings: Settings, actor: str) -> None:
    """Have a worker evaluate a draft.

    Raises:
        Conflict: the set has no questions.
    """
    made = start_evaluation(question_set=question_set, settings=settings, config_version=None, actor=actor)
    run_after_commit(EVALUATE, made.pk)


def _next_questions(evaluation: Evaluation) -> list[Question]:
    asked = evaluation.results.values("question_id")
    rows = Question.objects.filter(question_set=evaluation.question_set_id).exclude(pk__in=asked)
    return list(rows.order_by("pk")[:BATCH])


def _ask(evaluation: Evaluation, questions: list[Question]) -> None:
    space, settings = evaluation.question_set.space, Settings.from_json(evaluation.settings)
    try:
        measured = [
            (question, measure_question(
                space=space, question=question, settings=settings, context_tokens=evaluation.context_tokens
            ))
            for question in questions
        ]  # fmt: skip
    except PRODUCT_ERRORS as error:
        _fail(evaluation, str(error))
        return
    with transaction.atomic():
        hold_space(space.pk)
        left = set(Question.objects.filter(pk__in=[q.pk for q in questions]).values_list("pk", flat=True))
        EvaluatedQuestion.objects.bulk_create(
            EvaluatedQuestion(
                evaluation=evaluation, question=question,
                **{**asdict(one), "outcomes": list(one.outcomes), "warning_codes": list(one.warning_codes)},
            )
            for question, one in measured if question.pk in left
        )  # fmt: skip
        evaluation.asked = evaluation.results.count()
        evaluation.questions = max(evaluation.questions, evaluation.asked)
        evaluation.worked_at = timezone.now()
        evaluation.save(update_fields=["asked", "questions", "worked_at"])


def _finish(evaluation: Evaluation) -> None:
    found = evaluation.results.aggregate(
        questions=Count("pk"),
        recall=Avg("recall"),
        precision=Avg("precision"),
        evidence_shown=Avg("evidence_shown"),
        tokens_mean=Avg("tokens"),
        empty=Count("pk", filter=Q(is_empty=True)),
    )
    if not found["questions"]:
        _fail(evaluation, "All questions were deleted in the meantime.")
        return
    for name, value in found.items():
        setattr(evaluation, name, value)
    evaluation.asked, evaluation.state = found["questions"], EvaluationState.DONE
    evaluation.finished_at = timezone.now()
    evaluation.save(update_fields=[*found, "asked", "state", "finished_at"])
    log.info("question_set_evaluated", evaluation_id=evaluation.pk, **found)
    old = evaluation.question_set.evaluations.newest_first()[KEPT:]
    Evaluation.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()


def _fail(evaluation: Evaluation, error: str) -> None:
    evaluation.state, evaluation.error = EvaluationState.FAILED, error
    evaluation.finished_at = timezone.now()
    evaluation.save(update_fields=["state", "error", "finished_at"])


EVALUATIONS = Work(EVALUATE, Lock.EVALUATION, _next_questions, _ask, _finish)


def reaches(recall: float | None, minimum: float) -> bool:
    """Return whether a mean of shares is at least the minimum, whatever its last binary digit."""
    return recall is not None and recall >= minimum - TOLERANCE


def last_evaluation(question_set: QuestionSet, key: str) -> Evaluation | None:
    """Return the newest finished evaluation of these settings with the space's own budget, if any."""
    return question_set.evaluations.done().of_settings(key).newest_first().first()


def newest_of(question_set: QuestionSet, keys: Sequence[str]) -> dict[str, Evaluation]:
    """Return the newest evaluation of each of these settings by its key, finished or not."""
    rows = question_set.evaluations.filter(settings_key__in=keys, context_tokens=None)
    newest = rows.order_by("settings_key", "-created_at", "-id").distinct("settings_key")
    return {each.settings_key: each for each in newest}
