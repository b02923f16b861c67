"""`manage.py add_finding TASK FILE.json`"""

from django.core.management.base import CommandParser
from django.db import transaction

from contextopt.agents.handoffs.findings import add_finding
from contextopt.agents.handoffs.inputs import FindingIn
from contextopt.agents.inputs import TaskIn
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import create_task
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, Options, team_of
from contextopt.management.documents import read_document
from contextopt.management.fields import parse_input
from contextopt.management.handoffs import TaskCommand, find_stored_task
from contextopt.people.models import Team


class Command(TaskCommand):
    help = (
        "Add a finding to the current phase of a task, or to an earlier one. FILE.json is an object with "
        "category, content (an object) and optionally phase, tags, confidence (0 to 1), depends_on (ids), "
        "implementation_ready and decision (open or resolved)."
    )

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        parser.add_argument("file", metavar="FILE.json", help="- is standard input")
        parser.add_argument(
            "--phase", choices=HandoffPhase.values,
            help="the current phase or an earlier one (default: the phase in FILE.json, or the current one)",
        )  # fmt: skip
        parser.add_argument(
            "--create",
            metavar="TEXT",
            help="create the task with this description if the external ID TASK is new",
        )

    def run(self, options: Options) -> int:
        data = read_document(FindingIn, options["file"])
        if phase := options["phase"]:
            if data.phase not in {None, phase}:
                raise InvalidInput.of("--phase", f"FILE.json says {data.phase}")
            data = data.model_copy(update={"phase": phase})
        # Create no task if the finding is refused.
        with transaction.atomic():
            team, task_id = _find_or_create(options)
            finding = add_finding(team_id=team.pk, task_id=task_id, data=data, actor=ACTOR)
        if not options["json"]:
            self.stdout.write(f"{finding.key} added, {finding.tokens:,} tokens.")
        return self.answer(options, team, task_id)


def _find_or_create(options: Options) -> tuple[Team, int]:
    description, name = options["create"], options["task"]
    if description is None:
        return find_stored_task(options)
    team = team_of(options)
    known = Task.objects.of(team).filter(external_id=name).first()
    if known is not None:
        return team, known.pk
    values = {"description": description, "external_id": name}
    data = parse_input(TaskIn, values, {"description": "--create", "external_id": "TASK"})
    return team, create_task(team=team, data=data, actor=ACTOR).pk
