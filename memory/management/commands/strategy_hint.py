"""`manage.py strategy_hint --task TEXT --repository NAME`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from contextopt.management.base import ACTOR, DONE, ReportingCommand, parse_input, team_of
from memory.memories.inputs import HintIn
from memory.strategies.hints import Hint, give_hint


class Command(ReportingCommand):
    help = "Print a fenced hint with the plan that worked on a similar task in the repository."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--task", metavar="TEXT", required=True, help="description of the task to plan")
        parser.add_argument("--repository", metavar="NAME", default="", help="repository of the task")
        parser.add_argument("--task-id", metavar="N", help="stored task that the hint is for")
        parser.add_argument("--as-of", metavar="MOMENT", help="search as of this date or date-time")

    def run(self, options: Mapping[str, Any]) -> int:
        names = ("task", "repository", "task_id", "as_of")
        data = parse_input(HintIn, {name: options[name] for name in names})
        hint = give_hint(team=team_of(options), data=data, actor=ACTOR)
        self.print_answer(options, hint.to_json(), describe_hint(hint))
        return DONE


def describe_hint(hint: Hint) -> str:
    if hint.hint is None:
        return "No similar strategy."
    return f"{hint.hint}\n\nsimilarity {hint.similarity:.2f}, strategy {hint.memory_id}"
