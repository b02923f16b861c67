"""The results of a benchmark: figures with their bars, and notes on how they were measured."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements of one thing, in the unit of the figure."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        return self.percentile(0.95)

    def percentile(self, share: float) -> float:
        """Return the nearest-rank percentile: a measured value, never one in between."""
        ordered = sorted(self.values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar for a figure, and whether it was met."""

    text: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the results. `median` is the value itself if there is only one."""

    what: str
    unit: str
    runs: int
    median: float
    p95: float | None = None
    ratio: float | None = None
    bar: Bar | None = None

    @classmethod
    def of(
        cls,
        what: str,
        sample: Sample,
        *,
        unit: str = "ms",
        ratio: float | None = None,
        bar: Bar | None = None,
    ) -> "Figure":
        return cls(what, unit, len(sample.values), sample.median, sample.p95, ratio, bar)


@dataclass(frozen=True, slots=True)
class Section:
    """The results of one benchmark."""

    title: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.bar and not figure.bar.is_met]


def at_most(limit: float, value: float, text: str) -> Bar:
    return Bar(text, value <= limit)


def at_least(limit: float, value: float, text: str) -> Bar:
    return Bar(text, value >= limit)


def describe_shares(parts: Sequence[tuple[str, Sample]]) -> str:
    """Describe in one line the median of each part of a task, and its share of the total."""
    total = sum(sample.median for _, sample in parts) or 1.0
    shares = [f"{name} {sample.median:.2f} ms ({sample.median / total:.0%})" for name, sample in parts]
    return ", ".join(shares)
