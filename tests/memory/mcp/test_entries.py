"""The entries that `manage.py connect` writes work against the running server."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from mcp import Client, StdioServerParameters

from contextopt.assemblies.models import Assembly
from contextopt.people.models import ApiKey, Team
from tests.clients.connect.conftest import home, repository
from tests.concurrency import in_own_loop
from tests.memory.mcp.conftest import MODES, Door, text_of

__all__ = ["home", "repository"]


def read_claude(home: Path, repository: Path, exported: str) -> tuple[str, str]:
    """Return the address and the secret as Claude Code finds them: a helper prints the headers."""
    entry = json.loads((repository / ".mcp.json").read_text())["mcpServers"]["contextopt"]
    helper = subprocess.run(
        ["sh", "-c", entry["headersHelper"]], capture_output=True, check=True, cwd=repository
    )
    return entry["url"], json.loads(helper.stdout)["Authorization"].removeprefix("Bearer ")


def read_cursor(home: Path, repository: Path, exported: str) -> tuple[str, str]:
    entry = json.loads((repository / ".cursor" / "mcp.json").read_text())["mcpServers"]["contextopt"]
    header = entry["headers"]["Authorization"].replace("${env:CONTEXTOPT_KEY}", exported)
    return entry["url"], header.removeprefix("Bearer ")


@pytest.mark.parametrize(("tool", "read"), [("claude", read_claude), ("cursor", read_cursor)])
def test_an_entry_works(
    tool: str, read: Callable[[Path, Path, str], tuple[str, str]],
    address: str, home: Path, repository: Path, team: Team,
) -> None:  # fmt: skip
    call_command(
        "connect", tool, "--repository", str(repository), "--url", address, "--team", team.slug, "--yes"
    )
    [key_file] = (home / ".config" / "contextopt" / "connections").glob("*.key")
    url, secret = read(home, repository, key_file.read_text().strip())
    assert url == f"{address}/mcp"
    door = Door("http", "2026-07-28", secret, address)
    answer = door.call("get_context", space="my-shop", query="Why does a deploy hang?")
    assert text_of(answer).startswith(f"Context {Assembly.objects.get().pk}:")
    assert "mcp" in ApiKey.objects.get().ways


@pytest.mark.parametrize("mode", MODES)
def test_codex_starts_a_bridge(
    mode: str, address: str, home: Path, repository: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It speaks both revisions, and needs no variable with the key."""
    call_command(
        "connect", "codex", "--repository", str(repository), "--url", address, "--team", team.slug, "--yes"
    )
    entry = tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["contextopt"]
    server = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=repository, env={})

    async def story() -> tuple[str, bool]:
        async with Client(server, mode=mode) as client:
            found = await client.call_tool("get_context", {"space": "my-shop", "query": "Why does it hang?"})
            wrong = await client.call_tool("get_context", {"space": "my-shop", "max_tokens": 1})
            return text_of(found), bool(wrong.is_error)

    text, is_error = in_own_loop(story())
    assert text.startswith(f"Context {Assembly.objects.get().pk}:") and is_error
    assert list(ApiKey.objects.get().ways) == ["codex"]


def test_a_bridge_passes_on_that_the_key_is_wrong(
    address: str, home: Path, repository: Path, team: Team
) -> None:
    call_command(
        "connect", "codex", "--repository", str(repository), "--url", address, "--team", team.slug, "--yes"
    )
    entry = tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["contextopt"]
    ApiKey.objects.get().revoke()
    asked = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
    ran = subprocess.run(
        [entry["command"], *entry["args"]], input=f"{asked}\n", capture_output=True, check=True, text=True,
        cwd=repository, timeout=30,
    )  # fmt: skip
    answer = json.loads(ran.stdout)
    assert answer["id"] == 7 and "401" in answer["error"]["message"]
