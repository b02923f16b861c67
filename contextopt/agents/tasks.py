"""Finds a team's tasks, and locks one while attempts or findings are added or handed on."""

from contextopt.agents.models import Task
from contextopt.errors import Conflict, InvalidInput
from contextopt.locks import hold_team
from contextopt.lookups import find_one


def find_task(team_id: int, task_id: int) -> Task:
    """Return the team's task.

    Raises:
        NotFound: the team has no such task.
    """
    return find_one(Task.objects.filter(team_id=team_id, pk=task_id), f"task {task_id}")


def check_task(team_id: int, task_id: int | None) -> None:
    """Check that the team has the task that a request names.

    Raises:
        InvalidInput: it has not; `task_id` is the field.
    """
    if task_id is not None and not Task.objects.filter(team_id=team_id, pk=task_id).exists():
        raise InvalidInput.of("task_id", f"there is no task {task_id}")


def hold_task(team_id: int, task_id: int) -> Task:
    """Return the team's task. Its row is locked until the transaction ends.

    Raises:
        NotFound: the team has no such task.
    """
    hold_team(team_id)
    tasks = Task.objects.select_for_update(no_key=True).filter(team_id=team_id, pk=task_id)
    return find_one(tasks, f"task {task_id}")


def lock_task(team_id: int, task_id: int, *, if_closed: str) -> Task:
    """Return the team's open task, as `hold_task`.

    Raises:
        NotFound: the team has no such task.
        Conflict: the task is not open; `if_closed` says what follows from that.
    """
    task = hold_task(team_id, task_id)
    if not task.is_open:
        raise Conflict(f"Task {task_id} is {task.state}: {if_closed}.")
    return task
