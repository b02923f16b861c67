"""How the active settings and others do on a space's question sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, OuterRef, Subquery

from contextopt.models import ContextConfig, Space
from contextopt.spaces.configs import settings_of
from memory.models import EvaluatedQuestion, Evaluation, Question, QuestionSet
from memory.questions.evaluations import (
    EVALUATIONS,
    last_evaluation,
    newest_of,
    reaches,
    settings_key,
    start_evaluation,
)
from memory.questions.guard import fresh_evaluation

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

    @classmethod
    def of(cls, question_set: QuestionSet, before: Evaluation | None, draft: Evaluation | None) -> "Proof":
        bare = cls(question_set, before, draft)
        if before is None or draft is None or not bare.is_compared:
            return bare
        earlier = EvaluatedQuestion.objects.filter(evaluation=before, question=OuterRef("question"))
        results = draft.results.annotate(earlier=Subquery(earlier.values("recall")[:1]))
        lost = results.filter(recall__lt=F("earlier")).select_related("question").order_by("question_id")
        return cls(
            question_set,
            before,
            draft,
            gained=results.filter(recall__gt=F("earlier")).count(),
            lost=lost.count(),
            lost_first=[each.question for each in lost[:LOST_SHOWN]],
        )

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
    active = settings_key(settings_of(space.configs.active().get()))
    rows = [
        Proof.of(each, last_evaluation(each, active), newest_of(each, [key]).get(key) if key else None)
        for each in _sets(space)
    ]
    return Proofs(rows, key, version)


def read_version_proofs(space: Space, config: ContextConfig) -> Proofs:
    return read_proofs(space, settings_key(settings_of(config)), config.version)


def begin_proofs(space: Space, changes: Mapping[str, Any], actor: str) -> Proofs:
    """Evaluate the active settings with these changes, and as they are, on each set."""
    settings = {**settings_of(space.configs.active().get()), **changes}
    _begin(space, settings, None, actor)
    return read_proofs(space, settings_key(settings))


def begin_version_proofs(space: Space, config: ContextConfig, actor: str) -> Proofs:
    """Evaluate a stored version and the active one on each set."""
    _begin(space, settings_of(config), config.version, actor)
    return read_version_proofs(space, config)


def _begin(space: Space, settings: Mapping[str, Any], version: int | None, actor: str) -> None:
    """Evaluate the active settings and these on each set that has no fresh evaluation of them."""
    active = space.configs.active().get()
    for each in _sets(space):
        for wanted, number in ((settings_of(active), active.version), (settings, version)):
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
