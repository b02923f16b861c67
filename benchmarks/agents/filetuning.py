"""Choose the weights of the signals by coordinate ascent on the training part only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.agents.filecases import Snapshot
from contextopt.engine.code.filescores import Weights

STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.3)
ROUNDS = 3
DEPTHS = (5, 10, 20)
SMALLEST_GAIN = 1e-4

_TUNED = [field.name for field in fields(Weights) if field.name not in ("content", "seed")]


@dataclass(frozen=True, slots=True)
class Example:
    """One case: the signals of all files, shape (n_signals, n_files), and the places of the changed ones."""

    repository: str
    part: str
    signals: NDArray[np.float64]
    wanted: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tuning:
    """All cases with their signals."""

    examples: Sequence[Example]

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot], prepare: Callable[..., Any]) -> "Tuning":
        examples = []
        readings: dict[Any, Any] = {}
        for snapshot in snapshots:
            prepared = prepare(snapshot, readings)
            places = {path: place for place, path in enumerate(prepared.paths)}
            for case in snapshot.cases:
                signals = prepared.ranker.signals(case.query, (), case.now)
                matrix = np.stack([signals[field.name] for field in fields(Weights)])
                wanted = np.array(sorted({places[path] for path in case.changed}), dtype=np.int64)
                examples.append(Example(snapshot.repository, snapshot.part, matrix, wanted))
        return cls(examples)

    @property
    def repositories(self) -> list[str]:
        return sorted({example.repository for example in self.examples})

    def best(self, part: str, without: str = "") -> Weights:
        """Return the weights with the best mean of recall@5, @10 (twice) and @20."""
        chosen = [one for one in self.examples if one.part == part and one.repository != without]
        weights = Weights()
        best = _objective(recalls(weights, chosen))
        for _ in range(ROUNDS):
            for name in _TUNED:
                for step in STEPS:
                    tried = replace(weights, **{name: step})
                    reached = _objective(recalls(tried, chosen))
                    if reached > best + SMALLEST_GAIN:
                        weights, best = tried, reached
        return weights

    def describe(self, weights: Weights, part: str, only: str = "") -> str:
        chosen = [one for one in self.examples if one.part == part and only in ("", one.repository)]
        figures = " ".join(f"{value:.3f}" for value in recalls(weights, chosen))
        return f"recall@5/10/20 {figures} ({len(chosen)} cases) by {weights}"


def recalls(weights: Weights, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return recall at each depth, shape (3,): the mean over the repositories of their means."""
    factors = np.array([getattr(weights, field.name) for field in fields(Weights)])
    found: dict[str, list[list[float]]] = {}
    for example in examples:
        order = np.argsort(-(factors @ example.signals), kind="stable")[: max(DEPTHS)]
        reached = [float(np.isin(example.wanted, order[:depth]).mean()) for depth in DEPTHS]
        found.setdefault(example.repository, []).append(reached)
    return np.mean([np.mean(values, axis=0) for values in found.values()], axis=0)


def _objective(reached: NDArray[np.float64]) -> float:
    return float(reached @ np.array([0.25, 0.5, 0.25]))
