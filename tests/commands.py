"""Runs commands as a shell does. The conftest files of commands import the fixtures."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

type Run = Callable[..., tuple[int, str, str]]
type Write = Callable[[object], Path]


@pytest.fixture
def run(db: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; return its exit code, standard output and standard error."""

    def run_command(command: str | BaseCommand, *arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code, complaint = 0, ""
        try:
            call_command(command, *[str(argument) for argument in arguments])
        except CommandError as error:
            code, complaint = error.returncode, str(error)
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err + complaint

    return run_command


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a document, or a text as it is, and return its path."""

    def write_file(value: object) -> Path:
        path = tmp_path / "input.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write_file


def shell_environment(**changes: str) -> dict[str, str]:
    """Return an environment in which commands use the test database."""
    known = connection.settings_dict
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    url = " ".join(f"{name}={known[key]}" for key, name in names.items() if known[key])
    return {**os.environ, "DATABASE_URL": url, **changes}


def manage(
    *arguments: str, stdin: bytes = b"", stdout: IO[bytes] | int = subprocess.PIPE, **changes: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a shell does."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=shell_environment(**changes),
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
