"""`simulate_placement`: the cost of a conversation under each placement."""

import gzip
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from contextopt.assemblies.placement.rehearsal import QuestionIn, Rehearsal, SimulationIn, simulate
from contextopt.engine.evidence import Evidence
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.people.models import AuditEvent, Team
from contextopt.spaces.models import Space
from tests.contextopt.api.conftest import make_caller

pytestmark = pytest.mark.django_db
NOTES = "The queue was stuck because a worker held an old lock; it was released by hand after an hour. "


DIALOGUE = json.dumps(
    [
        {
            "sample_id": "calls",
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [{"speaker": "Ada", "dia_id": "D1:1", "text": "Grace called."}],
            },
            "qa": [{"question": "Who called?", "category": 1, "evidence": ["D1:1"]}],
        }
    ]
)


def conversation() -> dict[str, Any]:
    records = [
        {
            "title": f"Incident {number}",
            "date": f"2026-03-{number + 1:02}T09:00:00Z",
            "notes": f"Incident {number}. {NOTES * 6}",
            "source": "log",
            "external_id": str(number),
        }
        for number in range(25)
    ]
    turns = [{"query": f"What released incident {number}?", "expected": [str(number)]} for number in range(6)]
    return {"records": records, "turns": turns}


def run(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    call_command("simulate_placement", str(path), "--json", *options)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_placement_is_played_at_each_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(conversation()))
    lines = run(path, capsys, "--context-tokens", "1000")
    assert [(line["placement"], line["read"], line["write"]) for line in lines] == [
        (placement, read, write)
        for read, write in ((0.1, 1.25), (0.5, 1.0))
        for placement in ("system", "tail", "append", "auto")
    ]
    assert set(lines[0]) == {"placement", "read", "write", "cost", "hit_rate", "recall"}
    by_name = {line["placement"]: line for line in lines[:4]}
    assert by_name["append"]["hit_rate"] > by_name["tail"]["hit_rate"] > by_name["system"]["hit_rate"]
    assert by_name["auto"]["cost"] < by_name["system"]["cost"]
    assert by_name["auto"]["recall"] >= by_name["system"]["recall"] > 0
    assert not Space.objects.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_while_it_runs_nobody_sees_its_space(team: Team) -> None:
    seen: list[int] = []
    with psycopg.connect(**connection.get_connection_params()) as other:

        def look(space: Space) -> None:
            assert Space.objects.filter(pk=space.pk).exists()
            seen.extend(other.execute("SELECT count(*) FROM contextopt_space").fetchone())

        [outcome, *_] = simulate(
            team=team, scripts=[SimulationIn.model_validate(conversation()).to_script()], context_tokens=500,
            turns=6, model="", actor="test", prepare=look,
        )  # fmt: skip
    assert outcome.placement == "system"
    assert seen == [0]
    assert not Space.objects.exists()


def test_it_says_how_far_it_is(team: Team) -> None:
    said: list[str] = []
    list(
        simulate(
            team=team, scripts=[SimulationIn.model_validate(conversation()).to_script()], context_tokens=500,
            turns=3, model="gpt-4o", actor="test", prepare=bool, on_progress=said.append,
        )
    )  # fmt: skip
    assert said[0] == "loading conversation 1 of 1"
    assert said[1:4] == [
        "conversation 1 of 2, placement system",
        "conversation 2 of 2, placement system",
        "conversation 1 of 2, placement tail",
    ]


def test_a_model_without_known_prices_is_refused(team: Team, tmp_path: Path) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(conversation()))
    with pytest.raises(CommandError, match="--model: the prices of 'nonsense' are not known; enter them"):
        call_command("simulate_placement", str(path), "--model", "nonsense")
    refused = make_caller(team).post("/placement-simulations", {**conversation(), "model": "nonsense"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "model")


def test_the_api_gives_the_same(team: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(conversation()))
    lines = run(path, capsys, "--context-tokens", "1000", "--turns", "6")
    body = {**conversation(), "context_tokens": 1000}
    answer = make_caller(team).post("/placement-simulations", body)
    assert (answer.status_code, answer.json()["outcomes"]) == (200, lines)
    assert not Space.objects.exists()
    refused = make_caller(team).post("/placement-simulations", {**body, "context_tokens": 0})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "context_tokens")


