"""The entries of each coding agent, in the form that its documentation publishes.

Sources: Claude Code, "Hooks reference" and "Connect Claude Code to tools via MCP"; Codex, "Hooks" and
"Configuration reference"; Cursor, "Hooks" and "Model Context Protocol".
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from contextopt_connect.product import TIMEOUT_SECONDS
from contextopt_connect.realfiles import own_folder
from contextopt_connect.taskends import TOOLS as TOOLS_NOTED
from contextopt_connect.toolfiles import Change, Entry, plan_json, plan_toml

SERVER = "contextopt"
# How much longer a tool waits for a hook than the hook for its server.
SPARE_SECONDS = 5
KEY_VARIABLE = "CONTEXTOPT_KEY"
# Hooks of Claude Code and Codex. A session that begins, or that is cleared or compacted, holds no contexts.
EVENTS = (
    ("SessionStart", "session"),
    ("UserPromptSubmit", "prompt"),
    ("PreCompact", "session"),
    ("Stop", "answer"),
)
BEGIN, END = "# contextopt: begin", "# contextopt: end"
# Environments such as pipx's are temporary. The files that run need no packages, so any Python will do.
PYTHON = getattr(sys, "_base_executable", "") or sys.executable
# -I and -S: neither the environment nor installed packages are read, which halves the start.
OPTIONS = ("-I", "-S", "-B")
# In files that may be committed: the same text on every machine.
EVERYWHERE = '"${XDG_CONFIG_HOME:-$HOME/.config}/contextopt/contextopt_connect/hook.py"'


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connection is made: the repository, the server's address, and the files of the person's own.

    `file` is the connection's, `program` the folder of the files that hooks run, and `timeout_seconds` how
    long a hook waits for the server.
    """

    repository: Path
    url: str
    file: Path
    program: Path
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def hook_seconds(self) -> int:
        """The seconds after which the tool ends a hook."""
        return ceil(self.timeout_seconds) + SPARE_SECONDS

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    def hook_command(self, event: str, place: str) -> str:
        return shlex.join([PYTHON, *OPTIONS, str(self.program / "hook.py"), event, place])


def everywhere_command(event: str, tool: str) -> str:
    """Return a hook's command for a file that may be committed. It names no folder of this machine."""
    return " ".join(["python3", *OPTIONS, EVERYWHERE, event, tool])


def plan_claude(place: Place) -> list[Change]:
    """The server for the repository, and hooks in the settings that Claude Code keeps out of git."""
    helper = everywhere_command("headers", "claude")
    server = {"type": "http", "url": place.mcp_url, "headersHelper": helper}
    return [
        plan_json(place.repository, ".mcp.json", [Entry(("mcpServers", SERVER), server)]),
        plan_json(
            place.repository,
            ".claude/settings.local.json",
            [
                *(_hook(name, event, place, str(place.file)) for name, event in EVENTS),
                _hook("PostToolUseFailure", "failure", place, str(place.file), matcher="Bash"),
                _hook("PostToolUse", "step", place, str(place.file), matcher="|".join(TOOLS_NOTED)),
            ],
        ),
    ]


def plan_codex(place: Place) -> list[Change]:
    """The user's settings: they serve all repositories, so the hooks find theirs by the session's folder."""
    home = own_folder(os.environ.get("CODEX_HOME"), ".codex")
    arguments = [*OPTIONS, str(place.program / "bridge.py"), "codex"]
    server = {SERVER: {"command": PYTHON, "args": arguments}}
    if (home / "hooks.json").exists():
        # Codex warns about hooks in both files.
        return [
            plan_toml(home, "config.toml", _codex_block(arguments, []), {"mcp_servers": server}),
            plan_json(home, "hooks.json", [_hook(name, event, place, "codex") for name, event in EVENTS]),
        ]
    added = {name: [{"hooks": [_command(event, place, "codex")]}] for name, event in EVENTS}
    block = _codex_block(arguments, [_codex_hook(name, event, place) for name, event in EVENTS])
    return [plan_toml(home, "config.toml", block, {"mcp_servers": server, "hooks": added})]


def plan_cursor(place: Place) -> list[Change]:
    """The server and hooks of the project, which may be committed."""
    server = {"url": place.mcp_url, "headers": {"Authorization": f"Bearer ${{env:{KEY_VARIABLE}}}"}}
    hooks = [
        Entry(("hooks", name), {"command": everywhere_command(event, "cursor")}, is_item=True)
        for name, event in (("sessionStart", "prompt"), ("afterAgentResponse", "answer"))
    ]
    return [
        plan_json(place.repository, ".cursor/mcp.json", [Entry(("mcpServers", SERVER), server)]),
        plan_json(place.repository, ".cursor/hooks.json", hooks, base={"version": 1}),
    ]


@dataclass(frozen=True, slots=True)
class Tool:
    """A coding agent. `wants_variable`: its server entry reads the key from the environment."""

    name: str
    label: str
    plan: Callable[[Place], list[Change]]
    wants_variable: bool
    next_step: str


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "claude",
            "Claude Code",
            plan_claude,
            wants_variable=False,
            next_step="Start Claude Code in the repository and allow the server contextopt.",
        ),
        Tool(
            "codex",
            "Codex",
            plan_codex,
            wants_variable=False,
            next_step="Start Codex in the repository and trust the hooks with /hooks.",
        ),
        Tool(
            "cursor",
            "Cursor",
            plan_cursor,
            wants_variable=True,
            next_step="Open the repository in Cursor and enable the server contextopt in its settings.",
        ),
    )
}


def _command(event: str, place: Place, connection: str) -> dict[str, Any]:
    command = place.hook_command(event, connection)
    return {"type": "command", "command": command, "timeout": place.hook_seconds}


def _hook(name: str, event: str, place: Place, connection: str, matcher: str = "") -> Entry:
    group: dict[str, Any] = {"matcher": matcher} if matcher else {}
    return Entry(("hooks", name), {**group, "hooks": [_command(event, place, connection)]}, is_item=True)


def _codex_hook(name: str, event: str, place: Place) -> str:
    command = toml_text(place.hook_command(event, "codex"))
    return (
        f"[[hooks.{name}]]\n[[hooks.{name}.hooks]]\n"
        f'type = "command"\ncommand = {command}\ntimeout = {place.hook_seconds}\n'
    )


def _codex_block(arguments: Sequence[str], hooks: Sequence[str]) -> str:
    listed = ", ".join(map(toml_text, arguments))
    server = f"[mcp_servers.{SERVER}]\ncommand = {toml_text(PYTHON)}\nargs = [{listed}]\n"
    note = f"{BEGIN} (contextopt connect codex --undo removes this part)\n"
    return "".join([note, "\n".join([server, *hooks]), f"{END}\n"])


def toml_text(text: str) -> str:
    """Return a basic string of TOML: as in JSON, but DEL must be escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
