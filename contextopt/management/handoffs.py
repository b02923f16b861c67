"""Commands about a stored task and what its phases hand on."""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.inputs import check_key
from contextopt.agents.handoffs.models import number_of
from contextopt.agents.handoffs.status import PhaseStatus, TaskStatus, task_status
from contextopt.agents.models import Task
from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput, NotFound
from contextopt.inputs import read_digits
from contextopt.management.base import DONE, Options, ReportingCommand, team_of
from contextopt.people.models import Team


class TaskCommand(ReportingCommand):
    """A command about one task; its answer shows the task after the change."""

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("task", metavar="TASK", help="the task's number or external ID")

    def answer(self, options: Options, team: Team, task_id: int) -> int:
        """Print the task and return the exit code."""
        status = task_status(team_id=team.pk, task_id=task_id)
        self.print_answer(options, status.to_json(), describe_task(status))
        return DONE


def find_stored_task(options: Options) -> tuple[Team, int]:
    """Return the team and the task that the options name.

    Raises:
        InvalidInput: there is no such team.
        NotFound: the team has no such task.
    """
    team = team_of(options)
    return team, find_named_task(team, str(options["task"]))


def find_named_task(team: Team, name: str, *, field: str = "TASK") -> int:
    """Return the number of the task that has this external ID, or else this number.

    Raises:
        InvalidInput: the name cannot be one.
        NotFound: the team has no such task.
    """
    if "\x00" in name:
        raise InvalidInput.of(field, "contains a NUL character")
    tasks = Task.objects.of(team)
    found = tasks.filter(external_id=name).first() if name else None
    if found is None:
        found = tasks.filter(pk=read_digits(name) or 0).first()
    if found is None:
        raise NotFound(
            f"{field}: there is no task {name!r:.80}; create one with POST /api/v1/tasks"
            " or add_finding --create"
        )
    return found.pk


def read_finding(options: Options) -> int:
    """Return the number of the finding that the options name.

    Raises:
        InvalidInput: it cannot be one.
    """
    try:
        return number_of(check_key(options["finding"]))
    except ValueError as error:
        raise InvalidInput.of("FINDING", str(error)) from error


def describe_task(status: TaskStatus) -> str:
    task = status.task
    lines = [
        f"Task {task.pk}: {task.description.splitlines()[0][:100]}",
        f"Phase {task.phase}, {task.state}",
        "",
    ]
    for phase in status.phases:
        lines.append(_describe_phase(phase))
        compression = phase.compression
        if compression and compression.critical:
            lines.append(f"  critical: {', '.join(compression.critical_findings)}")
        if compression and compression.brief:
            lines += [f"  {line}" for line in compression.brief.splitlines()]
    lines += [f"Warning: {warning}" for warning in status.warnings]
    return "\n".join(lines)


def _describe_phase(phase: PhaseStatus) -> str:
    found = f"{phase.phase.label}: {plural(phase.findings, 'finding')}, {phase.findings_tokens:,} tokens"
    compression = phase.compression
    if compression is None:
        return found
    return (
        f"{found}; handed on as {compression.tokens_after:,} of {compression.tokens_before:,} tokens"
        f" (brief {compression.brief_tokens:,}, {len(compression.critical)} critical"
        f"{f', version {compression.version:,}' if compression.version > 1 else ''})"
    )