@pytest.mark.parametrize("expected", ["25", "", "log:1"])
def test_an_expected_record_that_is_missing(team: Team, tmp_path: Path, expected: str) -> None:
    body = conversation()
    body["turns"][3]["expected"] = ["1", expected]
    refused = make_caller(team).post("/placement-simulations", body)
    problem = f"no record has the external ID {expected!r}, which a turn expects"
    assert (refused.status_code, refused.json()["detail"]) == (422, f"turns: {problem}")
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(body))
    with pytest.raises(CommandError, match=problem):
        call_command("simulate_placement", str(path))


@pytest.mark.parametrize("name", ["two\nlines", "long" * 50, " "])
def test_a_name_that_no_space_can_have(
    team: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    body = {**conversation(), "name": name}
    refused = make_caller(team).post("/placement-simulations", body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "name")
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(body))
    with pytest.raises(CommandError, match=r"^name: "):
        call_command("simulate_placement", str(path))
    # Dialogues are not made for us.
    path.write_text(DIALOGUE.replace('"calls"', json.dumps(name)))
    assert run(path, capsys)


def test_a_record_cut_before_its_answer_is_not_in_sight() -> None:
    evidence = {"a": Evidence("The key lay beneath the zinc bucket.", "- Ann: ")}
    rehearsal = Rehearsal("talk", (), (), {}, evidence, get_tokenizer("cl100k_base"))
    whole, cut = {"a": "- Ann: The key lay beneath the zinc bucket.\n"}, {"a": "- Ann: The key lay…\n"}
    asked = QuestionIn(query="Where was the key?", answer="Beneath the zinc bucket", expected=["a", "b"])
    assert [rehearsal.recall(asked, lines) for lines in (whole, cut, {})] == [0.5, 0.0, 0.0]
    assert rehearsal.recall(QuestionIn(query="Where?", expected=["a"]), cut) == 1.0


def test_dialogues_ask_their_questions_as_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"dia_id": f"D1:{n}", "speaker": "Ann", "text": f"Day {n}: {NOTES}"} for n in range(1, 9)]
    asked = [
        {"question": f"What happened on day {n}?", "category": 4, "evidence": [f"D1:{n}"]} for n in (1, 2, 3)
    ]
    dialogue = {
        "sample_id": "d-1",
        "conversation": {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"},
        "qa": asked,
    }
    path = tmp_path / "dialogue.json"
    path.write_text(json.dumps([dialogue]))
    lines = run(path, capsys, "--model", "gpt-4o")
    assert [line["placement"] for line in lines] == ["system", "tail", "append", "auto"]
    assert {(line["read"], line["write"], line["recall"]) for line in lines} == {(0.5, 1.0, 1.0)}


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("{}", "records"),
        ("[]", "FILE"),
        ("no JSON", "FILE: is not JSON: expected"),
        ("null", "FILE: must be an object"),
        ("[no JSON", "FILE: is not JSON: expected"),
        ('[{"sample_id": 1}]', "sample_id"),
        (DIALOGUE.replace("Ada", " "), "title: must not be blank"),
        (DIALOGUE.replace("Who called?", ""), "query: must have at least 1 character"),
    ],
)
def test_a_file_without_a_conversation_is_refused(tmp_path: Path, content: str, field: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(CommandError, match=field):
        call_command("simulate_placement", str(path))


def test_a_fault_in_the_file_is_not_called_an_option(tmp_path: Path) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps({**conversation(), "turns": [{"query": 5}]}))
    with pytest.raises(CommandError, match=r"^turns\.0\.query: "):
        call_command("simulate_placement", str(path))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(CommandError, match=r"'/nowhere.json' does not exist"):
        call_command("simulate_placement", "/nowhere.json")


def test_a_file_may_be_gzipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dialogue.json.gz"
    path.write_bytes(gzip.compress(DIALOGUE.encode()))
    assert run(path, capsys)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dialogue.json"
    path.write_text(DIALOGUE, encoding="utf-8-sig")
    assert run(path, capsys)


@pytest.mark.parametrize("tokens", ["-1", "0", "200001"])
def test_a_budget_outside_its_range_is_refused(tmp_path: Path, tokens: str) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(conversation()))
    with pytest.raises(CommandError, match="--context-tokens: must be from 1 to 200,000"):
        call_command("simulate_placement", str(path), "--context-tokens", tokens)
    assert not Space.objects.exists()
