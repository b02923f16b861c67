"""The entries that `manage.py connect` writes work against the running server."""

import json
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from contextopt.assemblies.models import Assembly
from contextopt.people.models import ApiKey, Team
from tests.contextopt.connections.conftest import home, repository
from tests.memory.mcp.conftest import Door, text_of

__all__ = ["home", "repository"]


def read_claude(home: Path, repository: Path, exported: str) -> tuple[str, str]:
    """Return the address and the secret as Claude Code finds them: a helper prints the headers."""
    entry = json.loads((repository / ".mcp.json").read_text())["mcpServers"]["contextopt"]
    helper = subprocess.run(
        shlex.split(entry["headersHelper"]), capture_output=True, check=True, cwd=repository
    )
    return entry["url"], json.loads(helper.stdout)["Authorization"].removeprefix("Bearer ")


def read_codex(home: Path, repository: Path, exported: str) -> tuple[str, str]:
    entry = tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["contextopt"]
    assert entry["bearer_token_env_var"] == "CONTEXTOPT_KEY"
    return entry["url"], exported


def read_cursor(home: Path, repository: Path, exported: str) -> tuple[str, str]:
    entry = json.loads((repository / ".cursor" / "mcp.json").read_text())["mcpServers"]["contextopt"]
    header = entry["headers"]["Authorization"].replace("${env:CONTEXTOPT_KEY}", exported)
    return entry["url"], header.removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("tool", "read"), [("claude", read_claude), ("codex", read_codex), ("cursor", read_cursor)]
)
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
