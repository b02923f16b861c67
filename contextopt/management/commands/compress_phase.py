"""`manage.py compress_phase TASK [PHASE]`"""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.findings import compress_phase
from contextopt.agents.handoffs.inputs import CompressIn
from contextopt.agents.models import HandoffPhase
from contextopt.management.base import ACTOR, Options
from contextopt.management.handoffs import TaskCommand, find_stored_task


class Command(TaskCommand):
    help = (
        "Compress a phase of a task: critical findings in full and a brief of the rest. If findings were "
        "added, tagged, linked or decided since, this creates a new version. Earlier versions are kept."
    )

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "phase", metavar="PHASE", nargs="?", choices=HandoffPhase.values,
            help="the current phase or an earlier one (default: the current one)",
        )  # fmt: skip
        parser.add_argument("--force", action="store_true", help="compress even if decisions are open")

    def run(self, options: Options) -> int:
        team, task_id = find_stored_task(options)
        data = CompressIn(force=options["force"], phase=options["phase"])
        compress_phase(team_id=team.pk, task_id=task_id, data=data, actor=ACTOR)
        return self.answer(options, team, task_id)
