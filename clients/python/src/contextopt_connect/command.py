"""The command `contextopt`: connect, status, hook and mcp.

Exit codes: 0 done, 1 part of it was left or the person said no, 2 the call cannot be done as given, 130
interrupted.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from contextopt_connect import bridge, hook
from contextopt_connect.codingagents import KEY_VARIABLE, TOOLS
from contextopt_connect.connections import (
    Connection,
    Plan,
    Undone,
    connection_file,
    connections_folder,
    find_root,
    gateway_file,
    key_file,
    list_files,
    plan_connection,
    read_connection,
    read_secret,
    undo,
    write_all,
    write_plan,
)
from contextopt_connect.errors import (
    AlreadyConnected,
    ConnectError,
    NotConnected,
    ServerRefused,
    UnusableCall,
    UnusableFile,
)
from contextopt_connect.gateways import ROUTES, GatewayPlace, Route, check_prompt
from contextopt_connect.product import TIMEOUT_SECONDS
from contextopt_connect.server import Gateway, Grant, Server, check_url, find_origin
from contextopt_connect.toolfiles import LEFT, Change

DONE, REJECTED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
WRONG_KEY, NOT_FOUND = 401, 404
MACHINE_CHARS = 60
NO_TERMINAL = "is required when the command cannot ask (no terminal)"
WRITE = "Write these changes?"
# Shown in place of a key.
HIDDEN = "ctx_…"
TIMEOUT_HELP = f"how long a hook waits for the server (default: {TIMEOUT_SECONDS:g})"
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
    names = sorted(TOOLS.keys() | ROUTES.keys())
    connect.add_argument("tool", metavar="TOOL", choices=names, help=", ".join(names))
    connect.add_argument(
        "--gateway", action="store_true", help="send the prompts of all its sessions through the gateway"
    )
    connect.add_argument("--code", metavar="CODE", help="connect code from the page Connect")
    connect.add_argument("--url", help="the server's address (default: where this package came from)")
    connect.add_argument("--repository", metavar="DIR", default=".", help="its folder (default: here)")
    connect.add_argument("--space", metavar="SLUG", help="its space (default: that of the code)")
    connect.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=TIMEOUT_SECONDS, help=TIMEOUT_HELP
    )
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
    if arguments.undo:
        return run_undo(arguments)
    if arguments.gateway:
        return connect_gateway(arguments)
    if arguments.tool not in TOOLS:
        raise UnusableCall("--gateway", f"is needed, since {ROUTES[arguments.tool].label} has no hooks")
    tool, repository = TOOLS[arguments.tool], Path(arguments.repository)
    url = check_url(arguments.url or find_origin() or _missing("--url", "is needed: the server's address"))
    code = arguments.code or _missing("--code", f"is needed. {url}/connect/ makes one.")
    plan = plan_connection(
        tool=tool,
        repository=repository,
        url=url,
        space=arguments.space or "",
        timeout_seconds=arguments.timeout,
    )
    show_changes(plan.changes)
    print(f"\n{OUTSIDE} {plan.place.file.parent.parent}, which only you can read.", file=sys.stderr)
    if not arguments.yes and not agrees(WRITE):
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


def connect_gateway(arguments: argparse.Namespace) -> int:
    """Exchange a code for a key, and send a tool's prompts through the gateway."""
    route = find_route(arguments.tool)
    url = check_url(arguments.url or find_origin() or _missing("--url", "is needed: the server's address"))
    code = arguments.code or _missing("--code", f"is needed. {url}/connect/ makes one.")
    if not arguments.yes and not is_terminal():
        raise UnusableCall("--yes", NO_TERMINAL)
    server = Server(url, arguments.tool)
    grant = server.redeem(code, arguments.tool, platform.node()[:MACHINE_CHARS])
    try:
        space = arguments.space or grant["space"]
        server.check_space(grant["key"], space)
        place = gateway_place(arguments.tool, grant["gateway"], grant["key"], space)
        print(check_prompt(place))
        is_agreed = write_gateway(
            arguments.tool,
            place,
            url=url,
            key_id=grant["key_id"],
            agrees=lambda: arguments.yes or agrees(WRITE),
        )
    except BaseException:
        server.revoke(grant["key"])
        raise
    if not is_agreed:
        server.revoke(grant["key"])
        print("Nothing was changed.", file=sys.stderr)
        return REJECTED
    print(f"The prompts of {route.label} go through the gateway, with the space {space!r}.")
    print(f"Start a new session. {url}/connect/?key={grant['key_id']} shows the first request.")
    return DONE


def find_route(tool: str) -> Route:
    """Return how a tool reaches the gateway, after a look at its files.

    Raises:
        UnusableCall: it has no such way.
        AlreadyConnected: it is connected.
        UnusableFile: a file cannot be changed.
    """
    if tool not in ROUTES:
        raise UnusableCall("--gateway", f"is not available for {TOOLS[tool].label}")
    route, file = ROUTES[tool], gateway_file(tool)
    if file.exists():
        message = f"{route.label} is already connected to the gateway. Run the command with --undo first."
        raise AlreadyConnected(message)
    # A file that cannot be changed should not cost a code or a key.
    route.plan(GatewayPlace("http://gateway", route.protocols, HIDDEN, "space", key_file(file)))
    return route


