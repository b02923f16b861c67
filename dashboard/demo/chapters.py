"""Parts of the demo beyond its spaces."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from contextopt.models import Space, Team


@dataclass(frozen=True, slots=True)
class Stage:
    """The setting of a chapter: the team, the demo's spaces by slug, and the moment."""

    team: Team
    spaces: Mapping[str, Space]
    now: datetime
    rng: random.Random


def _nothing(_team: Team) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Chapter:
    """`load` adds its data, `remove` deletes what does not go with the spaces, `count` counts its rows.

    A chapter that adds to another one's rows leaves removing and counting to it.
    """

    load: Callable[[Stage], None]
    remove: Callable[[Team], object] = _nothing
    count: Callable[[Team], Mapping[str, int]] = _nothing
