"""Runs commands as a shell does. The conftest files of commands import the fixtures."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

type Run = Callable[..., tuple[int, str, str]]


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
def write(tmp_path: Path) -> Callable[[object], Path]:
    """Write a document, or a text as it is, and return its path."""

    def write_file(value: object) -> Path:
        path = tmp_path / "input.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write_file
