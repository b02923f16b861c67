"""The hook as the tools run it: a process of its own, against the running product."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from contextopt_connect import hook
from contextopt_connect.hook import FILE_CHARS, OUTPUT_CHARS, changed_files, join_parts, read_text
from contextopt_connect.sessions import SESSIONS_MAX, Session
from django.core.management import call_command
from django.db.models import F
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly, Kind
from contextopt.gateway.insertion import FENCE
from contextopt.people.models import ApiKey, Team
from contextopt.spaces.models import Record, Space
from memory.memories.models import Memory
from tests import factories
from tests.clients.connect.conftest import git, make_repository
from tests.concurrency import wait_until

CLOSED = "http://127.0.0.1:9"
type Run = Callable[..., Any]


@pytest.fixture
def run(live_server: LiveServer, home: Path, repository: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Connect the repository, and run the command of one of the tool's hooks."""
    Team.objects.ensure_default()
    # The first request loads all pages, which takes longer than a hook waits.
    httpx2.get(f"{live_server.url}/healthz", timeout=60, verify=False)

    def connect(tool: str, url: str = live_server.url, *options: str) -> dict[str, str]:
        made = ["connect", tool, "--repository", str(repository), "--url", url, *options]
        call_command(*made, "--yes", "--json")
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


def text_of(answer: Any) -> str:
    text: str = answer["hookSpecificOutput"]["additionalContext"]
    return text


def sessions() -> list[Path]:
    return sorted((Path.home() / ".config/contextopt/sessions").iterdir())


@pytest.mark.parametrize("tool", ["claude", "codex"])
def test_a_session_gets_each_record_once(tool: str, run: Run, repository: Path) -> None:
    commands = run(tool)
    event = prompt(repository, "why is the queue's lock not free after the deploy?")
    texts = [text_of(run_hook(commands["UserPromptSubmit"], event)) for _ in range(3)]
    assert ["Free the queue's lock before a deploy" in text for text in texts] == [True, False, False]
    first, second, third = Assembly.objects.order_by("pk")
    assert [each.payload.request.get("in_sight", []) for each in (first, second, third)] == [
        [],
        [first.pk],
        [first.pk],
    ]
    other = run_hook(commands["UserPromptSubmit"], {**event, "session_id": "s-2"})
    assert "Free the queue's lock before a deploy" in text_of(other)


@pytest.mark.parametrize(
    ("change", "is_sent_again"),
    [
        ({"hook_event_name": "PreCompact", "trigger": "auto"}, True),
        ({"hook_event_name": "SessionStart", "source": "compact"}, True),
        ({"hook_event_name": "SessionStart", "source": "clear"}, True),
        ({"hook_event_name": "SessionStart", "source": "startup"}, True),
        ({"hook_event_name": "SessionStart", "source": "resume"}, False),
    ],
)
def test_what_a_session_drops_is_sent_again(
    change: dict[str, str], is_sent_again: bool, run: Run, repository: Path
) -> None:
    commands = run("claude")
    event = prompt(repository, "why is the queue's lock not free after the deploy?")
    run_hook(commands["UserPromptSubmit"], event)
    assert run_hook(commands[change["hook_event_name"]], {**event, **change}) is None
    text = text_of(run_hook(commands["UserPromptSubmit"], event))
    assert ("Free the queue's lock before a deploy" in text) is is_sent_again


def test_a_deleted_context_is_forgotten(run: Run, repository: Path) -> None:
    commands = run("claude")
    event = prompt(repository, "why is the queue's lock not free after the deploy?")
    run_hook(commands["UserPromptSubmit"], event)
    wait_until(lambda: Assembly.objects.filter(is_sent=True).exists())
    Assembly.objects.all().delete()
    text = text_of(run_hook(commands["UserPromptSubmit"], event))
    assert "Free the queue's lock before a deploy" in text


def test_the_gateway_recognises_the_context(run: Run, repository: Path) -> None:
    commands = run("claude")
    text = text_of(run_hook(commands["UserPromptSubmit"], prompt(repository, "queue lock deploy")))
    assembly = Assembly.objects.get()
    assert FENCE.findall(text) == [(str(assembly.pk), assembly.sha256[:12])]


def test_a_context_counts_once_it_was_written(run: Run, repository: Path) -> None:
    commands = run("claude")
    event = prompt(repository, "queue lock deploy")
    run_hook(commands["UserPromptSubmit"], event)
    wait_until(lambda: Assembly.objects.filter(is_sent=True).exists())
    # All of it is in sight, so nothing is written.
    run_hook(commands["UserPromptSubmit"], event)
    sent = Assembly.objects.order_by("pk").values_list("is_sent", "awaits_delivery")
    assert list(sent) == [(True, True), (False, True)]


def test_a_context_that_nobody_reads_does_not_count(run: Run, repository: Path) -> None:
    """The tool has gone before the hook could write."""
    command = run("claude")["UserPromptSubmit"]
    read, write = os.pipe()
    os.close(read)
    event = json.dumps(prompt(repository, "queue lock deploy")).encode()
    subprocess.run(["sh", "-c", command], input=event, stdout=write, timeout=20, check=False)
    os.close(write)
    assert not Assembly.objects.get().is_sent
    assert not (Path.home() / ".config/contextopt/sessions").exists()


