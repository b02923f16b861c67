"""Fixed buckets that can be added up over hours, spaces, kinds, or whatever a page asks for together.

A histogram has one bucket more than it has edges: the first is below the first edge, the last is not below
the last. The smallest and the largest value are kept beside it, so that no percentile leaves their range. The
table of figures declares the edges.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from contextopt.assemblies.figures import FIGURES

type Floats = NDArray[np.float64]
type Ends = tuple[float, float]

# Percentiles of fewer values are read from the log itself.
EXACT_BELOW = 20

# The header of a binary vector: its size and two unused bytes.
VECTOR_HEAD = 4


@dataclass(frozen=True, slots=True)
class Histogram:
    """The buckets of a figure; `edges` ascend, and the lowest possible value is 0."""

    name: str
    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    @property
    def smallest(self) -> str:
        """The column of the smallest value."""
        return self.name.replace("_histogram", "_smallest")

    @property
    def largest(self) -> str:
        return self.name.replace("_histogram", "_largest")

    def bucket_of(self, value: float) -> int:
        """Return the bucket of a value, as PostgreSQL's `width_bucket` does."""
        return bisect_right(self.edges, value)

    def bounds(self, bucket: int) -> tuple[float, float]:
        """Return the bounds of a bucket; the last has no upper one."""
        low = self.edges[bucket - 1] if bucket else 0.0
        return low, self.edges[bucket] if bucket < len(self.edges) else inf

    def read(self, sent: Sequence[bytes]) -> Floats:
        """Return n histograms, (n, size), from `vector_send`'s output: text takes ten times as long."""
        numbers = b"".join(vector[VECTOR_HEAD:] for vector in sent)
        return np.frombuffer(numbers, ">f4").reshape(len(sent), self.size).astype(np.float64)

    def percentile(self, counts: Sequence[float], share: float, ends: Ends) -> float | None:
        """Return one percentile of one histogram, as `percentiles` does; None if nothing was counted."""
        if not any(counts):
            return None
        found: float = self.percentiles(np.array([counts], np.float64), [share], [ends])[0, 0]
        return found

    def percentiles(self, counts: Floats, shares: Sequence[float], ends: Sequence[Ends]) -> Floats:
        """Return the percentiles, (n, shares), of n histograms, (n, size), none of which is all zero.

        A share is from 0 to 1, and `ends` are the smallest and the largest value of each histogram. The
        result lies between them and in the bucket of the nearest-rank percentile, as if the values were
        spread evenly there. The first and the last value are exact, so p95 is below 20 values.
        """
        upto = counts.cumsum(axis=1)
        totals = upto[:, -1:]
        ranks = np.maximum(1.0, np.ceil(totals * np.array(shares)))
        buckets = (upto[:, None, :] < ranks[:, :, None]).sum(axis=2)
        bounds = np.array([self.bounds(bucket) for bucket in range(self.size)])
        smallest, largest = np.array(ends, np.float64).reshape(-1, 2).T[:, :, None]
        low = np.maximum(bounds[buckets, 0], smallest)
        # The largest value may be unknown in rollups of an earlier version that wait for a rebuild.
        high = np.minimum(bounds[buckets, 1], largest)
        high = np.where(np.isfinite(high), high, low)
        inside = np.take_along_axis(counts, buckets, axis=1)
        before = np.take_along_axis(upto, buckets, axis=1) - inside
        between = low + (high - low) * (ranks - before - 0.5) / inside
        found: Floats = np.where(ranks == totals, high, np.where(ranks == 1, low, between)).clip(
            smallest, largest
        )
        return found


def exact_percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile: a measured value, never one in between; None without values."""
    return sorted(values)[max(1, ceil(len(values) * share)) - 1] if values else None


BY_FIGURE = {
    figure.name: Histogram(f"{figure.buckets.name}_histogram", figure.buckets.edges)
    for figure in FIGURES
    if figure.buckets
}
HISTOGRAMS = tuple(BY_FIGURE.values())
ASSEMBLY_MS, TOKENS = BY_FIGURE["assembly_ms"], BY_FIGURE["tokens_after"]
UTILISATION, RATIO = BY_FIGURE["utilisation"], BY_FIGURE["compression_ratio"]
