"""Recognises conversations, and remembers where the blocks of each stand.

Clients send the whole history with each prompt, but without our blocks. So the place of each block is stored:
the number of user texts before its own, and that text's hash.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.crypto import salted_hmac

from contextopt.assemblies.inputs import IN_SIGHT_MAX
from contextopt.assemblies.models import AssemblyPayload
from contextopt.engine.placement.choice import APPEND, AUTO, SYSTEM
from contextopt.gateway.admission import Admission
from contextopt.gateway.models import GatewayRequest, Mode
from contextopt.gateway.protocols.prompts import Prompt, Turn

REMEMBERED_MAX = 5_000


class BlockPlace(NamedTuple):
    """Where a block stands: before the user text of this number, which has this hash."""

    turn: int
    digest: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The context of a conversation's latest question: its blocks by assembly, in order, the newest last."""

    place: BlockPlace
    placement: str
    assembly_id: int
    blocks: Mapping[int, BlockPlace]
    tokens: int = 0
    carries_on: bool = False

    def standing(self, turns: Sequence[Turn]) -> dict[int, Turn]:
        """Return the blocks whose user text is still at its place."""
        return {
            assembly_id: turns[place.turn]
            for assembly_id, place in self.blocks.items()
            if place.turn < len(turns) and turns[place.turn].digest == place.digest
        }


@dataclass(slots=True)
class Conversation:
    """A conversation, as this process remembers it. `mode` is that of its requests."""

    name: str
    mode: Mode
    plan: Plan | None = None
    is_loaded: bool = False
    # In audit mode: the latest question, and the id drawn for its context, which is decided after the answer.
    drawn: tuple[BlockPlace, int] | None = None
    # Done once the latest context is logged, which the next one needs. The result is False if it was lost.
    logged: asyncio.Future[bool] | None = None

    def needs_log(self, prompt: Prompt) -> bool:
        """Tell whether earlier contexts may only be in the log: the prompt continues a conversation that this
        process does not remember.
        """
        return not self.is_loaded and (len(prompt.turns) > 1 or prompt.ends_in_tool_results)


class Conversations:
    """The latest conversations of this process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Mode], Conversation] = OrderedDict()

    def find(self, name: str, mode: Mode) -> Conversation:
        conversation = self._known.pop((name, mode), None) or Conversation(name, mode)
        self._known[name, mode] = conversation
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return conversation


def name_conversation(admission: Admission, given: str, prompt: Prompt) -> str:
    """Return a hash that identifies a conversation: of the caller's name for it, or of its beginning."""
    scope = f"{admission.key.first_id}:{admission.space.id if admission.space else ''}"
    parts = ("named", given) if given else ("begins", prompt.first_system_text, prompt.first_text)
    text = "\0".join((scope, *parts))
    return salted_hmac("contextopt.gateway.conversations", text, algorithm="sha256").hexdigest()


def mark_of(name: str) -> str:
    """Return a stable text that nobody can guess, to mark where records begin and end."""
    return salted_hmac("contextopt.gateway.marks", name).hexdigest()[:8]


def mode_of(admission: Admission, name: str) -> Mode:
    """Return insert mode if the space is in it and the conversation is in its share, else audit mode."""
    policy = admission.policy
    is_chosen = int(name[:8], 16) % 100 < policy.insert_percent
    return Mode.INSERT if admission.space and policy.mode == Mode.INSERT and is_chosen else Mode.AUDIT


def place_of(prompt: Prompt) -> BlockPlace:
    """Return the place of the block for the last user text."""
    return BlockPlace(len(prompt.turns) - 1, prompt.turns[-1].digest)


def load_plan(
    admission: Admission, conversation: Conversation, place: BlockPlace | None = None
) -> Plan | None:
    """Read a conversation's latest plan from the log, or that of the question at `place`."""
    rows = GatewayRequest.objects.filter(
        team=admission.key.team_id,
        conversation=conversation.name,
        mode=conversation.mode,
        assembly__isnull=False,
        turn__isnull=False,
    ).newest_first()
    places = {
        row.assembly_id: BlockPlace(row.turn or 0, row.question_hash)
        for row in reversed(rows.only("assembly_id", "turn", "question_hash")[:IN_SIGHT_MAX])
        if row.assembly_id is not None
    }
    wanted = [one for one, its_place in places.items() if place in {None, its_place}]
    payload = (
        AssemblyPayload.objects.select_related("assembly").filter(assembly__in=wanted)
        .order_by("-assembly").first()
    )  # fmt: skip
    if payload is None:
        return None
    row = payload.assembly
    ids = [one for one in (*payload.ledger.get("carried", []), row.pk) if one in places]
    return Plan(
        place=places[row.pk],
        placement=row.placement or SYSTEM,
        assembly_id=row.pk,
        blocks={one: places[one] for one in ids},
        tokens=row.tokens_after,
        carries_on=admission.policy.placement in {APPEND, AUTO},
    )
