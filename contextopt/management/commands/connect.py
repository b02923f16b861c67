"""`manage.py connect TOOL`"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from contextopt_connect.codingagents import KEY_VARIABLE, TOOLS
from contextopt_connect.command import (
    HIDDEN,
    TIMEOUT_HELP,
    WRITE,
    find_route,
    gateway_place,
    label_of,
    made_connections,
    write_gateway,
)
from contextopt_connect.connections import Plan, gateway_file, plan_connection, undo, write_plan
from contextopt_connect.errors import ConnectError, UnusableCall
from contextopt_connect.gateways import ROUTES, GatewayPlace, check_prompt
from contextopt_connect.product import TIMEOUT_SECONDS
from contextopt_connect.server import Gateway, check_url
from contextopt_connect.toolfiles import LEFT, Outcome
from django.conf import settings
from django.core.management.base import CommandParser

from contextopt.engine.text.cleaning import flatten_to
from contextopt.errors import Conflict, InvalidInput
from contextopt.limits import NAME_MAX
from contextopt.management.base import ACTOR, DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.fields import parse_input
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key, revoke_key
from contextopt.people.models import ApiKey, Team, hash_key
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.pipeline import ImportReport, ensure_space, import_rows
from contextopt.spaces.importing.rows import UnusableSource
from contextopt.spaces.inputs import SpaceIn
from contextopt.spaces.models import Space

ADDRESS = "http://127.0.0.1:8000"
COMMITS_MAX = 2_000


class Command(ReportingCommand):
    help = (
        "Connect a coding agent to a repository's space: its server entry and hooks, in its own files. "
        "Shows every change and asks before it writes. The agent then gets a context with each prompt, and "
        "its decisions are remembered."
    )
    is_connected = False

    def add_options(self, parser: CommandParser) -> None:
        tools = sorted(TOOLS.keys() | ROUTES.keys())
        parser.add_argument("target", metavar="TOOL", choices=tools, help=", ".join(tools))
        parser.add_argument(
            "--repository", metavar="DIR", default=".", help="folder of the repository (default: here)"
        )
        parser.add_argument(
            "--space",
            metavar="SLUG",
            help="its space, created if missing (default: the repository's name; needed with --gateway)",
        )
        parser.add_argument(
            "--gateway",
            action="store_true",
            help="send the tool's own prompts through the gateway, in all repositories",
        )
        parser.add_argument("--url", metavar="URL", default=ADDRESS, help=f"Contextopt's address ({ADDRESS})")
        parser.add_argument(
            "--timeout", metavar="SECONDS", type=float, default=TIMEOUT_SECONDS, help=TIMEOUT_HELP
        )
        parser.add_argument(
            "--yes", action="store_true", help="write without asking, and import the commits of a new space"
        )
        parser.add_argument("--undo", action="store_true", help="restore the files and revoke the key")

    def run(self, options: Options) -> int:
        with product_errors():
            return self._run(options)

    def _run(self, options: Options) -> int:
        if options["undo"]:
            return self._undo(options)
        asked = options["space"] or ""
        if asked:
            parse_input(SpaceIn, {"slug": asked}, {"slug": "--space"})
        if options["gateway"]:
            return self._connect_gateway(options)
        if options["target"] not in TOOLS:
            raise UnusableCall("--gateway", f"is needed, since {label_of(options['target'])} has no hooks")
        tool, repository = TOOLS[options["target"]], Path(options["repository"])
        plan = plan_connection(
            tool=tool,
            repository=repository,
            url=check_url(options["url"]),
            space=asked,
            timeout_seconds=options["timeout"],
        )
        if options["json"] and not options["yes"]:
            self.print_json(plan_json(plan))
            return DONE
        for change in plan.changes:
            self.stderr.write(change.diff().rstrip("\n") or f"{change.path}: no change")
        self.stderr.write(
            f"\nSpace {plan.space!r}, created if it is missing. A key for this connection, kept in "
            f"{plan.key_file}, which only you can read."
        )
        if not options["yes"] and not self._agrees(WRITE):
            self.stderr.write("Nothing was changed.")
            return REJECTED
        return self._connect(plan, options)

    def how_far(self) -> str:
        if not self.is_connected:
            return super().how_far()
        return "Interrupted. The tool is connected. Import the missing commits with import_git."

    def _agrees(self, question: str) -> bool:
        if sys.stdin is None or not sys.stdin.isatty():
            raise InvalidInput.of("--yes", "is required when the command cannot ask (no terminal)")
        self.stderr.write(f"{question} [y/N] ", ending="")
        self.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def _connect(self, plan: Plan, options: Options) -> int:
        key, space = make_connection(plan, team_of(options))
        self.is_connected = True
        report = self._import(plan, space, options)
        if options["json"]:
            answer = {**plan_json(plan), "written": True, "key_id": key.pk}
            self.print_json({**answer, "imported": report.created if report else 0})
            return DONE
        self.stdout.write(f"{plan.tool.label} is connected to the space {space.slug!r}.")
        if report:
            self.stdout.write(f"Commits: {report}.")
        if plan.tool.wants_variable:
            self.stdout.write(
                f"For the tools, add this line to your shell's profile:\n"
                f'  export {KEY_VARIABLE}="$(cat {plan.key_file})"'
            )
        self.stdout.write(
            f"{plan.tool.next_step} {plan.place.url}/connect/?key={key.pk} shows the first request."
        )
        return DONE

    def _connect_gateway(self, options: Options) -> int:
        """Send a tool's prompts through the gateway, after one has passed it."""
        name, slug, url = options["target"], options["space"], check_url(options["url"])
        route = find_route(name)
        if not slug:
            raise InvalidInput.of("--space", "is needed with --gateway, since it serves all repositories")
        gateway = local_gateway()
        if options["json"] and not options["yes"]:
            self.print_json(gateway_json(name, gateway_place(name, gateway, HIDDEN, slug), is_written=False))
            return DONE
        gateway_place(name, gateway, HIDDEN, slug)
        key, secret = make_key(team_of(options), f"{route.label}: gateway", [slug])
        place, is_written = gateway_place(name, gateway, secret, slug), False
        try:
            self.stderr.write(check_prompt(place))
            is_written = write_gateway(
                name,
                place,
                url=url,
                key_id=key.pk,
                agrees=lambda: options["yes"] or self._agrees(WRITE),
            )
        finally:
            if not is_written:
                revoke_key(key=key, actor=ACTOR)
        if not is_written:
            self.stderr.write("Nothing was changed.")
            return REJECTED
        if options["json"]:
            self.print_json({**gateway_json(name, place, is_written=True), "key_id": key.pk})
            return DONE
        self.stdout.write(f"The prompts of {route.label} go through the gateway, with the space {slug!r}.")
        self.stdout.write(f"Start a new session. {url}/connect/?key={key.pk} shows the first request.")
        return DONE

    def _import(self, plan: Plan, space: Space, options: Options) -> ImportReport | None:
        """Offer the repository's commits to an empty space, so that its contexts are not empty."""
        if space.records.exists():
            return None
        rows = read_commits(str(plan.place.repository), limit=COMMITS_MAX)
        try:
            first = next(rows, None)
        except UnusableSource:
            self.stderr.write(f"The space {space.slug!r} has no records yet. See import_records.")
            return None
        question = f"The space is empty. Import the last {COMMITS_MAX:,} commits?"
        if first is None or not (options["yes"] or self._agrees(question)):
            return None
        report, progress = ImportReport(), Progress(self.stderr)
        import_rows(
            space=space,
            rows=chain([first], rows),
            actor=ACTOR,
            report=report,
            on_batch=lambda done: progress.show(str(done)),
        )
        return report

    def _undo(self, options: Options) -> int:
        name = options["target"]
        files = made_connections(name, Path(options["repository"]), is_gateway=options["gateway"])
        outcomes: dict[str, Outcome] = {}
        for file in files:
            undone = undo(file)
            outcomes |= undone.outcomes
            # A connection to another server has a key of that number too.
            keys = list(ApiKey.objects.filter(pk=undone.key_id, secret_hash=hash_key(undone.secret)))
            for key in keys:
                revoke_key(key=key, actor=ACTOR)
            if not options["json"]:
                where = " to the gateway" if file == gateway_file(name) else ""
                state = "Its key is revoked." if keys else f"Revoke its key {undone.key_id} at {undone.url}."
                self._report(undone.outcomes, f"{label_of(name)} is no longer connected{where}. {state}")
        if options["json"]:
            self.print_json({"target": name, "undone": True, "files": outcomes})
        return DONE if LEFT.isdisjoint(outcomes.values()) else REJECTED

    def _report(self, outcomes: dict[str, Outcome], state: str) -> None:
        for path, outcome in outcomes.items():
            real = os.path.realpath(path)
            self.stdout.write(f"{path}: {outcome}" + ("" if real == path else f". It leads to {real}"))
        self.stdout.write(state)


