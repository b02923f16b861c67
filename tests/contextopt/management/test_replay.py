"""`manage.py replay`: one line each, settings by name, exit codes."""

import json
from datetime import timedelta

import pytest

from contextopt.assemblies.models import AssemblyPayload
from contextopt.spaces.models import Record, Space
from tests.commands import Run
from tests.factories import NOW, make_assembly, make_record


@pytest.fixture
def logged(default_space: Space) -> list[int]:
    for number in range(5):
        make_record(default_space, title=f"Old {number}", date=NOW - timedelta(days=20))
    made = [make_assembly(default_space, as_of=NOW, stage=stage).id for stage in (3, 4, 4)]
    return [assembly_id for assembly_id in made if assembly_id is not None]


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_unchanged_assemblies_are_the_same(logged: list[int], run: Run) -> None:
    code, out, _ = run("replay", *logged, "--json")
    found = lines(out)
    assert code == 0
    assert [row["id"] for row in found] == logged
    assert all(row["same"] is True for row in found)
    assert {"id", "same", "sha256", "tokens", "added", "removed"} <= found[0].keys()
    assert "reason" not in found[0]


def test_the_last_ones_newest_first(logged: list[int], run: Run) -> None:
    code, out, _ = run("replay", "--last", 2)
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == [
        f"assembly {one}" for one in reversed(logged[1:])
    ]
    assert ": same, " in out


def test_other_settings(logged: list[int], run: Run) -> None:
    code, out, _ = run("replay", logged[1], "--set", "max_records=3", "--set", "window_days=30", "--json")
    assert code == 0
    assert lines(out)[0]["same"] is False
    assert len(lines(out)[0]["removed"]) == 17  # type: ignore[arg-type]


def test_a_reason_is_no_failure(logged: list[int], run: Run) -> None:
    AssemblyPayload.objects.filter(pk=logged[0]).update(givens=None)
    code, out, _ = run("replay", *logged, "--json")
    assert (code, lines(out)[0]["reason"], lines(out)[1]["same"]) == (0, "logged_before", True)
    code, out, _ = run("replay", logged[0])
    assert out.startswith(f"assembly {logged[0]}: not replayable (logged_before). It was logged before")


def test_a_difference_fails(logged: list[int], run: Run) -> None:
    Record.objects.update(title="Changed behind the product's back")
    code, out, _ = run("replay", *logged)
    assert code == 1
    assert ": differs (sha256" in out


def test_unknown_ones_are_named_and_the_others_replayed(logged: list[int], run: Run) -> None:
    code, out, err = run("replay", logged[0], 999_999, logged[0], logged[1], "--json")
    assert (code, err) == (1, "There is no assembly 999999.\n")
    assert [row["id"] for row in lines(out)] == [logged[0], logged[0], logged[1]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give IDs of assemblies or --last N"),
        (["1", "--last", "1"], "give IDs of assemblies or --last N"),
        (["--last", "0"], "--last: must be from 1 to 100,000"),
        (["--last", "1", "--set", "budget=3"], "--set budget: is not"),
        (["--last", "1", "--set", "budget"], "--set: give NAME=VALUE"),
        (["--last", "1", "--set", "=3"], "--set: give NAME=VALUE"),
        (["--last", "1", "--set", "max_records=0"], "--set max_records: must be at least 1"),
        (["--last", "1", "--config", "0"], "--config: must be at least 1"),
        (
            ["--last", "1", "--set", "max_records=3", "--set", "max_records=4"],
            "--set max_records: is given twice",
        ),
        (["999999"], "There is no assembly 999999."),
        (["999998", "999999"], "There is no assembly 999998.\nThere is no assembly 999999."),
        (["99999999999999999999"], "There is no assembly 99999999999999999999."),
    ],
)
def test_unusable_calls(logged: list[int], run: Run, arguments: list[str], complaint: str) -> None:
    code, out, err = run("replay", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
