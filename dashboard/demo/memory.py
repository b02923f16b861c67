"""The demo's memories: lessons, two strategies with their uses, and votes on answers."""

from datetime import timedelta

from django.db.models import F, QuerySet

from contextopt.assemblies.models import DEMO_ACTOR, Assembly
from contextopt.chat.models import Author, Message
from contextopt.people.models import Team
from dashboard.demo.stories import Chapter, Stage, read_texts
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import Vote
from memory.feedback.votes import give_feedback
from memory.memories.inputs import MemoryIn
from memory.memories.memories import create_memory
from memory.memories.models import STRATEGY, Memory
from memory.strategies.inputs import CompletionIn
from memory.strategies.matches import match_strategies
from memory.strategies.models import StrategyUse, TrustChange
from memory.strategies.reports import complete_task
from memory.strategies.strategies import rate_use

_TEXTS = read_texts("memory")
REPOSITORY = _TEXTS["repository"]
# Share of assemblies that get a vote.
JUDGED = 0.3
# Share of upvotes by stage: questions are answered better with context that matches them.
LIKED = {2: 0.35, 3: 0.6, 4: 0.75, 5: 0.87}
REASONS = ("outdated", "incomplete", "wrong", "")
RATERS = ("rater:maja", "rater:owen", "rater:li", "rater:fatima")

REPORTS = [CompletionIn(repository=REPOSITORY, **report) for report in _TEXTS["reports"]]
NOTES = [MemoryIn(repository=REPOSITORY, **note) for note in _TEXTS["notes"]]


def load_lessons(stage: Stage) -> None:
    """Complete some tasks, keep their lessons, and use the strategies again over the days since."""
    for data in NOTES:
        create_memory(team=stage.team, data=data, actor=DEMO_ACTOR)
    for report in REPORTS:
        complete_task(team=stage.team, data=report, actor=DEMO_ACTOR)
    begun = stage.now - timedelta(days=12)
    strategies = _demo_memories(stage.team).filter(memory_type=STRATEGY).order_by("pk")
    for memory, told in zip(strategies, _TEXTS["strategies"], strict=True):
        uses = told["uses"]
        Memory.objects.filter(pk=memory.pk).update(created_at=begun, use_count=len(uses))
        TrustChange.objects.filter(memory=memory).update(changed_at=begun)
        for number, used in enumerate(uses, start=1):
            matches = match_strategies(stage.team, task=used["asked"], repository=REPOSITORY)
            use = StrategyUse.objects.create(
                memory=memory,
                **matches[memory.pk].to_json(),
                asked=used["asked"],
                created_by=DEMO_ACTOR,
                created_at=begun + timedelta(days=2 * number, hours=3 * number),
            )
            if "rating" in used:
                _rate(use, used["rating"])


def _rate(use: StrategyUse, rating: float) -> None:
    moment = use.created_at + timedelta(hours=2)
    rate_use(use=use, rating=rating, actor=DEMO_ACTOR)
    StrategyUse.objects.filter(pk=use.pk).update(rated_at=moment)
    TrustChange.objects.filter(use=use).update(changed_at=moment)


def load_votes(stage: Stage) -> None:
    """Vote on some of the demo's assemblies, each soon after it was made, and on the chat's answer."""
    made = Assembly.objects.filter(team=stage.team, is_demo=True, space__is_demo=True, messages=None)
    judged = [each for each in made.select_related("config").order_by("pk") if stage.rng.random() < JUDGED]
    votes = Vote.objects.bulk_create(_vote(stage, assembly) for assembly in judged)
    Vote.objects.filter(pk__in=[vote.pk for vote in votes]).update(updated_at=F("created_at"))
    answers = Message.objects.of(stage.team).filter(
        author=Author.ASSISTANT, conversation__space__is_demo=True
    )
    for message in answers:
        opinion = OpinionIn(rating="up", comment="That is what it was.")
        give_feedback(
            team=stage.team, subject=SubjectIn(message_id=message.pk), opinion=opinion, rater=RATERS[0]
        )


def _vote(stage: Stage, assembly: Assembly) -> Vote:
    is_up = stage.rng.random() < LIKED[assembly.stage or 4]
    moment = min(stage.now, assembly.created_at + timedelta(minutes=stage.rng.randrange(1, 90)))
    return Vote(
        team=stage.team,
        assembly=assembly,
        space_id=assembly.space_id,
        stage=assembly.stage,
        config_version=assembly.config_version,
        rater=stage.rng.choice(RATERS),
        rating="up" if is_up else "down",
        reason="" if is_up else stage.rng.choice(REASONS),
        created_at=moment,
    )


def remove_lessons(team: Team) -> None:
    """Delete the demo's memories; votes are deleted with their subjects."""
    _demo_memories(team).delete()


def count_lessons(team: Team) -> dict[str, int]:
    votes = Vote.objects.of(team).filter(assembly__is_demo=True, space__is_demo=True)
    return {"memories": _demo_memories(team).count(), "votes": votes.count()}


def _demo_memories(team: Team) -> QuerySet[Memory]:
    return Memory.objects.filter(team=team, created_by=DEMO_ACTOR)


def _load(stage: Stage) -> None:
    load_lessons(stage)
    load_votes(stage)


MEMORY = Chapter(_load, remove_lessons, count_lessons)
