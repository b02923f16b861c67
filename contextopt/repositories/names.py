"""The name under which a folder's repository is listed."""

import re
from collections.abc import Iterator

from contextopt.repositories.models import REPOSITORY_NAME_MAX

FALLBACK = "repository"
# Names that say nothing about the project.
GENERIC_NAMES = frozenset(
    {
        "app", "checkout", "clone", "code", "data", "git", "home", "main", "master", "mnt", "opt", "project",
        "repo", "repos", "repositories", "repository", "root", "source", "src", "srv", "tmp", "trunk",
        "users", "var", "work", "workspace", "worktree",
    }
)  # fmt: skip


def name_of(folder: str, origin: str = "") -> str:
    """Return the name for a folder's repository, in plain characters.

    It is the folder's own name. If that is generic, such as `repo` or `src`, it is the last part of `origin`,
    the address of its remote. If that is generic too, it is the nearest parent folder with a specific name.
    """
    own, remote = list(_parts(folder)), list(_parts(origin))
    last = own[-1:]
    specific = (part for part in (*last, *remote[-1:], *own[-2::-1]) if part.lower() not in GENERIC_NAMES)
    return next(specific, last[0] if last else FALLBACK)


def _parts(address: str) -> Iterator[str]:
    """Yield the parts of a path or address, without characters that a name cannot contain."""
    for part in re.split(r"[/\\:]", address):
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", part.removesuffix(".git")).strip("-.")
        if plain:
            yield plain[: REPOSITORY_NAME_MAX - 8]
