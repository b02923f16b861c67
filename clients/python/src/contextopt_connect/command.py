"""The command `contextopt`: connect, status, hook and mcp.

Exit codes: 0 done, 1 part of it was left or the person said no, 2 the call cannot be done as given, 130
interrupted.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contextopt_connect import bridge, hook
from contextopt_connect.codingagents import KEY_VARIABLE, TOOLS, Tool
from contextopt_connect.connections import (
    Connection,
    Plan,
    Undone,
    connections_folder,
    list_files,
    plan_connection,
    read_connection,
    read_secret,
    undo_connection,
    write_plan,
)
from contextopt_connect.errors import ConnectError, ServerRefused, UnusableCall, UnusableFile
from contextopt_connect.server import Grant, Server, check_url, find_origin
from contextopt_connect.toolfiles import LEFT, Change

DONE, REJECTED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
MACHINE_CHARS = 60
# Where the rest of a connection is.
OUTSIDE = "The key and the files that the hooks run are in"


def main() -> None:
    arguments = build_parser().parse_args()
    try:
        code = arguments.run(arguments)
    except ConnectError as error:
        print(error, file=sys.stderr)
        code = UNUSABLE
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="contextopt", description="Connects coding agents on this machine to a server of Contextopt."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    connect = commands.add_parser(
        "connect", help="connect a coding agent to a repository's space, or undo it"
    )
    connect.add_argument("tool", metavar="TOOL", choices=sorted(TOOLS), help=", ".join(sorted(TOOLS)))
    connect.add_argument("--code", metavar="CODE", help="connect code from the page Connect")
    connect.add_argument("--url", help="the server's address (default: where this package came from)")
    connect.add_argument("--repository", metavar="DIR", default=".", help="its folder (default: here)")
    connect.add_argument("--space", metavar="SLUG", help="its space (default: that of the code)")
    connect.add_argument("--yes", action="store_true", help="write without asking")
    connect.add_argument("--undo", action="store_true", help="restore the files and revoke the key")
    connect.set_defaults(run=run_connect)
    status = commands.add_parser("status", help="list the connections, and ask each server about its key")
    status.add_argument("--json", action="store_true", help="print JSON only")
    status.set_defaults(run=run_status)
    hooks = commands.add_parser("hook", help="answer an event of a coding agent on standard input")
    hooks.add_argument("event", choices=[*hook.EVENTS, "headers"])
    hooks.add_argument("place", metavar="TOOL", help="a tool, or a connection's file")
    hooks.set_defaults(run=run_hook)
    mcp = commands.add_parser("mcp", help="serve the tools for models (MCP) on standard input and output")
    mcp.add_argument("place", metavar="TOOL", help="a tool, or a connection's file")
    mcp.set_defaults(run=run_mcp)
    return parser


def run_connect(arguments: argparse.Namespace) -> int:
    tool, repository = TOOLS[arguments.tool], Path(arguments.repository)
    if arguments.undo:
        return report_undone(tool, undo_connection(tool, repository))
    url = check_url(arguments.url or find_origin() or _missing("--url", "is needed: the server's address"))
    code = arguments.code or _missing("--code", f"is needed. {url}/connect/ makes one.")
    plan = plan_connection(tool=tool, repository=repository, url=url, space=arguments.space or "")
    show_changes(plan.changes)
    print(f"\n{OUTSIDE} {plan.place.file.parent.parent}, which only you can read.", file=sys.stderr)
    if not arguments.yes and not agrees("Write these changes?"):
        print("Nothing was changed.", file=sys.stderr)
        return REJECTED
    server = Server(url, tool.name)
    grant = server.redeem(code, tool.name, platform.node()[:MACHINE_CHARS])
    plan = make_connection(plan.in_space(arguments.space or grant["space"]), server, grant)
    print(f"{tool.label} is connected to the space {plan.space!r} of {grant['team']}.")
    if tool.wants_variable:
        exported = f'export {KEY_VARIABLE}="$(cat {plan.key_file})"'
        print(f"For the tools, add this line to your shell's profile:\n  {exported}")
    print(f"{tool.next_step} {url}/connect/?key={grant['key_id']} shows the first request.")
    return DONE


def make_connection(plan: Plan, server: Server, grant: Grant) -> Plan:
    """Write the connection. If that fails, the key is revoked."""
    try:
        server.check_space(grant["key"], plan.space)
        write_plan(plan, key_id=grant["key_id"], secret=grant["key"])
    except (ConnectError, OSError) as error:
        server.revoke(grant["key"])
        if isinstance(error, ServerRefused) and error.status == 404:
            raise UnusableCall("--space", f"the key reaches no space {plan.space!r}") from error
        if isinstance(error, OSError):
            raise UnusableFile(f"{error.filename or plan.place.file}: {error.strerror}") from error
        raise
    return plan


def report_undone(tool: Tool, undone: Undone) -> int:
    """Say what became of the files, and revoke the key."""
    for path, outcome in undone.outcomes.items():
        real = os.path.realpath(path)
        print(f"{path}: {outcome}" + ("" if real == path else f". It leads to {real}"))
    code = DONE if LEFT.isdisjoint(undone.outcomes.values()) else REJECTED
    try:
        Server(undone.url, tool.name).revoke(undone.secret)
    except ServerRefused as error:
        if error.status == 401:
            print(f"{tool.label} is no longer connected. Its key was revoked already.")
            return code
        print(f"{tool.label} is no longer connected, but its key is still valid: {error}", file=sys.stderr)
        print(f"Revoke key {undone.key_id} on the page Keys.", file=sys.stderr)
        return REJECTED
    print(f"{tool.label} is no longer connected. Its key is revoked.")
    return code


def run_status(arguments: argparse.Namespace) -> int:
    rows = [describe(file) for file in list_files()]
    if arguments.json:
        print(json.dumps(rows))
    else:
        print("\n".join(map(status_line, rows)) or "Nothing is connected on this machine.")
    return DONE if all(row["problem"] is None for row in rows) else REJECTED


def describe(file: Path) -> dict[str, Any]:
    """Return a connection with the state of its key."""
    connection: Connection | None = read_connection(file)
    assert connection is not None
    problem = None
    try:
        Server(connection["url"], connection["tool"]).read_key(read_secret(file))
    except ServerRefused as error:
        problem = "its key was revoked or has expired" if error.status == 401 else str(error)
    kept = {name: connection[name] for name in ("tool", "repository", "space", "url", "key_id")}
    return {**kept, "problem": problem}


def status_line(row: dict[str, Any]) -> str:
    state = row["problem"] or "connected"
    return f"{row['tool']:8} {row['repository']}  space {row['space']} at {row['url']}: {state}"


def run_hook(arguments: argparse.Namespace) -> int:
    try:
        hook.main(arguments.event, arguments.place, str(connections_folder()))
    except hook.FAULTS:
        # Whatever fails, the agent goes on.
        return DONE
    return DONE


def run_mcp(arguments: argparse.Namespace) -> int:
    bridge.main(arguments.place, str(connections_folder()))
    return DONE


def show_changes(changes: Sequence[Change]) -> None:
    for change in changes:
        print(change.diff().rstrip("\n") or f"{change.path}: no change", file=sys.stderr)


def agrees(question: str) -> bool:
    """Ask at the terminal. Raises: UnusableCall: there is none."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UnusableCall("--yes", "is required when the command cannot ask (no terminal)")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _missing(option: str, message: str) -> str:
    raise UnusableCall(option, message)
