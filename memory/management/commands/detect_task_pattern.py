"""`manage.py detect_task_pattern --task TEXT`"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from pydantic import BaseModel, StrictInt, ValidationError

from contextopt.engine.agents.taskpatterns import detect_task_pattern
from contextopt.errors import InvalidInput
from contextopt.inputs import Text, field_problems
from contextopt.management.answers import AnsweringCommand
from contextopt.management.base import DONE, parse_input
from contextopt.spaces.importing import Rejection, check_input, open_input, read_file
from memory.memories.inputs import PatternIn


class Line(BaseModel):
    """A line of many tasks."""

    id: StrictInt | Text
    task: Text


class Command(AnsweringCommand):
    help = "Say what kind of task a description asks for, in English or Norwegian."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--task", metavar="TEXT", help="what is to be done")
        parser.add_argument(
            "--tasks",
            metavar="FILE.jsonl",
            help='many at once: {"id": …, "task": …} a line; one JSON line each',
        )

    def run(self, options: Mapping[str, Any]) -> int:
        if (options["task"] is None) == (options["tasks"] is None):
            raise InvalidInput.of("--task", "give either --task or --tasks")
        if options["tasks"] is not None:
            return self.print_answers(_answers(options["tasks"]))
        pattern = detect_task_pattern(parse_input(PatternIn, {"task": options["task"]}).task)
        if options["json"]:
            self.print_json({"pattern": pattern})
        else:
            self.stdout.write(pattern)
        return DONE


def _answers(name: str) -> Iterator[dict[str, Any] | Rejection]:
    check_input(name)
    with open_input(name) as stream:
        for row in read_file(stream, name, format="jsonl"):
            if isinstance(row, Rejection):
                yield row
                continue
            try:
                line = Line.model_validate(row.fields)
            except ValidationError as error:
                problem = field_problems(error)[0]
                yield Rejection(row.line, problem.field.split(".")[0], problem.message)
            else:
                yield {"id": line.id, "pattern": detect_task_pattern(line.task)}
