"""`manage.py agent_context TASK` or `manage.py agent_context --task TEXT`"""

from pathlib import Path

from django.core.management.base import CommandParser

from contextopt.agents.inputs import AgentContextIn
from contextopt.management.base import ACTOR, DONE, Options, ReportingCommand, team_of
from contextopt.management.documents import read_document
from contextopt.management.fields import add_fields, given_fields, parse_input
from contextopt.management.handoffs import find_named_task
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from memory.steps.inputs import AgentStepIn, StepFailureIn
from memory.steps.step import StepResult, build_step


class Command(ReportingCommand):
    help = (
        "Print everything that an agent needs for one step of a task, as one text within the phase's budget: "
        "tree, manifest, files, memories, records, a strategy hint and the changes since a failed attempt."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "task_id", metavar="TASK", nargs="?", help="number or external ID of a stored task"
        )
        about = {
            "task": "description of a new task, which is stored",
            "phase": "the phase of the task",
            "repository": "name or folder of an indexed repository (default: the task's)",
            "space": "slug of the space whose records may help",
            "as_of": "choose the records as of this date or date-time",
            "budget": "maximum tokens, up to the phase's budget",
        }
        add_fields(parser, AgentStepIn, about, space="--space SPACE")
        parser.add_argument(
            "--file", metavar="CONTEXT.json",
            help="the agent's own full context, as for filter_phase; - is standard input",
        )  # fmt: skip
        parser.add_argument(
            "--failure", metavar="FAILURE.json",
            help="a failed attempt to record: diagnosis, plan, error, and files that changed, by path",
        )  # fmt: skip

    def run(self, options: Options) -> int:
        team = team_of(options)
        given = given_fields(AgentStepIn, options)
        if "task_id" in given:
            given["task_id"] = find_named_task(team, given["task_id"])
        if "repository" in given:
            given["repository"] = name_of(team, given["repository"])
        if options["file"]:
            given["context"] = read_document(AgentContextIn, options["file"])
        if "failure" in given:
            given["failure"] = read_document(StepFailureIn, given["failure"])
        result = build_step(team=team, data=parse_input(AgentStepIn, given), actor=ACTOR)
        self.print_answer(options, result.to_json(), describe_step(result))
        return DONE


def name_of(team: Team, text: str) -> str:
    """Return the name of the repository that was indexed from this folder, or else the text as a name."""
    if "\0" in text or not Path(text).is_dir():
        return text
    folder = str(Path(text).resolve())
    found = Repository.objects.filter(team=team, source=folder).first()
    return found.name if found else text


def describe_step(result: StepResult) -> str:
    """Return the text itself, then what each section took and lost."""
    asked, certificate = result.asked, result.certificate
    saved = "" if result.saved_tokens is None else f", {result.saved_tokens:,} saved"
    logged = "nothing is sent" if result.assembly is None else f"logged as assembly {result.assembly.pk}"
    rows = [
        f"{section.name:20} {section.tokens:>7,} tokens, {section.kept:,} kept, {section.dropped:,} dropped"
        for section in result.sections
    ]
    return "\n".join(
        [
            result.text.rstrip("\n"),
            "",
            *rows,
            f"{certificate.tokens_at_most:,} of {asked.budget:,} tokens ({certificate.encoding}){saved}",
            f"Task {asked.task.pk}, phase {asked.data.phase}, {logged}",
            f"SHA-256 {certificate.sha256}",
            *(f"Warning: {warning}" for warning in result.warnings),
        ]
    ).lstrip("\n")
