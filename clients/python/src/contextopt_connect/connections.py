"""Connects a repository's coding agent, and undoes it."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired, TypedDict

from contextopt_connect.codingagents import Place, Tool
from contextopt_connect.errors import AlreadyConnected, UnusableCall, UnusableFile
from contextopt_connect.hook import git
from contextopt_connect.product import TIMEOUT_SECONDS
from contextopt_connect.realfiles import find_real, own_folder, write_whole
from contextopt_connect.sessions import FOLDER as SESSIONS
from contextopt_connect.toolfiles import Change, KeptFile, Outcome, undo_file, write_change

# In the person's configuration. Hooks run the copies in PROGRAM, which need this package no longer.
FOLDER = "contextopt/connections"
PROGRAM = "contextopt/contextopt_connect"
COPIED = ("__init__.py", "hook.py", "product.py", "sessions.py", "taskends.py", "bridge.py")
TIMEOUT_MIN, TIMEOUT_MAX = 0.5, 30.0
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


class Connection(TypedDict):
    """A connection as it is stored. `name` is the repository's, `files` is what undoing needs, and a hook
    waits `timeout_seconds` for the server.

    A connection of a tool to the gateway is the person's and not a repository's, so `name` and `repository`
    are empty.
    """

    tool: str
    repository: str
    name: str
    space: str
    url: str
    key_id: int
    key_file: str
    timeout_seconds: NotRequired[float]
    files: list[KeptFile]


def config_folder() -> Path:
    """Return the folder of the person's configuration."""
    return own_folder(os.environ.get("XDG_CONFIG_HOME"), ".config")


def connections_folder() -> Path:
    """Raises: LeadsOut."""
    return find_real(config_folder(), FOLDER, "the connections, and their keys")


def connection_file(tool: str, repository: Path) -> Path:
    """Raises: LeadsOut."""
    digest = hashlib.sha256(str(repository).encode()).hexdigest()[:8]
    name = f"{FOLDER}/{tool}-{plain_name(repository.name)}-{digest}.json"
    return find_real(config_folder(), name, "the connection, and its key")


def gateway_file(tool: str) -> Path:
    """Return the file of a tool's connection to the gateway. Raises: LeadsOut."""
    return find_real(config_folder(), f"{FOLDER}/gateway-{tool}.json", "the connection, and its key")


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


def read_connection(file: Path) -> Connection:
    found: Connection = json.loads(file.read_bytes())
    return found


def read_secret(file: Path) -> str:
    """Return a connection's key, or nothing if its file is gone."""
    try:
        return key_file(file).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def list_files() -> Sequence[Path]:
    """Return the files of all connections. Raises: LeadsOut."""
    return sorted(connections_folder().glob("*.json"))


def others_of(tool: str, file: Path) -> Sequence[Path]:
    """Return the files of the tool's other connections."""
    return sorted(each for each in file.parent.glob(f"{tool}-*.json") if each != file)


def copy_program(folder: Path) -> None:
    """Copy what hooks run, because the environment of this package may be gone tomorrow."""
    for name in COPIED:
        write_whole(folder / name, Path(__file__).with_name(name).read_bytes())


