"""Makes real git repositories to read from."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from contextopt.spaces.importing import git

IDENTITY = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": "from shop.prices import price_of\n\n\ndef total(cart):\n"
    '    """Add up the prices of a cart."""\n    return sum(price_of(item) for item in cart)\n',
    "shop/prices.py": "from shop.currency import convert\n\n\ndef price_of(item):\n"
    "    return convert(item)\n",
    "shop/currency.py": "def convert(amount):\n    return round(amount, 2)\n",
    "shop/mail.py": "def send_receipt(address):\n    return f'sent to {address}'\n",
    "README.md": "# Shop\n\nSells things.\n",
}


def run_git(repository: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *IDENTITY, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**git.git_environment(), **environment},
    )
    return done.stdout.strip()


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def commit_files(
    repository: Path,
    message: str,
    files: Mapping[str, str | bytes],
    *,
    removed: tuple[str, ...] = (),
    date: str = "2026-03-01T10:00:00Z",
) -> str:
    """Commit files; return the commit."""
    write_files(repository, files)
    for name in removed:
        (repository / name).unlink()
    run_git(repository, "add", "-A")
    dates = {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
    run_git(repository, "commit", "--allow-empty", "-m", message, **dates)
    return run_git(repository, "rev-parse", "HEAD")


def make_git(folder: Path, files: Mapping[str, str | bytes] = SHOP) -> Path:
    """Make a repository with one commit."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    commit_files(folder, "Begin", files)
    return folder
