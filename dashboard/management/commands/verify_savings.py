"""`manage.py verify_savings`"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from pydantic import BaseModel, Field

from contextopt.agents.timeline.account import Accounts, verify_account, verify_handoffs
from contextopt.assemblies.corrections import list_corrections
from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.replay.replay import differences_of, replay_last
from contextopt.assemblies.verify import Difference, compare, recompute
from contextopt.engine.wording import listed, plural
from contextopt.inputs import Moment
from contextopt.management.base import (
    DONE,
    REJECTED,
    Options,
    Progress,
    ReportingCommand,
    space_of,
    team_of,
    teams_of,
)
from contextopt.management.fields import add_fields, read_fields
from contextopt.people.models import Team
from dashboard.rollups.verify import count_rollups, verify_costs, verify_rollups
from memory.questions.evaluationresults import count_evaluations, verify_evaluations
from memory.review.verdicts import count_copies, verify_copies

CHUNK = 500
DIFFERENCES_KEPT = 10_000
SOURCES = {
    "assembly": "the payload gives",
    "replay": "the engine gives",
    "task": "its assemblies add up to",
    "rollup": "the log adds up to",
    "cost": "the log's prompts cost",
    "evaluation": "its questions give",
    "vote": "its assembly has",
    "review item": "its assembly has",
    "hand-off": "its versions and findings give",
}
REPLAYS_MAX = 100_000


class Asked(BaseModel):
    """From when on to check, and how many contexts to replay."""

    since: Moment | None = None
    replays: Annotated[int, Field(ge=0, le=REPLAYS_MAX)] = 0


class Command(ReportingCommand):
    help = (
        "Recompute every stored figure from its source and list differences. Figures of assemblies are "
        "recomputed from the stored text and ledger. Without --space and --since, the command also checks "
        "the accounts of tasks, the Overview's sums and costs, the recall on question sets, and the copies "
        "that votes and reviews hold. With --replays, it computes the last contexts again from the records "
        "as they were. It checks all teams, or with --space the default team alone, and changes nothing. "
        "Savings that an upgrade corrected are listed by reason and are no differences."
    )
    team_help = "slug of the only team to check (default: all teams)"
    checked = purged = unreplayable = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--space", metavar="SLUG", help="only assemblies of this space")
        about = {
            "since": "only assemblies logged at or after this date or date-time",
            "replays": "also replay each team's last N contexts",
        }
        add_fields(parser, Asked, about)

    def run(self, options: Options) -> int:
        # A space's slug is unique within its team only.
        self.teams = teams_of(options) if options["space"] is None else [team_of(options)]
        asked = read_fields(Asked, options)
        self.differences: list[dict[str, object]] = []
        self.differing: Counter[str] = Counter()
        self.checked = self.purged = self.unreplayable = 0
        self.counts = dict.fromkeys(("tasks", "rollups", "costs", "evaluations", "ratings", "replays"), 0)
        for team in self.teams:
            self._check_team(team, options["space"], asked)
        self.corrections = list_corrections(self.teams)
        self._answer(options)
        if self.total > len(self.differences):
            self.stderr.write(f"{self.total - len(self.differences):,} more differences are not listed.")
        return REJECTED if self.total else DONE

    @property
    def total(self) -> int:
        return self.differing.total()

    def _check_team(self, team: Team, slug: str | None, asked: Asked) -> None:
        payloads = AssemblyPayload.objects.filter(assembly__team=team).select_related("assembly__config")
        if slug is not None:
            payloads = payloads.filter(assembly__space=space_of(team, slug, field="--space"))
        if asked.since is not None:
            payloads = payloads.filter(assembly__created_at__gte=asked.since)
        self.team = team
        accounts = self._check_assemblies(payloads)
        if slug is None and asked.since is None:
            self.counts["tasks"] += self._check_accounts(accounts, team.pk, payloads)
            self._check_sums(team.pk)
        self._check_replays(team.pk, asked.replays)

    def _check_assemblies(self, payloads: QuerySet[AssemblyPayload]) -> Accounts:
        """Check each assembly; return the accounts of their tasks, added up from the payloads."""
        accounts, progress = Accounts(), Progress(self.stderr)
        for payload in _by_key(payloads):
            self.checked += 1
            self.purged += payload.purged_at is not None
            figures = recompute(payload)
            accounts.add(payload, figures)
            for found in compare(payload, figures):
                self._note("assembly", payload.pk, found)
            checked = plural(self.checked, "assembly", "assemblies")
            progress.show(f"{checked} checked, {plural(self.total, 'difference')}")
        return accounts

    def _check_accounts(self, accounts: Accounts, team_id: int, payloads: QuerySet[AssemblyPayload]) -> int:
        """Check the account of each task; return how many there are.

        One that differs is added up once more, since assemblies may have been logged in the meantime.
        """
        for task_id in accounts.differing(team_id):
            for found in verify_account(task_id, _by_key(payloads.filter(request__task_id=task_id))):
                self._note("task", task_id, found)
        return len(accounts.by_task)

    def _check_sums(self, team_id: int) -> None:
        """Check the figures that pages read without adding up assemblies."""
        for assembly_id, found in verify_handoffs(team_id):
            self._note("hand-off", assembly_id, found)
        for rollup, found in verify_rollups(team_id):
            self._note("rollup", rollup, found)
        costs = verify_costs(team_id)
        for cost, found in costs.differences:
            self._note("cost", cost, found)
        for evaluation_id, found in verify_evaluations(team_id):
            self._note("evaluation", evaluation_id, found)
        for subject, number, found in verify_copies(team_id):
            self._note(subject, number, found)
        self.counts["rollups"] += count_rollups(team_id)
        self.counts["costs"] += costs.checked
        self.counts["evaluations"] += count_evaluations(team_id)
        self.counts["ratings"] += count_copies(team_id)

    def _check_replays(self, team_id: int, last: int) -> None:
        progress = Progress(self.stderr)
        for again in replay_last(team_id, last):
            self.counts["replays"] += again.result is not None
            self.unreplayable += again.result is None
            for found in differences_of(again):
                self._note("replay", again.assembly.pk, found)
            progress.show(f"{plural(self.counts['replays'], 'context')} replayed")

    def _note(self, subject: str, number: int | str, found: Difference) -> None:
        self.differing[self.team.slug] += 1
        if len(self.differences) < DIFFERENCES_KEPT:
            self.differences.append(
                {
                    subject: number,
                    "figure": found.figure,
                    "stored": found.stored,
                    "recomputed": found.recomputed,
                    "team": self.team.slug,
                }
            )

    def how_far(self) -> str:
        return f"Interrupted after {plural(self.checked, 'assembly', 'assemblies')}. Nothing was changed."

    def _answer(self, options: Options) -> None:
        if options["json"]:
            self.print_json(
                {
                    "teams": [team.slug for team in self.teams],
                    "checked": self.checked,
                    "purged": self.purged,
                    **self.counts,
                    "unreplayable": self.unreplayable,
                    "corrections": [each.to_json() for each in self.corrections],
                    "differences": self.differences,
                }
            )
            return
        purged = plural(self.purged, "assembly has", "assemblies have")
        note = f" {purged} purged text, so only the stored numbers were checked." if self.purged else ""
        if self.unreplayable:
            note += f" {plural(self.unreplayable, 'context')} could not be replayed; `replay` says why."
        differ = plural(self.total, "figure differs", "figures differ")
        where = f" in {plural(len(self.teams), 'team')}" if len(self.teams) > 1 else ""
        which = ", ".join(f"{slug} {count:,}" for slug, count in self.differing.items()) if where else ""
        named = f" ({which})" if which else ""
        self.stdout.write(f"{self._all_counted()} checked{where}, {differ}{named}.{note}")
        for each in self.corrections:
            self.stdout.write(f"{each.team}: {each}" if where else str(each))
        for item in self.differences:
            (subject, number), *_ = item.items()
            self.stdout.write(
                f"{f'{item["team"]}: ' if where else ''}{subject} {number}: {item['figure']} is stored as "
                f"{item['stored']}, {SOURCES[subject]} {item['recomputed']}"
            )

    def _all_counted(self) -> str:
        """List how many of each kind were checked, leaving out kinds without any."""
        others = [plural(count, name.removesuffix("s"), name) for name, count in self.counts.items() if count]
        return listed([plural(self.checked, "assembly", "assemblies"), *others])


def _by_key(payloads: QuerySet[AssemblyPayload]) -> Iterator[AssemblyPayload]:
    """Yield the payloads in order of their ids, loading a bounded chunk at a time."""
    last = 0
    while chunk := list(payloads.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        yield from chunk
        last = chunk[-1].pk
