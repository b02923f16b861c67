"""The recall on question sets, which stands beside the savings of space contexts."""

from dataclasses import dataclass

from django.db import connection

from contextopt.models import ContextConfig
from contextopt.spaces.configs import settings_of
from dashboard.kit.proportions import Proportion
from dashboard.rollups.sources import FigureFilter
from memory.models import QuestionSet
from memory.questions.evaluations import settings_key


@dataclass(frozen=True, slots=True)
class Recall:
    """The last evaluations of question sets by the end of a period: mean recall over all their questions.

    `sets` counts the sets, evaluated or not.
    """

    sets: int = 0
    questions: int = 0
    recall: float | None = None

    @property
    def proportion(self) -> Proportion:
        """The recall as questions found, of those asked."""
        return Proportion(round((self.recall or 0.0) * self.questions), self.questions)


# The newest evaluation of each set by both moments. Drafts and other budgets don't count, unless the draft's
# settings are the active ones by now.
_RECALL = """
SELECT count(*), sum(n.questions), sum(n.recall * n.questions), sum(b.questions), sum(b.recall * b.questions)
  FROM memory_questionset s
  JOIN contextopt_space p ON p.id = s.space_id
  LEFT JOIN LATERAL ({newest_until}) n ON true
  LEFT JOIN LATERAL ({newest_before}) b ON true
 WHERE p.team_id = %(team)s AND (%(space)s::bigint IS NULL OR p.id = %(space)s)
"""
_NEWEST = """
SELECT e.questions, e.recall FROM memory_evaluation e
 WHERE e.question_set_id = s.id AND e.state = 'done' AND e.context_tokens IS NULL
   AND (e.settings_key = ANY(%(active)s)
        OR EXISTS (SELECT FROM contextopt_contextconfig c
                    WHERE c.space_id = s.space_id AND c.version = e.config_version AND NOT c.is_draft))
   AND e.created_at < %({moment})s
 ORDER BY e.created_at DESC, e.id DESC LIMIT 1
"""
_SQL = _RECALL.format(
    newest_until=_NEWEST.format(moment="until"), newest_before=_NEWEST.format(moment="start")
)


def read_recall(wanted: FigureFilter) -> tuple[Recall, Recall] | None:
    """Return the recall by the end of the period and by its beginning; None if other filters are set."""
    if any((wanted.stage, wanted.phase, wanted.config_version, wanted.model)):
        return None
    if not QuestionSet.objects.filter(space__team=wanted.team_id).exists():
        return Recall(), Recall()
    active = ContextConfig.objects.active().filter(
        space__team=wanted.team_id, space__question_sets__isnull=False
    )
    keys = [settings_key(settings_of(config)) for config in active.distinct()]
    with connection.cursor() as cursor:
        cursor.execute(
            _SQL,
            {
                "team": wanted.team_id, "space": wanted.space_id, "active": keys,
                "start": wanted.period.start, "until": wanted.period.until,
            },
        )  # fmt: skip
        sets, now, found, before, found_before = cursor.fetchone()
    return _read(sets, now, found), _read(sets, before, found_before)


def _read(sets: int, questions: int | None, found: float | None) -> Recall:
    return Recall(sets, int(questions), float(found or 0) / int(questions)) if questions else Recall(sets)
