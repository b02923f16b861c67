"""`manage.py explain ASSEMBLY`"""

from django.core.management.base import CommandParser

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.replay.explanation import Explanation, explain_record, find_expected
from contextopt.management.base import DONE, Options, ReportingCommand, team_of
from contextopt.management.ledgertext import PARTS
from contextopt.spaces.models import Record
from contextopt.sql import find_one


class Command(ReportingCommand):
    help = (
        "Explain what a logged context did with a record: which step lost it, or the rank at which it "
        "was kept. Nothing is changed."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("assembly", metavar="ASSEMBLY", type=int, help="ID of the assembly")
        parser.add_argument(
            "--expect", metavar="RECORD", required=True,
            help="the record: its ID, or SOURCE:EXTERNAL_ID",
        )  # fmt: skip

    def run(self, options: Options) -> int:
        team, assembly_id = team_of(options), options["assembly"]
        rows = Assembly.objects.of(team).for_replay()
        assembly = find_one(rows.filter(pk=assembly_id), f"assembly {assembly_id}")
        records = Record.objects.filter(space__team=team).select_related("space")
        record = find_expected(assembly, options["expect"], records, field="--expect")
        explained = explain_record(assembly, record)
        self.print_answer(options, explained.to_json(), describe(explained))
        return DONE


def describe(explained: Explanation) -> str:
    """Return the explanation in a few lines."""
    record = explained.record
    lines = [
        f"record {record.pk}: {record.title[:80]}",
        f"{explained.step.replace('_', ' ')}: {explained.message}",
    ]
    if explained.parts:
        parts = ", ".join(
            f"{PARTS[name][0]} {value:{PARTS[name][1]}}" for name, value in explained.parts.items()
        )
        lines.append(f"score parts: {parts}")
    return "\n".join(lines)
