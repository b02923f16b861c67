"""A repository at a glance: its tree of files and its package manifest."""

from collections.abc import Callable, Sequence

from contextopt.engine.code.graph import decode
from contextopt.engine.code.tree import DrawnTree, draw_tree
from contextopt.engine.text.cleaning import flatten
from contextopt.repositories.checkouts import NO_FILE
from contextopt.repositories.models import Repository, RepositoryFile

MANIFESTS = (
    "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "package.json", "go.mod", "Cargo.toml",
    "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
)  # fmt: skip
"""Names of files that declare packages and their dependencies."""
MANIFESTS_MAX = 10
MANIFEST_CHARS_MAX = 200_000


def outline_tree(repository: Repository, fits: Callable[[str], bool]) -> DrawnTree:
    """Return the repository's files as an indented list that fits."""
    files = RepositoryFile.objects.filter(repository=repository).exclude(skipped__in=NO_FILE)
    return draw_tree(files.values_list("path", flat=True), fits)


def read_manifests(repository: Repository) -> list[tuple[str, str]]:
    """Return path and text of the manifests that are nearest to the top, the best known first."""
    rows = RepositoryFile.objects.of(repository).filter(path__regex=_PATTERN, blob__isnull=False)
    paths = list(rows.values_list("path", flat=True))
    nearest = min((path.count("/") for path in paths), default=0)
    chosen = sorted((path for path in paths if path.count("/") == nearest), key=_rank)[:MANIFESTS_MAX]
    contents = dict(rows.filter(path__in=chosen).values_list("path", "blob__content"))
    return [(path, decode(bytes(contents[path]))[:MANIFEST_CHARS_MAX]) for path in chosen if path in contents]


def join_manifests(manifests: Sequence[tuple[str, str]]) -> str:
    """Return the manifests as one text; a comment names each if there are several."""
    if len(manifests) == 1:
        return manifests[0][1]
    return "\n".join(f"# {flatten(path)}\n{text}" for path, text in manifests)


def _rank(path: str) -> tuple[int, str]:
    return MANIFESTS.index(path.rpartition("/")[2]), path


_PATTERN = rf"(^|/)({'|'.join(name.replace('.', r'\.') for name in MANIFESTS)})$"
