"""Simulates the placements of conversations, without storing anything."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from django.db import transaction
from django.utils import timezone
from pydantic import Field

from contextopt.assemblies.placement.prices import PriceBook
from contextopt.assemblies.placement.rehearsal import OnProgress, Outcome, Rehearsal, load_rehearsal, rehearse
from contextopt.assemblies.placement.scripts import ConversationFileIn, DatedRecordIn, QuestionIn, Script
from contextopt.engine.placement.prices import CachePrices
from contextopt.engine.prompts.config import MAX_PART_TOKENS
from contextopt.errors import InvalidInput
from contextopt.inputs import NUMBER, Text
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.inputs import SpaceIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space

SCENARIOS = (CachePrices(0.1, 1.25), CachePrices(0.5, 1.0))
CONTEXT_TOKENS = 2_000
TURNS = 15
RECORDS_MAX = 1_000
TURNS_MAX = 50

type Prepare = Callable[[Space], object]
"""Makes a space's records searchable."""


class SimulationIn(ConversationFileIn):
    """A conversation to play under each placement.

    With a `model`, its prices apply. Without one, two scenarios are compared: cached reads at 0.1 and writes
    at 1.25 of the input price, and cached reads at 0.5 and writes at 1.
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
    on_progress: OnProgress = lambda _: None,
) -> Iterator[Outcome]:
    """Yield the outcome of each placement, at the model's prices or in each scenario.

    A conversation of more than `turns` questions is split into several; a shorter remainder is dropped.

    Raises:
        InvalidInput: the model's prices are not known.
        InvalidValue: the budget is outside its range.
    """
    scenarios = (_prices_of(model),) if model else SCENARIOS
    conversations: list[Rehearsal] = []
    for number, script in enumerate(scripts, start=1):
        on_progress(f"loading conversation {number:,} of {len(scripts):,}")
        loaded = _load(team, script, actor, prepare, context_tokens)
        conversations += loaded.slices(min(turns, len(loaded.turns)))
    for prices in scenarios:
        yield from rehearse(conversations, prices, context_tokens=context_tokens, on_progress=on_progress)


def _prices_of(model: str) -> CachePrices:
    price = PriceBook().price(model, timezone.now().date())
    if price is None:
        raise InvalidInput.of(
            "model", f"the prices of {model!r} are not known; enter them under Model prices in the admin"
        )
    return price.cache


def _load(team: Team, script: Script, actor: str, prepare: Prepare, context_tokens: int) -> Rehearsal:
    """Load the script's candidates from a space that is rolled back: nobody sees it, and if the process is
    killed, nothing is left.
    """
    with transaction.atomic():
        slug = f"simulation-{secrets.token_hex(6)}"
        space = create_space(team=team, data=SpaceIn(slug=slug, name=script.name), actor=actor)
        upsert_records(space=space, rows=list(script.records), actor=actor)
        prepare(space)
        loaded = load_rehearsal(space, script, context_tokens=context_tokens)
        transaction.set_rollback(True)
    return loaded
