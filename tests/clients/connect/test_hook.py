"""The hook as the tools run it: a process of its own, against the running product."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from contextopt_connect.hook import FILE_CHARS, OUTPUT_CHARS, changed_files, join_parts, read_text
from django.core.management import call_command
from django.db.models import F
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly, Kind
from contextopt.people.models import ApiKey, Team
from contextopt.spaces.models import Record, Space
from memory.memories.models import Memory
from tests import factories
from tests.clients.connect.conftest import git, make_repository

CLOSED = "http://127.0.0.1:9"
type Run = Callable[..., Any]


@pytest.fixture
def run(live_server: LiveServer, home: Path, repository: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Connect the repository, and run the command of one of the tool's hooks."""
    Team.objects.ensure_default()
    # The first request loads all pages, which takes longer than a hook waits.
    httpx2.get(f"{live_server.url}/healthz", timeout=60, verify=False)

    def connect(tool: str, url: str = live_server.url) -> dict[str, str]:
        call_command("connect", tool, "--repository", str(repository), "--url", url, "--yes", "--json")
        return read_commands(tool, home, repository)

    return connect


def read_commands(tool: str, home: Path, repository: Path) -> dict[str, str]:
    if tool == "codex":
        hooks = tomllib.loads((home / ".codex/config.toml").read_text())["hooks"]
    else:
        name = ".cursor/hooks.json" if tool == "cursor" else ".claude/settings.local.json"
        hooks = json.loads((repository / name).read_text())["hooks"]
    first = {event: groups[0] for event, groups in hooks.items()}
    return {
        event: group["command"] if tool == "cursor" else group["hooks"][0]["command"]
        for event, group in first.items()
    }


def run_hook(command: str, event: dict[str, Any], folder: Path | None = None) -> Any:
    ran = subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(event).encode(),
        capture_output=True,
        timeout=20,
        check=False,
        cwd=folder,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    return json.loads(ran.stdout) if ran.stdout.strip() else None


def prompt(repository: Path, text: str) -> dict[str, Any]:
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s-1",
        "cwd": str(repository),
        "prompt": text,
    }


@pytest.mark.parametrize("tool", ["claude", "codex"])
def test_a_prompt_gets_its_context(tool: str, run: Run, repository: Path) -> None:
    commands = run(tool)
    event = prompt(repository, "why is the queue's lock not free after the deploy?")
    answer = run_hook(commands["UserPromptSubmit"], event)
    assert list(answer) == ["hookSpecificOutput"]
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert "Free the queue's lock before a deploy" in text
    assembly = Assembly.objects.get()
    assert (assembly.conversation, assembly.space.slug if assembly.space else "") == ("s-1", "my-shop")
    assert list(ApiKey.objects.get().ways) == [tool]


def test_a_long_context_fits_the_tools_limit(run: Run, repository: Path) -> None:
    commands = run("claude")
    space = Space.objects.get()
    for number in range(30):
        factories.make_record(space, title=f"Lock {number}", notes=f"queue lock deploy {number} " * 300)
    answer = run_hook(commands["UserPromptSubmit"], prompt(repository, "queue lock deploy"))
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert 4_000 < len(text) <= OUTPUT_CHARS < 10_000


@pytest.mark.parametrize("left", [-1, 0, 1, 40, 5_000])
def test_decisions_take_the_room_that_the_context_leaves(left: int) -> None:
    context = "c" * (OUTPUT_CHARS - len(join_parts("shop", "c", [])) + 1 - left)
    text = join_parts("shop", context, ["Prices are decimals. " * 25] * 3)
    assert ("Decided before" in text) is (left >= 40)
    assert len(text) <= OUTPUT_CHARS + (left < 0)


def test_decisions_are_remembered_and_come_back(run: Run, repository: Path) -> None:
    commands = run("claude")
    stop = {
        "hook_event_name": "Stop",
        "session_id": "s-1",
        "cwd": str(repository),
        "last_assistant_message": "**Decision:** Prices are decimals, rounded at the end.\nNo decision: x",
    }
    for _ in range(2):
        assert run_hook(commands["Stop"], stop) is None
    memory = Memory.objects.get()
    assert memory.content == "Prices are decimals, rounded at the end."
    assert (memory.memory_type, memory.trust_level, memory.repository) == ("decision", "agent", "My Shop")
    call_command("embed")
    event = prompt(repository, "are prices decimals, and when are they rounded?")
    text = run_hook(commands["UserPromptSubmit"], event)["hookSpecificOutput"]["additionalContext"]
    assert "> Prices are decimals, rounded at the end." in text


def test_a_decision_is_found_by_its_words_alone(run: Run, repository: Path) -> None:
    """A decision that is not embedded yet, or that is worded unlike the prompt, still shares its words."""
    commands = run("claude")
    stop = {"hook_event_name": "Stop", "cwd": str(repository)}
    for decision in ("Round prices once at the end.", "Logs are JSON."):
        run_hook(commands["Stop"], {**stop, "last_assistant_message": f"Decision: {decision}"})
    event = prompt(repository, "how do we round at the end?")
    text = run_hook(commands["UserPromptSubmit"], event)["hookSpecificOutput"]["additionalContext"]
    assert "> Round prices once at the end." in text
    assert "Logs are JSON" not in text


