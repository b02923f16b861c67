"""Files that import one another in a circle, however long."""

from collections.abc import Iterator, Mapping, Sequence


class _Walk:
    """A depth-first walk that tracks how far up each file leads back."""

    def __init__(self, imports: Mapping[str, Sequence[str]]) -> None:
        self.imports = imports
        self.numbers: dict[str, int] = {}
        self.lowest: dict[str, int] = {}
        self.open: dict[str, None] = {}
        self.groups: list[tuple[str, ...]] = []

    def visit(self, start: str) -> None:
        trail = [self._enter(start)]
        while trail:
            path, targets = trail[-1]
            following = next(targets, None)
            if following is None:
                trail.pop()
                self._leave(path)
                if trail:
                    above = trail[-1][0]
                    self.lowest[above] = min(self.lowest[above], self.lowest[path])
            elif following not in self.numbers:
                trail.append(self._enter(following))
            elif following in self.open:
                self.lowest[path] = min(self.lowest[path], self.numbers[following])

    def _enter(self, path: str) -> tuple[str, Iterator[str]]:
        self.numbers[path] = self.lowest[path] = len(self.numbers)
        self.open[path] = None
        return path, iter(self.imports[path])

    def _leave(self, path: str) -> None:
        """Close the group that starts at a file which leads no further up."""
        if self.lowest[path] < self.numbers[path]:
            return
        group: list[str] = []
        while not group or group[-1] != path:
            group.append(self.open.popitem()[0])
        if len(group) > 1:
            self.groups.append(tuple(sorted(group)))


def find_circles(imports: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return each group of files that all reach one another, in order. Any depth works.

    Source: Tarjan 1972, Depth-First Search and Linear Graph Algorithms, section 4.
    """
    walk = _Walk(imports)
    for path in sorted(imports):
        if path not in walk.numbers:
            walk.visit(path)
    return sorted(walk.groups)
