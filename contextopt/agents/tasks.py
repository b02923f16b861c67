"""The task that attempts and findings hang on: found among its team's, and held while more is added."""

from django.db.models import QuerySet

from contextopt.agents.models import Task
from contextopt.errors import Conflict, NotFound
from contextopt.locks import hold_team


def find_task(team_id: int, task_id: int) -> Task:
    """Return the team's task.

    Raises:
        NotFound: the team has no such task.
    """
    return _one_of(Task.objects.all(), team_id, task_id)


def lock_task(team_id: int, task_id: int, *, if_closed: str) -> Task:
    """Return the team's open task with its row held until the transaction ends.

    Raises:
        NotFound: the team has no such task.
        Conflict: the task is not open; `if_closed` says what follows from that.
    """
    hold_team(team_id)
    task = _one_of(Task.objects.select_for_update(no_key=True), team_id, task_id)
    if not task.is_open:
        raise Conflict(f"Task {task_id} is {task.state}: {if_closed}.")
    return task


def _one_of(tasks: QuerySet[Task], team_id: int, task_id: int) -> Task:
    task = tasks.filter(team_id=team_id, pk=task_id).first()
    if task is None:
        raise NotFound(f"There is no task {task_id}.")
    return task
