"""Standard input or output that is closed or full is named in one line, with exit code 2."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from contextopt.people.models import ApiKey
from contextopt.spaces.models import Space
from tests.commands import Run, manage
from tests.gitrepos import make_git


@pytest.mark.parametrize(
    "arguments",
    [
        ["import_records", "new", "-"],
        ["filter_phase", "planning", "-"],
        ["retry_delta", "-"],
        ["complete_task", "-"],
        ["assemble", "support", "--queries", "-"],
        ["import_questions", "support", "-"],
        ["mcp"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_closed_input_is_named(
    default_space: Space, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    # This is how Python sees `<&-`.
    monkeypatch.setattr(sys, "stdin", None)
    assert run(*arguments) == (2, "", "standard input is closed")
    assert Space.objects.count() == 1


def test_nobody_can_be_asked_on_a_closed_input(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = make_git(tmp_path / "shop")
    monkeypatch.setattr(sys, "stdin", None)
    code, out, err = run("connect", "claude", "--repository", repository)
    assert (code, out) == (2, "")
    assert err.endswith("--yes: is required when the command cannot ask (no terminal)")


def test_a_closed_output_is_named_before_anything_is_done(
    db: None, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"title": "A"}\n')
    monkeypatch.setattr(sys, "stdout", None)
    assert run("import_records", "new", path) == (2, "", "standard output is closed")
    assert not Space.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_full_disk_is_named_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = manage("import_records", "shell", "-", stdin=b'{"title": "A"}\n', stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"CommandError: writing failed: No space left on device\n"


@pytest.mark.django_db(transaction=True)
def test_a_key_that_cannot_be_shown_is_not_kept() -> None:
    with Path("/dev/full").open("wb") as full:
        assert manage("create_api_key", "ci", stdout=full).returncode == 2
    assert not ApiKey.objects.exists()
