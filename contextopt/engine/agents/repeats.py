"""Rank keys by value, where each further key of one kind is worth less."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping


def rank_with_repeats(
    values: Mapping[int, float], kind_of: Callable[[int], str], share: float, spared: float
) -> Iterator[int]:
    """Yield the keys, the highest value first, and the lower key first among equals.

    Each yielded key multiplies the values of the others of its kind by `share`. Values of at least `spared`
    are not reduced.
    """
    return _Ranking(values, kind_of, share, spared).ordered()


class _Ranking:
    """Keys of one kind and value are reduced together, so that many of one kind take no longer than few."""

    def __init__(
        self, values: Mapping[int, float], kind_of: Callable[[int], str], share: float, spared: float
    ) -> None:
        self.share = share
        self.spared = spared
        self.seen: Counter[str] = Counter()
        # Heaps of keys by kind, negative value, and number of earlier keys of the kind.
        self.waiting: dict[tuple[str, float, int], list[int]] = {}
        for key, value in sorted(values.items()):
            self.waiting.setdefault((kind_of(key), -value, 0), []).append(key)
        self.heap = [(worth, keys[0], counted, kind) for (kind, worth, counted), keys in self.waiting.items()]
        heapq.heapify(self.heap)

    def ordered(self) -> Iterator[int]:
        while self.heap:
            worth, key, counted, kind = heapq.heappop(self.heap)
            keys = self.waiting.get((kind, worth, counted))
            if not keys or keys[0] != key:
                continue  # Their value has dropped since, or a lower key has joined them and was yielded.
            times = self.seen[kind]
            if counted < times and -self.spared < worth < 0:
                self._fall(kind, worth, counted)
                continue
            self.seen[kind] = times + 1
            yield key
            heapq.heappop(keys)
            if keys:
                heapq.heappush(self.heap, (worth, keys[0], counted, kind))

    def _fall(self, kind: str, worth: float, counted: int) -> None:
        """Reduce keys to their current value. Keys behind one that goes first at this value wait."""
        keys = self.waiting.pop((kind, worth, counted))
        times = self.seen[kind]
        if due := self.waiting.get((kind, worth, times)):
            self._put(sorted(key for key in keys if key > due[0]), kind, worth, counted)
            keys = sorted(key for key in keys if key < due[0])
        self._put(keys, kind, worth * self.share ** (times - counted), times)

    def _put(self, keys: list[int], kind: str, worth: float, counted: int) -> None:
        """Add keys to those of this kind and value. The first key given must be the lowest."""
        if not keys:
            return
        waiting = self.waiting.setdefault((kind, worth, counted), keys)
        if waiting is not keys:
            for key in keys:
                heapq.heappush(waiting, key)
        if waiting[0] == keys[0]:
            heapq.heappush(self.heap, (worth, waiting[0], counted, kind))
