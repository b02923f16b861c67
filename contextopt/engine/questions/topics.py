"""Find the part of a long conversation that a question is about.

A meeting of hundreds of turns covers one topic after another, and a question about one of them is answered by
many turns that do not match it by themselves. So where matches are dense, all records count. A short
conversation is about one thing, and there the match itself is the answer, so an episode counts only if its
matches span many records.

An episode is a part of a thread without a break between the records that match. Measured on meetings
(benchmarks, section `recall`); other dialogues have no episodes that long.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

import numpy as np

from contextopt.engine.prompts.relevance import NOT_RELEVANT, Floats, Relevance
from contextopt.engine.prompts.scoring import MAX_PART

MATCHES_MAX = 120
"""Only this many of the best matches count, each by how much it exceeds the next best one after them."""
BREAK = timedelta(hours=1)
"""A longer pause begins a new episode."""
SHORT_EPISODE, LONG_EPISODE = 60, 120
"""In records: an episode of the first length does not count, one of the second counts fully."""
TOPIC_RECORDS, TOPIC_TOKENS = 24, 600
"""A match counts for the records around it by a normal distribution. Its deviation is this many records, or
as many as have this many tokens if those are fewer.
"""


class Place(NamedTuple):
    """Where a record is: its thread, its position there, its date, and the tokens of its notes."""

    thread: str
    position: int
    date: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class _Episode:
    """The matches of an episode: their positions and their relevance."""

    thread: str
    first: datetime
    last: datetime
    positions: Floats
    matches: Floats
    deviation: float

    @classmethod
    def of(cls, members: Sequence[tuple[Place, float]]) -> "_Episode":
        places = [place for place, _ in members]
        dates = [place.date for place in places]
        tokens = max(1.0, fmean(place.tokens for place in places))
        return cls(
            places[0].thread,
            min(dates),
            max(dates),
            np.array([place.position for place in places], float),
            np.array([match for _, match in members]),
            min(TOPIC_RECORDS, TOPIC_TOKENS / tokens),
        )

    @property
    def weight(self) -> float:
        length = float(self.positions[-1] - self.positions[0])
        return min(1.0, max(0.0, (length - SHORT_EPISODE) / (LONG_EPISODE - SHORT_EPISODE)))

    def holds(self, place: Place) -> bool:
        return place.thread == self.thread and self.first - BREAK <= place.date <= self.last + BREAK

    def density(self, positions: Floats) -> Floats:
        """Return how dense the matches are at these positions."""
        apart = (positions[:, None] - self.positions[None, :]) / self.deviation
        return np.exp(-0.5 * apart**2) @ self.matches


class Topics:
    """The long episodes with matches for a question."""

    def __init__(self, own: Mapping[int, float], places: Mapping[int, Place]) -> None:
        """Find the episodes. `own` is each match's own relevance; matches without a place are ignored."""
        members = [(places[row], value) for row, value in _excess(own) if row in places]
        self._episodes = list(_long_episodes(members))
        densest = [float(each.density(each.positions).max()) for each in self._episodes]
        self._most = max(densest, default=0.0)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._episodes)

    def parts(self, places: Mapping[int, Place]) -> dict[int, float]:
        """Return the part of the records in the episodes, 0 to 10, highest where matches are densest."""
        found: dict[int, float] = {}
        for episode in self._episodes:
            held = [row for row, place in places.items() if episode.holds(place)]
            density = episode.density(np.array([places[row].position for row in held], float))
            shares = np.minimum(1.0, density / self._most)
            found |= zip(held, (MAX_PART * episode.weight * shares).tolist(), strict=True)
        return found

    def add(self, relevant: Mapping[int, Relevance], places: Mapping[int, Place]) -> dict[int, Relevance]:
        """Return the relevances with the `topic` part of the records in the episodes."""
        added = dict(relevant)
        for row, part in self.parts(places).items():
            added[row] = added.get(row, NOT_RELEVANT)._replace(topic=part)
        return added


def _excess(own: Mapping[int, float]) -> Iterator[tuple[int, float]]:
    """Yield the best matches, each with its excess over the best match that does not count."""
    ranked = sorted(own.items(), key=lambda match: (-match[1], match[0]))
    least = ranked[min(MATCHES_MAX, len(ranked) - 1)][1] if ranked else 0.0
    yield from ((row, value - least) for row, value in ranked if value > least)


def _long_episodes(members: Iterable[tuple[Place, float]]) -> Iterator[_Episode]:
    ordered = sorted(members, key=lambda member: member[0][:3])
    for _, thread in groupby(ordered, key=lambda member: member[0].thread):
        for episode in _without_breaks(thread):
            if episode[-1][0].position - episode[0][0].position > SHORT_EPISODE:
                yield _Episode.of(episode)


def _without_breaks(thread: Iterable[tuple[Place, float]]) -> Iterator[list[tuple[Place, float]]]:
    """Split a thread's matches at breaks."""
    episode: list[tuple[Place, float]] = []
    for member in thread:
        if episode and abs(member[0].date - episode[-1][0].date) > BREAK:
            yield episode
            episode = []
        episode.append(member)
    yield episode
