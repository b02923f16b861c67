"""`manage.py advance_phase TASK`"""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.findings import advance_phase
from contextopt.agents.handoffs.inputs import AdvanceIn
from contextopt.agents.models import HandoffPhase
from contextopt.management.base import ACTOR, Options
from contextopt.management.handoffs import TaskCommand, find_stored_task


class Command(TaskCommand):
    help = "Compress the current phase of a task and advance to the next: analysis, design, implementation."

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument("--force", action="store_true", help="advance even if decisions are open")
        parser.add_argument("--to", choices=HandoffPhase.values, help="fail unless this is the next phase")

    def run(self, options: Options) -> int:
        team, task_id = find_stored_task(options)
        data = AdvanceIn(force=options["force"], to=options["to"])
        advance_phase(team_id=team.pk, task_id=task_id, data=data, actor=ACTOR)
        return self.answer(options, team, task_id)
