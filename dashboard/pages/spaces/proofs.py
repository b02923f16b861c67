"""Compares the recall of the active settings and of others on a space's question sets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from contextopt.engine.settings import ContextConfig as Settings
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space
from memory.questions.evaluations import (
    EVALUATIONS,
    active_settings,
    newest_of,
    reaches,
    settings_key,
    start_evaluation,
)
from memory.questions.guard import fresh_evaluation
from memory.questions.models import EvaluatedQuestion, Evaluation, Question, QuestionSet

SETS_SHOWN = 20
LOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Proof:
    """One question set: its last evaluations under the active settings and under the others.

    `gained` counts the questions whose recall the others raise, `lost` those whose recall they lower.
    """

    question_set: QuestionSet
    before: Evaluation | None
    draft: Evaluation | None
    gained: int = 0
    lost: int = 0
    lost_first: Sequence[Question] = ()

    @property
    def is_running(self) -> bool:
        return self.draft is not None and self.draft.is_running

    @property
    def is_done(self) -> bool:
        return self.draft is not None and self.draft.is_done

    @property
    def is_compared(self) -> bool:
        return self.is_done and self.before is not None and self.before != self.draft

    @property
    def is_below(self) -> bool:
        minimum, draft = self.question_set.min_recall, self.draft
        return (
            minimum is not None and draft is not None and self.is_done and not reaches(draft.recall, minimum)
        )


@dataclass(frozen=True, slots=True)
class Proofs:
    """The sets of a space. `key` names the other settings, `version` their number if they are stored."""

    rows: Sequence[Proof]
    key: str = ""
    version: int | None = None

    @property
    def is_running(self) -> bool:
        return any(row.is_running for row in self.rows)


def read_proofs(space: Space, key: str = "", version: int | None = None) -> Proofs:
    """Return the last evaluations of the active settings and of those that the key names."""
    active = settings_key(active_settings(space))
    sets = _sets(space)
    rows = Evaluation.objects.filter(question_set__in=sets)
    before = rows.done().of_settings(active).newest_by_set()
    others = rows.of_settings(key).newest_by_set() if key else {}
    bare = [Proof(each, before.get(each.pk), others.get(each.pk)) for each in sets]
    return Proofs(_with_changes(bare), key, version)


def _with_changes(rows: list[Proof]) -> list[Proof]:
    """Count the questions whose recall rises and falls, and add the first that fall."""
    pairs = [(row.before, row.draft) for row in rows if row.is_compared]
    earlier = EvaluatedQuestion.objects.filter(
        evaluation__in=[before for before, _ in pairs], question=OuterRef("question")
    )
    results = EvaluatedQuestion.objects.filter(evaluation__in=[draft for _, draft in pairs]).annotate(
        earlier=Subquery(earlier.values("recall")[:1])
    )
    counts = _count_changes(results)
    lost = _first_lost(results)
    return [
        replace(row, gained=counts[pk][0], lost=counts[pk][1], lost_first=lost[pk])
        if (pk := row.draft.pk if row.draft else 0) in counts
        else row
        for row in rows
    ]


def _count_changes(results: QuerySet[EvaluatedQuestion]) -> dict[int, tuple[int, int]]:
    """Return how many questions each evaluation raises and lowers."""
    counted = results.values("evaluation").annotate(
        gained=Count("pk", filter=Q(recall__gt=F("earlier"))),
        lost=Count("pk", filter=Q(recall__lt=F("earlier"))),
    )
    return {each["evaluation"]: (each["gained"], each["lost"]) for each in counted}


def _first_lost(results: QuerySet[EvaluatedQuestion]) -> Mapping[int, list[Question]]:
    """Return the first questions that each evaluation lowers."""
    place = Window(RowNumber(), partition_by="evaluation", order_by="question_id")
    rows = results.filter(recall__lt=F("earlier")).annotate(place=place).filter(place__lte=LOST_SHOWN)
    found = defaultdict(list)
    for each in rows.select_related("question").order_by("question_id"):
        found[each.evaluation_id].append(each.question)
    return found


def read_version_proofs(space: Space, config: ContextConfig) -> Proofs:
    return read_proofs(space, settings_key(config.settings), config.version)


def begin_proofs(space: Space, changes: Mapping[str, Any], actor: str) -> Proofs:
    """Evaluate the active settings with these changes, and as they are, on each set."""
    settings = active_settings(space).replace(**changes)
    _begin(space, settings, None, actor)
    return read_proofs(space, settings_key(settings))


def begin_version_proofs(space: Space, config: ContextConfig, actor: str) -> Proofs:
    """Evaluate a stored version and the active one on each set."""
    _begin(space, config.settings, config.version, actor)
    return read_version_proofs(space, config)


def _begin(space: Space, settings: Settings, version: int | None, actor: str) -> None:
    """Evaluate the active settings and these on each set that has no fresh evaluation of them."""
    active = space.configs.active().get()
    for each in _sets(space):
        for wanted, number in ((active.settings, active.version), (settings, version)):
            key = settings_key(wanted)
            newest = newest_of(each, [key]).get(key)
            is_running = newest is not None and newest.is_running
            if not is_running and fresh_evaluation(each, wanted) is None:
                EVALUATIONS.begin(
                    start_evaluation(question_set=each, settings=wanted, config_version=number, actor=actor)
                )


def _sets(space: Space) -> list[QuestionSet]:
    rows = QuestionSet.objects.in_space(space).filter(questions__isnull=False).distinct()
    return list(rows.select_related("space__team")[:SETS_SHOWN])
