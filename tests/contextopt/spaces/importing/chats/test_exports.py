"""ChatGPT and Claude: the active branch, the text of attachments, and what is left out."""

from pathlib import Path
from typing import Any

import pytest

from contextopt.spaces.importing.chats.messages import Reason
from contextopt.spaces.models import Record
from tests.contextopt.spaces.importing.chats.exportfiles import (
    chatgpt_nodes,
    read_rows,
    said,
    write_json,
)
from tests.imports import run_import

FERRY = (
    {"id": "s", "role": "system", "parent": None, "text": "Be brief."},
    {"id": "q1", "role": "user", "parent": "s", "text": "When does the ferry leave?", "at": 1_700_000_000.5},
    {"id": "old", "role": "assistant", "parent": "q1", "text": "At seven.", "at": 1_700_000_001.0},
    {"id": "new", "role": "assistant", "parent": "q1", "text": "At half past six.", "at": 1_700_000_009.0},
    {"id": "think", "role": "assistant", "parent": "new", "kind": "thoughts", "text": ""},
    {"id": "call", "role": "assistant", "parent": "think", "kind": "code", "recipient": "web", "text": "x"},
    {"id": "found", "role": "tool", "name": "web", "parent": "call", "text": "A page."},
    {"id": "q2", "role": "user", "parent": "found", "kind": "multimodal_text", "at": 1_700_000_020.0,
     "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "file://a"}, "And this pier?"],
     "metadata": {"attachments": [{"name": "pier.png"}]}},
    {"id": "file", "role": "tool", "name": "myfiles_browser", "parent": "q2", "kind": "tether_quote",
     "parts": [], "content": {"title": "timetable.pdf", "text": "Pier 4, platform B."}},
    {"id": "hidden", "role": "user", "parent": "file", "text": "Keep it short.",
     "metadata": {"is_visually_hidden_from_conversation": True}},
    {"id": "voice", "role": "user", "parent": "hidden", "kind": "multimodal_text",
     "parts": [{"content_type": "audio_transcription", "text": "Is it late?"}]},
    {"id": "blank", "role": "assistant", "parent": "voice", "text": "", "at": 1_700_000_030.0},
)  # fmt: skip


def chatgpt_chat(*messages: dict[str, Any], **fields: object) -> dict[str, object]:
    chat = {"title": "Ferry", "create_time": 1_700_000_000.0, "conversation_id": "c-9"}
    return {**chat, "mapping": dict(chatgpt_nodes(*messages)), **fields}


def test_only_the_active_branch_of_a_chatgpt_conversation_is_read(tmp_path: Path) -> None:
    path = write_json(tmp_path / "conversations.json", [chatgpt_chat(*FERRY, current_node="blank")])
    rows, left_out = read_rows(path)
    assert said(rows) == [
        ("User in Ferry", "When does the ferry leave?"),
        ("Assistant in Ferry", "At half past six."),
        ("User in Ferry", "And this pier?"),
        ("Attachment in Ferry", "Attachment timetable.pdf:\nPier 4, platform B."),
        ("User in Ferry", "Is it late?"),
    ]
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4]
    assert {row["thread"] for row in rows} == {"c-9"}
    assert [row["external_id"] for row in rows] == ["q1", "new", "q2", "file", "voice"]
    assert rows[0]["date"] == "2023-11-14T22:13:20.500000+00:00"
    # A message without a date has that of the one before.
    assert rows[4]["date"] == rows[2]["date"]
    assert rows[2]["metadata"]["attachments"] == ["pier.png"]
    assert left_out == {
        Reason.BRANCHES: 1,
        Reason.SYSTEM: 2,
        Reason.THOUGHTS: 1,
        Reason.TOOLS: 2,
        Reason.IMAGES: 1,
        Reason.WITHOUT_TEXT: 1,
    }


def test_without_a_current_message_the_newest_branch_is_read(tmp_path: Path) -> None:
    path = write_json(tmp_path / "conversations.json", [chatgpt_chat(*FERRY[:4])])
    rows, left_out = read_rows(path)
    assert [row["external_id"] for row in rows] == ["q1", "new"]
    assert left_out == {Reason.BRANCHES: 1, Reason.SYSTEM: 1}


