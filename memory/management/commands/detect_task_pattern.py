"""`manage.py detect_task_pattern --task TEXT`"""

from django.core.management.base import CommandParser
from pydantic import BaseModel

from contextopt.engine.agents.taskpatterns import detect_task_pattern
from contextopt.errors import InvalidInput
from contextopt.inputs import Text
from contextopt.management.base import DONE, Options
from contextopt.management.documents import AnsweringCommand
from contextopt.management.fields import parse_input
from memory.memories.inputs import PatternIn


class Line(BaseModel):
    """A line of many tasks."""

    task: Text


class Command(AnsweringCommand):
    help = "Detect the kind of task from its description, in English or Norwegian."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--task", metavar="TEXT", help="description of the task")
        parser.add_argument(
            "--tasks",
            metavar="FILE.jsonl",
            help='a file with one {"id": …, "task": …} per line; prints one JSON line for each',
        )

    def run(self, options: Options) -> int:
        if (options["task"] is None) == (options["tasks"] is None):
            raise InvalidInput.of("--task", "give either --task or --tasks")
        if options["tasks"] is not None:
            return self.answer_lines(
                options["tasks"],
                lambda own: {"pattern": detect_task_pattern(Line.model_validate(own).task)},
            )
        pattern = detect_task_pattern(parse_input(PatternIn, {"task": options["task"]}).task)
        self.print_answer(options, {"pattern": pattern}, pattern)
        return DONE
