"""`manage.py compress_phase TASK`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from contextopt.findinginputs import CompressIn
from contextopt.handoffs import compress_phase
from contextopt.management.base import ACTOR, DONE
from contextopt.management.handoffs import TaskCommand, find_stored_task
from contextopt.tasks import schedule_brief


class Command(TaskCommand):
    help = "Compress the findings of a task's present phase: critical ones whole, a brief of the rest."

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument("--force", action="store_true", help="though decisions are open")

    def run(self, options: Mapping[str, Any]) -> int:
        team, task_id = find_stored_task(options)
        data = CompressIn(force=options["force"])
        schedule_brief(compress_phase(team_id=team.pk, task_id=task_id, data=data, actor=ACTOR))
        self.answer(options, team, task_id)
        return DONE
