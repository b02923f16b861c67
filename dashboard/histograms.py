"""Fixed buckets that add up: over hours, spaces, kinds, and whatever else a page asks for together.

A histogram has one bucket more than it has edges: what is below the first edge, and what is not below the
last. Edges never change without `rebuild_rollups`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


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
        return self.percentiles(counts, (share,))[0]

    def percentiles(self, counts: Sequence[float], shares: Sequence[float]) -> tuple[float | None, ...]:
        """Return the percentile of each share; see `percentile`."""
        if not counts or sum(counts) <= 0:
            return (None,) * len(shares)
        upto = list(accumulate(counts))
        return tuple(self._value_at(max(1.0, -(-upto[-1] * share // 1)), counts, upto) for share in shares)

    def _value_at(self, rank: float, counts: Sequence[float], upto: Sequence[float]) -> float:
        """Return the value of a rank; `upto` holds how many lie in each bucket and those below it."""
        bucket = bisect_left(upto, rank)
        low, high = self.bounds(bucket)
        return low + (high - low) * (rank - (upto[bucket] - counts[bucket]) - 0.5) / counts[bucket]


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
