"""Connects a repository's coding agent, and undoes it."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from contextopt.connections.codingagents import Place, Tool
from contextopt.connections.realfiles import UnusableFile, find_real, own_folder, write_whole
from contextopt.connections.toolfiles import Change, KeptFile, Outcome, undo_file, write_change
from contextopt.engine.text.cleaning import flatten_to
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.limits import NAME_MAX
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key, revoke_key
from contextopt.people.models import ApiKey, Team
from contextopt.spaces.importing.git import git_folder, top_folder
from contextopt.spaces.importing.pipeline import ensure_space
from contextopt.spaces.models import Space

# In the person's configuration.
FOLDER = "contextopt/connections"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


class Connection(TypedDict):
    """A connection as it is stored. `name` is the repository's, `files` is what undoing needs."""

    tool: str
    repository: str
    name: str
    space: str
    url: str
    key_id: int
    key_file: str
    files: list[KeptFile]


def connection_file(tool: str, repository: Path) -> Path:
    """Raises: LeadsOut."""
    digest = hashlib.sha256(str(repository).encode()).hexdigest()[:8]
    name = f"{FOLDER}/{tool}-{plain_name(repository.name)}-{digest}.json"
    config = own_folder(os.environ.get("XDG_CONFIG_HOME"), ".config")
    return find_real(config, name, "the connection, and its key")


def key_file(file: Path) -> Path:
    return file.with_suffix(".key")


def plain_name(name: str) -> str:
    """Return a name as a slug: lower case, hyphens for what a slug may not have."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:64] or "repository"


def write_private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(PRIVATE_FOLDER)
    write_whole(path, content, PRIVATE_FILE)


def write_connection(file: Path, connection: Connection) -> None:
    write_private(file, json.dumps(connection, indent=2).encode())


def read_connection(file: Path) -> Connection | None:
    try:
        found: Connection = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    return found


def others_of(tool: str, file: Path) -> Sequence[Path]:
    """Return the files of the tool's other connections."""
    return sorted(each for each in file.parent.glob(f"{tool}-*.json") if each != file)


def forget(file: Path) -> None:
    """Delete a connection and its key, and the folder after the last one."""
    key_file(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    for folder in (file.parent, file.parent.parent):
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


@dataclass(frozen=True, slots=True)
class Plan:
    """A connection to be made, with every change of a file."""

    tool: Tool
    place: Place
    name: str
    space: str
    changes: tuple[Change, ...]

    @property
    def key_file(self) -> Path:
        return key_file(self.place.file)


def find_root(folder: Path) -> Path:
    """Return the top of the folder's git repository, or the folder itself if it is not in one.

    Raises:
        InvalidInput: it is not a folder, or git's settings place its files in another folder.
    """
    if not folder.is_dir():
        raise InvalidInput.of("--repository", f"{folder} is not a folder on this machine")
    here = folder.resolve()
    top = top_folder(here)
    if top is None:
        return here
    if not _is_top_of(top, here):
        problem = (
            f"git's settings in {here} (core.worktree, or a .git file) lead out of it, to {top}. The entries "
            f"would have been written there, so nothing was changed. If you mean that folder, name it."
        )
        raise InvalidInput.of("--repository", problem)
    return top


def _is_top_of(top: Path, here: Path) -> bool:
    """Return whether both folders are in one repository, and not only because a setting says so."""
    if git_folder(here) == top:
        # It has no working tree.
        return here.is_relative_to(top) or top.is_relative_to(here)
    return git_folder(here) == git_folder(top)


def plan_connection(*, tool: Tool, repository: Path, url: str, space: str) -> Plan:
    """Plan a connection without changing anything.

    Raises:
        Conflict: the repository is connected already.
        UnusableFile: a file of the tool cannot be changed.
    """
    root = find_root(repository)
    place = Place(root, url.rstrip("/"), connection_file(tool.name, root))
    if place.file.exists():
        raise Conflict(f"{root} is already connected to {tool.label}. Run the command with --undo first.")
    space = space or plain_name(root.name)
    return Plan(tool, place, root.name, space, tuple(tool.plan(place)))


def make_connection(plan: Plan, *, team: Team, actor: str) -> tuple[ApiKey, Space]:
    """Make the space and the key, and write the files. If one cannot be written, everything is undone."""
    space = ensure_space(team=team, slug=plan.space, actor=actor)
    name = flatten_to(f"{plan.tool.label}: {plan.name}", NAME_MAX)
    key, secret = create_key(team=team, data=KeyIn(name=name, scope="write"), actor=actor)
    connection = Connection(
        tool=plan.tool.name,
        repository=str(plan.place.repository),
        name=plan.name,
        space=plan.space,
        url=plan.place.url,
        key_id=key.pk,
        key_file=str(plan.key_file),
        files=[change.kept() for change in plan.changes if not change.is_none],
    )
    try:
        write_private(plan.key_file, f"{secret}\n".encode())
        write_connection(plan.place.file, connection)
        for change in plan.changes:
            if not change.is_none:
                write_change(change)
    except (UnusableFile, OSError):
        # First, because the rest may fail for the same reason.
        revoke_key(key=key, actor=actor)
        if plan.place.file.is_file():
            undo_connection(plan.tool, plan.place.repository, actor=actor)
        elif plan.key_file.is_file():
            forget(plan.place.file)
        raise
    return key, space


def undo_connection(tool: Tool, repository: Path, *, actor: str) -> dict[str, Outcome]:
    """Restore the tool's files, delete the connection and revoke its key. Return what became of each file.

    Files that another repository's connection uses stay, and that connection restores them in the end.

    Raises:
        NotFound: the repository is not connected.
    """
    root = find_root(repository)
    file = connection_file(tool.name, root)
    connection = read_connection(file)
    if connection is None:
        raise NotFound(f"{root} is not connected to {tool.label}.")
    shared = _hand_over(connection, others_of(tool.name, file))
    outcomes = {
        kept["path"]: undo_file(kept, root) for kept in connection["files"] if kept["path"] not in shared
    }
    key = ApiKey.objects.filter(pk=connection["key_id"]).first()
    if key is not None:
        revoke_key(key=key, actor=actor)
    forget(file)
    return outcomes


def _hand_over(connection: Connection, others: Sequence[Path]) -> set[str]:
    """Give files outside the repository to another connection, and return their paths."""
    folder = connection["repository"]
    outside = [kept for kept in connection["files"] if not Path(kept["path"]).is_relative_to(folder)]
    heir = read_connection(others[0]) if others and outside else None
    if heir is None:
        return set()
    heir["files"] = [*heir["files"], *outside]
    write_connection(others[0], heir)
    return {kept["path"] for kept in outside}
