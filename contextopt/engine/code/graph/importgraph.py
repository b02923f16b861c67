"""Files that import one another in a circle, however long."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextopt.engine.code.graph.golang import GoResolver
from contextopt.engine.code.graph.java import JavaResolver
from contextopt.engine.code.graph.javascript import JavaScriptResolver
from contextopt.engine.code.graph.python import PythonResolver
from contextopt.engine.code.graph.rust import RustResolver
from contextopt.engine.code.graph.values import (
    CodeGraph,
    FileSet,
    ParsedFile,
    Resolver,
    Skipped,
    Unresolved,
    parent,
)


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


SPREAD_ROUNDS = 12


def build_graph(files: Mapping[str, ParsedFile]) -> CodeGraph:
    """Resolve all imports among the files. Unresolved imports and unreadable files are listed; nothing
    raises.
    """
    fileset = FileSet.of(files)
    resolvers = _resolvers(fileset)
    packages = _PackageNames(files)
    unresolved: list[Unresolved] = []
    external: Counter[str] = Counter()
    imports: dict[str, tuple[str, ...]] = {}
    for path in sorted(files):
        parsed = files[path]
        targets = packages.neighbours(path, parsed)
        for item in parsed.imports:
            resolution = resolvers[parsed.language].resolve(path, item)
            targets.update(resolution.targets)
            external[item.target] += resolution.is_external
            if resolution.is_missing:
                dots = "." * item.level if parsed.language == "python" else ""
                unresolved.append(Unresolved(path, dots + item.target, item.line))
        imports[path] = tuple(sorted(targets - {path}))
    return CodeGraph(
        files=files,
        imports=imports,
        unresolved=tuple(unresolved),
        external={target: count for target, count in sorted(external.items()) if count},
        skipped=tuple(_skipped(files)),
    )


def _resolvers(fileset: FileSet) -> dict[str, Resolver]:
    script = JavaScriptResolver(fileset)
    return {
        "python": PythonResolver(fileset),
        "javascript": script,
        "typescript": script,
        "tsx": script,
        "go": GoResolver(fileset),
        "rust": RustResolver(fileset),
        "java": JavaResolver(fileset),
    }


class _PackageNames:
    """The names that files of a Go or Java package share without an import."""

    def __init__(self, files: Mapping[str, ParsedFile]) -> None:
        self._owners: dict[tuple[str, str, str], set[str]] = {}
        for path, parsed in files.items():
            for symbol in parsed.symbols if parsed.language in ("go", "java") else ():
                if symbol.depth == 0 and symbol.kind != "method":
                    self._owners.setdefault((*_package(path, parsed), symbol.name), set()).add(path)

    def neighbours(self, path: str, parsed: ParsedFile) -> set[str]:
        found: set[str] = set()
        for name in parsed.references:
            found |= self._owners.get((*_package(path, parsed), name), set())
        return found


def _package(path: str, parsed: ParsedFile) -> tuple[str, str]:
    """Return the package that two files share: the folder in Go, the package name in Java."""
    return parsed.language, parsed.package if parsed.language == "java" else parent(path)


def _skipped(files: Mapping[str, ParsedFile]) -> Iterator[Skipped]:
    for path, parsed in sorted(files.items()):
        if parsed.skipped:
            yield Skipped(path, parsed.skipped)
        elif parsed.problems:
            yield Skipped(path, "syntax error", parsed.problems[0])


@dataclass(frozen=True, slots=True)
class Links:
    """The graph in flat arrays, both directions: link i goes from `sources[i]` to `targets[i]`."""

    paths: tuple[str, ...]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, graph: CodeGraph) -> "Links":
        """Flatten a graph. The links that leave a file weigh the same, 1 together."""
        paths = tuple(sorted(graph.imports))
        numbers = {path: number for number, path in enumerate(paths)}
        pairs = [(numbers[path], numbers[target]) for path in paths for target in graph.imports[path]]
        pair_array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        forward, backward = pair_array[:, 0], pair_array[:, 1]
        sources = np.concatenate([forward, backward])
        leaving = np.bincount(sources, minlength=len(paths))
        return cls(
            paths=paths,
            sources=sources,
            targets=np.concatenate([backward, forward]),
            weights=1.0 / leaving[sources],
        )

    def spread(self, start: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
        """Return the personalised PageRank of the files, shape (n,), for a start of that shape.

        Each further link multiplies the weight by `damping`. Weight that reaches a file without links returns
        to the start. Source: Haveliwala 2002, Topic-Sensitive PageRank, equation 4.
        """
        total = float(start.sum())
        if total <= 0 or not len(self.paths):
            return np.zeros(len(self.paths))
        begin = start / total
        has_links = np.bincount(self.sources, minlength=len(self.paths)) > 0
        rank = begin
        for _ in range(SPREAD_ROUNDS):
            moved = np.bincount(
                self.targets, weights=rank[self.sources] * self.weights, minlength=len(self.paths)
            )
            stranded = float(rank[~has_links].sum())
            rank = (1 - damping + damping * stranded) * begin + damping * moved
        return rank
