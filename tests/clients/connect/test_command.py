"""The command `contextopt` as people run it: installed from the wheel alone, against the running product."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from contextopt.assemblies.models import Assembly
from contextopt.people.connectcodes import make_code
from contextopt.people.inputs import CodeIn
from contextopt.people.models import ApiKey, Role, Team, User
from contextopt.spaces.models import Space
from tests import factories
from tests.clients.connect.conftest import snapshot, write

type Run = Callable[..., subprocess.CompletedProcess[str]]
TOOLS = ["claude", "codex", "cursor"]


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def person(team: Team) -> User:
    return factories.make_user("edda", team, Role.EDITOR)


@pytest.fixture
def code(team: Team, person: User, space: Space) -> str:
    return make_code(team=team, user=person, data=CodeIn(space=space.slug))[1]


@pytest.fixture
def run(installed: Path, home: Path, repository: Path) -> Run:
    """Run the installed command in the repository. Nothing of this checkout is on its path."""

    def start(*arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-S",
                "-c",
                f"import sys; sys.path.append({str(installed)!r}); {START}",
                *arguments,
            ],
            capture_output=True,
            check=False,
            cwd=repository,
            env={"HOME": str(home), "PATH": os.environ["PATH"], **variables},
            input=given,
            text=True,
            timeout=60,
        )

    return start


START = "from contextopt_connect.command import main; main()"


def connect(run: Run, server: LiveServer, tool: str, code: str, *options: str) -> str:
    ran = run("connect", tool, "--url", server.url, "--code", code, "--yes", *options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refuse(run: Run, words: str, *arguments: str, code: int = 2) -> None:
    ran = run("connect", *arguments)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert re.search(words, ran.stderr), ran.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_connecting_and_undoing_leaves_every_byte(
    tool: str, run: Run, live_server: LiveServer, code: str, home: Path, repository: Path, space: Space
) -> None:
    write(repository / ".mcp.json", '{"mcpServers": {"other": {"command": "x"}}}')
    write(home / ".codex/config.toml", 'model = "m"')
    before = snapshot(home, repository)
    told = connect(run, live_server, tool, code)
    key = ApiKey.objects.get()
    assert f"connected to the space {space.slug!r}" in told and f"/connect/?key={key.pk}" in told
    assert json.loads(run("status", "--json").stdout) == [
        {
            "tool": tool,
            "repository": str(repository),
            "space": space.slug,
            "url": live_server.url,
            "key_id": key.pk,
            "problem": None,
        }
    ]
    # Neither of these is a request of the tool.
    key.refresh_from_db()
    assert key.ways == {}
    undone = run("connect", tool, "--undo")
    assert undone.returncode == 0 and "Its key is revoked." in undone.stdout
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert snapshot(home, repository) == before
    assert not (home / ".config/contextopt").exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_only_the_person_can_read_the_key(
    tool: str, run: Run, live_server: LiveServer, code: str, home: Path, repository: Path
) -> None:
    told = connect(run, live_server, tool, code)
    [file] = (home / ".config/contextopt/connections").glob("*.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text().strip()
    holders = [path for path, content in snapshot(home, repository).items() if secret.encode() in content]
    assert holders == [str(file)] and secret not in told


@pytest.mark.parametrize(("tool", "committed"), [("claude", [".mcp.json"]), ("cursor", [".cursor"])])
def test_what_may_be_committed_names_no_machine(
    tool: str, committed: list[str], run: Run, live_server: LiveServer, code: str, repository: Path
) -> None:
    connect(run, live_server, tool, code)
    found = snapshot(*(repository / name for name in committed)) or {
        name: (repository / name).read_bytes() for name in committed
    }
    text = b"".join(found.values()).decode()
    assert "contextopt" in text
    assert str(Path.home()) not in text and sys.base_prefix not in text and str(repository) not in text


@pytest.mark.parametrize("tool", ["claude", "codex"])
def test_the_hook_runs_without_the_package(
    tool: str, run: Run, live_server: LiveServer, code: str, home: Path, repository: Path, space: Space
) -> None:
    connect(run, live_server, tool, code)
    command = re.search(
        r'"?command"?\s*[:=] "(.+hook\.py prompt .+)"',
        (
            repository / ".claude/settings.local.json" if tool == "claude" else home / ".codex/config.toml"
        ).read_text(),
    )
    assert command is not None
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "Why is the queue stuck?", "session_id": "s"}
    ran = subprocess.run(
        ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", "sh", "-c", json.loads(f'"{command[1]}"')],
        input=json.dumps({**event, "cwd": str(repository)}).encode(),
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert "kept their lock" in json.loads(ran.stdout)["hookSpecificOutput"]["additionalContext"]
    assert Assembly.objects.get().space == space
    assert list(ApiKey.objects.get().ways) == [tool]
    # The installed command does the same.
    same = run("hook", "prompt", tool, given=json.dumps({**event, "session_id": "t"}))
    assert "kept their lock" in same.stdout


def test_a_code_is_asked_for(run: Run, live_server: LiveServer) -> None:
    refuse(run, rf"--code: is needed. {live_server.url}/connect/", "claude", "--url", live_server.url)
    refuse(run, "--url: is needed", "claude", "--code", "x")


def test_a_code_that_was_used(
    run: Run, live_server: LiveServer, code: str, home: Path, repository: Path
) -> None:
    connect(run, live_server, "claude", code)
    before = snapshot(home, repository)
    again = ["codex", "--url", live_server.url, "--code", code, "--yes"]
    refuse(run, "It works once, for 15 minutes", *again)
    assert snapshot(home, repository) == before
    assert ApiKey.objects.count() == 1


def test_a_code_is_never_sent_in_clear(run: Run, home: Path, repository: Path) -> None:
    """The name leads nowhere, so the command must have refused before it asked for its address."""
    options = ["--url", "http://contextopt.invalid", "--code", "0000-0000", "--yes"]
    refuse(run, "--url: must begin with https://", "claude", *options)
    assert not (repository / ".mcp.json").exists()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_is_away(scheme: str, run: Run, repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ["--url", f"{scheme}://127.0.0.1:{port}", "--code", "0000-0000", "--yes"]
    refuse(run, "cannot be reached: .*refused", "claude", *options)
    assert not (repository / ".mcp.json").exists()


def test_a_space_out_of_reach_takes_everything_back(
    run: Run, live_server: LiveServer, code: str, home: Path, repository: Path
) -> None:
    before = snapshot(home, repository)
    options = ["--url", live_server.url, "--code", code, "--space", "nowhere", "--yes"]
    refuse(run, "--space: the key reaches no space 'nowhere'", "claude", *options)
    assert snapshot(home, repository) == before
    assert ApiKey.objects.get().revoked_at is not None


def test_a_file_that_cannot_be_changed_costs_no_code(
    run: Run, live_server: LiveServer, code: str, repository: Path
) -> None:
    write(repository / ".mcp.json", "{oops")
    options = ["--url", live_server.url, "--code", code, "--yes"]
    refuse(run, "is not valid JSON", "claude", *options)
    (repository / ".mcp.json").unlink()
    connect(run, live_server, "claude", code)


def test_a_link_out_costs_no_code(
    run: Run, live_server: LiveServer, code: str, repository: Path, tmp_path: Path
) -> None:
    (repository / ".mcp.json").symlink_to(tmp_path / "elsewhere")
    options = ["--url", live_server.url, "--code", code, "--yes"]
    refuse(run, f"leads through a link to {tmp_path / 'elsewhere'}", "claude", *options)
    assert not (tmp_path / "elsewhere").exists() and not ApiKey.objects.exists()


def test_without_a_terminal_it_asks_for_yes(run: Run, live_server: LiveServer, code: str) -> None:
    refuse(run, "--yes: is required", "claude", "--url", live_server.url, "--code", code)
    assert not ApiKey.objects.exists()


def test_undo_without_the_server_says_that_the_key_is_valid(
    run: Run, live_server: LiveServer, code: str, home: Path, repository: Path
) -> None:
    before = snapshot(home, repository)
    connect(run, live_server, "claude", code)
    [file] = (home / ".config/contextopt/connections").glob("*.json")
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "url": "http://127.0.0.1:9"}))
    undone = run("connect", "claude", "--undo")
    assert undone.returncode == 1
    assert f"Revoke key {ApiKey.objects.get().pk}" in undone.stderr
    assert snapshot(home, repository) == before


def test_status_names_a_revoked_key(run: Run, live_server: LiveServer, code: str) -> None:
    assert run("status").stdout == "Nothing is connected on this machine.\n"
    connect(run, live_server, "claude", code)
    ApiKey.objects.get().revoke()
    ran = run("status")
    assert ran.returncode == 1 and "its key was revoked or has expired" in ran.stdout
    # Undoing works all the same.
    assert "was revoked already" in run("connect", "claude", "--undo").stdout


def speak(run: Run, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Start the bridge, send it these messages, and return its answers."""
    ran = run("mcp", "codex", given="".join(f"{json.dumps(each)}\n" for each in messages))
    assert ran.returncode == 0, ran.stderr
    return sorted((json.loads(line) for line in ran.stdout.splitlines()), key=lambda each: each["id"])


def test_the_bridge_without_a_connection(run: Run) -> None:
    ran = run("mcp", "codex")
    assert ran.returncode == 1 and "not connected to codex" in ran.stderr


def test_the_bridge_says_that_the_server_is_away(
    run: Run, live_server: LiveServer, code: str, home: Path
) -> None:
    connect(run, live_server, "codex", code)
    [file] = (home / ".config/contextopt/connections").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "url": "http://127.0.0.1:9"}))
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    [answer] = speak(run, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, notification)
    assert "cannot be reached at http://127.0.0.1:9" in answer["error"]["message"]
