"""The recall on question sets, which stands beside the savings of space contexts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from contextopt.models import AuditEvent, ContextConfig
from contextopt.spaces.configs import settings_of
from dashboard.kit.proportions import Proportion
from dashboard.pages.overview.changes import ACTIVATED, PUBLISHED
from dashboard.rollups.sources import FigureFilter
from memory.models import Evaluation, QuestionSet
from memory.questions.evaluations import settings_key


@dataclass(frozen=True, slots=True)
class Recall:
    """The mean recall over all questions in the last evaluations of the settings that were active at one
    moment, with the space's own budget.

    `sets` counts the sets, evaluated or not.
    """

    sets: int = 0
    questions: int = 0
    recall: float | None = None

    @property
    def proportion(self) -> Proportion:
        """The recall as questions found, of those asked."""
        return Proportion(round((self.recall or 0.0) * self.questions), self.questions)


def read_recall(wanted: FigureFilter) -> tuple[Recall, Recall] | None:
    """Return the recall at the end of the period and at its start.

    None if a stage, phase, config or model is filtered.
    """
    if any((wanted.stage, wanted.phase, wanted.config_version, wanted.model)):
        return None
    sets = QuestionSet.objects.filter(space__team=wanted.team_id)
    if wanted.space_id is not None:
        sets = sets.filter(space=wanted.space_id)
    spaces = list(sets.values_list("space_id", "space__slug"))
    if not spaces:
        return Recall(), Recall()
    slugs = {slug: space_id for space_id, slug in spaces}
    moments = (wanted.period.until, wanted.period.start)
    configs = _active_at(wanted.team_id, slugs, moments)
    now, before = (
        _newest(len(spaces), active, moment) for active, moment in zip(configs, moments, strict=True)
    )
    return now, before


def _active_at(
    team_id: int, slugs: Mapping[str, int], moments: Sequence[datetime]
) -> list[list[ContextConfig]]:
    """Return the settings of these spaces that were active at each moment.

    The first change after a moment names the version that was active until then.
    """
    changes = AuditEvent.objects.filter(
        team=team_id, action__in=(PUBLISHED, ACTIVATED), at__gte=min(moments)
    ).order_by("-at", "-id")
    replaced: list[dict[int, int]] = [{} for _ in moments]
    for subject, at, before in changes.values_list("subject", "at", "before"):
        space_id = slugs.get(subject.rpartition(" ")[0])
        if space_id is None or "version" not in before:
            continue
        for versions, moment in zip(replaced, moments, strict=True):
            if at >= moment:
                versions[space_id] = before["version"]
    wanted = Q(is_active=True) | Q(version__in={version for each in replaced for version in each.values()})
    configs = list(ContextConfig.objects.filter(wanted, space__in=slugs.values()))
    return [
        [
            each
            for each in configs
            if (each.version == versions[each.space_id] if each.space_id in versions else each.is_active)
        ]
        for versions in replaced
    ]


def _newest(sets: int, active: Sequence[ContextConfig], moment: datetime) -> Recall:
    """Return the recall in the newest evaluation of each set before the moment."""
    if not active:
        return Recall(sets)
    of_settings = Q(
        *(
            Q(question_set__space=config.space_id)
            & (Q(config_version=config.version) | Q(settings_key=settings_key(settings_of(config))))
            for config in active
        ),
        _connector=Q.OR,
    )
    done = Evaluation.objects.done().filter(of_settings, context_tokens=None, created_at__lt=moment)
    newest = done.order_by("question_set", "-created_at", "-id").distinct("question_set")
    found = list(newest.values_list("questions", "recall"))
    questions = sum(asked for asked, _ in found)
    if not questions:
        return Recall(sets)
    return Recall(sets, questions, sum(asked * (recall or 0.0) for asked, recall in found) / questions)
