"""Recall on question sets under the settings that were active, and since when it has been low."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q

from contextopt.assemblies.models import Kind
from contextopt.people.models import AuditEvent
from contextopt.spaces.configs import ContextConfig
from dashboard.kit.charts.tiles import Proportion
from dashboard.pages.overview.quality import ACTIVATED, PUBLISHED
from dashboard.rollups.queries import FigureFilter
from memory.questions.evaluations import reaches, settings_key
from memory.questions.models import Evaluation, EvaluationQuerySet, QuestionSet

# The evaluations of one set that are read to find out since when its recall is low.
EVALUATIONS_READ = 200


class SetRecall(NamedTuple):
    """The newest evaluation of a set; `minimum` is the set's own, if it has one, `space` its space's slug."""

    set_id: int
    name: str
    minimum: float | None
    questions: int
    recall: float
    at: datetime
    settings_key: str
    space: str

    @property
    def is_below(self) -> bool:
        return self.minimum is not None and not reaches(self.recall, self.minimum)


@dataclass(frozen=True, slots=True)
class Recall:
    """The newest evaluations of question sets, of the settings that were active at one moment, with the
    space's own budget.

    `sets` counts the sets, evaluated or not.
    """

    sets: int = 0
    evaluated: tuple[SetRecall, ...] = ()

    @property
    def questions(self) -> int:
        return sum(each.questions for each in self.evaluated)

    @property
    def recall(self) -> float | None:
        """The mean over all questions, 0 to 1."""
        hits = sum(each.questions * each.recall for each in self.evaluated)
        return hits / self.questions if self.questions else None

    @property
    def proportion(self) -> Proportion:
        """The recall as questions found, of those asked."""
        return Proportion(round((self.recall or 0.0) * self.questions), self.questions)

    @property
    def below(self) -> SetRecall | None:
        """The set that is furthest below its minimum."""
        low = [each for each in self.evaluated if each.is_below]
        return min(low, key=lambda each: each.recall - (each.minimum or 0.0), default=None)

    def among(self, other: "Recall") -> "Recall":
        """Return the recall of the sets that the other has too: different questions do not compare."""
        known = {each.set_id for each in other.evaluated}
        return Recall(self.sets, tuple(each for each in self.evaluated if each.set_id in known))


class LowSpell(NamedTuple):
    """Since when the recall of a set has been low. It was higher before, or never evaluated."""

    since: datetime
    was_higher: bool


@dataclass(frozen=True, slots=True)
class RecallFall:
    """The recall of a set that is below its minimum, or lower than before by more than chance."""

    low: SetRecall
    spell: LowSpell
    before: float | None = None


def read_recall(wanted: FigureFilter) -> tuple[Recall, Recall] | None:
    """Return the recall at the end of the period and at its start.

    None if a stage, phase, config, model or a kind of agents is filtered.
    """
    is_of_agents = wanted.kind not in {None, str(Kind.SPACE)}
    if is_of_agents or any((wanted.stage, wanted.phase, wanted.config_version, wanted.model)):
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
    """Return the newest evaluation of each set before the moment."""
    if not active:
        return Recall(sets)
    done = _evaluations(active).filter(created_at__lt=moment)
    newest = done.order_by("question_set", "-created_at", "-id").distinct("question_set")
    names = ("question_set", "question_set__name", "question_set__min_recall")
    found = newest.values_list(
        *names, "questions", "recall", "created_at", "settings_key", "question_set__space__slug"
    )
    return Recall(sets, tuple(SetRecall(*row) for row in found if row[3]))


def _evaluations(active: Collection[ContextConfig]) -> EvaluationQuerySet:
    """Return the finished evaluations of these settings, each on sets of its own space."""
    of_settings = Q(
        *(
            Q(question_set__space=config.space_id)
            & (Q(config_version=config.version) | Q(settings_key=settings_key(config.settings)))
            for config in active
        ),
        _connector=Q.OR,
    )
    return Evaluation.objects.done().filter(of_settings, context_tokens=None)


def read_low_spell(low: SetRecall, threshold: float) -> LowSpell:
    """Return since when a set's evaluations have been below the threshold without a break, in one query.

    Other settings count only until those of the newest evaluation: later ones were for comparison.
    """
    done = Evaluation.objects.done().published().filter(question_set=low.set_id, created_at__lte=low.at)
    rows = done.newest_first().values_list("created_at", "recall", "settings_key")[:EVALUATIONS_READ]
    found = list(rows)
    first = min((at for at, _, key in found if key == low.settings_key), default=low.at)
    since = low.at
    for at, recall, key in found:
        if key != low.settings_key and at >= first:
            continue
        if reaches(recall, threshold):
            return LowSpell(since, was_higher=True)
        since = at
    return LowSpell(since, was_higher=False)


def read_recall_fall(now: Recall, before: Recall) -> RecallFall | None:
    """Return the set that fell, if one did, in at most one query. A set below its minimum comes first.

    Sets are compared with the period before by all their questions together, as `Proportion.is_below` does.
    """
    below = now.below
    if below is not None and below.minimum is not None:
        return RecallFall(below, read_low_spell(below, below.minimum))
    same, then = now.among(before), before.among(now)
    if not same.proportion.is_below(then.proportion):
        return None
    earlier = {each.set_id: each.recall for each in then.evaluated}
    low = max(same.evaluated, key=lambda each: (earlier[each.set_id] - each.recall) * each.questions)
    # Evaluations nearer to the present recall than to the one before belong to the fall.
    spell = read_low_spell(low, (earlier[low.set_id] + low.recall) / 2)
    return RecallFall(low, spell, earlier[low.set_id])
