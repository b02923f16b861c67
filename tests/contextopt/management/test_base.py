"""Arguments that no command can use are refused before it runs."""

import io
import os
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.management.commands import create_api_key
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Record
from tests.factories import make_space

pytestmark = pytest.mark.django_db
# A Latin-1 å, as a shell hands it on.
NOT_UTF8 = os.fsdecode(b"\xe5")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["task_status", NOT_UTF8], "TASK"),
        (["evaluate", NOT_UTF8], "SPACE"),
        (["evaluate", "demo", "--team", NOT_UTF8], "--team"),
        (["verify_savings", "--space", NOT_UTF8], "--space"),
        (["index_repo", NOT_UTF8], "REPO"),
        (["relevant_files", "shop", "--task", "x", "--seed", "a.py", "--seed", NOT_UTF8], "--seed"),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_by_name(arguments: list[str], named: str) -> None:
    with pytest.raises(CommandError, match=f"{named}: contains bytes that are not UTF-8") as refused:
        call_command(*arguments)
    assert refused.value.returncode == 2


def test_a_file_may_have_such_a_name(tmp_path: Path) -> None:
    path = tmp_path / f"{NOT_UTF8}.jsonl"
    path.write_text('{"title": "Queue stuck"}')
    call_command("import_records", "demo", str(path))
    assert Record.objects.count() == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_notes_are_not_coloured_as_errors() -> None:
    Team.objects.ensure_default()
    terminal = Terminal()
    command = create_api_key.Command(stderr=terminal, force_color=True)  # type: ignore[arg-type]
    call_command(command, "laptop", "--json")
    call_command(command, "laptop")
    assert terminal.getvalue().startswith("A key named 'laptop'")
    assert "\x1b" not in terminal.getvalue()
    assert command.stderr.style_func("x") != "x"


@pytest.mark.parametrize("command", ["import_records", "import_markdown", "import_git"])
def test_a_name_that_is_too_long_is_refused(command: str) -> None:
    with pytest.raises(CommandError, match=r"File name too long|does not exist|is not a folder") as refused:
        call_command(command, "demo", "x" * 5_000)
    assert (refused.value.returncode, len(str(refused.value)) < 200) == (2, True)


@pytest.mark.parametrize(
    "arguments", [["import_questions", "demo"], ["retry_delta"], ["filter_phase", "planning"]]
)
def test_a_folder_in_place_of_a_file_is_refused(arguments: list[str], tmp_path: Path) -> None:
    make_space(Team.objects.ensure_default(), "demo")
    with pytest.raises(CommandError, match=r"is a folder$") as refused:
        call_command(*arguments, str(tmp_path))
    assert refused.value.returncode == 2


@pytest.mark.parametrize(("spaces", "end"), [(10, "s09"), (12, "s09 and 2 more")])
def test_names_that_are_left_out_are_counted(spaces: int, end: str) -> None:
    team = Team.objects.ensure_default()
    for number in range(spaces):
        make_space(team, f"s{number:02}")
    with pytest.raises(CommandError, match=f"there are: s00, s01, .*, {end}$"):
        call_command("assemble", "nosuch")


def test_repositories_that_are_left_out_are_counted() -> None:
    team = Team.objects.ensure_default()
    Repository.objects.bulk_create(Repository(team=team, name=f"r{number:02}") for number in range(12))
    with pytest.raises(CommandError, match=r"indexed are r00, r01, .* and 2 more$"):
        call_command("relevant_files", "nosuch", "--task", "x")
