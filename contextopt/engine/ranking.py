"""Which records may be candidates, how relevant they are, and the score of each as an exact integer.

The parts of a score run from 0 to 10. Recency and frequency always count, and a question adds others:
`semantic` is the cosine times ten, `lexical` is BM25 relative to the best candidate, `neighbour` is the
relevance of the records around it in its thread. `date` and `who` are for records from the days and by the
person that the question names, `topic` for records from the part of a long conversation that is about the
question (see queryanalysis.py). Parts are rounded to millionths before they are weighted.

Measured on dialogues (benchmarks, section `recall`): a weighted sum of the parts finds more at every budget
than reciprocal rank fusion, and a neighbour of a match often contains the answer. A short record says little
by itself, so its surroundings count more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from contextopt.engine.settings import ContextConfig
from contextopt.engine.validation import WEIGHT_DECIMALS, utc
from contextopt.engine.values import DateRange, FilterCounts, RecordSummary


def filter_records(
    records: tuple[RecordSummary, ...], window: DateRange
) -> tuple[tuple[RecordSummary, ...], FilterCounts]:
    """Keep records that are live and inside the window, and count them all. A pinned record always passes."""
    present = [record for record in records if not record.deleted]
    kept = tuple(record for record in present if record.pinned or record.date in window)
    return kept, FilterCounts(len(kept), len(present) - len(kept), len(records) - len(present))


MAX_PART = 10
"""Maximum of recency and of frequency; the minimum is 0."""
WEIGHT_SCALE: int = 10**WEIGHT_DECIMALS
MICROSECOND = timedelta(microseconds=1)
HORIZON_US = timedelta(days=30) // MICROSECOND
"""Age at which recency reaches 0."""
SCORE_SCALE = WEIGHT_SCALE * HORIZON_US
"""Divisor from an integer score to the displayed score, on the scale of 0 to 10 times the weights."""

_DAY_US = timedelta(days=1) // MICROSECOND
_SECOND_US = timedelta(seconds=1) // MICROSECOND


class Coefficients(NamedTuple):
    """The whole formula in integers, for the engine and for SQL::

        score = recency * max(0, HORIZON_US - max(0, age_us)) + frequency * min(10, view_count)

    At the greatest weights a score is 5.2e17, inside a 64-bit integer.
    """

    recency: int
    frequency: int


class Scored(NamedTuple):
    """A record and its integer score."""

    record: RecordSummary
    score: int


def coefficients(config: ContextConfig) -> Coefficients:
    """Return the weights as integers: `recency` per microsecond before the horizon, `frequency` per view."""
    return Coefficients(
        recency=int(config.recency_weight * WEIGHT_SCALE) * MAX_PART,
        frequency=int(config.frequency_weight * WEIGHT_SCALE) * HORIZON_US,
    )


def age_us(date: datetime, now: datetime) -> int:
    """Return the age in microseconds. A date after `now` has age 0."""
    age = now - date
    return max(0, age.days * _DAY_US + age.seconds * _SECOND_US + age.microseconds)


def parts_of(record: RecordSummary, now: datetime) -> dict[str, float]:
    """Return the parts of the score that need no question, each 0 to 10.

    `recency` is 10 for now, 5 for 15 days ago, 0 from 30 days on; fractions of a day count. `frequency` is
    one per view, at most 10.
    """
    left = max(0, HORIZON_US - age_us(record.date, now))
    return {"recency": MAX_PART * left / HORIZON_US, "frequency": float(min(MAX_PART, record.view_count))}


def score(record: RecordSummary, now: datetime, config: ContextConfig) -> int:
    """Return the integer score."""
    [(_, value)] = score_all([record], now, config)
    return value


def rank(records: Iterable[RecordSummary], now: datetime, config: ContextConfig) -> list[Scored]:
    """Sort best first: score, then the newer date, then the higher id. Pinned records come first."""
    scored = [Scored(record, value) for record, value in score_all(records, now, config)]
    scored.sort(key=precedence, reverse=True)
    return scored


def score_all(
    records: Iterable[RecordSummary], now: datetime, config: ContextConfig
) -> Iterator[tuple[RecordSummary, int]]:
    """Yield each record with its integer score, in the order given."""
    now = utc("now", now)
    weights = coefficients(config)
    for record in records:
        left = HORIZON_US - age_us(record.date, now)
        views = min(MAX_PART, record.view_count)
        yield record, weights.recency * (left if left > 0 else 0) + weights.frequency * views


def precedence(scored: Scored) -> tuple[bool, int, datetime, int]:
    """Return the sort key of candidates, the greatest first."""
    record = scored.record
    return record.pinned, scored.score, record.date, record.id


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

type Floats = npt.NDArray[np.float64]
type Integers = npt.NDArray[np.int64]

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
        return {**self._asdict(), "semantic": self.semantic or 0.0}


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

    `threads` are runs of ids that are neighbours in a thread, in its order, each id once; `sizes` are the
    tokens of their notes. The part combines the matches beside a record and the relevance of its surroundings
    as a passage. The shorter the record, the more the passage counts. For a record longer than the config's
    record size, the matches beside it count less: at twice the size, half.
    """
    runs = _Runs.of(threads, relevant, sizes)
    short = SHORT_TOKENS / (runs.sizes + SHORT_TOKENS)
    beside = runs.nearby(config)
    if (record_tokens := config.question_record_tokens) is not None:
        beside *= record_tokens / np.maximum(record_tokens, runs.sizes)
    passage = PASSAGE_WEIGHT * runs.passages(config)
    shared = float(config.neighbour_share) * ((1 - short) * beside + short * passage)
    rated = dict(relevant)
    for record_id, part in zip(runs.ids, np.minimum(MAX_PART, shared).tolist(), strict=True):
        if part > 0:
            rated[record_id] = rated.get(record_id, NOT_RELEVANT)._replace(neighbour=part)
    return rated