def test_a_failure_gets_the_changes(run: Run, repository: Path) -> None:
    commands = run("claude")
    lines = [f"total_{number} = {number}" for number in range(60)]
    (repository / "prices.py").write_text("\n".join(lines))
    git(repository, "commit", "-qam", "Add totals")
    (repository / "prices.py").write_text("\n".join([*lines, "rounded = total.quantize()"]))
    failure = {
        "hook_event_name": "PostToolUseFailure",
        "cwd": str(repository),
        "tool_name": "Bash",
        "error": "Traceback\nAttributeError: 'int' object has no attribute 'quantize'",
    }
    answer = run_hook(commands["PostToolUseFailure"], failure)
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert "+rounded = total.quantize()" in text and "has no attribute 'quantize'" in text
    # The connection's own files are nobody's work.
    assert ".mcp.json" not in text
    logged = Assembly.objects.get()
    assert (logged.kind, logged.tokens_saved) == (Kind.RETRY, None)
    assert run_hook(commands["PostToolUseFailure"], {**failure, "is_interrupt": True}) is None


def test_changed_files(repository: Path) -> None:
    """A file that cannot be shown is left out. It is neither new nor deleted."""
    for name in ("grown", "shrunk", "binary", "linked", "gone", "kept"):
        (repository / name).write_text("text\n" * (FILE_CHARS if name == "shrunk" else 1))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Add files")
    (repository / "grown").write_text("text\n" * FILE_CHARS)
    (repository / "shrunk").write_text("text\n")
    (repository / "binary").write_bytes(b"a\0b")
    (repository / "linked").unlink()
    (repository / "linked").symlink_to("kept")
    (repository / "gone").unlink()
    git(repository, "rm", "-q", "--cached", "kept")
    (repository / "kept").write_text("changed\n")
    for name in ("staged", "untracked"):
        (repository / name).write_text("new\n")
    git(repository, "add", "staged")
    before, after = changed_files(str(repository))
    assert before == {"gone": "text\n", "kept": "text\n"}
    assert after == {"kept": "changed\n", "staged": "new\n", "untracked": "new\n"}


def test_changed_files_are_those_of_the_repository_alone(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment nor a linked folder leads the hook to other files."""
    other = make_repository(tmp_path / "other")
    (other / "secret").write_text("secret\n")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    (repository / "linked").symlink_to(other)
    (repository / "own").write_text("own\n")
    assert changed_files(str(repository)) == ({}, {"own": "own\n"})
    assert read_text(str(repository), "linked/secret") is None
    assert read_text(str(repository), "own") == "own\n"


def test_cursor_gets_a_context_for_the_session(run: Run, repository: Path) -> None:
    commands = run("cursor")
    Record.objects.update(date=F("date") - timedelta(days=60))
    start = {"hook_event_name": "sessionStart", "session_id": "s-1", "cwd": str(repository)}
    assert "Round prices at the end" in run_hook(commands["sessionStart"], start)["additional_context"]
    said = {
        "hook_event_name": "afterAgentResponse",
        "text": "Decision: keep decimals",
        "cwd": str(repository),
    }
    assert run_hook(commands["afterAgentResponse"], said) == {}
    assert Memory.objects.get().content == "keep decimals"


def test_codex_is_silent_outside_connected_repositories(run: Run, tmp_path: Path) -> None:
    commands = run("codex")
    assert run_hook(commands["UserPromptSubmit"], prompt(tmp_path, "queue")) is None
    assert not Assembly.objects.exists()


def test_the_server_entry_gets_its_header(run: Run, repository: Path) -> None:
    run("claude")
    (repository / "src").mkdir()
    helper = json.loads((repository / ".mcp.json").read_text())["mcpServers"]["contextopt"]["headersHelper"]
    headers = run_hook(helper, {}, repository / "src")
    [file] = (Path.home() / ".config/contextopt/connections").glob("*.key")
    assert headers == {"Authorization": f"Bearer {file.read_text().strip()}"}


def test_a_changed_address_gets_no_key(
    run: Run, repository: Path, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry lies in the repository, where somebody else's commit may lead it elsewhere."""
    run("claude")
    helper = json.loads((repository / ".mcp.json").read_text())["mcpServers"]["contextopt"]["headersHelper"]
    for url, is_given in ((f"{live_server.url}/mcp", True), ("https://evil.example.com/mcp", False)):
        monkeypatch.setenv("CLAUDE_CODE_MCP_SERVER_URL", url)
        assert ("Authorization" in run_hook(helper, {}, repository)) is is_given


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "PostToolUseFailure"])
def test_a_product_that_is_away_is_not_noticed(event: str, run: Run, repository: Path) -> None:
    commands = run("claude", CLOSED)
    (repository / "prices.py").write_text("total = 3\n")
    asked = {**prompt(repository, "queue"), "last_assistant_message": "Decision: x", "error": "E"}
    assert run_hook(commands[event], {**asked, "hook_event_name": event}) is None


def test_a_revoked_key_is_not_noticed(run: Run, repository: Path) -> None:
    commands = run("claude")
    ApiKey.objects.get().revoke()
    answer = run_hook(commands["UserPromptSubmit"], prompt(repository, "queue"))
    assert "From Contextopt" not in answer["hookSpecificOutput"]["additionalContext"]


def test_odd_input_is_not_noticed(run: Run) -> None:
    command = run("claude")["UserPromptSubmit"]
    for text in (b"", b"[]", b"{", b'{"prompt": 5}'):
        ran = subprocess.run(["sh", "-c", command], input=text, capture_output=True, timeout=20, check=False)
        assert (ran.returncode, ran.stderr) == (0, b"")
