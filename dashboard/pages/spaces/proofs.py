"""The recall of the active settings and of a draft on a space's question sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.models import Space
from contextopt.spaces.configs import settings_of
from memory.models import Evaluation, EvaluationState, QuestionSet
from memory.questions.evaluations import (
    begin,
    last_evaluation,
    newest_first,
    reaches,
    settings_key,
    start_evaluation,
)
from memory.questions.guard import fresh_evaluation

SETS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Proof:
    """One question set: its last evaluation under the active settings, and under the draft."""

    question_set: QuestionSet
    before: Evaluation | None
    draft: Evaluation | None

    @property
    def is_running(self) -> bool:
        return self.draft is not None and self.draft.state == EvaluationState.RUNNING

    @property
    def is_below(self) -> bool:
        minimum, draft = self.question_set.min_recall, self.draft
        if minimum is None or draft is None or draft.state != EvaluationState.DONE:
            return False
        return not reaches(draft.recall, minimum)


@dataclass(frozen=True, slots=True)
class Proofs:
    """The sets of a space. `key` names the draft's settings; it is empty without a draft."""

    rows: Sequence[Proof]
    key: str = ""

    @property
    def is_running(self) -> bool:
        return any(row.is_running for row in self.rows)


def read_proofs(space: Space, key: str = "") -> Proofs:
    """Return the last evaluations of the active settings and of a draft's."""
    active = settings_key(settings_of(space.configs.active().get()))
    rows = [Proof(each, last_evaluation(each, active), _newest(each, key)) for each in _sets(space)]
    return Proofs(rows, key)


def begin_proofs(space: Space, changes: Mapping[str, Any], actor: str) -> Proofs:
    """Evaluate the active settings with these changes on each set that has no fresh evaluation of them."""
    settings = {**settings_of(space.configs.active().get()), **changes}
    key = settings_key(settings)
    for each in _sets(space):
        newest = _newest(each, key)
        is_running = newest is not None and newest.state == EvaluationState.RUNNING
        if not is_running and fresh_evaluation(each, settings) is None:
            begin(start_evaluation(question_set=each, settings=settings, config_version=None, actor=actor))
    return read_proofs(space, key)


def _sets(space: Space) -> list[QuestionSet]:
    rows = QuestionSet.objects.of(space).filter(questions__isnull=False).distinct()
    return list(rows.select_related("space__team")[:SETS_SHOWN])


def _newest(question_set: QuestionSet, key: str) -> Evaluation | None:
    return newest_first(question_set.evaluations.of_settings(key)).first() if key else None
