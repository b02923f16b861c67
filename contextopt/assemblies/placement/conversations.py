"""Reads what is known of a conversation: the blocks that the caller still holds, and its last prompt."""

from collections.abc import Iterable, Sequence

from django.utils import timezone

from contextopt.assemblies.candidates import SpaceInForce
from contextopt.assemblies.givens import unpack_givens
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import AssemblyPayload, Kind
from contextopt.engine.placement.choice import APPEND, AUTO, SYSTEM, Conversation, LastPrompt
from contextopt.engine.placement.sight import Block, read_block
from contextopt.engine.text.tokens import Tokenizer
from contextopt.errors import InvalidInput, NotFound


def load_conversation(
    team_id: int,
    space: SpaceInForce,
    request: AssemblyIn,
    tokenizer: Tokenizer,
    *,
    system_tokens: int | None,
    history_tokens: int | None,
) -> Conversation:
    """Return the conversation before the requested prompt.

    Raises:
        InvalidInput: blocks are named for a placement that keeps none.
        NotFound: a named block is not an assembly of the space.
    """
    if request.in_sight and request.placement not in {APPEND, AUTO}:
        raise InvalidInput.of("in_sight", "is only for the placements append and auto")
    blocks = _load_blocks(team_id, space, request.in_sight, tokenizer)
    last = _last_prompt(team_id, space.id, request)
    asked, history = 0, history_tokens or 0
    if request.query and (request.conversation or request.in_sight):
        asked = tokenizer.count(request.query)
        if request.history is not None and request.history.endswith(request.query):
            history = max(0, history - asked)
    return Conversation(system_tokens or 0, history, asked, blocks, last)


def _load_blocks(
    team_id: int, space: SpaceInForce, ids: Sequence[int], tokenizer: Tokenizer
) -> tuple[Block, ...]:
    """Read the named assemblies in their order in the conversation, which is the order of their ids."""
    if not ids:
        return ()
    found = {
        payload.assembly_id: payload
        for payload in AssemblyPayload.objects.select_related("assembly").filter(
            assembly__in=ids, assembly__team=team_id, assembly__space=space.id, assembly__kind=Kind.SPACE
        )
    }
    missing = next((one for one in ids if one not in found), None)
    if missing is not None:
        raise NotFound(f"There is no assembly {missing} of the space {space.slug!r} (in_sight).")
    return tuple(_read(found[one], tokenizer) for one in sorted(found))


def _read(payload: AssemblyPayload, tokenizer: Tokenizer) -> Block:
    order: list[int] = payload.ledger["order"]
    versions = _versions(payload, order)
    return read_block(
        payload.assembly_id,
        payload.text,
        [(record_id, versions.get(record_id, 0)) for record_id in order],
        tokenizer,
        after_tokens=_history_before(payload),
        question_tokens=payload.ledger.get("question_tokens", 0),
    )


def _history_before(payload: AssemblyPayload) -> int:
    """Return the tokens of history before the prompt's question."""
    row = payload.assembly
    if row.prompt_tokens is None:
        return int(payload.request.get("history_tokens", 0))
    system, asked = payload.request.get("system_tokens", 0), payload.ledger.get("question_tokens", 0)
    return int(row.prompt_tokens - system - row.tokens_after - asked)


def _versions(payload: AssemblyPayload, order: Iterable[int]) -> dict[int, int]:
    """Return the versions of the records in the text. Those of old assemblies are unknown, so never shown."""
    if payload.givens is None:
        return {}
    wanted = set(order)
    given = unpack_givens(bytes(payload.givens)).records
    return {one.id: one.version for one in given if one.is_candidate and one.id in wanted}


def _last_prompt(team_id: int, space_id: int, request: AssemblyIn) -> LastPrompt | None:
    """Return the last prompt of the named conversation, or else the one of the latest block."""
    rows = AssemblyPayload.objects.filter(
        assembly__team=team_id, assembly__space=space_id, assembly__kind=Kind.SPACE
    ).select_related("assembly")
    if request.conversation:
        rows = rows.filter(assembly__conversation=request.conversation)
    elif request.in_sight:
        rows = rows.filter(assembly=max(request.in_sight))
    else:
        return None
    payload = rows.order_by("-assembly__created_at", "-assembly_id").first()
    if payload is None:
        return None
    row = payload.assembly
    return LastPrompt(
        placement=row.placement or SYSTEM,  # type: ignore[arg-type]  # a check constraint holds its values
        text=payload.text,
        system_tokens=payload.request.get("system_tokens", 0),
        history_tokens=_history_before(payload),
        question_tokens=payload.ledger.get("question_tokens", 0),
        block_id=row.pk,
        idle_seconds=max(0.0, (timezone.now() - row.created_at).total_seconds()),
    )


def held_blocks(team_id: int, space: str, conversation: str) -> list[int]:
    """Return the blocks of a conversation that loses nothing, such as an agent's with its tools' results."""
    rows = AssemblyPayload.objects.filter(
        assembly__team=team_id, assembly__space__slug=space, assembly__conversation=conversation
    ).select_related("assembly")
    payload = rows.order_by("-assembly__created_at", "-assembly_id").first() if conversation else None
    if payload is None or payload.assembly.placement != APPEND:
        return []
    return [*payload.ledger.get("carried", []), payload.assembly_id]
