"""Compares a fixed budget with stricter and laxer adaptive ones on a question set, and proposes the one
with the fewest tokens that finds as much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from contextopt.engine.settings import ADAPTIVE, FIXED
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.errors import Conflict
from contextopt.spaces.configs import ContextConfig, draft_settings
from contextopt.spaces.models import Space
from memory.questions.evaluations import active_settings, begin_later, newest_of, reaches, settings_key
from memory.questions.guard import fresh_evaluation
from memory.questions.models import Evaluation, QuestionSet

STRICTNESSES = tuple(Decimal(tenths) / 10 for tenths in (-2, -1, 0, 1, 2))
# A proposal may lose this much of the fixed budget's recall.
RECALL_LOST = 0.01


@dataclass(frozen=True, slots=True)
class Trial:
    """One budget with its newest evaluation on the set. `strictness` is None for the fixed budget."""

    strictness: Decimal | None
    evaluation: Evaluation | None

    @property
    def is_done(self) -> bool:
        return self.evaluation is not None and self.evaluation.is_done

    @property
    def is_running(self) -> bool:
        return self.evaluation is not None and self.evaluation.is_running

    @property
    def recall(self) -> float:
        return (self.evaluation and self.evaluation.recall) or 0.0

    @property
    def tokens(self) -> float:
        return (self.evaluation and self.evaluation.tokens_mean) or 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The trials of a set, the fixed budget first."""

    fixed: Trial
    adaptive: tuple[Trial, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        return (self.fixed, *self.adaptive)

    @property
    def is_begun(self) -> bool:
        """Whether any adaptive budget was tried. The fixed one may have been evaluated for other reasons."""
        return any(trial.evaluation for trial in self.adaptive)

    @property
    def is_running(self) -> bool:
        return any(trial.is_running for trial in self.trials)

    @property
    def is_done(self) -> bool:
        return all(trial.is_done for trial in self.trials)

    @property
    def proposed(self) -> Trial | None:
        """Return the adaptive budget with the fewest tokens that keeps the recall; None if none saves any."""
        if not self.is_done:
            return None
        least = self.fixed.recall - RECALL_LOST
        enough = [
            trial
            for trial in self.adaptive
            if reaches(trial.recall, least) and trial.tokens < self.fixed.tokens
        ]
        return min(enough, key=lambda trial: trial.tokens, default=None)


def read_calibration(question_set: QuestionSet) -> Calibration:
    """Return the newest evaluation of each budget under the active settings; one query reads them all."""
    tried = [(strictness, settings_key(settings)) for strictness, settings in _tried(question_set.space)]
    found = newest_of(question_set, [key for _, key in tried])
    fixed, *adaptive = (Trial(strictness, found.get(key)) for strictness, key in tried)
    return Calibration(fixed, tuple(adaptive))


def begin_calibration(*, question_set: QuestionSet, actor: str) -> None:
    """Have a worker evaluate each budget that has no fresh evaluation.

    Raises:
        Conflict: the set has no questions.
    """
    calibration = read_calibration(question_set)
    for trial, (_, settings) in zip(calibration.trials, _tried(question_set.space), strict=True):
        if not trial.is_running and fresh_evaluation(question_set, settings) is None:
            begin_later(question_set=question_set, settings=settings, actor=actor)


def draft_proposed(*, question_set: QuestionSet, actor: str) -> ContextConfig:
    """Save the proposed budget as a draft of the space's settings.

    Raises:
        Conflict: no budget is proposed.
    """
    proposed = read_calibration(question_set).proposed
    if proposed is None:
        raise Conflict("No adaptive budget finds as much with fewer tokens.")
    return draft_settings(
        space=question_set.space,
        created_by=actor,
        note=f"Calibrated on “{question_set.name}”"[:200],
        budget_mode=ADAPTIVE,
        adaptive_strictness=proposed.strictness,
    )


def _tried(space: Space) -> Iterator[tuple[Decimal | None, Settings]]:
    """Yield each strictness with the settings to evaluate, the fixed budget first."""
    active = active_settings(space)
    yield None, active.replace(budget_mode=FIXED)
    for strictness in STRICTNESSES:
        yield strictness, active.replace(budget_mode=ADAPTIVE, adaptive_strictness=strictness)
