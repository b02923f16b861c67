"""Fixed buckets that can be added up over hours, spaces, kinds, or whatever a page asks for together.

A histogram has one bucket more than it has edges: the first is below the first edge, the last is not below
the last. Edges never change without `rebuild_rollups`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]

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

    def bucket_of(self, value: float) -> int:
        """Return the bucket of a value, as PostgreSQL's `width_bucket` does."""
        return bisect_right(self.edges, value)

    def bounds(self, bucket: int) -> tuple[float, float]:
        """Return the bounds of a bucket; the last is treated as if it had no width."""
        low = self.edges[bucket - 1] if bucket else 0.0
        return low, self.edges[min(bucket, len(self.edges) - 1)]

    def read(self, sent: Sequence[bytes]) -> Floats:
        """Return n histograms, (n, size), from `vector_send`'s output: text takes ten times as long."""
        numbers = b"".join(vector[VECTOR_HEAD:] for vector in sent)
        return np.frombuffer(numbers, ">f4").reshape(len(sent), self.size).astype(np.float64)

    def percentile(self, counts: Sequence[float], share: float) -> float | None:
        """Return the value below which a share (0 to 1) of the counts lies, as if spread evenly in its
        bucket.

        It lies in the same bucket as the nearest-rank percentile of the values. None if nothing was counted.
        """
        if not any(counts):
            return None
        found: float = self.percentiles(np.array([counts], np.float64), [share])[0, 0]
        return found

    def percentiles(self, counts: Floats, shares: Sequence[float]) -> Floats:
        """Return the percentiles, (n, shares), of n histograms, (n, size), none of which is all zero."""
        upto = counts.cumsum(axis=1)
        ranks = np.maximum(1.0, np.ceil(upto[:, -1:] * np.array(shares)))
        buckets = (upto[:, None, :] < ranks[:, :, None]).sum(axis=2)
        edges = np.array(self.edges)
        low, high = np.concatenate([[0.0], edges])[buckets], np.append(edges, edges[-1])[buckets]
        inside = np.take_along_axis(counts, buckets, axis=1)
        before = np.take_along_axis(upto, buckets, axis=1) - inside
        found: Floats = low + (high - low) * (ranks - before - 0.5) / inside
        return found


def _octaves(first: float, octaves: int, steps: int) -> tuple[float, ...]:
    """Return edges from `first`, each 2^(1/steps) times the previous one."""
    return tuple(round(first * 2 ** (n / steps), 6) for n in range(octaves * steps + 1))


_TWENTIETHS = tuple(n / 20 for n in range(1, 21))

# Half a millisecond to eight seconds, each bucket 12 % wide.
ASSEMBLY_MS = Histogram("ms_histogram", _octaves(0.5, 14, 6))
# 32 to 131,072 tokens, each bucket 19 % wide.
TOKENS = Histogram("tokens_histogram", _octaves(32, 12, 4))
UTILISATION = Histogram("utilisation_histogram", _TWENTIETHS)
RATIO = Histogram("ratio_histogram", _TWENTIETHS)
