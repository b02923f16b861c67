"""`manage.py connect TOOL`"""

import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import CommandParser

from contextopt.connections.codingagents import KEY_VARIABLE, TOOLS, Tool
from contextopt.connections.connect import Plan, make_connection, plan_connection, undo_connection
from contextopt.connections.toolfiles import LEFT
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.fields import parse_input
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.pipeline import ImportReport, import_rows
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
        parser.add_argument("target", metavar="TOOL", choices=sorted(TOOLS), help=", ".join(sorted(TOOLS)))
        parser.add_argument(
            "--repository", metavar="DIR", default=".", help="folder of the repository (default: here)"
        )
        parser.add_argument(
            "--space", metavar="SLUG", help="its space, created if missing (default: the repository's name)"
        )
        parser.add_argument("--url", metavar="URL", default=ADDRESS, help=f"Contextopt's address ({ADDRESS})")
        parser.add_argument(
            "--yes", action="store_true", help="write without asking, and import the commits of a new space"
        )
        parser.add_argument("--undo", action="store_true", help="restore the files and revoke the key")

    def run(self, options: Options) -> int:
        tool, repository = TOOLS[options["target"]], Path(options["repository"])
        if options["undo"]:
            return self._undo(tool, repository, options)
        asked = options["space"] or ""
        if asked:
            parse_input(SpaceIn, {"slug": asked}, {"slug": "--space"})
        plan = plan_connection(tool=tool, repository=repository, url=check_url(options["url"]), space=asked)
        if options["json"] and not options["yes"]:
            self.print_json(plan_json(plan))
            return DONE
        for change in plan.changes:
            self.stderr.write(change.diff().rstrip("\n") or f"{change.path}: no change")
        self.stderr.write(
            f"\nSpace {plan.space!r}, created if it is missing. A key for this connection, kept in "
            f"{plan.key_file}, which only you can read."
        )
        if not options["yes"] and not self._agrees("Write these changes?"):
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
        key, space = make_connection(plan, team=team_of(options), actor=ACTOR)
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
        self.stdout.write(f"{plan.tool.next_step} {plan.place.url}/connect/ shows the first request.")
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

    def _undo(self, tool: Tool, repository: Path, options: Options) -> int:
        outcomes = undo_connection(tool, repository, actor=ACTOR)
        if options["json"]:
            self.print_json({"target": tool.name, "undone": True, "files": outcomes})
        else:
            for path, outcome in outcomes.items():
                real = os.path.realpath(path)
                self.stdout.write(f"{path}: {outcome}" + ("" if real == path else f". It leads to {real}"))
            self.stdout.write(f"{tool.label} is no longer connected. Its key is revoked.")
        return DONE if LEFT.isdisjoint(outcomes.values()) else REJECTED


def check_url(text: str) -> str:
    """Return an address of a server, without a slash at its end.

    Raises:
        InvalidInput: it is not an address, or has a user, a query or a fragment.
    """
    if not text.isprintable() or set(text) & set(" ?#") or not _is_address(text):
        raise InvalidInput.of("--url", "must be an address such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.username is None
            and parts.port != 0
        )
    except ValueError:
        # An unpaired bracket, or an invalid port.
        return False


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
