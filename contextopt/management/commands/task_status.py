"""`manage.py task_status TASK`"""

from collections.abc import Mapping
from typing import Any

from contextopt.management.handoffs import TaskCommand, find_stored_task


class Command(TaskCommand):
    help = "Show a task: its phase, findings, hand-offs and their tokens."

    def run(self, options: Mapping[str, Any]) -> int:
        team, task_id = find_stored_task(options)
        return self.answer(options, team, task_id)
