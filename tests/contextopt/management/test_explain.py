"""`manage.py explain`: one record of one context, by id or SOURCE:EXTERNAL_ID."""

import json

import pytest

from contextopt.spaces.models import Record, Space
from tests.commands import Run
from tests.factories import NOW, make_assembly, make_record


@pytest.fixture
def assembly_id(default_space: Space) -> int:
    made = make_assembly(default_space, as_of=NOW)
    assert made.id is not None
    return made.id


def test_the_answer_as_json(assembly_id: int, run: Run) -> None:
    code, out, _ = run("explain", assembly_id, "--expect", "wiki:0", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["record"]["external_id"] == "0"
    assert (found["step"], found["rank"], found["of"]) == ("over_record_limit", 25, 25)
    assert found["parts"]["frequency"] == 0
    assert found["message"].startswith("Ranked 25 of 25.")


def test_the_answer_in_words(assembly_id: int, run: Run) -> None:
    record = Record.objects.get(external_id="24")
    code, out, _ = run("explain", assembly_id, "--expect", record.pk)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"record {record.pk}: Note 24"
    assert lines[1].startswith("included: Ranked ")
    assert lines[2].startswith("score parts: recency ")


def test_an_ambiguous_name_is_unusable(assembly_id: int, default_space: Space, run: Run) -> None:
    make_record(default_space, source="git", external_id="shop:a")
    make_record(default_space, source="git:shop", external_id="a")
    code, out, err = run("explain", assembly_id, "--expect", "git:shop:a", "--json")
    assert (code, out) == (2, "")
    assert "--expect: names more than one record" in err


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("wiki:99", "There is no record 'wiki:99'"),
        ("note", "--expect: give a record's ID"),
        ("77777", "no record"),
    ],
)
def test_unusable_calls(assembly_id: int, run: Run, expect: str, complaint: str) -> None:
    code, out, err = run("explain", assembly_id, "--expect", expect)
    assert (code, out) == (2, "")
    assert complaint in err


def test_a_missing_assembly(assembly_id: int, run: Run) -> None:
    for missing in (assembly_id + 1, 10**20):
        code, _, err = run("explain", missing, "--expect", "1")
        assert (code, err) == (2, f"There is no assembly {missing}.")
