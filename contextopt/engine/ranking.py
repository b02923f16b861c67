"""Which records may be candidates, and the score of each as an exact integer."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

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
"""Divisor from an integer score to the displayed score."""

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


def recency(date: datetime, now: datetime) -> float:
    """Return 10 for now, 5 for 15 days ago, 0 from 30 days on. Fractions of a day count."""
    return MAX_PART * max(0, HORIZON_US - age_us(date, now)) / HORIZON_US


def frequency(view_count: int) -> float:
    """Return one per view, at most 10."""
    return float(min(MAX_PART, view_count))


def score(record: RecordSummary, now: datetime, config: ContextConfig) -> int:
    """Return the integer score; `score_float` converts it."""
    [(_, value)] = score_all([record], now, config)
    return value


def score_float(value: int) -> float:
    """Return an integer score on the scale of 0 to 10 times the weights."""
    return value / SCORE_SCALE


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
