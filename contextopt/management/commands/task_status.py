"""`manage.py task_status TASK`"""

from contextopt.management.base import Options
from contextopt.management.handoffs import TaskCommand, find_stored_task


class Command(TaskCommand):
    help = "Show a task: its phase, findings, hand-offs and their tokens."

    def run(self, options: Options) -> int:
        team, task_id = find_stored_task(options)
        return self.answer(options, team, task_id)
