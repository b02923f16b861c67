"""Parts of the demo beyond its spaces."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from contextopt.models import Space, Team


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a chapter is told: its team, the demo's spaces by slug, and the moment."""

    team: Team
    spaces: Mapping[str, Space]
    now: datetime
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Chapter:
    """`load` fills it, `remove` takes away what goes not with the spaces, `count` says what is there."""

    load: Callable[[Stage], None]
    remove: Callable[[Team], None]
    count: Callable[[Team], Mapping[str, int]]
