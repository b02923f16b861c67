"""Files by their real paths: found once, then read and written without following another link.

A repository may come from a stranger, and with it links that lead to the person's own files.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from contextopt_connect.errors import LeadsOut, UnusableFile

# O_PATH needs no permission to list a folder. Not every system has it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
# Opening a pipe without O_NONBLOCK would wait for a writer.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def own_folder(named: str | None, name: str) -> Path:
    """Return a folder of the person's configuration: the one that they named, else this one in their home.

    A link in its place is followed only if they named it.
    """
    return Path(named).resolve() if named else Path.home().resolve() / name


def find_real(folder: Path, name: str, content: str) -> Path:
    """Return where a file of a folder really is. `content` is for the error: what would be written there.

    Raises:
        LeadsOut: it is outside the folder, or in git's own folder.
    """
    path = folder / name
    real = Path(os.path.realpath(path))
    if real.is_relative_to(folder) and ".git" not in real.relative_to(folder).parts:
        return real
    raise LeadsOut(
        f"{path} leads through a link to {real}. Files are written only in {folder}, and not in its .git, so "
        f"nothing was changed. This would have been written:\n{content.rstrip()}"
    )


@contextlib.contextmanager
def open_folder(folder: Path, *, is_created: bool = False) -> Iterator[int]:
    """Open a folder by its real path, step by step: a link that was put there since is an error."""
    at = os.open(folder.anchor, FOLDER)
    try:
        for name in folder.parts[1:]:
            inner = _open_inner(name, at, is_created=is_created)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _open_inner(name: str, at: int, *, is_created: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not is_created:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=at)
    return os.open(name, FOLDER, dir_fd=at)


def read_whole(path: Path) -> bytes | None:
    """Return a file's bytes, or None if there is none.

    Raises:
        UnusableFile: it cannot be read, or a link is on its path.
    """
    try:
        with os.fdopen(_open_file(path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableFile(f"{path} cannot be read: {error.strerror}.") from error


def _open_file(path: Path) -> int:
    with open_folder(path.parent) as at:
        handle = os.open(path.name, READ, dir_fd=at)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is a folder, pipe or device")


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file in one step, and create its folder. The mode stays unless one is given.

    Raises:
        UnusableFile: it cannot be written, or a link is on its path.
    """
    draft = f".{path.name}.{secrets.token_hex(4)}"
    try:
        with open_folder(path.parent, is_created=True) as at:
            if mode is None:
                mode = _mode_of(path.name, at)
            try:
                with os.fdopen(os.open(draft, CREATE, 0o600, dir_fd=at), "wb") as file:
                    file.write(content)
                    os.fchmod(file.fileno(), mode)
                os.replace(draft, path.name, src_dir_fd=at, dst_dir_fd=at)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=at)
                raise
    except OSError as error:
        raise UnusableFile(f"{path} cannot be written: {error.strerror}.") from error


def read_mode(path: Path) -> int | None:
    """Return a file's permissions, None if there is none."""
    with contextlib.suppress(FileNotFoundError), open_folder(path.parent) as at:
        return stat.S_IMODE(os.stat(path.name, dir_fd=at, follow_symlinks=False).st_mode)
    return None


def _mode_of(name: str, at: int) -> int:
    """Return the mode of a file, or that of a new one."""
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        if stat.S_ISREG(found):
            return found & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def remove_file(path: Path) -> None:
    with open_folder(path.parent) as at:
        os.unlink(path.name, dir_fd=at)


def remove_empty(folder: Path) -> None:
    """Remove a folder unless something is in it, or a link has taken its place."""
    with contextlib.suppress(OSError), open_folder(folder.parent) as at:
        os.rmdir(folder.name, dir_fd=at)
