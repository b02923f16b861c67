"""Means of measured values, over the cases of a repository, then over the repositories."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class Tally:
    """Measured values by contender and metric, separately for each repository."""

    values: dict[tuple[str, str], dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def recorder(self, contender: str, repository: str) -> "Recorder":
        return Recorder(self, contender, repository)

    def mean(self, contender: str, metric: str) -> float:
        means = self.by_repository(contender, metric).values()
        return float(np.mean(list(means))) if means else 0.0

    def by_repository(self, contender: str, metric: str) -> dict[str, float]:
        found = self.values.get((contender, metric), {})
        return {name: float(np.mean(values)) for name, values in sorted(found.items())}

    def count(self, contender: str, metric: str) -> int:
        return sum(map(len, self.values.get((contender, metric), {}).values()))


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the values of one contender on one repository."""

    tally: Tally
    contender: str
    repository: str

    def add(self, metric: str, value: float) -> None:
        self.tally.values[self.contender, metric][self.repository].append(value)
