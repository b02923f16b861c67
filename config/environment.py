"""Makes `.venv` ready for a make target: `python config/environment.py base|dev|bench|browser`.

Uses only the standard library and imports none of our modules, because it runs before anything is installed.
Each group of packages is stamped with the hash of its lock file, so the next call returns at once.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
VENV = BASE_DIR / ".venv"
PYTHON = VENV / "bin" / "python"
# Present while packages are being installed: an interrupted pip leaves packages that only look complete.
UNFINISHED = VENV / ".unfinished"
GROUPS = ("base", "dev", "bench")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCH = (
    "from playwright.sync_api import sync_playwright as p\n"
    "with p() as run: run.chromium.launch(args=['--no-sandbox']).close()"
)


def main(wanted: str) -> None:
    if wanted == "browser":
        ensure_browser()
        return
    if _is_current(wanted):
        return
    with _only_installer():
        if not _is_current(wanted):
            _install(wanted)


def ensure_browser() -> None:
    """Find a Chromium for the browser tests, else install one."""
    if any(shutil.which(name) for name in BROWSERS) or _run([PYTHON, "-c", LAUNCH], quiet=True):
        return
    print("Chromium or Chrome is not installed. Downloading one for the browser tests.", file=sys.stderr)
    if _run([PYTHON, "-m", "playwright", "install", "chromium"]) and _run([PYTHON, "-c", LAUNCH], quiet=True):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        _run(["apt-get", "update", "-q"])
        if _run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]):
            return
    sys.exit("The browser tests need Chromium or Chrome. Install one (Debian: apt install chromium).")


def _install(group: str) -> None:
    if not _is_usable():
        print(f"Creating {VENV.name} with Python {sys.version.split()[0]}.", file=sys.stderr)
        if VENV.is_symlink():
            VENV.unlink()
        shutil.rmtree(VENV, ignore_errors=True)
        _must([_base_python(), "-m", "venv", VENV])
    lock = _lock_file(group)
    print(f"Installing the packages in {lock.relative_to(BASE_DIR)}. This happens once.", file=sys.stderr)
    UNFINISHED.touch()
    _must([*_installer(), "--require-hashes", "-r", lock])
    for other in GROUPS:
        if other != group and not _agree(lock, _lock_file(other)):
            _stamp(other).unlink(missing_ok=True)
    _stamp(group).write_text(_fingerprint(group))
    UNFINISHED.unlink()


def _is_current(group: str) -> bool:
    """Tell whether the group matches its lock. The other groups contain the base packages too."""
    containing = GROUPS if group == "base" else (group,)
    return _is_usable() and any(
        _stamp(each).exists() and _stamp(each).read_text() == _fingerprint(each) for each in containing
    )


def _is_usable() -> bool:
    """Tell whether `.venv` is complete, was made at this path, and its Python still runs."""
    if UNFINISHED.exists() or not (VENV / "bin" / "pip").exists():
        return False
    shebang = (VENV / "bin" / "pip").read_text().split("\nimport ", 1)[0]
    if f"{VENV}{os.sep}" not in shebang:
        return False
    if Path(sys.prefix) == VENV:
        return True
    return _run([PYTHON, "-c", "import sys, pip; sys.exit(sys.version_info < (3, 12))"], quiet=True)


def _base_python() -> str:
    """Return the interpreter outside of any environment: this one may be in the `.venv` to be replaced."""
    return getattr(sys, "_base_executable", "") or sys.executable


def _installer() -> list[str | Path]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", PYTHON]
    return [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]


def _lock_file(group: str) -> Path:
    return BASE_DIR / "config" / "requirements" / f"{group}.txt"


def _stamp(group: str) -> Path:
    return VENV / f".{group}"


def _fingerprint(group: str) -> str:
    return hashlib.sha256(_lock_file(group).read_bytes()).hexdigest()


def _agree(one: Path, other: Path) -> bool:
    """Tell whether two lock files name the same version of every package that both have."""
    ours, theirs = _versions(one), _versions(other)
    return all(theirs.get(name, version) == version for name, version in ours.items())


def _versions(lock: Path) -> dict[str, str]:
    pins = (line.split()[0] for line in lock.read_text().splitlines() if "==" in line and line[0].isalnum())
    return {name: version for name, _, version in (pin.partition("==") for pin in pins)}


def _must(command: list[str | Path]) -> None:
    if not _run(command):
        sys.exit(f"Failed: {' '.join(map(str, command))}")


def _run(command: list[str | Path], *, quiet: bool = False) -> bool:
    sink = subprocess.DEVNULL if quiet else None
    try:
        return subprocess.run(command, stdout=sink, stderr=sink, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False


@contextlib.contextmanager
def _only_installer() -> Iterator[None]:
    """Hold the installer's lock: of two terminals that set up at once, the second waits and finds it done."""
    path = BASE_DIR / "var" / "locks" / "environment.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.argv[1:] not in [[group] for group in (*GROUPS, "browser")]:
        sys.exit(f"usage: python config/environment.py {'|'.join((*GROUPS, 'browser'))}")
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.exit(f"{error.filename or BASE_DIR}: {error.strerror}")
