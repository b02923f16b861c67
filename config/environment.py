"""Makes `.venv` ready for a make target: `python config/environment.py base|dev|bench|browser`.

Uses only the standard library and imports none of our modules, because it runs before anything is installed.
Each group of packages is stamped with the hash of its lock file, so the next call returns at once.
"""

import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
VENV = BASE_DIR / ".venv"
PYTHON = VENV / "bin" / "python"
# Present while packages are being installed: an interrupted pip leaves packages that only look complete.
UNFINISHED = VENV / ".unfinished"
GROUPS = ("base", "dev", "bench")
# Plotly's bundle with only the chart kinds of the pages: 1.2 MB instead of 4.9. It is on npm, not on PyPI.
CHARTS = BASE_DIR / "config" / "requirements" / "charts.json"
CHARTS_BUNDLE = VENV / "share" / "plotly" / "plotly.min.js"
NPM_SECONDS = 60
# The bundled embedding model. Its package has no wheels for some Pythons. Only its data is used, so the wheel
# for one Python and platform is installed on all.
MODEL = BASE_DIR / "config" / "requirements" / "model.txt"
MODEL_FOLDER = VENV / "share" / "wordllama"
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
        # This interpreter may be in the `.venv` to be replaced.
        outside = getattr(sys, "_base_executable", "") or sys.executable
        _must([outside, "-m", "venv", VENV])
    lock = _lock_file(group)
    print(f"Installing the packages in {lock.relative_to(BASE_DIR)}. This happens once.", file=sys.stderr)
    UNFINISHED.touch()
    _must([*_installer(), "--require-hashes", "-r", lock])
    for other in GROUPS:
        if other != group and not _agree(lock, _lock_file(other)):
            _stamp(other).unlink(missing_ok=True)
    shutil.rmtree(MODEL_FOLDER, ignore_errors=True)
    has_uv = shutil.which("uv") is not None
    platform = "--python-platform=x86_64-manylinux_2_17" if has_uv else "--platform=manylinux2014_x86_64"
    wheel = ["--only-binary=:all:", "--python-version=3.13", platform, "--no-deps"]
    _must([*_installer(), *wheel, "--require-hashes", "--target", MODEL_FOLDER, "-r", MODEL])
    _install_charts()
    _stamp(group).write_text(_fingerprint(group))
    UNFINISHED.unlink()


def _install_charts() -> None:
    """Install Plotly's basic bundle. Without npm, the pages use the full one of the plotly package."""
    wanted = json.loads(CHARTS.read_text())
    package = _npm_package(f"{wanted['name']}@{wanted['version']}") if shutil.which("npm") else None
    if package is None:
        print("npm is not available, so charts use the full Plotly. They look the same.", file=sys.stderr)
        CHARTS_BUNDLE.unlink(missing_ok=True)
        return
    CHARTS_BUNDLE.parent.mkdir(parents=True, exist_ok=True)
    CHARTS_BUNDLE.write_bytes(_unpack_charts(package, wanted["integrity"]))


def _unpack_charts(package: bytes, integrity: str) -> bytes:
    """Return the bundle in the archive, whose hash must be `integrity` in npm's form."""
    if f"sha512-{base64.b64encode(hashlib.sha512(package).digest()).decode()}" != integrity:
        sys.exit(f"Failed: npm's package is not the one that {CHARTS.name} names.")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        bundle = archive.extractfile("package/plotly-basic.min.js")
        assert bundle is not None
        return bundle.read()


def _npm_package(name: str) -> bytes | None:
    """Return the archive of an npm package, or None if npm cannot get it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", name, "--fetch-retries=0", "--silent", "--pack-destination", folder]
        with contextlib.suppress(subprocess.TimeoutExpired):
            _run(command, quiet=True, seconds=NPM_SECONDS)
        found = list(Path(folder).glob("*.tgz"))
        return found[0].read_bytes() if found else None


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
    return _run(
        [PYTHON, "-c", "import sys, pip; sys.exit(not (3, 12) <= sys.version_info < (3, 15))"], quiet=True
    )


def _installer() -> list[str | Path]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", PYTHON]
    return [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]


def _lock_file(group: str) -> Path:
    return BASE_DIR / "config" / "requirements" / f"{group}.txt"


def _stamp(group: str) -> Path:
    return VENV / f".{group}"


def _fingerprint(group: str) -> str:
    pins = (_lock_file(group), MODEL, CHARTS)
    return hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()


def _agree(one: Path, other: Path) -> bool:
    """Tell whether two lock files name the same version of every package that both have."""
    ours, theirs = _versions(one), _versions(other)
    return all(theirs.get(name, version) == version for name, version in ours.items())


def _versions(lock: Path) -> dict[str, str]:
    pins = (line.split()[0] for line in lock.read_text().splitlines() if "==" in line and line[0].isalnum())
    return {name: version for name, _, version in (pin.partition("==") for pin in pins)}


def _must(command: Sequence[str | Path]) -> None:
    if not _run(command):
        sys.exit(f"Failed: {' '.join(map(str, command))}")


def _run(command: Sequence[str | Path], *, quiet: bool = False, seconds: float | None = None) -> bool:
    sink = subprocess.DEVNULL if quiet else None
    try:
        ended = subprocess.run(command, stdout=sink, stderr=sink, check=False, timeout=seconds)  # noqa: S603
        return ended.returncode == 0
    except OSError:
        return False


@contextlib.contextmanager
def _only_installer() -> Iterator[None]:
    """Hold the installer's lock. If two terminals set up at once, the second waits and finds it done."""
    path = BASE_DIR / "var" / "locks" / "environment.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.argv[1:] not in [[group] for group in (*GROUPS, "browser")]:
        sys.exit(f"usage: python config/environment.py {'|'.join((*GROUPS, 'browser'))}")
    # Under umask 000, others could change the packages that every command runs.
    os.umask(os.umask(0o077) | 0o002)
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.exit(f"{error.filename or BASE_DIR}: {error.strerror}")
