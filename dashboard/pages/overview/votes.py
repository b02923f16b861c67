"""How the answers to the overview's assemblies were judged: in all, by stage, and by stage over time."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Count

from dashboard.rollups.sources import FigureFilter
from memory.feedback.models import Vote
from memory.feedback.trends import UP, bucket_of


@dataclass(frozen=True, slots=True)
class Votes:
    """How many votes there were, and how many of them were thumbs up."""

    votes: int = 0
    liked: int = 0

    @property
    def rate(self) -> float | None:
        return self.liked / self.votes if self.votes else None

    def __add__(self, other: "Votes") -> "Votes":
        return Votes(self.votes + other.votes, self.liked + other.liked)


@dataclass(frozen=True, slots=True)
class Feedback:
    """Votes on the answers to the filtered assemblies: all, by stage, and by stage for each bucket."""

    total: Votes = Votes()
    stages: Mapping[int, Votes] = field(default_factory=dict)
    points: Mapping[int, tuple[Votes, ...]] = field(default_factory=dict)


def read_feedback(wanted: FigureFilter) -> Feedback | None:
    """Return the votes of the period by when they were given; none where the team has never voted."""
    edges = wanted.period.edges
    narrowed = {
        "space_id": wanted.space_id,
        "stage": wanted.stage,
        "config_version": wanted.config_version,
        "phase": wanted.phase,
        "assembly__kind": wanted.kind,
        "assembly__model": wanted.model,
    }
    votes = Vote.objects.filter(team_id=wanted.team_id)
    found = (
        votes.filter(created_at__gte=edges[0], created_at__lt=wanted.period.until)
        .filter(**{name: value for name, value in narrowed.items() if value is not None})
        .annotate(bucket=bucket_of("created_at", edges))
        .values_list("stage", "bucket")
        .annotate(votes=Count("pk"), liked=UP)
    )
    rows = list(found)
    return _by_stage(rows, len(edges) - 1) if rows or votes.exists() else None


def _by_stage(rows: list[tuple[int | None, int, int, int]], buckets: int) -> Feedback:
    points: defaultdict[int | None, list[Votes]] = defaultdict(lambda: [Votes()] * buckets)
    for stage, bucket, votes, liked in rows:
        points[stage][bucket - 1] = Votes(votes, liked)
    stages = {stage: sum(found, Votes()) for stage, found in points.items()}
    total = sum(stages.values(), Votes())
    # What has no stage counts in all, and has no line of its own.
    return Feedback(
        total,
        {stage: votes for stage, votes in stages.items() if stage},
        {stage: tuple(found) for stage, found in points.items() if stage},
    )