@contextmanager
def product_errors() -> Iterator[None]:
    """Turn errors of the client package into the product's, which name the option at fault."""
    try:
        yield
    except UnusableCall as error:
        raise InvalidInput.of(error.option, error.message) from error
    except ConnectError as error:
        raise Conflict(str(error)) from error


def make_connection(plan: Plan, team: Team) -> tuple[ApiKey, Space]:
    """Make the space and the key, and write the files. If one cannot be written, the key is revoked."""
    space = ensure_space(team=team, slug=plan.space, actor=ACTOR)
    key, secret = make_key(team, f"{plan.tool.label}: {plan.name}")
    try:
        write_plan(plan, key_id=key.pk, secret=secret)
    except (ConnectError, OSError):
        revoke_key(key=key, actor=ACTOR)
        raise
    return key, space


def make_key(team: Team, name: str, spaces: list[str] | None = None) -> tuple[ApiKey, str]:
    """Make a key, and the spaces that it is limited to."""
    for slug in spaces or ():
        ensure_space(team=team, slug=slug, actor=ACTOR)
    data = KeyIn(name=flatten_to(name, NAME_MAX), scope="write", spaces=spaces)
    return create_key(team=team, data=data, actor=ACTOR)


def local_gateway() -> Gateway:
    """Return the gateway of this installation, as its settings describe it."""
    host, port = settings.GATEWAY_HOST, settings.GATEWAY_PORT
    # All addresses of the machine include its own.
    own = "127.0.0.1" if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host  # noqa: S104
    return {
        "url": f"http://{own}:{port}" if port else "",
        "openai": bool(port and settings.LLM_BASE_URL),
        "anthropic": bool(port and settings.ANTHROPIC_BASE_URL),
    }


def gateway_json(tool: str, place: GatewayPlace, *, is_written: bool) -> dict[str, Any]:
    """Return a gateway's connection, without its key."""
    answer = {"target": tool, "space": place.space, "url": place.gateway, "written": is_written}
    changes = [] if is_written else ROUTES[tool].plan(place)
    files = [{"path": str(each.path), "is_new": each.before is None, "diff": each.diff()} for each in changes]
    return {**answer, "key_file": str(place.key_file), "files": files}


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "target": plan.tool.name,
        "repository": str(plan.place.repository),
        "space": plan.space,
        "url": plan.place.url,
        "key_file": str(plan.key_file),
        "written": False,
        "files": [
            {"path": str(each.path), "is_new": each.before is None, "diff": each.diff()}
            for each in plan.changes
        ],
    }
