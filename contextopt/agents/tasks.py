"""Adds a team's tasks, finds them, and locks one while attempts or findings are added or handed on."""

from django.db import transaction

from contextopt.agents.inputs import TaskIn, present
from contextopt.agents.models import Task, files_expiry
from contextopt.agents.receivers import store_receiver_files
from contextopt.engine.agents.deltas import fully_sent
from contextopt.errors import Conflict, InvalidInput
from contextopt.locks import hold_team
from contextopt.people.models import Team
from contextopt.sql import find_one


def create_task(*, team: Team, data: TaskIn, actor: str) -> Task:
    """Add a task. Its files are what the receiver is sent in full for the first attempt.

    Raises:
        Conflict: the team has a task with this external id.
    """
    fields = {
        "description": data.description,
        "repository": data.repository,
        "created_by": actor,
        "expires_at": files_expiry(),
    }
    with transaction.atomic():
        if data.external_id:
            task, is_new = Task.objects.get_or_create(
                team=team, external_id=data.external_id, defaults=fields
            )
            if not is_new:
                raise Conflict(f"Task {task.pk} already has the external_id {data.external_id!r}.")
        else:
            task = Task.objects.create(team=team, **fields)
        store_receiver_files(task, data.receiver, {}, fully_sent(present(data.files)))
    return task


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
