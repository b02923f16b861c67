"""A repository's folders and files as an indented list that fits a budget."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from contextopt.engine.text.cleaning import flatten
from contextopt.engine.wording import plural

INDENT = "  "


class DrawnTree(NamedTuple):
    """The list, and the number of files that are counted in closed folders instead of listed."""

    text: str
    closed: int


@dataclass(slots=True)
class _Folder:
    folders: dict[str, "_Folder"] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def depth(self) -> int:
        return 1 + max((folder.depth for folder in self.folders.values()), default=0)


def draw_tree(paths: Iterable[str], fits: Callable[[str], bool]) -> DrawnTree:
    """List the paths by folder. Folders are closed from the deepest level up until the list fits.

    A closed folder is one line with the number of its files. The top level is always named, so the list may
    still not fit.
    """
    root = _folders(paths)
    low, high = 1, root.depth
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_draw(root, middle)):
            low = middle
        else:
            high = middle - 1
    return DrawnTree(_draw(root, low), _closed(root, low))


def _folders(paths: Iterable[str]) -> _Folder:
    root = _Folder()
    for path in sorted(paths):
        *above, name = path.split("/")
        folder = root
        folder.total += 1
        for part in above:
            folder = folder.folders.setdefault(part, _Folder())
            folder.total += 1
        folder.files.append(name)
    return root


def _draw(root: _Folder, levels: int) -> str:
    return "".join(f"{line}\n" for line in _lines(root, levels, ""))


def _lines(folder: _Folder, levels: int, indent: str) -> Iterator[str]:
    for name, inner in folder.folders.items():
        if levels == 1:
            yield f"{indent}{flatten(name)}/ ({plural(inner.total, 'file')})"
            continue
        yield f"{indent}{flatten(name)}/"
        yield from _lines(inner, levels - 1, indent + INDENT)
    for name in folder.files:
        yield f"{indent}{flatten(name)}"


def _closed(folder: _Folder, levels: int) -> int:
    if levels == 1:
        return sum(inner.total for inner in folder.folders.values())
    return sum(_closed(inner, levels - 1) for inner in folder.folders.values())
