"""`manage.py verify_savings`"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from pydantic import BaseModel

from contextopt.agents.timeline.verify import Accounts, verify_account
from contextopt.assemblies.verify import Difference, compare, recompute
from contextopt.inputs import Moment
from contextopt.management.base import (
    DONE,
    REJECTED,
    Progress,
    ReportingCommand,
    parse_input,
    space_of,
    team_of,
)
from contextopt.models import AssemblyPayload, Team

CHUNK = 500
DIFFERENCES_KEPT = 10_000


class Since(BaseModel):
    since: Moment | None = None


class Command(ReportingCommand):
    help = (
        "Recompute every stored figure of the logged assemblies from the stored text and ledger, and list "
        "differences. Without --space and --since, also check that the account of each task is the sum of "
        "its assemblies. Nothing is changed."
    )
    checked = total = purged = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--space", metavar="SLUG", help="only assemblies of this space")
        parser.add_argument(
            "--since", metavar="MOMENT", help="only assemblies logged at or after this date or date-time"
        )

    def run(self, options: Mapping[str, Any]) -> int:
        team = team_of(options)
        payloads = self._payloads(options, team)
        self.differences: list[dict[str, object]] = []
        self.total = self.checked = self.purged = 0
        accounts = self._check_assemblies(payloads)
        is_whole = options["space"] is None and options["since"] is None
        self.tasks = self._check_accounts(accounts, team.pk, payloads) if is_whole else 0
        self._answer(options)
        if self.total > len(self.differences):
            self.stderr.write(f"{self.total - len(self.differences):,} more differences are not listed.")
        return REJECTED if self.total else DONE

    def _check_assemblies(self, payloads: QuerySet[AssemblyPayload]) -> Accounts:
        """Check each assembly; return the accounts of their tasks as the payloads add up to."""
        accounts, progress = Accounts(), Progress(self.stderr)
        for payload in _by_key(payloads):
            self.checked += 1
            self.purged += payload.purged_at is not None
            figures = recompute(payload)
            accounts.add(payload, figures)
            for found in compare(payload, figures):
                self._note("assembly", payload.pk, found)
            progress.show(f"{self.checked:,} assemblies checked, {self.total:,} differences")
        return accounts

    def _check_accounts(self, accounts: Accounts, team_id: int, payloads: QuerySet[AssemblyPayload]) -> int:
        """Check the account of each task; return how many there are.

        One that differs is added up once more, since assemblies may have been logged meanwhile.
        """
        for task_id in accounts.differing(team_id):
            for found in verify_account(task_id, _by_key(payloads.filter(request__task_id=task_id))):
                self._note("task", task_id, found)
        return len(accounts.by_task)

    def _note(self, subject: str, number: int, found: Difference) -> None:
        self.total += 1
        if len(self.differences) < DIFFERENCES_KEPT:
            self.differences.append(
                {
                    subject: number,
                    "figure": found.figure,
                    "stored": found.stored,
                    "recomputed": found.recomputed,
                }
            )

    def how_far(self) -> str:
        return f"Interrupted after {self.checked:,} assemblies. Nothing was changed."

    def _payloads(self, options: Mapping[str, Any], team: Team) -> QuerySet[AssemblyPayload]:
        payloads = AssemblyPayload.objects.filter(assembly__team=team).select_related("assembly")
        if options["space"] is not None:
            payloads = payloads.filter(assembly__space=space_of(team, options["space"], field="--space"))
        since = parse_input(Since, {"since": options["since"]}).since
        return payloads.filter(assembly__created_at__gte=since) if since else payloads

    def _answer(self, options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.print_json(
                {
                    "checked": self.checked,
                    "purged": self.purged,
                    "tasks": self.tasks,
                    "differences": self.differences,
                }
            )
            return
        tasks = f" and {_counted(self.tasks, 'task')}" if self.tasks else ""
        self.stdout.write(
            f"{_counted(self.checked, 'assembly')}{tasks} checked, {len(self.differences):,} figures differ."
            + (
                f" Of {self.purged:,} the text was purged: only their numbers were checked."
                if self.purged
                else ""
            )
        )
        for item in self.differences:
            (subject, number), *_ = item.items()
            source = "the payload gives" if subject == "assembly" else "its assemblies add up to"
            self.stdout.write(
                f"{subject} {number}: {item['figure']} is stored as {item['stored']}, "
                f"{source} {item['recomputed']}"
            )


def _counted(count: int, noun: str) -> str:
    plural = {"assembly": "assemblies"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _by_key(payloads: QuerySet[AssemblyPayload]) -> Iterator[AssemblyPayload]:
    """Yield the payloads in order of their ids, loading a bounded chunk at a time."""
    last = 0
    while chunk := list(payloads.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        yield from chunk
        last = chunk[-1].pk
