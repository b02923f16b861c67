"""`manage.py strategy_hint --task TEXT --repository NAME`"""

from django.core.management.base import CommandParser

from contextopt.management.base import ACTOR, DONE, Options, ReportingCommand, team_of
from contextopt.management.fields import add_fields, read_fields
from memory.memories.inputs import HintIn
from memory.strategies.hints import Hint, give_hint


class Command(ReportingCommand):
    help = "Print a fenced hint with the plan that worked on a similar task in the repository."

    def add_options(self, parser: CommandParser) -> None:
        about = {
            "task": "description of the task to plan, required",
            "repository": "repository of the task",
            "task_id": "stored task that the hint is for",
            "as_of": "search as of this date or date-time",
        }
        add_fields(parser, HintIn, about)

    def run(self, options: Options) -> int:
        data = read_fields(HintIn, options)
        hint = give_hint(team=team_of(options), data=data, actor=ACTOR)
        self.print_answer(options, hint.to_json(), describe_hint(hint))
        return DONE


def describe_hint(hint: Hint) -> str:
    if hint.hint is None:
        return "No similar strategy."
    parts = [f"words {_percent(hint.word_share)}"]
    if hint.similarity is not None:
        parts.append(f"meaning {_percent(hint.similarity)}")
    if hint.same_pattern:
        parts.append("same pattern")
    match = f"match {_percent(hint.match_score)} ({', '.join(parts)})"
    return f"{hint.hint}\n\n{match}, strategy {hint.memory_id}"


def _percent(share: float | None) -> str:
    return f"{share or 0.0:.0%}".replace("%", " %")
