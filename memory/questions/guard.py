"""Refuses settings that miss the recall that a question set of their space demands."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from contextopt.engine.settings import ContextConfig
from contextopt.engine.wording import plural
from contextopt.errors import BelowMinimum
from contextopt.spaces.models import Space
from memory.questions.evaluations import (
    EVALUATIONS,
    active_settings,
    last_evaluation,
    reaches,
    settings_key,
    start_evaluation,
)
from memory.questions.models import Evaluation, EvaluationState, QuestionSet

# A set with more questions must be evaluated beforehand, because it takes too long for one request.
AT_ONCE_QUESTIONS = 150
# Records change, so older evaluations no longer count.
FRESH_FOR = timedelta(hours=1)


def check_minimums(*, space: Space, settings: ContextConfig, actor: str, **_: Any) -> bool:
    """Evaluate the settings on each set that demands a recall; return whether there is any.

    Raises:
        BelowMinimum: a set's recall is below its minimum, or the set must be evaluated first.
    """
    guarded = QuestionSet.objects.in_space(space).filter(min_recall__isnull=False, questions__isnull=False)
    found = list(guarded.distinct().select_related("space__team"))
    faults = [fault for each in found if (fault := _find_fault(each, settings, actor))]
    if faults:
        raise BelowMinimum(" ".join(faults))
    return bool(found)


def _find_fault(question_set: QuestionSet, settings: ContextConfig, actor: str) -> str:
    """Return why the set refuses the settings, or an empty text."""
    evaluation = fresh_evaluation(question_set, settings)
    if evaluation is None:
        questions = question_set.questions.count()
        if questions > AT_ONCE_QUESTIONS:
            return (
                f"Evaluate these settings on the question set {question_set.name!r} first: "
                f"it has {questions:,} questions."
            )
        evaluation = start_evaluation(
            question_set=question_set, settings=settings, config_version=None, actor=actor
        )
        EVALUATIONS.complete(evaluation)
    if evaluation.state != EvaluationState.DONE:
        return f"The question set {question_set.name!r} could not be evaluated: {evaluation.error}"
    return _compare(question_set, evaluation)


def fresh_evaluation(question_set: QuestionSet, settings: ContextConfig) -> Evaluation | None:
    """Return the last evaluation of these settings, unless questions changed or an hour passed since."""
    found = last_evaluation(question_set, settings_key(settings))
    since = max(question_set.changed_at, timezone.now() - FRESH_FOR)
    return found if found is not None and found.created_at >= since else None


def _compare(question_set: QuestionSet, evaluation: Evaluation) -> str:
    minimum = question_set.min_recall or 0.0
    if reaches(evaluation.recall, minimum):
        return ""
    before = last_evaluation(question_set, settings_key(active_settings(question_set.space)))
    known = before.recall if before else None
    beside = "" if known is None else f" The active config has {_percent(known)}."
    recall = _percent(evaluation.recall or 0.0)
    return (
        f"Recall on the question set {question_set.name!r} would be {recall} over "
        f"{plural(evaluation.questions, 'question')}, below its minimum of {_percent(minimum)}.{beside}"
    )


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")