def gateway_place(tool: str, gateway: Gateway, secret: str, space: str) -> GatewayPlace:
    """Raises: ServerRefused: the gateway is off, or has no provider for the tool."""
    served = ROUTES[tool].served(gateway)
    return GatewayPlace(gateway["url"], served, secret, space, key_file(gateway_file(tool)))


def write_gateway(
    tool: str, place: GatewayPlace, *, url: str, key_id: int, agrees: Callable[[], bool]
) -> bool:
    """Show the changes and write them. Return whether the person agreed."""
    changes = ROUTES[tool].plan(place)
    show_changes(changes, place.secret)
    print(f"\nThe key is in {place.key_file}, which only you can read.", file=sys.stderr)
    if not agrees():
        return False
    connection = Connection(
        tool=tool,
        repository="",
        name="",
        space=place.space,
        url=url,
        key_id=key_id,
        key_file=str(place.key_file),
        files=[change.kept() for change in changes if not change.is_none],
    )
    try:
        write_all(gateway_file(tool), connection, place.secret, changes)
    except OSError as error:
        raise UnusableFile(f"{error.filename or place.key_file}: {error.strerror}") from error
    return True


def run_undo(arguments: argparse.Namespace) -> int:
    """Undo the tool's connections, or with `--gateway` that one alone.

    Raises:
        NotConnected: there is none.
    """
    files = made_connections(arguments.tool, Path(arguments.repository), is_gateway=arguments.gateway)
    return max([report_undone(arguments.tool, file, undo(file)) for file in files])


def made_connections(tool: str, repository: Path, *, is_gateway: bool) -> list[Path]:
    """Return the files of a tool's connections, or that of the gateway alone, in the order to undo them.

    Raises:
        NotConnected: there is none.
    """
    files = [gateway_file(tool)] if tool in ROUTES else []
    if not is_gateway and tool in TOOLS:
        files.append(connection_file(tool, find_root(repository)))
    # Both may have changed the same file, so the last one is undone first.
    made = sorted((file for file in files if file.exists()), key=lambda file: file.stat().st_mtime_ns)
    if not made:
        where = " to the gateway" if is_gateway or tool not in TOOLS else " here"
        raise NotConnected(f"{label_of(tool)} is not connected{where}.")
    return made[::-1]


def report_undone(tool: str, file: Path, undone: Undone) -> int:
    """Say what became of the files, and revoke the key."""
    where = " to the gateway" if file == gateway_file(tool) else ""
    state = f"{label_of(tool)} is no longer connected{where}"
    for path, outcome in undone.outcomes.items():
        real = os.path.realpath(path)
        print(f"{path}: {outcome}" + ("" if real == path else f". It leads to {real}"))
    code = DONE if LEFT.isdisjoint(undone.outcomes.values()) else REJECTED
    try:
        Server(undone.url, tool).revoke(undone.secret)
    except ServerRefused as error:
        if error.status == WRONG_KEY:
            print(f"{state}. Its key was revoked already.")
            return code
        print(f"{state}, but its key is still valid: {error}", file=sys.stderr)
        print(f"Revoke key {undone.key_id} on the page Settings.", file=sys.stderr)
        return REJECTED
    print(f"{state}. Its key is revoked.")
    return code


def label_of(tool: str) -> str:
    return TOOLS[tool].label if tool in TOOLS else ROUTES[tool].label


def run_status(arguments: argparse.Namespace) -> int:
    rows = [describe(file) for file in list_files()]
    if arguments.json:
        print(json.dumps(rows))
    else:
        print("\n".join(map(status_line, rows)) or "Nothing is connected on this machine.")
    return DONE if all(row["problem"] is None for row in rows) else REJECTED


def describe(file: Path) -> dict[str, Any]:
    """Return a connection with the state of its key."""
    connection = read_connection(file)
    problem = None
    try:
        Server(connection["url"], connection["tool"]).read_key(read_secret(file))
    except ServerRefused as error:
        problem = "its key was revoked or has expired" if error.status == 401 else str(error)
    shown = ("tool", "repository", "space", "url", "key_id")
    kept = {name: value for name, value in connection.items() if name in shown}
    return {**kept, "problem": problem}


def status_line(row: dict[str, Any]) -> str:
    state = row["problem"] or "connected"
    place = row["repository"] or "gateway"
    return f"{row['tool']:8} {place}  space {row['space']} at {row['url']}: {state}"


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


def show_changes(changes: Sequence[Change], secret: str = "") -> None:
    """Print what changes. A key is not shown."""
    for change in changes:
        shown = change.diff().rstrip("\n") or f"{change.path}: no change"
        print(shown.replace(secret, HIDDEN) if secret else shown, file=sys.stderr)


def agrees(question: str) -> bool:
    """Ask at the terminal. Raises: UnusableCall: there is none."""
    if not is_terminal():
        raise UnusableCall("--yes", NO_TERMINAL)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _missing(option: str, message: str) -> str:
    raise UnusableCall(option, message)
