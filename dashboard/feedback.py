"""Where the overview learns how answers were judged: from a source that registers itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dashboard.metrics import OverviewFilter


@dataclass(frozen=True, slots=True)
class Votes:
    """How many votes there were, and how many of them were thumbs up."""

    votes: int = 0
    liked: int = 0

    @property
    def rate(self) -> float | None:
        return self.liked / self.votes if self.votes else None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Votes on the answers to the filtered assemblies: all, by stage, and by stage for each bucket."""

    total: Votes = Votes()
    stages: Mapping[int, Votes] = field(default_factory=dict)
    points: Mapping[int, tuple[Votes, ...]] = field(default_factory=dict)


type FeedbackSource = Callable[[OverviewFilter], Feedback]

_sources: list[FeedbackSource] = []


def register_feedback(source: FeedbackSource) -> None:
    """Have the overview ask this source; the one registered last is asked."""
    _sources.append(source)


def read_feedback(wanted: OverviewFilter) -> Feedback | None:
    """Return the votes; none as long as nothing collects any."""
    return _sources[-1](wanted) if _sources else None