def forget(file: Path) -> None:
    """Delete a connection and its key. After the last one, also delete what the hooks ran and remembered."""
    key_file(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    if not file.parent.is_dir() or any(file.parent.iterdir()):
        return
    program, sessions = file.parent.parent / Path(PROGRAM).name, file.parent.parent / SESSIONS
    for left in (*(program / name for name in COPIED), *sessions.glob("*.json")):
        left.unlink(missing_ok=True)
    for folder in (file.parent, program, sessions, file.parent.parent):
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

    def in_space(self, space: str) -> "Plan":
        return replace(self, space=space)


def find_root(folder: Path) -> Path:
    """Return the top of the folder's git repository, or the folder itself if it is not in one.

    Raises:
        UnusableCall: it is not a folder, or git's settings place its files in another folder.
    """
    if not folder.is_dir():
        raise UnusableCall("--repository", f"{folder} is not a folder on this machine")
    here = folder.resolve()
    is_bare = _git_line(here, "--is-bare-repository")
    if is_bare is None:
        return here
    top = Path(_git_line(here, "--absolute-git-dir" if is_bare == "true" else "--show-toplevel") or here)
    if not _is_top_of(top, here):
        problem = (
            f"git's settings in {here} (core.worktree, or a .git file) lead out of it, to {top}. The entries "
            f"would have been written there, so nothing was changed. If you mean that folder, name it."
        )
        raise UnusableCall("--repository", problem)
    return top


def _is_top_of(top: Path, here: Path) -> bool:
    """Return whether both folders are in one repository, and not only because a setting says so."""
    inside = _git_line(here, "--absolute-git-dir")
    if inside == str(top):
        # It has no working tree.
        return here.is_relative_to(top) or top.is_relative_to(here)
    return inside == _git_line(top, "--absolute-git-dir")


def _git_line(folder: Path, question: str) -> str | None:
    """Return git's answer about a folder, None if it has none."""
    answer = git(str(folder), "-c", "safe.directory=*", "rev-parse", question)
    return os.fsdecode(answer.removesuffix(b"\n")) if answer else None


def check_timeout(seconds: float) -> float:
    """Return how long a hook waits. Raises: UnusableCall: nobody would wait so long for a prompt."""
    if not TIMEOUT_MIN <= seconds <= TIMEOUT_MAX:
        raise UnusableCall("--timeout", f"must be from {TIMEOUT_MIN:g} to {TIMEOUT_MAX:g} seconds")
    return seconds


def plan_connection(
    *, tool: Tool, repository: Path, url: str, space: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Plan:
    """Plan a connection without changing anything.

    Raises:
        UnusableCall: hooks cannot wait for so long.
        AlreadyConnected: the repository is connected already.
        UnusableFile: a file of the tool cannot be changed.
    """
    root = find_root(repository)
    program = find_real(config_folder(), PROGRAM, "the files that hooks run")
    file, seconds = connection_file(tool.name, root), check_timeout(timeout_seconds)
    place = Place(root, url.rstrip("/"), file, program, seconds)
    if place.file.exists():
        message = f"{root} is already connected to {tool.label}. Run the command with --undo first."
        raise AlreadyConnected(message)
    return Plan(tool, place, root.name, space or plain_name(root.name), tuple(tool.plan(place)))


def write_plan(plan: Plan, *, key_id: int, secret: str) -> None:
    """Write the key, the connection and the tool's files. If one cannot be written, all are put back.

    Raises:
        UnusableFile: a file cannot be written.
        OSError: the disk is full, for example.
    """
    connection = Connection(
        tool=plan.tool.name,
        repository=str(plan.place.repository),
        name=plan.name,
        space=plan.space,
        url=plan.place.url,
        key_id=key_id,
        key_file=str(plan.key_file),
        timeout_seconds=plan.place.timeout_seconds,
        files=[change.kept() for change in plan.changes if not change.is_none],
    )
    write_all(plan.place.file, connection, secret, plan.changes, plan.place.program)


def write_all(
    file: Path, connection: Connection, secret: str, changes: Sequence[Change], program: Path | None = None
) -> None:
    """Write a connection with its key and the tool's files. If one cannot be written, all are put back.

    Raises:
        UnusableFile, OSError: see `write_plan`.
    """
    try:
        write_private(key_file(file), f"{secret}\n".encode())
        if program is not None:
            copy_program(program)
        write_connection(file, connection)
        for change in changes:
            if not change.is_none:
                write_change(change)
    except (UnusableFile, OSError):
        if file.is_file():
            _take_back(file, connection)
        elif key_file(file).is_file():
            forget(file)
        raise


@dataclass(frozen=True, slots=True)
class Undone:
    """A connection that was undone: what became of each file, and its key, which is still valid."""

    outcomes: dict[str, Outcome]
    url: str
    key_id: int
    secret: str


def undo(file: Path) -> Undone:
    """Restore the tool's files, and delete the connection. The caller revokes its key.

    Files that another repository's connection uses stay, and that connection restores them in the end.
    """
    connection = read_connection(file)
    shared = _hand_over(connection, others_of(connection["tool"], file)) if connection["repository"] else ()
    undone = _take_back(file, connection, shared)
    _leave_to_others(
        [kept for kept in connection["files"] if undone.outcomes.get(kept["path"]) == "ours removed"]
    )
    return undone


def _leave_to_others(removed: Sequence[KeptFile]) -> None:
    """Let other connections know that they have a file alone that we created. The last one deletes it."""
    created = {kept["path"]: kept for kept in removed if kept["before"] is None}
    for file in list_files() if created else ():
        other = read_connection(file)
        shared = [kept for kept in other["files"] if kept["path"] in created]
        for kept in shared:
            ours = created[kept["path"]]
            kept["before"], kept["mode"], kept["folders"] = None, ours["mode"], ours["folders"]
        if shared:
            write_connection(file, other)


def _take_back(file: Path, connection: Connection, shared: Collection[str] = ()) -> Undone:
    """Restore a connection's files but for the shared ones, and delete it."""
    root = Path(connection["repository"]) if connection["repository"] else None
    outcomes = {
        kept["path"]: undo_file(kept, root) for kept in connection["files"] if kept["path"] not in shared
    }
    secret = read_secret(file)
    forget(file)
    return Undone(outcomes, connection["url"], connection["key_id"], secret)


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
