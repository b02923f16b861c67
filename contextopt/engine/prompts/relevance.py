"""The relevance of a record to a question, and its score.

The parts run from 0 to 10 like recency and frequency: `semantic` is the cosine times ten, `lexical` is BM25
relative to the best candidate, `neighbour` is the relevance of the records around it in its thread. `date`
and `who` are for records from the days and by the person that the question names (see mentions.py), `topic`
for records from the part of a long conversation that is about the question (see topics.py). The score stays
an exact integer (see scoring.py): parts are rounded to millionths before they are weighted.

Measured on dialogues (benchmarks, section `recall`): a weighted sum of the parts finds more at every budget
than reciprocal rank fusion, and the neighbour of a match often holds the answer. A short record says little
by itself, so its surroundings count more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from contextopt.engine.prompts.config import ContextConfig
from contextopt.engine.prompts.scoring import (
    HORIZON_US,
    MAX_PART,
    WEIGHT_SCALE,
    Scored,
    precedence,
    score,
    score_all,
    score_float,
)
from contextopt.engine.prompts.values import RecordSummary

PART_SCALE = 1_000_000
"""Parts are rounded to this fraction."""
NEIGHBOUR_REACH = 5
"""Number of steps along a thread over which a match shares its relevance."""
NEIGHBOUR_DECAY = 0.8
"""Factor by which the shared relevance shrinks with each further step."""

PASSAGE_TOKENS = 200
"""The surroundings of a record are the neighbours whose text begins within half of this many tokens of it."""
SHORT_TOKENS = 30
"""A record of this length is rated half by its surroundings, a longer one less."""
PASSAGE_WEIGHT = 5
"""Weight of the surroundings relative to a neighbouring match."""
TOPIC_WEIGHT = 5
"""Weight of the topic relative to a neighbouring match."""

_FADING = tuple(NEIGHBOUR_DECAY**step for step in range(NEIGHBOUR_REACH))
_PART_US = HORIZON_US // PART_SCALE


class Relevance(NamedTuple):
    """The parts of a record's relevance to a question, each 0 to 10.

    `semantic` is None if the question or the record has no vector.
    """

    semantic: float | None = None
    lexical: float = 0.0
    neighbour: float = 0.0
    date: float = 0.0
    who: float = 0.0
    topic: float = 0.0

    def to_parts(self) -> dict[str, float]:
        return {
            "semantic": self.semantic or 0.0,
            "lexical": self.lexical,
            "neighbour": self.neighbour,
            "date": self.date,
            "who": self.who,
            "topic": self.topic,
        }


NOT_RELEVANT = Relevance()


class Match(NamedTuple):
    """The search result for a record: BM25 (at least 0) and cosine similarity (-1 to 1, None if absent)."""

    lexical: float
    similarity: float | None


def relevances(matches: Mapping[int, Match]) -> dict[int, Relevance]:
    """Scale matches to parts from 0 to 10. The best BM25 among them becomes 10."""
    best = max((match.lexical for match in matches.values()), default=0.0)
    return {
        record_id: Relevance(
            None if similarity is None else MAX_PART * min(1.0, max(0.0, similarity)),
            MAX_PART * lexical / best if best > 0 else 0.0,
        )
        for record_id, (lexical, similarity) in matches.items()
    }


def rate_neighbours(
    relevant: Mapping[int, Relevance],
    threads: Iterable[Sequence[int]],
    config: ContextConfig,
    sizes: Mapping[int, int],
) -> dict[int, Relevance]:
    """Return the relevances, with the `neighbour` part of the records along the threads.

    `threads` are runs of ids that are neighbours in a thread, in its order; `sizes` are the tokens of their
    notes. Two things count, by the length of the record: how well it fits next to a match, and how relevant
    its surroundings are as a passage of their own. The shorter the record, the more the passage counts. A
    record that is longer than the config's record size takes less from a match, since it speaks for itself:
    at twice the size, half.
    """
    own = own_relevances(relevant, config)
    runs = [_Run.of(thread, relevant, own, sizes) for thread in threads]
    passages = _passage_relevances(runs, config)
    rated = dict(relevant)
    for run in runs:
        for at, record_id in enumerate(run.ids):
            short = SHORT_TOKENS / (run.sizes[at] + SHORT_TOKENS)
            beside = _fit(run.sizes[at], config.question_record_tokens) * _nearby(run.own, at)
            passage = PASSAGE_WEIGHT * passages.get(record_id, 0.0)
            part = min(
                float(MAX_PART), float(config.neighbour_share) * ((1 - short) * beside + short * passage)
            )
            if part > 0:
                rated[record_id] = rated.get(record_id, NOT_RELEVANT)._replace(neighbour=part)
    return rated


@dataclass(frozen=True, slots=True)
class _Run:
    """Records in the order of their thread, with their parts, their own relevances and their tokens."""

    ids: Sequence[int]
    parts: Sequence[Relevance]
    own: Sequence[float]
    sizes: Sequence[int]

    @classmethod
    def of(
        cls,
        ids: Sequence[int],
        relevant: Mapping[int, Relevance],
        own: Mapping[int, float],
        sizes: Mapping[int, int],
    ) -> "_Run":
        return cls(
            ids,
            [relevant.get(record_id, NOT_RELEVANT) for record_id in ids],
            [own.get(record_id, 0.0) for record_id in ids],
            [sizes.get(record_id, 0) for record_id in ids],
        )

    def passages(self) -> Iterator[tuple[int, float, float]]:
        """Yield each record's id with the words and the meaning of its surroundings, itself included.

        The words are the sum of the lexical parts, the meaning the mean of the semantic parts by length.
        """
        lengths = [size or 1 for size in self.sizes]
        begins = [0, *accumulate(lengths)]
        # Integers, so that sums of a part of the run are exact.
        words = [0, *accumulate(int(each.lexical * PART_SCALE) for each in self.parts)]
        meant = [
            0,
            *accumulate(
                int((each.semantic or 0.0) * PART_SCALE) * length
                for each, length in zip(self.parts, lengths, strict=True)
            ),
        ]
        for at, record_id in enumerate(self.ids):
            first, end = self._surroundings(at, begins)
            meaning = (meant[end] - meant[first]) / (begins[end] - begins[first])
            yield record_id, (words[end] - words[first]) / PART_SCALE, meaning / PART_SCALE

    def _surroundings(self, at: int, begins: Sequence[int]) -> tuple[int, int]:
        """Return the first place of the passage around a place, and the place after its last one."""
        reach = PASSAGE_TOKENS / 2
        first, end = at, at + 1
        while first and at - first < NEIGHBOUR_REACH and begins[at] - begins[first] < reach:
            first -= 1
        while end < len(self.ids) and end - at <= NEIGHBOUR_REACH and begins[end] - begins[at + 1] < reach:
            end += 1
        return first, end


def _passage_relevances(runs: Iterable[_Run], config: ContextConfig) -> dict[int, float]:
    """Return how relevant the surroundings of each record are, 0 to 10. The best by words become 10."""
    found = [passage for run in runs for passage in run.passages()]
    best = max((words for _, words, _ in found), default=0.0)
    rated = {
        record_id: Relevance(meaning, MAX_PART * words / best if best > 0 else 0.0)
        for record_id, words, meaning in found
    }
    return own_relevances(rated, config)


def own_relevances(relevant: Mapping[int, Relevance], config: ContextConfig) -> dict[int, float]:
    """Return the weighted means of the semantic and lexical parts, each 0 to 10."""
    semantic, lexical = float(config.semantic_weight), float(config.lexical_weight)
    total = semantic + lexical or 1.0
    return {
        record_id: (semantic * (parts.semantic or 0.0) + lexical * parts.lexical) / total
        for record_id, parts in relevant.items()
    }


def _fit(size: int, record_tokens: int | None) -> float:
    """Return the share of a record's text that its size allows to show, from 0 to 1."""
    return 1.0 if record_tokens is None or size <= record_tokens else record_tokens / size


