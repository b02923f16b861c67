"""The connections of this account: one file each, and beside it the key, which only the account may read."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from contextopt.connections.realfiles import find_real, own_folder, write_whole
from contextopt.connections.toolfiles import KeptFile

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
