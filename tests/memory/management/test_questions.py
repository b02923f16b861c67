"""import_questions, evaluate and import_dialogues as a shell sees them."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from contextopt.assemblies.models import Assembly
from contextopt.engine.values import INSUFFICIENT
from contextopt.spaces.models import Record, Space
from memory.questions.evaluationresults import read_warning
from memory.questions.models import Evaluation, QuestionSet
from tests.commands import Run
from tests.factories import make_key
from tests.memory.questions.conftest import ASKED, SAID_AT, TALK, make_talk

LINES = [
    {"id": name, "query": text, "expected": ids, "answer": answer, "as_of": SAID_AT.isoformat()}
    for name, text, ids, answer in ASKED
]


@pytest.fixture
def spoken(team, settings) -> Space:
    """The default team's space."""
    from contextopt.people.models import Team
    from tests import factories

    found = factories.make_space(Team.objects.ensure_default())
    make_talk(found)
    return found


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_imports_and_evaluates(run: Run, spoken: Space, tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", LINES)
    code, out, _ = run("import_questions", spoken.slug, path, "--json")
    report = json.loads(out)
    assert (code, report) == (
        0, {"read": 4, "created": 4, "updated": 0, "unchanged": 0, "rejected": []},
    )  # fmt: skip
    code, out, _ = run("evaluate", spoken.slug, "--json")
    answer = json.loads(out)
    assert code == 0
    figures = ["questions", "recall", "precision", "evidence_shown", "tokens_mean", "empty"]
    assert list(answer) == [*figures, "per_question"]
    assert (answer["questions"], answer["recall"], answer["empty"]) == (4, 1.0, 0)
    first = answer["per_question"][0]
    assert (first["id"], first["query"], first["recall"]) == ("q1", ASKED[0][1], 1.0)
    assert first["records"][0]["external_id"] == "D1:1"
    assert not Assembly.objects.exists()


def test_warnings_are_objects_in_the_command_and_the_api(
    run: Run, spoken: Space, tmp_path: Path, client: Client
) -> None:
    run("import_questions", spoken.slug, write(tmp_path / "q.jsonl", LINES[:1]))
    _, out, _ = run("evaluate", spoken.slug, "--context-tokens", "1", "--json")
    message = "The context budget is too small for any record."
    warning = {"code": "budget_too_small", "message": message, "remedy": None}
    assert json.loads(out)["per_question"][0]["warnings"] == [warning]
    _, secret = make_key(spoken.team)
    found = client.get(
        f"/api/v1/evaluations/{Evaluation.objects.get().pk}/questions",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert found.json()["items"][0]["warnings"] == [warning]


@pytest.mark.parametrize("code", sorted(INSUFFICIENT))
def test_every_code_of_an_evaluation_has_a_message(code: str) -> None:
    assert read_warning(code).message.endswith(".")


def test_the_exit_code_says_whether_the_minimum_is_reached(run: Run, spoken: Space, tmp_path: Path) -> None:
    run("import_questions", spoken.slug, write(tmp_path / "q.jsonl", LINES))
    assert run("evaluate", spoken.slug, "--min-recall", "1")[0] == 0
    code, out, err = run("evaluate", spoken.slug, "--min-recall", "0.9", "--context-tokens", "30")
    assert code == 1
    assert "is below the minimum of 0.900" in err
    assert "dropped" in out
    assert Evaluation.objects.filter(context_tokens=30).exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--min-recall", "2"], "--min-recall"),
        (["--min-recall", "much"], "--min-recall"),
        (["--context-tokens", "few"], "--context-tokens"),
        (["--config", "0"], "--config"),
        (["--config", "9"], "config version 9"),
        (["--questions", "Others"], "question set 'Others'"),
    ],
)
def test_an_unusable_call_names_its_option(run: Run, spoken, tmp_path, arguments, complaint) -> None:
    run("import_questions", spoken.slug, write(tmp_path / "q.jsonl", LINES[:1]))
    code, _, err = run("evaluate", spoken.slug, *arguments)
    assert code == 2
    assert complaint in err
    assert not Evaluation.objects.exists()


