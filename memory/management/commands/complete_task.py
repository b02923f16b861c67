"""`manage.py complete_task FILE.json`"""

from collections.abc import Mapping
from functools import partial

from django.core.management.base import CommandParser

from contextopt.management.base import ACTOR, DONE, REJECTED, Options, ReportingCommand, team_of
from contextopt.management.documents import read_document
from contextopt.management.handoffs import find_named_task
from contextopt.people.models import Team
from memory.strategies.inputs import CompletionIn
from memory.strategies.reports import CompletionResult, complete_task


class Command(ReportingCommand):
    help = (
        "End a task and learn from it. FILE.json is an object with task_id (a number or external ID) or "
        "description, outcome (completed by default, failed or impossible), quality_score (0 to 10, required "
        "if completed), and any of repository, plan, attempts [{step_index, action, result, error}], "
        "total_attempts, files_changed, model, decisions, error_patterns. "
        "Exit status 1 means that the task has ended but its lessons could not be stored yet. A background "
        "job tries again."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE.json", help="- is standard input")

    def run(self, options: Options) -> int:
        team = team_of(options)
        data = read_document(CompletionIn, options["file"], partial(_with_number, team))
        result = complete_task(team=team, data=data, actor=ACTOR)
        self.print_answer(options, result.to_json(), describe_completion(result))
        return REJECTED if result.completion.learned_at is None else DONE


def _with_number(team: Team, document: object) -> object:
    """Put the task's number in place of its external ID."""
    if isinstance(document, Mapping) and isinstance(document.get("task_id"), str):
        return {**document, "task_id": find_named_task(team, document["task_id"], field="task_id")}
    return document


def describe_completion(result: CompletionResult) -> str:
    """Describe what was stored, then what was not and why."""
    answer = result.to_json()
    was = "" if result.is_new else " (already recorded)"
    lines = [f"Task {answer['task_id']} is {answer['state']}{was}."]
    if answer["pattern"]:
        lines.append(f"Pattern: {answer['pattern']}")
    lines += [f"stored {each['memory_type']} {each['id']}: {each['content']}" for each in answer["stored"]]
    lines += [f"not stored: {each['memory_type']}, {each['reason']}" for each in answer["not_stored"]]
    return "\n".join(lines)