def test_an_export_that_goes_in_circles_ends(tmp_path: Path) -> None:
    one = {"id": "a", "role": "user", "parent": "b", "text": "A"}
    other = {"id": "b", "role": "user", "parent": "a", "text": "B"}
    path = write_json(tmp_path / "conversations.json", [chatgpt_chat(one, other, current_node="a")])
    assert [row["external_id"] for row in read_rows(path)[0]] == ["b", "a"]


def test_a_conversation_without_messages_is_named(tmp_path: Path) -> None:
    path = write_json(tmp_path / "conversations.json", [chatgpt_chat(), chatgpt_chat(*FERRY[:2])])
    rows, left_out = read_rows(path)
    assert (len(rows), left_out[Reason.EMPTY]) == (1, 1)


def claude_message(own: str, sender: str, text: str, **fields: object) -> dict[str, object]:
    block = {"type": "text", "text": text}
    return {"uuid": own, "sender": sender, "text": "", "content": [block], "attachments": [], "files": [],
            "created_at": f"2026-04-0{len(own)}T09:00:00Z", **fields}  # fmt: skip


def test_a_claude_conversation_keeps_the_text_of_attachments(tmp_path: Path) -> None:
    attachments = [
        {"file_name": "rota.txt", "extracted_content": "Ann works on Sunday.\n"},
        {"file_name": "scan.pdf", "extracted_content": ""},
    ]
    files = [{"file_name": "rota.txt"}, {"file_name": "photo.jpg"}]
    thinking = {"type": "thinking", "thinking": "Hm."}
    tool = {"type": "tool_use", "name": "search", "input": {}}
    chat = {
        "uuid": "u-1",
        "name": "Rota",
        "created_at": "2026-04-01T08:00:00Z",
        "chat_messages": [
            claude_message("m", "human", "Who works?", attachments=attachments, files=files),
            claude_message(
                "mm", "assistant", "Ann.", content=[thinking, tool, {"type": "text", "text": "Ann."}]
            ),
        ],
    }
    rows, left_out = read_rows(write_json(tmp_path / "conversations.json", [chat]))
    assert said(rows) == [
        ("User in Rota", "Who works?\n\nAttachment rota.txt:\nAnn works on Sunday."),
        ("Assistant in Rota", "Ann."),
    ]
    assert rows[0]["metadata"]["attachments"] == ["rota.txt", "scan.pdf", "photo.jpg"]
    assert left_out == {Reason.IMAGES: 2, Reason.THOUGHTS: 1, Reason.TOOLS: 1}


@pytest.mark.parametrize(("leaf", "kept"), [("aa", ["q", "aa"]), ("", ["q", "aaa"]), ("gone", ["q", "aaa"])])
def test_only_the_active_branch_of_a_claude_conversation_is_read(
    tmp_path: Path, leaf: str, kept: list[str]
) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    messages = [
        claude_message("q", "human", "Which?", parent_message_uuid=root),
        claude_message("aa", "assistant", "This.", parent_message_uuid="q"),
        claude_message("aaa", "assistant", "That.", parent_message_uuid="q"),
    ]
    chat = {"uuid": "u", "name": "", "chat_messages": messages, "current_leaf_message_uuid": leaf}
    rows, left_out = read_rows(write_json(tmp_path / "conversations.json", [chat]))
    assert [row["external_id"] for row in rows] == kept
    assert left_out == {Reason.BRANCHES: 1}


@pytest.mark.django_db
def test_an_export_with_texts_that_no_database_stores_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"id": "x" * 900, "role": "user", "text": "nul \0 and half \ud800", "at": "soon"}
    long = {"id": "l", "role": "assistant", "parent": odd["id"], "text": "w" * 1_000_001}
    chat = chatgpt_chat(odd, long, title="T" * 2_000, conversation_id="c" * 2_000)
    path = write_json(tmp_path / "conversations.json", [chat])
    for outcome in ("created", "unchanged"):
        assert run_import(capsys, "s", path)[outcome] == 2
    first, second = Record.objects.order_by("position")
    assert first.notes == "nul  and half \ufffd"
    assert first.metadata["date"] == "soon"
    assert len(second.notes) == 1_000_000
