import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from contextopt.people.models import Team


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


@pytest.fixture
def team(db: None) -> Team:
    return Team.objects.ensure_default()


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


def connect(tool: str, repository: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    try:
        call_command("connect", tool, "--repository", str(repository), "--json", *options)
    except SystemExit as ended:
        assert ended.code == 1  # noqa: PT017  (a command's own exit code)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def snapshot(*folders: Path) -> dict[str, bytes]:
    """Return every file below the folders with its bytes, git's own left out."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in f"{path}/"
    }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
