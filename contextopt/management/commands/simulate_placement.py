"""`manage.py simulate_placement FILE`"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from contextopt.assemblies.placement.prices import cache_prices
from contextopt.assemblies.placement.rehearsal import (
    Rehearsal,
    load_rehearsal,
    recall_by_id,
    rehearse,
)
from contextopt.assemblies.placement.scripts import Script, parse_scripts
from contextopt.engine.placement.prices import CachePrices
from contextopt.engine.text.errors import InvalidValue
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, ReportingCommand, invalid_option, team_of
from contextopt.management.upkeep import make_searchable
from contextopt.models import Space, Team
from contextopt.search import registry
from contextopt.spaces.inputs import SpaceIn
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space, delete_space

SCENARIOS = (CachePrices(0.1, 1.25), CachePrices(0.5, 1.0))
CONTEXT_TOKENS = 2_000
TURNS = 15


class Command(ReportingCommand):
    help = (
        "Play a conversation through under each placement, and print what its prompts cost after the "
        "provider's cache, and the recall of what is in sight. The file holds a conversation "
        '{"records": [...], "turns": [{"query", "answer", "expected"}]} or dialogues in the format of '
        "LoCoMo, whose questions are the turns. Its records go into a space that is deleted afterwards."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE")
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

    def run(self, options: Mapping[str, Any]) -> int:
        if options["turns"] < 1:
            raise InvalidInput.of("--turns", "must be at least 1")
        team, model = team_of(options), options["model"]
        prices = (cache_prices(model, timezone.now().date()),) if model else SCENARIOS
        conversations: list[Rehearsal] = []
        with self._spaces(team, _read(options["file"])) as spaces:
            for space, script in spaces:
                try:
                    loaded = load_rehearsal(space, script, context_tokens=options["context_tokens"])
                except InvalidValue as error:
                    raise invalid_option(error) from error
                conversations += loaded.slices(min(options["turns"], len(loaded.turns)))
            for scenario in prices:
                for outcome in rehearse(
                    conversations, scenario, recall_by_id, context_tokens=options["context_tokens"]
                ):
                    self._print(outcome.to_json(), is_json=options["json"])
        return DONE

    def _print(self, line: dict[str, Any], *, is_json: bool) -> None:
        if is_json:
            self.print_json(line)
            return
        recall = "" if line["recall"] is None else f", recall {line['recall']:.3f}"
        self.stdout.write(
            f"{line['placement']:<7} read {line['read']:g}, write {line['write']:g}: "
            f"{line['cost']:,.0f} tokens' worth a prompt, {line['hit_rate']:.0%} from the cache{recall}"
        )

    @contextmanager
    def _spaces(self, team: Team, scripts: Sequence[Script]) -> Iterator[Iterator[tuple[Space, Script]]]:
        """Yield each conversation with a space that holds its records. The spaces are deleted at the end."""
        made: list[Space] = []

        def fill() -> Iterator[tuple[Space, Script]]:
            for script in scripts:
                slug = f"simulation-{secrets.token_hex(6)}"
                space = create_space(team=team, data=SpaceIn(slug=slug, name=script.name), actor=ACTOR)
                made.append(space)
                upsert_records(space=space, rows=list(script.records), actor=ACTOR)
                make_searchable(self.stderr, registry.get("record"), space.pk)
                yield space, script

        try:
            yield fill()
        finally:
            for space in made:
                delete_space(space=space)


def _read(name: str) -> list[Script]:
    try:
        scripts = parse_scripts(Path(name).read_bytes())
    except OSError as error:
        raise InvalidInput.of("FILE", f"cannot be read: {error.strerror}") from None
    if not any(script.questions for script in scripts):
        raise InvalidInput.of("FILE", "has no questions")
    return [script for script in scripts if script.questions]
