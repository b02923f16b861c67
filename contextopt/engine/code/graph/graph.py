"""The import graph, and how relevance spreads over it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextopt.engine.code.graph.fileset import FileSet, Resolver, parent
from contextopt.engine.code.graph.golang import GoResolver
from contextopt.engine.code.graph.java import JavaResolver
from contextopt.engine.code.graph.javascript import JavaScriptResolver
from contextopt.engine.code.graph.python import PythonResolver
from contextopt.engine.code.graph.rust import RustResolver
from contextopt.engine.code.graph.values import CodeGraph, ParsedFile, Skipped, Unresolved

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
