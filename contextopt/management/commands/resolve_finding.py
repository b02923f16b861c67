"""`manage.py resolve_finding TASK FINDING --answer TEXT`"""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.findings import resolve_finding
from contextopt.agents.handoffs.inputs import ResolutionIn
from contextopt.management.base import ACTOR, Options
from contextopt.management.fields import given_fields, parse_input
from contextopt.management.handoffs import TaskCommand, find_stored_task, read_finding


class Command(TaskCommand):
    help = (
        "Answer a finding's decision, or correct its answer. The newest answer is handed on; the others stay."
    )

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument("finding", metavar="FINDING", help="the finding's ID, such as F-003")
        parser.add_argument("--answer", metavar="TEXT", help="the answer")

    def run(self, options: Options) -> int:
        data = parse_input(ResolutionIn, given_fields(ResolutionIn, options))
        team, task_id = find_stored_task(options)
        number = read_finding(options)
        resolve_finding(team_id=team.pk, task_id=task_id, number=number, data=data, actor=ACTOR)
        return self.answer(options, team, task_id)