def test_several_sets_must_be_named(run: Run, spoken: Space, tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", LINES)
    code, _, err = run("evaluate", spoken.slug)
    assert (code, "There is no question set" in err) == (2, True)
    run("import_questions", spoken.slug, path, "--questions", "A")
    run("import_questions", spoken.slug, path, "--questions", "B")
    code, _, err = run("evaluate", spoken.slug)
    assert (code, "--questions: the space has several question sets; name one of 'A', 'B'" in err) == (
        2,
        True,
    )
    assert run("evaluate", spoken.slug, "--questions", "B")[0] == 0


def test_rejected_lines_are_named(run: Run, spoken: Space, tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", [*LINES, {"id": "x", "query": "Who?", "expected": ["D9:9"]}])
    code, out, _ = run("import_questions", spoken.slug, path, "--json")
    (rejected,) = json.loads(out)["rejected"]
    assert (code, rejected["line"], rejected["field"]) == (1, 5, "expected")
    assert "'D9:9'" in rejected["error"]
    assert run("import_questions", spoken.slug, tmp_path / "missing.jsonl")[0] == 2
    assert run("import_questions", "elsewhere", path)[0] == 2


def dialogue(**overrides: Any) -> dict[str, Any]:
    turns = [{"dia_id": name, "speaker": speaker, "text": text} for name, speaker, text in TALK]
    asked = [
        {"question": text, "answer": answer, "evidence": ids, "category": 4} for _, text, ids, answer in ASKED
    ]
    unanswerable = {"question": "Where is Pixel's owner?", "evidence": ["D1:1"], "category": 5}
    return {
        "sample_id": "Talk-1",
        "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2026", "session_1": turns},
        "qa": [*asked, unanswerable],
        **overrides,
    }


def conversation(*turns: object, session: int = 1) -> dict[str, Any]:
    return {f"session_{session}_date_time": "1:56 pm on 8 May, 2026", f"session_{session}": list(turns)}


def test_imports_dialogues_as_spaces(run: Run, db: None, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps([dialogue(), dialogue(sample_id="Talk-2")]))
    code, out, _ = run("import_dialogues", path, "--dialogue", "Talk-1", "--json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["space"], answer["records"]["created"], answer["questions"]["created"]) == ("talk-1", 6, 4)
    found = QuestionSet.objects.get()
    assert found.questions.first().as_of == SAID_AT
    record = Record.objects.get(external_id="D1:2")
    assert (record.title, record.type, record.thread, record.position) == ("Ben", "message", "session-1", 1)
    assert (
        json.loads(run("import_dialogues", path, "--json")[1].splitlines()[0])["questions"]["unchanged"] == 4
    )
    code, out, _ = run("evaluate", "talk-1", "--json")
    assert json.loads(out)["recall"] == 1.0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "FILE: is not JSON"),
        ("[]", "FILE: must have at least 1 item"),
        (json.dumps([{"sample_id": "x"}]), "conversation"),
        (json.dumps([dialogue(conversation={})]), "has no turns"),
        (json.dumps([dialogue(conversation={"session_1": []})]), "session_1_date_time"),
        (json.dumps([dialogue(), dialogue(conversation=conversation({}))]), "Talk-1.session_1.0.dia_id"),
        (json.dumps([dialogue(conversation=conversation(None))]), "Talk-1.session_1.0: must be an object"),
        (json.dumps([dialogue(conversation=conversation() | {"session_1": 5})]), "Talk-1.session_1: must be"),
    ],
)
def test_a_file_of_another_format_is_refused(run: Run, db: None, tmp_path, content, complaint) -> None:
    path = tmp_path / "d.json"
    path.write_text(content)
    code, _, err = run("import_dialogues", path)
    assert code == 2
    assert complaint in err
    assert not Space.objects.exists()


def test_sessions_need_not_be_numbered_without_gaps(run: Run, db: None, tmp_path: Path) -> None:
    said = [{"dia_id": f"D{number}:1", "speaker": "Ada", "text": "Hi."} for number in (2, 10)]
    sessions = conversation(said[1], session=10) | conversation(said[0], session=2)
    path = tmp_path / "d.json"
    path.write_text(json.dumps([dialogue(conversation=sessions, qa=[])]))
    code, out, _ = run("import_dialogues", path, "--json")
    assert (code, json.loads(out)["records"]["created"]) == (0, 2)
    records = Record.objects.order_by("id").values_list("external_id", "thread")
    assert list(records) == [("D2:1", "session-2"), ("D10:1", "session-10")]


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ("Talk-1", "Talk-1", "sample_id: 'Talk-1' and 'Talk-1' would both be the space talk-1"),
        ("Talk-1", "talk 1", "sample_id: 'Talk-1' and 'talk 1' would both be the space talk-1"),
        ("Talk-1", "对话", "sample_id: "),
    ],
)
def test_dialogues_that_cannot_each_be_a_space_are_refused_before_any_is_imported(
    run: Run, db: None, tmp_path: Path, first: str, second: str, complaint: str
) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps([dialogue(sample_id=first), dialogue(sample_id=second, qa=[])]))
    code, _, err = run("import_dialogues", path)
    assert (code, complaint in err) == (2, True)
    assert not Space.objects.exists()


def test_an_unknown_dialogue_is_refused(run: Run, db: None, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps([dialogue()]))
    code, _, err = run("import_dialogues", path, "--dialogue", "Talk-9")
    assert (code, "'Talk-9'" in err) == (2, True)
