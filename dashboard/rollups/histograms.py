"""Fixed buckets that add up: over hours, spaces, kinds, and whatever else a page asks for together.

A histogram has one bucket more than it has edges: what is below the first edge, and what is not below the
last. Edges never change without `rebuild_rollups`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]

# What a vector begins with in binary: its size, and two bytes that are not used.
VECTOR_HEAD = 4


@dataclass(frozen=True, slots=True)
class Histogram:
    """Where the buckets of a figure lie; `edges` ascend, the lowest value there can be is 0."""

    name: str
    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def bucket_of(self, value: float) -> int:
        """Return the bucket of a value, as PostgreSQL's `width_bucket` does."""
        return bisect_right(self.edges, value)

    def bounds(self, bucket: int) -> tuple[float, float]:
        """Return where a bucket begins and ends; the last is as if it had no width."""
        low = self.edges[bucket - 1] if bucket else 0.0
        return low, self.edges[min(bucket, len(self.edges) - 1)]

    def percentile(self, counts: Sequence[float], share: float) -> float | None:
        """Return the value below which a share (0 to 1) of the counted lies, as if even within its bucket.

        It lies in the same bucket as the nearest-rank percentile of the values; none when nothing was
        counted.
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


def read_vectors(sent: Sequence[bytes], size: int) -> Floats:
    """Return vectors of one size as `vector_send` gives them, (n, size): the text takes ten times as long."""
    numbers = b"".join(vector[VECTOR_HEAD:] for vector in sent)
    return np.frombuffer(numbers, ">f4").reshape(len(sent), size).astype(np.float64)


def _octaves(first: float, octaves: int, steps: int) -> tuple[float, ...]:
    """Return edges from `first`, each 2^(1/steps) times the one before."""
    return tuple(round(first * 2 ** (n / steps), 6) for n in range(octaves * steps + 1))


_TWENTIETHS = tuple(n / 20 for n in range(1, 21))

# Half a millisecond to eight seconds, each bucket 12 % wide.
ASSEMBLY_MS = Histogram("ms_histogram", _octaves(0.5, 14, 6))
# 32 to 131,072 tokens, each bucket 19 % wide.
TOKENS = Histogram("tokens_histogram", _octaves(32, 12, 4))
UTILISATION = Histogram("utilisation_histogram", _TWENTIETHS)
RATIO = Histogram("ratio_histogram", _TWENTIETHS)
HISTOGRAMS = (ASSEMBLY_MS, TOKENS, UTILISATION, RATIO)
