import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scratch home, so that nobody's own settings are read or written."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def repository(tmp_path: Path, home: Path) -> Path:
    return make_repository(tmp_path / "My Shop")


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number, subject in enumerate(("Free the queue's lock before a deploy", "Round prices at the end"), 1):
        (folder / "prices.py").write_text(f"total = {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", subject)
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)
