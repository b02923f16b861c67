"""A Slack export, as a folder and as a zip."""

import zipfile
from pathlib import Path

import pytest

from contextopt.spaces.importing.chats.slack import DELETED, EVENTS, FILES
from contextopt.spaces.importing.formats import read_path
from contextopt.spaces.importing.rows import Rejection
from contextopt.spaces.models import Record
from tests.contextopt.spaces.importing.chats.exportfiles import read_rows, said, write_json
from tests.imports import run_import


def message(stamp: str, text: str, user: str = "U1", **fields: object) -> dict[str, object]:
    return {"type": "message", "user": user, "text": text, "ts": stamp, **fields}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "Harbour Slack export"
    write_json(folder / "channels.json", [{"id": "C1", "name": "pilots"}])
    write_json(folder / "dms.json", [{"id": "D7", "members": ["U1", "U2"]}])
    write_json(
        folder / "users.json",
        [
            {"id": "U1", "name": "ann", "real_name": "Ann Berg", "profile": {"display_name": "Ann"}},
            {"id": "U2", "name": "bo", "real_name": "Bo Dahl", "profile": {"display_name": ""}},
        ],
    )
    root = "1700000000.000100"
    write_json(
        folder / "pilots" / "2023-11-14.json",
        [
            message(
                root,
                "Who takes <@U2> &amp; the tug?",
                thread_ts=root,
                reactions=[{"name": "eyes", "count": 2}],
            ),
            message("1700000050.000200", "joined", subtype="channel_join"),
            message("1700000060.000300", "See <#C1> and <https://x.example|the plan>", "U2"),
        ],
    )
    files = [{"name": "tide.txt", "preview": "High at <noon>"}, {"name": "map.png"}]
    write_json(
        folder / "pilots" / "2023-11-15.json",
        [
            message("1700090000.000400", "I do", "U2", thread_ts=root, files=files),
            message("1700090001.000500", "", subtype="tombstone"),
            message("1700090002.000600", "", "", subtype="bot_message", username="Tide bot",
                    attachments=[{"title": "Warning", "text": "Storm at nine"}]),
            message("1700090003.000700", "", blocks=[{"elements": [{"type": "text", "text": "Sail now"}]}]),
        ],
    )  # fmt: skip
    write_json(folder / "D7" / "2023-11-15.json", [message("1700090009.000800", "Lunch?")])
    return folder


EXPECTED = [
    ("Ann in #Ann, Bo Dahl", "Lunch?"),
    ("Ann in #pilots", "Who takes @Bo Dahl & the tug?"),
    ("Bo Dahl in #pilots", "See #pilots and the plan (https://x.example)"),
    ("Bo Dahl in #pilots", "I do\n\nAttachment tide.txt:\nHigh at <noon>"),
    ("Tide bot in #pilots", "Attachment Warning:\nStorm at nine"),
    ("Ann in #pilots", "Sail now"),
]


def test_a_slack_export_is_read_with_names_threads_and_days(export: Path) -> None:
    rows, left_out = read_rows(export)
    assert said(rows) == EXPECTED
    threads = [
        "#Ann, Bo Dahl",
        "#pilots 1700000000.000100",
        "#pilots",
        "#pilots 1700000000.000100",
        "#pilots",
        "#pilots",
    ]
    assert [row["thread"] for row in rows] == threads
    assert [row["position"] for row in rows][1:3] == [1_700_000_000_000_100, 1_700_000_060_000_300]
    assert rows[1]["date"] == "2023-11-14T22:13:20.000100+00:00"
    assert rows[1]["external_id"] == "pilots:1700000000.000100"
    assert rows[3]["metadata"] == {"files": ["tide.txt", "map.png"]}
    assert left_out == {EVENTS: 1, DELETED: 1, FILES: 1}


@pytest.mark.django_db
@pytest.mark.parametrize("top", ["", "Harbour Slack export/"])
def test_the_zip_of_an_export_gives_the_same_records(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], top: str
) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for path in sorted(export.rglob("*.json")):
            archive.write(path, f"{top}{path.relative_to(export)}")
    assert run_import(capsys, "s", tmp_path / "export.zip")["created"] == len(EXPECTED)
    assert run_import(capsys, "s", export)["unchanged"] == len(EXPECTED)
    assert Record.objects.filter(thread__startswith="#pilots", type="message").count() == 5


def test_one_file_of_a_channel_is_read_alone(export: Path) -> None:
    rows, _ = read_rows(export / "pilots" / "2023-11-15.json")
    assert said(rows)[0] == ("U2 in #2023-11-15", "I do\n\nAttachment tide.txt:\nHigh at <noon>")


def test_a_damaged_day_is_named_and_the_rest_is_read(export: Path) -> None:
    (export / "pilots" / "2023-11-14.json").write_text("[\n{")
    found = [(each.file, each.line) for each in read_path(str(export)) if isinstance(each, Rejection)]
    assert found == [("pilots/2023-11-14.json", 2)]
