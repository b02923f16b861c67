"""Simulates the placements of conversations whose records go into spaces that are deleted afterwards."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from django.utils import timezone
from pydantic import Field

from contextopt.assemblies.placement.prices import cache_prices
from contextopt.assemblies.placement.rehearsal import Outcome, Rehearsal, load_rehearsal, rehearse
from contextopt.assemblies.placement.scripts import ConversationFileIn, DatedRecordIn, QuestionIn, Script
from contextopt.engine.placement.prices import CachePrices
from contextopt.engine.prompts.config import MAX_PART_TOKENS
from contextopt.inputs import NUMBER, Text
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.inputs import SpaceIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space, delete_space

SCENARIOS = (CachePrices(0.1, 1.25), CachePrices(0.5, 1.0))
CONTEXT_TOKENS = 2_000
TURNS = 15
RECORDS_MAX = 1_000
TURNS_MAX = 50

type Prepare = Callable[[Space], object]
"""Makes a space's records searchable."""


class SimulationIn(ConversationFileIn):
    """A conversation to play through under each placement.

    With a `model`, its prices hold. Without one, two kinds are tried: cached reads at .1 and writes at 1.25
    of the input price, and reads at .5 and writes at 1.
    """

    records: Annotated[list[DatedRecordIn], Field(min_length=1, max_length=RECORDS_MAX)]
    turns: Annotated[list[QuestionIn], Field(min_length=1, max_length=TURNS_MAX)]
    context_tokens: Annotated[int, Field(ge=1, le=MAX_PART_TOKENS), NUMBER] = CONTEXT_TOKENS
    model: Annotated[Text, Field(max_length=MODEL_MAX)] = ""

    def to_script(self) -> Script:
        return Script(self.name, tuple(self.records), tuple(self.turns))


def simulate(
    *,
    team: Team,
    scripts: Sequence[Script],
    context_tokens: int,
    turns: int,
    model: str,
    actor: str,
    prepare: Prepare,
) -> Iterator[Outcome]:
    """Yield the outcome of each placement, at the model's prices or in each scenario.

    A conversation of more than `turns` questions becomes several; a shorter rest falls away.

    Raises:
        InvalidValue: the budget is outside its range.
    """
    scenarios = (cache_prices(model, timezone.now().date()),) if model else SCENARIOS
    conversations: list[Rehearsal] = []
    with _spaces(team, scripts, actor, prepare) as spaces:
        for space, script in spaces:
            loaded = load_rehearsal(space, script, context_tokens=context_tokens)
            conversations += loaded.slices(min(turns, len(loaded.turns)))
        for prices in scenarios:
            yield from rehearse(conversations, prices, context_tokens=context_tokens)


@contextmanager
def _spaces(
    team: Team, scripts: Sequence[Script], actor: str, prepare: Prepare
) -> Iterator[Iterator[tuple[Space, Script]]]:
    """Yield each conversation with a space that holds its records. The spaces are deleted at the end."""
    made: list[Space] = []

    def fill() -> Iterator[tuple[Space, Script]]:
        for script in scripts:
            slug = f"simulation-{secrets.token_hex(6)}"
            space = create_space(team=team, data=SpaceIn(slug=slug, name=script.name), actor=actor)
            made.append(space)
            upsert_records(space=space, rows=list(script.records), actor=actor)
            prepare(space)
            yield space, script

    try:
        yield fill()
    finally:
        for space in made:
            delete_space(space=space)
