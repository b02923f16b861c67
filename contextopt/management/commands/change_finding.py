"""`manage.py change_finding TASK FINDING`"""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.findings import change_finding
from contextopt.agents.handoffs.inputs import FindingPatch
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, Options
from contextopt.management.fields import given_fields, parse_input
from contextopt.management.handoffs import TaskCommand, find_stored_task, read_finding


class Command(TaskCommand):
    help = (
        "Change a finding's tags or dependencies. Its content stays the same. Each option replaces the "
        "previous value; an empty value removes it."
    )

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument("finding", metavar="FINDING", help="the finding's ID, such as F-003")
        parser.add_argument(
            "--tags", metavar="NAMES", help="comma-separated; critical hands the finding on in full"
        )
        parser.add_argument("--depends-on", metavar="IDS", help="comma-separated")

    def run(self, options: Options) -> int:
        given = {
            name: [part for each in text.split(",") if (part := each.strip())]
            for name, text in given_fields(FindingPatch, options).items()
        }
        if not given:
            raise InvalidInput.of("--tags", "give --tags, --depends-on or both")
        data = parse_input(FindingPatch, given)
        team, task_id = find_stored_task(options)
        number = read_finding(options)
        change_finding(team_id=team.pk, task_id=task_id, number=number, data=data, actor=ACTOR)
        return self.answer(options, team, task_id)