def _nearby(values: Sequence[float], at: int) -> float:
    nearby = 0.0
    for step, fading in enumerate(_FADING, 1):
        before = values[at - step] if at >= step else 0.0
        after = values[at + step] if at + step < len(values) else 0.0
        nearby += max(before, after) * fading
    return nearby


def query_score(record: RecordSummary, relevance: Relevance, now: datetime, config: ContextConfig) -> int:
    """Return the integer score of a record for a question; `scoring.score_float` converts it.

    At the greatest weights it is below 5.5e18, inside a 64-bit integer.
    """
    return score(record, now, config) + _weigh(relevance, _query_weights(config))


def weighted_relevance(relevance: Relevance, config: ContextConfig) -> float:
    """Return the part of a record's score that depends on the question."""
    return score_float(_weigh(relevance, _query_weights(config)))


class _Weights(NamedTuple):
    """The weights of the parts as integers."""

    semantic: int
    lexical: int
    date: int
    who: int
    topic: int


def _query_weights(config: ContextConfig) -> _Weights:
    weights = (config.semantic_weight, config.lexical_weight, config.date_weight, config.who_weight)
    return _Weights(*(int(weight * WEIGHT_SCALE) for weight in (*weights, topic_weight(config))))


def topic_weight(config: ContextConfig) -> Decimal:
    """Return the weight of the topic: that of meaning and words, times what neighbours count."""
    return TOPIC_WEIGHT * config.neighbour_share * (config.semantic_weight + config.lexical_weight)


def _weigh(relevance: Relevance, weights: _Weights) -> int:
    near, worded, beside, date, who, topic = relevance
    return _PART_US * (
        weights.semantic * round((near or 0.0) * PART_SCALE)
        + weights.lexical * round(worded * PART_SCALE)
        + (weights.semantic + weights.lexical) * round(beside * PART_SCALE)
        + weights.date * round(date * PART_SCALE)
        + weights.who * round(who * PART_SCALE)
        + weights.topic * round(topic * PART_SCALE)
    )


def rank_by_query(
    records: Iterable[RecordSummary],
    relevant: Mapping[int, Relevance],
    now: datetime,
    config: ContextConfig,
) -> list[Scored]:
    """Sort best first, as `scoring.rank` does, by the score with relevance."""
    weights = _query_weights(config)
    scored = [
        Scored(record, base + _weigh(relevant.get(record.id, NOT_RELEVANT), weights))
        for record, base in score_all(records, now, config)
    ]
    scored.sort(key=precedence, reverse=True)
    return scored
