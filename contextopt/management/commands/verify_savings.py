"""`manage.py verify_savings`"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from pydantic import BaseModel

from contextopt.assemblies.verify import verify_assembly
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
from contextopt.models import AssemblyPayload

CHUNK = 500
DIFFERENCES_KEPT = 10_000


class Since(BaseModel):
    since: Moment | None = None


class Command(ReportingCommand):
    help = (
        "Recompute every stored figure of the logged assemblies from the stored text and ledger, and list "
        "differences. Nothing is changed."
    )
    checked = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--space", metavar="SLUG", help="only assemblies of this space")
        parser.add_argument(
            "--since", metavar="MOMENT", help="only assemblies logged at or after this date or date-time"
        )

    def run(self, options: Mapping[str, Any]) -> int:
        payloads = self._payloads(options)
        progress = Progress(self.stderr)
        differences: list[dict[str, object]] = []
        total = self.checked = purged = 0
        for payload in _by_key(payloads):
            self.checked += 1
            purged += payload.purged_at is not None
            for found in verify_assembly(payload):
                total += 1
                if len(differences) < DIFFERENCES_KEPT:
                    differences.append(
                        {
                            "assembly": payload.pk,
                            "figure": found.figure,
                            "stored": found.stored,
                            "recomputed": found.recomputed,
                        }
                    )
            progress.show(f"{self.checked:,} assemblies checked, {total:,} differences")
        self._answer(options, differences, purged)
        if total > len(differences):
            self.stderr.write(f"{total - len(differences):,} more differences are not listed.")
        return REJECTED if total else DONE

    def how_far(self) -> str:
        return f"Interrupted after {self.checked:,} assemblies. Nothing was changed."

    def _payloads(self, options: Mapping[str, Any]) -> QuerySet[AssemblyPayload]:
        team = team_of(options)
        payloads = AssemblyPayload.objects.filter(assembly__team=team).select_related("assembly")
        if options["space"] is not None:
            payloads = payloads.filter(assembly__space=space_of(team, options["space"], field="--space"))
        since = parse_input(Since, {"since": options["since"]}).since
        return payloads.filter(assembly__created_at__gte=since) if since else payloads

    def _answer(self, options: Mapping[str, Any], differences: list[dict[str, object]], purged: int) -> None:
        if options["json"]:
            self.print_json({"checked": self.checked, "purged": purged, "differences": differences})
            return
        self.stdout.write(
            f"{self.checked:,} {'assembly' if self.checked == 1 else 'assemblies'} checked, "
            f"{len(differences):,} figures differ."
            + (f" Of {purged:,} the text was purged: only their numbers were checked." if purged else "")
        )
        for item in differences:
            self.stdout.write(
                f"assembly {item['assembly']}: {item['figure']} is stored as {item['stored']}, "
                f"the payload gives {item['recomputed']}"
            )


def _by_key(payloads: QuerySet[AssemblyPayload]) -> Iterator[AssemblyPayload]:
    """Yield the payloads in order of their ids, loading a bounded chunk at a time."""
    last = 0
    while chunk := list(payloads.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        yield from chunk
        last = chunk[-1].pk