@dataclass(frozen=True, slots=True)
class _Runs:
    """Records in the order of their threads, one thread after the other, with their parts and tokens."""

    ids: Sequence[int]
    threads: Integers
    lexical: Floats
    semantic: Floats
    sizes: Integers

    @classmethod
    def of(
        cls, threads: Iterable[Sequence[int]], relevant: Mapping[int, Relevance], sizes: Mapping[int, int]
    ) -> "_Runs":
        runs = list(threads)
        ids = [record_id for run in runs for record_id in run]
        parts = [relevant.get(record_id, NOT_RELEVANT) for record_id in ids]
        return cls(
            ids,
            np.repeat(np.arange(len(runs)), np.array([len(run) for run in runs], np.int64)),
            np.array([each.lexical for each in parts]),
            np.array([each.semantic or 0.0 for each in parts]),
            np.array([sizes.get(record_id, 0) for record_id in ids], np.int64),
        )

    def nearby(self, config: ContextConfig) -> Floats:
        """Return the relevance beside each record: the better side at each step, fading with the steps."""
        own = _own(self.semantic, self.lexical, config)
        nearby = np.zeros(len(own))
        for step, fading in enumerate(_FADING, 1):
            is_one_thread = self.threads[step:] == self.threads[:-step]
            before, after = np.zeros(len(own)), np.zeros(len(own))
            before[step:] = own[:-step] * is_one_thread
            after[:-step] = own[step:] * is_one_thread
            nearby += np.maximum(before, after) * fading
        return nearby

    def passages(self, config: ContextConfig) -> Floats:
        """Return how relevant the surroundings of each record are, itself included, 0 to 10.

        By words, it is the sum of the lexical parts, scaled so that the best passage has 10. By meaning, it
        is the mean of the semantic parts, weighted by length.
        """
        # Integers, so that differences of the running sums are exact.
        lengths = np.maximum(1, self.sizes)
        begins = _sums(lengths)
        words = _sums((self.lexical * PART_SCALE).astype(np.int64))
        meant = _sums((self.semantic * PART_SCALE).astype(np.int64) * lengths)
        # The first place of the passage around each place, and the place after its last one.
        first = np.arange(len(self.ids))
        end = first + 1
        for step in range(1, NEIGHBOUR_REACH + 1):
            is_one_thread = self.threads[step:] == self.threads[:-step]
            # Tokens between the end of the earlier record and the beginning of the later one.
            is_near = begins[step:-1] - begins[1:-step] < PASSAGE_TOKENS / 2
            first[step:] -= is_one_thread & is_near
            end[:-step] += is_one_thread & is_near
        meaning = (meant[end] - meant[first]) / (begins[end] - begins[first]) / PART_SCALE
        said = (words[end] - words[first]) / PART_SCALE
        best = said.max(initial=0.0)
        return _own(meaning, MAX_PART * said / best if best > 0 else said, config)


