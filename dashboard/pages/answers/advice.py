"""The changes that verdicts suggest, from the contexts that were reviewed and the settings that they had."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from contextopt.engine.prompts.config import SEARCH_STAGE
from contextopt.engine.wording import plural
from contextopt.models import Team
from contextopt.sql import fetch_rows
from dashboard.kit.formats import whole
from memory.models import Verdict
from memory.review.verdicts import VerdictGroup

WEIGHT_MAX = 10
READ_NOTES = "Read the reviewers' notes."
RECORD_ADVICE = {
    Verdict.CONTEXT_MISSING: "Pin it, or tag it with words people use in questions.",
    Verdict.CONTEXT_CUT: "Put the main point first, or split it.",
    Verdict.CONTEXT_WRONG: "Correct or delete it.",
    Verdict.MODEL: "No change needed.",
    Verdict.OTHER: READ_NOTES,
}


@dataclass(frozen=True, slots=True)
class Case:
    """The contexts of one config that got one verdict, what they left out, and the config's settings.

    `asked` counts those with a question. A setting of None means "all".
    """

    space: str
    version: int
    verdict: str
    contexts: int
    asked: int
    outside_window: int
    over_limit: int
    over_budget: int
    window_days: int | None
    max_records: int | None
    context_tokens: int
    recency_weight: Decimal
    question_window_days: int | None
    question_max_records: int | None
    question_notes_chars: int | None
    question_record_tokens: int | None

    @property
    def is_asked(self) -> bool:
        """Whether the settings for questions decided most of these contexts."""
        return self.asked * 2 > self.contexts

    @property
    def window(self) -> int | None:
        return self.question_window_days if self.is_asked else self.window_days

    @property
    def limit(self) -> int | None:
        return self.question_max_records if self.is_asked else self.max_records


_CASES = f"""
SELECT p.slug AS space, c.version, s.verdict, count(*) AS contexts,
       count(*) FILTER (WHERE a.stage = {SEARCH_STAGE}) AS asked,
       count(*) FILTER (WHERE a.outside_window > 0) AS outside_window,
       count(*) FILTER (WHERE a.over_record_limit > 0) AS over_limit,
       count(*) FILTER (WHERE a.over_budget > 0) AS over_budget,
       c.window_days, c.max_records, c.context_tokens, c.recency_weight, c.question_window_days,
       c.question_max_records, c.question_notes_chars, c.question_record_tokens
  FROM memory_reviewslot s
  JOIN memory_reviewitem i ON i.id = s.item_id
  JOIN contextopt_assembly a ON a.id = i.assembly_id
  JOIN contextopt_space p ON p.id = i.space_id
  JOIN contextopt_contextconfig c ON c.space_id = i.space_id AND c.version = i.config_version
 WHERE i.team_id = %(team)s AND i.state = 'done' AND s.verdict <> ''
 GROUP BY p.slug, s.verdict, c.id
"""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The change that verdicts on one version or record suggest."""

    group: VerdictGroup
    worst: str
    times: int
    advice: str
    others: str


def suggest_settings(team: Team, groups: Iterable[VerdictGroup]) -> list[Suggestion]:
    """Return the changes of settings that verdicts suggest, in one query.

    Groups without a problem are left out.
    """
    found = {
        (case.space, case.version, case.verdict): case for case in fetch_rows(Case, _CASES, {"team": team.pk})
    }
    return [
        _suggestion(group, advise(case) if case else READ_NOTES)
        for group in groups
        if group.worst
        for case in [found.get((group.space, group.key, group.worst))]
    ]


def suggest_records(groups: Iterable[VerdictGroup]) -> list[Suggestion]:
    """Return the changes of records that verdicts suggest, leaving out groups without a problem."""
    return [_suggestion(group, RECORD_ADVICE[Verdict(group.worst)]) for group in groups if group.worst]


def _suggestion(group: VerdictGroup, advice: str) -> Suggestion:
    worst = Verdict(group.worst)
    rest = sorted((n, name) for name, n in group.counts.items() if name != worst)
    others = ", ".join(f"{n} {Verdict(name).label.lower()}" for n, name in reversed(rest))
    return Suggestion(group, worst.label, group.counts[worst], advice, others)


def advise(case: Case) -> str:
    """Return what to change in the settings. Settings that bound nothing are not named."""
    match case.verdict:
        case Verdict.CONTEXT_MISSING:
            return _advise_missing(case)
        case Verdict.CONTEXT_CUT:
            return _advise_cut(case)
        case Verdict.CONTEXT_WRONG:
            # A question ranks by its own weights.
            if case.is_asked or case.recency_weight >= WEIGHT_MAX:
                return "Correct or delete the records that the verdicts name."
            weight = f"{case.recency_weight.normalize():f}"
            return f"Raise the recency weight ({weight}), or correct the records that the verdicts name."
        case Verdict.MODEL:
            return "The context was right. Check the model or its instructions."
    return READ_NOTES


def _advise_missing(case: Case) -> str:
    told = " ".join(_left_out(case))
    if told:
        return told
    if case.is_asked:
        return (
            "No setting left a record out. Raise the weights of words and meaning, or tag records with words "
            "people use in questions."
        )
    return "No setting left a record out. Check whether the space holds the answer."


def _left_out(case: Case) -> Iterator[str]:
    """Yield a sentence for each setting that left records out, with the number of contexts."""
    reasons = (
        (case.outside_window, case.window, "Widen the date window", "days", "outside it"),
        (case.over_limit, case.limit, "Raise the record limit", "records", "over it"),
        (case.over_budget, case.context_tokens, "Raise the context budget", "tokens", "over it"),
    )
    for count, setting, change, unit, where in reasons:
        if count and setting is not None:
            of = plural(case.contexts, "context")
            yield f"{change} ({whole(setting)} {unit}): {whole(count)} of {of} left out records {where}."


def _advise_cut(case: Case) -> str:
    options = [f"raise the context budget ({whole(case.context_tokens)} tokens)"] if case.over_budget else []
    if case.is_asked and case.question_notes_chars is not None:
        options.append(f"raise the notes limit ({whole(case.question_notes_chars)} characters)")
    if case.is_asked and case.question_record_tokens is not None:
        options.append(f"raise the record size ({whole(case.question_record_tokens)} tokens)")
    if not options:
        return "Put the main point first in the records that the verdicts name, or split them."
    words = " or ".join(options)
    return f"{words[0].upper()}{words[1:]}."
