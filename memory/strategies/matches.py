"""How well strategies match a task: by its pattern, its words and its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypedDict

import structlog
from django.utils import timezone

from contextopt.engine.agents.taskpatterns import detect_task_pattern
from contextopt.engine.queryanalysis import without_framing
from contextopt.engine.ranking import Match
from contextopt.engine.text.promptparts import BlockPattern, prose_of
from contextopt.engine.text.promptpassages import is_plain
from contextopt.engine.text.quoting import STRATEGY_HINT, fence
from contextopt.people.models import Team
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.hybrid import Target, best_match, decay_factors, look_up, prepare_query, rate
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordshares import held_shares
from contextopt.spaces.configs import ContextConfig
from memory.memories.memories import EMBEDDED_AT_ONCE, SEARCHABLE
from memory.memories.models import STRATEGY, TAG_MAX, Memory
from memory.strategies.strategies import HINTED_TASK_CHARS, policy_of

log = structlog.get_logger(__name__)

# The best by words and the best by meaning, of all strategies and of those with the task's pattern.
CANDIDATES_EACH = 50
STRATEGIES_LOOKED_AT = 2
MATCH_NEEDED = 0.3
PATTERN_BONUS = 0.1
NOTE = "what worked on a similar task; inspiration, not an instruction"


class MatchJson(TypedDict):
    """How well a strategy matches a task, 0 to 1, and the parts of that."""

    match_score: float
    similarity: float | None
    word_share: float
    same_pattern: bool


@dataclass(frozen=True, slots=True)
class StrategyMatch:
    """A strategy's match with a task. `similarity` is the cosine, None without a vector, and `word_share` the
    share of the task's words that the strategy holds; both are from 0 to 1.
    """

    similarity: float | None
    word_share: float
    same_pattern: bool

    @property
    def score(self) -> float:
        """Return the larger of words and meaning, and a tenth more for the same pattern, at most 1."""
        bonus = PATTERN_BONUS if self.same_pattern else 0.0
        return min(1.0, max(self.similarity or 0.0, self.word_share) + bonus)

    def to_json(self) -> MatchJson:
        return MatchJson(
            match_score=self.score,
            similarity=self.similarity,
            word_share=self.word_share,
            same_pattern=self.same_pattern,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A strategy, its match with the task, and what is left of the match's score after decay."""

    memory: Memory
    match: StrategyMatch
    decayed: float

    @property
    def text(self) -> str:
        return fence(self.memory.content, STRATEGY_HINT, NOTE)


def find_best(team: Team, *, task: str, repository: str, as_of: datetime | None = None) -> Found | None:
    """Return the repository's strategy that matches best, if the match is enough for a hint after decay.

    If the two best match about equally, the more trusted one wins.
    """
    matches = match_strategies(team, task=task, repository=repository, as_of=as_of)
    decay = decay_factors(SEARCHABLE, sorted(matches), as_of or timezone.now())
    left = {pk: match.score * decay.get(pk, 1.0) for pk, match in matches.items()}
    enough = [pk for pk, score in left.items() if score > MATCH_NEEDED]
    best = sorted(enough, key=lambda pk: (left[pk], pk))[-STRATEGIES_LOOKED_AT:]
    memories = Memory.objects.live().filter(team=team).in_bulk(best)
    found = [Found(memory, matches[pk], left[pk]) for pk, memory in memories.items()]
    return max(
        found, key=lambda each: (each.decayed * (0.5 + each.memory.trust), each.memory.pk), default=None
    )


def match_strategies(
    team: Team, *, task: str, repository: str, as_of: datetime | None = None
) -> dict[int, StrategyMatch]:
    """Return the match of the strategies that may match best, by id. The work does not grow with the team's.

    Without the embedding model, they match by pattern and words.
    """
    try:
        ensure_embedded(SEARCHABLE, team.pk, limit=EMBEDDED_AT_ONCE)
    except EmbeddingUnavailable as error:
        log.warning("strategies_not_embedded", error=str(error))
    # A strategy is tagged with its pattern.
    pattern = detect_task_pattern(task)[:TAG_MAX]
    asked = _asked(team.pk, task)[:HINTED_TASK_CHARS]
    rated = _rate_candidates(team.pk, asked, pattern, repository, as_of)
    held = _read_held(rated)
    shares = held_shares(without_framing(asked), [(row.language, row.text) for row in held.values()])
    return {
        pk: StrategyMatch(rated[pk].similarity, share, pattern in row.tags)
        for (pk, row), share in zip(held.items(), shares, strict=True)
    }


def _asked(team_id: int, task: str) -> str:
    """Return what a person wrote of a task, without what was pasted or wrapped around it."""
    if is_plain(task):
        return task
    return prose_of(task, BlockPattern.parse_all(ContextConfig.objects.tool_patterns(team_id)))


def _rate_candidates(
    team_id: int, asked: str, pattern: str, repository: str, as_of: datetime | None
) -> dict[int, Match]:
    """Return the best by words and by meaning, of all and of those with the pattern, with their cosines."""
    allowed = () if policy_of(team_id).hints_across_repositories else (("repository", (repository,)),)
    filters = SearchFilters(types=(STRATEGY,), date_to=as_of, conditions=allowed)
    wide, same = (Target(SEARCHABLE, team_id, each) for each in (filters, replace(filters, tags=(pattern,))))
    rated: dict[int, Match] = {}
    for passage in prepare_query(asked).choose([wide]).passages:
        leads = look_up(wide, passage, limit=CANDIDATES_EACH)
        alike = look_up(same, passage, limit=CANDIDATES_EACH, terms=leads.terms)
        for pk, match in rate(leads, also=alike.ids).items():
            rated[pk] = best_match(rated[pk], match) if pk in rated else match
    return rated


class _Held(NamedTuple):
    """What a strategy holds: the task that it comes from, and its steps. Its pattern counts by itself."""

    language: str
    text: str
    tags: list[str]


def _read_held(rated: Mapping[int, Match]) -> dict[int, _Held]:
    rows = Memory.objects.filter(pk__in=rated).values_list(
        "pk", "language", "title", "content", "payload__steps", "tags"
    )
    return {
        pk: _Held(language, "\n".join([title, *_texts(steps, content)]), tags)
        for pk, language, title, content, steps, tags in rows
    }


def _texts(steps: object, content: str) -> list[str]:
    """Return the steps, or the content of a strategy that a person wrote."""
    listed = steps if isinstance(steps, list) else []
    return [step for step in listed if isinstance(step, str)] or [content]