def _sums(values: Integers) -> Integers:
    """Return the sums of the values before each place, and of all."""
    return np.concatenate(([0], np.cumsum(values)))


def own_relevances(relevant: Mapping[int, Relevance], config: ContextConfig) -> dict[int, float]:
    """Return the weighted means of the semantic and lexical parts, each 0 to 10."""
    semantic = np.array([parts.semantic or 0.0 for parts in relevant.values()])
    lexical = np.array([parts.lexical for parts in relevant.values()])
    return dict(zip(relevant, _own(semantic, lexical, config).tolist(), strict=True))


def _own(semantic: Floats, lexical: Floats, config: ContextConfig) -> Floats:
    near, worded = float(config.semantic_weight), float(config.lexical_weight)
    return (near * semantic + worded * lexical) / (near + worded or 1.0)


def weighted_relevance(relevance: Relevance, config: ContextConfig) -> float:
    """Return the part of a record's score that depends on the question."""
    return _weigh([relevance], config)[0] / SCORE_SCALE


def best_relevances(each: Sequence[Mapping[int, Relevance]], config: ContextConfig) -> dict[int, Relevance]:
    """Return the relevance of each record to the passage of a question that it is the most relevant to."""
    best: dict[int, tuple[int, Relevance]] = {}
    for relevant in each:
        weighed = _weigh(list(relevant.values()), config)
        for (record_id, parts), value in zip(relevant.items(), weighed, strict=True):
            if record_id not in best or value > best[record_id][0]:
                best[record_id] = value, parts
    return {record_id: parts for record_id, (_, parts) in best.items()}


def topic_weight(config: ContextConfig) -> Decimal:
    """Return the weight of the topic: that of meaning and words, times the neighbour share and a constant."""
    return TOPIC_WEIGHT * config.neighbour_share * (config.semantic_weight + config.lexical_weight)


def _weigh(relevances: Sequence[Relevance], config: ContextConfig) -> list[int]:
    """Return the sum of the weighted parts of each."""
    near, worded = config.semantic_weight, config.lexical_weight
    weights = (near, worded, near + worded, config.date_weight, config.who_weight, topic_weight(config))
    scaled = np.array([int(weight * WEIGHT_SCALE) for weight in weights])
    # A missing part becomes NaN.
    parts = np.nan_to_num(np.array(relevances, float).reshape(-1, len(weights)))
    values: list[int] = (np.rint(parts * PART_SCALE).astype(np.int64) @ scaled * _PART_US).tolist()
    return values


def rank_by_query(
    records: Iterable[RecordSummary],
    relevant: Mapping[int, Relevance],
    now: datetime,
    config: ContextConfig,
) -> list[Scored]:
    """Sort best first, like `rank`, by the score that includes relevance.

    At the greatest weights a score is below 5.5e18, inside a 64-bit integer.
    """
    records = list(records)
    weighed = _weigh([relevant.get(record.id, NOT_RELEVANT) for record in records], config)
    scored = [
        Scored(record, base + more)
        for (record, base), more in zip(score_all(records, now, config), weighed, strict=True)
    ]
    scored.sort(key=precedence, reverse=True)
    return scored