def test_a_session_is_a_small_private_file(run: Run, repository: Path) -> None:
    commands = run("claude")
    event = prompt(repository, "queue lock deploy")
    event["session_id"] = "../../a b/" + "c" * 300
    run_hook(commands["UserPromptSubmit"], event)
    [file] = sessions()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch(r"[\w-]+\.json", file.name)
    call_command("connect", "claude", "--repository", str(repository), "--undo", "--json")
    assert not (Path.home() / ".config/contextopt").exists()


def test_two_hooks_at_once_lose_nothing(tmp_path: Path) -> None:
    names = ("claude", "shop", "s-1")
    session = "from contextopt_connect.sessions import Session as S"
    code = f"import sys; {session}; S(*sys.argv[2:]).add([int(sys.argv[1])], [])"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(number), str(tmp_path), *names], env=package())
        for number in range(6)
    ]
    assert [each.wait(60) for each in started] == [0] * 6
    assert sorted(Session(str(tmp_path), *names).blocks) == list(range(6))
    assert len(list(tmp_path.iterdir())) == 1


def package() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(hook.__file__).parents[1])}


def test_old_sessions_are_removed(tmp_path: Path) -> None:
    for number in range(SESSIONS_MAX + 5):
        file = tmp_path / f"{number}.json"
        file.write_text("{}")
        os.utime(file, (time.time() - 3_600, time.time() - 3_600 + number))
    os.utime(tmp_path / "7.json", (0, 0))
    Session(str(tmp_path), "claude", "shop", "new").add([1], [])
    left = {file.name for file in tmp_path.iterdir()}
    assert len(left) <= SESSIONS_MAX
    assert f"{SESSIONS_MAX + 4}.json" in left
    assert not {"0.json", "7.json"} & left


@pytest.mark.parametrize("content", ["", "[]", '{"blocks": ["x"]}'])
def test_a_damaged_session_is_a_new_one(content: str, tmp_path: Path) -> None:
    session = Session(str(tmp_path), "claude", "shop", "s-1")
    session.add([1], [2])
    Path(session.file).write_text(content)
    assert Session(str(tmp_path), "claude", "shop", "s-1").blocks == []


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
    certificate = {"sha256": "a" * 64}
    context = {"id": 2**60, "certificate": certificate, "text": "c"}
    context["text"] = "c" * (OUTPUT_CHARS - len(join_parts("shop", context, [])) + 1 - left)
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
def test_a_product_that_is_away_is_told_once_a_session(event: str, run: Run, repository: Path) -> None:
    commands = run("claude", CLOSED)
    (repository / "prices.py").write_text("total = 3\n")
    asked = {**prompt(repository, "queue"), "last_assistant_message": "Decision: x", "error": "E"}
    asked["hook_event_name"] = event
    [notice] = run_hook(commands[event], asked).items()
    assert notice[0] == "systemMessage"
    assert notice[1].startswith(f"Contextopt at {CLOSED} cannot be reached (Connection refused).")
    assert "\n" not in notice[1]
    run_hook(commands["PreCompact"], {**asked, "hook_event_name": "PreCompact"})
    assert run_hook(commands[event], asked) is None
    assert "systemMessage" in run_hook(commands[event], {**asked, "session_id": "s-2"})


def test_cursor_tells_it_in_its_own_way(run: Run, repository: Path) -> None:
    command = run("cursor", CLOSED)["sessionStart"]
    start = {"hook_event_name": "sessionStart", "session_id": "s-1", "cwd": str(repository)}
    assert list(run_hook(command, start)) == ["user_message"]
    assert run_hook(command, start) == {}


def test_a_revoked_key_is_told_once(run: Run, repository: Path) -> None:
    commands = run("codex")
    ApiKey.objects.get().revoke()
    event = prompt(repository, "queue")
    answer = run_hook(commands["UserPromptSubmit"], event)
    assert "refuses this connection's key (401)" in answer["systemMessage"]
    assert run_hook(commands["UserPromptSubmit"], event) == {}


def test_a_missing_space_is_told(run: Run, repository: Path) -> None:
    command = run("claude")["UserPromptSubmit"]
    Space.objects.update(slug="renamed")
    answer = run_hook(command, prompt(repository, "queue"))
    assert "answered 404 for the space 'my-shop'" in answer["systemMessage"]


def test_a_slow_product_is_given_up(run: Run, repository: Path) -> None:
    """The time of the connection holds for the whole hook."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = run("claude", url, "--timeout", "0.5")["UserPromptSubmit"]
        answer = run_hook(command, prompt(repository, "queue"))
    assert "did not answer within 0.5 seconds" in answer["systemMessage"]


def test_odd_input_is_not_noticed(run: Run) -> None:
    command = run("claude")["UserPromptSubmit"]
    for text in (b"", b"[]", b"{", b'{"prompt": 5}'):
        ran = subprocess.run(["sh", "-c", command], input=text, capture_output=True, timeout=20, check=False)
        assert (ran.returncode, ran.stderr) == (0, b"")
