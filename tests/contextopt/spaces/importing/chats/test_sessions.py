"""Claude Code and Codex: what the person and the agent said to each other."""

from pathlib import Path

from contextopt.spaces.importing.chats.messages import Reason
from tests.contextopt.spaces.importing.chats.exportfiles import read_rows, said, write_lines


def entry(own: str, parent: str | None, kind: str, content: object, **fields: object) -> dict[str, object]:
    """A line of a Claude Code session."""
    minute = f"2026-05-01T10:{len(own):02}:00.000Z"
    message = {"role": kind, "content": content}
    where = {"sessionId": "s-1", "isSidechain": False, "cwd": "/srv/shop", "gitBranch": "main"}
    ids = {"type": kind, "uuid": own, "parentUuid": parent, "timestamp": minute}
    return {**ids, **where, "message": message, **fields}


def attached(own: str, parent: str, kind: str = "file") -> dict[str, object]:
    file = {"filePath": "/srv/shop/plan.md", "content": "Ship on Monday.\n"}
    attachment = {"type": kind, "displayPath": "plan.md", "content": {"type": "text", "file": file}}
    return {**entry(own, parent, "attachment", ""), "attachment": attachment}


def text(words: str) -> list[dict[str, object]]:
    return [{"type": "text", "text": words}]


def test_a_claude_code_session_is_read_along_the_branch_that_ends_it(tmp_path: Path) -> None:
    tool_use = [*text("I look."), {"type": "tool_use", "name": "Read", "input": {}}]
    path = write_lines(
        tmp_path / "s-1.jsonl",
        {"type": "ai-title", "aiTitle": "Shipping", "sessionId": "s-1"},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s-1"},
        entry("a", None, "user", "When do we ship? See @plan.md"),
        attached("at", "a"),
        attached("hook", "at", kind="hook_success"),
        entry("b", "hook", "assistant", [{"type": "thinking", "thinking": "Hm."}]),
        entry("bb", "b", "assistant", tool_use),
        entry("c", "bb", "user", [{"type": "tool_result", "content": "file"}]),
        entry("d", "c", "assistant", text("On Monday.")),
        entry("undone", "d", "user", "And to Oslo?"),
        entry("undone2", "undone", "assistant", text("Also.")),
        entry("e", "d", "user", "<system-reminder>Be kind.</system-reminder>And to Bergen?"),
        entry(
            "f",
            "e",
            "user",
            "<command-name>/compact</command-name>\n <command-message>compact</command-message>",
        ),
        entry("g", "f", "user", "<local-command-stdout>Done</local-command-stdout>"),
        entry("side", None, "user", "Look around.", isSidechain=True),
        {**entry("h", None, "system", ""), "logicalParentUuid": "g"},
        entry("i", "h", "user", "This session is being continued…", isCompactSummary=True),
        entry("j", "i", "user", "Continue.", isMeta=True),
        entry("k", "j", "user", "<command-name>/review</command-name> <command-args>the port</command-args>"),
        entry("l", "k", "assistant", text("Reviewed.")),
    )
    rows, left_out = read_rows(path)
    assert said(rows) == [
        ("User in Shipping", "When do we ship? See @plan.md\n\nAttachment plan.md:\nShip on Monday."),
        ("Assistant in Shipping", "I look."),
        ("Assistant in Shipping", "On Monday."),
        ("User in Shipping", "And to Bergen?"),
        ("User in Shipping", "/review the port"),
        ("Assistant in Shipping", "Reviewed."),
    ]
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert {(row["thread"], row["source"]) for row in rows} == {("s-1", "claude-code")}
    assert rows[0]["metadata"] == {"role": "user", "folder": "/srv/shop", "branch": "main"}
    assert left_out == {
        Reason.THOUGHTS: 1,
        Reason.TOOLS: 2,
        Reason.BRANCHES: 2,
        Reason.ADDED: 3,
        Reason.SUBAGENTS: 1,
        Reason.SUMMARIES: 1,
    }


def test_a_file_that_is_attached_to_the_last_message_is_kept(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", entry("a", None, "user", "See @plan.md"), attached("b", "a"))
    assert read_rows(path)[0][0]["notes"].endswith("Ship on Monday.")


def test_a_folder_of_sessions_is_read_file_by_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_lines(tmp_path / "project" / f"{name}.jsonl", entry(name, None, "user", name, sessionId=name))
    rows, left_out = read_rows(tmp_path)
    assert [row["thread"] for row in rows] == ["one", "two"]
    assert not left_out


def line(kind: str, **payload: object) -> dict[str, object]:
    """A line of a Codex session."""
    return {"timestamp": "2026-06-01T12:00:00.000Z", "type": kind, "payload": payload}


def item(role: str, words: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return line("response_item", type="message", role=role, content=[{"type": kind, "text": words}])


def test_a_codex_session_is_read_without_turns_that_were_undone(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "rollout-2026-06-01.jsonl",
        line("session_meta", id="t-1", cwd="/srv/shop"),
        item("developer", "Permissions."),
        item("user", "<environment_context>\n  <cwd>/srv/shop</cwd>\n</environment_context>"),
        item("user", "# AGENTS.md instructions for /srv/shop\n\nUse tabs."),
        line("turn_context", model="gpt-5-codex"),
        item("user", "Why is the till slow?"),
        line("response_item", type="reasoning", summary=[]),
        line("response_item", type="function_call", name="shell"),
        line("response_item", type="function_call_output", output="slow"),
        item("assistant", "It waits for the printer."),
        line("event_msg", type="agent_message", message="It waits for the printer."),
        item("user", "Which one?"),
        item("assistant", "The old one."),
        line("event_msg", type="thread_rolled_back", num_turns=1),
        item("user", "Which printer?"),
        item("assistant", "The one in the hall."),
        item("assistant", "So far: the printer in the hall."),
        line("compacted", message="Another model wrote: So far: the printer in the hall."),
        item("assistant", "Replace it."),
    )
    rows, left_out = read_rows(path)
    assert said(rows) == [
        ("User in shop", "Why is the till slow?"),
        ("Assistant in shop", "It waits for the printer."),
        ("User in shop", "Which printer?"),
        ("Assistant in shop", "The one in the hall."),
        ("Assistant in shop", "Replace it."),
    ]
    assert {(row["thread"], row["source"]) for row in rows} == {("t-1", "codex")}
    assert (rows[0]["external_id"], rows[1]["metadata"]["model"]) == ("t-1:6", "gpt-5-codex")
    assert left_out == {
        Reason.SYSTEM: 1,
        Reason.ADDED: 2,
        Reason.THOUGHTS: 1,
        Reason.TOOLS: 2,
        Reason.BRANCHES: 2,
        Reason.SUMMARIES: 1,
    }


def test_a_session_of_an_early_codex_is_read(tmp_path: Path) -> None:
    words = [{"type": "input_text", "text": "Start the till."}]
    path = write_lines(
        tmp_path / "rollout.jsonl",
        {"id": "t-0", "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None},
        {"type": "message", "role": "user", "content": words},
    )
    rows, _ = read_rows(path)
    assert [(row["thread"], row["notes"]) for row in rows] == [("t-0", "Start the till.")]
