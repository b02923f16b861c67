"""`manage.py simulate_placement FILE`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from contextopt.assemblies.placement.rehearsal import CONTEXT_TOKENS, TURNS, parse_scripts, simulate
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, Options, Progress, ReportingCommand, team_of
from contextopt.management.documents import FILE, read_whole
from contextopt.management.upkeep import make_searchable
from contextopt.spaces.importing.dialogues import BYTES_MAX
from contextopt.spaces.records import SEARCHABLE


class Command(ReportingCommand):
    help = (
        "Play a conversation through under each placement, and print what its prompts cost after the "
        "provider's cache, and the recall of what is in sight. The file holds a conversation "
        '{"records": [...], "turns": [{"query", "answer", "expected"}]} or dialogues in the format of '
        "LoCoMo, whose questions are the turns. Its records are not stored. Prints one line per placement "
        "and price."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar=FILE, help="also gzipped; - is standard input")
        parser.add_argument(
            "--context-tokens",
            type=int,
            default=CONTEXT_TOKENS,
            metavar="N",
            help="budget of a context (2000)",
        )
        parser.add_argument(
            "--turns", type=int, default=TURNS, metavar="N",
            help="questions of a conversation; a longer dialogue becomes several (15)",
        )  # fmt: skip
        parser.add_argument(
            "--model", metavar="NAME", help="take this model's prices instead of .1/1.25 and .5/1.0"
        )

    def run(self, options: Options) -> int:
        if not 1 <= options["context_tokens"] <= MAX_PART_TOKENS:
            raise InvalidInput.of("--context-tokens", f"must be from 1 to {MAX_PART_TOKENS:,}")
        if options["turns"] < 1:
            raise InvalidInput.of("--turns", "must be at least 1")
        scripts = parse_scripts(read_whole(options["file"], BYTES_MAX))
        if not (scripts := [script for script in scripts if script.questions]):
            raise InvalidInput.of(FILE, "has no questions")
        progress = Progress(self.stderr)
        outcomes = simulate(
            team=team_of(options),
            scripts=scripts,
            context_tokens=options["context_tokens"],
            turns=options["turns"],
            model=options["model"] or "",
            actor=ACTOR,
            prepare=lambda space: make_searchable(self.stderr, SEARCHABLE, space.pk),
            on_progress=progress.show,
        )
        for outcome in outcomes:
            line = outcome.to_json()
            self.print_answer(options, line, describe_outcome(line))
        return DONE


def describe_outcome(line: Mapping[str, Any]) -> str:
    recall = "" if line["recall"] is None else f", recall {line['recall']:.3f}"
    return (
        f"{line['placement']:<7} read {line['read']:g}, write {line['write']:g}: "
        f"{line['cost']:,.0f} full-price tokens per prompt, {line['hit_rate']:.0%} from the cache{recall}"
    )
