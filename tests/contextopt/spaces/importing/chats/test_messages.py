"""Lines of `{role, content}`, as programs log them and as models are trained."""

from pathlib import Path

import pytest

from contextopt.spaces.importing.chats.messages import Reason, read_moment
from contextopt.spaces.importing.formats import read_path
from contextopt.spaces.importing.rows import Rejection
from contextopt.spaces.models import Record
from tests.contextopt.spaces.importing.chats.exportfiles import read_rows, said, write_json, write_lines
from tests.imports import run_import


def test_lines_of_messages_are_one_conversation_unless_they_name_theirs(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "support.jsonl",
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Where is my parcel?", "timestamp": "2026-07-01T08:00:00Z", "id": "1"},
        {"role": "assistant", "content": [{"type": "text", "text": "In Bodø."}], "created_at": 1_782_900_000},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
        {"role": "tool", "content": "{}"},
        {"role": "user", "content": "  "},
        {"role": "user", "content": "Hello", "conversation_id": "other", "name": "Kari"},
        {"role": "user", "content": "Thanks", "timestamp": 1_782_900_000_000},
    )
    rows, left_out = read_rows(path)
    assert [(row["thread"], row["position"], row["title"], row["notes"]) for row in rows] == [
        ("support", 0, "User", "Where is my parcel?"),
        ("support", 1, "Assistant", "In Bodø."),
        ("other", 0, "Kari", "Hello"),
        ("support", 2, "User", "Thanks"),
    ]
    assert rows[1]["date"] == rows[3]["date"] == "2026-07-01T10:00:00+00:00"
    assert left_out == {Reason.SYSTEM: 1, Reason.TOOLS: 2, Reason.WITHOUT_TEXT: 1}


def test_conversations_with_lists_of_messages_are_read(tmp_path: Path) -> None:
    talk = [{"role": "human", "content": "Open?"}, {"role": "assistant", "content": "Until ten."}]
    path = write_lines(
        tmp_path / "training.jsonl", {"messages": talk}, {"messages": talk, "title": "Hours", "id": 3}
    )
    rows, _ = read_rows(path)
    assert [row["thread"] for row in rows] == ["training-1"] * 2 + ["training-2"] * 2
    assert said(rows[2:]) == [("User in Hours", "Open?"), ("Assistant in Hours", "Until ten.")]
    array = write_json(tmp_path / "one.json", talk)
    assert [row["position"] for row in read_rows(array)[0]] == [0, 1]


@pytest.mark.django_db
def test_importing_a_longer_log_again_adds_its_new_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [{"role": "user", "content": "Yes"}, {"role": "assistant", "content": "No"}]
    path = write_lines(tmp_path / "log.jsonl", *talk)
    assert run_import(capsys, "s", path)["created"] == 2
    write_lines(path, *talk, *talk)
    answer = run_import(capsys, "s", path)
    assert (answer["created"], answer["unchanged"]) == (2, 2)
    assert list(Record.objects.order_by("position").values_list("notes", flat=True)) == ["Yes", "No"] * 2


def test_a_line_that_is_no_message_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", {"role": "user", "content": "Yes"}, {"title": "No"}, 3)
    found = [(each.line, each.field) for each in read_path(str(path)) if isinstance(each, Rejection)]
    assert found == [(2, "role"), (3, "role")]


def test_records_with_a_type_are_no_session(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", {"type": "note", "title": "A", "sessionId": "x"})
    assert read_rows(path)[0] == [{"type": "note", "title": "A", "sessionId": "x"}]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1_700_000_000_000, "2023-11-14T22:13:20+00:00"),
        ("1700000000.25", "2023-11-14T22:13:20.250000+00:00"),
        (1e300, "1e+300"),
        (True, True),
        ("2026-01-01", "2026-01-01"),
        (None, None),
    ],
)
def test_seconds_and_milliseconds_are_moments(value: object, moment: object) -> None:
    assert read_moment(value) == moment
