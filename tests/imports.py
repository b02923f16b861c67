"""Runs imports as a shell does."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command


def run_import(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    """Import with `--json` and return the single object on standard output."""
    exit_code = 0
    try:
        call_command("import_records", *[str(argument) for argument in arguments], "--json")
    except SystemExit as stop:
        exit_code = int(str(stop.code))
    assert exit_code == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    answer: dict[str, Any] = json.loads(lines[0])
    assert list(answer) == ["read", "created", "updated", "unchanged", "rejected", "left_out"]
    counts = answer["created"] + answer["updated"] + answer["unchanged"] + len(answer["rejected"])
    assert answer["read"] == counts
    return answer


def write_jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def rejections(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(item["line"], item["field"]) for item in answer["rejected"]]
